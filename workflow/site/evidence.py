"""Say on how many fresh seeds rows held, and how many mutants of the library turn them, as recorded."""

from fractions import Fraction
from functools import cache
from pathlib import Path

from scipy.stats import binomtest

from lib.ledger import HELD
from workflow.book.catalogue import json_of, source
from workflow.book.dependencies import recorded_hash
from workflow.book.fresh_seeds import SWEPT

MUTANTS = Path("book/mutants.json")
OLDER = ", before a code change"


def optional(path):
    """Return what a file holds that other commands make, and nothing where it is not there."""
    return _held(path, path.stat().st_mtime_ns) if path.exists() else {}


@cache
def _held(path, _):
    return json_of(path)


def same_code(chapter, entry):
    """Tell whether a sweep or a mutant ran the code that this build ran."""
    return entry.get("code") == _code(chapter, source(chapter).read_text("utf-8"))


@cache
def _code(chapter, _):
    return recorded_hash(chapter)


def seeds(row):
    """Return on how many fresh seeds a row held: held, of how many, what to say of it."""
    chapter, _, name = row["id"].rpartition("/")
    swept = optional(SWEPT).get(chapter)
    if not swept or name not in swept["rows"]:
        return None, None, "not yet run"
    found = swept["rows"][name]
    held, of = found["held"], found["of"]
    if not same_code(chapter, swept):
        return None, None, f"{held}/{of}{OLDER}"
    if not swept["block"]:
        return held, of, f"{held}/{of}, nothing random"
    alike = {"undecided": found["undecided"], "fails": of - held - found["undecided"] - found["errors"]}
    word = "undecided" if row["verdict"] == "undecided" else "fails"
    if row["verdict"] not in HELD and alike[word] == of:
        return held, of, f"{word} {of}/{of}, as here"
    details = ["{:.2f} to {:.2f}".format(*wilson(held, of))] * (held < of)
    details += [f"{found[what]} {what}" for what in ("undecided", "errors") if found.get(what)]
    return held, of, f"{held}/{of}" + f" ({', '.join(details)})" * bool(details)


def wilson(held, of):
    """Return the ends of Wilson's 95% interval of a share."""
    return tuple(binomtest(held, of).proportion_ci(method="wilson"))


def seeds_of(rows):
    """Return for an item the row that held on the smallest share of fresh seeds."""
    found = [seeds(row) for row in rows]
    counted = [one for one in found if one[0] is not None]
    if counted:
        worst = min(counted, key=lambda one: one[0] / one[1])
        return worst[2]
    older = [text for *_, text in found if text.endswith(OLDER)]
    worst = min(older, key=lambda text: Fraction(text.removesuffix(OLDER)), default="not yet run")
    return worst if found else "–"


def mutants(row):
    """Return how many mutants of the library turn a row's verdict, and what to say of it."""
    chapter, _, name = row["id"].rpartition("/")
    tried = {key: one for key, one in optional(MUTANTS).get("mutants", {}).items() if chapter in one["chapters"]}
    if not tried:
        return None, "not yet run"
    if not all(same_code(chapter, one["chapters"][chapter]) for one in tried.values()):
        return None, "older code"
    turned = sum(name in one["chapters"][chapter]["turned"] for one in tried.values())
    return turned, f"{turned}" if turned else "none"
