"""Solve ``min |theta|`` s.t. D theta >= b for batches of sets of rows: the solvers of :mod:`lib.separators`.

Each is imported when it is first called: numba takes as long to import as a fifth of torch, cvxpy longer.
"""

from functools import cache, partial

import torch

from .. import geometry


def ordinary(rows, longest, largest_gap):
    """The certified Euclidean answer in one call, or None where rows or answer are unusual: :mod:`.at_once`."""
    return _compiled()(rows, longest, largest_gap)


@cache  # an import statement takes a tenth of the time of a small problem
def _compiled():
    from .at_once import certified

    return certified


def shortest(rows, required, longest):
    """Solve the Euclidean problem for rows (..., m, D): theta, multipliers and certificates of :mod:`.euclidean`."""
    from .euclidean import least_distance

    flat = rows.reshape(-1, *rows.shape[-2:]).contiguous(), required.reshape(-1, rows.shape[-2]).contiguous()
    return tuple(part.reshape(*rows.shape[:-2], -1) for part in least_distance(*flat, longest))


def shortest_in_norm(rows, required, start, duals, norm, shape=None):
    """Solve the problem in another norm, for feasible rows (batch, m, D), from the Euclidean solution and multipliers.

    Return theta (batch, D) and the multipliers (batch, m) of ``min |theta|^2 / 2``, to the accuracy that was reached:
    the caller certifies it.
    """
    if isinstance(norm, str):
        from .lp import least_matrix, least_signs

        solve = least_signs if norm == "signs" else partial(least_matrix, norm=norm)
        solved = [solve(*svm, shape=shape) for svm in zip(rows, required, start, strict=True)]
        theta, duals = (torch.stack(part) for part in zip(*solved, strict=True))
        combined = torch.einsum("bmd,bm->bd", rows, duals)
    else:
        from .lp import least_norm

        theta, duals = least_norm(rows, required, start, duals, norm)
        combined = (duals[:, None] @ rows)[:, 0]
    length = geometry.norm(combined, geometry.dual(norm), shape)[:, None]
    return theta, duals / length * ((required * duals).sum(-1, keepdim=True) / length)
