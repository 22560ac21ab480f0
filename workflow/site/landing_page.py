"""The first page: its picture, the map of the book, and how to cite it."""

import re
from pathlib import Path

import nbformat

from lib.ledger import HELD
from workflow.book.catalogue import chapters, source, title, yaml_of
from workflow.book.ledger import claims_of, commit, register
from workflow.site.markup import VERDICTS, filled, link, styled

FRONT = Path("book/front.yml")
OPTIMISERS, ENDS = "beyond/optimiser-margins", "fig-optimiser-margins-ends"
RUN = Path("build/executed", OPTIMISERS + ".ipynb")
PARTS = {
    "max-margin": "Max-margin token selection",
    "rates": "Convergence rates",
    "mirror-descent": "Mirror descent",
    "beyond": "Beyond the papers",
}


def ends():
    """Return the figure of one problem and six optimisers, which a chapter draws; nothing where that has not run.

    Its alt text is the chapter's own.
    """
    if not RUN.exists():
        return ""
    alt = re.search(rf":name: {ENDS}\n:alt: (.+)", source(OPTIMISERS).read_text("utf-8"))[1]
    return filled("ends", alt=alt, chapter=OPTIMISERS)


def ends_drawing():
    """Return the drawing of that figure from the run of its chapter, as SVG."""
    outputs = [output for cell in nbformat.read(RUN, 4).cells for output in cell.get("outputs", [])]
    glued = next(one for one in outputs if one.get("metadata", {}).get("scrapbook", {}).get("name") == ENDS)
    return next(value for kind, value in glued.data.items() if kind.endswith("image/svg+xml"))


def _front():
    return yaml_of(FRONT) if FRONT.exists() else {}


def entries():
    """Return what the map shows, in its order: chapters of the table of contents, those that it does not know last."""
    listed = [entry for entry in _front().get("map") or [] if entry["chapter"] in chapters()]
    known = {entry["chapter"] for entry in listed}
    for chapter in chapters():
        if chapter not in known:
            name, _, says = re.sub(r"[*$`]", "", title(source(chapter))).partition(":")
            listed.append({"chapter": chapter, "name": name, "says": says.strip()})
    order = list(dict.fromkeys(chapter.partition("/")[0] for chapter in chapters()))
    return sorted(listed, key=lambda entry: order.index(entry["chapter"].partition("/")[0]))


def book_map(rows):
    """Return the map: a list of each part's chapters with how they stand and what they rest on."""
    listed = entries()
    called = {entry["chapter"]: link(entry["chapter"], entry["name"]) for entry in listed}
    parts = {}
    for entry in listed:
        part = entry["chapter"].partition("/")[0]
        kind = standing(entry["chapter"], rows)
        sign = styled(VERDICTS.get(kind, "○"), kind)
        below = [called[earlier] for earlier in entry.get("from", ()) if earlier in called]
        parts.setdefault(PARTS.get(part, part.replace("-", " ").capitalize()), []).append(
            {"sign": sign, "link": called[entry["chapter"]], "says": entry["says"], "from": below}
        )
    return filled("book_map", parts=parts)


def standing(chapter, rows):
    """Return in a word how the claims of papers fare that it tests."""
    verdicts = {row["verdict"] for row in claims_of(rows, "paper") if row["chapter"] == chapter}
    if "not reproduced" in verdicts:
        return "not reproduced"
    if not verdicts or not verdicts <= set(HELD):
        return "open"
    changed = ("seen in miniature", "corrected", "made explicit")
    return next((word for word in changed if word in verdicts), "reproduced")


def cite():
    """Return how to cite the book: authors, title, version as ``CITATION.cff`` has them, and the papers."""
    path = Path("CITATION.cff")
    if not path.exists():
        return ""
    about, year = yaml_of(path), re.search(r"\d{4}(?=-\d\d-\d\d)", commit())
    names = [one.get("name") or f"{one['family-names']}, {one['given-names']}" for one in about["authors"]]
    fields = {"title": "{" + about["title"] + "}", "author": "{" + " and ".join(names) + "}"}
    fields |= {"version": about["version"]} | ({"year": year[0]} if year else {})
    return filled("cite", fields=fields, keys=[paper["key"] for paper in register() if "key" in paper])
