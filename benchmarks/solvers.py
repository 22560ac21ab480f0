"""Other solvers of quadratic programs, from PyPI: ``min |x|^2 / 2`` subject to ``rows x >= 1``.

Each takes rows (m, d), puts them into its layout, and returns the function that is timed, which gives x alone.
"""

import numpy as np

PIQP_EPSILON = 1e-8  # an interior-point method; the two others are exact up to rounding


def daqp(rows):
    """Solver of daqp, a dual active-set method of Arnström, Bemporad and Axehill."""
    import daqp

    m, size = rows.shape
    arrays = np.eye(size), np.zeros(size), rows.copy(), np.full(m, 1e30), np.ones(m), np.zeros(m, np.int32)
    return lambda: daqp.solve(*arrays)[0]


def quadprog(rows):
    """Solver of quadprog, the dual method of Goldfarb and Idnani."""
    import quadprog

    m, size = rows.shape
    arrays = np.eye(size), np.zeros(size), rows.T.copy(), np.ones(m)
    return lambda: quadprog.solve_qp(*arrays)[0]


def piqp(rows):
    """Solver of piqp, an interior-point method of Schwan, Jiang, Kuhn and Jones, to `PIQP_EPSILON`."""
    import piqp

    m, size = rows.shape
    quadratic, inequalities = np.asfortranarray(np.eye(size)), np.asfortranarray(rows)

    def solve():
        solver = piqp.DenseSolver()
        solver.settings.eps_abs = solver.settings.eps_rel = PIQP_EPSILON
        solver.setup(quadratic, np.zeros(size), None, None, inequalities, np.ones(m))
        solver.solve()
        return solver.result.x

    return solve


SOLVERS = {"daqp": daqp, "quadprog": quadprog, "piqp": piqp}
