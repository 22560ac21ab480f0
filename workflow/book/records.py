"""Read and write the records of chapters in ``book/``: fresh seeds, roundings, mutants.

Of a chapter that reads recorded runs the roundings note under "again" how far its rows move when these are made again.

An entry notes the hash of the code that ran, and holds as long as that is the hash of its chapter's code.
"""

import functools
from pathlib import Path

from workflow.book.catalogue import json_of, source, text_of, write_record
from workflow.book.dependencies import hash_together, recorded_hash, records_of

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


def hash_of_records(chapter):
    """Hash of the recorded runs that a chapter reads; None where it reads none."""
    files = records_of(chapter)
    return hash_together(files) if files else None


def keep_entry(path, chapter, entry):
    """Put a chapter's entry into a record."""
    write_record(path, dict(sorted((entries(path) | {chapter: entry}).items())))


def keep_spreads(chapter, entry):
    """Keep how far a chapter's rows moved; of the same code on several machines the larger move of each row."""
    old = entries(ROUNDINGS).get(chapter)
    keep_entry(ROUNDINGS, chapter, larger(old, entry) if old and old["code"] == entry["code"] else entry)


def larger(old, new):
    """Join two entries of roundings: of each row the larger spread, and every setting that turned its verdict.

    So it is with runs that were made again, while the chapter reads the same records.
    """
    rows, same = {}, old.get("records") == new.get("records")
    for name, row in new["rows"].items():
        before = old["rows"].get(name, row)
        turned = sorted({*before.get("turned", ()), *row.get("turned", ())})
        rows[name] = max(before, row, key=_spread) | ({"turned": turned} if turned else {})
        again = [move["again"] for move in ((before, row) if same else (row,)) if "again" in move]
        if again:
            either = {key: value for move in again for key, value in move.items()}
            rows[name]["again"] = either | {"spread": max(map(_spread, again))}
    machines = ", ".join(dict.fromkeys([*old["cpu"].split(", "), new["cpu"]]))
    return new | {"cpu": machines, "settings": list(dict.fromkeys(old["settings"] + new["settings"])), "rows": rows}


def _spread(move):
    return move["spread"]


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
