"""Compute gradient and excess of the risk at any norm of theta: every factor that can underflow is a logarithm."""

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from . import checks
from .problem import check_selected, value_and_slope


class LogScaled(NamedTuple):
    """exp(log_scale) * direction: a vector or a number that may be far smaller than any float, say e^-10000.

    direction : of a gradient, shape (..., parameter_size), zero only where it is exactly zero; of a number, its sign.
    log_scale : shape (...); of a number, the logarithm of its size.
    """

    direction: Tensor
    log_scale: Tensor


@torch.no_grad()
def gradient(problem, loss, theta):
    """The gradient of the risk in theta, exact to rounding at any norm of theta.

    Equations (13) and (18) of arXiv:2306.13596, (1/n) sum_i loss'(u_i) A_i^T (diag(a_i) - a_i a_i^T) gamma_i,
    with every factor that can underflow kept as a logarithm. Tokens on one spot count as one with their mean score.

    Parameters
    ----------
    problem : Problem
    loss : lib.losses.Loss
    theta : Tensor, shape (..., parameter_size)

    Returns
    -------
    LogScaled

    Examples
    --------
    >>> from lib.losses import by_name
    >>> from lib.problem import Problem
    >>> keys = torch.tensor([[[1, 0], [0, 0]]], dtype=torch.float64)
    >>> problem = Problem(keys, scores=torch.tensor([[1, 0]], dtype=torch.float64))
    >>> far = gradient(problem, by_name("logistic"), torch.tensor([10000, 0], dtype=torch.float64))
    >>> far.direction.sign().tolist(), round(far.log_scale.item())
    ([-1.0, 0.0], -10001)
    """
    checks.problem(problem)
    checks.loss(loss)
    logits = problem.logits(theta)
    top = logits.argmax(-1, keepdim=True)
    log_odds = logits - logits.gather(-1, top)
    odds = log_odds.exp()
    total = odds.sum(-1, keepdim=True)
    margins, scores = problem.margins(odds / total)
    scores = problem.scores_merged(scores)  # two scores at the top token's key would lose the rest to rounding
    if problem.head is None:  # the margin as the top token's, less a drop that may be far below its rounding
        top_scores = scores.expand(logits.shape).gather(-1, top)
        drop = (odds / total * (top_scores - scores)).sum(-1)
        log_slope = loss.log_slope(top_scores.squeeze(-1), drop)
    else:
        log_slope = loss.log_slope(margins)
    weights, log_scale = _logit_gradient(top, log_odds - total.log(), scores, log_slope)
    return LogScaled(problem.pull_back(weights), log_scale - math.log(margins.shape[-1]))


def _logit_gradient(top, log_attention, scores, log_slope):
    """loss' a_t (gamma_t - gamma . a) as weights (..., n, T) times exp(log_scale), log_scale (...).

    Everything is a difference to the top token b: gamma_t - gamma.a = gap_t - drift with gap_t = gamma_t - gamma_b
    and drift = sum_t a_t gap_t. The top token's own weight is minus the sum of the others.
    """
    log_attention, scores = torch.broadcast_tensors(log_attention, scores)
    top = top.expand(*scores.shape[:-1], 1)
    gaps = scores - scores.gather(-1, top)
    sign_drift, log_drift = _signed_log_sum(log_attention, gaps)
    centred = gaps - sign_drift * log_drift.exp()
    # A token that ties with the top one feels the drift alone, which may be far below the smallest float.
    sign = torch.where(gaps == 0, -sign_drift, centred.sign())
    log_size = torch.where(gaps == 0, log_drift, centred.abs().log())
    log_weight = (log_slope[..., None] + log_attention + log_size).scatter(-1, top, -torch.inf)
    log_scale = log_weight.amax((-2, -1))
    weights = -sign * (log_weight - _finite_or_zero(log_scale)[..., None, None]).exp()
    return weights.scatter(-1, top, -weights.sum(-1, keepdim=True)), log_scale


