"""The SVMs of the library beside other solvers of quadratic programs, from PyPI: daqp, quadprog, piqp.

``min |x|^2 / 2`` subject to ``rows x >= 1``. Each of the others gets its arrays in its own order before it is timed,
and is asked for x alone; :func:`lib.separators.hard_margin` gets the rows, and its checks and its certificate are in
its time. Those that are not installed are left out by name.
"""

from importlib.util import find_spec

import numpy as np

from lib.separators import hard_margin

from .works import ONE, Case, gaussian_rows, rows_with_few_support_vectors, sphere_rows

WORKS = {"solvers": {"title": "SVM, beside other solvers", "unit": "SVM"}}
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


OTHERS = {"daqp": daqp, "quadprog": quadprog, "piqp": piqp}


def cases(quick):
    """Yield SVMs one after the other and in a batch, ours and the others'."""
    many = sphere_rows(4, 6, 10, 100 if quick else 1000)[0]
    yield from _cases("20 x 10, one at a time", many, lambda: [hard_margin(rows) for rows in many])
    yield from _cases(f"20 x 10, {len(many)} in a batch", many, lambda: hard_margin(many))
    large = {"200 x 50": (gaussian_rows(200, 50), 20), "2,000 x 200": (gaussian_rows(2000, 200), 1)}
    large["2,000 x 200, few support vectors"] = rows_with_few_support_vectors(2000, 200), 5
    for part, (rows, times) in large.items():
        if not quick or rows.shape[1] < 2000:
            some = rows.expand(times, -1, -1)
            yield from _cases(part, some, lambda some=some: [hard_margin(rows) for rows in some])


def _cases(part, batch, ours):
    yield Case("solvers", part, ONE, len(batch), ours)
    for name in OTHERS:
        yield Case("solvers", part, name, len(batch), _all(name, batch))


def _all(name, batch):
    """A function that solves each of a batch, or says that the solver is not installed."""
    if find_spec(name) is None:

        def left_out():
            raise ModuleNotFoundError(f"{name} is not installed")

        return left_out
    solvers = [OTHERS[name](rows) for rows in batch.numpy()]
    return lambda: [solve() for solve in solvers]
