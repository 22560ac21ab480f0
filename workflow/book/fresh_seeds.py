"""Confirm the rows of a chapter on seeds that nobody has looked at: ``book/robustness.json``.

Seeds below 1000 are for development. A block that was begun is spent: other code takes the next one. What was counted
stays valid by the numbers of three seeds: the chapter's own, and the two of the block that came nearest to a bound.
"""

from collections import Counter

from scipy.stats import binomtest

from workflow.book import records
from workflow.book.catalogue import BookError
from workflow.book.dependencies import sources

FIRST = 7000  # blocks before it were seen while the book was written
SEEDS, LONG, FEW = 20, 45, 10  # seeds of a block; where a run takes more seconds than LONG there are FEW
ACCEPTED = ("book/ledger.lock.json", "book/verdict-changes.yml", "README.md")  # written by make, no source of a run
FIELDS = ("held", "undecided", "errors", "of", "median", "low", "high")  # fields of a row of a sweep that are recorded


def commit():
    """Commit of the sources; refuse files that differ from it, other than what make itself wrote."""
    commit, changed = sources()
    kept = (records.SEEDS.as_posix(), records.MUTANTS.as_posix(), "book/recorded/", *ACCEPTED)
    changed = [path for path in changed if not path.startswith(kept)]
    if not commit:
        raise BookError("there is no commit here to name in the record: commit first")
    if changed:
        raise BookError(f"{changed[0]} differs from the last commit: commit first")
    return commit


def block_for(chapter, seconds, code):
    """First and last seed of the block for a chapter, noted as spent before anything runs.

    A block that was begun with the same code is gone on with.
    """
    entry = records.entries(records.SEEDS).get(chapter, {})
    begun = entry.get("begun", {})
    if begun.get("code") == code:
        return begun["block"]
    spent = max([FIRST - 1, *(block[1] for block in (begun.get("block"), entry.get("block")) if block)])
    block = [spent + 1, spent + (FEW if seconds > LONG else SEEDS)]
    records.keep_entry(records.SEEDS, chapter, entry | {"begun": {"block": block, "code": code}})
    return block


def entry_of(table, rows, by_seed, block, code):
    """Entry of the record: what a sweep counted, and the numbers by which it stays valid.

    ``rows`` are those of the chapter's own seed by name, ``by_seed`` those of the block, seed -> name -> row.
    """
    (part,) = table["sets"]
    near = nearest(by_seed)
    measured = {name: [by_seed[seed].get(name, {}).get("measured") for seed in near] for name in rows}
    return {
        "block": block,
        "commit": commit(),
        "code": code,
        "parameters": part["parameters"],
        "near": near,
        "rows": {
            name: {key: row[key] for key in FIELDS} | records.noted(rows[name]) | {"near": measured[name]}
            for name, row in part["rows"].items()
            if name in rows
        },
        "errors": {run: error["sentence"] for run, error in part["errors"].items()},
    }


def nearest(by_seed):
    """Two seeds at which most rows are nearest to their bounds; each row names two."""
    votes = Counter()
    for name in {name for rows in by_seed.values() for name in rows}:
        far = {seed: distance(rows[name]) for seed, rows in by_seed.items() if name in rows}
        votes.update(sorted(far, key=lambda seed: (far[seed], seed))[:2])
    return sorted(sorted(by_seed, key=lambda seed: (-votes[seed], seed))[:2])


def distance(row):
    """How far a row's number is from its bound; none for one that has no bound."""
    return float("inf") if row["bound"] is None else abs(row["measured"] - row["bound"])


def still_valid(entry, by_seed):
    """Rows of an entry whose numbers at its two near seeds are still those that were noted."""
    return {name: row for name, row in entry["rows"].items() if _same_at(entry["near"], name, row, by_seed)}


def _same_at(near, name, row, by_seed):
    pairs = [(by_seed[seed].get(name), old) for seed, old in zip(near, row["near"], strict=True)]
    return all((new is None) == (old is None) for new, old in pairs) and all(
        records.is_near(new["measured"], old, row["bound"]) for new, old in pairs if new
    )


def wilson(held, of):
    """Ends of Wilson's 95% interval of a share."""
    return tuple(binomtest(held, of).proportion_ci(method="wilson"))
