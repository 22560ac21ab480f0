"""Decide which tokens attention selects and whether they are locally optimal (Definitions 1, 2, arXiv:2306.13596)."""

import math
from dataclasses import fields
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad

from . import checks, geometry
from .problem import check_selected, difference_rows, other_tokens
from .separators import InfeasibleError, Separator, hard_margin

MOST_SELECTIONS = 100_000


def optimal_tokens(problem):
    """opt_i, the index of the highest score, shape (..., n); the first of those that tie."""
    checks.problem(problem)
    return problem.seen(problem.scores).argmax(-1)


def selected_tokens(problem, theta):
    """Index of the largest logit at theta (the token that attention turns to as theta grows), shape (..., n)."""
    checks.problem(problem)
    return problem.logits(theta).argmax(-1)


def token_margins(problem, selected, theta):
    """theta . (row of the selected token - row of token t), shape (..., n, T); 0 at the selected, inf at hidden."""
    checks.problem(problem)
    logits, selected = problem.logits(theta), check_selected(problem, selected)
    return _at(logits, selected) - logits


def score_leads(problem, selected):
    """gamma_{i alpha_i} - gamma_it for all inputs i and other tokens t, shape (..., n (T - 1)).

    In the order of :func:`lib.problem.difference_rows`.
    """
    selected = check_selected(problem, selected)
    leads = _at(problem.scores, selected) - problem.scores
    others = other_tokens(selected, leads.shape[-1], problem.mask)
    return leads.gather(-1, others.expand(*leads.shape[:-1], -1)).flatten(-2)


def _at(values, selected):
    """Entries (..., n, 1) of ``values`` (..., n, T) at the selected tokens (..., n), leading dimensions broadcast."""
    batch = checks.broadcastable(problem=values.shape[:-2], selected=selected.shape[:-1])
    values, selected = values.expand(*batch, *values.shape[-2:]), selected.expand(*batch, selected.shape[-1])
    return values.gather(-1, selected[..., None])


_check_separator = partial(
    checks.has_attribute, "separator", part="theta", remedy="the Separator of the selected tokens, as att_svm makes it"
)


def svm_neighbours(problem, selected, separator):
    """Tokens on the margin of the ATT-SVM (Definition 2): bool, shape (..., n, T).

    A token is on the margin when its own margin is 1 to within 1e-6, or how far the margin may be from
    the exact one if that is more: ``separator.margin_error``, for p > 2 where theta_mm has an entry of zero. What
    cannot be told from a neighbour counts as one.

    Parameters
    ----------
    separator : lib.separators.Separator
        The ATT-SVM of ``selected``.
    """
    _check_separator(separator)
    selected = check_selected(problem, selected)
    margins = token_margins(problem, selected, separator.theta)
    return margins.sub(1).abs() <= _on_tokens(separator.margin_error, margins, selected).clamp(min=1e-6)


def _on_tokens(rows, like, selected):
    """Numbers of the difference rows, shape (..., n (T - 1)), at their tokens (..., n, T); zero at the selected one."""
    others = other_tokens(selected.expand(like.shape[:-1]), like.shape[-1])
    rows = rows.unflatten(-1, others.shape[-2:]).expand(others.shape)
    return torch.zeros_like(like).scatter(-1, others, rows)


def score_gaps(problem, selected, separator):
    """Smallest lead of a selected token's score over its SVM-neighbours, shape (...); inf where nothing neighbours.

    The min_i min_{t in T_i} (gamma_{i alpha_i} - gamma_it) of Figures 9(b) and 10 of arXiv:2306.13596.
    """
    selected = check_selected(problem, selected)
    lead = _at(problem.scores, selected) - problem.scores
    neighbours = svm_neighbours(problem, selected, separator)
    return torch.where(neighbours, lead, torch.inf).amin((-2, -1))


def locally_optimal(problem, selected, separator):
    """Whether each selected token scores above all its SVM-neighbours (Definition 2): bool, shape (...)."""
    return score_gaps(problem, selected, separator) > 0


def log_pulls(problem, loss, selected):
    """log c_it for all inputs i and other tokens t, shape (..., n (T - 1)): how hard each of them holds theta back.

    With a linear head, ``c_it = -loss'(gamma_{i alpha_i}) (gamma_{i alpha_i} - gamma_it) / n``. Where attention is
    nearly all on the selected tokens, -grad L = sum_it c_it exp(-theta . d_it) d_it with the difference rows d_it, in
    the order of :func:`lib.problem.difference_rows`. nan for a token that scores higher than the selected one.
    """
    checks.problem(problem)
    checks.loss(loss)
    selected = check_selected(problem, selected)
    log_slopes = loss.log_slope(_at(problem.scores, selected))
    log_leads = score_leads(problem, selected).unflatten(-1, (selected.shape[-1], -1)).log()
    return (log_slopes + log_leads).flatten(-2) - math.log(selected.shape[-1])


