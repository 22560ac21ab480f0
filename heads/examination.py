"""Examine the choice that attention makes today: how far it is from its separator, and whether it can last.

The theory is that of one trained parameter: all else in the model stays as it is. Lengths and angles are Euclid's.
"""

from dataclasses import replace

import torch
from torch.nn.functional import pad

from ._lib import (
    check_selected,
    checks,
    difference_rows,
    from_span,
    hard_margin,
    in_span,
    locally_optimal,
    locally_optimal_selections,
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
from .conflict import irreducible
from .examined import Examination
from .files import memory
from .flips import flip_distances
from .swaps import swap_until_stable

STEPS_A_LENGTH = 50  # of descent, together as long as theta
MOST_WORK = 2**36  # (rows) x (their size)^2 of the largest examination: half a minute
COPIES = 4  # of the rows that a solver holds at a time


def examine(problem, theta, selected=None, iterations=0, all_choices=False, settle=False):
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
    all_choices : bool
        Solve the SVMs of all choices of tokens, at most 100,000.
    settle : bool
        Swap outscored tokens of today's choice until it is locally optimal.

    Raises
    ------
    ValueError
        If theta does not fit or is zero, or there are too many choices or inputs.

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
    Descent of 5000 steps ends on 0, 0, 1 - cos to its separator 1.9e-06; predicted for 2 of 2 inputs.
    """
    checks.problem(problem)
    checks.single(problem)
    checks.integer("iterations", iterations, 0)
    settle, all_choices = checks.boolean("settle", settle), checks.boolean("all_choices", all_choices)
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
    choices, choices_cosine_distance = _every_choice(small, here) if all_choices else (None, None)
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
        choices=choices,
        choices_cosine_distance=choices_cosine_distance,
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
    """Inputs and tokens of an irreducible set of rows."""
    rows, others = difference_rows(problem, selected), other_tokens(selected, problem.scores.shape[-1], problem.mask)
    places = irreducible(rows, certificate)
    return [(place // others.shape[-1], others.flatten()[place].item()) for place in places]


def _every_choice(problem, theta):
    """All locally optimal selections, and 1 - cos from theta to their separators, the nearest first."""
    chosen, separators = locally_optimal_selections(problem)
    if not len(chosen):
        return chosen, theta[:0]
    distances, order = one_minus_cosine(theta, separators.theta).sort()
    return chosen[order], distances


def _descend(problem, theta, iterations):
    """Iterations, selected tokens and 1 - cos to their separator, at the end of descent from theta."""
    rule = normalised((norm(theta) / STEPS_A_LENGTH).item())
    last = run(problem, logistic, theta, rule, iterations, [iterations]).theta[-1]
    selected = selected_tokens(problem, last)
    distance = _cosine_distance(last, hard_margin(difference_rows(problem, selected)))
    return {"iterations": iterations, "selected": selected, "cosine_distance": distance}
