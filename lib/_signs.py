"""Sum the sign matrices s t^T, s and t of entries 1 and -1: the norm whose unit ball is their hull, and its dual.

Both by enumeration: of all s for the dual norm, of all pairs in a linear program for the norm.
"""

from itertools import product

import numpy as np

LARGEST = 14  # d + e of a matrix whose 2^(d + e - 1) sign matrices are listed
OPTIONS = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9}  # of HiGHS: 1e-7 is too coarse


def sign_matrices(shape):
    """List all s t^T of this shape (d, e) but for their sign, as rows, shape (2^(d + e - 2), d e)."""
    if sum(shape) > LARGEST:
        raise ValueError(f"shape is {tuple(shape)}: sign matrices are listed up to d + e = {LARGEST} only")
    left, right = (np.array(list(product([1.0, -1.0], repeat=size))) for size in shape)
    left, right = left[: len(left) // 2], right[: len(right) // 2]  # the first entry is 1
    return (left[:, None, :, None] * right[:, None, :]).reshape(-1, shape[0] * shape[1])


def dual_norm(vectors, shape):
    """Return the largest <G, s t^T>, the norm of G from l_inf to l_1, for vectors of shape (batch, d e)."""
    return np.abs(vectors @ sign_matrices(shape).T).max(-1)


def norm(vector, shape):
    """Return the least total weight of sign matrices whose sum is the matrix of this vector (d e,)."""
    size = np.abs(vector).max()
    return size and size * np.abs(_least_weights(sign_matrices(shape), (vector / size), equal=True)[0]).sum()


def shortest(rows, required, shape):
    """Return theta and duals of ``min norm(theta)`` s.t. rows theta >= required, for one set of rows (m, d e)."""
    pairs = sign_matrices(shape)
    weights, duals = _least_weights(pairs @ rows.T, required)
    return weights @ pairs, duals


def _least_weights(margins, required, equal=False):
    """Return the weights of least sum of sizes for which weights @ margins is required, or more, and multipliers."""
    from scipy.optimize import linprog  # slow to import

    both = np.concatenate([margins, -margins])
    sides = {"A_eq": both.T, "b_eq": required} if equal else {"A_ub": -both.T, "b_ub": -required}
    solution = linprog(np.ones(len(both)), **sides, method="highs-ds", options=OPTIONS)
    if solution.status != 0:
        raise RuntimeError(f"HiGHS ended with status {solution.status} ({solution.message}): rescale the rows")
    first, second = np.split(solution.x, 2)
    return first - second, -(solution.eqlin if equal else solution.ineqlin).marginals
