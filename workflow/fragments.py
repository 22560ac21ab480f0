"""What the pages show of the ledger: totals, scoreboard and runs, as MyST that they include from ``_generated/``."""

import sys
import tomllib
from importlib.metadata import version
from operator import attrgetter
from pathlib import Path
from platform import python_version

import parameters
from chapters import BookError, chapters, json_of, read, source, title
from claims import LEDGER, commit, direct_dependencies, register, reports, tally

# An item is as good as its worst claim. The signs are those of lib/ledger.py.
WORST_FIRST = {"not reproduced": "✗", "corrected": "✎", "reproduced": "✓"}
SIGNS = WORST_FIRST | {"open": "○"}


def badge(verdict):
    """Return a verdict with its sign and its style."""
    return f"[{SIGNS[verdict]} {verdict}]{{.verdict .{verdict.replace(' ', '-')}}}"


def table(head, rows, name=""):
    """Return a Markdown table with a CSS class."""
    lines = [" | ".join(str(cell).replace("|", r"\|") for cell in row) for row in [head, ["---"] * len(head), *rows]]
    return "\n".join([f"{{.{name}}}"] * bool(name) + [f"| {line} |" for line in lines]) + "\n"


def link(chapter, text=None):
    """Return a link to a chapter, from a page that stands in ``book/``."""
    return f"{{doc}}`{text or title(source(chapter))} <{chapter}>`"


class Item:
    """A statement or figure with its rows of the ledger."""

    def __init__(self, arxiv, entry, ledger):
        self.name, self.title = entry["item"], entry["title"]
        self.rows = [row for row in ledger if (row["paper"], row["item"]) == (arxiv, entry["item"])]
        self.claims = [row for row in self.rows if row["kind"] == "claim"]
        self.controls = [row for row in self.rows if row["kind"] == "control"]
        verdicts = {row["verdict"] for row in self.claims}
        self.verdict = next((verdict for verdict in WORST_FIRST if verdict in verdicts), "open")

    def row(self):
        """Return the item's row of the scoreboard; its name links to its chapter, further chapters follow by theirs."""
        first, *further = dict.fromkeys(row["chapter"] for row in self.rows) or [None]
        name = ", ".join([link(first, self.name) if first else self.name, *map(link, further)])
        return badge(self.verdict), name, self.title, tally(self.claims), tally(self.controls)


def papers():
    """Return the papers of the register, each with its items."""
    ledger = json_of(LEDGER)["claims"]
    return [(paper, [Item(paper["arxiv"], entry, ledger) for entry in paper["items"]]) for paper in register()]


def totals():
    """Return the numbers of the first page."""
    rows, everything = [], []
    for paper, items in papers():
        everything += items
        rows.append(_total(paper["short"], items))
    rows.append(_total("**All**", everything))
    sentence = f"**{_total('', everything)[1]}** statements and figures have a verdict.\n\n"
    return sentence + table(("paper", "with a verdict", "claims", "controls"), rows, "totals")


def _total(name, items):
    done = sum(item.verdict != "open" for item in items)
    claims, controls = (
        [row for item in items for row in rows(item)] for rows in (attrgetter("claims"), attrgetter("controls"))
    )
    return name, f"{done} of {len(items)}", tally(claims), tally(controls)


def scoreboard():
    """Return one table a paper, one row a statement or figure."""
    head = ("verdict", "item", "what it says", "claims", "controls")
    blocks = []
    for paper, items in papers():
        blocks.append(f"## {paper['title']}\n\n" + table(head, [item.row() for item in items], "scoreboard"))
    return "\n".join(blocks)


def runs():
    """Return how long each chapter of this site ran, with which parameters, on which versions."""
    rows = []
    for run in reports():
        items = ", ".join(dict.fromkeys(row["item"] for row in run["rows"]))
        values = "<br>".join(f"`{name} = {value!r}`" for name, value in run["parameters"].items())
        rows.append((link(run["chapter"]), items, f"{run['seconds']:.1f} s", values or "–"))
    versions = [(f"`{name}`", version(name)) for name in direct_dependencies()]
    return "\n".join(
        [
            table(("chapter", "reproduces", "time", "parameters"), rows, "runs"),
            f"Python {python_version()}, and of the packages that the book names itself:\n",
            table(("package", "version"), versions, "versions"),
        ]
    )


def edition():
    """Return which version of the sources this site shows."""
    numbered = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return f"Version {numbered}, commit {commit()}.\n"


def texts():
    """Return all fragments: name of the file -> text."""
    return {make.__name__ + ".md": make() for make in (totals, scoreboard, runs, edition)}


def overview():
    """Print the chapters, what each reproduces, and its parameters, from their sources alone."""
    items = {}
    for paper in register():
        for entry in paper["items"]:
            items.setdefault(entry.get("chapter"), []).append(entry["item"])
    for chapter in chapters():
        print(f"{chapter}: {title(source(chapter))} [{', '.join(items.get(chapter, ['-']))}]")
        known = parameters.declared(read(chapter)).items()
        print("    " + ", ".join(f"{name}: {kind} = {default!r}" for name, (kind, default, _) in known))


if __name__ == "__main__":
    try:
        overview()
    except BookError as error:
        sys.exit(str(error))
