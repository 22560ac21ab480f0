"""Solve ``min |theta|_p`` s.t. D theta >= b, 1 < p < infinity, by a compiled primal-dual interior-point method.

theta and the dual combination g = D^T u are a conjugate pair: with theta and g scaled to unit l_p and l_q norm,
1/p + 1/q = 1, ``g = sign(theta) |theta|^(p-1)``. For large p this is so high a power, and its inverse so steep, that
Newton's method is lost on either. So the pair is written as ``y |x|^(2-r) = x`` with r = min(p, q), x being theta or g:
of degree below 2 at any p, as the condition u s = mu is. (Chan, Golub and Mulet, SIAM J. Sci. Comput. 20, 1999, did so
for r = 1.) Each step solves one m x m system.
"""

import math

import numpy as np

from .._compiled import compiled, in_threads
from .factors import _copy, _dot

STEPS = 60  # 8 to 20 are common
CONVERGED = 1e-15  # complementarity u . s / (|theta| |g|) at which a problem is solved, if the relative gap
ACCURATE = 1e-14  # is below this or falls no more
BOUNDARY = 0.995  # part of the way to the nearest bound that a step may go
SMOOTHED = 1e-12  # part of |x| below which its power is made smooth in the end; more before
BLOCK = 64  # columns of a matrix that are factorised at once, so that they stay in the cache


def interior_point(rows, required, start, duals, norm):
    """Theta and duals as :func:`lib.svm.lp.least_norm`, which takes the same arguments."""
    answer = start.clone(), duals.clone()
    arrays = [array.numpy() for array in (rows, required, *answer)]
    in_threads(len(rows), lambda *part: _solve_each(*arrays, float(norm), *part))
    return answer


@compiled()
def _norm(vector, order):
    """The l_p norm; a high power of anything but 1 overflows or vanishes."""
    largest, total = np.abs(vector).max(), 0.0
    if largest == 0:
        return 0.0
    for entry in vector:
        total += (abs(entry) / largest) ** order
    return total ** (1 / order) * largest


@compiled()
def _conjugate(theta, combined, theta_unit, combined_unit, mean, norm, heading, slope):
    """Linearise the relation of theta and g: to first order theta becomes heading + slope * (change of g)."""
    power = min(norm, norm / (norm - 1))
    smooth = min(max(mean / theta_unit / combined_unit, SMOOTHED), 0.01)
    for i in range(len(theta)):
        x, y = theta[i] / theta_unit, combined[i] / combined_unit
        if norm >= 2:
            x, y = y, x
        squares = x**2 + smooth**2
        weight = squares ** (1 - power / 2)
        consistent = min(max(x * y * weight / squares, 0.0), 1.0)  # 1 where y is the power of x: then Newton's slope
        slope[i] = (1 - (2 - power) * consistent) / weight
        if norm < 2:
            slope[i] = 1 / slope[i]
            heading[i] = (x + slope[i] * (y - x / weight)) * theta_unit
        else:
            heading[i] = x / weight * theta_unit
        slope[i] *= theta_unit / combined_unit


@compiled()
def _factorise(matrix):
    """Cholesky factor in place, below the diagonal, of a matrix with ones on it; small pivots become the last digit."""
    size = len(matrix)
    for start in range(0, size, BLOCK):
        stop = min(start + BLOCK, size)
        for i in range(start, size):
            for j in range(start, min(i + 1, stop)):
                rest = matrix[i, j] - _dot(matrix[i, start:j], matrix[j, start:j])
                matrix[i, j] = rest / matrix[j, j] if i > j else math.sqrt(max(rest, CONVERGED))
        if stop < size:
            below = matrix[stop:, start:stop].copy()
            product = np.dot(below, below.T)
            for i in range(stop, size):
                for j in range(stop, i + 1):
                    matrix[i, j] -= product[i - stop, j - stop]


@compiled()
def _solve(factor, right):
    """Solve factor factor^T x = right in place."""
    for i in range(len(right)):
        right[i] = (right[i] - _dot(factor[i, :i], right[:i])) / factor[i, i]
    for i in range(len(right) - 1, -1, -1):
        right[i] /= factor[i, i]
        for j in range(i):
            right[j] -= right[i] * factor[i, j]


