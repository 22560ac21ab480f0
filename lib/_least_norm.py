"""The shortest theta with D theta >= b in any l_p norm: the solver behind :mod:`lib.separators`, for p other than 2.

For 1 < p < infinity a primal-dual interior-point method. theta and the dual combination g = D^T u are a conjugate pair:
with theta and g scaled to unit l_p and l_q norm, 1/p + 1/q = 1, ``g = sign(theta) |theta|^(p-1)``. For large p this is
so high a power, and its inverse so steep, that Newton's method is lost on either. So the pair is written as
``y |x|^(2-r) = x`` with r = min(p, q), x being theta or g: of degree below 2 at any p, as the condition u s = mu is.
(Chan, Golub and Mulet, SIAM J. Sci. Comput. 20, 1999, did so for r = 1.) Each step solves one m x m system for every
problem of a batch. p = 1 and p = infinity are linear programs.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from . import geometry

STEPS = 60  # 8 to 20 are common
CONVERGED = 1e-15  # complementarity u . s / (|theta| |g|) at which a problem is solved, if the relative gap
ACCURATE = 1e-14  # is below this or falls no more
BOUNDARY = 0.995  # part of the way to the nearest bound that a step may go
SMOOTHED = 1e-12  # part of |x| below which its power is made smooth in the end; more before
CHUNK = 64  # problems that are solved at once, so that their matrices stay in the cache


def least_norm(rows, required, start, duals, norm):
    """Solve ``min |theta|_p`` s.t. rows theta >= required for a batch of sets of rows that can be separated.

    Parameters
    ----------
    rows : Tensor, shape (batch, m, D)
        In float64 on the CPU, as all tensors here.
    required : Tensor, shape (batch, m)
        None below zero, one above in each of the batch.
    start, duals : Tensor, shape (batch, D) and (batch, m)
        The Euclidean solution and its multipliers.
    norm : float
        1 <= p <= inf; for p = 1 and p = inf, where there may be many solutions, one that is a vertex of their set.

    Returns
    -------
    theta : Tensor, shape (batch, D)
        To the accuracy that could be reached, which is for the caller to look at.
    duals : Tensor, shape (batch, m)
        Multipliers of ``min |theta|_p^2 / 2``, none below zero.

    Raises
    ------
    RuntimeError
        If HiGHS gives up on a linear program.
    """
    if norm in (1, math.inf):
        theta, duals = _linear_programs(rows, required, start, norm)
    else:
        chunks = zip(*(part.split(CHUNK) for part in (rows, required, start, duals)), strict=True)
        solved = [_interior_point(*chunk, norm) for chunk in chunks]
        theta, duals = (torch.cat(part) for part in zip(*solved, strict=True))
    combined = geometry.norm(_pull(rows, duals), geometry.dual(norm))[:, None]
    return theta, duals / combined * ((required * duals).sum(-1, keepdim=True) / combined)


def _linear_programs(rows, required, start, norm):
    """theta and duals by HiGHS, with the rows scaled so that theta has about length 1."""
    length = geometry.norm(start)[:, None]
    pairs = zip((rows * length[..., None]).numpy(), required.numpy(), strict=True)
    solved = [_linear_program(*pair, norm) for pair in pairs]
    theta, duals = (torch.as_tensor(np.stack(part)) for part in zip(*solved, strict=True))
    return theta * length, duals.clamp(min=0)


def _linear_program(rows, required, norm):
    """theta and duals for p = 1 or infinity of one set of rows, NumPy arrays."""
    size = rows.shape[1]
    if norm == 1:  # theta is the difference of two vectors that are not below zero
        split = np.hstack([np.eye(size), -np.eye(size)])
        cost, matrix, bound, lowest = np.ones(2 * size), -rows @ split, -required, 0
    else:  # theta is y - norm with 0 <= y <= 2 norm: with free variables HiGHS may leave one at zero, off every vertex
        split, lowest = np.hstack([np.eye(size), -np.ones((size, 1))]), 0
        within = np.hstack([np.eye(size), -2 * np.ones((size, 1))])
        matrix, bound = np.vstack([-rows @ split, within]), np.append(-required, np.zeros(size))
        cost = np.eye(size + 1)[size]
    from scipy.optimize import linprog  # slow to import

    solution = linprog(cost, matrix, bound, bounds=(lowest, None), method="highs-ds")
    if solution.status != 0:
        raise RuntimeError(f"HiGHS ended with status {solution.status} ({solution.message}): rescale the rows")
    return split @ solution.x, -solution.ineqlin.marginals[: len(required)]


class _Point(NamedTuple):
    """theta (batch, D), duals u > 0 up to a factor and slack s > 0 (batch, m), which becomes D theta - b."""

    theta: Tensor
    duals: Tensor
    slack: Tensor


def _interior_point(rows, required, theta, duals, norm):
    """theta and duals (up to a factor) of a batch, which each problem leaves when it is solved."""
    slack = (_margins(rows, theta) - required).clamp(min=0) + required.amax(-1, keepdim=True) / 2
    point = _Point(theta, duals + duals.mean(-1, keepdim=True), slack)
    best = _Point(*(part.clone() for part in point))
    smallest, stale = rows.new_full((len(rows),), torch.inf), rows.new_zeros(len(rows))
    running = torch.arange(len(rows))
    for _ in range(STEPS):
        longest = 1 - 0.5 * (stale[running, None] > 1).to(rows)  # full steps may go round in a circle
        point = _step(rows, required, point, longest, norm)
        gap, complementarity = _accuracy(rows, required, point, norm)
        error = gap + complementarity  # not a number where rounding has broken the matrix, which ends the problem
        stale[running] = torch.where(error < smallest[running] / 2, 0, stale[running] + 1)
        better = error < smallest[running]
        smallest[running[better]] = error[better]
        for kept, part in zip(best, point, strict=True):
            kept[running[better]] = part[better]
        on = (complementarity > CONVERGED) | ((gap > ACCURATE) & (stale[running] < 3))
        if not on.all():
            rows, required, running, point = rows[on], required[on], running[on], _Point(*(part[on] for part in point))
        if not len(running):
            break
    return best.theta, best.duals


def _step(rows, required, point, longest, norm):
    """One step of Mehrotra's: a prediction for complementarity zero, a correction for as much as that could reach."""
    theta, duals, slack = point
    mean = (duals * slack).mean(-1, keepdim=True)
    heading, slope = _conjugate(theta, _pull(rows, duals), mean, norm)
    factors, scale = _factorised((rows * slope[:, None]) @ rows.mT, slack / duals)
    lacking = required - _margins(rows, heading)

    def towards(products):
        """Changes of duals and slack for which, to first order, duals * slack become these products."""
        right = scale * (lacking + products / duals)
        dual_change = scale * torch.linalg.lu_solve(*factors, right[..., None])[..., 0]
        return dual_change, (products - slack * dual_change) / duals - slack

    dual_change, slack_change = towards(0.0)
    length = _to_boundary(point, dual_change, slack_change).clamp(max=1)
    reached = ((duals + length * dual_change) * (slack + length * slack_change)).mean(-1, keepdim=True)
    dual_change, slack_change = towards((reached / mean) ** 3 * mean - dual_change * slack_change)
    length = torch.minimum(BOUNDARY * _to_boundary(point, dual_change, slack_change), longest)
    change = heading + slope * _pull(rows, dual_change) - theta
    return _Point(theta + length * change, duals + length * dual_change, slack + length * slack_change)


