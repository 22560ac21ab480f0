"""What we had to correct, as errata: printed sentences that change, hypotheses to add, smallest counterexamples."""

from pathlib import Path

from workflow.book.catalogue import yaml_of
from workflow.book.ledger import register
from workflow.site.markup import Number, called, escaped, filled, link, numbers

PAGE = Path("book/corrections.yml")
FORMATTED = ("example", "caption", "certificate")  # with numbers of the drawing


def sentences(rows):
    """Return the corrected rows of a ledger, together where they change one printed sentence."""
    return grouped(rows, "corrected", "quote")


def grouped(rows, verdict, field):
    """Return the rows with a verdict, together where they share a paper and another field."""
    found = {}
    for row in rows:
        if row["verdict"] == verdict:
            found.setdefault((row["paper"], row[field]), []).append(row)
    return found


def sections(rows):
    """Return a section for each printed sentence that changes, and one for each hypothesis that is made explicit."""
    entries = yaml_of(PAGE) if PAGE.exists() else []
    names = {paper["arxiv"]: paper["short"] for paper in register()}
    corrected = [
        section(
            names[paper],
            changed,
            next((one for one in entries if quote.startswith(one.get("begins", quote + " "))), {}),
        )
        for (paper, quote), changed in sentences(rows).items()
    ]
    explicit = [
        section(names[paper], changed, next((one for one in entries if one.get("item") == item), {}))
        for (paper, item), changed in grouped(rows, "made explicit", "item").items()
    ]
    return filled("corrections", corrected=corrected, explicit=explicit)


def section(paper, changed, entry):
    """Return what the page says of one sentence or hypothesis: by ``corrections.yml``, or by the notes of its rows."""
    if entry:
        from workflow.site.drawings import drawn  # with torch: seconds, which a page without drawings is spared

        told = {name: Number(value) for name, value in drawn(entry["drawing"])[1].items()}
        entry = entry | {part: entry[part].format(**told) for part in FORMATTED if part in entry}
    items = escaped(", ".join(dict.fromkeys(map(called, changed))))
    about = {
        "title": items,
        "should": " ".join(dict.fromkeys(escaped(row["note"]) for row in changed)),
        "why": None,
        "touches": None,
        "drawing": None,
        "certificate": None,
        "called": items,
        "paper": escaped(paper),
        "quote": escaped(changed[0]["quote"] or ""),
        "chapters": list(map(link, dict.fromkeys(row["chapter"] for row in changed))),
        "measured": [f"{escaped(row['statement'])}: {numbers(row)}" for row in changed],
    }
    return about | entry
