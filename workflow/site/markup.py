"""Write the pieces that generated pages are made of, as MyST: tables, links, verdicts, numbers."""

from collections import Counter
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lib.ledger import PLURAL, RELATIONS, VERDICTS
from workflow.book.catalogue import source, title
from workflow.book.ledger import register

TEMPLATES = Environment(  # Markdown needs no escapes of HTML
    loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=False, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip


class Number(float):
    """A measured number, which the format ``tex`` writes with a power of ten."""

    def __format__(self, spec):
        if spec != "tex":
            return float.__format__(self, spec)
        digits, _, power = f"{float(self):.1e}".partition("e")
        return f"{digits} \\cdot 10^{{{int(power)}}}"


def filled(template, **data):
    """Return a template with its data."""
    return TEMPLATES.get_template(f"{template}.md").render(data) + "\n"


def styled(text, verdict):
    """Return text in the style of a verdict."""
    return f"[{text}]{{.verdict .{verdict.replace(' ', '-')}}}"


def bar(rows):
    """Return a block for each row in the colour of its verdict, best first, and how many have which sign."""
    counts = Counter(row["verdict"] for row in rows if row["verdict"])
    found = [verdict for verdict in PLURAL if counts[verdict]]
    blocks = "".join(styled("▮" * counts[verdict], verdict) for verdict in found)
    return f"{blocks} {' '.join(f'{counts[verdict]}&nbsp;{VERDICTS[verdict]}' for verdict in found)}" if found else "–"


def escaped(text):
    """Return plain text as Markdown that reads the same."""
    return "".join("\\" + letter if letter in "\\`*_{}[]<>#$|~@" else letter for letter in text)


def table(head, rows, name=""):
    """Return a Markdown table with a CSS class."""
    lines = [" | ".join(str(cell).replace("\n", " ") for cell in row) for row in [head, ["---"] * len(head), *rows]]
    return "\n".join([f"{{.{name}}}"] * bool(name) + [f"| {line} |" for line in lines]) + "\n"


def link(chapter, text=None):
    """Return a link to a chapter, from a page that stands in ``book/``."""
    return f"{{doc}}`{text or title(source(chapter))} <{chapter}>`"


def numbers(row):
    """Return what was measured, its interval, and the bound."""
    between = " ({:.3g} to {:.3g})".format(*row["interval"]) if row["interval"] else ""
    bound = "" if row["bound"] is None else f", asked {RELATIONS[row['relation']]}&nbsp;{row['bound']:.3g}"
    return f"{row['measured']:.3g}{between}{bound}"


def called(row):
    """Return the name that readers know of the item of a row."""
    entries = (entry for paper in register() if paper["arxiv"] == row["paper"] for entry in paper["items"])
    return next((entry.get("called", row["item"]) for entry in entries if entry["item"] == row["item"]), row["item"])
