"""Sum the sign matrices s t^T, s and t of entries 1 and -1: the norm whose unit ball is their hull, and its dual.

Both list the vectors s of the shorter side. The sign matrices of one s add up to s c^T, with the largest entry of c as
their total weight, so the shortest separator is a linear program over one c for each s, by HiGHS. The norm of a matrix
is that of the shortest one whose entries are at least, and at most, those of the matrix.
"""

from itertools import product

import numpy as np

LARGEST = 2**13  # entries of all c
VALUED = 1e-10  # how far above its weight a sign matrix has to be valued to join
# Of HiGHS: 1e-7 is too coarse, and of small programs presolving takes a quarter of the time.
OPTIONS = {"primal_feasibility_tolerance": 1e-9, "dual_feasibility_tolerance": 1e-9, "presolve": False}


def sign_vectors(shape):
    """Sign vectors of the rows of matrices (d, e), one of each pair s and -s, shape (2^(d - 1), d)."""
    d, e = shape
    if d > LARGEST or 2 ** (d - 1) * e > LARGEST:
        raise ValueError(
            f"the matrix has sides of {d} and {e}: norms of sign matrices are computed only where 2^(d - 1) e, d the"
            f" shorter side, is at most {LARGEST}; take a smaller matrix"
        )
    return np.array(list(product([1.0, -1.0], repeat=d)))[: 2 ** (d - 1)]  # the first entry is 1


def _upright(vectors, shape):
    """The matrices of these vectors (batch, d e), shape (batch, d, e) with the shorter side first."""
    matrices = vectors.reshape(-1, *shape)
    return matrices if shape[0] <= shape[1] else matrices.swapaxes(1, 2)


def dual_norm(vectors, shape):
    """The largest <G, s t^T>, the norm of G from l_inf to l_1, for vectors of shape (batch, d e)."""
    matrices = _upright(vectors, shape)
    return np.abs(sign_vectors(matrices.shape[1:]) @ matrices).sum(-1).max(-1)


def norm(vector, shape):
    """The least total weight of sign matrices whose sum is the matrix of this vector (d e,): what its duals prove."""
    size = np.abs(vector).max()
    if size == 0:
        return size
    sides = np.eye(len(vector))
    rows, required = np.vstack([sides, -sides]), np.concatenate([vector, -vector]) / size
    duals = shortest(rows, required, shape)[1]
    return size * (duals @ required) / max(1.0, dual_norm(duals @ rows, shape)[0])


def shortest(rows, required, shape):
    """Theta and duals of ``min norm(theta)`` s.t. rows theta >= required, for one set of rows (m, d e).

    Few of the vectors s are needed. Those join whose sign matrices the multipliers value above their weight, until
    there are none.
    """
    matrices = _upright(rows, shape)
    signs = sign_vectors(matrices.shape[1:])
    entries = signs @ matrices  # one c, (m, s, e)
    chosen = (signs < 0).sum(1) < 2  # they span all matrices
    while True:
        theta, duals = _weighed(signs[chosen], entries[:, chosen], required)
        value = np.abs(np.tensordot(duals, entries, 1)).sum(1)
        value[chosen] = 0
        joining = np.argsort(-value)[: 2 * len(signs[0])]
        joining = joining[value[joining] > 1 + VALUED]
        if not len(joining):
            break
        chosen[joining] = True
    return (theta if shape[0] <= shape[1] else theta.T).ravel(), duals


def _weighed(signs, entries, required):
    """The shortest sum s c^T of some vectors s, and the multipliers of the rows."""
    from scipy import sparse
    from scipy.optimize import linprog  # slow to import

    _, count, width = entries.shape
    # the variables are y = c + w and w, a bound on |c| for each s: 0 <= y <= 2 w
    bounds = sparse.kron(sparse.eye(count), np.ones((width, 1)))
    within = sparse.hstack([sparse.eye(count * width), -2 * bounds])
    flat = entries.reshape(len(entries), -1)
    margins = np.hstack([flat, -flat @ bounds])
    cost, none = np.append(np.zeros(count * width), np.ones(count)), np.zeros(count * width)
    matrix, bound = sparse.vstack([within, -margins]), np.append(none, -required)
    solution = linprog(cost, matrix, bound, method="highs-ds", options=OPTIONS)
    if solution.status != 0:
        raise RuntimeError(f"HiGHS ended with status {solution.status} ({solution.message}): rescale the rows")
    y, w = np.split(solution.x, [count * width])
    return signs.T @ (y.reshape(count, width) - w[:, None]), -solution.ineqlin.marginals[len(none) :]
