"""Write the scoreboard: what became of each statement of the papers, and what the book finds beyond them."""

from collections import Counter
from pathlib import Path

from lib.ledger import HELD
from workflow.book.catalogue import chapters
from workflow.book.ledger import finished, ledger, register, tally
from workflow.site.evidence import MUTANTS, ROBUSTNESS, mutants_of, seeds_of
from workflow.site.markup import VERDICTS, bar, escaped, link, numbers, styled, table

STANDINGS = ("reproduced", "corrected", "in part", "not reproduced", "undecided", "not tested")


class Item:
    """A statement or figure of a paper with its rows: the paper's own, and what the book finds about it."""

    def __init__(self, arxiv, entry, rows):
        self.name, self.called, self.title = entry["item"], entry.get("called", entry["item"]), entry["title"]
        self.rows = [row for row in rows if (row["paper"], row["item"]) == (arxiv, entry["item"])]
        printed = [row for row in self.rows if row["of"] == "paper"]
        self.claims = [row for row in printed if row["kind"] == "claim"]
        self.controls = [row for row in printed if row["kind"] == "control"]
        self.sources = sorted({row["source"] for row in self.claims})

    def standing(self):
        """Return what its claims say together; no claim of the paper, no standing."""
        if not self.claims:
            return "not tested"
        verdicts = {row["verdict"] for row in self.claims}
        if verdicts <= set(HELD):
            return "corrected" if "corrected" in verdicts else "reproduced"
        if verdicts & set(HELD):
            return "in part"
        return "not reproduced" if "not reproduced" in verdicts else "undecided"

    def row(self):
        """Return the item's row of the scoreboard: its name links to its chapter, others have their short names."""
        first, *further = dict.fromkeys(row["chapter"] for row in self.rows) or [None]
        name = ", ".join(
            [link(first, self.called) if first else self.called, *(f"{{doc}}`{chapter}`" for chapter in further)]
        )
        said = "; ".join(self.sources)
        text = f"{name}: {escaped(self.title)}" + f" ({said})" * bool(said) + "".join(map(remark, self.claims))
        claims = bar(self.claims) if self.claims else styled("○ not tested", "open")
        return text, claims, bar(self.controls), seeds_of(self.claims), mutants_of(self.claims)


def papers():
    """Return the papers of the register, each with its items."""
    rows = ledger()
    return [(paper, [Item(paper["arxiv"], entry, rows) for entry in paper["items"]]) for paper in register()]


def remark(row):
    """Return the sentence of a claim that did not simply hold, on a line of its own; nothing for one that did."""
    if row["verdict"] in ("reproduced", "holds"):
        return ""
    said = f"“{row['quote']}” {row['note']}" if row["verdict"] == "corrected" else f"{row['statement']}: {numbers(row)}"
    return f"<br>{styled(VERDICTS[row['verdict']], row['verdict'])} {escaped(said)}"


def totals():
    """Return the numbers of the first page: statements of the papers, each once; the book's own findings apart."""
    every = papers()
    listed = [(paper["short"], items) for paper, items in every]
    listed.append(("**All**", [item for _, items in every for item in items]))
    head = ("", *(name for name, _ in listed))
    counts = [Counter(item.standing() for item in items) for _, items in listed]
    rows = [(standing, *(count[standing] for count in counts)) for standing in STANDINGS]
    rows.append(("**statements**", *(len(items) for _, items in listed)))
    return "\n".join([table(head, rows, "totals"), own(), provisional()])


def own():
    """Return a sentence on the book's own findings and on the controls."""
    rows = ledger()
    findings = [row for row in rows if row["kind"] == "claim" and row["of"] == "book"]
    controls = [row for row in rows if row["kind"] == "control"]
    baselines = sum(row["kind"] == "baseline" for row in rows)
    return (
        f"Of the book's own findings, which no paper states, {tally(findings)}. Of all controls: {tally(controls)}. "
        f"Another {baselines} numbers are baselines, which nothing counts.\n"
    )


def provisional():
    """Return a sentence that says how much of this was read row by row."""
    done, all_of_them = finished(), chapters()
    before = sum(row["set"] == "before" for row in ledger())
    return (
        f"In {len(done)} of {len(all_of_them)} chapters every row was read anew, one by one; in the others whose "
        "statement a row is, and where it comes from, is provisional, and every bound counts as set after a look at "
        f"the numbers. {before} bounds were set before.\n"
    )


def scoreboard():
    """Return one table a paper, one row a statement or figure; then what the book finds; then files."""
    head = ("what it says", "claims", "controls", "seeds", "mutants")
    blocks = [provisional()]
    for paper, items in papers():
        blocks.append(f"## {paper['title']}\n\n" + table(head, [item.row() for item in items], "scoreboard"))
    blocks.append("## What the book finds\n\nRows that no paper states, by chapter.\n")
    blocks.append(table(("chapter", *head[1:]), list(findings()), "scoreboard"))
    blocks.append(files())
    return "\n".join(blocks)


def findings():
    """Yield for each chapter the row of what the book finds there."""
    rows = [row for row in ledger() if row["of"] == "book" and row["kind"] != "baseline"]
    for chapter in chapters():
        here = [row for row in rows if row["chapter"] == chapter]
        claims, controls = ([row for row in here if row["kind"] == kind] for kind in ("claim", "control"))
        if here:
            text = link(chapter) + "".join(map(remark, claims))
            yield text, bar(claims), bar(controls), seeds_of(claims), mutants_of(claims)


def files():
    """Return links to the files behind the numbers."""
    known = {"_generated/ledger.json": "every row of this build"}
    known |= {path.name: what for path, what in ((ROBUSTNESS, "fresh seeds"), (MUTANTS, "mutants")) if path.exists()}
    links = [f"{{download}}`{Path(name).name} <{name}>` ({what})" for name, what in known.items()]
    return f"## Files\n\n{', '.join(links)}.\n"
