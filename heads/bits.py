"""How many bits a head needs: which choices flip when keys and queries are rounded, by their distances to a flip.

Independent noise in the entries of a head's matrices, of standard deviation s in row k of the keys K and r in row k of
the queries Q, changes the lead of the selected token a over token t, (x_a - x_t) . K^T (Q z + b), by noise of mean 0
and variance::

    |x_a - x_t|^2 sum_k s_k^2 (Q z + b)_k^2  +  |z|^2 sum_k r_k^2 (K (x_a - x_t))_k^2  +  |x_a - x_t|^2 |z|^2 sum_k s_k^2 r_k^2 .

The lead over the square root of it is the distance to a flip, counted in standard deviations of the noise. Rounding to
the nearest of values a step apart is such noise, with s = step / sqrt(12), while the step is small against the weights.
"""  # noqa: E501  one formula

import math
from bisect import bisect_left
from typing import NamedTuple

import torch
from torch import Tensor

from ._lib import checks

FEWEST_BITS, MOST_BITS = 2, 16
KEPT = 0.95  # of the choices, by which a report counts the bits that a head needs
NODES = torch.linspace(-6, 6, 31, dtype=torch.float64)  # of the noise that the selected token has in all its leads
NODE_WEIGHTS = (-(NODES**2) / 2).softmax(0)


class Choices(NamedTuple):
    """What a head chooses among: tokens (n, T, d), queries (n, e), logits (n, T), -inf for hidden tokens."""

    tokens: Tensor
    queries: Tensor
    logits: Tensor


def head_logits(weights, head, tokens, queries):
    """Logits (n, T) of a head on tokens (n, T, d) for queries (n, e)."""
    asked = queries @ weights.query[head].mT + weights.query_bias[head]
    return weights.scale * torch.einsum("ntd,nd->nt", tokens, asked @ weights.key[head])


def check_bits(bits):
    """The number of bits; ValueError unless it is one from 2 to 16."""
    if not FEWEST_BITS <= checks.integer("bits", bits) <= MOST_BITS:
        raise ValueError(f"bits is {bits}: give {FEWEST_BITS} to {MOST_BITS}")
    return bits


def step_sizes(matrices, bits, by_row=True):
    """Distance between neighbouring values of round-to-nearest, shape (heads, h, 1).

    A row, or without ``by_row`` the matrix of all heads, has the values -m step, ..., m step with m = 2^(bits - 1) - 1,
    the last of them its largest entry.

    Examples
    --------
    >>> step_sizes(torch.tensor([[[3.0, -7.0], [14.0, 1.0]]]), bits=4).flatten().tolist()
    [1.0, 2.0]
    """
    largest = matrices.abs().amax(-1, keepdim=True)
    return (largest if by_row else largest.amax().expand_as(largest)) / (2 ** (check_bits(bits) - 1) - 1)


def rounded(matrices, steps):
    """Each entry at the nearest multiple of its step; a row of zeros stays as it is."""
    return torch.where(steps > 0, (matrices / steps).round() * steps, matrices)


def lead_spreads(weights, head, choices, key_noise, query_noise):
    """Standard deviation of the change of each token's distance behind the selected one, shape (n, T).

    The noise is the standard deviation of the entries of each row, (h, 1), or one number.
    """
    selected = choices.logits.argmax(-1)
    gaps = choices.tokens[torch.arange(len(selected)), selected][:, None] - choices.tokens
    asked = choices.queries @ weights.query[head].mT + weights.query_bias[head]
    key_variance, query_variance = (
        torch.as_tensor(noise).to(gaps).square().expand(len(weights.key[head]), 1) for noise in (key_noise, query_noise)
    )
    gap_squares, query_squares = gaps.square().sum(-1, keepdim=True), choices.queries.square().sum(-1)[:, None, None]
    from_keys = gap_squares * (asked.square() @ key_variance)[:, None]
    from_queries = query_squares * ((gaps @ weights.key[head].mT).square() @ query_variance)
    from_both = gap_squares * query_squares * (key_variance * query_variance).sum()
    return weights.scale * (from_keys + from_queries + from_both).sqrt().squeeze(-1)


def flip_probability(logits, spreads):
    """Probability that noise gives another token than the selected one the largest logit, shape (n,).

    Every lead changes by a normal number of its own spread. That of the selected token's logit is half of the variance
    in all its leads, as where the noise in the logits is independent from token to token and of equal size; with two
    tokens nothing is assumed.

    Examples
    --------
    >>> round(flip_probability(torch.tensor([[5.0, 5.0, 5.0, 5.0]]), torch.ones(1, 4)).item(), 6)
    0.75
    """
    top, selected = logits.max(-1, keepdim=True)
    distances = ((top - logits) / spreads).nan_to_num(torch.inf)  # 0 / 0: a token on the spot of the selected one
    distances = distances.scatter(-1, selected, torch.inf).double()
    stays = torch.special.ndtr(math.sqrt(2) * distances[..., None] + NODES).prod(-2)
    return 1 - stays @ NODE_WEIGHTS


def forecast(weights, head, choices, bits, by_row=True):
    """Probability that each choice of a head flips when its keys and queries are rounded, shape (n,)."""
    noise = (step_sizes(part, bits, by_row)[head] / math.sqrt(12) for part in (weights.key, weights.query))
    return flip_probability(choices.logits, lead_spreads(weights, head, choices, *noise))


def flipped(weights, head, choices, key, query):
    """Whether each choice of a head flips with other keys (h, d) and queries (h, e), shape (n,)."""
    other = weights._replace(key=key[None], query=query[None], query_bias=weights.query_bias[head][None])
    now, then = (head_logits(*of, choices.tokens, choices.queries) for of in ((weights, head), (other, 0)))
    return (choices.logits + then - now).argmax(-1) != choices.logits.argmax(-1)  # a bias of each place stays


def count_flips(weights, head, choices, bits, by_row=True):
    """Whether each choice of a head flips when its keys and queries are rounded, shape (n,)."""
    parts = (rounded(part, step_sizes(part, bits, by_row))[head] for part in (weights.key, weights.query))
    return flipped(weights, head, choices, *parts)


def fewest_bits(weights, head, choices, by_row=True, kept=KEPT):
    """The fewest bits at which this share of a head's choices is forecast to stay; None where the most are too few."""

    def keeps(bits):
        return forecast(weights, head, choices, bits, by_row).mean().item() <= 1 - kept

    bits = bisect_left(range(MOST_BITS + 1), True, FEWEST_BITS, key=keeps)
    return bits if bits <= MOST_BITS else None
