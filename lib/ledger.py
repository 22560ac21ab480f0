"""Rows of the ledger: what a chapter measured, against which bound, whose statement it is, and the verdict.

A chapter names a :func:`source` and calls its ``claim``, ``control`` and ``baseline`` for rows; :func:`verdict` shows
them. The rows travel in the executed notebook as data beside the table that a reader sees; the workflow collects them.
Numbers for the prose go through :func:`tell`.
"""

import html
import math
import re
from dataclasses import asdict, dataclass
from numbers import Real
from types import SimpleNamespace

MIME = "application/vnd.what-attention-selects.claims+json"
RELATIONS = {"<=": "≤", ">=": "≥", "==": "="}
# Of each kind of row: what its verdict is inside the bound, outside, and where the interval crosses it.
OUTCOMES = {
    ("claim", "paper"): ("reproduced", "not reproduced", "undecided"),
    ("claim", "book"): ("holds", "fails", "undecided"),
    "broken": ("did not fail", "fails as it must", "undecided"),
    "planted": ("effect found", "effect missed", "effect missed"),
}
VERDICTS = {
    "reproduced": "✓",
    "corrected": "✎",
    "holds": "✓",
    "fails as it must": "✓",
    "effect found": "✓",
    "undecided": "?",
    "not reproduced": "✗",
    "fails": "✗",
    "did not fail": "✗",
    "effect missed": "✗",
}
OF = ("paper", "book")
SOURCES = ("printed", "restored", "recalled")
SETS = ("before", "after")
OPEN_CLAIMS, OPEN_CONTROLS = 6, 4  # in a table; a reader sees no more at once
AFTER = "† This bound was written, or changed, after a look at the numbers: what counts for it is seeds nobody had run."


@dataclass(frozen=True)
class Row:
    """One row of the ledger; build it with :func:`claim`, :func:`control` or :func:`baseline`.

    ``tolerance`` is how far ``measured`` may at least move from one machine to the next before a rebuild counts as
    changed. A baseline has neither ``bound``, ``relation``, ``set`` nor ``verdict``: they are None.
    """

    name: str
    paper: str | None
    item: str
    statement: str
    kind: str
    of: str
    measured: float
    tolerance: float
    source: str | None = None
    quote: str | None = None
    set: str | None = None
    interval: tuple[float, float] | None = None
    relation: str | None = None
    bound: float | None = None
    smallest_effect: float | None = None
    recorded: bool = False
    verdict: str | None = None
    breaks: str | None = None
    plants: str | None = None
    needs: tuple[str, ...] = ()
    note: str = ""


def source(paper, item, text=None, *, set=None):
    """Return :func:`claim`, :func:`control` and :func:`baseline` about one statement: ``theorem_2.claim(...)``.

    What is said here need not be said in each row, and a row may say otherwise: ``theorem_2.claim(..., of="book")`` is
    what the book finds about Theorem 2, ``set="before"`` a bound that follows from a formula on the page.

    Parameters
    ----------
    paper : str or None
        arXiv number; None for what no paper has.
    item : str
        The paper's own name, "Theorem 2", "Figure 1(b)"; or the book's own for what no paper has.
    text : {"printed", "restored", "recalled"}, optional
        Where the statement's text comes from; of every paper's statement it must be said.
    set : {"before", "after"}, optional
        When the bounds were set: see :func:`claim`.

    Examples
    --------
    >>> theorem_2 = source("2306.13596", "Theorem 2", "restored", set="after")
    >>> theorem_2.claim("direction", "1 - cos to the separator", 1e-6, "<=", 1e-5).verdict
    'reproduced'
    >>> theorem_2.claim("offset", "Error of the closed form", 1e-6, "<=", 1e-5, of="book", set="before").verdict
    'holds'
    >>> theorem_2.claim("gain", "Mean lead", 0.2, ">=", 0.1, interval=(0.0, 0.4)).verdict
    'undecided'
    >>> theorem_2.control("two-inputs", "1 - cos, n = 2", 0.7, "<=", 1e-5, breaks="One input").verdict
    'fails as it must'
    >>> theorem_2.baseline("random", "1 - cos of a random direction", 0.9).verdict
    """

    def row(make):
        def made(*args, **given):
            given = {"of": "paper" if paper else "book", "set": set, "paper": paper, "item": item} | given
            if given["of"] == "paper":
                given.setdefault("source", text)
            return make(*args, **given)

        return made

    def plain(*args, **given):
        return baseline(*args, **{"paper": paper, "item": item} | given)

    return SimpleNamespace(claim=row(claim), control=row(control), baseline=plain)


