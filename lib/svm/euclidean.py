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
from functools import cache

import numpy as np
import torch

from .._compiled import compiled, in_threads
from .factors import AGAIN, _back, _copy, _dot, _leave, _outside, _product, _subtract, borrowed

ROUNDING = 16 * 2.0**-52  # part of |row| |theta| that a margin may lack
PROVEN = 1e-12  # part of the lengths of rows that a certificate may leave: what rounding can, and a margin for it
DEPENDENT = 1e-14  # part of a row outside the span of the active ones at which it counts as inside
SMALL = 2**14  # entries of near rows up to which BLAS does not multiply them
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
    numbers = room(*rows.shape[1:])
    in_threads(len(rows), lambda *part: _solve_each(*arrays, np.empty(numbers), longest, *part))
    return answer


@compiled()
def _enter(row, lack, size, basis, k, theta, scratch):
    """Raise a row's multiplier until it lacks nothing; how many are active then, and the multiplier.

    It is infinite where no multiplier is enough: of a row inside the span of the active ones, which is their sum with
    weights ``turn``, none of them above zero.
    """
    columns, Q, _, duals = basis
    part, turn, rest, turns = scratch
    own, square = 0.0, _outside(Q, k, row, size, part, rest, turn)
    while True:
        inside = k == len(Q) or square <= (DEPENDENT * size) ** 2
        for i in range(k):
            turn[i] = part[i]
        _back(columns, k, turn)
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
                columns[k, i] = part[i]
            columns[k, k] = outside
            for j in range(len(rest)):
                Q[k, j] = rest[j] / outside
            return k + 1, own
        _leave(basis, k, gone, part, turns)
        k -= 1
        for j in range(len(rest)):  # what the row has along the one that left
            rest[j] += part[k] * Q[k, j]
        square = _dot(rest, rest)
        if square <= AGAIN * size * size:
            square = _outside(Q, k, row, size, part, rest, turn)


@compiled()
def _polish(rows, required, basis, k, theta, change):
    """Theta and duals afresh from the active rows, with one refinement: margins right to rounding."""
    columns, Q, active, duals = basis
    theta[:] = 0.0
    duals[:k] = 0.0
    for _ in range(2):
        for i in range(k):
            change[i] = _product(rows, active[i], theta, 0, len(theta)) - required[active[i]]
        for i in range(k):
            change[i] = (change[i] - _product(columns, i, change, 0, i)) / columns[i, i]
        _subtract(Q, k, change, theta)
        _back(columns, k, change)
        for i in range(k):
            duals[i] -= change[i]
    for i in range(k):
        duals[i] = max(duals[i], 0.0)


@compiled()
def _lengths(rows, scales):
    """Write 1 / length of each row; return the least and the greatest length, 0 and infinity if one is not finite."""
    least, most = math.inf, 0.0
    for i in range(len(rows)):
        square = _product(rows, i, rows[i], 0, rows.shape[1])
        if not square < math.inf:  # nor where it is not a number, which min and max would pass over
            return 0.0, math.inf
        length = max(math.sqrt(square), TINIEST)
        scales[i] = 1 / length
        least, most = min(least, length), max(most, length)
    return least, most


@compiled()
def _look(rows, required, scales, near, looked):
    """Write the columns of the near rows, of length 1 each, and the margins that these must have."""
    columns, asked, _ = looked
    for i in range(len(near)):
        row, scale = near[i], scales[near[i]]
        asked[i] = required[row] * scale
        for j in range(rows.shape[1]):
            columns[j, i] = rows[row, j] * scale


@compiled()
def _worst(looked, theta, most):
    """Index of the row that lacks most margin, in lengths of the row, or -1; how much, if it is more than ``most``."""
    columns, asked, lacks = looked
    worst = -1
    if columns.size > SMALL:
        np.dot(theta, columns, lacks)
        for i in range(len(lacks)):
            lacks[i] = asked[i] - lacks[i]
    else:
        _copy(lacks, asked)
        _subtract(columns, len(theta), theta, lacks)
    for i in range(len(lacks)):
        if lacks[i] > most:
            worst, most = i, lacks[i]
    return worst, most


