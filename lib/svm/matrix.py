"""Solve ``min |W|`` s.t. D vec(W) >= b in the spectral or nuclear norm, stated in cvxpy, or in that of signs."""

import warnings

import torch

from .. import _signs

TOLERANCE = 1e-11  # asked of Clarabel, which may say that it was not reached: the certified gap judges


def least_matrix(rows, required, start, norm, shape):
    """Theta (D,) and multipliers (m,), these up to a factor, for one set of rows (m, D) that can be separated.

    ``start`` is the Euclidean solution, whose length is the scale of theta.
    """
    import cvxpy

    length = torch.linalg.vector_norm(start).item()
    matrix = cvxpy.Variable(shape)
    size = {"spectral": cvxpy.sigma_max, "nuclear": cvxpy.normNuc}[norm](matrix)
    separated = (length * rows).numpy() @ cvxpy.vec(matrix, order="C") >= required.numpy()
    problem = cvxpy.Problem(cvxpy.Minimize(size), [separated])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the tolerance was not reached
        tolerances = {name: TOLERANCE for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas")}
        problem.solve(solver=cvxpy.CLARABEL, **tolerances)
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise RuntimeError(f"cvxpy ended with status {problem.status!r}: rescale the rows")
    return length * torch.as_tensor(matrix.value).flatten(), torch.as_tensor(separated.dual_value).clamp(min=0)


def least_signs(rows, required, start, shape):
    """The same for the norm "signs"."""
    length = torch.linalg.vector_norm(start)
    theta, duals = _signs.shortest((length * rows).numpy(), required.numpy(), shape)
    return length * torch.as_tensor(theta), torch.as_tensor(duals).clamp(min=0)
