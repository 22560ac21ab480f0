"""The page of corrections: each printed sentence that the book changes, what it needs, and the smallest example."""

from pathlib import Path

from workflow.book.catalogue import yaml_of
from workflow.book.ledger import register
from workflow.site import drawings, landing_page

PAGE = Path("book/corrections.yml")
DRAWN = {
    "flat_loss": lambda: (drawings.flat_loss(), {}),
    "opposite_inputs": lambda: (drawings.opposite_inputs(), {}),
    "finite_end": drawings.finite_end,
    "ratio_turns": drawings.ratio_turns,
}


def sentences(rows):
    """Return the corrected rows of a ledger, together where they change one printed sentence."""
    found = {}
    for row in rows:
        if row["verdict"] == "corrected":
            found.setdefault((row["paper"], row["quote"]), []).append(row)
    return found


def sections(rows):
    """Return a section for each printed sentence that needs a change."""
    told = yaml_of(PAGE) if PAGE.exists() else []
    names = {paper["arxiv"]: paper["short"] for paper in register()}
    blocks = []
    for number, ((paper, quote), changed) in enumerate(sentences(rows).items(), 1):
        entry = next((one for one in told if quote.startswith(one["begins"])), {})
        blocks.append(_section(number, quote, names[paper], changed, entry))
    return "\n".join(blocks) or "No printed sentence needs one.\n"


def _section(number, quote, paper, rows, entry):
    from workflow.site.markup import called, escaped, link, numbers

    items = escaped(", ".join(dict.fromkeys(called(row) for row in rows)))
    notes = " ".join(dict.fromkeys(escaped(row["note"]) for row in rows))
    measured = "\n".join(f"- {escaped(row['statement'])}: {numbers(row)}." for row in rows)
    blocks = [
        f"## {number}. {entry.get('title', items)}",
        f"{items}, *{escaped(paper)}*, as printed:",
        f"> {escaped(quote)}",
        f"**What it needs.** {entry.get('needs', notes)}",
        *_example(number, entry),
        f"**Measured** in {' and '.join(map(link, dict.fromkeys(row['chapter'] for row in rows)))}:",
        measured,
    ]
    return "\n\n".join(blocks) + "\n"


def _example(number, entry):
    """Yield the smallest example and its drawing; nothing for a sentence that the page does not know yet."""
    if entry:
        drawing, told = DRAWN[entry["drawing"]]()
        told = {name: landing_page.Number(value) for name, value in told.items()}
        yield f"**The smallest example.** {entry['example'].format(**told)}"
        yield landing_page.figure(drawing, entry["caption"].format(**told), f"fig-correction-{number}").rstrip()
