"""Solve ``min |theta|`` s.t. rows theta >= required for any rows, with a certificate, for :mod:`lib.separators`."""

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from . import checks, geometry, svm

SURE = 2.0**-50  # the same part, above which a margin is surely positive
LARGEST_GAP = 1e-6  # that is let pass; ten decades above what is common
CLARABEL = 1e-6  # part of the lengths of rows that a certificate of cvxpy's may leave
LARGEST_MATRIX_GAP = 1e-8  # of the norms of matrices; a hundred times what is common
NORMS = (*checks.MATRIX_NORMS, "signs")
LONGEST = 1e9  # length of theta, times (longest row) / (largest required margin), above which there may be no theta
MODERATE = 64  # powers of 2 between which the largest entry of rows leaves room for squares and products
TOP = 2048  # power of 2 above all of the floats
WIDE = 20  # powers of 2 between the largest and smallest row above which each is scaled by its own
CERTAIN = 1e-10  # part of |row| |theta| that a margin is raised to where it is less: rounding would hide it
TINIEST = 1e-300  # size of rows below which they are not made larger: the power of 2 would leave the floats
ROUNDING = 1e-15  # a gap below which nothing is known


class InfeasibleError(ValueError):
    """No theta has D theta >= required.

    ``certificate`` is the proof, shape (m,): non-negative weights with certificate @ D = 0 and
    certificate @ required = 1.
    """

    def __init__(self, message, certificate):
        super().__init__(message)
        self.certificate = certificate


@dataclass(frozen=True, eq=False)
class Separator:
    """Solution of ``min |theta|_p`` subject to D theta >= required, with what it takes to check it.

    Attributes
    ----------
    theta : Tensor, shape (..., D)
        p_mm or vec(W_mm), scaled so that its smallest margin is 1 (its smallest part of the required one); zero
        where infeasible.
    duals : Tensor, shape (..., m)
        Multipliers of ``min |theta|_p^2 / 2``, none below zero; for p = 2, theta = D^T duals.
    margins : Tensor, shape (..., m)
        D theta.
    gap : Tensor, shape (...)
        ``1 - (dual bound) / |theta|_p``: the norm exceeds the optimum by at most this fraction. nan where infeasible.
    feasible : Tensor of bool, shape (...)
    certificate : Tensor, shape (..., m)
        Where infeasible: weights >= 0 with certificate @ D = 0 and certificate @ required = 1 (so that they sum to 1
        where all margins are required to be 1). Zero elsewhere.
    margin_error : Tensor, shape (..., m)
        How far a margin of theta may be from that of the exact solution, which the gap bounds where that is unique.
        Zero for p = 2, where the method is finite, and in norms whose solution need not be unique.
    """

    theta: Tensor
    duals: Tensor
    margins: Tensor
    gap: Tensor
    feasible: Tensor
    certificate: Tensor
    margin_error: Tensor


