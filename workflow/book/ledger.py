"""Collect the claims of every chapter into the ledger."""

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
from workflow.book.records import ROUNDINGS, entries, hash_of_records, is_current

FIELDS = (
    "paper", "item", "statement", "quote", "kind", "of", "source", "scale", "set", "measured", "interval", "bound",
    "relation", "tolerance", "recorded", "verdict", "breaks", "note",
)  # fmt: skip
PLURALS = {  # plurals of verdicts that are verbs
    "breaks the claim": "break the claim",
    "does not break the claim": "do not break the claim",
}
STATEMENTS = "book/statements.yml"
GONE = Path("book/gone.yml")  # rows that are gone: old id -> what became of it
LEDGER = Path("build/ledger.json")
FACTOR = 5  # the tolerance of a number is this multiple of its measured spread


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


def spreads():
    """What is recorded of each row under other roundings, by id; nothing that was measured with older code or records.

    Its "spread", "turned" where another verdict came out, and "again" where the recorded runs were made again.
    """
    current, moves = set(chapters()), {}
    for chapter, entry in entries(ROUNDINGS).items():
        if chapter not in current or not is_current(chapter, entry):
            continue
        older = {"again"} if entry.get("records") != hash_of_records(chapter) else set()
        for name, row in entry["rows"].items():
            moves[f"{chapter}/{name}"] = {key: row[key] for key in row.keys() - older}
    return moves


def is_noise(measured, spread):
    """Tell a number that rounding moves by more than a tenth of its size."""
    return spread > abs(measured) / 10


def tolerance(row, spread=0.0, turned=False):
    """How far a row's number may move on another machine before the build fails.

    A multiple of its measured spread, at least what the library gives every row, and of a number that is mere rounding
    error a hundredth of its bound; never past the bound, unless a measured rounding went past it, too.
    """
    wide = max(row["tolerance"], FACTOR * spread)
    if row["bound"] is not None and is_noise(row["measured"], spread):
        wide = max(wide, abs(row["bound"]) / 100)
    return wide if turned or row["bound"] is None else min(wide, abs(row["measured"] - row["bound"]))


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
    listed = sum((groups[name] for name in ("figures", "data", "check", "book")), project["dependencies"])
    return sorted(Requirement(line).name for line in listed)


def environment(runs):
    """Origin of the numbers: sources, day, machine and versions."""
    return {
        "commit": commit(),
        "date": datetime.now(UTC).date().isoformat(),
        "cpu": ", ".join(sorted({run["cpu"] for run in runs})),
        "kinds": {run["chapter"]: run.get("kind", "") for run in runs},
        "seconds": {run["chapter"]: run["seconds"] for run in runs},
        "threads": max((run["threads"] for run in runs), default=1),
        "python": python_version(),
    } | {name: version(name) for name in direct_dependencies()}


def commit():
    """Commit and day of the sources as the workflow has noted them, ``a1b2c3d 2026-01-31 with changes``."""
    noted = Path("build/commit")
    return noted.read_text("utf-8").strip() if noted.exists() else "unknown"


def collect(sources=""):
    """Write the ledger, which carries the hash of its sources, or say which rows cannot stand in it."""
    runs, claims, faults, moved, places = reports(), {}, [], spreads(), {}
    known = {(paper["arxiv"], item["item"]) for paper in register() for item in paper["items"]}
    for run in runs:
        claimed = {(row["paper"], row["item"]) for row in run["rows"] if row["kind"] == "claim"}
        for row in run["rows"]:
            name, about = f"{run['chapter']}/{row['name']}", (row["paper"], row["item"])
            if name in claims:
                faults.append(f"{name}: two rows of this chapter have the name {row['name']!r}")
            if (taken := places.setdefault(address(name), name)) != name:
                faults.append(f"{name}: has the address of {taken}: rename one of the chapters")
            if row["paper"] and about not in known:
                faults.append(f"{name}: {row['item']!r} of {row['paper']} is not in {STATEMENTS}")
            if row["kind"] == "ablation" and about not in claimed:
                faults.append(f"{name}: checks a claim about {row['item']!r}, of which this chapter claims nothing")
            move = moved.get(name, {})
            entry = {"id": name} | {field: row[field] for field in FIELDS}
            entry |= {"tolerance": tolerance(row, move.get("spread", 0.0), "turned" in move)}
            entry |= {"spread": move.get("spread"), "again": move.get("again")}
            claims[name] = entry | {"chapter": run["chapter"], "parameters": run["parameters"]}
    if faults:
        raise BookError("\n".join(faults))
    ledger = {"environment": environment(runs), "claims": list(claims.values())}
    write_record(LEDGER, ledger | ({"sources": sources} if sources else {}))
