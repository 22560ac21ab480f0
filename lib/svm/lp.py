"""Solve ``min |theta|`` s.t. D theta >= b in other norms than Euclid's.

For 1 < p < infinity an interior-point method, compiled; p = 1 and p = infinity are linear programs, and so is the norm
of signs of a matrix. The spectral and nuclear ones are stated in cvxpy.
"""

import math
import warnings

import numpy as np
import torch

from .. import geometry
from .._signs import OPTIONS, shortest

LARGE = 256  # rows above which they are not all given to a solver at once
TOLERANCE = 1e-11  # asked of Clarabel, which may say that it was not reached: the certified gap judges
ACCURATE = 1e-12  # part of the largest required margin that a row outside may lack


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
        To the accuracy that was reached: the caller certifies it.
    duals : Tensor, shape (batch, m)
        Multipliers up to a factor, none below zero.

    Raises
    ------
    RuntimeError
        If HiGHS gives up on a linear program.
    """
    if rows.shape[1] <= LARGE:
        return _few(rows, required, start, duals, norm)
    solved = [_growing(*svm, norm) for svm in zip(rows, required, start, duals, strict=True)]
    return tuple(torch.stack(part) for part in zip(*solved, strict=True))


def _few(rows, required, start, duals, norm):
    """Theta and duals, up to a factor, with all rows."""
    if norm in (1, math.inf):
        return _linear_programs(rows, required, start, norm)
    from .interior_point import interior_point  # compiled

    return interior_point(rows, required, start, duals, norm)


def _growing(rows, required, theta, duals, norm):
    """One problem from the rows near the margin: those that are for p = 2, then those that lack most, or will soon."""
    count, least = LARGE // 2 + int((duals > 0).sum()), -torch.inf
    chosen = torch.zeros_like(required, dtype=torch.bool)
    while True:
        lacks = (required - rows @ theta).masked_fill(chosen, -torch.inf)
        most, joining = lacks.topk(min(count, len(rows)))
        joining = joining[most > least]
        if not len(joining):
            return theta, duals
        chosen[joining] = True
        parts = rows[chosen], required[chosen], theta, duals[chosen]
        theta, some = (part[0] for part in _few(*(part[None] for part in parts), norm))
        duals = torch.zeros_like(duals).masked_scatter(chosen, some)
        count, least = LARGE, (required[chosen] - rows[chosen] @ theta).max().clamp(min=0) + ACCURATE * required.max()


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

    solution = linprog(cost, matrix, bound, bounds=(lowest, None), method="highs-ds", options=OPTIONS)
    if solution.status != 0:
        raise RuntimeError(f"HiGHS ended with status {solution.status} ({solution.message}): rescale the rows")
    return split @ solution.x, -solution.ineqlin.marginals[: len(required)]


def least_matrix(rows, required, start, norm, shape):
    """Theta (D,) and multipliers (m,), these up to a factor, for one set of rows (m, D) that can be separated.

    ``start`` is the Euclidean solution, whose length is the scale of theta.
    """
    import cvxpy

    length = torch.linalg.vector_norm(start).item()
    matrix = cvxpy.Variable(shape)
    size = {"spectral": cvxpy.sigma_max, "nuclear": cvxpy.normNuc}[norm](matrix)
    separated = (length * rows).numpy() @ cvxpy.vec(matrix, order="C") >= required.numpy()
    problem = cvxpy.Problem(cvxpy.Minimize(size), [separated])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the tolerance was not reached
        tolerances = {name: TOLERANCE for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas")}
        problem.solve(solver=cvxpy.CLARABEL, **tolerances)
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise RuntimeError(f"cvxpy ended with status {problem.status!r}: rescale the rows")
    return length * torch.as_tensor(matrix.value).flatten(), torch.as_tensor(separated.dual_value).clamp(min=0)


def least_signs(rows, required, start, shape):
    """The same for the norm "signs"."""
    length = torch.linalg.vector_norm(start)
    theta, duals = shortest((length * rows).numpy(), required.numpy(), shape)
    return length * torch.as_tensor(theta), torch.as_tensor(duals).clamp(min=0)