class LimitOffset(NamedTuple):
    """Offset of the limit: descent, or a path, ends on the ray of the ATT-SVM's theta_mm moved by it.

    across : shape (..., parameter_size), its part orthogonal to the ray. A regularisation path tends to R u + across.
    along : shape (...), its part along the ray in lengths of theta_mm. The gradient flow tends to
    (log t + along) theta_mm + across.
    """

    across: Tensor
    along: Tensor


def limit_offset(problem, loss, separator, selected=None, norm=2.0):
    """Solve c_t exp(-rho . d_t) = lambda_t for the offset rho of the limit, on all rows d_t with a multiplier lambda_t.

    There -grad L is along theta_mm = sum_t lambda_t d_t (:func:`log_pulls` has the c_t), and theta keeps to its road.
    The logarithms are linear equations, across . d_t + along = log(c_t / lambda_t) with ``across`` orthogonal to the
    ray; of their solutions the one that leaves the mirror map a sum of rows, for p = 2 the shortest. The chapters on
    Theorem 1 (paths) and Theorem 2 (flows) have the argument.

    Parameters
    ----------
    problem : lib.problem.Problem
        With a linear head.
    loss : lib.losses.Loss
    separator : lib.separators.Separator
        The feasible ATT-SVM of the selected tokens, with rows whose multipliers are unique, and positive on the margin.
    selected : array_like of int, shape (..., n)
        The optimal tokens when left out.
    norm : float
        p of the ATT-SVM, 1 < p < inf. Orthogonal to its u is what leaves the l_p norm as it is to first order.

    Returns
    -------
    LimitOffset

    Raises
    ------
    ValueError
        If a row on the margin has no multiplier: theta may then move off the ray without end, like log R.

    Examples
    --------
    >>> from lib import losses
    >>> from lib.problem import Problem
    >>> from lib.separators import att_svm
    >>> problem = Problem(keys=[[[0, 0], [-1, 0], [0, -1]]], scores=[[2, 1, 0]])  # d_t: (1, 0) and (0, 1)
    >>> offset = limit_offset(problem, losses.correlation, att_svm(problem))  # c_t: 1 and 2; both multipliers: 1
    >>> [round(entry, 6) for entry in offset.across.tolist()], round(offset.along.item(), 6)
    ([-0.346574, 0.346574], 0.346574)
    """
    _check_separator(separator)
    selected = optimal_tokens(problem) if selected is None else selected
    duals, log_inputs = separator.duals, math.log(problem.scores.shape[-2])
    tight = separator.margins < 1 + 1e-6
    support = (duals > 1e-9 * duals.amax(-1, keepdim=True)) & tight
    _check_multipliers(problem, selected, tight, support)
    equations = pad(difference_rows(problem, selected), (0, 1), value=1.0) * support[..., None]
    axis = geometry.unit(separator.theta, norm)
    across = pad(geometry.mirror_map(axis, norm), (0, 1))[..., None, :]
    flat = pad(axis.abs().clamp(min=1e-12) ** (1 - norm / 2), (0, 1), value=1.0)  # where the sphere bends less
    log_c = log_pulls(problem, loss, selected) + log_inputs  # the 1 / n of all c moves ``along`` alone
    right = torch.where(support, log_c - duals.log(), 0.0)
    system = torch.cat([equations, across], dim=-2) * flat[..., None, :]
    solution = flat[..., None] * (torch.linalg.pinv(system) @ pad(right, (0, 1))[..., None])
    return LimitOffset(solution[..., :-1, 0], solution[..., -1, 0] - log_inputs)


def _check_multipliers(problem, selected, tight, support):
    """ValueError if a token on the margin has no multiplier; where a mask repeats a row, one of the two has it."""
    tokens = problem.keys.shape[-2]
    others = other_tokens(check_selected(problem, selected), tokens, problem.mask)
    held = support.unflatten(-1, others.shape[-2:])
    others = others.expand(held.shape)
    of_tokens = torch.zeros(*held.shape[:-1], tokens).to(others).scatter_add(-1, others, held.to(others))
    idle = tight & (of_tokens.gather(-1, others) == 0).flatten(-2)
    if idle.any():
        raise ValueError(
            f"{idle.sum()} tokens on the margin have no multiplier: there is no offset to tend to, move them off the"
            " margin, or follow the path itself"
        )