def hard_margin(rows, norm=2.0, required=None, shape=None, largest_gap=None):
    """Solve ``min |theta|_p`` s.t. rows theta >= required for many sets of rows; infeasible ones marked, not raised.

    Infeasible are rows that a change by 1e-12 of their lengths makes so, whatever these are: the certificate proves it,
    to rounding. Where it cannot be told there is an error, as for some solutions longer than 1e9 (largest required
    margin) / (longest row).
    Euclid by a dual active-set method; other norms from there by an interior-point method, to a gap below 1e-10 (1e-8
    for p = 1 and infinity, linear programs) unless the solution is longer than 1e5 / (longest row) or p is above 20 or
    below 1.02. The norm is what the gap bounds: entries and multipliers whose share of it is below rounding, as a
    quarter of the largest entry has for p = 30, are known to few digits. All run on torch's number of threads.
    Rows may be of any size: scaled by c, theta is scaled by 1 / c and its multipliers by 1 / c^2, which may leave the
    floats, to 0 or infinity.

    Parameters
    ----------
    rows : array_like, shape (..., m, D)
    norm : float, "spectral", "nuclear" or "signs"
        1 <= p <= inf. At p = 1 and p = inf the solution need not be unique: it is a vertex of the set of solutions.
        Spectral and nuclear ones, which need not be unique either, are solved by Clarabel: a second for 16 x 16.
        The norm "signs" (:func:`lib.geometry.norm`) is a linear program, for up to 10 x 10.
    required : array_like, shape (..., m), optional
        Margin that each row must have, none below 0 and one above; all of them 1 when left out.
    shape : (int, int), optional
        (d, e) of the matrix that theta lists row by row, for norms of matrices.
    largest_gap : float, optional
        Relative gap of a solution that is let pass: 1e-6 when left out, 1e-8 in norms of matrices. Those of
        hundreds of rows that are nearly alike need more.

    Returns
    -------
    Separator

    Raises
    ------
    RuntimeError
        If rounding, or p, keeps the gap of a solution above that, or it cannot be told whether there is one.
    ValueError
        If arrays do not fit, or are so small, or of so different sizes, that theta or its margins leave the floats.

    Examples
    --------
    >>> rows = torch.tensor([[[0, 2], [1, 0]], [[1, 0], [-1, 0]]], dtype=torch.float64)
    >>> separators = hard_margin(rows)
    >>> separators.feasible.tolist()
    [True, False]
    >>> [round(entry, 6) for entry in separators.theta[0].tolist()]
    [1.0, 0.5]
    """
    if largest_gap is not None:
        checks.positive("largest_gap", largest_gap)
    rows = checks.real("difference rows", rows)
    plain = norm == 2 and required is None and rows.ndim > 1 and rows.numel()
    if plain and (answer := svm.ordinary(rows, LONGEST, largest_gap or LARGEST_GAP)):
        return Separator(*answer)
    rows, required = _with_required(rows, required)
    norm = checks.any_norm(norm, shape, rows.shape[-1], NORMS)
    separator, gap = _solved(rows, required, norm, shape, WIDE)
    let_pass = largest_gap or (LARGEST_MATRIX_GAP if isinstance(norm, str) else LARGEST_GAP)
    if gap > let_pass and not isinstance(norm, str):  # rows of lengths that differ less may be too different for p
        separator, gap = _solved(rows, required, norm, shape, 0)
    if gap > let_pass:
        name = norm if isinstance(norm, str) else f"l_{norm:g}"
        raise RuntimeError(
            f"the SVM in the {name} norm is solved to a relative gap of {gap:.1g} only: rescale the rows"
            + ", or take a norm closer to 2" * (norm != 2)
        )
    return separator


def _solved(rows, required, norm, shape, wide):
    """The separator, and the largest gap in its batch, each row scaled by its own power of 2 where they differ so."""
    sizes = rows.abs().amax(-1)
    rows, required, powers = _scaled(rows, required, wide)
    theta, duals, certificate, asked = _beyond_rounding(rows, required)
    feasible = (certificate == 0).all(-1)
    if norm != 2 and feasible.any():
        parts = (part[feasible] for part in (rows, asked, theta, duals))
        theta[feasible], duals[feasible] = svm.shortest_in_norm(*parts, norm, shape)
    separator = _certified(rows, required, theta, duals, certificate, norm, shape)
    gap = torch.where(separator.feasible, separator.gap, 0.0).nan_to_num(nan=torch.inf).max()
    return separator if powers is None else _unscaled(separator, *powers, sizes), gap


