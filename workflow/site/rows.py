"""Write the page of every row, each with its address, and that of verdicts that changed."""

import html
import json
import math
import os
from collections import Counter
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
    once = {name for change in changes() for name in change["rows"]}
    every = [row | {"changed": row["id"] in once} for row in ledger()]
    tables = []
    for chapter in chapters():
        here = [row for row in every if row["chapter"] == chapter]
        counts = Counter(row["verdict"] or "baseline" for row in here)
        said = f"{len(here)} rows: {', '.join(f'{count} {word}' for word, count in counts.most_common())}"
        folded = f'<details class="rows-of"><summary>{said}</summary>{_table(here)}</details>'
        tables.append(f"(rows-{source(chapter).stem})=\n## {link(chapter)}\n\n{raw(folded)}")
    cited = json.dumps({"fields": landing_page.cited(), "commit": commit()}).replace("<", "\\u003c")
    return "\n".join([*tables, *gone(every), raw(f'<script type="application/json" class="cited">{cited}</script>')])


def raw(text):
    """HTML in Markdown."""
    return f"```{{raw}} html\n{text}\n```\n"


def _table(listed):
    head = "".join(f'<th scope="col">{name}</th>' for name in COLUMNS)
    body = "\n".join(
        f'<tr data-of="{row["paper"] or "ours"}">{"".join(_cell(name, row) for name in COLUMNS)}</tr>' for row in listed
    )
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
    marked = set()
    return "\n".join(f"## {head}\n\n{_changes(some, taken, marked)}" for head, some in parts.items() if some)


def _changes(some, taken, marked):
    def linked(name):
        place = address(name)
        if place not in taken:
            return f"`{place}`"
        mark = f' id="was-{place}"' * (place not in marked)
        marked.add(place)
        return f'<a{mark} href="rows.html#{place}">{place}</a>'

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
    said = f"{formulas(row['statement'])} ({html.escape(', '.join(filter(None, words)))}) {addressed(row['id'])}"
    past = f' <a class="row-history" href="verdict-changes.html#was-{address(row["id"])}">history</a>'
    return said + past * row["changed"]


def _number(row):
    return number(row["measured"]) + (f" ({between(row['interval'])})" if row["interval"] else "") + strip(row)


def strip(row):
    """A number beside its bound as a drawing: the bound a tick, the number a dot, its interval a line; "" without any.

    Where both have one sign the scale is in powers of ten, three to each side; else it is linear, and the larger of
    the two reaches the edge. What lies further out stands at the edge.
    """
    bound, told = row["bound"], [row["measured"], *(row["interval"] or ())]
    if bound is None or not all(map(math.isfinite, [bound, *told])):
        return ""
    if bound and min(value / bound for value in told) > 0:
        far = [math.log10(value / bound) / 3 * (1 if bound > 0 else -1) for value in told]
    else:
        size = max(abs(value - bound) for value in told) or 1
        far = [(value - bound) / size for value in told]
    dot, *ends = (round(30 + 28 * max(-1, min(1, value))) for value in far)
    line = f'<path d="M{min(ends)} 5H{max(ends)}"/>' if ends else ""
    drawn = f'<path d="M30 1V9"/>{line}<circle cx="{dot}" cy="5" r="2.2"/>'
    return f'<svg class="strip" viewBox="0 0 60 10" aria-hidden="true">{drawn}</svg>'


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
