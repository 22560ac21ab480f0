"""Find the multipliers of an l_p separator for rows that are products and are never formed.

For p = 2 the library's active set has them from the inner products of the rows; for others Newton's method goes on.

A row is a lead of a token, times the query of its input. For weights c >= 0 with the sum 1, no theta of l_p norm 1 has
a least lead above |G|_q, where G is the sum of the rows times c and 1/p + 1/q = 1 (l_p-AttSVM, arXiv:2410.14581); the
least such bound is the largest margin. log |G|_q is convex in c.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from lib.geometry import dual, inverse_mirror_map, norm
from lib.separators import hard_margin

STEPS, HALVINGS = 300, 40  # of Newton, and of one of its steps


class Rows(NamedTuple):
    """Rows x (outer) z: leads (m, d), the input (m,) of each, and queries (n, d) of the inputs."""

    leads: Tensor
    of: Tensor
    queries: Tensor


class State(NamedTuple):
    """What weights give: W of l_p norm 1, its leads (m,), |G|_q, and by which part the least lead is below |G|_q."""

    matrix: Tensor
    leads: Tensor
    length: Tensor
    gap: float
    bend: Tensor  # |G|^(q - 2), relative


def state_of(rows, weights, order):
    """:class:`State` of weights (m,) with the sum 1."""
    each = weights[:, None] * rows.leads
    of_inputs = each.new_zeros(len(rows.queries), each.shape[1]).index_add_(0, rows.of, each)
    total = of_inputs.T @ rows.queries
    scale = total.abs().amax()
    length = norm((total / scale).flatten(), dual(order)) * scale
    matrix = inverse_mirror_map(total / length, order)
    leads = (rows.leads * (rows.queries @ matrix.T)[rows.of]).sum(-1)
    gap = 1 - (leads.min() / norm(matrix.flatten(), order) / length).item()
    return State(matrix, leads, length, gap, (total / length).abs() ** (dual(order) - 2))


def curvature(rows, state, free, order):
    """Second derivative of log |G|_q in the free weights, but for a term that vanishes at the minimum: definite.

    Where q < 2 it is that of the quadratic function above |G|_q that touches it, as Newton's steps would overshoot.
    """
    leads, of, q = rows.leads[free], rows.of[free], dual(order)
    second = torch.empty(len(of), len(of), dtype=leads.dtype)
    for number in of.unique():
        weighed = leads * ((rows.queries * rows.queries[number]) @ state.bend.T)[of]
        second[of == number] = leads[of == number] @ weighed.T
    slope = (state.leads / state.length)[free]
    second = max(q - 1, 1) * (second / state.length**2 - torch.outer(slope, slope))
    second.diagonal().mul_(1 + 1e-8)
    return second + 1  # fixes the sum, of which |G|_q over the sum does not depend


def least_of_inputs(rows, values):
    """The least value (m,) among those of the same input."""
    least = values.new_full((len(rows.queries),), torch.inf)
    return least.scatter_reduce(0, rows.of, values, "amin")[rows.of]


def newton_step(second, slope, weights):
    """Step (m,) of Newton's method; weights that are zero and would fall stay."""
    moving = torch.ones_like(weights, dtype=torch.bool)
    while True:
        step = torch.zeros_like(weights)
        root, failed = torch.linalg.cholesky_ex(second[moving][:, moving])
        if failed:
            return -weights * slope  # always downhill
        step[moving] = -torch.cholesky_solve(slope[moving, None], root)[:, 0]
        stuck = moving & (weights == 0) & (step < 0)
        if not stuck.any():
            return step
        moving &= ~stuck


def euclidean(rows):
    """Weights (m,) with the sum 1 for p = 2; equal ones where no theta separates.

    The factor of the rows' inner products has the rows' lengths and angles, in m dimensions.
    """
    products = (rows.leads @ rows.leads.T) * (rows.queries @ rows.queries.T)[rows.of][:, rows.of]
    products.diagonal().mul_(1 + 1e-13)  # rows may depend on each other
    found = hard_margin(torch.linalg.cholesky(products))
    weights = found.duals if found.feasible else torch.ones_like(found.duals)
    return weights / weights.sum()


def orders_between(order):
    """Orders from 2 to one, without 2: below it p - 1 halves from each to the next.

    Examples
    --------
    >>> [[round(each, 3) for each in orders_between(order)] for order in (1.1, 2.0, 3.0)]
    [[1.8, 1.4, 1.2, 1.1], [], [3.0]]
    """
    orders = [order] if order != 2 else []
    while orders and 2 * orders[0] - 1 < 2:
        orders.insert(0, 2 * orders[0] - 1)
    return orders


def multipliers(rows, order, gap=1e-7):
    """Weights (m,) with the sum 1, and their :class:`State`, once its gap is small enough or no step helps any more.

    Each order begins with the weights of the one before. Where no theta separates, the gap is 1 or more.
    """
    weights = euclidean(rows)
    for each in orders_between(order):
        weights = improved(rows, each, weights, gap if each == order else 0.01)
    return weights, state_of(rows, weights, order)


def improved(rows, order, weights, gap):
    """Weights of one order, from those of another.

    Few are not zero, so in each step those that are may leave it in one row an input.
    """
    state = state_of(rows, weights, order)
    for _ in range(STEPS):
        if state.gap <= gap:
            break
        slope = state.leads / state.length - 1
        free = (weights > 0) | (slope == least_of_inputs(rows, slope)) & (slope < 0)
        step = torch.zeros_like(weights)
        step[free] = newton_step(curvature(rows, state, free, order), slope[free], weights[free])
        for halving in range(HALVINGS):
            tried = (weights + 0.5**halving * step).clamp_min(0)
            tried /= tried.sum()
            then = state_of(rows, tried, order)
            if then.length < state.length:
                weights, state = tried, then
                break
        else:
            break
    return weights
