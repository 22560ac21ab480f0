"""Solve and certify ``min |theta|_2`` s.t. D theta >= 1 in one compiled call, where nothing about the rows is unusual.

What :func:`lib.separators.hard_margin` does for any rows takes forty calls of torch, for a small problem fifty times as
long as the problem. Here one loop looks at the rows, solves, and computes the certificate by the same formulas. It
refuses nothing: where an entry is not finite, rows are very long, short or of different lengths, or an answer is not
certified, it answers None, and those calls find out what to say.
"""

import math

import numpy as np
import torch

from .._compiled import compiled, in_threads
from .euclidean import _lengths, _solve, _space, room
from .factors import _dot, _products, borrowed

LARGEST, SMALLEST = 2.0**64, 2.0**-64  # length of rows whose squares and products stay within the floats
ALIKE = 2.0**-18  # part of the longest row that the shortest has at least, where none needs a scale of its own
SURE = 1e-9  # part of |row| |theta| that a margin has at least, where rounding hides none


def certified(rows, longest, largest_gap):
    """All parts of a Separator of rows (..., m, D), in their order, or None.

    Parameters
    ----------
    rows : Tensor
        In float64 on the CPU.
    longest : float
        Of :func:`.euclidean.least_distance`.
    largest_gap : float
        Gap that is let pass.
    """
    *batch, m, size = rows.shape
    count, numbers, usual = math.prod(batch), room(m, size) + m, []
    theta, parts = np.zeros((*batch, size)), np.zeros((4, *batch, m))
    gap, feasible = np.empty(batch), np.empty(batch, np.bool_)
    flat = rows.detach().contiguous().numpy().reshape(count, m, size), theta.reshape(count, size)
    flat += parts.reshape(4, count, m), gap.reshape(count), feasible.reshape(count)
    in_threads(count, lambda *part: usual.append(_certify_each(*flat, np.empty(numbers), longest, largest_gap, *part)))
    if not all(usual):
        return None
    duals, certificate, margins, error = parts
    return [torch.from_numpy(part) for part in (theta, duals, margins, gap, feasible, certificate, error)]


@compiled()
def _certify(rows, scales, theta, duals, margins):
    """Scale theta to margins of at least 1 and write these; return the gap, infinite where one is not sure."""
    length = math.sqrt(_dot(theta, theta))
    smallest, combined, total = math.inf, np.zeros(len(theta)), 0.0
    _products(rows, len(rows), theta, margins)
    for i in range(len(rows)):
        smallest = min(smallest, margins[i])
        if not margins[i] * scales[i] > SURE * length:
            return math.inf
        if duals[i] != 0:
            total += duals[i]
            for j in range(len(theta)):
                combined[j] += duals[i] * rows[i, j]
    for j in range(len(theta)):
        theta[j] /= smallest
    for i in range(len(rows)):
        margins[i] /= smallest
    return 1 - total / math.sqrt(_dot(combined, combined)) / (length / smallest)


@compiled("(f8[:,:,::1], f8[:,::1], f8[:,:,::1], f8[::1], b1[::1], f8[::1], f8, f8, i8, i8)")
def _certify_each(rows, theta, parts, gap, feasible, buffer, longest, largest_gap, first, last):
    """One problem after the other, from first to before last; whether all are answered."""
    rows, theta, parts, buffer = borrowed(rows), borrowed(theta), borrowed(parts), borrowed(buffer)
    space, required = _space(buffer, *rows.shape[1:]), buffer[len(buffer) - rows.shape[1] :]
    duals, certificate, margins, scales = parts[0], parts[1], parts[2], space[-1]
    required[:] = 1.0
    for i in range(first, last):
        least, most = _lengths(rows[i], scales)
        if not (most < LARGEST and least > SMALLEST and least > ALIKE * most):
            return False
        feasible[i] = _solve(rows[i], required, longest / most, theta[i], duals[i], certificate[i], space)
        gap[i] = math.nan
        if feasible[i]:
            gap[i] = _certify(rows[i], scales, theta[i], duals[i], margins[i])
            if not gap[i] <= largest_gap:
                return False
    return True
