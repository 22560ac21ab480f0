"""Say on how many fresh seeds rows held, and how many mutants of the library turn them, as far as that is recorded."""

import functools
import math
from collections import Counter
from pathlib import Path

from lib.ledger import HELD
from workflow.book import records
from workflow.book.catalogue import read, text_of, yaml_of
from workflow.book.fresh_seeds import wilson
from workflow.book.mutants import LIST, written
from workflow.book.parameters import declared

OFTEN = 0.9  # of the fresh seeds; a page says in front which rows held less often
RECORDED, FIXED, OPEN = "recorded", "nothing random", "not yet run"
LISTED = Path("book/nothing-random.yml")  # of the rows that are a whole number, those that no seed changes


def is_given(row):
    """Whether a row is listed as one that no seed changes."""
    return LISTED.exists() and bool({row["id"], f"{row['chapter']}/{row['name']}"} & set(yaml_of(LISTED)))


def seeds(row):
    """On how many fresh seeds a row held: held, of how many, what to say of it; None twice where no seed changes it."""
    if row["recorded"]:
        return None, None, RECORDED
    if is_given(row) or "seed" not in declared(read(row["chapter"])):
        return None, None, FIXED
    counts = records.counts(row)
    if not counts:
        return None, None, OPEN
    if _same_at_every_seed(counts):
        return None, None, FIXED
    held, of = counts["held"], counts["of"]
    alike = {"undecided": counts["undecided"], "fails": of - held - counts["undecided"] - counts["errors"]}
    word = "undecided" if row["verdict"] == "undecided" else "fails"
    if row["verdict"] not in HELD and alike[word] == of:
        return held, of, f"{word} {of}/{of}, as here"
    details = ["{:.2f} to {:.2f}".format(*wilson(held, of))] * (held < of)
    details += [f"{counts[what]} {what}" for what in ("undecided", "errors") if counts[what]]
    return held, of, f"{held}/{of}" + f" ({', '.join(details)})" * bool(details)


def _same_at_every_seed(counts):
    """Whether a number was the same on all seeds; one that is whole, or nearly, may be a share or a count, and may not.

    Of many runs all may arrive, at every seed.
    """
    value = counts["median"]
    alike = counts["low"] == value == counts["high"] and counts["of"] > 1 and not counts["errors"]
    return alike and not math.isclose(value, round(value), rel_tol=1e-6)


def seeds_of(rows):
    """Fresh seeds of an item: those of the row that held on the smallest share of them."""
    swept = [seeds(row) for row in rows]
    if counted := [(held / of, text) for held, of, text in swept if held is not None]:
        return min(counted, key=lambda pair: pair[0])[1]
    said = [text for *_, text in swept]
    return next((text for text in (OPEN, FIXED, RECORDED) if text in said), "–")


def said(rows):
    """Sentences on the evidence, as far as it is recorded: how often rows held again, and how many a fault turns."""
    swept = [seeds(row) for row in rows if row["verdict"] in HELD]
    counted = [(held, of) for held, of, _ in swept if held is not None]
    waiting = sum(text == OPEN for *_, text in swept)
    every, most = sum(held == of for held, of in counted), sum(held >= OFTEN * of for held, of in counted)
    asked = [mutants(row) for row in rows if row["kind"] == "claim" and not row["recorded"]]
    tried, none = [text for text in asked if text != OPEN], asked.count("none")
    again = (
        f"{len(counted)} rows that hold here and depend on a seed were run again with seeds that nobody had looked at,"
        f" 20 or, where a run takes long, 10: {every} hold at every seed, {most - every} others at nine in ten or more,"
        f" {len(counted) - most} at fewer{f'; {waiting} are not yet run' * bool(waiting)}."
    )
    faults = (
        f" Small faults were put into the library for {len(tried)} claims{' so far' * (len(tried) < len(asked))}:"
        f" {len(tried) - none} change their verdict under at least one."
    )
    return (again if counted else "No row has been repeated with fresh seeds yet.") + faults * bool(tried)


def mutants(row):
    """How many mutants of the library turn a row's verdict, as far as that is known."""
    old = records.entries(records.MUTANTS).get("rows", {}).get(row["chapter"], {}).get(row["name"])
    if not old or not records.is_same(row, old):
        return OPEN
    return str(_turns(text_of(records.MUTANTS), text_of(LIST))[row["chapter"], row["name"]] or "none")


@functools.cache
def _turns(*_):
    """Number of mutants that turn a row, by chapter and name, of those whose faulty functions are as they were."""
    current = {mutant.name: mutant.code for mutant in written()}
    results = records.entries(records.MUTANTS)["mutants"].items()
    tried = [pair for name, old in results if old["function"] == current.get(name) for pair in old["chapters"].items()]
    return Counter((chapter, name) for chapter, entry in tried for name in entry["turned"])
