"""Write the scoreboard: what became of each statement of the papers, what did not simply hold, and what we found."""

from collections import Counter
from pathlib import Path

from lib.ledger import HELD, signed
from workflow.book import records
from workflow.book.catalogue import chapters
from workflow.book.ledger import claims_of, ledger, register, tally
from workflow.book.verdicts import STANDINGS, holds, standing
from workflow.site.evidence import said, seeds_of
from workflow.site.markup import counts, escaped, filled, link, marked, numbers, table

SOURCES = {
    "printed": "printed text",
    "restored": "text restored from proof and context (papers 2 and 3: from abstract, summary or code)",
    "recalled": "text recalled from memory",
}
REMARKABLE = (
    "not reproduced", "refuted", "does not break the claim", "corrected", "made explicit", "undecided",
    "not seen in miniature",
)  # fmt: skip


class Item:
    """A statement or figure of a paper with its rows: the paper's own, and what the book finds about it."""

    def __init__(self, arxiv, entry, rows):
        self.name, self.called, self.title = entry["item"], entry.get("called", entry["item"]), entry["title"]
        self.rows = [row for row in rows if (row["paper"], row["item"]) == (arxiv, entry["item"])]
        self.claims = claims_of(self.rows, "paper")
        self.checks = [row for row in self.rows if is_check(row)]
        self.standing = standing(self.rows)

    def row(self):
        """Row of the item in the scoreboard: its name links to its first chapter."""
        first = next((row["chapter"] for row in self.rows), None)
        name = link(first, self.called) if first else self.called
        source = max((row["source"] for row in self.claims), key=list(SOURCES).index, default="")  # the weakest
        text = f"{name}: {escaped(self.title)}" + f" ({source})" * bool(source)
        mixed = self.standing == "in miniature" and not all(map(holds, self.claims))
        stands = marked(self.standing, self.standing + ", in part" * mixed)
        return text, stands, counts(self.claims), passed(self.checks), seeds_of(self.claims)


def is_check(row):
    """Tell a row that checks rather than claims for a paper: a finding of ours, or an ablation."""
    return row["kind"] == "ablation" or (row["of"], row["kind"]) == ("book", "claim")


def passed(rows, of="/"):
    """Number of checks that came out as they should, ``12/13``; a dash where there are none."""
    return f"{sum(row['verdict'] in HELD for row in rows)}{of}{len(rows)}" if rows else "–"


def papers():
    """Papers of the register, each with its items."""
    rows = ledger()
    return [(paper, [Item(paper["arxiv"], entry, rows) for entry in paper["items"]]) for paper in register()]


def totals():
    """Table of how many statements of each paper have which standing."""
    every = papers()
    listed = [(paper["short"], items) for paper, items in every]
    listed.append(("**All**", [item for _, items in every for item in items]))
    standings = [Counter(item.standing for item in items) for _, items in listed]
    rows = [
        (marked(word), *(count[word] or "–" for count in standings))
        for word in STANDINGS
        if any(count[word] for count in standings)
    ]
    rows.append(("**statements**", *(len(items) for _, items in listed)))
    return table(("standing", *(name for name, _ in listed)), rows, "totals")


def standings():
    """Sentence that says how many statements have which standing."""
    items = [item for _, each in papers() for item in each]
    count = Counter(item.standing for item in items)
    told = [f"{count[word]} {marked(word)}" for word in STANDINGS if count[word]]
    meaning = "{ref}`what these words mean <how-to-read>`"
    return f"Of {len(items)} statements and figures of three papers: {', '.join(told)} ({meaning})."


def scoreboard():
    """Totals and their basis, one table a paper, our findings, what did not simply hold, and files."""
    head, rows = ("statement", "standing", "claims", "checks", "seeds"), ledger()
    tables = [(paper["title"], table(head, [item.row() for item in items], "scoreboard")) for paper, items in papers()]
    ours = table(("chapter", "findings", "checks", "seeds"), list(findings(rows)), "found")
    shown = {"papers": tables, "findings": ours, "remarkable": remarkable(rows), "files": files()}
    return filled("scoreboard", totals=totals(), **basis(rows), **shown)


def basis(rows):
    """Basis of the verdicts in numbers: texts, data, bounds, seeds, and our checks."""
    claims, of_kind = claims_of(rows, "paper"), {}
    for row in rows:
        of_kind.setdefault(row["kind"], []).append(row)
    sources, small = Counter(row["source"] for row in claims), [row for row in claims if row["scale"] != "exact"]
    bounded = [row for row in rows if row["bound"] is not None]
    return {
        "claims": len(claims),
        "sources": {words: sources[source] for source, words in SOURCES.items()},
        "small": len(small),
        "small_verdicts": tally(small),
        "before": sum(row["set"] == "before" for row in bounded),
        "bounded": len(bounded),
        "evidence": said(rows),
        "ours": tally(claims_of(rows, "book")),
        "ablations": passed(of_kind.get("ablation"), " of "),
        "baselines": len(of_kind.get("baseline", ())),
    }


def remarkable(rows):
    """Rows that did not simply hold, by verdict and worst first: the sentence, the number, and the bound."""
    by_verdict = {}
    for verdict in REMARKABLE:
        missed = ", which this ablation was expected to miss" * (verdict == "does not break the claim")
        lines = [f"{{doc}}`{row['chapter']}`: {escaped(row['statement'])}: {numbers(row)}{missed}."
                 for row in rows if row["verdict"] == verdict]  # fmt: skip
        by_verdict |= {signed(verdict): lines} if lines else {}
    return by_verdict


def findings(rows):
    """Yield for each chapter what we claim there ourselves, and its checks."""
    for chapter in chapters():
        here = [row for row in rows if row["chapter"] == chapter]
        if checks := [row for row in here if is_check(row)]:
            yield link(chapter), counts(claims_of(here, "book")), passed(checks), seeds_of(checks)


def files():
    """Links to the files behind the numbers."""
    known = {"_generated/ledger.json": "every row of this build"}
    more = {records.SEEDS: "fresh seeds", records.MUTANTS: "small faults put into the library, and the rows they turn"}
    known |= {path.name: what for path, what in more.items() if path.exists()}
    return [f"{{download}}`{Path(name).name} <{name}>` ({what})" for name, what in known.items()]
