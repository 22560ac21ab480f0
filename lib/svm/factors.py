"""Compiled arithmetic of :mod:`.euclidean`: products, and active rows kept as R^T Q while rows enter and leave."""

import math

import numpy as np
from numba.core import cgutils
from numba.extending import intrinsic

from .._compiled import compiled

AGAIN = 0.1  # part of its square below which a row is made orthogonal twice: Q stays so to some units of rounding
BLAS = 32  # entries of a vector from which on BLAS multiplies it


@intrinsic
def borrowed(_, array):
    """The same array without its owner, whom numba would count at every call: half of the time of small problems.

    Of an argument of the function that Python calls, or of a part of one: these are there until it returns.
    """

    def generate(context, builder, signature, arguments):
        view = context.make_array(array)(context, builder, arguments[0])
        view.meminfo = cgutils.get_null_value(view.meminfo.type)
        return view._getvalue()

    return array(array), generate


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
    """Products of the first k rows and a vector, by BLAS where its call costs less than it saves, else four at once."""
    whole = k // 4 * 4
    if len(vector) >= BLAS and k > 0:
        np.dot(matrix[:k], vector, out[:k])
        return
    for i in range(0, whole, 4):
        a = b = c = d = 0.0
        for j in range(len(vector)):
            a += matrix[i, j] * vector[j]
            b += matrix[i + 1, j] * vector[j]
            c += matrix[i + 2, j] * vector[j]
            d += matrix[i + 3, j] * vector[j]
        out[i], out[i + 1], out[i + 2], out[i + 3] = a, b, c, d
    for i in range(whole, k):
        out[i] = _product(matrix, i, vector, 0, len(vector))


@compiled()
def _subtract(matrix, k, weights, out):
    """Take the sum of the first k rows with these weights away from a vector, four rows in one pass."""
    whole = k // 4 * 4
    for i in range(0, whole, 4):
        a, b, c, d = weights[i], weights[i + 1], weights[i + 2], weights[i + 3]
        for j in range(len(out)):
            out[j] -= (a * matrix[i, j] + b * matrix[i + 1, j]) + (c * matrix[i + 2, j] + d * matrix[i + 3, j])
    for i in range(whole, k):
        for j in range(len(out)):
            out[j] -= weights[i] * matrix[i, j]


@compiled()
def _copy(vector, other):
    for i in range(len(vector)):
        vector[i] = other[i]


@compiled()
def _back(columns, k, right):
    """Solve R x = right in place, for the k active rows; R is given by its columns."""
    for i in range(k - 1, -1, -1):
        right[i] /= columns[i, i]
        for j in range(i):
            right[j] -= right[i] * columns[i, j]


@compiled()
def _outside(Q, k, row, size, part, rest, along):
    """Split a row of this length into Q^T part + rest; return the square of the rest's length.

    What the rest has left along Q is taken away once more where the rest is so short that this is above rounding.
    """
    square = size * size
    least = AGAIN * square
    _copy(rest, row)
    for i in range(k):
        part[i] = 0.0
    for _ in range(2):
        _products(Q, k, rest, along)
        _subtract(Q, k, along, rest)
        for i in range(k):
            part[i] += along[i]
        square = _dot(rest, rest)
        if square > least:
            break
    return square


@compiled()
def _leave(basis, k, gone, part, turns):
    """Take an active row away, make R triangular again by rotations of Q, and rotate a row's part along Q with it.

    The columns of R after that row move up by one and are rotated one after the other, each to end on its diagonal.
    """
    columns, Q, active, duals = basis
    cosines, sines = turns
    for j in range(gone + 1, k):
        active[j - 1], duals[j - 1] = active[j], duals[j]
        for i in range(gone):
            columns[j - 1, i] = columns[j, i]
        upper = columns[j, gone]
        for i in range(gone, j - 1):
            lower = columns[j, i + 1]
            columns[j - 1, i] = cosines[i] * upper + sines[i] * lower
            upper = cosines[i] * lower - sines[i] * upper
        length = math.sqrt(upper * upper + columns[j, j] * columns[j, j])
        cosines[j - 1], sines[j - 1], columns[j - 1, j - 1] = upper / length, columns[j, j] / length, length
    for i in range(gone, k - 1):
        cos, sin = cosines[i], sines[i]
        part[i], part[i + 1] = cos * part[i] + sin * part[i + 1], cos * part[i + 1] - sin * part[i]
        for j in range(Q.shape[1]):
            upper, lower = Q[i, j], Q[i + 1, j]
            Q[i, j] = cos * upper + sin * lower
            Q[i + 1, j] = cos * lower - sin * upper
