"""The page of corrections: each printed sentence that the book changes, what it needs, and the smallest example."""

from pathlib import Path

from workflow.book.catalogue import yaml_of
from workflow.book.ledger import register
from workflow.site.markup import Number, called, escaped, filled, link, numbers

PAGE = Path("book/corrections.yml")


def sentences(rows):
    """Return the corrected rows of a ledger, together where they change one printed sentence."""
    found = {}
    for row in rows:
        if row["verdict"] == "corrected":
            found.setdefault((row["paper"], row["quote"]), []).append(row)
    return found


def sections(rows):
    """Return a section for each printed sentence that needs a change."""
    entries = yaml_of(PAGE) if PAGE.exists() else []
    names = {paper["arxiv"]: paper["short"] for paper in register()}
    found = []
    for (paper, quote), changed in sentences(rows).items():
        entry = next((one for one in entries if quote.startswith(one["begins"])), {})
        if entry:
            from workflow.site.drawings import drawn  # with torch: seconds, which a page without drawings is spared

            told = {name: Number(value) for name, value in drawn(entry["drawing"])[1].items()}
            entry |= {part: entry[part].format(**told) for part in ("example", "caption")}
        items = escaped(", ".join(dict.fromkeys(map(called, changed))))
        about = {
            "title": items,
            "needs": " ".join(dict.fromkeys(escaped(row["note"]) for row in changed)),
            "drawing": None,
            "called": items,
            "paper": escaped(names[paper]),
            "quote": escaped(quote),
            "chapters": map(link, dict.fromkeys(row["chapter"] for row in changed)),
            "measured": [f"{escaped(row['statement'])}: {numbers(row)}" for row in changed],
        }
        found.append(about | entry)
    return filled("corrections", sections=found)
