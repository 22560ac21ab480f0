"""Compare a build with the accepted verdicts of ``book/ledger.lock.json``, or accept its own, with the reason.

On every processor the verdict and the test of a row have to be the accepted ones, and no row may appear or vanish. A
number may differ: one that moved far is listed, and fails nothing. What was accepted instead of what, and why, stands
in ``book/verdict-changes.yml``, of which the page *Verdicts that changed* is made.
"""

import json
import re
from datetime import UTC, datetime
from pathlib import Path

import yaml

from lib.ledger import bound, number
from workflow.book.catalogue import BookError, json_of, text_of, write_atomic, write_record
from workflow.book.ledger import CHANGES, GONE, LEDGER, address, commit, room, same_bound

LOCK, DIFFERENCES = Path("book/ledger.lock.json"), Path("build/differences.json")
README, COUNTED = Path("README.md"), re.compile(r"\d+ chapters make \d+ checked rows")
FIELDS = ("chapter", "name", "verdict", "measured", "kind", "relation", "bound", "statement")
SHOWN = 3  # numbers listed of those that moved
REMEDY = f"""If you changed the code and mean this, make accept WHY='the reason' writes it into {LOCK} and {CHANGES}.
If you changed nothing, build a fresh clone; if it comes again, please report it with {DIFFERENCES} and {LEDGER}."""
HEADS = {
    "turned": "Rows whose verdict is not the accepted one",
    "test": "Rows whose test is not the accepted one",
    "new": "Rows without an accepted verdict",
    "vanished": "Accepted rows that no chapter made",
}


def read_lock():
    """Read the lock: seconds of chapters, and accepted rows by id."""
    try:
        contents = json.loads(LOCK.read_text("utf-8")) if LOCK.exists() else {}
    except ValueError as error:
        raise BookError(f"{LOCK} is not JSON ({error}): mend it by hand, or take that of git") from None
    return {"seconds": {}, "rows": {}} | contents


def built():
    """Rows of this build by id."""
    return {row["id"]: row for row in json_of(LEDGER)["claims"]}


def differences(rows, accepted):
    """Rows that differ from the accepted ones, an entry each; of numbers those that moved far.

    A row is known by its address, so that a chapter may move to another part of the book.
    """
    here, there = ({address(name): (name, row) for name, row in part.items()} for part in (rows, accepted))
    entries = []
    for place in sorted(here.keys() | there.keys()):
        (name, new), (known, old) = here.get(place, (None, None)), there.get(place, (None, None))
        if change := _change(new, old):
            entries.append({"id": name or known, "change": change, "accepted": old, "built": new and _fields(new)})
    return entries


def _fields(row):
    return {field: row[field] for field in FIELDS}


def _change(new, old):
    """Kind of difference between a row and the accepted one, "" where there is none."""
    if old is None or new is None:
        return "vanished" if new is None else "new"
    if new["verdict"] != old["verdict"]:
        return "turned"
    moved = abs(new["measured"] - old["measured"]) > room(old["measured"], old["bound"])
    # A number of other words is another statistic if it moved.
    other_words = new["statement"] != old["statement"] and moved
    other_kind = (new["kind"], new["relation"]) != (old["kind"], old["relation"])
    if other_words or other_kind or not same_bound(new["bound"], old["bound"]):
        return "test"
    return "moved" if moved else ""


def line(entry):
    """A difference in one line."""
    new, old = entry["built"], entry["accepted"]
    if entry["change"] == "new":
        return f"{entry['id']}: new, {words(new)}"
    if entry["change"] == "vanished":
        return f"{entry['id']}: vanished; was {words(old)}"
    if entry["change"] == "moved":
        return f"{entry['id']}: {number(old['measured'])} -> {number(new['measured'])}"
    return f"{entry['id']}: {words(old)} -> {words(new)}"


def words(row):
    """A row's verdict and test in words."""
    asked = bound(row["relation"], row["bound"])
    return f"{row['verdict'] or 'baseline'}; {row['statement']}: {number(row['measured'])}" + f", {asked}" * bool(asked)


