"""Write what pages show from ``_generated/``: texts, drawings, figures of chapters, and the numbers of all of these."""

import json
import re
from pathlib import Path

import nbformat

from workflow.book.catalogue import BookError, json_of, pages, text_of, yaml_of
from workflow.book.ledger import LEDGER, by_place, ledger
from workflow.site import compare, film_review, landing_page, reviews, rows, runs, scoreboard, settings, which_theorem
from workflow.site.evidence import said
from workflow.site.markup import filled

SCENE = "book/story.yml"
MADE = {
    "totals": scoreboard.totals,
    "scoreboard": scoreboard.scoreboard,
    "rows": rows.rows,
    "which_theorem": which_theorem.which_theorem,
    "compare": compare.statements,
    "texts": compare.basis,
    "verdict_changes": rows.changed,
    "recorded": runs.recorded,
    "runs": runs.runs,
    "cost": runs.cost,
    "clone": runs.clone,
    "edition": runs.edition,
    "evidence": lambda: said(ledger()),
    "book_map": lambda: landing_page.book_map(ledger()),
    "needs": landing_page.needs,
    "cite": landing_page.cite,
    "claim_doors": lambda: filled("claim_doors", **settings.published("_static/check-your-claim.ipynb")),
    "scene": lambda: filled("scene", shown=shown(ledger()), review=json.dumps(film_review.attention())),
    "film_reader": lambda: filled("film_reader", **_drawn("film_reader")[1]),
    "heads": lambda: filled("heads", **reviews.shown()),
    "landing": lambda: filled("landing", counts=scoreboard.standings(), **reviews.trained()),
    "glossary": lambda: filled("glossary", terms=yaml_of("book/glossary.yml")),
    "times": runs.times,
}


def texts():
    """Files that pages include or show: name of the file -> text."""
    sources = "".join(text_of(page + ".md") for page in pages())
    asked = set(re.findall(r"_generated/(\w+)\.md", sources))
    made = {f"{name}.md": make() for name, make in MADE.items() if name in asked}
    drawings = sorted(set(re.findall(r"_generated/(\w+)\.svg", "".join([sources, *made.values()]))))
    made |= {f"{name}.svg": _drawn(name)[0] for name in drawings}
    made["drawings.json"] = json.dumps({name: _drawn(name)[1] for name in drawings})
    for chapter, name in set(re.findall(r"_generated/(\w[\w/-]*)/([\w-]+)\.svg", sources)):
        if figure := figure_of(chapter, name):
            made[f"{chapter}/{name}.svg"] = figure
    return made | {LEDGER.name: json.dumps(json_of(LEDGER), ensure_ascii=False)}


def figure_of(chapter, name):
    """A figure that a chapter has drawn, as SVG; nothing where it has not run."""
    run = Path("build/executed", chapter + ".ipynb")
    if not run.exists():
        return ""
    outputs = (output for cell in nbformat.read(run, 4).cells for output in cell.get("outputs", []))
    for output in outputs:
        if output.get("metadata", {}).get("scrapbook", {}).get("name") == name:
            return next(value for kind, value in output.data.items() if kind.endswith("image/svg+xml"))
    raise BookError(f"{chapter} draws no figure that is called {name}")


def shown(rows):
    """Numbers that the scene of *In ten minutes* shows, by their names there."""
    measured = {name: row["measured"] for name, row in by_place(rows).items()}
    named = yaml_of(SCENE)["shown"]
    if missing := [row for row in named.values() if row not in measured]:
        raise BookError(f"{SCENE} shows {missing[0]}, which is no row of the ledger: name one that is")
    return {name: measured[row] for name, row in named.items()}


def _drawn(name):
    """A drawing and its numbers; torch and matplotlib are imported only where a page has one."""
    from workflow.site.drawings import drawn

    return drawn(name)