def claim(name, statement, measured, relation, bound, *, corrects="", quote=None, needs=(), note="", **about):
    """State that ``measured relation bound`` holds, as a paper says or as the book finds.

    With an ``interval`` it holds where the whole interval lies inside the bound, fails where it lies wholly outside,
    and is undecided otherwise.

    Parameters
    ----------
    name : str
        Short name, unique in the chapter, of the form ``direction`` or ``direction-n2``.
    statement : str
        What was checked, one sentence of plain text.
    measured, bound : float
        Finite numbers on one scale.
    relation : {"<=", ">=", "=="}
    corrects : str
        What the printed sentence needs; given, a holding row reads "corrected" instead of "reproduced".
    quote : str
        The printed sentence that is changed: given with ``corrects``, and only with it.
    needs : Row or sequence of Row
        Controls that plant the effect that is looked for: where one of them misses it, the claim is undecided.
    note : str
        What a reader must know to read the row.
    paper, item : str
        As in :func:`source`, through which chapters call.
    of : {"paper", "book"}
        Whose statement it is.
    source : {"printed", "restored", "recalled"}
        Where a paper's statement comes from.
    set : {"before", "after"}
        "before" only if the bound follows from a formula on the page or stood in a commit before the first run.
    interval : pair of float, optional
        Its lower and upper end, with ``measured`` between them.
    smallest_effect : float, optional
        How far from the bound the truth must lie for such an interval to decide; by default half its width.
    recorded : bool
        The number comes from a recorded run and not from this one.
    tolerance : float, optional
        Absolute; by default a hundredth of the bound, 0 for "==". More than :func:`widest` allows counts as that. The
        workflow widens it where another rounding was measured to move the number farther.

    Returns
    -------
    Row

    Raises
    ------
    ValueError
        If a number is not finite, a word is unknown or missing, or two things that are said contradict each other.
    """
    changed = {"corrects": corrects, "quote": quote}
    for what, text in changed.items():
        if text and not _is_text(text):
            raise ValueError(f"the {what} of {name!r} is {text!r}: write it in words")
    if corrects and (about.get("of"), about.get("source")) != ("paper", "printed"):
        raise ValueError(
            f"{name!r} corrects a sentence that no paper printed: say in its note what the statement needs"
        )
    if corrects and not quote:
        raise ValueError(f"{name!r} corrects a sentence that it does not quote: give quote='...', as it was printed")
    if quote and not corrects:
        raise ValueError(
            f"{name!r} quotes a sentence that it does not correct: leave the quote out, or say corrects='...'"
        )
    planted = [needs] if isinstance(needs, Row) else list(needs)
    for row in planted:
        if not isinstance(row, Row) or not row.plants:
            raise ValueError(f"{name!r} needs {getattr(row, 'name', row)!r}: name controls that plant an effect")
    note = " ".join(filter(None, (corrects, note)))
    about |= {"quote": quote, "note": note, "needs": tuple(row.name for row in planted)}
    inside, outside, between = OUTCOMES["claim", _one_of(OF, "of", about.get("of"), name)]
    outcomes = ("corrected" if corrects else inside, outside, between)
    if any(row.verdict != "effect found" for row in planted):
        outcomes = ("undecided",) * 3
    return _judged("claim", outcomes, name, statement, measured, relation, bound, **about)