def compare():
    """List the numbers that moved far; raise BookError on any other difference."""
    entries = differences(built(), read_lock()["rows"])
    write_record(DIFFERENCES, entries)
    report_moved(entries)
    lines = []
    for change, head in HEADS.items():
        if group := [entry for entry in entries if entry["change"] == change]:
            lines += [f"{head} ({len(group)}):", *(f"  {line(entry)}" for entry in group)]
    if lines:
        raise BookError("\n".join([*lines, REMEDY]))


def report_moved(entries):
    """Say how many numbers moved far, and show those that moved most of their way to the bound."""
    moved = [entry for entry in entries if entry["change"] == "moved"]

    def share(entry):
        old = entry["accepted"]
        return abs(entry["built"]["measured"] - old["measured"]) / (room(old["measured"], old["bound"]) or 1e-300)

    if moved:
        print(
            f"{len(moved)} numbers are far from the accepted ones, by a tenth of their way to the bound. That is"
            " no fault while their verdicts stay. The farthest:"
        )
        print("".join(f"  {line(entry)}\n" for entry in sorted(moved, key=share, reverse=True)[:SHOWN]), end="")


def accept(chapters, why):
    """Accept the rows of some chapters as this build has them, and note what changed and why.

    Raises
    ------
    BookError
        If a verdict or a test changed, or a row vanished, and no reason is given.
    """
    rows, lock = built(), read_lock()
    mine = [entry for entry in differences(rows, lock["rows"]) if chapters & _chapters(entry)]
    noted = [entry for entry in mine if entry["change"] in ("turned", "test", "vanished")]
    if noted and not why:
        raise BookError("\n".join(["Say why, make accept WHY='the reason':", *map(line, noted)]))
    accepted = {name: row for name, row in lock["rows"].items() if row["chapter"] not in chapters}
    accepted |= {name: _fields(row) for name, row in rows.items() if row["chapter"] in chapters}
    took = json_of(LEDGER)["environment"]["seconds"]
    seconds = {name: old for name, old in lock["seconds"].items() if name in took}
    seconds |= {name: _steady(seconds.get(name), took[name]) for name in took.keys() & chapters}
    write_record(LOCK, {"seconds": dict(sorted(seconds.items())), "rows": dict(sorted(accepted.items()))})
    note(noted, why)
    count(rows)
    print("\n".join(map(line, mine)) or "nothing left its accepted value")


def count(rows):
    """Write into the README how many chapters and rows there are."""
    if README.exists():
        counted = f"{len({row['chapter'] for row in rows.values()})} chapters make {len(rows)} checked rows"
        write_atomic(README, COUNTED.sub(counted, text_of(README)))


def _chapters(entry):
    """Chapters that have or had a row."""
    return {row["chapter"] for row in (entry["built"], entry["accepted"]) if row}


def note(entries, why):
    """Add changes to the list of changes."""
    text = text_of(CHANGES) if CHANGES.exists() else ""
    for entry in entries:
        new, about = entry["built"], {"rows": [entry["id"]], "when": datetime.now(UTC).date(), "commit": commit()}
        about |= {"was": words(entry["accepted"]), "now": words(new) if new else GONE, "why": why}
        about |= {"test": "changed"} if _test_changed(entry) else {}
        text += yaml.safe_dump([about], sort_keys=False, allow_unicode=True, width=120)
    if entries:
        write_atomic(CHANGES, text)


def _test_changed(entry):
    """Whether a row's test is another one, whatever its verdict."""
    new, old = entry["built"], entry["accepted"]
    return new is not None and _change(new | {"verdict": old["verdict"]}, old) == "test"


def _steady(old, new):
    """Seconds of a chapter: those accepted before, unless it took three times or a third as long, or is short."""
    return old if old and (max(old, new) < 30 or old / 3 <= new <= 3 * old) else max(1, round(new))
