"""Judge what a chapter measured: rows of the ledger with a bound, whose statement it is, and the verdict.

A chapter names a :func:`source`, makes rows by its ``claim``, ``control`` and ``baseline``, and shows them by
:func:`verdict`. The executed notebook carries the rows as data beside the table for the reader; the workflow collects
them. Numbers for the prose go through :func:`tell`. Importing this module loads nothing but the standard library.
"""

import math
from dataclasses import dataclass, replace
from numbers import Real

from ._verdicts import HELD, MIME, PLURAL, RELATIONS, VERDICTS, Verdict

__all__ = [
    "HELD", "MIME", "PLURAL", "RELATIONS", "VERDICTS", "Row", "Source", "Verdict", "show", "source", "tell", "verdict",
    "widest",
]  # fmt: skip
# The verdicts of each kind of row: inside the bound, outside, and where the interval crosses it.
OUTCOMES = {
    ("claim", "paper"): ("reproduced", "not reproduced", "undecided"),
    ("claim", "book"): ("holds", "fails", "undecided"),
    "broken": ("did not fail", "fails as it must", "undecided"),
    "planted": ("effect found", "effect missed", "effect missed"),
}
OF = ("paper", "book")
SOURCES = ("printed", "restored", "recalled")
SETS = ("before", "after")


@dataclass(frozen=True)
class Row:
    """One row of the ledger, made by :meth:`Source.claim`, :meth:`Source.control` or :meth:`Source.baseline`.

    ``tolerance`` is how far ``measured`` may at least move from one machine to the next before a rebuild counts as
    changed; ``smallest_effect`` is half the width of the interval. A baseline has neither ``bound``, ``relation``,
    ``set`` nor ``verdict``: they are None.

    Raises
    ------
    ValueError
        If a number is not finite, a word is unknown or missing, or two fields contradict each other.
    """

    name: str
    paper: str | None
    item: str
    statement: str
    kind: str
    of: str
    measured: float
    tolerance: float | None
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

    def __post_init__(self):
        _check_texts(self)
        measured, bound = _finite(self.measured, "measured value", self.name), None
        interval, half = _interval(self.name, measured, self.interval), None
        if self.kind != "baseline":
            _check_statement(self)
            bound, half = _finite(self.bound, "bound", self.name), interval and (interval[1] - interval[0]) / 2
        numbers = {"measured": measured, "bound": bound, "interval": interval, "smallest_effect": half}
        numbers["tolerance"] = _tolerance(self, measured, bound)
        for field, value in numbers.items():
            object.__setattr__(self, field, value)


@dataclass(frozen=True)
class Source:
    """A statement of a paper, or a subject of the book's; made by :func:`source`.

    Rows take what it holds unless they say otherwise: ``theorem_2.claim(..., of="book")`` is what the book finds about
    Theorem 2, ``set="before"`` a bound that follows from a formula on the page.
    """

    paper: str | None
    item: str
    text: str | None = None
    set: str | None = None

    def claim(self, name, statement, measured, relation, bound, *, corrects="", quote=None, needs=(), **about):
        """State that ``measured relation bound`` holds, as the paper says or as the book finds.

        With an ``interval`` it holds where the whole interval lies inside the bound, fails where it lies wholly
        outside, and is undecided otherwise.

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
        of : {"paper", "book"}
            Whose statement it is; the paper's where there is one.
        source : {"printed", "restored", "recalled"}
            Where a paper's statement comes from.
        set : {"before", "after"}
            "before" only if the bound follows from a formula on the page or stood in a commit before the first run.
        interval : pair of float, optional
            Its lower and upper end, with ``measured`` between them.
        tolerance : float, optional
            Absolute; by default a hundredth of the bound, 0 for "==". More than :func:`widest` allows counts as that.
            The workflow widens it where another rounding was measured to move the number farther.
        note : str
            What a reader must know to read the row.

        Returns
        -------
        Row

        Raises
        ------
        ValueError
            If a number is not finite, a word is unknown or missing, or two arguments contradict each other.
        """
        row = self._row("claim", name, statement, measured, relation=relation, bound=bound, quote=quote, **about)
        _check_correction(row, corrects)
        planted = [needs] if isinstance(needs, Row) else list(needs)
        for one in planted:
            if not isinstance(one, Row) or not one.plants:
                raise ValueError(f"{name!r} needs {getattr(one, 'name', one)!r}: name controls that plant an effect")
        inside, outside, between = OUTCOMES["claim", row.of]
        outcomes = ("corrected" if corrects else inside, outside, between)
        if any(one.verdict != "effect found" for one in planted):
            outcomes = ("undecided",) * 3
        note = " ".join(filter(None, (corrects, row.note)))
        return replace(row, verdict=outcomes[_place(row)], needs=tuple(one.name for one in planted), note=note)

    def control(self, name, statement, measured, relation, bound, *, breaks=None, plants=None, **about):
        """State the *same* relation where it must not hold, or where an effect was planted that must be found.

        Parameters
        ----------
        breaks : str
            The hypothesis of the statement that is broken: "Assumption B: the scores differ". The verdict is "fails as
            it must" when the relation is violated.
        plants : str
            Instead of it, the effect that was put in, and its size: "effect found" when the relation holds.
        **about
            The other arguments, the result and the errors are those of :meth:`claim`, without ``corrects``, ``quote``
            and ``needs``.
        """
        for what, text in {"broken hypothesis": breaks, "planted effect": plants}.items():
            if text is not None and not _is_text(text):
                raise ValueError(f"the {what} of {name!r} is {text!r}: write it in words")
        if bool(breaks) == bool(plants):
            said = "both a broken hypothesis and a planted effect" if breaks else "no hypothesis that it breaks"
            raise ValueError(
                f"the control {name!r} names {said}: say breaks='...' or plants='...', or make it a baseline"
            )
        about |= {"relation": relation, "bound": bound, "breaks": breaks, "plants": plants}
        row = self._row("control", name, statement, measured, **about)
        return replace(row, verdict=OUTCOMES["planted" if plants else "broken"][_place(row)])

    def baseline(self, name, statement, measured, relation=None, bound=None, **about):
        """Show what a null or a rival prediction gives: a number without bound and verdict, which nothing counts.

        Arguments as in :meth:`claim`: ``interval``, ``tolerance`` and ``note``.

        Raises
        ------
        ValueError
            If it has a relation or a bound, or a number or a text is none.
        """
        if relation is not None or bound is not None:
            raise ValueError(
                f"the baseline {name!r} has the bound {relation or ''} {bound}: leave it out, or make the row a control"
            )
        about = {"tolerance": None} | about
        return Row(name, self.paper, self.item, statement, "baseline", "book", measured, **about)

    def _row(self, kind, name, statement, measured, **about):
        about = {"of": "paper" if self.paper else "book", "set": self.set, "tolerance": None} | about
        if about["of"] == "paper":
            about.setdefault("source", self.text)
        return Row(name, self.paper, self.item, statement, kind, measured=measured, **about)


