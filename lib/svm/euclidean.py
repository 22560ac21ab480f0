"""Solve ``min |theta|_2`` s.t. D theta >= b by a compiled dual active-set method.

The method is that of Goldfarb and Idnani (Mathematical Programming 27, 1983). theta is the shortest vector on
which the active rows have just the margins they must have; at first none is active and theta is zero. The row that
lacks most becomes active, and rows whose multipliers would fall below zero on the way leave. theta grows with every row
that enters, so this ends: with the solution, or with multipliers that prove that there is none. The active rows are
kept as L Q, L lower triangular and the rows of Q orthonormal, so that no condition is squared and long solutions keep
their digits. Most rows are looked at only when those that lacked much have what they need: what a large problem costs
is its active rows.
"""

import math

import numpy as np
import torch

from .._compiled import compiled, in_threads

ROUNDING = 16 * 2.0**-52  # part of |row| |theta| that a margin may lack
PROVEN = 1e-12  # part of the lengths of rows that a certificate may leave: what rounding can, and a margin for it
DEPENDENT = 1e-14  # part of a row outside the span of the active ones at which it counts as inside
NEAR = 256  # rows that lack most, which are tried before all are looked at again
TINIEST = 1e-300  # length of a row that is zero
BLAS = 32  # entries of a vector from which on BLAS multiplies it
STEPS = 50  # for each row and column; less than 1 is common


def least_distance(rows, required, longest):
    """Solve ``min |theta|_2`` s.t. rows theta >= required for a batch of sets of rows, on torch's number of threads.

    Parameters
    ----------
    rows : Tensor, shape (batch, m, D)
        In float64 on the CPU and contiguous, as all tensors here.
    required : Tensor, shape (batch, m)
        None below zero, one above in each of the batch.
    longest : float
        Where theta becomes longer than this times (largest required margin) / (longest row), a certificate is tried.

    Returns
    -------
    theta : Tensor, shape (batch, D)
        Zero where there is none.
    duals : Tensor, shape (batch, m)
        Multipliers of ``min |theta|^2 / 2``, none below zero; zero where there is no theta.
    certificate : Tensor, shape (batch, m)
        Where there is no theta: weights >= 0 with certificate @ rows = 0 and certificate @ required = 1. Else zero.
        What is left of that combination is at most 1e-12 of the lengths of rows in it that must have a margin.
    """
    answer = rows.new_zeros(rows[:, 0].shape), torch.zeros_like(required), torch.zeros_like(required)
    arrays = [array.numpy() for array in (rows, required, *answer)]
    in_threads(len(rows), lambda *part: _solve_each(*arrays, longest, *part))
    return answer


@compiled()
def _dot(first, second):
    total = 0.0
    for i in range(len(first)):
        total += first[i] * second[i]
    return total


@compiled()
def _products(matrix, vector, out):
    """Out = matrix vector, by BLAS where its call costs less than it saves: both round the same on every processor."""
    if len(vector) >= BLAS and len(out):
        np.dot(matrix, vector, out)
    else:
        for i in range(len(out)):
            out[i] = _dot(matrix[i], vector)


@compiled()
def _add(vector, factor, other):
    """Vector += factor * other."""
    for i in range(len(vector)):
        vector[i] += factor * other[i]


@compiled()
def _copy(vector, other):
    for i in range(len(vector)):
        vector[i] = other[i]


@compiled()
def _back(L, k, right):
    """Solve L^T x = right in place, for the k active rows."""
    for i in range(k - 1, -1, -1):
        right[i] /= L[i, i]
        _add(right[:i], -right[i], L[i])


@compiled()
def _outside(Q, k, row, part, rest, along):
    """Split a row into Q^T part + rest, twice, so that the rest is orthogonal to Q to rounding; the rest's length."""
    _copy(rest, row)
    for i in range(k):
        part[i] = 0.0
    for _ in range(2):
        _products(Q[:k], rest, along[:k])
        for i in range(k):
            part[i] += along[i]
            _add(rest, -along[i], Q[i])
    return math.sqrt(_dot(rest, rest))


@compiled()
def _rotate(first, second, cos, sin):
    """Rotate a pair of numbers."""
    return cos * first + sin * second, cos * second - sin * first


@compiled()
def _leave(L, Q, active, duals, k, gone):
    """Take an active row away, and make L triangular again by rotations of Q."""
    for i in range(gone, k - 1):
        _copy(L[i, : i + 2], L[i + 1])
        active[i], duals[i] = active[i + 1], duals[i + 1]
    for i in range(gone, k - 1):
        length = math.hypot(L[i, i], L[i, i + 1])
        cos, sin = L[i, i] / length, L[i, i + 1] / length
        for j in range(i, k - 1):
            L[j, i], L[j, i + 1] = _rotate(L[j, i], L[j, i + 1], cos, sin)
        for j in range(Q.shape[1]):
            Q[i, j], Q[i + 1, j] = _rotate(Q[i, j], Q[i + 1, j], cos, sin)