@compiled()
def _worst_of_all(rows, required, scales, theta, most, lacks):
    """The same of all rows; write what each lacks."""
    worst = -1
    np.dot(rows, theta, lacks)
    for i in range(len(lacks)):
        lacks[i] = (required[i] - lacks[i]) * scales[i]
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


@cache
def room(m, size):
    """Numbers of the buffer that :func:`_space` divides."""
    most, near = min(m, size), min(m, NEAR)
    return most * (most + size + 6) + 2 + size * (near + 1) + 3 * near + 2 * m


@compiled()
def _part(buffer, start, count):
    """The next numbers of a buffer, and where those after them start."""
    return buffer[start : start + count], start + count


@compiled()
def _space(buffer, m, size):
    """Arrays in which problems of this size are solved, one after the other: parts of a buffer."""
    most, count = min(m, size), min(m, NEAR)
    R, start = _part(buffer, 0, most * most)
    Q, start = _part(buffer, start, most * size)
    columns, start = _part(buffer, start, size * count)
    active, start = _part(buffer, start, most + 1)
    duals, start = _part(buffer, start, most)
    part, start = _part(buffer, start, most)
    turn, start = _part(buffer, start, most + 1)
    cosines, start = _part(buffer, start, most)
    sines, start = _part(buffer, start, most)
    rest, start = _part(buffer, start, size)
    near, start = _part(buffer, start, count)
    asked, start = _part(buffer, start, count)
    lacks, start = _part(buffer, start, count)
    all_lacks, start = _part(buffer, start, m)
    scales, start = _part(buffer, start, m)
    near = near.view(np.int64)
    for i in range(count):
        near[i] = i
    basis = R.reshape(most, most), Q.reshape(most, size), active.view(np.int64), duals
    looked = columns.reshape(size, count), asked, lacks
    return basis, (part, turn, rest, (cosines, sines)), near, looked, all_lacks, scales


@compiled()
def _solve(rows, required, limit, theta, all_duals, certificate, space):
    """Write the answer to one problem, whose ``scales`` are in the space, into arrays of zeros; whether it has one."""
    basis, scratch, near, looked, lacks, scales = space
    active, duals, turn = basis[2], basis[3], scratch[1]
    m, size = rows.shape
    k, polished = 0, False
    _look(rows, required, scales, near, looked)
    for _ in range(STEPS * (m + size)):
        length = math.sqrt(_dot(theta, theta))
        if length > limit and _proves(rows, required, active, duals[:k], certificate):
            theta[:] = 0.0
            return False
        row, lack = _worst(looked, theta, ROUNDING * length)
        if row >= 0:
            row = near[row]
        elif m > NEAR:
            row, lack = _worst_of_all(rows, required, scales, theta, ROUNDING * length, lacks)
            near = np.nonzero(lacks >= lack / 2)[0][:NEAR]
            looked = np.empty((size, len(near))), np.empty(len(near)), np.empty(len(near))
            _look(rows, required, scales, near, looked)
        if row >= 0:
            k, own = _enter(rows[row], lack / scales[row], 1 / scales[row], basis, k, theta, scratch)
            if own < math.inf:
                active[k - 1], duals[k - 1], polished = row, own, False
                continue
            active[k], turn[k] = row, -1.0
            if _proves(rows, required, active, -turn[: k + 1], certificate):
                theta[:] = 0.0
                return False
        if polished:
            break
        _polish(rows, required, basis, k, theta, turn)
        polished = True
    for i in range(k):
        all_duals[active[i]] = duals[i]
    return True


@compiled("(f8[:,:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[:,::1], f8[::1], f8, i8, i8)")
def _solve_each(rows, required, theta, duals, certificate, buffer, longest, first, last):
    """One problem after the other, from first to before last."""
    space = _space(borrowed(buffer), *rows.shape[1:])
    rows, required = borrowed(rows), borrowed(required)
    theta, duals, certificate = borrowed(theta), borrowed(duals), borrowed(certificate)
    for i in range(first, last):
        limit = longest * required[i].max() / _lengths(rows[i], space[-1])[1]
        _solve(rows[i], required[i], limit, theta[i], duals[i], certificate[i], space)
