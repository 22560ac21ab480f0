"""Say on how many fresh seeds rows held, and how many mutants of the library turn them, as recorded."""

from fractions import Fraction

from lib.ledger import HELD
from workflow.book import records
from workflow.book.fresh_seeds import wilson

OLDER = ", before a code change"


def seeds(row):
    """On how many fresh seeds a row held: held, of how many, what to say of it."""
    chapter, _, name = row["id"].rpartition("/")
    swept = records.entries(records.SEEDS).get(chapter)
    if not swept or name not in swept["rows"]:
        return None, None, "not yet run"
    counts = swept["rows"][name]
    held, of = counts["held"], counts["of"]
    if not records.is_current(chapter, swept):
        return None, None, f"{held}/{of}{OLDER}"
    if not swept["block"]:
        return held, of, f"{held}/{of}, nothing random"
    alike = {"undecided": counts["undecided"], "fails": of - held - counts["undecided"] - counts["errors"]}
    word = "undecided" if row["verdict"] == "undecided" else "fails"
    if row["verdict"] not in HELD and alike[word] == of:
        return held, of, f"{word} {of}/{of}, as here"
    details = ["{:.2f} to {:.2f}".format(*wilson(held, of))] * (held < of)
    details += [f"{counts[what]} {what}" for what in ("undecided", "errors") if counts.get(what)]
    return held, of, f"{held}/{of}" + f" ({', '.join(details)})" * bool(details)


def seeds_of(rows):
    """Fresh seeds of an item: those of the row that held on the smallest share of them."""
    swept = [seeds(row) for row in rows]
    if counted := [(held / of, text) for held, of, text in swept if held is not None]:
        return min(counted, key=lambda pair: pair[0])[1]
    older = [text for *_, text in swept if text.endswith(OLDER)]
    return min(older, key=lambda text: Fraction(text.removesuffix(OLDER)), default="not yet run" if swept else "–")


def mutants(row):
    """Number of mutants of the library that turn a row's verdict, and what to say of it."""
    chapter, _, name = row["id"].rpartition("/")
    tried = records.mutants_of(chapter)
    if not tried:
        return None, "not yet run"
    if not all(records.is_current(chapter, entry) for entry in tried):
        return None, "older code"
    turned = sum(name in entry["turned"] for entry in tried)
    return turned, f"{turned}" if turned else "none"
