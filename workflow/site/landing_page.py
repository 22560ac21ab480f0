"""Write the map of the book, what a chapter needs, and how to cite the book."""

import re
from pathlib import Path

from workflow.book.catalogue import chapters, source, text_of, title, yaml_of
from workflow.book.ledger import commit, register
from workflow.book.verdicts import SIGNS, standing
from workflow.site.markup import filled, link, styled

FRONT, EXERCISES = Path("book/front.yml"), Path("book/exercises.md")
# The label of an exercise, and in the line under it its title and its chapter.
EXERCISE = re.compile(r"^\((exercise-[\w-]+)\)=\n\*\*(.+?)\*\*.*?<([\w/-]+)>`", re.MULTILINE)
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


def needs():
    """Tables of each part's chapters: what they build on, what that rests on in turn, and their exercises."""
    listed, below, parts = entries(), {}, {}
    called = {entry["chapter"]: link(entry["chapter"], entry["name"]) for entry in listed}
    exercises = EXERCISE.findall(text_of(EXERCISES)) if EXERCISES.exists() else []
    for chapter, direct in {entry["chapter"]: entry.get("from", ()) for entry in listed}.items():
        below[chapter] = set(direct).union(*(below.get(earlier, ()) for earlier in direct))
        part = chapter.partition("/")[0]
        parts.setdefault(PARTS.get(part, part.replace("-", " ").capitalize()), []).append(
            {
                "link": called[chapter],
                "from": [called[earlier] for earlier in direct if earlier in called],
                "below": [called[earlier] for earlier in called if earlier in below[chapter] - set(direct)],
                "exercises": [f"{{ref}}`{name} <{label}>`" for label, name, of in exercises if of == chapter],
            }
        )
    return filled("needs", parts=parts)


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