@compiled()
def _enter(row, lack, size, basis, k, theta, scratch):
    """Raise a row's multiplier until it lacks nothing; how many are active then, and the multiplier.

    It is infinite where no multiplier is enough: of a row inside the span of the active ones, which is their sum with
    weights ``turn``, none of them above zero.
    """
    L, Q, active, duals = basis
    part, turn, rest = scratch
    own = 0.0
    while True:
        outside = _outside(Q, k, row, part, rest, turn)
        inside = k == len(Q) or outside <= DEPENDENT * size
        _copy(turn[:k], part)
        _back(L, k, turn)
        step, gone = math.inf if inside else lack / outside**2, -1
        for i in range(k):
            if turn[i] > 0 and duals[i] < step * turn[i]:
                step, gone = duals[i] / turn[i], i
        own += step
        if own == math.inf:
            return k, own
        for i in range(k):
            duals[i] = max(duals[i] - step * turn[i], 0.0)
        if not inside:
            _add(theta, step, rest)
            lack -= step * outside**2
        if gone < 0:
            _copy(L[k, :k], part)
            L[k, k] = outside
            for i in range(len(rest)):
                Q[k, i] = rest[i] / outside
            return k + 1, own
        _leave(L, Q, active, duals, k, gone)
        k -= 1


@compiled()
def _polish(rows, required, basis, k, theta, change):
    """Theta and duals afresh from the active rows, with one refinement: margins right to rounding."""
    L, Q, active, duals = basis
    theta[:] = 0.0
    duals[:k] = 0.0
    for _ in range(2):
        for i in range(k):
            lack = required[active[i]] - _dot(rows[active[i]], theta)
            change[i] = (lack - _dot(L[i, :i], change)) / L[i, i]
        for i in range(k):
            _add(theta, change[i], Q[i])
        _back(L, k, change)
        _add(duals[:k], 1.0, change)
    for i in range(k):
        duals[i] = max(duals[i], 0.0)


@compiled()
def _worst(rows, among, required, sizes, theta, lacks):
    """Index of the row that lacks most margin, in lengths of the row, or -1; how much; what all of these rows lack."""
    worst, most = -1, ROUNDING * math.sqrt(_dot(theta, theta))
    _products(rows, theta, lacks[: len(among)])
    for i in range(len(among)):
        lacks[i] = (required[among[i]] - lacks[i]) / sizes[among[i]]
        if lacks[i] > most:
            worst, most = among[i], lacks[i]
    return worst, most


@compiled()
def _proves(rows, required, active, weights, certificate):
    """Write weights of the active rows as a certificate if they prove, to rounding, that there is no theta.

    They do if rows with a margin to have need not change by more than a part of 1e-12 for them to cancel.
    """
    total, lengths, combined = 0.0, 0.0, np.zeros(rows.shape[1])
    for i in range(len(weights)):
        row, margin, weight = rows[active[i]], required[active[i]], max(weights[i], 0.0)
        total += weight * margin
        lengths += weight * math.sqrt(_dot(row, row)) if margin > 0 else 0.0
        _add(combined, weight, row)
    if total <= 0 or math.sqrt(_dot(combined, combined)) > PROVEN * lengths:
        return False
    for i in range(len(weights)):
        certificate[active[i]] = max(weights[i], 0.0) / total
    return True


@compiled()
def _solve(rows, required, longest, theta, all_duals, certificate):
    """Write the answer to one problem into arrays of zeros."""
    m, size = rows.shape
    most = min(m, size)
    L, Q, active, duals = np.empty((most, most)), np.empty((most, size)), np.empty(most + 1, np.int64), np.empty(most)
    part, turn, rest = np.empty(most), np.empty(most + 1), np.empty(size)
    basis, scratch = (L, Q, active, duals), (part, turn, rest)
    lacks, sizes, every = np.zeros(m), np.empty(m), np.arange(m)
    for i in range(m):
        sizes[i] = max(math.sqrt(_dot(rows[i], rows[i])), TINIEST)
    limit = longest * required.max() / sizes.max()
    near, near_rows, k, polished = every[:NEAR], rows[:NEAR], 0, False
    for _ in range(STEPS * (m + size)):
        if math.sqrt(_dot(theta, theta)) > limit and _proves(rows, required, active, duals[:k], certificate):
            theta[:] = 0.0
            return
        row, lack = _worst(near_rows, near, required, sizes, theta, lacks)
        if row < 0 and m > NEAR:
            row, lack = _worst(rows, every, required, sizes, theta, lacks)
            near = np.nonzero(lacks >= lack / 2)[0][:NEAR]
            near_rows = rows[near]
        if row >= 0:
            k, own = _enter(rows[row], lack * sizes[row], sizes[row], basis, k, theta, scratch)
            if own < math.inf:
                active[k - 1], duals[k - 1], polished = row, own, False
                continue
            active[k], turn[k] = row, -1.0
            if _proves(rows, required, active, -turn[: k + 1], certificate):
                theta[:] = 0.0
                return
        if polished:
            break
        _polish(rows, required, basis, k, theta, turn)
        polished = True
    for i in range(k):
        all_duals[active[i]] = duals[i]


@compiled("(f8[:,:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8, i8, i8)")
def _solve_each(rows, required, theta, duals, certificate, longest, first, last):
    """One problem after the other, from first to before last."""
    for i in range(first, last):
        _solve(rows[i], required[i], longest, theta[i], duals[i], certificate[i])
