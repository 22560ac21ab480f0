"""Compare the ledger of a build with the accepted verdicts and numbers of ``book/ledger.lock.json``, or accept its own.

A verdict has to be the accepted one on every processor. A number has to be within its tolerance where the lock knows
the kind of processor (``workflow/run/processor.py``): how far it moves was measured there, and on no other kind.
"""

import json
import math
from pathlib import Path

from lib.ledger import bound, plain
from workflow.book.catalogue import BookError, json_of, text_of, write_atomic, write_record, yaml_of
from workflow.book.dependencies import recorded_hash
from workflow.book.ledger import GONE, LEDGER, address, commit, spreads

LOCK, DIFFERENCES = Path("book/ledger.lock.json"), Path("build/differences.json")
FIELDS, ABOUT = ("verdict", "measured", "tolerance"), ("item", "statement", "relation", "bound")
SHOWN = 3  # numbers listed of those that differ without failing the build
REMEDY = f"""If you changed the code and mean this, make accept writes it into {LOCK}.
If you changed nothing, build a fresh clone; if it comes again, please report it with {DIFFERENCES} and {LEDGER}."""


def read_lock():
    """Read the lock: rows by id; of each kind of processor the rows not measured there; code, seconds of chapters."""
    try:
        contents = json.loads(LOCK.read_text("utf-8")) if LOCK.exists() else {}
    except ValueError as error:
        raise BookError(f"{LOCK} is not JSON ({error}): mend it by hand, or take that of git") from None
    return {"kinds": {}, "code": {}, "seconds": {}, "rows": {}} | contents


def _measured_on(lock, name):
    """Kinds of processor on which the accepted number of a row was measured."""
    return {kind for kind, lacking in lock["kinds"].items() if name in lock["rows"] and name not in lacking}


def _compared():
    """Rows of the ledger by id, and the kind of each chapter."""
    ledger = json_of(LEDGER)
    return {row["id"]: row for row in ledger["claims"]}, ledger["environment"]["kinds"]


def _unknown():
    """Kind of processor of each accepted row that was not measured on it before, by the row's id."""
    rows, kinds = _compared()
    lock = read_lock()
    here = {name: kinds[row["chapter"]] for name, row in rows.items() if name in lock["rows"]}
    return {name: kind for name, kind in here.items() if kind not in _measured_on(lock, name)}


def differences():
    """Rows that are new, vanished, have another verdict, or left their tolerance, an entry each."""
    rows, _ = _compared()
    accepted, unknown, entries = read_lock()["rows"], _unknown(), []
    may_turn = {name for name, move in spreads().items() if "turned" in move}
    for name in sorted(rows.keys() | accepted.keys()):
        new, old = rows.get(name), accepted.get(name)
        if change := _change(new, old, name in may_turn):
            entry = {"id": name, "change": change, "known": name not in unknown}
            entry |= {field: new[field] for field in ABOUT} if new else {}
            entry |= {"accepted": old, "built": new and {field: new[field] for field in FIELDS}}
            entries.append(entry)
    return entries


def _change(new, old, may_turn):
    """Kind of difference between a row and the accepted one, "" where there is none."""
    if old is None or new is None:
        return "vanished" if new is None else "new"
    if new["verdict"] != old["verdict"] and not may_turn:
        return "turned"
    if not math.isclose(new["measured"], old["measured"], rel_tol=0, abs_tol=old["tolerance"]):
        return "moved"
    past = new["bound"] is not None and old["tolerance"] > abs(old["measured"] - new["bound"]) * (1 + 1e-9)
    return "too wide" if past and not may_turn else ""


def line(entry):
    """A difference in one line."""
    built, accepted = entry["built"], entry["accepted"]
    if entry["change"] == "new":
        said = f"new, {_words(built)}"
    elif entry["change"] == "vanished":
        said = f"vanished; was {_words(accepted)}"
    elif entry["change"] == "turned":
        asked = bound(entry["relation"], entry["bound"]) or "none"
        said = f"{_words(accepted)} -> {_words(built)}; bound: {asked}"
    elif entry["change"] == "moved":
        said = f"{accepted['measured']:.6g} -> {built['measured']:.6g}, tolerance {accepted['tolerance']:.3g}"
    else:
        asked = bound(entry["relation"], entry["bound"])
        said = f"the accepted tolerance {accepted['tolerance']:.3g} reaches past the bound, {asked}"
    return f"{entry['id']}: {said}"


def _words(row):
    return f"{row['verdict'] or 'baseline'} ({row['measured']:.6g})"