def set_att_svm(problem, optimal):
    """Solve ATT-SVM' (Theorem 8, arXiv:2306.13596): from each set of optimal tokens one must lead all others by 1.

    ``argmin |p|`` s.t. max_{alpha in O_i} min_{beta not in O_i} p . (k_{i alpha} - k_{i beta}) >= 1 for all i. Not
    convex, so there may be several solutions: every choice of one token from each set is solved, the shortest kept.

    Parameters
    ----------
    problem : Problem
        Without leading dimensions, and small: there are as many SVMs as choices.
    optimal : array_like of bool, shape (n, T)
        O_i, at least one token of each input; an input whose tokens are all optimal imposes nothing.

    Returns
    -------
    selected : Tensor of int, shape (found, n)
        The choices whose SVM is as short as any, to a relative 1e-9.
    separator : Separator
        Their solutions: the solution set is ``separator.theta``, shape (found, parameter_size).

    Raises
    ------
    InfeasibleError
        If no choice can be separated (the certificate is that of the first).
    ValueError
        If the problem has leading dimensions, the sets do not fit, or there are more than 100,000 choices.
    """
    checks.problem(problem)
    checks.single(problem)
    optimal = _check_sets(optimal, problem)
    choices = _choices(optimal)
    # A chosen token need not lead the other optimal ones, but the best choice for a theta is the one that does: so 0.
    others = other_tokens(choices, optimal.shape[-1], problem.mask)
    required = 1.0 - optimal.double().expand(len(choices), -1, -1).gather(-1, others).flatten(-2)
    separator = hard_margin(difference_rows(problem, choices), required=required)
    if not separator.feasible.any():
        raise InfeasibleError(
            "no choice of optimal tokens can be separated, as the attached certificate proves for the first; take other"
            " sets",
            separator.certificate[0],
        )
    length = torch.where(separator.feasible, torch.linalg.vector_norm(separator.theta, dim=-1), torch.inf)
    return _subset(choices, separator, length <= (1 + 1e-9) * length.min())


def _check_sets(optimal, problem):
    """``optimal`` as a mask of shape (n, T); ValueError unless it splits the tokens into few enough choices."""
    shape = problem.scores.shape
    optimal = checks.as_tensor("optimal", optimal, f"True or False for each token, shape {tuple(shape)}")
    if optimal.dtype != torch.bool or optimal.shape != shape:
        raise ValueError(
            f"optimal has type {optimal.dtype} and shape {tuple(optimal.shape)}: give True or False for each token,"
            f" shape {tuple(shape)}"
        )
    if not optimal.any(-1).all() or optimal.all():
        raise ValueError(
            f"optimal names {optimal.sum()} of {optimal.numel()} tokens: name at least one of each input, and leave one"
            " out somewhere"
        )
    if problem.mask is not None and (hidden := optimal & ~problem.mask).any():
        raise ValueError(f"optimal names {hidden.sum()} tokens that the mask hides: name tokens that may be seen")
    return optimal


def _subset(selected, separator, mask):
    """The selections and their separators where the mask is True."""
    return selected[mask], Separator(*(getattr(separator, field.name)[mask] for field in fields(Separator)))


def every_selection(inputs, tokens):
    """All ways to select one token of each input, shape (T^n, n); ValueError if there are more than 100,000."""
    return _choices(torch.ones(inputs, tokens, dtype=torch.bool), f"{tokens}^{inputs}")


def _choices(allowed, count=None):
    """All ways to select one of the tokens that are allowed, bool (n, T), of each input, shape (choices, n)."""
    if (choices := math.prod(allowed.sum(-1).tolist())) > MOST_SELECTIONS:
        raise ValueError(f"there are {count or choices} selections: at most {MOST_SELECTIONS} are enumerated")
    return torch.cartesian_prod(*(torch.nonzero(row).flatten() for row in allowed)).reshape(-1, len(allowed))


def locally_optimal_selections(problem, norm=2.0):
    """Find every locally optimal selection of one problem (Definition 2, arXiv:2306.13596), by solving all T^n SVMs.

    Parameters
    ----------
    problem : Problem
        Without leading dimensions, and small: there are T^n selections, each with an SVM of about 10 us.
    norm : float
        1 <= p <= inf; the SVM-neighbours are those of l_p-AttSVM (arXiv:2410.14581).

    Returns
    -------
    selected : Tensor of int, shape (found, n)
    separator : Separator
        Their ATT-SVMs: ``separator.theta``, shape (found, parameter_size), are the LMM directions.

    Raises
    ------
    ValueError
        If the problem has leading dimensions, or more than 100,000 selections.

    Examples
    --------
    >>> from lib.problem import Problem
    >>> keys = torch.tensor([[[0, 2], [0, 0]], [[1, 0], [0, 0]]], dtype=torch.float64)
    >>> problem = Problem(keys, scores=torch.tensor([[1, 0], [1, 0]], dtype=torch.float64))
    >>> selected, separator = locally_optimal_selections(problem)
    >>> selected.tolist()
    [[0, 0]]
    """
    checks.problem(problem)
    checks.single(problem)
    selected = every_selection(*problem.scores.shape) if problem.mask is None else _choices(problem.mask)
    separator = hard_margin(difference_rows(problem, selected), norm)
    optimal = separator.feasible & locally_optimal(problem, selected, separator)
    return _subset(selected, separator, optimal)
