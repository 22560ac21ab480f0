"""Read and write the evidence on rows in ``book/``: on how many fresh seeds they held, and which mutants turn them.

Evidence lives by numbers, not by hashes of code: what is noted of a row counts while the row asks the same and its
number is the one that it was made with, up to the room that a build leaves. All else is void, and is shown nowhere.
"""

import functools
from pathlib import Path

from workflow.book.catalogue import json_of, text_of, write_record
from workflow.book.ledger import room, same_bound

SEEDS, MUTANTS = Path("book/robustness.json"), Path("book/mutants.json")
ASKED = ("kind", "relation", "statement")


def entries(path):
    """What a record holds, to be read only; nothing where no command has kept anything yet."""
    return _parsed(path, text_of(path)) if path.exists() else {}


@functools.cache
def _parsed(path, _):
    return json_of(path)


def noted(row):
    """What a record notes of a row, to know it by."""
    return {field: row[field] for field in (*ASKED, "bound", "measured")}


def is_same(row, old):
    """Tell whether a row asks what it asked when it was noted, and has the number that it had."""
    asked = all(row[field] == old.get(field) for field in ASKED) and same_bound(row["bound"], old.get("bound"))
    return asked and is_near(row["measured"], old["measured"], old["bound"])


def is_near(new, old, bound):
    """Tell whether a number moved by no more than the room of a build."""
    return abs(new - old) <= room(old, bound)


def counts(row):
    """What is recorded of a row on fresh seeds, with their block; None where nothing is that counts."""
    entry = entries(SEEDS).get(row["chapter"], {})
    old = entry.get("rows", {}).get(row["name"])
    return old | {"block": entry["block"]} if old and is_same(row, old) else None


def keep_entry(path, chapter, entry):
    """Put a chapter's entry into a record."""
    write_record(path, dict(sorted((entries(path) | {chapter: entry}).items())))
