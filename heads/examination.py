"""Examine the choice that attention makes today: how far it is from its separator, and whether it can last.

The theory is that of one trained parameter: all else in the model stays as it is. Lengths and angles are Euclid's.
"""

from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from ._lib import (
    Separator,
    check_selected,
    checks,
    difference_rows,
    figures,
    from_span,
    hard_margin,
    in_span,
    locally_optimal,
    logistic,
    norm,
    normalised,
    one_minus_cosine,
    other_tokens,
    run,
    selected_tokens,
    span_coordinates,
    svm_neighbours,
)
from .files import memory
from .flips import flip_distances
from .swaps import swap_until_stable

STEPS_A_LENGTH = 50  # of descent, together as long as theta
MOST_WORK = 2**36  # (rows) x (their size)^2 of the largest examination: half a minute
COPIES = 4  # of the rows that a solver holds at a time
LISTED = 8  # entries of a list that a report shows


@dataclass(frozen=True, eq=False)
class Examination:
    """What :func:`heads.examine` finds; ``str`` of it is a short report.

    Attributes
    ----------
    today, selected : Tensor of int, shape (n,)
        The token with the most attention, and the choice that is examined.
    attention : Tensor, shape (n,)
        What the selected tokens have.
    distances, takers : Tensor, shape (n,)
        Of :func:`heads.flip_distances`, over the length of theta: below 0 where another token has a larger logit.
    feasible : bool
        Whether a direction separates the selected tokens.
    cosine_distance : float
        1 - cos from theta to the separator; nan without one.
    outscored : Tensor of bool, shape (n, T)
        SVM-neighbours whose score is not below the selected token's.
    locally_optimal : bool
        Whether the choice is separated, and no neighbour outscores it (Definition 2, arXiv:2306.13596).
    separator : Separator
        With its theta in the coordinates of the problem, and its gap.
    conflict : list of (int, int)
        Without a separator: inputs and tokens over which the selected ones cannot lead together, while they can over
        all of them but any one.
    settled : Tensor of int, shape (n,), or None
        Where swaps lead from today's choice, if asked for; see :func:`heads.swaps.swap_until_stable`.
    after_descent : dict, or None
        Where descent from theta ends, if asked for: ``iterations``, ``selected``, and ``cosine_distance``, 1 - cos to
        the separator of what it selects there, nan if that has none.
    """

    today: Tensor
    selected: Tensor
    attention: Tensor
    distances: Tensor
    takers: Tensor
    feasible: bool
    cosine_distance: float
    outscored: Tensor
    locally_optimal: bool
    separator: Separator
    conflict: list
    settled: Tensor | None = None
    after_descent: dict | None = None

    def figure(self):
        """Draw how far each input is from another token, and which choices a neighbour outscores or a conflict bars."""
        kinds = ["outscored" if any(row) else "lasting" for row in self.outscored.tolist()]
        kinds = kinds if self.feasible else ["free"] * len(kinds)
        for i, _ in self.conflict:
            kinds[i] = "in conflict"
        return figures().flips(self.distances.tolist(), kinds)

    def __str__(self):
        inputs, tokens = self.outscored.shape
        nearest, below = self.distances.argmin(), int((self.distances < 0).sum())
        distance = (
            f"A change of W by {self.distances[nearest]:.2%} turns input {nearest} to token {self.takers[nearest]};"
            f" half of the inputs need {self.distances.median():.2%} or more."
        )
        return "\n".join([
            f"{inputs} inputs of up to {tokens} tokens.",
            f"Most attention: {checks.join_names(self.today.tolist(), LISTED)}.",
            f"Examined: {checks.join_names(self.selected.tolist(), LISTED)}, with attention from"
            f" {self.attention.min():.3g} to {self.attention.max():.3g}.",
            f"In {below} of {inputs} inputs another token has the largest logit." if below else distance,
            *self._separator_lines(),
            *self._forecast_lines(),
        ])  # fmt: skip

    def _separator_lines(self):
        """Lines on the separator, and on what bars the choice."""
        if not self.feasible:
            yield (
                f"No direction separates this choice: the selected tokens cannot lead these {len(self.conflict)}"
                f" together, {_join_tokens(self.conflict)}."
            )
            return
        outscored = _join_tokens(torch.nonzero(self.outscored).tolist())
        yield f"1 - cos to the separator {self.cosine_distance:.3g}."
        if self.locally_optimal:
            yield "Locally optimal: no neighbour scores as high."
        else:
            yield f"Not locally optimal, outscored by {outscored}."

    def _forecast_lines(self):
        """Lines on swaps and descent, where they were asked for."""
        if self.settled is not None:
            yield f"Swaps lead from today's choice to {checks.join_names(self.settled.tolist(), LISTED)}."
        if self.after_descent is not None:
            selected, distance = self.after_descent["selected"], self.after_descent["cosine_distance"]
            end = f"1 - cos to its separator {distance:.3g}"
            yield (
                f"Descent of {self.after_descent['iterations']} steps ends on"
                f" {checks.join_names(selected.tolist(), LISTED)},"
                f" {end if distance == distance else 'which no direction separates'}."
            )


