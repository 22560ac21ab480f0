"""Sum up the papers' claims among some rows in one word: for the scoreboard, the map and the chips."""

from lib.ledger import HELD, VERDICTS
from workflow.book.ledger import claims_of

SIGNS = VERDICTS | {"in part": "◑", "in miniature": VERDICTS["seen in miniature"], "not tested": "–"}
STANDINGS = (
    "reproduced", "corrected", "made explicit", "in part", "not reproduced", "undecided", "in miniature", "not tested",
)  # fmt: skip


def holds(row):
    """Tell a claim that holds as it stands: one that corrects shows that a printed sentence does not."""
    return row["verdict"] in HELD and row["verdict"] != "corrected"


def standing(rows):
    """Standing of the claims of papers among some rows: a word of ``STANDINGS``.

    Where at least half of the claims are miniatures they stand in miniature; otherwise the others decide.
    """
    claims = claims_of(rows, "paper")
    exact = [row for row in claims if row["scale"] == "exact"]
    if not claims:
        return "not tested"
    if 2 * len(exact) <= len(claims):
        return "in miniature"
    verdicts = {row["verdict"] for row in exact}
    if verdicts <= set(HELD):
        return next(word for word in ("corrected", "made explicit", "reproduced") if word in verdicts)
    if verdicts & set(HELD):
        return "in part"
    return "not reproduced" if "not reproduced" in verdicts else "undecided"
