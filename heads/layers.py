"""Turn a head of a trained attention layer into a problem and its theta.

With queries W_Q z + b_Q and keys W_K x + b_K the logits of a head are x . W z / sqrt(h) for ``W = W_K^T W_Q``, up to a
number that all tokens of an input share: theta is vec(W), with one column more for b_Q. Everything else that the layer
adds to its output at the query token, such as the other heads, does not depend on this W: each token's part has it
added, which changes nothing, because attention sums to 1. All is computed in float64 on the CPU. A mask is True where a
token may be seen.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from ._lib import Problem, checks

ATTENTION_TOLERANCE = 1e-3  # largest total variation distance from the model's own attention
LEAD_TOLERANCE = 0.01  # largest error of a lead, as a part of it; of leads below 1 as a part of 1


class Head(NamedTuple):
    """One head of a layer.

    problem : Problem, with the tokens that one token of each input chooses among.
    theta : shape (parameter_size,), vec(W) as it was trained.
    scores : "exact", or "first order" where they are the effect of attention on the answer to first order.
    """

    problem: Problem
    theta: Tensor
    scores: str


def head_problem(
    weights, tokens, labels, readout, head=0, query=0, queries=None, mask=None, causal=False, attention=None
):  # fmt: skip
    """One head as a problem, a :class:`Head`: among which tokens one token chooses, and what each would answer.

    Parameters
    ----------
    weights : heads.Weights
    tokens : array_like, shape (n, T, d)
        As the layer receives them, after the LayerNorm before it; inputs first, so of a layer without ``batch_first``
        transposed, which nothing here can tell where n = T.
    labels : array_like, shape (n,)
        +1 or -1; one class against the rest where there are more.
    readout : array_like, shape (m,) or (n, m)
        What is read from the layer's output at the query token, m numbers: a vector, and scores are exact; or for each
        input the gradient of the answer there, as :func:`record` has it, and they are the effect to first order.
    head : int
    query : int, or array_like of int of shape (n,)
        Place of the query token; -1 is the last.
    queries : array_like, shape (n, e), optional
        The vectors that ask, in place of the tokens at ``query``.
    mask : array_like of bool, shape (n, T), optional
        True where a token may be seen.
    causal : bool
        No token after the one that asks may be seen.
    attention : array_like, shape (n, T), optional
        Of this head at the query token, as the model itself says, in single precision at least: ValueError if in
        an input more than 0.001 of it is on other tokens than computed.

    Examples
    --------
    >>> from heads import layer_weights
    >>> layer = torch.nn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64)
    >>> tokens = torch.randn(3, 5, 4, dtype=torch.float64)
    >>> problem, theta, scores = head_problem(layer_weights(layer), tokens, [1, -1, 1], readout=[1, 0, 0, 0], head=1)
    >>> seen = layer(tokens, tokens, tokens, average_attn_weights=False)[1][:, 1, 0]
    >>> torch.allclose(problem.attention(theta), seen), scores
    (True, 'exact')
    """
    heads = len(weights.query)
    if checks.integer("head", head, 0) >= heads:
        raise ValueError(f"head is {head}: the layer has {heads}, 0 to {heads - 1}")
    tokens = checks.float64("tokens", tokens, "n", "T", "d")
    labels = checks.labels(checks.float64("labels", labels, "n"))
    positions = _query_positions(tokens, query)
    mask = visible(tokens, mask, positions if checks.boolean("causal", causal) else None)
    queries = tokens[torch.arange(len(tokens)), positions] if queries is None else queries
    queries = checks.float64("queries", queries, "n", "e")
    _check_sizes(weights, tokens, queries, labels)
    rest, value = _other_heads(weights, tokens, queries, mask, head), weights.out[head] @ weights.value[head]
    answers = _token_values(readout, tokens, value, rest)
    theta, queries = _parameter(weights, head, queries)
    problem = Problem(tokens, labels[:, None] * answers, queries, mask=None if mask.all() else mask)
    check_attention(problem.logits(theta), attention)
    return Head(problem, theta, "exact" if np.ndim(readout) == 1 else "first order")


def _parameter(weights, head, queries):
    """vec(W) of a head, and its queries (n, e); where queries have a bias W has a column more for it, they a 1."""
    W = weights.scale * weights.key[head].mT @ weights.query[head]
    if not weights.query_bias.any():
        return W.flatten(), queries
    asked = weights.scale * weights.key[head].mT @ weights.query_bias[head]
    return torch.cat([W, asked[:, None]], 1).flatten(), torch.cat([queries, torch.ones_like(queries[:, :1])], 1)


def _other_heads(weights, tokens, queries, mask, head):
    """Output (n, m) of the layer without what this head attends to."""
    asked = torch.einsum("hke,ne->nhk", weights.query, queries) + weights.query_bias
    logits = weights.scale * torch.einsum("nhd,ntd->nht", torch.einsum("nhk,hkd->nhd", asked, weights.key), tokens)
    attention = logits.masked_fill(~mask[:, None], -torch.inf).softmax(-1)
    mixed = torch.einsum("hvc,nhc->nhv", weights.value, torch.einsum("nht,ntc->nhc", attention, tokens))
    mixed = mixed + weights.value_bias
    mixed[:, head] = weights.value_bias[head]
    return torch.einsum("hmv,nhv->nm", weights.out, mixed) + weights.out_bias


def visible(tokens, mask, last=None):
    """Mask (n, T), True where a token may be seen, none of them after the ``last``; ValueError if it does not fit."""
    shape = tuple(tokens.shape[:2])
    mask = torch.ones(shape, dtype=torch.bool) if mask is None else checks.mask(mask, shape).cpu()
    if mask.ndim > 2:
        raise ValueError(f"mask has shape {tuple(mask.shape)}: give one for the query token, shape {shape}")
    if last is not None:
        mask = mask & (torch.arange(shape[1]) <= last[:, None])
    if not mask.any(-1).all():
        place = mask.any(-1).tolist().index(False)
        raise ValueError(f"mask leaves input {place} no token: it must be True where a token may be seen")
    return mask


def check_attention(logits, attention):
    """Raise ValueError if the model's attention (n, T), where it is given, is not that of logits (n, T).

    Where attention is on one token almost alone, shares are all but equal though leads are far from it: the logarithms
    of the shares tell the leads, down to the least share that has all digits of its number format.
    """
    if attention is None:
        return
    attention = checks.float64("attention", attention, "n", "T")
    checks.trailing_shape("attention", attention, *logits.shape)
    half = attention.to(torch.float16).to(attention.dtype).equal(attention)
    least = torch.finfo(torch.float16 if half else torch.float32).tiny
    top = attention.argmax(-1, keepdim=True)
    leads = attention.gather(-1, top).log() - attention.clamp(min=least).log()
    errors = logits.gather(-1, top) - logits - leads
    errors = torch.where(attention >= least, errors.abs(), (-errors).clamp(min=0)).where(logits.isfinite(), 0.0)
    errors = (errors / leads.clamp(min=1)).nan_to_num(torch.inf).amax(-1)
    shares = (logits.softmax(-1) - attention).abs().sum(-1) / 2
    if shares.max() > ATTENTION_TOLERANCE or errors.max() > LEAD_TOLERANCE:
        i = int(torch.maximum(shares / ATTENTION_TOLERANCE, errors / LEAD_TOLERANCE).argmax())
        raise ValueError(
            f"attention on input {i} differs from what is computed by {shares[i]:.2g}, its leads by {errors[i]:.2g}:"
            " likely tokens from before a layer norm, another number of heads, head, layer or place that asks, a mask"
            " that is True where a token is hidden, or rotary or relative positions: watch the model instead"
        )


def _query_positions(tokens, query):
    """Positions (n,) of the query tokens."""
    inputs, length = tokens.shape[:2]
    positions = checks.as_tensor("query", query, "the place of the query token").cpu()
    if positions.dtype.is_floating_point or positions.dtype == torch.bool or positions.shape not in ((), (inputs,)):
        raise ValueError(f"query is {checks.shown(query)}: give one whole number, or one for each of {inputs} inputs")
    if ((positions < -length) | (positions >= length)).any():
        raise ValueError(f"query is {checks.shown(query)}: there are {length} tokens, 0 to {length - 1}")
    return (positions % length).expand(inputs)


def _check_sizes(weights, tokens, queries, labels):
    """Raise ValueError unless arrays fit the layer and each other."""
    for name, array, part in (("tokens", tokens, weights.key), ("tokens", tokens, weights.value),
                              ("queries", queries, weights.query)):  # fmt: skip
        if array.shape[-1] != part.shape[-1]:
            sizes = f"{array.shape[-1]} entries, the layer takes {part.shape[-1]}"
            raise ValueError(f"{name} have {sizes}: give them as the layer receives them")
    if not len(tokens) == len(queries) == len(labels):
        raise ValueError(
            f"tokens have n = {len(tokens)}, queries n = {len(queries)}, labels n = {len(labels)}: give each input one"
        )


def _token_values(readout, tokens, value, rest):
    """Answer (n, T) with all attention on each token."""
    readout = checks.float64("readout", readout, "m", more=True)
    if readout.shape not in (rest.shape[-1:], rest.shape):
        numbers = f"{rest.shape[-1]} numbers for all inputs, or for each of the {len(rest)}"
        raise ValueError(f"readout has shape {tuple(readout.shape)}: give {numbers}")
    rows = readout.expand(rest.shape)
    return torch.einsum("ntc,nc->nt", tokens, rows @ value) + (rest * rows).sum(-1, keepdim=True)
