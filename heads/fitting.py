"""Fit a problem to the logits that any attention has recorded, rotary positions and whatever else included."""

from typing import NamedTuple

import torch
from torch import Tensor

from ._lib import Problem, checks, from_span, in_span, span_coordinates
from .agreement import check_attention
from .layers import visible


class FittedProblem(NamedTuple):
    """A problem fitted to recorded logits.

    problem : Problem.
    theta : shape (parameter_size,), the shortest whose logits come closest to those that were recorded.
    misfit : how far the attention at theta is from that of the recorded logits, the largest difference of an entry.
    """

    problem: Problem
    theta: Tensor
    misfit: float


def fit_problem(keys, logits, scores, queries=None, mask=None, attention=None):
    """Fit theta to recorded logits, of any attention that has some: a :class:`FittedProblem`.

    Parameters
    ----------
    keys : array_like, shape (n, T, d)
        As the parameter sees them: tokens, or with rotary positions keys that are already turned.
    logits : array_like, shape (n, T)
        Of the query token, but for a number that all tokens of an input share; those of hidden tokens do not count.
    scores : array_like, shape (n, T)
        gamma_it, such as label times readout of the token's value.
    queries, mask, attention
        Of :func:`head_problem`; attention is compared with that of the logits.
    """
    keys, scores = checks.float64("keys", keys, "n", "T", "d"), checks.float64("scores", scores, "n", "T")
    mask = visible(keys, mask)
    queries = None if queries is None else checks.float64("queries", queries, "n", "e")
    problem = Problem(keys, scores, queries, mask=None if mask.all() else mask)
    logits = checks.floating("logits", logits).detach().cpu().double()
    checks.trailing_shape("logits", logits, *scores.shape)
    logits = torch.where(mask, logits, 0.0)
    if (logits == -torch.inf).any():
        raise ValueError("logits has -inf, as of hidden tokens: give mask, True where a token may be seen")
    checks.finite("logits", logits)
    share = mask.double() / mask.sum(-1, keepdim=True)
    centred = torch.where(mask[..., None], keys - torch.einsum("nt,ntd->nd", share, keys)[:, None], 0.0)
    shifted = torch.where(mask, logits - (share * logits).sum(-1, keepdim=True), 0.0)
    about = Problem(centred, scores, queries)
    spanned = in_span(about)
    theta = from_span(about, spanned, span_coordinates(spanned, shifted))
    logits = torch.where(mask, logits, -torch.inf)
    check_attention(logits, attention)
    return FittedProblem(problem, theta, (problem.attention(theta) - logits.softmax(-1)).abs().max().item())
