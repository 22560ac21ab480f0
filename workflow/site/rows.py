"""Write the page of every row, each with its address, and that of verdicts that changed."""

import html
import json
import os
from pathlib import Path

from lib.ledger import between, bound, formulas, number
from workflow.book.catalogue import chapters, source
from workflow.book.ledger import GONE, address, changes, commit, ledger, moved_chapters
from workflow.book.verdicts import SIGNS
from workflow.site import landing_page
from workflow.site.evidence import mutants, seeds
from workflow.site.markup import called, escaped, link, table

SMALLER = {"stand-in": "other data", "same data, smaller": "smaller"}
FORWARD = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>This page has moved</title>
<meta http-equiv="refresh" content="0; url={0}"><link rel="canonical" href="{0}">
<p>This page is now a part of <a href="{0}">another</a>.</p></html>
"""


def rows():
    """A table for each chapter with all its rows, those that are gone, and what a script needs to cite a row."""
    every = ledger()
    tables = []
    for chapter in chapters():
        here = [row for row in every if row["chapter"] == chapter]
        tables.append(f"(rows-{source(chapter).stem})=\n## {link(chapter)}\n\n{raw(_table(here))}")
    cited = json.dumps({"fields": landing_page.cited(), "commit": commit()}).replace("<", "\\u003c")
    return "\n".join([*tables, *gone(every), raw(f'<script type="application/json" class="cited">{cited}</script>')])


def raw(text):
    """HTML in Markdown."""
    return f"```{{raw}} html\n{text}\n```\n"


def _table(listed):
    head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    body = "\n".join(f"<tr>{''.join(_cell(name, row) for name in COLUMNS)}</tr>" for row in listed)
    made = f'<table class="ledger table"><thead><tr>{head}</tr></thead><tbody>\n{body}\n</tbody></table>'
    return f'<div class="pst-scrollable-table-container">{made}</div>'


def _cell(name, row):
    layout, shown = COLUMNS[name]
    return f'<td class="{layout}" data-name="{name}">{shown(row)}</td>'


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


def _verdict(row):
    word = row["verdict"]
    return f'<span class="verdict {word.replace(" ", "-")}">{SIGNS[word]}&nbsp;{word}</span>' if word else "baseline"


def _sentence(row):
    words = (called(row), row["source"] or "ours", SMALLER.get(row["scale"]), row["kind"] * (row["kind"] != "claim"))
    return f"{formulas(row['statement'])} ({html.escape(', '.join(filter(None, words)))}) {addressed(row['id'])}"


def _number(row):
    return number(row["measured"]) + (f" ({between(row['interval'])})" if row["interval"] else "")


def _bound(row):
    return (bound(row["relation"], row["bound"]) or "–") + " ●" * (row["set"] == "before")


# A column is added, moved or renamed here alone: how its cells are laid out, and what they show. On a phone, where a
# row is a card, `named` cells have their name before them; `whole` ones never break. rows.js cites cells by names.
COLUMNS = {
    "verdict": ("stands", _verdict),
    "what was measured": ("sentence", _sentence),
    "number": ("short", _number),
    "bound": ("short named whole", _bound),
    "seeds": ("short named", lambda row: seeds(row)[2] if row["verdict"] else "–"),
    "mutants": ("short named whole", lambda row: mutants(row) if row["verdict"] else "–"),
}
