"""Write the texts that pages include from ``_generated/``: the name of a file, and the function that makes it."""

import json
import re

from workflow.book.catalogue import json_of, pages, text_of, yaml_of
from workflow.book.ledger import LEDGER, ledger
from workflow.site import beliefs, corrections, landing_page, rows, runs, scoreboard, speed, story
from workflow.site.markup import filled

MADE = {
    "totals": scoreboard.totals,
    "scoreboard": scoreboard.scoreboard,
    "rows": rows.rows,
    "rounded": rows.rounded,
    "corrections": lambda: corrections.sections(ledger()),
    "runs": runs.runs,
    "cost": runs.cost,
    "clone": runs.clone,
    "edition": runs.edition,
    "book_map": lambda: landing_page.book_map(ledger()),
    "picture": lambda: filled("picture", **_drawn("selection")[1]),
    "ends": landing_page.ends,
    "cite": landing_page.cite,
    "believed": lambda: beliefs.short(ledger()),
    "beliefs": lambda: beliefs.page(ledger()),
    "story": lambda: story.page(ledger()),
    "tokens": lambda: filled("tokens", **_drawn("tokens")[1]),
    "film_reader": lambda: filled("film_reader", **_drawn("film_reader")[1]),
    "way": lambda: filled("way"),
    "glossary": lambda: filled("glossary", terms=yaml_of("book/glossary.yml")),
    "speed": lambda: speed.page(speed.recorded()),
}


def texts():
    """Return the texts that some page includes, and the drawings that these show: name of the file -> text."""
    asked = set(re.findall(r"_generated/(\w+)\.md", "".join(text_of(page + ".md") for page in pages())))
    made = {f"{name}.md": make() for name, make in MADE.items() if name in asked}
    shown = set(re.findall(r"_generated/(\w+)\.svg", "".join(made.values())))
    made |= {f"{name}.svg": landing_page.ends_drawing() if name == "ends" else _drawn(name)[0] for name in shown}
    return made | {LEDGER.name: json.dumps(json_of(LEDGER), ensure_ascii=False)}


def _drawn(name):
    """Return a drawing and its numbers, importing torch and matplotlib only where a page has one."""
    from workflow.site.drawings import drawn

    return drawn(name)
