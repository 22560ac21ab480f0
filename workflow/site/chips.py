"""Collect what a chapter's page shows under its title and its findings: claims, checks, rows that seeds turn."""

from collections import Counter
from pathlib import Path

from lib.ledger import HELD, VERDICTS
from workflow.book import records
from workflow.book.catalogue import count_lines, json_of
from workflow.book.ledger import claims_of, placed, register, rows_of, tally
from workflow.book.verdicts import holds, standing
from workflow.site.evidence import FIXED, OFTEN, RECORDED, seeds
from workflow.site.markup import escaped, numbers
from workflow.site.scoreboard import is_check

MEANING = {  # of the weakest origin among a chapter's claims
    "restored": "we restored it from other text",
    "recalled": "we know it, in part or all of it, second-hand",
}
APART = ("corrected", "made explicit", "undecided")  # verdicts that a chip counts beside those that hold


def about(chapter, notebook):
    """What a chapter's page says of its run: subject, two chips, rows that seeds turn, run time, lines of code."""
    claims = Path("build/claims", chapter + ".json")
    seconds = json_of(claims)["seconds"] if claims.exists() else None
    rows = [*placed(chapter, rows_of(notebook))]
    return {
        "of": items_of(chapter, rows),
        "chips": [chip for chip in (paper_chip(rows), checks_chip(rows)) if chip],
        "turn": turned_by_seeds(rows),
        "runs": "not yet run" if seconds is None else f"runs in {max(1, round(seconds))} s",
        "lines": count_lines(cell.source for cell in notebook.cells if cell.cell_type == "code"),
    }


def items_of(chapter, rows):
    """Statements that a chapter is about, and whose they are, in a few words: of its own paper, if it has one."""

    def has_chapter(paper):
        return any(entry.get("chapter") == chapter for entry in paper["items"])

    claimed = {(row["paper"], row["item"]) for row in claims_of(rows, "paper")}
    for paper in sorted(register(), key=has_chapter, reverse=True):
        here = [
            entry.get("called", entry["item"])
            for entry in paper["items"]
            if entry.get("chapter") == chapter or (paper["arxiv"], entry["item"]) in claimed
        ]
        if here:
            return f"{', '.join(here)} · {paper.get('by', paper['short'])}"
    return "Beyond the papers"


def paper_chip(rows):
    """Chip of a chapter's claims of a paper: its text, its standing, and what it means; none without any."""
    claims = claims_of(rows, "paper")
    if not claims:
        return None
    verdicts = Counter(row["verdict"] for row in claims)
    hold = sum(map(holds, claims))
    apart = [f", {verdicts[word]} {word}" for word in APART if verdicts[word]]
    second_hand = [word for word in ("restored", "recalled") if any(row["source"] == word for row in claims)]
    ours = f"claims as {' or '.join(second_hand)}" if second_hand else "the paper's claims"
    where = "in miniature" if standing(claims) == "in miniature" else ours
    means = f"What the paper claims, on this page: {tally(claims)}."
    if second_hand:
        means = f"What the paper claims, as {MEANING[second_hand[-1]]}, on this page: {tally(claims)}."
    if standing(claims) == "in miniature":
        means += " In miniature: other data or a smaller network, which proves nothing about the paper's experiment."
    means += early(claims) + repeated(claims)
    return {
        "text": f"{where}: {hold} of {len(claims)} hold{''.join(apart)}",
        "verdict": standing(claims),
        "means": means,
        "place": "evidence",
    }


def checks_chip(rows):
    """Chip of our findings and ablations; none without any."""
    checks = [row for row in rows if is_check(row)]
    if not checks:
        return None
    kinds = {
        "of our own findings are confirmed": [row for row in checks if row["kind"] == "claim"],
        "ablations break the claim that lost a hypothesis": [row for row in checks if row["kind"] == "ablation"],
    }
    held = {words: sum(row["verdict"] in HELD for row in group) for words, group in kinds.items()}
    means = "; ".join(f"{held[words]} of {len(group)} {words}" for words, group in kinds.items() if group)
    good, of, undecided = sum(held.values()), len(checks), sum(row["verdict"] == "undecided" for row in checks)
    apart = f", {undecided} undecided" if undecided else ""  # neither as expected nor against it
    means = f"Our own checks, {good} of {of} as expected{apart}: {means}.{early(checks)}{repeated(checks)}"
    return {
        "text": f"our checks: {good} of {of} as expected{apart}",
        "verdict": worst(checks),
        "means": means,
        "place": "what-breaks-it",
    }


def early(rows):
    """Sentence on how many bounds were set before the first run."""
    return f" {sum(row['set'] == 'before' for row in rows)} of {len(rows)} bounds were set before the first run."


def repeated(rows):
    """Sentence on the rows that held here: whether they held at fresh seeds as well, and which did not."""
    swept = [entry for entry in map(seeds, _held(rows)) if entry[-1] not in (RECORDED, FIXED)]
    if any(held is None for held, *_ in swept):
        return " Not all of this has been repeated with fresh seeds yet."
    missed = _missed(rows, 1)
    if missed:
        return f" With fresh seeds {len(missed)} of {len(swept)} rows did not hold every time: {'; '.join(missed)}."
    return " Every row that held here and depends on a seed held at all fresh seeds." if swept else ""


def turned_by_seeds(rows):
    """Markdown on rows that came out as expected here, and on fewer than nine in ten fresh seeds."""
    said = [escaped(words) for words in _missed(rows, OFTEN)]
    if not said:
        return ""
    which = "one row" if len(said) == 1 else f"{len(said)} rows"
    often = f"Fresh seeds repeat the verdict of {which} less often than nine times in ten"
    shown = f" {said[0]}." if len(said) == 1 else "".join(f"\n- {words}." for words in said)
    return f"*Not at every seed.* {often}:{shown}"


def _held(rows):
    return [row for row in rows if row["verdict"] in HELD]


def _missed(rows, often):
    """Rows that held here, and on a smaller share of fresh seeds than this: numbers here, and how often they held."""
    counted = [(row, *seeds(row)[:2]) for row in _held(rows)]
    return [_turned(*entry) for entry in counted if entry[1] is not None and entry[1] < often * entry[2]]


def _turned(row, held, of):
    undecided, errors = (records.counts(row)[name] for name in ("undecided", "errors"))
    ends = {"the opposite": of - held - undecided - errors, "undecided": undecided, "an error": errors}
    dropped = f"; dropped: {row['breaks']}" if row["breaks"] else ""
    said = f"“{row['statement']}” ({row['verdict']}: {numbers(row)}{dropped}), the same at {held} of {of} seeds"
    said += "".join(f", {end} at {count}" for end, count in ends.items() if count)
    return said + ", so this run is the exception" * (2 * held < of)


def worst(rows):
    """Verdict that gives a chip its colour: the worst of its rows; that of a finding, where all is well."""
    verdicts = [row["verdict"] for row in rows]
    order = [verdict for verdict in VERDICTS if verdict in verdicts]
    return "confirmed" if set(order) <= {"confirmed", "breaks the claim"} else order[-1]