def _signed_log_sum(log_weights, values):
    """Sign and logarithm of sum_t exp(log_weights_t) values_t, shapes (..., 1); -inf when nothing adds."""
    counted = torch.where(values == 0, -torch.inf, log_weights)
    shift = counted.amax(-1, keepdim=True)
    total = ((counted - _finite_or_zero(shift)).exp() * values).sum(-1, keepdim=True)
    return total.sign(), shift + total.abs().log()


def _finite_or_zero(logarithm):
    return torch.where(torch.isneginf(logarithm), 0.0, logarithm)


@torch.no_grad()
def excess_risk(problem, loss, theta, selected):
    """L(theta) minus the limit of the risk when all attention goes to the selected tokens, exact at any norm of theta.

    With the optimal tokens selected the limit is L*, the infimum that Theorem 1 of arXiv:2306.13596 approaches, and
    it is never negative.

    Parameters
    ----------
    problem : Problem
    loss : lib.losses.Loss
    theta : Tensor, shape (..., parameter_size)
    selected : array_like of int, shape (..., n)

    Returns
    -------
    LogScaled
        A number, both parts of shape (...). With a nonlinear head exact to a relative 1e-9 in float64.

    Raises
    ------
    ValueError
        If shapes do not fit.
    """
    checks.problem(problem)
    checks.loss(loss)
    log_attention = problem.logits(theta).log_softmax(-1)
    selected = check_selected(problem, selected)
    scores, selected = torch.broadcast_tensors(problem.scores, selected[..., None])
    best = scores.gather(-1, selected[..., :1])
    if problem.head is None:
        sign, log_drop = _signed_log_sum(log_attention, best - scores)
    else:
        sign, log_drop = _head_drop(problem, log_attention, selected[..., :1])
    log_change = loss.log_change(best, sign, log_drop)
    sign, log = _signed_log_sum(log_change.squeeze(-1), sign.squeeze(-1))
    return LogScaled(sign.squeeze(-1), log.squeeze(-1) - math.log(scores.shape[-2]))


def _head_drop(problem, log_attention, selected):
    """How far mixing lowers Y psi below its value at the selected tokens, as sign and logarithm, shapes (..., n, 1).

    The mixture is x + q m: q the share of the tokens that the head can tell from the selected x, m their mean distance
    from it. For a share so small that rounding shows in psi(x + q m) - psi(x), the slope half way is their quotient.
    """
    tokens = problem.tokens.expand(*selected.shape[:-1], *problem.tokens.shape[-2:])
    start = tokens.gather(-2, selected[..., None].expand(*selected.shape, tokens.shape[-1]))
    away, start = tokens - start, start[..., 0, :]
    counted = torch.where((away != 0).any(-1), log_attention, -torch.inf)
    log_share = counted.logsumexp(-1)
    mean = torch.einsum("...nt,...ntc->...nc", (counted - _finite_or_zero(log_share)[..., None]).exp(), away)
    share = log_share.exp()[..., None]
    half_way = value_and_slope(problem.head, start + share / 2 * mean)[1]
    apart = problem.head(start) - problem.head(start + share * mean)
    tiny = 2.0 ** (-52 / 3)  # where the quotient's rounding equals the slope's error
    rate = torch.where(share[..., 0] > tiny, apart / share[..., 0], -(half_way * mean).sum(-1)) * problem.labels
    return rate.sign()[..., None], (log_share + rate.abs().log())[..., None]


def ordered(excess):
    """Key that sorts excess risks of any size, none of which is as small as e^-1e8: logarithms where positive."""
    sign, log = excess
    return torch.where(sign > 0, log, torch.where(sign < 0, -2e8 - log, -1e8))


def log_mean_loss(margins):
    """Logarithm of the mean logistic loss of margins (..., n), at any size of them, shape (...)."""
    log_loss = torch.where(margins > 30, -margins, (-logsigmoid(margins)).log())  # log log(1 + e^-u) = -u to rounding
    return log_loss.logsumexp(-1) - math.log(margins.shape[-1])