def _unscaled(separator, row, theta, sizes):
    """The separator of rows of these sizes, as they were before `_scaled` with these exponents."""
    back = replace(
        separator,
        theta=separator.theta * _power_of_two(theta),
        duals=separator.duals * _power_of_two(row) * _power_of_two(theta),
        margins=separator.margins * _power_of_two(theta - row),
        certificate=separator.certificate * _power_of_two(row - theta),
        margin_error=separator.margin_error * _power_of_two(theta - row),
    )
    if not (torch.isfinite(back.theta).all() and torch.isfinite(back.margins).all()):
        raise ValueError(
            f"difference rows are at most {sizes.max():.2g}, the least {sizes.min():.2g}: rescale them, margins leave"
            " the floats"
        )
    return back


def _with_required(rows, required):
    """Rows and required margins with the same leading dimensions."""
    rows = checks.tensor("difference rows", rows, "m", "D")
    if required is None:
        return rows, rows.new_ones(rows.shape[:-1])
    required = checks.tensor("required", required, "m")
    if (required < 0).any() or not (required > 0).any(-1).all():
        raise ValueError(f"required margins go from {required.min():g} to {required.max():g}: none below 0, one above")
    if required.shape[-1] != rows.shape[-2]:
        raise ValueError(f"required margins are {required.shape[-1]}, rows are {rows.shape[-2]}: give each row one")
    batch = checks.broadcastable(rows=rows.shape[:-2], required=required.shape[:-1])
    return rows.expand(*batch, *rows.shape[-2:]), required.expand(*batch, -1)


def hard_margin_cvxpy(rows, norm=2.0, required=None):
    """State :func:`hard_margin` for one set of rows (m, D) in cvxpy, as one reads it: the second opinion.

    Returns
    -------
    Separator

    Raises
    ------
    InfeasibleError
        If the solver says so (the certificate is its dual ray).
    RuntimeError
        If the solver gives up, or its certificate leaves more than 1e-6 of the lengths of rows.
    """
    import cvxpy

    norm = checks.norm(norm)
    rows, required = _with_required(rows, required)
    theta = cvxpy.Variable(rows.shape[-1])
    separated = rows.numpy() @ theta >= required.numpy()
    length = cvxpy.norm(theta, norm)
    problem = cvxpy.Problem(cvxpy.Minimize(length), [separated])
    problem.solve(solver=cvxpy.CLARABEL)
    if problem.status in ("infeasible", "infeasible_inaccurate"):
        ray = torch.as_tensor(separated.dual_value).clamp(min=0)
        lengths = torch.linalg.vector_norm(rows, dim=-1)
        lengths = torch.where(lengths > 0, lengths, lengths.max()) * (required > 0)
        if torch.linalg.vector_norm(ray @ rows) > CLARABEL * (ray @ lengths):
            raise RuntimeError("cvxpy: infeasible, it says, by weights that are no proof: rescale the rows")
        raise InfeasibleError("cvxpy: the SVM is infeasible; select other tokens", ray / (ray @ required))
    if problem.status != "optimal":
        raise RuntimeError(f"cvxpy ended with status {problem.status!r}: rescale the rows, or use hard_margin")
    duals = torch.as_tensor(separated.dual_value) * problem.value
    return _certified(rows, required, torch.as_tensor(theta.value), duals, torch.zeros_like(duals), norm)


def _certified(rows, required, theta, duals, certificate, norm, shape=None):
    """Scale theta to its required margins b; compare its norm with the dual bound b . u / |D^T u|_q, 1/p + 1/q = 1."""
    feasible = (certificate == 0).all(-1)
    margins = torch.einsum("...md,...d->...m", rows, theta)
    smallest = torch.where(required > 0, margins / required, torch.inf).amin(-1).where(feasible, 1.0)
    size = _sizes(rows, theta)
    if (smallest <= 0).any() or (margins < torch.where(required > 0, SURE, -1e-6) * size).any():
        raise RuntimeError(
            "the solver's direction does not separate the rows, nor is there a proof that none does, so it cannot be"
            " told: rescale the rows"
        )
    theta, margins = theta / smallest[..., None], margins / smallest[..., None]
    combined = torch.einsum("...md,...m->...d", rows, duals)
    bound = (duals * required).sum(-1) / geometry.norm(combined, geometry.dual(norm), shape)
    gap = 1 - bound / geometry.norm(theta, norm, shape)
    margin_error = torch.zeros_like(margins)
    if norm not in (1, 2, math.inf, *NORMS):
        margin_error = torch.einsum("...md,...d->...m", rows.abs(), _entry_errors(theta, gap, norm))
    return Separator(theta, duals, margins, gap, feasible, certificate, margin_error)


