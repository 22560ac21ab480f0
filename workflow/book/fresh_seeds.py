"""Record on how many fresh seeds the rows of each chapter held, and for which code: ``book/robustness.json``.

Seeds below 1000 are for development. A block of seeds that was seen is spent: other code takes the next one.
"""

from scipy.stats import binomtest

from workflow.book import records
from workflow.book.catalogue import BookError
from workflow.book.dependencies import sources

FIRST = 1000  # the first seed that may be recorded
FIELDS = ("held", "undecided", "errors", "of", "median", "low", "high")  # fields of a row of a sweep that are recorded


def block_of(seeds, values, asked):
    """First and last seed to record; None where nobody asked for it."""
    if not asked:
        return None
    if values:
        raise BookError(f"PARAMETERS is {values!r}: leave it out, only the chapters' own values are recorded")
    if not seeds or seeds[0] < FIRST:
        shown = f"{seeds[0]}:{seeds[-1]}" if seeds else ""
        raise BookError(f"SEEDS is {shown!r}, and seeds below {FIRST} are for development: record {FIRST}:{FIRST + 19}")
    return [seeds[0], seeds[-1]]


def ready(planned, block):
    """Commit whose numbers may be recorded; refuse spent seeds before anything runs."""
    known = records.entries(records.SEEDS)
    spent = [_spent(chapter, known.get(chapter), block) for chapter in planned]
    if spent := [line for line in spent if line]:
        raise BookError("\n".join(spent))
    return commit()


def _spent(chapter, old, block):
    """Why a block may not be recorded: it was seen, by other code or as a part of another block."""
    if not old or not old["block"] or block[0] > old["block"][1]:
        return None
    if block == old["block"] and records.is_current(chapter, old):
        return None
    (first, last), size = old["block"], block[1] - block[0] + 1
    by = "" if records.is_current(chapter, old) else f" for other code (commit {old['commit']})"
    return f"{chapter}: seeds {first} to {last} are recorded{by}, and spent: take SEEDS={last + 1}:{last + size}"


def commit():
    """Commit of the sources; refuse sources that differ from it, other than the records themselves."""
    commit, changed = sources()
    changed = [path for path in changed if not path.startswith((records.SEEDS.as_posix(), "book/recorded/"))]
    if not commit:
        raise BookError("there is no commit here to name in the record: commit first, or leave RECORD out")
    if changed:
        raise BookError(f"{changed[0]} differs from the last commit: commit first, or leave RECORD out")
    return commit


def keep_counts(table, runs, block, noted):
    """Write what a sweep found of a chapter into the record; return the sentence that says so, or why not."""
    chapter, (part,) = table["chapter"], table["sets"]
    if cut := [name for name, error in part["errors"].items() if error["cut_off"]]:
        return f"{chapter}: not recorded, {', '.join(cut)} did not end: run it again"
    if commit() != noted:
        raise BookError(f"{chapter}: not recorded, the sources changed meanwhile (commit {noted}): run it again")
    seeded = {run["label"]: str(run["parameters"]["seed"]) for run in runs if "seed" in run["parameters"]}
    entry = {
        "block": block if seeded else None,
        "commit": noted,
        "code": table["code"],
        "parameters": part["parameters"],
        "rows": {name: {key: row[key] for key in FIELDS} for name, row in part["rows"].items()},
        "errors": {seeded.get(name, name): error["sentence"] for name, error in part["errors"].items()},
    }
    records.keep_entry(records.SEEDS, chapter, entry)
    return f"{chapter}: recorded in {records.SEEDS}, commit it"


def wilson(held, of):
    """Ends of Wilson's 95% interval of a share."""
    return tuple(binomtest(held, of).proportion_ci(method="wilson"))
