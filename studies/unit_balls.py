"""Bound the least lead of constraints <d_j, W z_j> over a unit ball, for matrices too large for the library's SVMs."""

import itertools
import math

import numpy as np
import torch
from scipy.optimize import linprog
from torch.nn.functional import one_hot

from lib.steepest import steepest_direction

GAP, ROUNDS = 4e-3, 600  # of the bound, relative, and of the search for it


def spectral(inner):
    """Nuclear norm of a matrix, given by two factors (d, n) and (n, e), and the product of a point that has it with z.

    The point is of the unit ball of the spectral norm; its product with the second factor transposed is (d, n).
    """
    whole = inner[0] @ inner[1]
    point = steepest_direction(whole.flatten(), "spectral", whole.shape).view(whole.shape)
    return (point * whole).sum(), [point @ inner[1].mT]


def signs(inner):
    """The same for the ball of entries up to 1."""
    whole = inner[0] @ inner[1]
    return whole.abs().sum(), [whole.sign() @ inner[1].mT]


def products_of_signs(queries):
    """The same for products s t^T of vectors of signs: all t that three queries tell apart."""
    first, second = torch.triu_indices(queries.shape[1], queries.shape[1], 1)
    ends = queries.mT
    plane = (torch.linalg.cross(ends[first], ends[second]) @ queries).sign()
    rows = torch.arange(len(first))
    bare = plane @ ends - plane[rows, first, None] * ends[first] - plane[rows, second, None] * ends[second]
    points = torch.cat([bare + a * ends[first] + b * ends[second] for a, b in itertools.product((1, -1), repeat=2)])

    def best(inner):
        sizes = torch.cat([(part @ inner[0].mT).abs().sum(-1) for part in points.split(1000)])
        top = sizes.topk(3).indices
        return sizes[top[0]], [torch.outer((inner[0] @ points[k]).sign(), points[k]) for k in top]

    return best


def multipliers(away, of, queries, best):
    """The largest least lead in the unit ball that ``best`` knows: its bound, the lead of a point, weights p (m,).

    Differences away (m, d) belong to inputs of (m,), with queries (n, e). Kelley's method on the game of constraints
    against points of the ball; each time a fifth of the way from the best weights to the new ones.
    """
    count, members = len(of), one_hot(of, len(queries)).double()
    weights = centre = torch.full((count,), 1 / count, dtype=torch.float64)
    margins, highest = [], math.inf
    for _ in range(ROUNDS):
        left = away.mT @ (weights[:, None] * members)
        value, points = best((left, queries))
        if value < highest:
            highest, centre = float(value), weights
        margins += [(away @ point)[range(count), of].numpy() for point in points]
        table = np.stack(margins, 1)
        m, c = table.shape
        found = linprog(
            np.append(np.zeros(c), -1.0), np.c_[-table, np.ones(m)], np.zeros(m),
            np.append(np.ones(c), 0.0)[None], [1.0], [(0, None)] * c + [(None, None)], method="highs",
        )  # fmt: skip
        if highest + found.fun <= GAP * highest:
            return highest, -found.fun, centre
        new = torch.as_tensor(-found.ineqlin.marginals).clamp(min=0)
        weights = 0.8 * centre + 0.2 * new / new.sum()
    raise RuntimeError(f"a ceiling is known to less than {GAP:g} after {ROUNDS} rounds: take fewer reviews")
