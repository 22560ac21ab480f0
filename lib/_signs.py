"""Sum the sign matrices s t^T, s and t of entries 1 and -1: the norm whose unit ball is their hull, and its dual.

Both list the vectors s of the shorter side. The sign matrices of one s add up to s c^T, with the largest entry of c as
their total weight, so the norm is a linear program over one c for each s: solved by an interior-point method, whose
steps need few numbers because all s have the same equations. The shortest separator is one as well, by HiGHS.
"""

from itertools import product

import numpy as np

LARGEST = 2**13  # entries of all c
VALUED = 1e-10  # how far above its weight a sign matrix has to be valued to join
STEPS = 60  # of the interior-point method; 10 to 15 are common
CONVERGED = 1e-14  # relative gap, with what the sum lacks of the matrix, below which a norm is exact
ACCURATE = 1e-6  # and above which it is not known; the multipliers, which bound it, are better by a thousand
ROUNDING = 1e-15
BOUNDARY = 0.99  # part of the way to the nearest bound that a step goes at most
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
    """The least total weight of sign matrices whose sum is the matrix of this vector (d e,)."""
    size = np.abs(vector).max()
    return size and size * _least_weight(_upright(vector / size, shape)[0])


def _least_weight(matrix):
    """The least sum of the largest entries w_s of c_s with sum_s s c_s^T = matrix, by Mehrotra's primal-dual method.

    Kept are ``above`` = w - c and ``below`` = w + c, (s, e), their multipliers p and q, which add up to 1 for each s,
    and those of the equations, ``u`` (d, e), with signs u = p - q. The start has all this.
    """
    signs = sign_vectors(matrix.shape)
    c, u = signs @ matrix / len(signs), np.zeros_like(matrix)
    w = np.abs(c).max(1, keepdims=True) + np.abs(c).max() / 2
    above, below = w - c, w + c
    p = q = np.full_like(c, 0.5 / c.shape[1])
    squares = (signs[:, :, None] * signs[:, None, :]).reshape(len(signs), -1).T
    error, largest = np.inf, 0.0
    for _ in range(STEPS):
        c = (below - above) / 2
        mean, lacking = ((p * above).mean() + (q * below).mean()) / 2, matrix - signs.T @ c
        weight = np.abs(c).max(1).sum()
        bound = (matrix * u).sum() / max(1.0, np.abs(signs @ u).sum(1).max())
        error = min(error, 1 - bound / weight + np.abs(lacking).max())
        if error < CONVERGED or (error < ACCURATE and bound <= largest):  # rounding has the word
            break
        largest = max(largest, bound)
        solve = _newton(signs, squares, p / above, q / below, lacking, signs @ u - p + q, 1 - (p + q).sum(1))
        dp, dq, da, db, _ = solve(-p, -q)
        primal, dual = _length((above, da), (below, db)), _length((p, dp), (q, dq))
        after = ((p + dual * dp) * (above + primal * da)).mean() + ((q + dual * dq) * (below + primal * db)).mean()
        target = (after / 2 / mean) ** 3 * mean
        dp, dq, da, db, du = solve((target - da * dp) / above - p, (target - db * dq) / below - q)
        primal, dual = _length((above, da), (below, db)), _length((p, dp), (q, dq))
        above, below = above + primal * da, below + primal * db
        p, q, u = p + dual * dp, q + dual * dq, u + dual * du
    if not error < ACCURATE:
        raise RuntimeError(f"the norm of sign matrices is known to a relative {error:.1g} only: rescale the matrix")
    return max(largest, bound)


def _newton(signs, squares, P, Q, lacking, unbalanced, short):
    """Solver of the equations of a step: changes of p, q, w - c, w + c and u, from what p and q are to change.

    P = p / (w - c) and Q = q / (w + c). Without p, q and w the equations of each s are a diagonal less a matrix of rank
    one, those of u the sum of their inverses with s s^T.
    """
    (d, e), both, apart = lacking.shape, P + Q, P - Q
    lean = apart / both
    scale = (4 * P * Q / both).sum(1, keepdims=True)
    inverses = lean[:, :, None] * (lean / scale)[:, None, :]
    inverses[:, range(e), range(e)] += 1 / both
    system = (squares @ inverses.reshape(len(signs), -1)).reshape(d, d, e, e).swapaxes(1, 2).reshape(d * e, d * e)
    root, total = system.diagonal() ** 0.5, both.sum(1, keepdims=True)
    system = system / (root * root[:, None]) + ROUNDING * np.eye(d * e)  # singular where multipliers are not unique

    def solve(p, q):
        more = ((p + q).sum(1) - short)[:, None]
        right = q - p + unbalanced + apart * more / total
        left = (lacking - signs.T @ np.einsum("sef,sf->se", inverses, right)).ravel()
        u = (np.linalg.solve(system, left / root) / root).reshape(d, e)
        c = np.einsum("sef,sf->se", inverses, signs @ u + right)
        w = (more + (apart * c).sum(1, keepdims=True)) / total
        p, q, balance = p - P * (w - c), q - Q * (w + c), signs @ u + unbalanced
        p, q = np.where(P > Q, q + balance, p), np.where(P > Q, q, p - balance)  # the larger is known to fewer digits
        return p, q, w - c, w + c, u

    return solve


def _length(*pairs):
    """How much of their changes numbers above zero can take, so that they stay above."""
    steepest = max((-change / number).max() for number, change in pairs)
    return min(1.0, BOUNDARY / steepest) if steepest > 0 else 1.0


def shortest(rows, required, shape):
    """Theta and duals of ``min norm(theta)`` s.t. rows theta >= required, for one set of rows (m, d e)."""
    return _least_weights(rows, required, shape)


def _least_weights(rows, required, shape):
    """The shortest theta whose margins are as required, or larger, and the multipliers.

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