def control(name, statement, measured, relation, bound, *, breaks=None, plants=None, **about):
    """State the *same* relation where it must not hold, or where an effect was planted that must be found.

    Parameters
    ----------
    breaks : str
        The hypothesis of the statement that is broken: "Assumption B: the scores differ". The verdict is "fails as it
        must" when the relation is violated.
    plants : str
        Instead of it, the effect that was put in, and its size: "effect found" when the relation holds.
    **about
        Other arguments, result and refusals are those of :func:`claim`, less ``corrects``, ``quote`` and ``needs``.
    """
    for what, text in {"broken hypothesis": breaks, "planted effect": plants}.items():
        if text is not None and not _is_text(text):
            raise ValueError(f"the {what} of {name!r} is {text!r}: write it in words")
    if bool(breaks) == bool(plants):
        said = "both a broken hypothesis and a planted effect" if breaks else "no hypothesis that it breaks"
        raise ValueError(f"the control {name!r} names {said}: say breaks='...' or plants='...', or make it a baseline")
    outcomes = OUTCOMES["planted" if plants else "broken"]
    return _judged(
        "control", outcomes, name, statement, measured, relation, bound, breaks=breaks, plants=plants, **about
    )


def baseline(
    name, statement, measured, relation=None, bound=None, *, paper, item, interval=None, recorded=False, note="",
    tolerance=None,
):  # fmt: skip
    """Show what a null or a rival prediction gives: a number without bound and verdict, which nothing counts.

    Arguments as in :func:`claim`.

    Raises
    ------
    ValueError
        If it has a relation or a bound, or a number or a text is none.
    """
    if relation is not None or bound is not None:
        raise ValueError(
            f"the baseline {name!r} has the bound {relation or ''} {bound}: leave it out, or make the row a control"
        )
    _texts(name, statement, paper, item)
    measured = _finite(measured, "measured value", name)
    return Row(
        name, paper, item, statement, "baseline", "book", measured,
        _tolerance(name, measured, None, tolerance),
        interval=_interval(name, measured, interval), recorded=_yes_or_no(recorded, name), note=note,
    )  # fmt: skip


def widest(measured, bound=None):
    """Return the widest tolerance of a row that no other rounding was measured to move farther.

    The smaller of a tenth of its distance to the bound and its own size; rounding noise counts as 1e-12 of the scale,
    which is 1 or the bound if that is larger.
    """
    size = max(abs(measured), 1e-12 * max(1.0, abs(bound or 0.0)))
    return size if bound is None else min(abs(measured - bound) / 10, size)


def _judged(
    kind, outcomes, name, statement, measured, relation, bound, *, paper, item, of=None, source=None, set=None,
    interval=None, smallest_effect=None, recorded=False, tolerance=None, note="", **more,
):  # fmt: skip
    """Return a row with its verdict, one of ``outcomes``: inside the bound, outside, between."""
    _texts(name, statement, paper, item)
    _one_of(OF, "of", of, name)
    if of == "paper" and not paper:
        raise ValueError(f"{name!r} is of a paper that it does not name: give its arXiv number, or of='book'")
    if of == "paper":
        _one_of(SOURCES, "source", source, name)
    elif source:
        raise ValueError(f"{name!r} is of the book and has the source {source!r}: only a paper's statement has one")
    if set not in SETS:
        raise ValueError(
            f"of {name!r} set is {set!r}: say 'before' if its bound was written before the first look, else 'after'"
        )
    if relation not in RELATIONS:
        raise ValueError(f"relation {relation!r} of {name!r} is unknown: use one of {', '.join(RELATIONS)}")
    measured, bound = (_finite(value, what, name) for value, what in ((measured, "measured value"), (bound, "bound")))
    interval = _interval(name, measured, interval)
    low, high = interval or (measured, measured)
    inside, outside = _place(low, high, relation, bound)
    return Row(
        name,
        paper,
        item,
        statement,
        kind,
        of,
        measured,
        _tolerance(name, measured, bound, tolerance, relation),
        source=source,
        set=set,
        interval=interval,
        relation=relation,
        bound=bound,
        smallest_effect=_smallest(name, interval, smallest_effect),
        recorded=_yes_or_no(recorded, name),
        verdict=outcomes[0 if inside else 1 if outside else 2],
        note=note,
        **more,
    )


