"""Judge what a chapter measured: rows of the ledger with a bound, whose statement it is, and the verdict.

A chapter names a :func:`source`, makes rows by its ``claim``, ``ablation`` and ``baseline``, and shows them by
:func:`verdict`. The executed notebook carries the rows as data beside the table for the reader; the workflow collects
them. Numbers for the prose go through :func:`tell`. Importing this module loads nothing but the standard library.
"""

from dataclasses import dataclass, replace

from ._glue import show, tell
from ._row_checks import (
    check_correction,
    check_statement,
    check_texts,
    checked_interval,
    finite,
    is_text,
)
from ._verdicts import (
    HELD,
    MIME,
    RELATIONS,
    VERDICTS,
    Verdict,
    between,
    bound,
    formulas,
    number,
    plain,
    signed,
    typeset,
)

__all__ = [
    "HELD", "MIME", "RELATIONS", "VERDICTS", "Row", "Source", "Verdict", "between", "bound", "formulas",
    "number", "plain", "show", "signed", "source", "tell", "typeset", "verdict",
]  # fmt: skip
MINIATURE = {"inside": "seen in miniature", "outside": "not seen in miniature"}
# The verdicts of a claim by what it was run on (None: a claim of the book), and of an ablation. On other data, sizes or
# thresholds than the paper's a claim is a miniature, whichever way it comes out.
OUTCOMES = {
    "exact": {"inside": "reproduced", "outside": "not reproduced"},
    "same data, smaller": MINIATURE,
    "stand-in": MINIATURE,
    None: {"inside": "confirmed", "outside": "refuted"},
    "ablation": {"inside": "does not break the claim", "outside": "breaks the claim"},
}


@dataclass(frozen=True)
class Row:
    """One row of the ledger, made by the methods of :class:`Source`.

    ``kind`` is "claim", "ablation" or "baseline". A baseline has neither ``bound``, ``relation``, ``set`` nor
    ``verdict``: they are None.

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
    source: str | None = None
    scale: str | None = None
    quote: str | None = None
    set: str | None = None
    interval: tuple[float, float] | None = None
    relation: str | None = None
    bound: float | None = None
    recorded: bool = False
    verdict: str | None = None
    breaks: str | None = None
    note: str = ""

    def __post_init__(self):
        check_texts(self)
        measured, bound = finite(self.measured, "measured value", self.name), None
        if self.kind != "baseline":
            check_statement(self)
            bound = finite(self.bound, "bound", self.name)
        interval = checked_interval(self.name, measured, self.interval)
        for field, value in {"measured": measured, "bound": bound, "interval": interval}.items():
            object.__setattr__(self, field, value)


@dataclass(frozen=True)
class Source:
    """A statement of a paper, or a subject of the book's; made by :func:`source`.

    Rows take what it holds unless they say otherwise: ``theorem_2.claim(..., of="book")`` is what the book finds about
    Theorem 2, ``set="before"`` a bound that follows from a formula on the page, ``scale="stand-in"`` that the row was
    run on other data, sizes or thresholds than the paper's.
    """

    paper: str | None
    item: str
    text: str | None = None
    set: str | None = None
    scale: str = "exact"

    def claim(self, name, statement, measured, relation, bound, *, corrects="", explicit="", **about):
        """State that ``measured relation bound`` holds, as the paper says or as the book finds.

        With an ``interval`` it holds where the whole interval lies inside the bound, fails where it lies wholly
        outside, and is undecided otherwise.

        Parameters
        ----------
        name : str
            Short name, unique in the chapter, of the form ``direction`` or ``direction-n2``.
        statement : str
            What was measured, a sentence or a noun phrase; formulas between dollar signs.
        measured, bound : float
            Finite numbers on one scale.
        relation : {"<=", ">=", "=="}
        corrects : str
            What the printed sentence needs; given, a row that holds reads "corrected". It comes with ``quote``, the
            sentence as it was printed, and ``certified``.
        certified : bool
            Whether the counterexample to that sentence passed a check in exact arithmetic; otherwise the row is
            undecided.
        explicit : str
            A condition that the statement does not name; given, a row that holds reads "made explicit".
        of : {"paper", "book"}
            Whose statement it is; the paper's where there is one.
        source : {"printed", "restored", "recalled"}
            Where a paper's statement comes from.
        scale : {"exact", "same data, smaller", "stand-in"}
            What a paper's experiment was run on: what the paper says (theorems and synthetic data too), its data with
            a smaller network, or other data, sizes or thresholds. Only the first is ever (not) reproduced.
        set : {"before", "after"}
            "before" only if the bound follows from a formula on the page or stood in a commit before the first run.
        interval : pair of float, optional
            Its lower and upper end, with ``measured`` between them.
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
        certified = about.pop("certified", None)
        row = self._row("claim", name, statement, measured, relation=relation, bound=bound, **about)
        check_correction(row, corrects, explicit, certified)
        verdict = OUTCOMES[row.scale].get(_side_of_bound(row), "undecided")
        if verdict in HELD:
            verdict = "corrected" if corrects else "made explicit" if explicit else verdict
            verdict = "undecided" if certified is False else verdict
        note = " ".join(filter(None, (corrects, explicit, row.note)))
        return replace(row, verdict=verdict, note=note)

    def ablation(self, name, statement, measured, relation, bound, *, breaks, **about):
        """State the *same* relation with one hypothesis of a claim dropped: it must not hold.

        Parameters
        ----------
        breaks : str
            The hypothesis that is dropped: "Assumption B: the scores differ".
        **about
            The other arguments, the result and the errors are those of :meth:`claim`, without those of a correction.
        """
        if not is_text(breaks):
            raise ValueError(f"what the ablation {name!r} drops is {breaks!r}: write it in words")
        about |= {"relation": relation, "bound": bound, "breaks": breaks}
        row = self._row("ablation", name, statement, measured, **about)
        return replace(row, verdict=OUTCOMES["ablation"].get(_side_of_bound(row), "undecided"))

    def baseline(self, name, statement, measured, relation=None, bound=None, **about):
        """Show what a null or a rival prediction gives: a number without bound and verdict.

        Arguments as in :meth:`claim`: ``interval`` and ``note``.

        Raises
        ------
        ValueError
            If it has a relation or a bound, or a number or a text is none.
        """
        if relation is not None or bound is not None:
            raise ValueError(
                f"the baseline {name!r} has the bound {relation or ''} {bound}: leave it out, or make the row a claim"
            )
        return Row(name, self.paper, self.item, statement, "baseline", "book", measured, **about)

    def _row(self, kind, name, statement, measured, **about):
        about = {"of": "paper" if self.paper else "book", "set": self.set} | about
        if about["of"] == "paper":
            about = {"source": self.text, "scale": self.scale} | about
        return Row(name, self.paper, self.item, statement, kind, measured=measured, **about)


