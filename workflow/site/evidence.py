"""Say on how many fresh seeds rows held, and how many mutants of the library turn them, as recorded."""

import math
from fractions import Fraction
from pathlib import Path

from lib.ledger import HELD
from workflow.book import records
from workflow.book.catalogue import yaml_of
from workflow.book.fresh_seeds import wilson

OLDER = ", before a code change"
RECORDED, FIXED = "recorded", "nothing random"  # what is said of a row that no seed changes
LISTED = Path("book/nothing-random.yml")  # of the rows that are a whole number, those that no seed changes


def seeds(row):
    """On how many fresh seeds a row held: held, of how many, what to say of it; None twice where no seed changes it."""
    chapter, name = row["chapter"], row["name"]
    if row["recorded"]:
        return None, None, RECORDED
    if LISTED.exists() and {row["id"], f"{chapter}/{name}"} & set(yaml_of(LISTED)):
        return None, None, FIXED
    swept = records.entries(records.SEEDS).get(chapter)
    if not swept or name not in swept["rows"]:
        return None, None, "not yet run"
    counts = swept["rows"][name]
    held, of = counts["held"], counts["of"]
    if not swept["block"] or _same_at_every_seed(counts):
        return None, None, FIXED
    if not records.is_current(chapter, swept):
        return None, None, f"{held}/{of}{OLDER}"
    alike = {"undecided": counts["undecided"], "fails": of - held - counts["undecided"] - counts["errors"]}
    word = "undecided" if row["verdict"] == "undecided" else "fails"
    if row["verdict"] not in HELD and alike[word] == of:
        return held, of, f"{word} {of}/{of}, as here"
    details = ["{:.2f} to {:.2f}".format(*wilson(held, of))] * (held < of)
    details += [f"{counts[what]} {what}" for what in ("undecided", "errors") if counts.get(what)]
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
    older = [text for text in said if text.endswith(OLDER)]
    rest = next((text for text in ("not yet run", FIXED, RECORDED) if text in said), "–")
    return min(older, key=lambda text: Fraction(text.removesuffix(OLDER)), default=rest)


def mutants(row):
    """Number of mutants of the library that turn a row's verdict, and what to say of it."""
    chapter, name = row["chapter"], row["name"]
    tried = records.mutants_of(chapter)
    if not tried:
        return None, "not yet run"
    if not all(records.is_current(chapter, entry) for entry in tried):
        return None, "older code"
    turned = sum(name in entry["turned"] for entry in tried)
    return turned, f"{turned}" if turned else "none"
