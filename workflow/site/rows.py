"""Write the page of every row, each with its address, and that of verdicts that changed."""

import json
import os
from pathlib import Path

from lib.ledger import between, bound, number
from workflow.book.catalogue import chapters, source
from workflow.book.changes import GONE, changes
from workflow.book.ledger import address, commit, ledger, moved_chapters
from workflow.site import landing_page
from workflow.site.evidence import OPEN, seeds, turned
from workflow.site.markup import called, escaped, link, marked, table

SMALLER = {"stand-in": "other data", "same data, smaller": "smaller"}
FORWARD = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>This page has moved</title>
<meta http-equiv="refresh" content="0; url={0}"><link rel="canonical" href="{0}">
<p>This page is now a part of <a href="{0}">another</a>.</p></html>
"""


def rows():
    """A table for each chapter with all its rows, those that are gone, and what a script needs to cite a row."""
    head = ("verdict", "what was measured", "number", "bound", "seeds", "mutants")
    every = ledger()
    faults = turned(every)
    here = {chapter: [row for row in every if row["chapter"] == chapter] for chapter in chapters()}
    titled = "({})=\n## {}\n\n{}"
    tables = [
        titled.format(f"rows-{source(chapter).stem}", link(chapter), table(head, lines, "ledger"))
        for chapter, rows_here in here.items()
        for lines in [[_row(row, faults) for row in rows_here]]
    ]
    cited = json.dumps({"fields": landing_page.cited(), "commit": commit()}).replace("<", "\\u003c")
    script = f'```{{raw}} html\n<script type="application/json" class="cited">{cited}</script>\n```\n'
    return "\n".join([*tables, *gone(every), script])


def gone(every):
    """Section of the rows that are gone, each at its old address; nothing where there are none."""
    taken = {address(row["id"]) for row in every}
    went = [(name, change) for change in changes() for name in change["rows"] if change["now"] == GONE]
    lines = [
        f"- {addressed(name)}: was {escaped(change['was'])}. {escaped(change['why'])}"
        for name, change in went
        if address(name) not in taken
    ]
    return ["## Rows that are gone\n", *lines, ""] if lines else []


def changed():
    """The page of verdicts that changed, the latest first: rows whose test changed, then all others."""
    every, taken = [*reversed(changes())], {address(row["id"]) for row in ledger()}
    parts = {
        "The test changed after its result was known": [change for change in every if "test" in change],
        "The number, the data or a rule for all rows changed": [change for change in every if "test" not in change],
    }
    return "\n".join(f"## {head}\n\n{_changes(some, taken)}" for head, some in parts.items() if some)


def _changes(some, taken):
    def linked(name):
        place = address(name)
        return f'<a href="rows.html#{place}">{place}</a>' if place in taken else f"`{place}`"

    lines = [
        (
            change["when"],
            ", ".join(map(linked, change["rows"])),
            *(escaped(change[word]) for word in ("was", "now", "why")),
        )
        for change in some
    ]
    return table(("day", "rows", "before", "after", "why"), lines, "changes")


def forward(built):
    """Write a page at the old address of each chapter that became a part of another, which leads there."""
    for old, moved in moved_chapters().items():
        leads = os.path.relpath(f"{moved['to']}.html", Path(old).parent)
        (built / "book" / f"{old}.html").write_text(FORWARD.format(leads), "utf-8")


def addressed(name):
    """Address of a row, at the row itself: a link that shows it."""
    return f'<a class="row-address" id="{address(name)}" href="#{address(name)}">{address(name)}</a>'


def _row(row, faults):
    words = (called(row), row["source"] or "ours", SMALLER.get(row["scale"]), row["kind"] * (row["kind"] != "claim"))
    text = f"{escaped(row['statement'])} ({escaped(', '.join(filter(None, words)))})"
    interval = f" ({between(row['interval'])})" if row["interval"] else ""
    counted = (seeds(row)[2], faults.get(row["id"], OPEN)) if row["verdict"] else ("–", "–")
    asked = bound(row["relation"], row["bound"]) or "–"
    return (
        marked(row["verdict"]),
        f"{text} {addressed(row['id'])}",
        number(row["measured"]) + interval,
        asked + " ●" * (row["set"] == "before"),
        *counted,
    )
