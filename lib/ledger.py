"""Claims, controls and verdicts: what a chapter measured, against a bound that it chose before.

A chapter calls :func:`claim` and :func:`control` for its rows and :func:`verdict` once to show them. The rows
travel in the executed notebook as data beside the table that a reader sees; the workflow collects them.
"""

import html
import math
import operator
from dataclasses import asdict, dataclass
from numbers import Real

MIME = "application/vnd.what-attention-selects.claims+json"
RELATIONS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}
VERDICTS = {
    "reproduced": "✓",
    "corrected": "✎",
    "not reproduced": "✗",
    "control fails as it must": "✓",
    "control did not fail": "✗",
}
PAPERS = ("2306.13596", "2402.05738", "2410.14581")


@dataclass(frozen=True)
class Row:
    """One row of the ledger; build it with :func:`claim` or :func:`control`.

    ``tolerance`` is how far ``measured`` may move from one machine to the next before a rebuild counts as changed.
    """

    name: str
    paper: str
    item: str
    statement: str
    kind: str
    measured: float
    relation: str
    bound: float
    verdict: str
    tolerance: float
    note: str = ""


def claim(
    name, statement, measured, relation, bound, *, item, paper="2306.13596", note="", corrects="", tolerance=None
):
    """State that ``measured relation bound`` holds, as the paper's ``item`` says.

    Parameters
    ----------
    name : str
        Short name, unique in the chapter, of the form ``direction`` or ``direction-n2``.
    statement : str
        What was checked, one sentence of plain text.
    measured, bound : float
        Finite numbers on one scale. The bound is written down before the run.
    relation : {"<=", ">=", "=="}
    item : str
        The paper's own name: "Theorem 2", "Figure 1(b)"; R1 to R8 and M1 to M6 for the other two papers.
    paper : str
        arXiv number.
    note : str
        What a reader must know to read the row.
    corrects : str
        What the paper's statement needs; given, a holding row reads "corrected" instead of "reproduced".
    tolerance : float, optional
        Absolute; by default 1e-6 of the measured value and a hundredth of the bound, 0 for "==".

    Returns
    -------
    Row

    Raises
    ------
    ValueError
        If a number is not finite, a relation or paper is unknown, or a name, item or statement is empty.

    Examples
    --------
    >>> claim("direction", "1 - cos to the separator", 1e-6, "<=", 1e-5, item="Theorem 2").verdict
    'reproduced'
    >>> claim("direction", "1 - cos to the separator", 1e-4, "<=", 1e-5, item="Theorem 2").verdict
    'not reproduced'
    """
    held = "corrected" if corrects else "reproduced"
    note = " ".join(filter(None, (corrects, note)))
    return _row(
        "claim", (held, "not reproduced"), name, statement, measured, relation, bound, item, paper, note, tolerance
    )


def control(name, statement, measured, relation, bound, *, item, paper="2306.13596", note="", tolerance=None):
    """State the *same* relation on a problem with one hypothesis broken, where it must not hold.

    Arguments as in :func:`claim`. The verdict is "control fails as it must" when the relation is violated.
    """
    outcomes = ("control did not fail", "control fails as it must")
    return _row("control", outcomes, name, statement, measured, relation, bound, item, paper, note, tolerance)


def _row(kind, outcomes, name, statement, measured, relation, bound, item, paper, note, tolerance):
    for what, text in {"name": name, "statement": statement, "item": item}.items():
        if not isinstance(text, str) or not text.strip():
            raise ValueError(
                f"the {what} of {name!r} is {text!r}: write it in words, a row of the ledger is read alone"
            )
    if relation not in RELATIONS:
        raise ValueError(f"relation {relation!r} of {name!r} is unknown: use one of {', '.join(RELATIONS)}")
    if paper not in PAPERS:
        raise ValueError(f"paper {paper!r} of {name!r} is unknown: use one of {', '.join(PAPERS)}")
    measured, bound = (_finite(value, what, name) for value, what in ((measured, "measured value"), (bound, "bound")))
    if tolerance is None:
        tolerance = 0.0 if relation == "==" else 1e-6 * abs(measured) + 1e-2 * abs(bound)
    tolerance = _finite(tolerance, "tolerance", name)
    if tolerance < 0:
        raise ValueError(f"the tolerance of {name!r} is {tolerance:g}: it must not be below 0")
    outcome = outcomes[0] if RELATIONS[relation](measured, bound) else outcomes[1]
    return Row(name, paper, item, statement, kind, measured, relation, bound, outcome, tolerance, note)


def _finite(value, what, name):
    """Return ``value`` as a Python float (also from a 0-d tensor or array), or say whose value it is not."""
    number = float(value) if isinstance(value, Real) or getattr(value, "ndim", None) == 0 else math.nan
    if not math.isfinite(number):
        raise ValueError(f"the {what} of {name!r} is {value}: a row of the ledger needs one finite number")
    return number


class Verdict:
    """Rows as a notebook shows them: a table for the reader, the same rows as data for the workflow."""

    def __init__(self, rows):
        self.rows = rows

    def _repr_mimebundle_(self, include=None, exclude=None):
        return {"text/plain": repr(self), "text/html": self._html(), MIME: [asdict(row) for row in self.rows]}

    def __repr__(self):
        return "\n".join(
            f"{VERDICTS[row.verdict]} {row.verdict:<24} {row.measured:10.3g} {row.relation} {row.bound:<8.3g} "
            f"{row.item}: {row.statement}"
            for row in self.rows
        )

    def _html(self):
        head = "<tr><th>Verdict</th><th>What was checked</th><th>Measured</th><th>Bound</th></tr>"
        return (
            f'<table class="verdicts"><thead>{head}</thead><tbody>{"".join(map(_html_row, self.rows))}</tbody></table>'
        )


def _html_row(row):
    note = f"<small>{html.escape(row.note)}</small>" if row.note else ""
    relation = {"<=": "≤", ">=": "≥", "==": "="}[row.relation]
    return (
        f'<tr class="{row.verdict.replace(" ", "-")}"><td>{VERDICTS[row.verdict]} {row.verdict}</td>'
        f"<td>{html.escape(row.item)}: {html.escape(row.statement)} {note}</td>"
        f"<td>{row.measured:.3g}</td><td>{relation} {row.bound:.3g}</td></tr>"
    )


def verdict(*rows):
    """Show rows of :func:`claim` and :func:`control` as one table; the last expression of a cell.

    Raises
    ------
    ValueError
        If two rows share a name: their entries in the ledger would be one.
    """
    names = [row.name for row in rows]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two rows are called {', '.join(sorted(repeated))}: names are unique in a chapter")
    return Verdict(rows)
