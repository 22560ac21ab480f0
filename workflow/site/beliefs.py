"""What we now believe: the sentences of ``book/beliefs.yml``; a row that no longer holds withdraws its sentence."""

from pathlib import Path

from lib.ledger import HELD
from workflow.book.catalogue import BookError, chapters, yaml_of
from workflow.site.evidence import seeds
from workflow.site.markup import Number, escaped, filled, link, numbers

REGISTER = Path("book/beliefs.yml")
STANDINGS = {
    "proved": "Proved here",
    "papers": "Proved in the papers, checked here",
    "measured": "Measured here",
    "miniature": "Seen in miniature",
    "guess": "A guess",
}


def used(path, entry, rows):
    """Return the rows of the ledger that an entry of a register names, each by its name there."""
    known = {row["id"]: row for row in rows}
    if missing := [name for name in entry.get("rows", {}).values() if name not in known]:
        raise BookError(f"{path} tells of {missing[0]}, which is no row of the ledger: name one that is")
    return {name: known[row] for name, row in entry.get("rows", {}).items()}


def told(text, found, **more):
    """Return a text with the numbers that rows measured, and more numbers."""
    measured = {name: row["measured"] for name, row in found.items()} | more
    return text.format(**{name: Number(value) for name, value in measured.items()})


def against(found):
    """Return the rows that do not hold, each with its numbers."""
    return [f"{escaped(row['statement'])}: {numbers(row)}" for row in found.values() if row["verdict"] not in HELD]


def belief(entry, rows):
    """Return one belief as the pages show it: its sentence, standing, numbers, and the rows that contradict it."""
    found = used(REGISTER, entry, rows)
    if entry["standing"] not in STANDINGS:
        raise BookError(f"{REGISTER}: {entry['standing']!r} is no standing: write one of {', '.join(STANDINGS)}")
    page = entry["read"]
    return {
        "say": told(entry["say"], found),
        "more": told(entry["more"], found),
        "change": entry["change"],
        "standing": STANDINGS[entry["standing"]],
        "seeds": how_often(found.values()),
        "against": against(found),
        "read": link(page) if page in chapters() else f"{{doc}}`{page}`",
        "link": link(page, STANDINGS[entry["standing"]].lower()),
    }


def how_often(rows):
    """Return on how many fresh seeds the rows held, by the one that held least often; nothing where none was swept."""
    counted = [(held, of) for held, of, _ in map(seeds, rows) if of and of > 1]
    held, of = min(counted, key=lambda one: one[0] / one[1], default=(None, None))
    return f"on {held} of {of} fresh seeds" if of else ""


def beliefs(rows):
    """Return all beliefs."""
    return [belief(entry, rows) for entry in yaml_of(REGISTER)]


def page(rows):
    """Return the page of beliefs."""
    return filled("beliefs", beliefs=beliefs(rows))


def short(rows):
    """Return the sentences alone, for the first page."""
    return filled("believed", beliefs=beliefs(rows))
