"""Collect the claims of every chapter into the ledger."""

import math
import tomllib
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from platform import python_version

from packaging.requirements import Requirement

from lib.ledger import MIME, VERDICTS
from workflow.book.catalogue import BookError, chapters, json_of, write_record, yaml_of
from workflow.book.dependencies import PROJECT

FIELDS = (
    "name", "paper", "item", "statement", "quote", "kind", "of", "source", "scale", "set", "measured", "interval",
    "bound", "relation", "recorded", "verdict", "breaks", "note",
)  # fmt: skip
PLURALS = {  # plurals of verdicts that are verbs
    "breaks the claim": "break the claim",
    "does not break the claim": "do not break the claim",
}
STATEMENTS = "book/statements.yml"
MOVED = Path("book/moved.yml")
LEDGER = Path("build/ledger.json")
CHANGES, GONE = Path("book/verdict-changes.yml"), "the row is gone"


def rows_of(notebook):
    """Rows that an executed notebook carries in its outputs."""
    outputs = (output for cell in notebook.cells for output in cell.get("outputs", []))
    return [row for output in outputs for row in output.get("data", {}).get(MIME, [])]


def tally(rows):
    """Verdicts in words: ``4 reproduced, 1 not reproduced``; a dash for nothing."""
    counts = Counter(row["verdict"] for row in rows)
    several = {verdict: PLURALS.get(verdict, verdict) for verdict, count in counts.items() if count > 1}
    words = [f"{counts[verdict]} {several.get(verdict, verdict)}" for verdict in VERDICTS if counts[verdict]]
    return ", ".join(words) or "–"


def room(measured, bound=None):
    """How far a number may move before a build lists it: a tenth of its way to the bound, or of itself 5 %."""
    return abs(measured) / 20 if bound is None else abs(measured - bound) / 10


def same_bound(new, old):
    """Whether two bounds are one; a bound that is computed may move by rounding."""
    return new == old or (None not in (new, old) and math.isclose(new, old, rel_tol=1e-2))


def moved_chapters():
    """Chapters that became a part of another, ``to``, with the names of their rows there and in their ids."""
    return (yaml_of(MOVED) or {}) if MOVED.exists() else {}


def kept_ids():
    """Ids of the rows that came from another chapter, by where they stand now: rows keep their ids."""
    return {
        f"{moved['to']}/{name}": f"{old}/{known}"
        for old, moved in moved_chapters().items()
        for name, known in moved["rows"].items()
    }


def changes():
    """Changes as they were noted, the oldest first."""
    return (yaml_of(CHANGES) or []) if CHANGES.exists() else []


def rows_of_changed_tests():
    """Ids of the rows whose test changed when its result was known: their bounds count as set after."""
    return {name for change in changes() if "test" in change for name in change["rows"]}


def by_place(rows):
    """Rows by their ids, and by chapter and name, which is another where a row came from another chapter."""
    rows = list(rows)
    places = {f"{row['chapter']}/{row['name']}": row for row in rows if "name" in row}
    return places | {row["id"]: row for row in rows if "id" in row}


def register():
    """Papers of ``book/statements.yml``."""
    contents = yaml_of(STATEMENTS)
    _complete(STATEMENTS, contents, "papers")
    for k, paper in enumerate(contents["papers"], 1):
        _complete(f"paper {k} of {STATEMENTS}", paper, "arxiv", "title", "short", "items")
        for j, item in enumerate(paper["items"], 1):
            _complete(f"item {j} of paper {k} in {STATEMENTS}", item, "item", "title")
    return contents["papers"]


def _complete(what, entry, *fields):
    if missing := [field for field in fields if not isinstance(entry, dict) or field not in entry]:
        raise BookError(f"{what} lacks {' and '.join(missing)}: write {' and '.join(fields)}")


def ledger():
    """Rows of the ledger of this build."""
    return json_of(LEDGER)["claims"]


def address(name):
    """Address of a row on the page of all rows: without the part of the book, so that a chapter may move."""
    return "/".join(name.split("/")[-2:])


def claims_of(rows, whose):
    """Claims among some rows that are of a paper, or of the book."""
    return [row for row in rows if (row["of"], row["kind"]) == (whose, "claim")]


def reports():
    """Results of each chapter's run for the ledger, in reading order."""
    return [json_of(Path("build/claims", chapter + ".json")) for chapter in chapters()]


def direct_dependencies():
    """Distributions that pyproject.toml names for the library and the book, sorted."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    groups = project["optional-dependencies"]
    listed = sum((groups[name] for name in ("figures", "data", "book")), project["dependencies"])
    return sorted(Requirement(line).name for line in listed)


def environment(runs):
    """Origin of the numbers: sources, day, machine and versions."""
    return {
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": ", ".join(sorted({run["cpu"] for run in runs})),
        "seconds": {run["chapter"]: run["seconds"] for run in runs},
        "threads": max((run["threads"] for run in runs), default=1),
        "python": python_version(),
    } | {name: version(name) for name in direct_dependencies()}


def commit():
    """Commit and day of the sources as the workflow has noted them, ``a1b2c3d 2026-01-31 with changes``."""
    noted = Path("build/commit")
    return noted.read_text("utf-8").strip() if noted.exists() else "unknown"


def placed(chapter, rows):
    """Rows of a chapter with its name and their ids; a bound whose test changed counts as set after."""
    kept, changed = kept_ids(), set(map(address, rows_of_changed_tests()))
    for row in rows:
        name = f"{chapter}/{row['name']}"
        name = kept.get(name, name)
        after = {"set": "after"} if row["set"] and address(name) in changed else {}
        yield {"id": name, "chapter": chapter} | row | after


def collect(sources=""):
    """Write the ledger, which carries the hash of its sources, or say which rows cannot stand in it."""
    runs, claims, faults, places = reports(), {}, [], {}
    known = {(paper["arxiv"], item["item"]) for paper in register() for item in paper["items"]}
    for run in runs:
        claimed = {(row["paper"], row["item"]) for row in run["rows"] if row["kind"] == "claim"}
        for row in placed(run["chapter"], run["rows"]):
            name, about = row["id"], (row["paper"], row["item"])
            if name in claims:
                faults.append(f"{name}: two rows of this chapter have the name {row['name']!r}")
            if (taken := places.setdefault(address(name), name)) != name:
                faults.append(f"{name}: has the address of {taken}: rename one of the chapters")
            if row["paper"] and about not in known:
                faults.append(f"{name}: {row['item']!r} of {row['paper']} is not in {STATEMENTS}")
            if row["kind"] == "ablation" and about not in claimed:
                faults.append(f"{name}: checks a claim about {row['item']!r}, of which this chapter claims nothing")
            entry = {field: row[field] for field in ("id", *FIELDS)}
            entry |= {"tolerance": room(row["measured"], row["bound"])}
            claims[name] = entry | {"chapter": run["chapter"], "parameters": run["parameters"]}
    if faults:
        raise BookError("\n".join(faults))
    ledger = {"environment": environment(runs), "claims": list(claims.values())}
    write_record(LEDGER, ledger | ({"sources": sources} if sources else {}))
