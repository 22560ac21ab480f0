"""Read and write the records of chapters in ``book/``: fresh seeds, mutants.

An entry notes the hash of the code that ran, and holds as long as that is the hash of its chapter's code.
"""

import functools
from pathlib import Path

from workflow.book.catalogue import json_of, source, text_of, write_record
from workflow.book.dependencies import recorded_hash

SEEDS, MUTANTS = Path("book/robustness.json"), Path("book/mutants.json")


def entries(path):
    """What a record holds, to be read only; nothing where no command has kept anything yet."""
    return _parsed(path, text_of(path)) if path.exists() else {}


@functools.cache
def _parsed(path, _):
    return json_of(path)


def is_current(chapter, entry):
    """Tell whether what an entry notes was measured with the chapter's code as it is now."""
    return entry.get("code") == _hash(chapter, text_of(source(chapter)))


@functools.cache
def _hash(chapter, _):
    return recorded_hash(chapter)


def keep_entry(path, chapter, entry):
    """Put a chapter's entry into a record."""
    write_record(path, dict(sorted((entries(path) | {chapter: entry}).items())))


def keep_mutants(report, chapters):
    """Keep a report on mutants; of chapters that were not run, earlier results of the same mutants stay."""
    old = entries(MUTANTS).get("mutants", {})
    for mutant, entry in report["mutants"].items():
        before = old.get(mutant, {})
        known = before["chapters"] if before.get("what") == entry["what"] else {}
        entry["chapters"] = {name: known[name] for name in known if name not in chapters} | entry["chapters"]
    write_record(MUTANTS, report)


def mutants_of(chapter):
    """What each mutant did to a chapter, of those that it was run with."""
    tried = entries(MUTANTS).get("mutants", {})
    return [mutant["chapters"][chapter] for mutant in tried.values() if chapter in mutant["chapters"]]