def source(paper, item, text=None, *, set=None):
    """Return a statement with the methods ``claim``, ``control`` and ``baseline`` for rows about it.

    Parameters
    ----------
    paper : str or None
        arXiv number; None for what no paper has.
    item : str
        The paper's own name, "Theorem 2", "Figure 1(b)"; or the book's own for what no paper has.
    text : {"printed", "restored", "recalled"}, optional
        Where the statement's text comes from; of every paper's statement it must be said.
    set : {"before", "after"}, optional
        When the bounds were set: see :meth:`Source.claim`.

    Returns
    -------
    Source

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
    return Source(paper, item, text, set)


def widest(measured, bound=None):
    """Return the widest tolerance of a row that no other rounding was measured to move farther.

    The smaller of a tenth of its distance to the bound and its own size; rounding noise counts as 1e-12 of the scale,
    which is 1 or the bound if that is larger.
    """
    size = max(abs(measured), 1e-12 * max(1.0, abs(bound or 0.0)))
    return size if bound is None else min(abs(measured - bound) / 10, size)


def _place(row):
    """Return 0 where the interval, or the number, lies wholly inside the bound, 1 where wholly outside, else 2."""
    (low, high), bound = row.interval or (row.measured, row.measured), row.bound
    if row.relation == "==":
        inside, outside = low == high == bound, bound < low or bound > high
    elif row.relation == "<=":
        inside, outside = high <= bound, low > bound
    else:
        inside, outside = low >= bound, high < bound
    return 0 if inside else 1 if outside else 2


def _check_texts(row):
    for what in ("name", "statement", "item"):
        if not _is_text(text := getattr(row, what)):
            raise ValueError(
                f"the {what} of {row.name!r} is {text!r}: write it in words, a row of the ledger is read alone"
            )
    if row.paper is not None and not _is_text(row.paper):
        raise ValueError(
            f"the paper of {row.name!r} is {row.paper!r}: give its arXiv number, or None for what no paper has"
        )


def _check_statement(row):
    """Raise ValueError unless a claim or control says whose statement it is, from where, and when its bound was set."""
    name = row.name
    if row.of not in OF:
        raise ValueError(f"of {name!r} of is {row.of!r}: say one of {', '.join(OF)}")
    if row.of == "paper" and not row.paper:
        raise ValueError(f"{name!r} is of a paper that it does not name: give its arXiv number, or of='book'")
    if row.of == "paper" and row.source not in SOURCES:
        raise ValueError(f"of {name!r} source is {row.source!r}: say one of {', '.join(SOURCES)}")
    if row.of == "book" and row.source:
        raise ValueError(f"{name!r} is of the book and has the source {row.source!r}: only a paper's statement has one")
    if row.set not in SETS:
        raise ValueError(
            f"of {name!r} set is {row.set!r}: say 'before' if its bound was written before the first look, else 'after'"
        )
    if row.relation not in RELATIONS:
        raise ValueError(f"relation {row.relation!r} of {name!r} is unknown: use one of {', '.join(RELATIONS)}")


def _check_correction(row, corrects):
    name = row.name
    for what, text in {"corrects": corrects, "quote": row.quote}.items():
        if text and not _is_text(text):
            raise ValueError(f"the {what} of {name!r} is {text!r}: write it in words")
    if corrects and (row.of, row.source) != ("paper", "printed"):
        raise ValueError(
            f"{name!r} corrects a sentence that no paper printed: say in its note what the statement needs"
        )
    if corrects and not row.quote:
        raise ValueError(f"{name!r} corrects a sentence that it does not quote: give quote='...', as it was printed")
    if row.quote and not corrects:
        raise ValueError(
            f"{name!r} quotes a sentence that it does not correct: leave the quote out, or say corrects='...'"
        )


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


def _tolerance(row, measured, bound):
    tolerance = row.tolerance
    if tolerance is None:
        usual = 1e-2 * abs(measured if bound is None else bound) + 1e-6 * abs(measured)
        tolerance = 0.0 if row.relation == "==" else usual
    if (tolerance := _finite(tolerance, "tolerance", row.name)) < 0:
        raise ValueError(f"the tolerance of {row.name!r} is {tolerance:g}: it must not be below 0")
    return min(tolerance, widest(measured, bound))


def _is_text(text):
    return isinstance(text, str) and bool(text.strip())


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


def verdict(*rows):
    """Show rows of :class:`Source` as one table; the last expression of a cell.

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
