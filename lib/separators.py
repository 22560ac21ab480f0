"""Hard-margin SVMs over difference rows: the directions that attention tends to.

``min |theta|`` subject to D theta >= 1 has no bias, so it is a least-distance problem; Lawson and Hanson's
reduction to non-negative least squares solves it exactly in finitely many steps, gives the multipliers, and a
zero residual proves that nothing satisfies the constraints. Every solution carries its own certificate.
"""

from dataclasses import dataclass, fields

import cvxpy
import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor

from lib import checks
from lib.problem import Problem
from lib.selection import check_selected, locally_optimal, other_tokens

# Rows are scaled to length at most 1 first, so a problem counts as infeasible when its solution would be longer
# than 1 / INFEASIBLE in units of 1 / (longest row).
INFEASIBLE = 1e-9
MOST_SELECTIONS = 100_000


class InfeasibleError(ValueError):
    """No theta has D theta >= 1.

    ``certificate`` is the proof, shape (m,): non-negative weights that sum to 1 with certificate @ D = 0.
    """

    def __init__(self, message, certificate):
        super().__init__(message)
        self.certificate = certificate


@dataclass(frozen=True, eq=False)
class Separator:
    """Solution of ``min |theta|_p`` subject to D theta >= 1, with what it takes to check it.

    Attributes
    ----------
    theta : Tensor, shape (..., D)
        p_mm or vec(W_mm), scaled so that its smallest margin is 1; zero where infeasible.
    duals : Tensor, shape (..., m)
        Multipliers of ``min |theta|_p^2 / 2``, none below zero; for p = 2, theta = D^T duals.
    margins : Tensor, shape (..., m)
        D theta.
    gap : Tensor, shape (...)
        ``1 - (dual bound) / |theta|_p``: the norm exceeds the optimum by at most this fraction. nan where infeasible.
    feasible : Tensor of bool, shape (...)
    certificate : Tensor, shape (..., m)
        Where infeasible: weights >= 0 that sum to 1 with certificate @ D = 0. Zero elsewhere.
    """

    theta: Tensor
    duals: Tensor
    margins: Tensor
    gap: Tensor
    feasible: Tensor
    certificate: Tensor


def difference_rows(problem, selected):
    """Rows A_{i, selected_i} - A_it for all inputs i and other tokens t, shape (..., n (T - 1), parameter_size).

    Input by input, tokens in order. Raises ValueError if an index is out of range.
    """
    inputs, tokens, size = problem.keys.shape[-3:]
    selected = check_selected(selected, inputs, tokens)
    batch = checks.broadcastable(keys=problem.keys.shape[:-3], selected=selected.shape[:-1])
    keys = problem.keys.expand(*batch, inputs, tokens, size)
    selected = selected.expand(*batch, inputs)

    def pick(indices):
        return keys.gather(-2, indices[..., None].expand(*indices.shape, size))

    rows = pick(selected[..., None]) - pick(other_tokens(selected, tokens))
    if problem.queries is not None:
        rows = torch.einsum("...ntd,...ne->...ntde", rows, problem.queries).flatten(-2)
    return rows.flatten(-3, -2)


def att_svm(problem, selected=None, norm=2.0):
    """ATT-SVM: ``argmin |theta|`` s.t. theta . (A_{i, selected_i} - A_it) >= 1 for all i and t (arXiv:2306.13596).

    With queries it is W-SVM (arXiv:2402.05738), with ``norm`` l_p-AttSVM (arXiv:2410.14581).

    Parameters
    ----------
    problem : Problem, or Tensor of shape (..., m, D)
        A problem, or the difference rows themselves.
    selected : array_like of int, shape (..., n)
        The chosen token of each input; left out with difference rows.
    norm : float
        1 <= p <= inf.

    Returns
    -------
    Separator

    Raises
    ------
    InfeasibleError
        If any of the batch has no solution; :func:`hard_margin` returns a mask instead.
    ValueError
        If ``selected`` does not fit the problem, or the rows are not finite.
    """
    if isinstance(problem, Problem) != (selected is not None):
        raise ValueError("give a problem with selected tokens, or difference rows without them")
    separator = hard_margin(problem if selected is None else difference_rows(problem, selected), norm)
    if not separator.feasible.all():
        which = torch.nonzero(~separator.feasible)[0].tolist()
        place = f" at index {tuple(which)} of the batch" if which else ""
        raise InfeasibleError(
            f"the SVM{place} is infeasible: no direction separates the selected tokens, as the attached certificate"
            " proves; select other tokens, or use hard_margin for a mask",
            separator.certificate[tuple(which)],
        )
    return separator


def locally_optimal_selections(problem):
    """Find every locally optimal selection of one problem (Definition 2, arXiv:2306.13596), by solving all T^n SVMs.

    Parameters
    ----------
    problem : Problem
        Without leading dimensions, and small: there are T^n selections, each with an SVM of about 0.1 ms.

    Returns
    -------
    selected : Tensor of int, shape (found, n)
    separator : Separator
        Their ATT-SVMs: ``separator.theta``, shape (found, parameter_size), are the LMM directions.

    Raises
    ------
    ValueError
        If the problem has leading dimensions, or more than 100,000 selections.
    """
    if problem.batch_shape:
        raise ValueError(f"problem has leading dimensions {tuple(problem.batch_shape)}: give one at a time")
    inputs, tokens = problem.scores.shape
    if tokens**inputs > MOST_SELECTIONS:
        raise ValueError(f"there are {tokens}^{inputs} selections: at most {MOST_SELECTIONS} are enumerated")
    selected = torch.cartesian_prod(*inputs * [torch.arange(tokens)]).reshape(-1, inputs)
    separator = hard_margin(difference_rows(problem, selected))
    found = separator.feasible & locally_optimal(problem, selected, separator)
    return selected[found], Separator(*(getattr(separator, field.name)[found] for field in fields(Separator)))


