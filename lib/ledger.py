"""Claims, controls and verdicts: what a chapter measured, against a bound that it chose before.

A chapter names a :func:`source`, calls its ``claim`` and ``control`` for rows and :func:`verdict` to show them. The
rows travel in the executed notebook as data beside the table that a reader sees; the workflow collects them. Numbers
for the prose go through :func:`tell`.
"""

import html
import math
import operator
from dataclasses import asdict, dataclass
from functools import partial
from numbers import Real
from types import SimpleNamespace

MIME = "application/vnd.what-attention-selects.claims+json"
RELATIONS = {"<=": operator.le, ">=": operator.ge, "==": operator.eq}
VERDICTS = {
    "reproduced": "✓",
    "corrected": "✎",
    "not reproduced": "✗",
    "control fails as it must": "✓",
    "control did not fail": "✗",
}


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


def source(paper, item):
    """Return :func:`claim` and :func:`control` about one statement: ``theorem_2.claim(...)``.

    Parameters
    ----------
    paper : str
        arXiv number.
    item : str
        The paper's own name: "Theorem 2", "Figure 1(b)".

    Examples
    --------
    >>> theorem_2 = source("2306.13596", "Theorem 2")
    >>> theorem_2.claim("direction", "1 - cos to the separator", 1e-6, "<=", 1e-5).verdict
    'reproduced'
    >>> theorem_2.claim("direction", "1 - cos to the separator", 1e-4, "<=", 1e-5).verdict
    'not reproduced'
    """
    return SimpleNamespace(
        claim=partial(claim, paper=paper, item=item), control=partial(control, paper=paper, item=item)
    )


def claim(name, statement, measured, relation, bound, *, paper, item, note="", corrects="", tolerance=None):
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
    paper, item : str
        As in :func:`source`, through which chapters call.
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
        If a number is not finite, the relation is unknown, or a name, statement, paper or item is empty.
    """
    held = "corrected" if corrects else "reproduced"
    note = " ".join(filter(None, (corrects, note)))
    return _row(
        "claim", (held, "not reproduced"), name, statement, measured, relation, bound, paper, item, note, tolerance
    )


def control(name, statement, measured, relation, bound, *, paper, item, note="", tolerance=None):
    """State the *same* relation on a problem with one hypothesis broken, where it must not hold.

    Arguments as in :func:`claim`. The verdict is "control fails as it must" when the relation is violated.
    """
    outcomes = ("control did not fail", "control fails as it must")
    return _row("control", outcomes, name, statement, measured, relation, bound, paper, item, note, tolerance)


def _row(kind, outcomes, name, statement, measured, relation, bound, paper, item, note, tolerance):
    for what, text in {"name": name, "statement": statement, "paper": paper, "item": item}.items():
        if not isinstance(text, str) or not text.strip():
            raise ValueError(
                f"the {what} of {name!r} is {text!r}: write it in words, a row of the ledger is read alone"
            )
    if relation not in RELATIONS:
        raise ValueError(f"relation {relation!r} of {name!r} is unknown: use one of {', '.join(RELATIONS)}")
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
    value = _scalar(value)
    if not _is_finite(value):
        raise ValueError(f"the {what} of {name!r} is {value}: a row of the ledger needs one finite number")
    return float(value)


def _scalar(value):
    """Return the Python number in a 0-d tensor or array, anything else as it is."""
    return value.item() if getattr(value, "ndim", None) == 0 else value


def _is_finite(value):
    return isinstance(value, Real) and math.isfinite(value)


def tell(stem, **numbers):
    """Give numbers of this run to the prose: ``tell("theorem-2", log_time=9.2)`` glues ``theorem-2-log-time``.

    In a notebook of the book, that is; elsewhere nothing happens.

    Parameters
    ----------
    stem : str
        The chapter's name, with which all its keys begin.
    **numbers : float or str
        Finite numbers (0-d tensors and arrays too) or text. Underscores in names become hyphens.

    Raises
    ------
    ValueError
        If a value is neither.
    """
    if not stem or not isinstance(stem, str):
        raise ValueError(f"stem is {stem!r}: give the chapter's name")
    told = {f"{stem}-{name.replace('_', '-')}": _scalar(value) for name, value in numbers.items()}
    for key, value in told.items():
        if not (value.strip() if isinstance(value, str) else _is_finite(value)):
            raise ValueError(f"{key} is {value!r}: prose can only show one finite number or text")
    try:
        from IPython import get_ipython
        from myst_nb import glue
    except ImportError:  # a notebook that was downloaded: no page takes the numbers
        return
    if get_ipython():
        for key, value in told.items():
            glue(key, value, display=False)


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
    for row in rows:
        if not isinstance(row, Row):
            raise TypeError(f"a row is {row!r}: make it by claim or control")
    names = [row.name for row in rows]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two rows are called {', '.join(sorted(repeated))}: names are unique in a chapter")
    return Verdict(rows)
