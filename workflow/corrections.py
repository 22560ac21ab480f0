"""The page of corrections: each printed sentence that the book changes, what it needs, and the smallest example that shows it."""

from pathlib import Path

import drawings
import front
from chapters import yaml_of
from claims import register

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
    from fragments import called, escaped, link, numbers

    items = list(dict.fromkeys(called(row) for row in rows))
    heading = entry.get("title", f"{', '.join(items)}: {rows[0]['note']}")
    blocks = [
        f"## {number}. {escaped(heading) if not entry else heading}",
        f"{escaped(', '.join(items))}, *{escaped(paper)}*, as printed:",
    ]
    blocks.append(f"> {escaped(quote)}")
    blocks.append(
        f"**What it needs.** {entry['needs']}"
        if entry
        else " ".join(dict.fromkeys(escaped(row["note"]) for row in rows))
    )
    if entry:
        drawing, told = DRAWN[entry["drawing"]]()
        told = {name: front.Number(value) for name, value in told.items()}
        blocks.append(f"**The smallest example.** {entry['example'].format(**told)}")
        blocks.append(front.figure(drawing, entry["caption"].format(**told), f"fig-correction-{number}").rstrip())
    measured = [f"- {escaped(row['statement'])}: {numbers(row)}." for row in rows]
    chapters = list(dict.fromkeys(row["chapter"] for row in rows))
    blocks.append("**Measured**, in " + " and ".join(map(link, chapters)) + ":")
    return "\n\n".join([*blocks, "\n".join(measured)]) + "\n"
