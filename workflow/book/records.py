"""Read and write the records of chapters in ``book/``: fresh seeds, roundings, mutants.

An entry notes the hash of the code that ran, and holds as long as that is the hash of its chapter's code.
"""

import functools
from pathlib import Path

from workflow.book.catalogue import json_of, source, text_of, write_record
from workflow.book.dependencies import recorded_hash

SEEDS, ROUNDINGS, MUTANTS = (Path("book", name) for name in ("robustness.json", "roundings.json", "mutants.json"))


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


def keep_spreads(chapter, entry):
    """Keep how far a chapter's rows moved; of the same code on several machines the larger move of each row."""
    old = entries(ROUNDINGS).get(chapter)
    keep_entry(ROUNDINGS, chapter, larger(old, entry) if old and old["code"] == entry["code"] else entry)


def larger(old, new):
    """Join two entries of roundings: of each row the larger spread, and every setting that turned its verdict."""
    rows = {}
    for name, row in new["rows"].items():
        before = old["rows"].get(name, row)
        turned = sorted({*before.get("turned", ()), *row.get("turned", ())})
        rows[name] = max(before, row, key=lambda move: move["spread"]) | ({"turned": turned} if turned else {})
    machines = ", ".join(dict.fromkeys([*old["cpu"].split(", "), new["cpu"]]))
    return new | {"cpu": machines, "settings": list(dict.fromkeys(old["settings"] + new["settings"])), "rows": rows}


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
