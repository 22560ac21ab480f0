"""Mirror descent of l_p norms on problems of many tokens and matrices, and the l_p separators of what it selects.

The plan and its bounds stand in :mod:`studies.real_transformer`. Rows, products of a token and a query, are never
formed, so that W may have 384 x 384 entries, which no coordinates of a span replace where p is not 2.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from lib import losses
from lib.descent import normalised, run
from lib.geometry import directional_bregman_divergence, norm
from lib.selection import optimal_tokens, selected_tokens
from studies.lp_multipliers import Rows, multipliers
from studies.networks.measures import share_that_counts

ORDERS, OUT, GAP = (1.1, 2.0, 3.0), 20.0, 1e-4
STEPS, FEWER = 1000, 500  # of recorded runs from zero, and from separators


class Nearly(NamedTuple):
    """An l_p separator, nearly.

    theta : Tensor, shape (parameter_size,), whose least lead is 1; not separating where the gap is 1 or more.
    weights : Tensor, shape (n, T), multipliers with the sum 1, zero at the selected tokens.
    gap : float, by which part |theta|_p may be above the least.
    """

    theta: Tensor
    weights: Tensor
    gap: float


def in_norm(problem, selected, order=2.0):
    """The l_p separator of a selection (n,) by its dual, :class:`Nearly`.

    Its theta is the sum of the rows times their multipliers under the inverse mirror map.
    """
    chosen = problem.keys.gather(-2, selected[:, None, None].expand(-1, 1, problem.keys.shape[-1]))
    other = problem.mask.scatter(-1, selected[:, None], False)
    rows = Rows((chosen - problem.keys)[other], other.nonzero()[:, 0], problem.queries)
    weights, state = multipliers(rows, order)
    spread = torch.zeros(other.shape, dtype=weights.dtype).masked_scatter(other, weights)
    return Nearly(state.matrix.flatten() / state.leads.min().abs(), spread, state.gap)


def lasts(problem, selected, separator):
    """Whether each selected token scores above the tokens with a multiplier: locally optimal (Definition 2)."""
    own = problem.scores.gather(-1, selected[:, None])
    return not ((separator.weights > 1e-6) & (problem.scores >= own)).any()


def descended(problem, starts, lengths, order, steps):
    """Thetas at the end of normalised mirror descent from starts (k, parameter_size).

    All in one direction, the steps would take W from zero to `OUT` times the lengths (k,).
    """
    rule = normalised((OUT * lengths) ** (order - 1) / steps, order)
    return run(problem, losses.logistic, starts, rule, steps, [steps], norm=order).theta[-1]


def ended(problem, end, order):
    """Of the end of a run: the share of best tokens, divergences from the separators of its tokens, entries that count.

    ``apart`` has the separators of `ORDERS`, in the divergence of the run's p; ``lasts``, whether the tokens are
    locally optimal in l_p; ``gap``, the largest of the separators.
    """
    selected = selected_tokens(problem, end)
    own = {other: in_norm(problem, selected, other) for other in ORDERS}
    return {
        "best": (selected == optimal_tokens(problem)).double().mean().item(),
        "apart": [directional_bregman_divergence(one.theta, end, order).item() for one in own.values()],
        "entries": share_that_counts(end).item(),
        "lasts": lasts(problem, selected, own[order]),
        "gap": max(one.gap for one in own.values()),
    }


def from_zero(problem, order, steps):
    """:func:`ended` of a run from W = 0 whose steps are measured by the separator of the best tokens."""
    aim = in_norm(problem, optimal_tokens(problem), order)
    (end,) = descended(problem, 0 * aim.theta[None], norm(aim.theta, order)[None], order, steps)
    return ended(problem, end, order)


def which_last(problem, selections, order):
    """Separators of selections (k, n) in l_p, and whether they are locally optimal there, shape (k,)."""
    limits = [in_norm(problem, one, order) for one in selections]
    return limits, torch.tensor([lasts(problem, *pair) for pair in zip(selections, limits, strict=True)])


def of_all(problem, near):
    """What is recorded of a problem of many texts and of some selections (k, n), by p."""
    found = {}
    for order in ORDERS:
        limits, local = which_last(problem, near, order)
        starts = torch.stack([one.theta for one in limits])
        ends = descended(problem, OUT * starts, norm(starts, order), order, FEWER)
        kept = (selected_tokens(problem, ends) == near).all(-1)
        found[str(order)] = from_zero(problem, order, STEPS) | {
            "local": local.tolist(), "kept": kept.tolist(), "gaps": max(one.gap for one in limits)}  # fmt: skip
    return found


def of_few(problems, steps=2000):
    """Runs from W = 0 with steps of .1 on a few texts: what :func:`ended` says."""
    found = []
    for k, problem in enumerate(problems):
        for order in ORDERS:
            start = torch.zeros(problem.parameter_size, dtype=torch.float64)
            rule = normalised(0.1, order)
            (end,) = run(problem, losses.logistic, start, rule, steps, [steps], norm=order).theta
            found.append({"draw": k, "order": order} | ended(problem, end, order))
    return {"runs": found}
