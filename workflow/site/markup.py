"""Write the pieces that generated pages are made of, as MyST: tables, links, verdicts, numbers."""

from collections import Counter
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from lib.ledger import VERDICTS, between, bound, number
from workflow.book.catalogue import source, title
from workflow.book.ledger import register
from workflow.book.verdicts import SIGNS

TEMPLATES = Environment(  # Markdown needs no escapes of HTML
    loader=FileSystemLoader(Path(__file__).parent / "templates"), autoescape=False, undefined=StrictUndefined,
    trim_blocks=True, lstrip_blocks=True,
)  # fmt: skip


def filled(template, **data):
    """Fill a template with its data."""
    return TEMPLATES.get_template(f"{template}.md").render(data) + "\n"


def styled(text, verdict):
    """Text in the style of a verdict."""
    return f"[{text}]{{.verdict .{verdict.replace(' ', '-')}}}"


def marked(word, text=""):
    """A verdict or a standing with its sign, in its style, or a text in its place; a baseline has no verdict."""
    return styled(f"{SIGNS[word]} {text or word}".strip(), word) if word else "baseline"


def counts(rows):
    """Number of rows with each verdict, by its sign and best first: ``5 ✓ 1 ✎``; a dash for none."""
    verdicts = Counter(row["verdict"] for row in rows)
    said = [styled(f"{verdicts[word]}&nbsp;{sign or word}", word) for word, sign in VERDICTS.items() if verdicts[word]]
    return " ".join(said) or "–"


def escaped(text):
    """A statement as Markdown that reads the same; its formulas stay formulas."""
    parts = text.split("$")
    parts[::2] = [
        "".join("\\" + letter if letter in "\\`*_{}[]<>#|~@" else letter for letter in part) for part in parts[::2]
    ]
    parts[1::2] = [part.replace("\\|", "\\Vert ").replace("|", "\\vert ") for part in parts[1::2]]  # a bar ends a cell
    return "$".join(parts)


def table(head, rows, name=""):
    """A Markdown table with a CSS class."""
    lines = [" | ".join(str(cell).replace("\n", " ") for cell in row) for row in [head, ["---"] * len(head), *rows]]
    return "\n".join([f"{{.{name}}}"] * bool(name) + [f"| {line} |" for line in lines]) + "\n"


def link(chapter, text=None):
    """A link to a chapter, from a page that stands in ``book/``; its words hold no formula."""
    return f"{{doc}}`{(text or title(source(chapter))).replace('$', '')} <{chapter}>`"


def numbers(row):
    """Measured number of a row, its interval, and the bound."""
    interval = f" ({between(row['interval'])})" if row["interval"] else ""
    asked = f"; bound: {bound(row['relation'], row['bound'])}" if row["bound"] is not None else ""
    return f"{number(row['measured'])}{interval}{asked}"


def called(row):
    """Name that readers know of the item of a row."""
    entries = (entry for paper in register() if paper["arxiv"] == row["paper"] for entry in paper["items"])
    return next((entry.get("called", row["item"]) for entry in entries if entry["item"] == row["item"]), row["item"])