def _place(low, high, relation, bound):
    """Return whether an interval lies wholly inside the bound, and whether wholly outside."""
    if relation == "==":
        return low == high == bound, bound < low or bound > high
    return (high <= bound, low > bound) if relation == "<=" else (low >= bound, high < bound)


def _interval(name, measured, interval):
    if interval is None:
        return None
    try:
        low, high = interval
    except (TypeError, ValueError):
        raise ValueError(f"the interval of {name!r} is {interval!r}: give its lower and its upper end") from None
    low, high = (_finite(end, "interval", name) for end in (low, high))
    slack = 1e-9 * max(abs(low), abs(high), abs(measured))  # the three are rounded apart
    if not low - slack <= measured <= high + slack:
        raise ValueError(
            f"the interval of {name!r} goes from {low:g} to {high:g}: its measured value {measured:g} must lie in it"
        )
    return low, high


def _smallest(name, interval, effect):
    if interval is None:
        if effect is not None:
            raise ValueError(f"{name!r} has a smallest effect and no interval: give interval=(lower, upper) too")
        return None
    if effect is None:
        effect = (interval[1] - interval[0]) / 2
    if (effect := _finite(effect, "smallest effect", name)) < 0:
        raise ValueError(f"the smallest effect of {name!r} is {effect:g}: it must not be below 0")
    return effect


def _tolerance(name, measured, bound, tolerance, relation=None):
    if tolerance is None:
        usual = 1e-2 * abs(measured if bound is None else bound) + 1e-6 * abs(measured)
        tolerance = 0.0 if relation == "==" else usual
    if (tolerance := _finite(tolerance, "tolerance", name)) < 0:
        raise ValueError(f"the tolerance of {name!r} is {tolerance:g}: it must not be below 0")
    return min(tolerance, widest(measured, bound))


def _texts(name, statement, paper, item):
    for what, text in {"name": name, "statement": statement, "item": item}.items():
        if not _is_text(text):
            raise ValueError(
                f"the {what} of {name!r} is {text!r}: write it in words, a row of the ledger is read alone"
            )
    if paper is not None and not _is_text(paper):
        raise ValueError(f"the paper of {name!r} is {paper!r}: give its arXiv number, or None for what no paper has")


def _is_text(text):
    return isinstance(text, str) and bool(text.strip())


def _one_of(words, what, word, name):
    if word not in words:
        raise ValueError(f"of {name!r} {what} is {word!r}: say one of {', '.join(words)}")
    return word


def _yes_or_no(recorded, name):
    if not isinstance(recorded, bool):
        raise ValueError(f"recorded is {recorded!r} for {name!r}: say True or False")
    return recorded


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


def show(key, thing):
    """Show a figure or a table, and let the page place it: ``show("fig-theorem-2-offset", figure)``.

    A block of the page that has this key shows it where the block stands, which may be above the cell. Outside a
    notebook the thing is returned: where it is the last line of its cell, a run without a notebook finds its rows.

    Parameters
    ----------
    key : str
        ``fig-`` or ``tab-``, the chapter's name, a hyphen, and a name for the thing.
    thing : matplotlib.figure.Figure or Verdict or object
        Whatever a notebook can show.

    Returns
    -------
    object or None
    """
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        return thing
    if not get_ipython():
        return thing
    try:
        from myst_nb import glue
    except ImportError:  # a notebook that was downloaded: no page places it
        display(thing)
    else:
        glue(key, thing)
    if hasattr(thing, "savefig"):
        from matplotlib.pyplot import close

        close(thing)  # else the notebook shows it again when the cell ends
    return None


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
        "recorded": "From a recorded run." if row.recorded else "",
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


def verdict(*rows):
    """Show rows of :func:`claim`, :func:`control` and :func:`baseline` as one table; the last expression of a cell.

    Raises
    ------
    ValueError
        If two rows share a name: their entries in the ledger would be one.
    """
    for row in rows:
        if not isinstance(row, Row):
            raise TypeError(f"a row is {row!r}: make it by claim, control or baseline")
    names = [row.name for row in rows]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two rows are called {', '.join(sorted(repeated))}: names are unique in a chapter")
    return Verdict(rows)
