"""Write the texts that pages include from ``_generated/``: the name of a file, and the function that makes it."""

import json
import re

from workflow.book.catalogue import json_of, pages, text_of
from workflow.book.ledger import LEDGER, ledger
from workflow.site import corrections, drawings, landing_page, rows, runs, scoreboard

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
    "picture": landing_page.picture,
    "ends": landing_page.ends,
    "cite": landing_page.cite,
    "findings": lambda: landing_page.findings(ledger()),
    "tokens": lambda: landing_page.raw(drawings.tokens()),
}


def texts():
    """Return the texts that some page includes: name of the file -> text."""
    asked = set(re.findall(r"_generated/(\w+)\.md", "".join(text_of(page + ".md") for page in pages())))
    made = {f"{name}.md": make() for name, make in MADE.items() if name in asked}
    return made | runs.records() | {LEDGER.name: json.dumps(json_of(LEDGER), ensure_ascii=False)}
