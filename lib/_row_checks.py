"""Refuse what cannot stand in the ledger: numbers, words and corrections of a row, for :mod:`lib.ledger`."""

from ._glue import is_finite, scalar
from ._verdicts import RELATIONS

WORDS = {  # that a statement of a paper needs; a statement of the book has no source and no scale
    "of": ("paper", "book"),
    "source": ("printed", "restored", "recalled"),
    "scale": ("exact", "same data, smaller", "stand-in"),
    "set": ("before", "after"),
    "relation": tuple(RELATIONS),
}
OMISSION = "[…]"  # the only brackets that a quotation may have


def check_texts(row):
    """Raise ValueError unless name, statement, item and paper of a row are words."""
    for what in ("name", "statement", "item"):
        if not is_text(text := getattr(row, what)):
            raise ValueError(
                f"the {what} of {row.name!r} is {text!r}: write it in words, a row of the ledger is read alone"
            )
    if row.paper is not None and not is_text(row.paper):
        raise ValueError(
            f"the paper of {row.name!r} is {row.paper!r}: give its arXiv number, or None for what no paper has"
        )


def check_statement(row):
    """Raise ValueError unless a row says whose statement it is, from where, on what data, and when it was bounded."""
    for field, words in WORDS.items():
        ours, word = row.of == "book" and field in ("source", "scale"), getattr(row, field)
        if word not in ((None,) if ours else words):
            remedy = "leave it out of a row of the book" if ours else f"say one of {', '.join(map(repr, words))}"
            raise ValueError(f"{row.name!r} has {field}={word!r}: {remedy}")
    if row.of == "paper" and not row.paper:
        raise ValueError(f"{row.name!r} is of a paper that it does not name: give its arXiv number, or of='book'")


def check_correction(row, corrects, explicit, certified):
    """Raise ValueError unless a correction quotes a printed sentence of a paper and is certified exactly."""
    name = row.name
    for what, text in {"corrects": corrects, "explicit": explicit, "quote": row.quote}.items():
        if text and not is_text(text):
            raise ValueError(f"the {what} of {name!r} is {text!r}: write it in words")
    if (corrects and explicit) or ((corrects or explicit) and row.of != "paper"):
        raise ValueError(f"{name!r} corrects or makes explicit: one of the two, and of a paper's statement alone")
    if not corrects and (row.quote or certified is not None):
        raise ValueError(f"{name!r} has a quote or a certificate, and corrects nothing: say corrects='...'")
    if corrects and row.source != "printed":
        raise ValueError(f"{name!r} corrects a sentence that no paper printed: say explicit='...', or in its note")
    if corrects and not row.quote:
        raise ValueError(f"{name!r} corrects a sentence that it does not quote: give quote='...', as it was printed")
    if corrects and "[" in row.quote.replace(OMISSION, ""):
        raise ValueError(f"the quote of {name!r} has words in brackets: give what was printed, and {OMISSION} between")
    if corrects and not isinstance(certified, bool):
        raise ValueError(
            f"{name!r} corrects without a certificate: give certified=True where exact arithmetic confirmed the "
            "counterexample"
        )


def checked_interval(name, measured, interval):
    """Ends of an interval as floats, None where there is none; ValueError unless the measured value lies in it."""
    if interval is None:
        return None
    try:
        low, high = interval
    except (TypeError, ValueError):
        raise ValueError(f"the interval of {name!r} is {interval!r}: give its lower and its upper end") from None
    low, high = (finite(end, "interval", name) for end in (low, high))
    slack = 1e-9 * max(abs(low), abs(high), abs(measured))  # each of the three has its own rounding
    if not low - slack <= measured <= high + slack:
        raise ValueError(
            f"the interval of {name!r} goes from {low:g} to {high:g}: its measured value {measured:g} must lie in it"
        )
    return low, high


def is_text(text):
    """Tell a string that has more than spaces."""
    return isinstance(text, str) and bool(text.strip())


def finite(value, what, name):
    """``value`` as a Python float (also from a 0-d tensor or array); ValueError says which value is none."""
    value = scalar(value)
    if not is_finite(value):
        raise ValueError(f"the {what} of {name!r} is {value}: a row of the ledger needs one finite number")
    return float(value)
