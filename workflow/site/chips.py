"""Collect what a chapter's page shows under its title: verdicts, seeds, run time, lines of code."""

from pathlib import Path

from lib.ledger import PLURAL
from workflow.book.catalogue import json_of, lines_of
from workflow.book.ledger import register, rows_of
from workflow.site.evidence import ROBUSTNESS, optional, seeds
from workflow.site.markup import VERDICTS

PLACES = {"claim": "evidence", "control": "what-breaks-it"}


def about(chapter, notebook):
    """Return what a chapter's page says of its run: verdicts and where they stand, seeds, time, lines of code."""
    claims = Path("build/claims", chapter + ".json")
    seconds = json_of(claims)["seconds"] if claims.exists() else None
    rows_here = [row | {"id": f"{chapter}/{row['name']}"} for row in rows_of(notebook)]
    return {
        "of": items_of(chapter),
        "verdicts": list(_counted(rows_here)),
        "seeds": seeds_in_short(chapter, rows_here),
        "runs": "not yet run" if seconds is None else f"runs in {max(1, round(seconds))} s",
        "lines": lines_of(notebook),
    }


def items_of(chapter):
    """Return in a few words which statements a chapter is about, and whose they are."""
    for paper in register():
        if here := [entry.get("called", entry["item"]) for entry in paper["items"] if entry.get("chapter") == chapter]:
            return f"{', '.join(here)} · {paper.get('by', paper['short'])}"
    return "the book's own question"


def _counted(rows):
    """Yield for each verdict of a chapter: its name, how many rows have it, and the section where they stand."""
    for verdict, (one, several) in PLURAL.items():
        found = [row for row in rows if row["verdict"] == verdict]
        if found:
            words = several if len(found) > 1 else one
            yield verdict, f"{VERDICTS[verdict]} {len(found)} {words}", PLACES[found[0]["kind"]]


def seeds_in_short(chapter, rows):
    """Return in a few words on how many fresh seeds a chapter's rows held."""
    judged = [row for row in rows if row["verdict"]]
    if not judged:
        return "no verdict yet"
    found = [seeds(row) for row in judged]
    if words := next((text for held, _, text in found if held is None), None):
        return {"not yet swept": "not yet run on fresh seeds", "older code": "fresh seeds: older code"}[words]
    if not judged or not optional(ROBUSTNESS)[chapter]["block"]:
        return "nothing is drawn"
    held = sum(held >= 0.9 * of for held, of, _ in found)
    return f"on {max(of for _, of, _ in found)} fresh seeds {held} of {len(judged)} held"
