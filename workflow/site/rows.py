"""Write the page of every row, and the list of the numbers that rounding moves."""

from pathlib import Path

from workflow.book.catalogue import BookError, chapters, yaml_of
from workflow.book.ledger import finished, is_noise, ledger
from workflow.site.evidence import mutants, seeds
from workflow.site.markup import VERDICTS, called, escaped, link, numbers, styled, table

REASONS = Path("book/roundings.yml")  # why rounding moves some numbers, where neither size nor interval tells


def rows():
    """Return a table for each chapter with all its rows."""
    head = ("verdict", "what was checked", "measured", "seeds", "mutants")
    blocks, found, done = [], ledger(), finished()
    for chapter in chapters():
        here = [row for row in found if row["chapter"] == chapter]
        mark = "" if chapter in done else "Provisional: not yet read row by row.\n\n"
        blocks.append(f"## {link(chapter)}\n\n{mark}" + table(head, map(_row, here), "ledger"))
    return "\n".join(blocks)


def _row(row):
    verdict = styled(f"{VERDICTS[row['verdict']]} {row['verdict']}", row["verdict"]) if row["verdict"] else "baseline"
    words = (called(row), row["source"], "of the book" if row["of"] == "book" and row["kind"] != "baseline" else "")
    about = "; ".join(filter(None, (*words, row["breaks"] and f"broken: {row['breaks']}", row["plants"])))
    name = row["id"].rpartition("/")[2]
    counted = (seeds(row)[2], mutants(row)[1]) if row["verdict"] else ("–", "–")
    text = f"`{name}` {escaped(row['statement'])} ({escaped(about)})"
    return verdict, text, numbers(row) + " †" * (row["set"] == "after"), *counted


def rounded():
    """Return a list of the numbers that another rounding moves by more than a tenth of their size, and why it does."""
    moved = [row for row in ledger() if row["spread"] is not None and is_noise(row["measured"], row["spread"])]
    noise = [escaped(row["id"]) for row in moved if is_rounding_error(row)]
    others = [row for row in moved if not is_rounding_error(row)]
    said = "- {}: {:.2g} by {:.2g}, {}."
    lines = [said.format(escaped(row["id"]), row["measured"], row["spread"], why_moved(row)) for row in others]
    many = f"{len(noise)} more are themselves rounding error, below their bounds: {', '.join(noise)}." if noise else ""
    return "\n".join([*lines, "", many]) if moved else "Rounding moves none so far.\n"


def is_rounding_error(row):
    """Tell a number that is no more than the rounding of the run, and well below its bound."""
    most = max(abs(row["measured"]), row["spread"])
    return bool(row["bound"]) and most <= min(1e-6, abs(row["bound"]) / 10)


def why_moved(row):
    """Return why rounding moves a number so far: what its interval tells, or what somebody found out."""
    width = (row["interval"][1] - row["interval"][0]) / 2 if row["interval"] else 0
    if row["spread"] <= width:
        return f"a mean over few runs, known to ± {width:.2g}"
    found = yaml_of(REASONS) if REASONS.exists() else {}
    if row["id"] not in found:
        raise BookError(
            f"rounding moves {row['id']} from {row['measured']:.3g} by {row['spread']:.3g}: say why in {REASONS}"
        )
    return found[row["id"]]
