"""Define the one problem of the three papers: logits linear in a parameter, softmax, a score per token, a loss.

logits_i = A_i theta, attention a_i = softmax(logits_i), margin u_i = gamma_i . a_i, risk L = mean_i loss(u_i).
With a prompt p the parameter is p and the rows of A_i are the keys k_it; with queries z_i the parameter is
vec(W), row by row, and the rows of A_i are k_it (outer) z_i, which are never formed.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from . import checks
from ._batch import DIMS, Batch, same_problem, stack
from ._rows import check_selected, difference_rows, other_tokens

__all__ = [
    "Batch", "Problem", "applied", "check_selected", "difference_rows", "from_tokens", "other_tokens", "same_problem",
    "stack", "value_and_slope",
]  # fmt: skip


@dataclass(frozen=True, eq=False)
class Problem(Batch):
    """Keys, scores and, when the parameter is a matrix, queries; any leading batch dimensions.

    Build it with :func:`from_tokens`, or directly from keys and scores. Its arrays become float64 on the CPU, and so is
    what is computed from it; arrays that require grad are detached.

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
    mask : Tensor of bool, shape (..., n, T), optional
        True where a token may be seen, False for padding and for what a causal mask hides. A hidden token has the logit
        -inf, no row, and is never selected; its key, score and token are set to 0.

    Raises
    ------
    ValueError
        If shapes do not fit, an entry is not finite, or an input has fewer than two tokens, or sees fewer.

    Examples
    --------
    >>> keys = torch.tensor([[[0, 2], [0, 0]], [[1, 0], [0, 0]]], dtype=torch.float64)
    >>> problem = Problem(keys, scores=torch.tensor([[1, 0], [1, 0]], dtype=torch.float64))
    >>> theta = torch.tensor([50, 50], dtype=torch.float64)
    >>> problem.attention(theta).round().tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """

    keys: Tensor
    scores: Tensor
    queries: Tensor | None = None
    tokens: Tensor | None = None
    labels: Tensor | None = None
    head: Callable[[Tensor], Tensor] | None = None
    mask: Tensor | None = None

    def __post_init__(self):
        given = {name: (getattr(self, name), *dimensions) for name, dimensions in DIMS.items() if name != "mask"}
        for name, value in checks.tensors("queries", "tokens", "labels", **given).items():
            object.__setattr__(self, name, value)
        keys, scores, queries = self.keys, self.scores, self.queries
        if keys.shape[-2] < 2:
            raise ValueError(f"keys have T = {keys.shape[-2]} token: attention chooses among at least 2")
        if keys.shape[-3:-1] != scores.shape[-2:]:
            raise ValueError(
                f"keys have (n, T) = {tuple(keys.shape[-3:-1])}, scores have {tuple(scores.shape[-2:])}:"
                " give each token one key and one score"
            )
        if queries is not None and queries.shape[-2] != keys.shape[-3]:
            raise ValueError(f"queries are {queries.shape[-2]}, inputs are {keys.shape[-3]}: give each input one query")
        self._check_head()
        if self.mask is not None:
            self._hide()
        self.batch_shape  # noqa: B018  refuses leading dimensions that do not fit together

    def _hide(self):
        """Check the mask, and set what it hides to 0, so that rows and spans are those of the other tokens."""
        shape = tuple(self.keys.shape[-3:-1])
        mask = checks.mask(self.mask, shape)
        if (mask.sum(-1) < 2).any():
            raise ValueError(
                f"mask leaves an input {mask.sum(-1).min()} of {shape[1]} tokens: attention chooses among at least 2"
            )
        checks.broadcastable(keys=self.keys.shape[:-3], mask=mask.shape[:-2])
        object.__setattr__(self, "mask", mask)
        object.__setattr__(self, "keys", torch.where(mask[..., None], self.keys, 0.0))
        object.__setattr__(self, "scores", torch.where(mask, self.scores, 0.0))
        if self.tokens is not None:
            object.__setattr__(self, "tokens", torch.where(mask[..., None], self.tokens, 0.0))

    def _check_head(self):
        """Raise ValueError unless tokens, labels and head are all there and fit, or none of them is."""
        given = [self.tokens is not None, self.labels is not None, callable(self.head)]
        if any(given) != all(given) or callable(self.head) != (self.head is not None):
            raise ValueError(f"head is {checks.shown(self.head)}: give tokens, labels and a callable head together")
        if all(given):
            key_shape, token_shape = tuple(self.keys.shape[-3:-1]), tuple(self.tokens.shape[-3:-1])
            checks.labels(self.labels, key_shape[0])
            if token_shape != key_shape:
                raise ValueError(f"tokens have (n, T) = {token_shape}, keys {key_shape}: give each key one token")

    @property
    def parameter_size(self):
        """Number of entries of theta, d with a prompt and d * e with queries."""
        return self.keys.shape[-1] * (1 if self.queries is None else self.queries.shape[-1])

    def seen(self, values):
        """Values (..., n, T) with -inf for the tokens that the mask hides."""
        return values if self.mask is None else torch.where(self.mask, values, -torch.inf)

    def check_parameter(self, theta):
        """Raise ValueError unless theta has shape (..., parameter_size)."""
        if theta.shape[-1:] != (self.parameter_size,):
            raise ValueError(f"theta has shape {tuple(theta.shape)}: its last dimension must be {self.parameter_size}")

    def logits(self, theta):
        """A theta, shape (..., n, T), -inf for hidden tokens.

        ValueError unless theta is (..., parameter_size), and where logits leave the floats.
        """
        theta = checks.real("theta", theta)
        self.check_parameter(theta)
        checks.finite("theta", theta)
        checks.broadcastable(problem=self.batch_shape, theta=theta.shape[:-1])
        keys, queries = self.keys, self.queries
        if queries is None:
            if theta.shape[:-1] == keys.shape[:-3]:  # a row times a matrix is the fast product
                logits = (theta[..., None, :] @ keys.flatten(-3, -2).mT).reshape(keys.shape[:-1])
            else:
                logits = torch.einsum("...ntd,...d->...nt", keys, theta)
            return self.seen(_in_floats(logits, keys, theta))
        matrix = theta.unflatten(-1, (keys.shape[-1], queries.shape[-1]))
        asked = torch.einsum("...de,...ne->...nd", matrix, queries)
        return self.seen(_in_floats(torch.einsum("...ntd,...nd->...nt", keys, asked), keys, theta))

    def pull_back(self, weights):
        """A^T weights: the combination of the rows of A with weights of shape (..., n, T); (..., parameter_size)."""
        weights = checks.real("weights", weights)
        checks.trailing_shape("weights", weights, *self.scores.shape[-2:])
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
        """Margins u (..., n) and their derivative in the attention, the scores there (..., n, T).

        A nonlinear head's scores are relative to the token with the most attention: attention sums to 1, so nothing
        depends on a constant, and tokens that look alike must tie exactly, not to rounding.
        """
        attention = checks.real("attention", attention)
        checks.trailing_shape("attention", attention, *self.scores.shape[-2:])
        if self.head is None:
            return (attention * self.scores).sum(-1), self.scores
        features = torch.einsum("...nt,...ntc->...nc", attention, self.tokens)
        values, slopes = value_and_slope(self.head, features)
        shape = checks.broadcastable(attention=attention.shape, tokens=self.tokens.shape[:-1])
        tokens = self.tokens.expand(*shape, -1)
        top = attention.argmax(-1)[..., None, None].expand(*tokens.shape[:-2], 1, tokens.shape[-1])
        away = tokens - tokens.gather(-2, top)
        return self.labels * values, self.labels[..., None] * torch.einsum("...ntc,...nc->...nt", away, slopes)

    def scores_merged(self, scores):
        """Scores (..., n, T), each averaged over the tokens with its key: risk and gradient depend on no other."""
        if self.duplicate_keys is None:
            return scores
        others = scores[..., None, :]
        apart = (self.duplicate_keys & (others != scores[..., None])).any(-1)
        means = torch.where(self.duplicate_keys, others, 0.0).sum(-1) / self.duplicate_keys.sum(-1).clamp(min=1)
        return torch.where(apart, means, scores)

    def risk(self, loss, theta):
        """L(theta), the mean loss over inputs, shape (...)."""
        checks.loss(loss)
        return loss.value(self.margins(self.attention(theta))[0]).mean(-1)


def _in_floats(logits, keys, theta):
    """Logits, or ValueError where they leave the floats."""
    if not (math.isfinite(logits.detach().sum()) or torch.isfinite(logits).all()):
        largest, length = keys.abs().max().item(), theta.abs().max().item()
        raise ValueError(
            f"keys up to {largest:.2g} and theta up to {length:.2g} give logits beyond the floats: rescale them"
        )
    return logits


def from_tokens(tokens, labels, head, key_matrix=None, queries=None, mask=None):
    """Build the papers' problem from a data set.

    Parameters
    ----------
    tokens : array_like, shape (..., n, T, d)
        X_i: inputs first, then the tokens of an input. Arrays (T, n, d), which torch's modules take unless they are
        ``batch_first``, have to be transposed; where T = n nothing tells them apart.
    labels : array_like, shape (..., n)
        y_i, +1 or -1.
    head : array_like of shape (..., d), or callable
        The vector v of a linear head, or a differentiable psi from (..., d) to (...).
    key_matrix : array_like, shape (..., k, d), optional
        W of arXiv:2306.13596: keys are k_it = W x_it. The identity when left out.
    queries : array_like, shape (..., n, e), optional
        z_i of arXiv:2402.05738 and arXiv:2410.14581: the parameter is then the matrix W itself.
    mask : array_like of bool, shape (..., n, T), optional
        True where a token may be seen.

    Raises
    ------
    ValueError
        As :class:`Problem`, and for labels other than +1 and -1.

    Examples
    --------
    >>> tokens = torch.tensor([[[0, 2], [0, 0]], [[1, 0], [0, 0]]], dtype=torch.float64)
    >>> problem = from_tokens(tokens, labels=[1, 1], head=torch.tensor([1, 0.5], dtype=torch.float64))
    >>> problem.scores.tolist()
    [[1.0, 0.0], [1.0, 0.0]]
    """
    vector = None if callable(head) else head
    optional = ("key_matrix", "head") if callable(head) else ("key_matrix",)
    data = checks.tensors(
        *optional,
        tokens=(tokens, "n", "T", "d"),
        labels=(labels,),
        key_matrix=(key_matrix, "k", "d"),
        head=(vector, "d"),
    )
    tokens, labels = data["tokens"], checks.labels(data["labels"], data["tokens"].shape[-3])
    checks.broadcastable(tokens=tokens.shape[:-3], labels=labels.shape[:-1])
    keys = tokens
    if key_matrix is not None:
        key_matrix = checks.match_width("key_matrix", data["key_matrix"], tokens)
        keys = torch.einsum("...kd,...ntd->...ntk", key_matrix, tokens)
    if callable(head):
        return Problem(keys, labels[..., None] * applied(head, tokens), queries, tokens, labels, head, mask)
    vector = checks.match_width("head", data["head"], tokens)
    return Problem(keys, labels[..., None] * torch.einsum("...ntd,...d->...nt", tokens, vector), queries, mask=mask)


def applied(head, features):
    """Psi at features of shape (..., c), shape (...); ValueError if the head does not make numbers of them."""
    given = f"features of shape {tuple(features.shape)} in {features.dtype}"
    try:
        values = head(features)
    except (RuntimeError, TypeError) as error:
        said = str(error).partition("\n")[0]
        raise ValueError(
            f"head {checks.shown(head)} fails on {given} ({said}): give a function, or a module of that type, that"
            " returns one number for each token"
        ) from error
    if not isinstance(values, Tensor) or values.shape != features.shape[:-1]:
        returned = tuple(values.shape) if isinstance(values, Tensor) else checks.shown(values)
        raise ValueError(
            f"the head maps shape {tuple(features.shape)} to {returned}: it must return a number for each token, shape"
            f" {tuple(features.shape[:-1])}"
        )
    return values


def value_and_slope(head, features):
    """psi and its gradient at features of shape (..., c): shapes (...) and (..., c)."""
    with torch.enable_grad():
        features = features.detach().requires_grad_()
        values = applied(head, features)
        if not values.requires_grad:
            raise ValueError("the head has no gradient: write it in torch, without detach or NumPy")
        return values.detach(), torch.autograd.grad(values.sum(), features)[0]