def compare():
    """Print the numbers that left their tolerance on an unknown kind of processor; fail on any other difference."""
    entries = differences()
    write_record(DIFFERENCES, entries)
    digits = [entry for entry in entries if entry["change"] in ("moved", "too wide")]
    reported = [entry for entry in digits if not entry["known"]]
    failing = [entry for entry in entries if entry not in reported]
    _report(reported, failing)
    heads = {
        "turned": "Rows whose verdict is not the accepted one",
        "new": "Rows without an accepted verdict",
        "vanished": "Accepted rows that no chapter made",
        "moved": "Numbers that left their tolerance where their kind of processor is known",
        "too wide": "Rows whose accepted tolerance does not fit their bound",
    }
    lines = []
    for change, head in heads.items():
        if group := [entry for entry in failing if entry["change"] == change]:
            lines += [f"{head} ({len(group)}):", *map(_explained, group)]
    if lines:
        raise BookError("\n".join([*lines, REMEDY]))


def _explained(entry):
    """A difference for a reader: what the row says, and below it what changed."""
    about = f"  {entry['item']}: {plain(entry['statement'])}\n  " if "item" in entry else ""
    return f"{about}  {line(entry)}"


def _report(moved, failing):
    """Print one paragraph on the numbers of kinds of processor on which they were not measured before."""
    if not (unknown := _unknown()):
        return

    def excess(entry):
        move, tolerance = entry["built"]["measured"] - entry["accepted"]["measured"], entry["accepted"]["tolerance"]
        return abs(move) / tolerance if tolerance else math.inf

    worst = sorted(moved, key=excess, reverse=True)[:SHOWN]
    said = "" if failing else " The verdicts are the accepted ones, and the build succeeds."
    print(
        f"{len(moved)} of {len(unknown)} numbers left their tolerance on a kind of processor where they were not"
        f" measured before ({'; '.join(sorted(set(unknown.values())))}).{said}"
    )
    print("".join(f"  {line(entry)}\n" for entry in worst), end="")
    listed = f"The whole list: {DIFFERENCES}. " * bool(moved)
    print(f"{listed}To add this kind of processor to {LOCK}: make accept", flush=True)


def accept():
    """Accept the rows of this build, and say what that changes and which spreads are not measured.

    A number within its tolerance stays as it was and gains this kind of processor. A row that left it, whose tolerance
    was measured anew, or whose chapter has other code, is replaced, and only this kind of processor has measured it.
    """
    rows, _ = _compared()
    entries, known = differences(), read_lock()["kinds"].keys()
    lock = _renewed({entry["id"] for entry in entries})
    write_record(LOCK, lock)
    note_gone([entry for entry in entries if entry["change"] == "vanished"])
    print("\n".join(map(line, entries)) or "nothing left its accepted value")
    for kind in lock["kinds"].keys() - known:
        print(f"{LOCK} now knows this kind of processor: {kind}")
    if unmeasured := sorted({row["chapter"] for row in rows.values() if row["spread"] is None}):
        print(f'of some rows no spread is measured: make roundings RECORD=1 NAME="{" ".join(unmeasured)}"')


def note_gone(vanished):
    """Note rows that vanished, for readers of their addresses; a chapter that moved keeps its addresses."""
    text = text_of(GONE) if GONE.exists() else ""
    noted, taken = (yaml_of(GONE) or {}) if text else {}, {address(row["id"]) for row in json_of(LEDGER)["claims"]}
    new = [entry for entry in vanished if entry["id"] not in noted and address(entry["id"]) not in taken]
    for entry in new:
        became = f"was {_words(entry['accepted'])}; not in the build of {commit()} any more"
        text += f"{entry['id']}: {json.dumps(became)}\n"
    if new:
        write_atomic(GONE, text)
        print(f"{GONE} has their last values; say there what became of them: {', '.join(e['id'] for e in new)}")


def _renewed(differing):
    """Lock with the rows of this build, of which those in ``differing`` are not the accepted ones."""
    rows, kinds = _compared()
    lock = read_lock()
    code = {chapter: recorded_hash(chapter) for chapter in {row["chapter"] for row in rows.values()}}
    accepted, on = {}, {}
    for name, row in rows.items():
        chapter, old = row["chapter"], lock["rows"].get(name)
        same = name not in differing and lock["code"].get(chapter) == code[chapter]
        # a tolerance follows its number a little
        same = same and math.isclose(row["tolerance"], old["tolerance"], rel_tol=0.1)
        accepted[name] = old if same else {field: row[field] for field in FIELDS}
        on[name] = {kinds[chapter]} | (_measured_on(lock, name) if same else set())
    lacking = {
        kind: [name for name in sorted(on) if kind not in on[name]] for kind in sorted(set().union(*on.values()))
    }
    known, took = lock["seconds"], json_of(LEDGER)["environment"]["seconds"]
    seconds = {name: _steady(known.get(name), took.get(name)) for name in code}
    parts = {"kinds": lacking, "code": code, "seconds": seconds, "rows": accepted}
    return {name: dict(sorted(part.items())) for name, part in parts.items()}


def _steady(old, new):
    """Seconds of a chapter: those accepted before, unless it took three times or a third as long, or is short."""
    return old if new is None or (old and (max(old, new) < 30 or old / 3 <= new <= 3 * old)) else max(1, round(new))
