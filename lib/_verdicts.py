"""Show rows of the ledger: the words and signs of verdicts, and a table for the reader with the rows as data."""

import html
import re
from dataclasses import asdict

MIME = "application/vnd.what-attention-selects.claims+json"
RELATIONS = {"<=": "≤", ">=": "≥", "==": "="}
PLURAL = {  # the verdict of one row and of several, best first
    "reproduced": ("reproduced", "reproduced"),
    "corrected": ("corrected", "corrected"),
    "holds": ("holds", "hold"),
    "fails as it must": ("control fails as it must", "controls fail as they must"),
    "effect found": ("planted effect found", "planted effects found"),
    "undecided": ("undecided", "undecided"),
    "not reproduced": ("not reproduced", "not reproduced"),
    "fails": ("fails", "fail"),
    "did not fail": ("control did not fail", "controls did not fail"),
    "effect missed": ("planted effect missed", "planted effects missed"),
}
HELD = ("reproduced", "corrected", "holds", "fails as it must", "effect found")
VERDICTS = {verdict: "✓" if verdict in HELD else "✗" for verdict in PLURAL} | {"corrected": "✎", "undecided": "?"}
OPEN_CLAIMS, OPEN_CONTROLS = 6, 4  # in a table; a reader sees no more at once
AFTER = "† This bound was written, or changed, after a look at the numbers: what counts for it is seeds nobody had run."


class Verdict:
    """Rows as a notebook shows them: a table for the reader, the same rows as data for the workflow."""

    def __init__(self, rows):
        self.rows = rows

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": repr(self), "text/html": self._html(), MIME: [asdict(row) for row in self.rows]}

    def __repr__(self):
        return "\n".join(
            f"{_verdict(row):<18} {row.measured:10.3g} {_bound(row):<11} {row.item}: {row.statement}"
            for row in self.rows
        )

    def _html(self):
        shown, folded = _open_rows(self.rows)
        after = f'<p class="verdicts">{AFTER}</p>' if any(row.set == "after" for row in self.rows) else ""
        return _table(shown) + after + _more(folded)


def _verdict(row):
    """Return the verdict with its sign; a baseline has none."""
    return f"{VERDICTS[row.verdict]} {row.verdict}" if row.verdict else "· baseline"


def _bound(row):
    return "" if row.bound is None else f"{row.relation} {row.bound:.3g}"


def _named(row):
    """Return the paper's name for the item; the register's own ids, of results without one, are not for readers."""
    return "" if re.fullmatch(r"[RM]\d", row.item) else f"{row.item}: "


def _open_rows(rows):
    """Return the rows that are open, at most six claims and four controls, and those that are folded under them."""
    claims, controls = ([row for row in rows if row.kind == kind] for kind in ("claim", "control"))
    if len(claims) <= OPEN_CLAIMS and len(controls) <= OPEN_CONTROLS:
        return rows, []
    shown = [*claims[:OPEN_CLAIMS], *controls[:OPEN_CONTROLS]]
    return shown, [row for row in rows if row not in shown]


def _table(rows):
    head = "<tr><th>Verdict</th><th>What was checked</th><th>Measured</th><th>Bound</th></tr>"
    body = "".join(map(_html_row, rows))
    return f'<table class="verdicts"><thead>{head}</thead><tbody>{body}</tbody></table>'


def _more(rows):
    if not rows:
        return ""
    said = f"{len(rows)} more rows" if len(rows) > 1 else "One more row"
    return f'<details class="fold"><summary>{said}</summary>{_table(rows)}</details>'


def _html_row(row):
    words = {
        "recalled": "The statement is recalled." if row.source == "recalled" else "",
        "quote": f"Printed: “{row.quote}”" if row.quote else "",
        "breaks": f"Broken: {row.breaks}." if row.breaks else "",
        "plants": f"Planted: {row.plants}." if row.plants else "",
        "needs": f"Undecided where missed: {', '.join(row.needs)}." if row.needs else "",
        "note": row.note,
    }
    small = html.escape(" ".join(filter(None, words.values())))
    between = "<small>{:.3g} to {:.3g}</small>".format(*row.interval) if row.interval else ""
    bound = "–" if row.bound is None else f"{RELATIONS[row.relation]} {row.bound:.3g}{' †' * (row.set == 'after')}"
    return (
        f'<tr class="{(row.verdict or row.kind).replace(" ", "-")}"><td>{_verdict(row)}</td>'
        f"<td>{html.escape(_named(row) + row.statement)} {f'<small>{small}</small>' * bool(small)}</td>"
        f"<td>{row.measured:.3g}{between}</td><td>{bound}</td></tr>"
    )
