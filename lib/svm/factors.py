"""Compiled arithmetic of :mod:`.euclidean`: products, and active rows kept as R^T Q while rows enter and leave."""

import math

import numpy as np

from .._compiled import compiled

AGAIN = 0.5  # part of its square that a row may lose before it is made orthogonal twice: else active margins drift
SMALL = 2**14  # entries of rows up to which their columns are multiplied
BLAS = 32  # entries of a vector from which on BLAS multiplies it


@compiled()
def _dot(first, second):
    total = 0.0
    for i in range(len(first)):
        total += first[i] * second[i]
    return total


@compiled()
def _product(matrix, i, vector, start, stop):
    """Product of row i and the vector from start to before stop, without slices, which cost more than short sums.

    In four sums, so that an addition need not wait for the one before.
    """
    a = b = c = d = 0.0
    j = start
    while j + 3 < stop:
        a += matrix[i, j] * vector[j]
        b += matrix[i, j + 1] * vector[j + 1]
        c += matrix[i, j + 2] * vector[j + 2]
        d += matrix[i, j + 3] * vector[j + 3]
        j += 4
    while j < stop:
        a += matrix[i, j] * vector[j]
        j += 1
    return (a + b) + (c + d)


@compiled()
def _products(matrix, k, vector, out):
    """Products of the first k rows and a vector, by BLAS where its call costs less than it saves."""
    if len(vector) >= BLAS and k > 0:
        np.dot(matrix[:k], vector, out[:k])
    else:
        for i in range(k):
            total = 0.0
            for j in range(len(vector)):
                total += matrix[i, j] * vector[j]
            out[i] = total


@compiled()
def _copy(vector, other):
    for i in range(len(vector)):
        vector[i] = other[i]


@compiled()
def _back(R, k, right):
    """Solve R x = right in place, for the k active rows."""
    for i in range(k - 1, -1, -1):
        right[i] = (right[i] - _product(R, i, right, i + 1, k)) / R[i, i]


@compiled()
def _outside(Q, k, row, part, rest, along):
    """Split a row into Q^T part + rest; return the square of the rest's length.

    What the rest has left along Q is taken away once more where the rest is so short that this is above rounding.
    """
    before = 0.0
    for j in range(len(row)):
        rest[j] = row[j]
        before += row[j] * row[j]
    for i in range(k):
        part[i] = 0.0
    for _ in range(2):
        _products(Q, k, rest, along)
        for i in range(k):
            factor = along[i]
            part[i] += factor
            for j in range(len(rest)):
                rest[j] -= factor * Q[i, j]
        square = _dot(rest, rest)
        if square > AGAIN * before:
            break
    return square


@compiled()
def _leave(R, Q, active, duals, k, gone):
    """Take an active row away, and make R triangular again by rotations of Q."""
    for i in range(gone, k - 1):
        active[i], duals[i] = active[i + 1], duals[i + 1]
    for i in range(gone):
        for j in range(gone, k - 1):
            R[i, j] = R[i, j + 1]
    for i in range(gone, k - 1):
        length = math.hypot(R[i, i + 1], R[i + 1, i + 1])
        cos, sin = R[i, i + 1] / length, R[i + 1, i + 1] / length
        R[i, i] = length
        for j in range(i + 1, k - 1):
            upper, lower = R[i, j + 1], R[i + 1, j + 1]
            R[i, j] = cos * upper + sin * lower
            R[i + 1, j + 1] = cos * lower - sin * upper
        for j in range(Q.shape[1]):
            upper, lower = Q[i, j], Q[i + 1, j]
            Q[i, j] = cos * upper + sin * lower
            Q[i + 1, j] = cos * lower - sin * upper


@compiled()
def _margins(rows, columns, theta, out):
    """Margins of the rows: of few by their columns, four at a time, which is faster than BLAS there."""
    if rows.size > SMALL:
        np.dot(rows, theta, out)
        return
    out[:] = 0.0
    whole = len(theta) // 4 * 4
    for j in range(0, whole, 4):
        a, b, c, d = theta[j], theta[j + 1], theta[j + 2], theta[j + 3]
        for i in range(len(out)):
            out[i] += (a * columns[j, i] + b * columns[j + 1, i]) + (c * columns[j + 2, i] + d * columns[j + 3, i])
    for j in range(whole, len(theta)):
        for i in range(len(out)):
            out[i] += theta[j] * columns[j, i]
