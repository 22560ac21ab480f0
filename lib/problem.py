"""The one problem of the three papers: logits linear in a parameter, softmax, a score per token, a loss.

logits_i = A_i theta, attention a_i = softmax(logits_i), margin u_i = gamma_i . a_i, risk L = mean_i loss(u_i).
With a prompt p the parameter is p and the rows of A_i are the keys k_it; with queries z_i the parameter is
vec(W), row by row, and the rows of A_i are k_it (outer) z_i, which are never formed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from . import checks


@dataclass(frozen=True, eq=False)
class Problem:
    """Keys, scores and, when the parameter is a matrix, queries; any leading batch dimensions.

    Build it with :func:`from_tokens`, or directly from keys and scores.

    Attributes
    ----------
    keys : Tensor, shape (..., n, T, d)
        k_it, the tokens as the logits see them.
    scores : Tensor, shape (..., n, T)
        gamma_it = y_i psi(x_it): the margin when all attention is on token t (Definition 1, arXiv:2306.13596).
    queries : Tensor, shape (..., n, e), optional
        z_i; then theta is vec(W) with W of shape (d, e), and logits_it = k_it . W z_i.
    tokens, labels, head : optional
        For a nonlinear head psi: x_it of shape (..., n, T, c), y_i of shape (..., n), and psi from (..., c) to (...).

    Raises
    ------
    ValueError
        If shapes do not fit, an entry is not finite, or there are fewer than two tokens.
    """

    keys: Tensor
    scores: Tensor
    queries: Tensor | None = None
    tokens: Tensor | None = None
    labels: Tensor | None = None
    head: Callable[[Tensor], Tensor] | None = None

    def __post_init__(self):
        keys, scores = checks.tensor("keys", self.keys, "n", "T", "d"), checks.tensor("scores", self.scores, "n", "T")
        if keys.shape[-2] < 2:
            raise ValueError(f"keys have T = {keys.shape[-2]} token: attention chooses among at least 2")
        if keys.shape[-3:-1] != scores.shape[-2:]:
            raise ValueError(
                f"keys have (n, T) = {tuple(keys.shape[-3:-1])}, scores have {tuple(scores.shape[-2:])}:"
                " give each token one key and one score"
            )
        object.__setattr__(self, "keys", keys)
        object.__setattr__(self, "scores", scores)
        if self.queries is not None:
            queries = checks.tensor("queries", self.queries, "n", "e")
            if queries.shape[-2] != keys.shape[-3]:
                raise ValueError(
                    f"queries are {queries.shape[-2]}, inputs are {keys.shape[-3]}: give each input one query"
                )
            object.__setattr__(self, "queries", queries)
        self.batch_shape  # noqa: B018  refuses leading dimensions that do not fit together

    @property
    def batch_shape(self):
        """Leading dimensions of the risk, those of all fields together."""
        return checks.broadcastable(**{name: value.shape[:-own] for name, (value, own) in self._tensors().items()})

    def _tensors(self):
        """Fields that are set, each with the number of its own dimensions behind the leading ones."""
        own = {"keys": 3, "scores": 2, "queries": 2, "tokens": 3, "labels": 1}
        return {name: (getattr(self, name), k) for name, k in own.items() if getattr(self, name) is not None}

    @property
    def parameter_size(self):
        """Number of entries of theta, d with a prompt and d * e with queries."""
        return self.keys.shape[-1] * (1 if self.queries is None else self.queries.shape[-1])

    def __getitem__(self, index):
        """Return the problem at ``index`` of the leading batch dimensions."""
        batch = self.batch_shape
        parts = {
            name: value.expand(*batch, *value.shape[value.ndim - own :])[index]
            for name, (value, own) in self._tensors().items()
        }
        return Problem(**parts, head=self.head)

    def logits(self, theta):
        """A theta, shape (..., n, T), for theta of shape (..., parameter_size); ValueError if it does not fit."""
        theta = torch.as_tensor(theta, dtype=torch.float64)
        if theta.shape[-1:] != (self.parameter_size,):
            raise ValueError(f"theta has shape {tuple(theta.shape)}: its last dimension must be {self.parameter_size}")
        checks.finite("theta", theta)
        checks.broadcastable(problem=self.batch_shape, theta=theta.shape[:-1])
        if self.queries is None:
            if theta.shape[:-1] == self.keys.shape[:-3]:  # a row times a matrix is the fast product
                return (theta[..., None, :] @ self.keys.flatten(-3, -2).mT).reshape(self.keys.shape[:-1])
            return torch.einsum("...ntd,...d->...nt", self.keys, theta)
        matrix = theta.unflatten(-1, (self.keys.shape[-1], self.queries.shape[-1]))
        return torch.einsum("...ntd,...nd->...nt", self.keys, torch.einsum("...de,...ne->...nd", matrix, self.queries))

    def pull_back(self, weights):
        """A^T weights: the combination of the rows of A with weights of shape (..., n, T); (..., parameter_size)."""
        if self.queries is None:
            if weights.shape == self.keys.shape[:-1]:
                return (weights.flatten(-2)[..., None, :] @ self.keys.flatten(-3, -2)).squeeze(-2)
            return torch.einsum("...ntd,...nt->...d", self.keys, weights)
        combined = torch.einsum("...ntd,...nt->...nd", self.keys, weights)
        return torch.einsum("...nd,...ne->...de", combined, self.queries).flatten(-2)

    def attention(self, theta):
        """softmax(A theta), shape (..., n, T)."""
        return self.logits(theta).softmax(-1)

    def margins(self, attention):
        """Return margins u (..., n) and their derivative in the attention, the scores there (..., n, T).

        A nonlinear head's scores are relative to the token with the most attention: attention sums to 1, so nothing
        depends on a constant, and tokens that look alike must tie exactly, not to rounding.
        """
        if self.head is None:
            return (attention * self.scores).sum(-1), self.scores
        features = torch.einsum("...nt,...ntc->...nc", attention, self.tokens)
        values, slopes = _head_and_slope(self.head, features)
        tokens = self.tokens.expand(*torch.broadcast_shapes(attention.shape, self.tokens.shape[:-1]), -1)
        top = attention.argmax(-1)[..., None, None].expand(*tokens.shape[:-2], 1, tokens.shape[-1])
        away = tokens - tokens.gather(-2, top)
        return self.labels * values, self.labels[..., None] * torch.einsum("...ntc,...nc->...nt", away, slopes)

    def risk(self, loss, theta):
        """L(theta), the mean loss over inputs, shape (...)."""
        return loss.value(self.margins(self.attention(theta))[0]).mean(-1)


def from_tokens(tokens, labels, head, key_matrix=None, queries=None):
    """Build the problem of the papers from what a data set has.

    Parameters
    ----------
    tokens : array_like, shape (..., n, T, d)
        X_i.
    labels : array_like, shape (..., n)
        y_i, +1 or -1.
    head : array_like of shape (..., d), or callable
        The vector v of a linear head, or a differentiable psi from (..., d) to (...).
    key_matrix : array_like, shape (..., k, d), optional
        W of arXiv:2306.13596: keys are k_it = W x_it. The identity when left out.
    queries : array_like, shape (..., n, e), optional
        z_i of arXiv:2402.05738 and arXiv:2410.14581: the parameter is then the matrix W itself.

    Raises
    ------
    ValueError
        As :class:`Problem`, and for labels other than +1 and -1.
    """
    tokens, labels = checks.tensor("tokens", tokens, "n", "T", "d"), checks.labels(labels)
    if labels.shape[-1:] != tokens.shape[-3:-2]:
        raise ValueError(
            f"labels have shape {tuple(labels.shape)}, inputs are {tokens.shape[-3]}: give each input one label"
        )
    checks.broadcastable(tokens=tokens.shape[:-3], labels=labels.shape[:-1])
    keys = (
        tokens
        if key_matrix is None
        else torch.einsum("...kd,...ntd->...ntk", _fitting("key_matrix", key_matrix, tokens, 2), tokens)
    )
    if callable(head):
        scores = labels[..., None] * head(tokens)
        return Problem(keys, scores, queries, tokens, labels, head)
    scores = labels[..., None] * torch.einsum("...ntd,...d->...nt", tokens, _fitting("head", head, tokens, 1))
    return Problem(keys, scores, queries)


def _fitting(name, value, tokens, dimensions):
    array = checks.tensor(name, value, *("k", "d")[-dimensions:])
    if array.shape[-1] != tokens.shape[-1]:
        raise ValueError(f"{name} has {array.shape[-1]} columns, tokens have d = {tokens.shape[-1]}: they must agree")
    checks.broadcastable(tokens=tokens.shape[:-3], **{name: array.shape[:-dimensions]})
    return array


def _head_and_slope(head, features):
    """psi and its gradient at features of shape (..., c): shapes (...) and (..., c)."""
    features = features.detach().requires_grad_()
    values = head(features)
    return values.detach(), torch.autograd.grad(values.sum(), features)[0]


def in_span(problem):
    """Return the problem in coordinates of an orthonormal basis of the span of its rows A_it, and without queries.

    Gradients are combinations of the rows, so descent never leaves theta_0 + their span. The coordinates keep all inner
    products: within the span, Euclidean norms, cosines, SVMs and the iterates of every rule of :mod:`lib.descent` are
    the same. With queries this is the way to train W where d is large: the inner product of k_it (outer) z_i and
    k_js (outer) z_j is ``<k_it, k_js> <z_i, z_j>``, and neither these rows nor W are formed.

    A theta_0 outside the span keeps its orthogonal part: :func:`span_coordinates` has the start, and ``|theta_t|^2`` is
    ``|theta_0|^2 - |start|^2 + |coordinates|^2``. If theta_0 has independent N(0, s^2) entries, so has the start, one
    for each dimension of the span.

    Parameters
    ----------
    problem : Problem, or lib.joint.JointProblem

    Returns
    -------
    Problem, or JointProblem
        Its keys have m = min(n T, parameter_size) coordinates; scores, tokens, labels and head are the same. Where the
        rank is lower, as it may be in some of a batch, the first coordinates are zero: those of directions in which
        the rows extend less than about 1e-7 of what they do in the widest (the Gram matrix holds squares).
    """
    keys = problem.keys.flatten(-3, -2)
    gram, size = keys @ keys.mT, keys.shape[-1]
    if problem.queries is not None:
        between = problem.queries @ problem.queries.mT
        tokens = problem.keys.shape[-2]
        gram = gram * between.repeat_interleave(tokens, -2).repeat_interleave(tokens, -1)
        size = size * problem.queries.shape[-1]
    squares, vectors = torch.linalg.eigh(gram)
    noise = gram.shape[-1] * torch.finfo(gram.dtype).eps * squares[..., -1:]
    lengths = torch.where(squares > noise, squares, 0.0).sqrt()
    coordinates = (vectors * lengths[..., None, :])[..., -size:]
    return replace(problem, keys=coordinates.unflatten(-2, problem.keys.shape[-3:-1]), queries=None)


def span_coordinates(spanned, logits):
    """Coordinates of the projection of a theta on the span of the rows, shape (..., m), from its logits.

    Parameters
    ----------
    spanned : Problem
        Result of :func:`in_span`.
    logits : Tensor, shape (..., n, T)
        ``problem.logits(theta)`` of the problem that it was made from.
    """
    return torch.einsum("...ntm,...nt->...m", _pseudo_inverse(spanned.keys), logits)


def from_span(problem, spanned, coordinates):
    """Return the theta in the span of the rows of ``problem``, (..., parameter_size), from its coordinates (..., m).

    The inverse of :func:`span_coordinates`; with queries it forms W.
    """
    return problem.pull_back(torch.einsum("...ntm,...m->...nt", _pseudo_inverse(spanned.keys), coordinates))


def _pseudo_inverse(keys):
    """Transposed pseudo-inverse of coordinates, whose columns are orthogonal: each divided by its squared length."""
    squares = (keys**2).sum((-3, -2), keepdim=True)
    return keys / torch.where(squares == 0, 1.0, squares)


class Gradient(NamedTuple):
    """exp(log_scale) * direction, so that a gradient of size e^-10000 keeps its direction.

    direction : shape (..., parameter_size); zero only where the gradient is exactly zero.
    log_scale : shape (...).
    """

    direction: Tensor
    log_scale: Tensor


def gradient(problem, loss, theta):
    """Return the gradient of the risk in theta, exact to rounding at any norm of theta.

    Equations (13) and (18) of arXiv:2306.13596, (1/n) sum_i loss'(u_i) A_i^T (diag(a_i) - a_i a_i^T) gamma_i,
    with every factor that can underflow kept as a logarithm.

    Parameters
    ----------
    problem : Problem
    loss : lib.losses.Loss
    theta : Tensor, shape (..., parameter_size)

    Returns
    -------
    Gradient
    """
    logits = problem.logits(theta)
    top = logits.argmax(-1, keepdim=True)
    log_odds = logits - logits.gather(-1, top)
    odds = log_odds.exp()
    total = odds.sum(-1, keepdim=True)
    margins, scores = problem.margins(odds / total)
    if problem.head is None:  # the margin as the top token's, less a drop that may be far below its rounding
        top_scores = scores.expand(logits.shape).gather(-1, top)
        drop = (odds / total * (top_scores - scores)).sum(-1)
        log_slope = loss.log_slope(top_scores.squeeze(-1), drop)
    else:
        log_slope = loss.log_slope(margins)
    weights, log_scale = _logit_gradient(top, log_odds - total.log(), scores, log_slope)
    return Gradient(problem.pull_back(weights), log_scale - math.log(margins.shape[-1]))


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
    """Return sign and logarithm of sum_t exp(log_weights_t) values_t, shapes (..., 1); -inf when nothing adds."""
    counted = torch.where(values == 0, -torch.inf, log_weights)
    shift = counted.amax(-1, keepdim=True)
    total = ((counted - _finite_or_zero(shift)).exp() * values).sum(-1, keepdim=True)
    return total.sign(), shift + total.abs().log()


def _finite_or_zero(logarithm):
    return torch.where(torch.isneginf(logarithm), 0.0, logarithm)


class Excess(NamedTuple):
    """sign * exp(log): a difference of two risks that may be far below the spacing of floats. Both of shape (...)."""

    sign: Tensor
    log: Tensor


def excess_risk(problem, loss, theta, selected):
    """L(theta) minus the limit of the risk when all attention goes to the selected tokens, exact at any norm of theta.

    With the optimal tokens selected the limit is L*, the infimum that Theorem 1 of arXiv:2306.13596 approaches, and
    the sign is never negative.

    Parameters
    ----------
    problem : Problem
    loss : lib.losses.Loss
    theta : Tensor, shape (..., parameter_size)
    selected : Tensor of int, shape (..., n)

    Returns
    -------
    Excess
        With a nonlinear head exact to a relative 1e-9.

    Raises
    ------
    ValueError
        If shapes do not fit.
    """
    log_attention = problem.logits(theta).log_softmax(-1)
    scores, selected = torch.broadcast_tensors(problem.scores, selected[..., None])
    best = scores.gather(-1, selected[..., :1])
    if problem.head is None:
        sign, log_drop = _signed_log_sum(log_attention, best - scores)
    else:
        sign, log_drop = _head_drop(problem, log_attention, selected[..., :1])
    log_change = loss.log_change(best, sign, log_drop)
    sign, log = _signed_log_sum(log_change.squeeze(-1), sign.squeeze(-1))
    return Excess(sign.squeeze(-1), log.squeeze(-1) - math.log(scores.shape[-2]))


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
    half_way = _head_and_slope(problem.head, start + share / 2 * mean)[1]
    apart = problem.head(start) - problem.head(start + share * mean)
    rate = torch.where(share[..., 0] > 1e-5, apart / share[..., 0], -(half_way * mean).sum(-1)) * problem.labels
    return rate.sign()[..., None], (log_share + rate.abs().log())[..., None]


def smoothness(loss, tokens, head, key_matrix):
    """L_p of equation (6) and Lemma 6 (arXiv:2306.13596): the risk in p is L_p-smooth. Shape (...).

    ``L_p = (1/n) sum_i ( M0 |v|^2 |W|^2 |X_i|^4 + 3 M1 |v| |W|^2 |X_i|^3 )``, spectral norms, M0 and M1 of the loss
    on the interval that the margins can reach.

    Parameters
    ----------
    tokens : Tensor, shape (..., n, T, d)
    head : Tensor, shape (..., d)
    key_matrix : Tensor, shape (..., k, d)
    """
    tokens = checks.tensor("tokens", tokens, "n", "T", "d")
    head, key_matrix = _fitting("head", head, tokens, 1), _fitting("key_matrix", key_matrix, tokens, 2)
    reach = torch.einsum("...ntd,...d->...nt", tokens, head).abs().amax((-2, -1))
    m0, m1 = loss.constants(reach)
    token_norm = torch.linalg.matrix_norm(tokens, ord=2)
    head_norm = torch.linalg.vector_norm(head, dim=-1)[..., None]
    key_norm = torch.linalg.matrix_norm(key_matrix, ord=2)[..., None] ** 2
    terms = (
        m0[..., None] * head_norm**2 * key_norm * token_norm**4
        + 3 * m1[..., None] * head_norm * key_norm * token_norm**3
    )
    return terms.mean(-1)
