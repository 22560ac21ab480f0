"""Write the map of the book, and how to cite it."""

import re
from pathlib import Path

from workflow.book.catalogue import chapters, source, title, yaml_of
from workflow.book.ledger import commit, register
from workflow.book.verdicts import SIGNS, standing
from workflow.site.markup import filled, link, styled

FRONT = Path("book/front.yml")
PARTS = {
    "max-margin": "Max-margin token selection",
    "rates": "Convergence rates",
    "mirror-descent": "Mirror descent",
    "beyond": "Beyond the papers",
}


def _front():
    return yaml_of(FRONT) if FRONT.exists() else {}


def entries():
    """Entries of the map, in its order: chapters of the table of contents, those that it does not know last."""
    listed = [entry for entry in _front().get("map") or [] if entry["chapter"] in chapters()]
    known = {entry["chapter"] for entry in listed}
    for chapter in chapters():
        if chapter not in known:
            name, _, says = re.sub(r"[*$`]", "", title(source(chapter))).partition(":")
            listed.append({"chapter": chapter, "name": name, "says": says.strip()})
    order = list(dict.fromkeys(chapter.partition("/")[0] for chapter in chapters()))
    return sorted(listed, key=lambda entry: order.index(entry["chapter"].partition("/")[0]))


def book_map(rows):
    """Map of the book: a list of each part's chapters with how they stand and what they rest on."""
    listed = entries()
    called = {entry["chapter"]: link(entry["chapter"], entry["name"]) for entry in listed}
    parts = {}
    for entry in listed:
        part = entry["chapter"].partition("/")[0]
        stands = standing([row for row in rows if row["chapter"] == entry["chapter"]])
        below = [called[earlier] for earlier in entry.get("from", ()) if earlier in called]
        parts.setdefault(PARTS.get(part, part.replace("-", " ").capitalize()), []).append(
            {
                "sign": styled(SIGNS[stands], stands),
                "link": called[entry["chapter"]],
                "says": entry["says"],
                "from": below,
            }
        )
    return filled("book_map", parts=parts)


def cited():
    """Fields of a citation of the book: authors, title, version as ``CITATION.cff`` has them; none without the file."""
    path = Path("CITATION.cff")
    if not path.exists():
        return {}
    about, year = yaml_of(path), re.search(r"\d{4}(?=-\d\d-\d\d)", commit())
    names = [author.get("name") or f"{author['family-names']}, {author['given-names']}" for author in about["authors"]]
    fields = {"title": "{" + about["title"] + "}", "author": "{" + " and ".join(names) + "}"}
    return fields | {"version": about["version"]} | ({"year": year[0]} if year else {})


def cite():
    """How to cite the book, and the papers; nothing without ``CITATION.cff``."""
    if not (fields := cited()):
        return ""
    return filled("cite", fields=fields, keys=[paper["key"] for paper in register() if "key" in paper])