@compiled()
def _towards(products, factor, scale, lacking, duals, slack, dual_change, slack_change):
    """Changes of duals and slack for which, to first order, duals * slack become these products."""
    for i in range(len(duals)):
        dual_change[i] = scale[i] * (lacking[i] + products[i] / duals[i])
    _solve(factor, dual_change)
    for i in range(len(duals)):
        dual_change[i] *= scale[i]
        slack_change[i] = (products[i] - slack[i] * dual_change[i]) / duals[i] - slack[i]


@compiled()
def _to_boundary(duals, slack, dual_change, slack_change):
    """How many times the changes can be made until a dual or a slack is zero."""
    length = math.inf
    for i in range(len(duals)):
        if dual_change[i] < 0:
            length = min(length, -duals[i] / dual_change[i])
        if slack_change[i] < 0:
            length = min(length, -slack[i] / slack_change[i])
    return length


@compiled()
def _step(rows, required, theta, duals, slack, longest, norm):
    """One step of Mehrotra's: a prediction for complementarity zero, a correction for as much as that could reach."""
    m, size = rows.shape
    combined, heading, slope, scale = np.dot(duals, rows), np.empty(size), np.empty(size), np.empty(m)
    dual_change, slack_change = np.empty(m), np.empty(m)
    mean = _dot(duals, slack) / m
    units = _norm(theta, norm), _norm(combined, norm / (norm - 1))
    _conjugate(theta, combined, *units, mean, norm, heading, slope)
    factor = np.dot(rows * slope, rows.T)
    for i in range(m):
        factor[i, i] += slack[i] / duals[i]
        scale[i] = 1 / math.sqrt(factor[i, i])
    for i in range(m):
        for j in range(i):
            factor[i, j] *= scale[i] * scale[j]
        # where rows depend on each other only the last digit of the diagonal keeps the limit from being singular
        factor[i, i] = 1 + CONVERGED
    _factorise(factor)
    lacking, products = required - np.dot(rows, heading), np.zeros(m)
    _towards(products, factor, scale, lacking, duals, slack, dual_change, slack_change)
    length, reached = min(_to_boundary(duals, slack, dual_change, slack_change), 1.0), 0.0
    for i in range(m):
        reached += (duals[i] + length * dual_change[i]) * (slack[i] + length * slack_change[i]) / m
    for i in range(m):
        products[i] = (reached / mean) ** 3 * mean - dual_change[i] * slack_change[i]
    _towards(products, factor, scale, lacking, duals, slack, dual_change, slack_change)
    length = min(BOUNDARY * _to_boundary(duals, slack, dual_change, slack_change), longest)
    theta += length * (heading + slope * np.dot(dual_change, rows) - theta)
    duals += length * dual_change
    slack += length * slack_change


@compiled()
def _accuracy(rows, required, theta, duals, slack, norm):
    """Relative gap of theta scaled to its margins, infinite where it has none, and complementarity."""
    product = _norm(np.dot(duals, rows), norm / (norm - 1)) * _norm(theta, norm)
    margins, smallest = np.dot(rows, theta), math.inf
    for i in range(len(margins)):
        if required[i] > 0:
            smallest = min(smallest, margins[i] / required[i])
    gap = abs(1 - _dot(required, duals) * smallest / product) if smallest > 0 else math.inf
    return gap, _dot(duals, slack) / product


@compiled()
def _solve_one(rows, required, theta, duals, norm):
    """Put the solution to one problem, with multipliers up to a factor, in place of the start."""
    slack = np.maximum(np.dot(rows, theta) - required, 0.0) + required.max() / 2
    point, weights = theta.copy(), duals + duals.mean()
    smallest, stale = math.inf, 0
    for _ in range(STEPS):
        _step(rows, required, point, weights, slack, 0.5 if stale > 1 else 1.0, norm)  # else it may go in a circle
        gap, complementarity = _accuracy(rows, required, point, weights, slack, norm)
        error = gap + complementarity  # not a number where rounding has broken the matrix, which is the end
        stale = 0 if error < smallest / 2 else stale + 1
        if error < smallest:
            smallest = error
            _copy(theta, point)
            _copy(duals, weights)
        if not (complementarity > CONVERGED or (gap > ACCURATE and stale < 3)):
            break


@compiled("(f8[:,:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8, i8, i8)")
def _solve_each(rows, required, theta, duals, norm, first, last):
    """One problem after the other, from first to before last."""
    for i in range(first, last):
        _solve_one(rows[i], required[i], theta[i], duals[i], norm)