def examine(problem, theta, selected=None, iterations=0, settle=False):
    """Examine the choice that attention makes at theta, or another one: :class:`Examination`.

    Some dozens of inputs at a time: more are refused where the rows of their tokens are too many for a solver. Their
    distances alone are those of :func:`flip_distances`, for any number of inputs.

    Parameters
    ----------
    problem : lib.problem.Problem
        Without leading dimensions, for example one of :mod:`heads`.
    theta : array_like, shape (parameter_size,)
    selected : array_like of int, shape (n,), optional
        Another choice, such as ``optimal_tokens(problem)``. Today's has a separator, since theta separates it; another
        may have none, and then there is a conflict.
    iterations : int
        Of normalised descent from theta on the logistic loss, each a fiftieth of its length; none when 0.
    settle : bool
        Swap outscored tokens of today's choice until it is locally optimal.

    Raises
    ------
    ValueError
        If theta does not fit or is zero, or there are too many inputs.

    Examples
    --------
    >>> from lib.problem import Problem
    >>> problem = Problem([[[0, 2], [0, 0]], [[1, 0], [0, 0]]], scores=[[1, 0], [1, 0]])
    >>> print(examine(problem, [1, 3], iterations=5000))
    2 inputs of up to 2 tokens.
    Most attention: 0, 0.
    Examined: 0, 0, with attention from 0.731 to 0.998.
    A change of W by 31.62% turns input 1 to token 1; half of the inputs need 31.62% or more.
    1 - cos to the separator 0.293.
    Locally optimal: no neighbour scores as high.
    Descent of 5000 steps ends on 0, 0, 1 - cos to its separator 1.9e-06.
    """
    checks.problem(problem)
    checks.single(problem)
    checks.integer("iterations", iterations, 0)
    settle = checks.boolean("settle", settle)
    theta = checks.tensor("theta", theta, "parameter")
    problem.check_parameter(theta)
    if theta.ndim > 1 or not theta.any():
        raise ValueError(f"theta is {checks.shown(theta.tolist())}: give one that is not zero, which selects no token")
    _check_size(problem)
    small, here, back = _compact(problem, theta)
    today = selected_tokens(small, here)
    selected = today if selected is None else check_selected(small, selected)
    if selected.ndim > 1:
        raise ValueError(f"selected has shape {tuple(selected.shape)}: give one choice, a token of each input")
    separator = hard_margin(difference_rows(small, selected))
    feasible = bool(separator.feasible)
    flips = flip_distances(small, here, selected)
    outscored, lasting = _outscored(small, selected, separator)
    return Examination(
        today=today,
        selected=selected,
        attention=small.attention(here).gather(-1, selected[:, None])[:, 0],
        distances=flips.distance / norm(here),
        takers=flips.taker,
        feasible=feasible,
        cosine_distance=_cosine_distance(here, separator),
        outscored=outscored,
        locally_optimal=lasting,
        separator=replace(separator, theta=back(separator.theta)),
        conflict=[] if feasible else _conflict(small, selected, separator.certificate),
        settled=swap_until_stable(small, today) if settle else None,
        after_descent=_descend(small, here, iterations) if iterations else None,
    )


def _compact(problem, theta):
    """Problem and theta in few coordinates, and the way back for a vector of the span.

    In the span of the rows, where it is smaller, with one coordinate more for the length of theta's part outside.
    """
    if problem.parameter_size <= problem.scores.numel():
        return problem, theta, lambda vector: vector
    spanned = in_span(problem)
    inside = span_coordinates(spanned, problem.logits(theta))
    outside = norm(theta - from_span(problem, spanned, inside))
    small = replace(spanned, keys=pad(spanned.keys, (0, 1)))
    return small, torch.cat([inside, outside[None]]), lambda vector: from_span(problem, spanned, vector[..., :-1])


def _check_size(problem):
    """Raise ValueError if the rows are too many for a solver's work and memory."""
    (inputs, tokens), every = problem.scores.shape, problem.scores.numel()
    rows, size = inputs * (tokens - 1), min(problem.parameter_size, every + 1)
    held = 8 * COPIES * (rows * size + (every**2 if problem.parameter_size > every else 0))
    if rows * size**2 > MOST_WORK or held > memory():
        raise ValueError(
            f"{inputs} inputs x {tokens} tokens need {held / 2**30:.3g} GiB and much work: examine fewer inputs at a"
            " time, or take flip_distances, which has no limit"
        )


def _outscored(problem, selected, separator):
    """Neighbours (n, T) that score as high as the selected tokens, and whether there is none."""
    if not separator.feasible:
        return torch.zeros_like(problem.scores, dtype=torch.bool), False
    higher = problem.scores >= problem.scores.gather(-1, selected[:, None])
    outscored = svm_neighbours(problem, selected, separator) & higher
    return outscored, bool(locally_optimal(problem, selected, separator))


def _cosine_distance(theta, separator):
    return one_minus_cosine(theta, separator.theta).item() if separator.feasible else torch.nan


def _conflict(problem, selected, certificate):
    """Inputs and tokens of the certificate's rows: independent but for one dependence, so that none can be left out."""
    others = other_tokens(selected, problem.scores.shape[-1], problem.mask)
    places = torch.nonzero(certificate > 0).flatten().tolist()
    return [(place // others.shape[-1], others.flatten()[place].item()) for place in places]


def _descend(problem, theta, iterations):
    """Iterations, selected tokens and 1 - cos to their separator, at the end of descent from theta."""
    rule = normalised((norm(theta) / STEPS_A_LENGTH).item())
    last = run(problem, logistic, theta, rule, iterations, [iterations]).theta[-1]
    selected = selected_tokens(problem, last)
    distance = _cosine_distance(last, hard_margin(difference_rows(problem, selected)))
    return {"iterations": iterations, "selected": selected, "cosine_distance": distance}


def _join_tokens(pairs):
    return checks.join_names((f"token {token} of input {i}" for i, token in pairs), LISTED)