def hard_margin(rows, norm=2.0):
    """Solve ``min |theta|_p`` s.t. rows theta >= 1 over rows of shape (..., m, D); infeasible ones marked, not raised.

    A solution longer than 1e9 / (longest row) counts as infeasible. Euclid by NNLS with one least-squares solve on
    the active rows; other norms by cvxpy.

    Returns
    -------
    Separator
    """
    rows = checks.tensor("difference rows", rows, "m", "D")
    if not norm >= 1:
        raise ValueError(f"norm is {norm}: an l_p norm has 1 <= p <= inf")
    solved = [_solve(one, norm) for one in rows.reshape(-1, *rows.shape[-2:]).numpy()]
    parts = (np.stack(part) for part in zip(*solved, strict=True))
    theta, duals, certificate = (torch.as_tensor(part).reshape(*rows.shape[:-2], -1) for part in parts)
    return _certified(rows, theta, duals, certificate, norm)


def hard_margin_cvxpy(rows, norm=2.0):
    """State :func:`hard_margin` for one set of rows (m, D) in cvxpy, as one reads it: the second opinion.

    Returns
    -------
    Separator

    Raises
    ------
    InfeasibleError
        If the solver says so (the certificate is its dual ray).
    RuntimeError
        If the solver gives up.
    """
    rows = checks.tensor("difference rows", rows, "m", "D")
    theta = cvxpy.Variable(rows.shape[-1])
    separated = rows.numpy() @ theta >= 1
    length = cvxpy.norm(theta, norm)
    problem = cvxpy.Problem(cvxpy.Minimize(length), [separated])
    problem.solve(solver=cvxpy.CLARABEL)
    if problem.status in ("infeasible", "infeasible_inaccurate"):
        ray = torch.as_tensor(separated.dual_value).clamp(min=0)
        raise InfeasibleError("cvxpy: the SVM is infeasible; select other tokens", ray / ray.sum())
    if problem.status != "optimal":
        raise RuntimeError(f"cvxpy ended with status {problem.status!r}: rescale the rows, or use norm 2 (NNLS)")
    duals = torch.as_tensor(separated.dual_value) * problem.value
    return _certified(rows, torch.as_tensor(theta.value), duals, torch.zeros_like(duals), norm)


def _solve(rows, norm):
    """Return theta, duals and certificate (zeros where they do not apply) of one set of rows, NumPy arrays."""
    scale = np.linalg.norm(rows, axis=1).max() or 1.0
    weights, residual = _least_distance(rows / scale)
    nothing = np.zeros(len(rows))
    if residual <= INFEASIBLE:
        return np.zeros(rows.shape[1]), nothing, weights / weights.sum()
    if norm != 2:
        separator = hard_margin_cvxpy(rows, norm)
        return separator.theta.numpy(), separator.duals.numpy(), nothing
    theta, duals = _polish(rows, weights)
    return theta, duals, nothing


def _least_distance(rows):
    """NNLS weights u >= 0 of min |[D^T; 1] u - (0, 1)| and the residual, which is about 1 / |theta| (at most 1)."""
    if rows.shape[1] > rows.shape[0]:
        rows = np.linalg.qr(rows.T, mode="r").T  # the same inner products in as many dimensions as there are rows
    system = np.vstack([rows.T, np.ones(len(rows))])
    target = np.append(np.zeros(rows.shape[1]), 1.0)
    return nnls(system, target, maxiter=100 * len(rows))


def _polish(rows, weights):
    """Solve on the active rows alone: their margins become 1 to rounding, at any length of theta."""
    active = weights > 0
    theta = np.linalg.lstsq(rows[active], np.ones(active.sum()), rcond=None)[0]
    duals = np.zeros(len(rows))
    duals[active] = np.linalg.lstsq(rows[active].T, theta, rcond=None)[0].clip(min=0)
    return theta, duals


def _certified(rows, theta, duals, certificate, norm):
    """Scale theta to margin 1 and compare its norm with the dual bound sum(duals) / |D^T duals|_q, 1/p + 1/q = 1."""
    feasible = certificate.sum(-1) == 0
    margins = torch.einsum("...md,...d->...m", rows, theta)
    smallest = margins.amin(-1).where(feasible, torch.ones(()))
    if (smallest <= 0).any():
        raise RuntimeError(
            "the solver's direction does not separate the rows: rescale them, their sizes differ too much"
        )
    theta, margins = theta / smallest[..., None], margins / smallest[..., None]
    dual_norm = torch.inf if norm == 1 else norm / (norm - 1) if norm < torch.inf else 1.0
    combined = torch.einsum("...md,...m->...d", rows, duals)
    bound = duals.sum(-1) / torch.linalg.vector_norm(combined, ord=dual_norm, dim=-1)
    gap = 1 - bound / torch.linalg.vector_norm(theta, ord=norm, dim=-1)
    return Separator(theta, duals, margins, gap, feasible, certificate)
