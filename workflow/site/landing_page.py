"""Write the map of the book, what a chapter needs, and how to cite the book."""

import re
from pathlib import Path

from workflow.book import catalogue
from workflow.book.catalogue import chapters, source, text_of, title, yaml_of
from workflow.book.ledger import commit, register
from workflow.book.verdicts import SIGNS, standing
from workflow.site.markup import filled, link, styled

FRONT, EXERCISES = Path("book/front.yml"), Path("book/exercises.md")
# The label of an exercise, and in the line under it its title and its chapter.
EXERCISE = re.compile(r"^\((exercise-[\w-]+)\)=\n\*\*(.+?)\*\*.*?<([\w/-]+)>`", re.MULTILINE)


def _front():
    return yaml_of(FRONT) if FRONT.exists() else {}


def parts():
    """Chapters by part; all in one where the table of contents has no parts."""
    return catalogue.parts() or {"Chapters": chapters()}


def entries():
    """Entry of the map for each chapter, in reading order; its title speaks for one that the map does not know."""
    known = {entry["chapter"]: entry for entry in _front().get("map") or []}
    return {chapter: known.get(chapter) or _entry(chapter) for chapter in chapters()}


def _entry(chapter):
    name, _, says = re.sub(r"[*$`]", "", title(source(chapter))).partition(":")
    return {"chapter": chapter, "name": name, "says": says.strip()}


def book_map(rows):
    """Map of the book: a list of each part's chapters with how they stand and what they rest on."""
    listed = entries()
    called = {chapter: link(chapter, entry["name"]) for chapter, entry in listed.items()}

    def shown(chapter):
        stands = standing([row for row in rows if row["chapter"] == chapter])
        below = [called[earlier] for earlier in listed[chapter].get("from", ()) if earlier in called]
        says = {"says": listed[chapter]["says"], "from": below}
        return says | {"sign": styled(SIGNS[stands], stands), "link": called[chapter]}

    shown_parts = {part: [*map(shown, chapters)] for part, chapters in parts().items()}
    return filled("book_map", parts=shown_parts, answers=_front().get("parts") or {})


def needs():
    """Tables of each part's chapters: what they build on, what that rests on in turn, and their exercises."""
    listed = entries()
    called = {chapter: link(chapter, entry["name"]) for chapter, entry in listed.items()}
    exercises = EXERCISE.findall(text_of(EXERCISES)) if EXERCISES.exists() else []
    direct = {chapter: [name for name in entry.get("from", ()) if name in called] for chapter, entry in listed.items()}

    def below(chapter):
        return set(direct[chapter]).union(*map(below, direct[chapter]))

    def shown(chapter):
        further = below(chapter) - set(direct[chapter])
        return {
            "link": called[chapter],
            "from": [called[earlier] for earlier in direct[chapter]],
            "below": [called[earlier] for earlier in called if earlier in further],
            "exercises": [f"{{ref}}`{name} <{label}>`" for label, name, of in exercises if of == chapter],
        }

    return filled("needs", parts={part: [*map(shown, chapters)] for part, chapters in parts().items()})


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
