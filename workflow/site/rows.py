"""Write the page of every row, each with its address, and the list of the numbers that rounding moves."""

import json
import os
import re
from pathlib import Path

from lib.ledger import between, bound, number
from workflow.book.catalogue import BookError, chapters, source, yaml_of
from workflow.book.ledger import GONE, address, commit, is_noise, ledger
from workflow.site import landing_page
from workflow.site.evidence import RECORDED, made_again, mutants, seeds
from workflow.site.markup import called, escaped, link, marked, table

REASONS = Path("book/roundings.yml")  # why rounding moves a number, where its size and interval do not explain it
SMALLER = {"stand-in": "other data", "same data, smaller": "smaller"}
MOVED = re.compile(r"moved to (\S+)")  # what GONE says of a row whose chapter was merged with another
FORWARD = """<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>This page has moved</title>
<meta http-equiv="refresh" content="0; url={0}"><link rel="canonical" href="{0}">
<p>This page is now a part of <a href="{0}">another</a>.</p></html>
"""


def rows():
    """A table for each chapter with all its rows, those that are gone, and what a script needs to cite a row."""
    head = ("verdict", "what was measured", "number", "bound", "seeds", "mutants")
    every = ledger()
    here = {chapter: [row for row in every if row["chapter"] == chapter] for chapter in chapters()}
    titled = "({})=\n## {}\n\n{}"
    tables = [
        titled.format(f"rows-{source(chapter).stem}", link(chapter), table(head, map(_row, rows_here), "ledger"))
        for chapter, rows_here in here.items()
    ]
    cited = json.dumps({"fields": landing_page.cited(), "commit": commit()}).replace("<", "\\u003c")
    script = f'```{{raw}} html\n<script type="application/json" class="cited">{cited}</script>\n```\n'
    return "\n".join([*tables, *gone(every), script])


def gone(every):
    """Section of the rows that are gone, each at its old address; nothing where there are none."""
    taken = {address(row["id"]) for row in every}

    def says(became):
        new = MOVED.fullmatch(became)
        known = new and address(new[1]) in taken
        return f'moved to <a href="#{address(new[1])}">{address(new[1])}</a>' if known else escaped(became)

    lines = [f"- {addressed(name)}: {says(became)}" for name, became in noted().items() if address(name) not in taken]
    return ["## Rows that are gone\n", *lines, ""] if lines else []


def noted():
    """Rows that are gone: old id -> what became of it."""
    return (yaml_of(GONE) or {}) if GONE.exists() else {}


def forward(built):
    """Write a page at the old address of each chapter whose rows moved, which leads to the chapter that has them."""
    for name, became in noted().items():
        old, new = Path(name).parent, Path("".join(MOVED.findall(became))).parent
        if old.as_posix() not in chapters() and new.as_posix() in chapters():
            leads = os.path.relpath(f"{new}.html", old.parent)
            (built / "book" / f"{old}.html").write_text(FORWARD.format(leads), "utf-8")


def addressed(name):
    """Address of a row, at the row itself: a link that shows it."""
    return f'<a class="row-address" id="{address(name)}" href="#{address(name)}">{address(name)}</a>'


def _row(row):
    words = (called(row), row["source"] or "ours", SMALLER.get(row["scale"]), row["kind"] * (row["kind"] != "claim"))
    text = f"{escaped(row['statement'])} ({escaped(', '.join(filter(None, words)))})"
    interval = f" ({between(row['interval'])})" if row["interval"] else ""
    counted = (seeds(row)[2], mutants(row)[1]) if row["verdict"] else ("–", "–")
    if again := made_again(row):
        counted = (f"{RECORDED}; {again}", counted[1])
    asked = bound(row["relation"], row["bound"]) or "–"
    return (
        marked(row["verdict"]),
        f"{text} {addressed(row['id'])}",
        number(row["measured"]) + interval,
        asked + " ●" * (row["set"] == "before"),
        *counted,
    )


def rounded():
    """List of the numbers that another rounding moves by more than a tenth of their size, and why it does."""
    moved = [row for row in ledger() if row["spread"] is not None and is_noise(row["measured"], row["spread"])]
    noise = [row for row in moved if is_rounding_error(row)]
    lines = [
        f"- {{doc}}`{row['chapter']}`: {escaped(row['statement'])}: {number(row['measured'])} by "
        f"{number(row['spread'])}, {why_moved(row)}."
        for row in moved
        if row not in noise
    ]
    many = f"Another {len(noise)} numbers are themselves rounding error, far below their bounds." if noise else ""
    return "\n".join([*lines, "", many]) if moved else "Rounding moves none so far.\n"


def is_rounding_error(row):
    """Tell a number that is no more than the rounding of the run, and well below its bound."""
    most = max(abs(row["measured"]), row["spread"])
    return bool(row["bound"]) and most <= min(1e-6, abs(row["bound"]) / 10)


def why_moved(row):
    """Why rounding moves a number so far: what its interval tells, or what somebody found out."""
    width = (row["interval"][1] - row["interval"][0]) / 2 if row["interval"] else 0
    if row["spread"] <= width:
        return f"a mean over few runs, known to ± {number(width)}"
    reasons = yaml_of(REASONS) if REASONS.exists() else {}
    if row["id"] not in reasons:
        raise BookError(
            f"rounding moves {row['id']} from {row['measured']:.3g} by {row['spread']:.3g}: say why in {REASONS}"
        )
    return reasons[row["id"]]