def _scaled(rows, required, wide=WIDE):
    """Rows and required margins times powers of 2, where they are of about 2^64 or 2^-64 or differ by 2^wide in size.

    Exactly, and with the same solutions up to a factor: also the powers (..., m) of rows and (..., 1) of theta, as the
    exponents, or None where all are 0. Each row has its own where they differ, all of a set the same where they do not.
    """
    smallest, largest = rows.aminmax(dim=-1)
    largest = torch.maximum(largest, -smallest)
    exponent = torch.frexp(largest.clamp(min=TINIEST))[1]
    top = exponent.amax(-1, keepdim=True)
    exponent = torch.where(largest > 0, exponent, top)
    differ = top - exponent.amin(-1, keepdim=True) > wide
    exponent = torch.where(differ, exponent, torch.where(top.abs() > MODERATE, top, 0))
    if not exponent.any():
        return rows, required, None
    power = torch.where(required > 0, -exponent, -TOP).amax(-1, keepdim=True)
    required = torch.where(required > 0, (required * _power_of_two(-exponent - power)).clamp(min=TINIEST), 0.0)
    return rows * _power_of_two(-exponent)[..., None], required, (-exponent, power)


def _power_of_two(exponent):
    """2^exponent in float64."""
    return 2.0 ** exponent.double()


def _beyond_rounding(rows, required):
    """Theta, duals and certificate for p = 2, and the required margins that were asked for.

    A margin that rounding could hide, of a row far longer than others, is raised to one that it cannot.
    """
    theta, duals, certificate = svm.shortest(rows, required, LONGEST)
    size = _sizes(rows, theta)
    most = torch.where(required > 0, required / size, 0.0).amax(-1, keepdim=True)
    least = (2.0**-WIDE * most).clamp(max=CERTAIN) * size
    hidden = (required > 0) & (required < least)
    again = hidden.any(-1)
    if again.any():
        required = torch.where(hidden, least, required)
        theta[again], duals[again], certificate[again] = svm.shortest(rows[again], required[again], LONGEST)
    return theta, duals, certificate, required


def _sizes(rows, theta):
    """|row| |theta|, shape (..., m)."""
    return torch.linalg.vector_norm(rows, dim=-1) * torch.linalg.vector_norm(theta, dim=-1)[..., None]


def _entry_errors(theta, gap, norm):
    """Bounds on the distance of each entry of theta from the exact solution's, shape (..., D), for 1 < p < infinity.

    Half way between two solutions is one as well, so the mean of their powers ``|x|^p`` exceeds that of the middle by
    at most ``1 - (1 - gap)^p`` of ``|theta|_p^p``. How far apart entries can then be is told by the second derivative
    ``p (p - 1) |x|^(p-2)`` and, for p > 2, near zero, by Clarkson's ``|difference / 2|^p``.
    """
    length = geometry.norm(theta, norm)[..., None]
    share = theta.abs() / torch.where(length == 0, 1.0, length)
    excess = -torch.expm1(norm * torch.log1p(-gap.nan_to_num().clamp(ROUNDING, 0.5)))[..., None]
    bend = norm * (norm - 1)
    if norm < 2:
        return (8 * excess / bend) ** 0.5 * length * torch.ones_like(share)
    curved = (16 * excess / bend * (share / 2) ** (2 - norm)) ** 0.5
    return torch.where(curved <= share, curved, torch.inf).minimum(2 * excess ** (1 / norm)) * length
