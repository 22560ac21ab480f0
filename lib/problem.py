"""The one problem of the three papers: logits linear in a parameter, softmax, a score per token, a loss.

logits_i = A_i theta, attention a_i = softmax(logits_i), margin u_i = gamma_i . a_i, risk L = mean_i loss(u_i).
With a prompt p the parameter is p and the rows of A_i are the keys k_it; with queries z_i the parameter is
vec(W), row by row, and the rows of A_i are k_it (outer) z_i, which are never formed.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from torch import Tensor

from . import checks


class Batch:
    """What a problem in theta and one in head and theta share: arrays whose leading dimensions go together."""

    OWN: ClassVar[dict[str, int]]  # how many dimensions of its own each array has, behind the leading ones

    @property
    def batch_shape(self):
        """Leading dimensions of the risk, those of all fields together."""
        return checks.broadcastable(**{name: value.shape[:-own] for name, (value, own) in self._tensors().items()})

    def _tensors(self):
        """Fields that are set, each with the number of its own dimensions."""
        return {name: (getattr(self, name), k) for name, k in self.OWN.items() if getattr(self, name) is not None}

    def _expanded(self):
        """Fields that are set, all with the same leading dimensions."""
        batch = self.batch_shape
        return {name: value.expand(*batch, *value.shape[-own:]) for name, (value, own) in self._tensors().items()}

    def __getitem__(self, index):
        """Return the problem at ``index`` of the leading batch dimensions."""
        return replace(self, **{name: value[index] for name, value in self._expanded().items()})


@dataclass(frozen=True, eq=False)
class Problem(Batch):
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

    OWN: ClassVar = {"keys": 3, "scores": 2, "queries": 2, "tokens": 3, "labels": 1}

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
    def parameter_size(self):
        """Number of entries of theta, d with a prompt and d * e with queries."""
        return self.keys.shape[-1] * (1 if self.queries is None else self.queries.shape[-1])

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
        values, slopes = value_and_slope(self.head, features)
        tokens = self.tokens.expand(*torch.broadcast_shapes(attention.shape, self.tokens.shape[:-1]), -1)
        top = attention.argmax(-1)[..., None, None].expand(*tokens.shape[:-2], 1, tokens.shape[-1])
        away = tokens - tokens.gather(-2, top)
        return self.labels * values, self.labels[..., None] * torch.einsum("...ntc,...nc->...nt", away, slopes)

    def risk(self, loss, theta):
        """L(theta), the mean loss over inputs, shape (...)."""
        return loss.value(self.margins(self.attention(theta))[0]).mean(-1)


def stack(problems):
    """One problem of several, with one leading dimension more: ``stack(problems)[k]`` is ``problems[k]``.

    Parameters
    ----------
    problems : sequence of Problem, or of lib.joint.JointProblem
        At least one, all of the same sizes and, where it is not linear, with the same head.

    Raises
    ------
    ValueError
        If they differ in a size, in which arrays they have, or in the head.
    """
    first, *others = parts = [one._expanded() for one in problems]
    sizes = {name: tuple(value.shape) for name, value in first.items()}
    for other in others:
        found = {name: tuple(value.shape) for name, value in other.items()}
        if found != sizes:
            raise ValueError(f"problems have arrays of shapes {sizes} and {found}: give problems of the same shapes")
    if len({getattr(one, "head", None) for one in problems}) > 1:
        raise ValueError("problems have different nonlinear heads: give problems with the same one")
    return replace(problems[0], **{name: torch.stack([one[name] for one in parts]) for name in first})


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
        else torch.einsum("...kd,...ntd->...ntk", checks.fitting("key_matrix", key_matrix, tokens, 2), tokens)
    )
    if callable(head):
        scores = labels[..., None] * head(tokens)
        return Problem(keys, scores, queries, tokens, labels, head)
    scores = labels[..., None] * torch.einsum("...ntd,...d->...nt", tokens, checks.fitting("head", head, tokens, 1))
    return Problem(keys, scores, queries)


def value_and_slope(head, features):
    """psi and its gradient at features of shape (..., c): shapes (...) and (..., c)."""
    features = features.detach().requires_grad_()
    values = head(features)
    return values.detach(), torch.autograd.grad(values.sum(), features)[0]


def check_selected(selected, inputs, tokens):
    """Return ``selected`` as indices of shape (..., n); ValueError if one is out of range or not a whole number."""
    indices = torch.as_tensor(selected)
    if indices.dtype.is_floating_point or indices.dtype == torch.bool:
        raise ValueError(f"selected has type {indices.dtype}: give one whole number for each input")
    if indices.shape[-1:] != (inputs,):
        raise ValueError(f"selected has shape {tuple(indices.shape)}: give one index for each of the {inputs} inputs")
    if ((indices < 0) | (indices >= tokens)).any():
        wrong = indices[(indices < 0) | (indices >= tokens)][0].item()
        raise ValueError(f"selected index {wrong} is out of range: there are {tokens} tokens, 0 to {tokens - 1}")
    return indices


def other_tokens(selected, tokens):
    """Indices of the tokens that are not selected, in order, shape (..., n, T - 1)."""
    places = torch.arange(tokens - 1).expand(*selected.shape, -1)
    return places + (places >= selected[..., None])


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