def source(paper, item, text=None, *, set=None, scale="exact"):
    """A statement with the methods ``claim``, ``ablation`` and ``baseline``.

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
    scale : {"exact", "same data, smaller", "stand-in"}
        What a paper's experiment was run on: see :meth:`Source.claim`.

    Returns
    -------
    Source

    Examples
    --------
    >>> theorem_2 = source("2306.13596", "Theorem 2", "restored", set="after")
    >>> theorem_2.claim("direction", "1 - cos to the separator", 1e-6, "<=", 1e-5).verdict
    'reproduced'
    >>> theorem_2.claim("offset", "Error of the closed form", 1e-6, "<=", 1e-5, of="book", set="before").verdict
    'confirmed'
    >>> theorem_2.claim("gain", "Mean lead", 0.2, ">=", 0.1, interval=(0.0, 0.4)).verdict
    'undecided'
    >>> theorem_2.ablation("two-inputs", "1 - cos, n = 2", 0.7, "<=", 1e-5, breaks="One input").verdict
    'breaks the claim'
    >>> theorem_2.baseline("random", "1 - cos of a random direction", 0.9).verdict
    """
    return Source(paper, item, text, set, scale)


def _side_of_bound(row):
    """Where the interval, or the number, lies: "inside" the bound, "outside" it, or "across"."""
    (low, high), bound = row.interval or (row.measured, row.measured), row.bound
    if row.relation == "==":
        inside, outside = low == high == bound, bound < low or bound > high
    elif row.relation == "<=":
        inside, outside = high <= bound, low > bound
    else:
        inside, outside = low >= bound, high < bound
    return "inside" if inside else "outside" if outside else "across"


def verdict(*rows):
    """Show rows of :class:`Source` as one table; the last expression of a cell.

    Raises
    ------
    ValueError
        If two rows share a name: their entries in the ledger would be one.
    """
    for row in rows:
        if not isinstance(row, Row):
            raise TypeError(f"a row is {row!r}: make it by claim, ablation or baseline")
    names = [row.name for row in rows]
    if repeated := {name for name in names if names.count(name) > 1}:
        raise ValueError(f"two rows are called {', '.join(sorted(repeated))}: names are unique in a chapter")
    return Verdict(rows)
