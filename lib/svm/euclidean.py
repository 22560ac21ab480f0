"""Solve ``min |theta|_2`` s.t. D theta >= b by a compiled dual active-set method.

The method is that of Goldfarb and Idnani (Mathematical Programming 27, 1983). theta is the shortest vector on
which the active rows have just the margins they must have; at first none is active and theta is zero. The row that
lacks most becomes active, and rows whose multipliers would fall below zero on the way leave. theta grows with every row
that enters, so this ends: with the solution, or with multipliers that prove that there is none. The active rows are
kept as R^T Q, R upper triangular and the rows of Q orthonormal, so that no condition is squared and long solutions keep
their digits. Most rows are looked at only when those that lacked much have what they need: what a large problem costs
is its active rows.
"""

import math

import numpy as np
import torch

from .._compiled import compiled, in_threads
from .factors import _back, _dot, _leave, _margins, _outside, _product

ROUNDING = 16 * 2.0**-52  # part of |row| |theta| that a margin may lack
PROVEN = 1e-12  # part of the lengths of rows that a certificate may leave: what rounding can, and a margin for it
DEPENDENT = 1e-14  # part of a row outside the span of the active ones at which it counts as inside
NEAR = 256  # rows that lack most, which are tried before all are looked at again
TINIEST = 1e-300  # length of a row that is zero
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
def _enter(row, lack, size, basis, k, theta, scratch):
    """Raise a row's multiplier until it lacks nothing; how many are active then, and the multiplier.

    It is infinite where no multiplier is enough: of a row inside the span of the active ones, which is their sum with
    weights ``turn``, none of them above zero.
    """
    R, Q, active, duals = basis
    part, turn, rest = scratch
    own = 0.0
    while True:
        square = _outside(Q, k, row, part, rest, turn)
        inside = k == len(Q) or square <= (DEPENDENT * size) ** 2
        for i in range(k):
            turn[i] = part[i]
        _back(R, k, turn)
        step, gone = math.inf if inside else lack / square, -1
        for i in range(k):
            if turn[i] > 0 and duals[i] < step * turn[i]:
                step, gone = duals[i] / turn[i], i
        own += step
        if own == math.inf:
            return k, own
        for i in range(k):
            duals[i] = max(duals[i] - step * turn[i], 0.0)
        if not inside:
            for j in range(len(rest)):
                theta[j] += step * rest[j]
            lack -= step * square
        if gone < 0:
            outside = math.sqrt(square)
            for i in range(k):
                R[i, k] = part[i]
            R[k, k] = outside
            for j in range(len(rest)):
                Q[k, j] = rest[j] / outside
            return k + 1, own
        _leave(R, Q, active, duals, k, gone)
        k -= 1


@compiled()
def _polish(rows, required, basis, k, theta, change):
    """Theta and duals afresh from the active rows, with one refinement: margins right to rounding."""
    R, Q, active, duals = basis
    theta[:] = 0.0
    duals[:k] = 0.0
    for _ in range(2):
        for i in range(k):
            change[i] = required[active[i]] - _product(rows, active[i], theta, 0, len(theta))
        for i in range(k):
            change[i] /= R[i, i]
            factor = change[i]
            for j in range(i + 1, k):
                change[j] -= factor * R[i, j]
            for j in range(len(theta)):
                theta[j] += factor * Q[i, j]
        _back(R, k, change)
        for i in range(k):
            duals[i] += change[i]
    for i in range(k):
        duals[i] = max(duals[i], 0.0)


@compiled()
def _worst(rows, columns, required, scales, theta, lacks):
    """Index of the row that lacks most margin, in lengths of the row, or -1; how much; what each lacks."""
    worst, most, m = -1, ROUNDING * math.sqrt(_dot(theta, theta)), len(rows)
    _margins(rows, columns, theta, lacks[:m])
    for i in range(m):
        lacks[i] = (required[i] - lacks[i]) * scales[i]
    for i in range(m):
        if lacks[i] > most:
            worst, most = i, lacks[i]
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
        for j in range(len(row)):
            combined[j] += weight * row[j]
    if not (total > 0 and math.sqrt(_dot(combined, combined)) <= PROVEN * lengths):  # nor where one is not a number
        return False
    for i in range(len(weights)):
        certificate[active[i]] = max(weights[i], 0.0) / total
    return True


@compiled()
def _space(m, size):
    """Arrays in which problems of this size are solved, one after the other."""
    most = min(m, size)
    basis = np.empty((most, most)), np.empty((most, size)), np.empty(most + 1, np.int64), np.empty(most)
    return basis, (np.empty(most), np.empty(most + 1), np.empty(size)), np.empty(m), np.empty(m)


@compiled()
def _solve(rows, required, longest, theta, all_duals, certificate, space):
    """Write the answer to one problem into arrays of zeros."""
    basis, scratch, lacks, scales = space
    active, duals, turn = basis[2], basis[3], scratch[1]
    m, size = rows.shape
    for i in range(m):
        scales[i] = 1 / max(math.sqrt(_dot(rows[i], rows[i])), TINIEST)
    limit = longest * required.max() * scales.min()
    near, k, polished = np.arange(min(m, NEAR)), 0, False
    near_rows, near_required, near_scales = rows[:NEAR], required[:NEAR], scales[:NEAR]
    columns = np.ascontiguousarray(near_rows.T)
    for _ in range(STEPS * (m + size)):
        if math.sqrt(_dot(theta, theta)) > limit and _proves(rows, required, active, duals[:k], certificate):
            theta[:] = 0.0
            return
        row, lack = _worst(near_rows, columns, near_required, near_scales, theta, lacks)
        if row >= 0:
            row = near[row]
        elif m > NEAR:
            row, lack = _worst(rows, rows.T, required, scales, theta, lacks)
            near = np.nonzero(lacks >= lack / 2)[0][:NEAR]
            near_rows, near_required, near_scales = rows[near], required[near], scales[near]
            columns = np.ascontiguousarray(near_rows.T)
        if row >= 0:
            k, own = _enter(rows[row], lack / scales[row], 1 / scales[row], basis, k, theta, scratch)
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
    space = _space(*rows.shape[1:])
    for i in range(first, last):
        _solve(rows[i], required[i], longest, theta[i], duals[i], certificate[i], space)
