"""Sum up the papers' claims among some rows in one word: for the scoreboard, the map and the chips."""

from lib.ledger import HELD, VERDICTS
from workflow.book.ledger import claims_of

MINIATURE = ("seen in miniature", "not seen in miniature")
SIGNS = VERDICTS | {"in part": "◑", "in miniature": VERDICTS["seen in miniature"], "not tested": "–"}
STANDINGS = (
    "reproduced", "corrected", "made explicit", "in part", "not reproduced", "undecided", "in miniature", "not tested",
)  # fmt: skip


def standing(rows):
    """Standing of the claims of papers among some rows: a word of ``STANDINGS``."""
    claims = claims_of(rows, "paper")
    verdicts = {row["verdict"] for row in claims}
    if not verdicts:
        return "not tested"
    if verdicts & set(MINIATURE) or any(row["scale"] == "stand-in" for row in claims):
        return "in miniature"
    if verdicts <= set(HELD):
        return next(word for word in ("corrected", "made explicit", "reproduced") if word in verdicts)
    if verdicts & set(HELD):
        return "in part"
    return "not reproduced" if "not reproduced" in verdicts else "undecided"