def _conjugate(theta, combined, mean, norm):
    """Linearise the relation of theta and g: to first order theta becomes heading + slope * (change of g)."""
    theta_unit = geometry.norm(theta, norm)[:, None]
    combined_unit = geometry.norm(combined, geometry.dual(norm))[:, None]
    theta, combined = theta / theta_unit, combined / combined_unit
    x, y = (theta, combined) if norm < 2 else (combined, theta)
    power = min(norm, geometry.dual(norm))
    squares = x**2 + (mean / theta_unit / combined_unit).clamp(SMOOTHED, 0.01) ** 2
    weight = squares ** (1 - power / 2)
    consistent = (x * y * squares ** (-power / 2)).clamp(0, 1)  # 1 where y is the power of x: then Newton's slope
    slope = (1 - (2 - power) * consistent) / weight
    heading = theta + (combined - x / weight) / slope if norm < 2 else x / weight
    slope = 1 / slope if norm < 2 else slope
    return heading * theta_unit, slope * theta_unit / combined_unit


def _factorised(matrix, diagonal):
    """LU factors of matrix + diag(diagonal) scaled to ones on its diagonal, and the scale (batch, m)."""
    matrix = matrix + torch.diag_embed(diagonal)
    scale = matrix.diagonal(dim1=-2, dim2=-1).rsqrt()
    # where rows depend on each other only the last digit of the diagonal keeps the limit from being singular
    matrix = matrix * scale[:, :, None] * scale[:, None] + CONVERGED * torch.eye(matrix.shape[-1], dtype=matrix.dtype)
    return torch.linalg.lu_factor_ex(matrix)[:2], scale


def _to_boundary(point, dual_change, slack_change):
    """How many times the changes can be made until a dual or a slack is zero, shape (batch, 1)."""
    changes, values = torch.cat([dual_change, slack_change], -1), torch.cat([point.duals, point.slack], -1)
    return torch.where(changes < 0, -values / changes, torch.inf).amin(-1, keepdim=True)


def _accuracy(rows, required, point, norm):
    """Relative gap of theta scaled to its margins (infinite where it has none) and complementarity, shape (batch)."""
    product = geometry.norm(_pull(rows, point.duals), geometry.dual(norm)) * geometry.norm(point.theta, norm)
    smallest = torch.where(required > 0, _margins(rows, point.theta) / required, torch.inf).amin(-1)
    gap = (1 - (required * point.duals).sum(-1) * smallest / product).abs()
    return torch.where(smallest > 0, gap, torch.inf), (point.duals * point.slack).sum(-1) / product


def _margins(rows, theta):
    return (rows @ theta[..., None])[..., 0]


def _pull(rows, duals):
    return (duals[..., None, :] @ rows)[..., 0, :]
