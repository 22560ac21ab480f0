"""Compare logits with the attention that a model itself gives: in its shares, and in the leads that these tell.

Where attention is on one token almost alone, many logits give it: shares are all but equal though leads are far from
it. The logarithms of the shares tell the leads, down to the least share that has all digits of its number format; of
tokens below it is known only that they lag by more. What is computed has to agree with all of that.
"""

import math

import torch

from ._lib import checks

ATTENTION_TOLERANCE = 1e-3  # largest total variation distance from the model's own attention
LEAD_TOLERANCE = 0.01  # largest error of a lead, as a part of it; of leads below 1 as a part of 1
MIN_INPUTS_FOR_BIAS = 3  # below which a bias of each distance is not estimated
SCALE_CORRELATION = 0.999  # above which logits differ by a factor alone
BIAS = "a bias for each distance in places, the same in all inputs"
SHARP = "its attention is so sharp that no lead of a token can be told from it, and nothing be compared"


def least_share(attention):
    """The least attention with all digits: of float16 where all shares are such numbers, else of float32."""
    half = attention.to(torch.float16).to(attention.dtype).equal(attention)
    return torch.finfo(torch.float16 if half else torch.float32).tiny


def shown_tokens(logits, attention):
    """Whether a model's attention (n, T) tells the lead over a token; hidden ones, whose logit is -inf, have none."""
    return logits.isfinite() & (attention >= least_share(attention))


def disagreement(logits, attention):
    """How far logits (n, T), -inf for hidden tokens, are from a model's attention (n, T).

    Two tensors (n,): total variation distance of the attention; and the largest error of a lead over that of the token
    with the most attention, as a part of the lead where it is above 1. Attention agrees up to `ATTENTION_TOLERANCE` and
    `LEAD_TOLERANCE`.

    Examples
    --------
    >>> attention = torch.tensor([[20.0, 0.0, 8.0]]).softmax(-1)
    >>> [round(number.item(), 2) for number in disagreement(torch.tensor([[20.0, 0.0, 11.0]]), attention)]
    [0.0, 0.25]
    """
    top, least = attention.argmax(-1, keepdim=True), least_share(attention)
    leads = attention.gather(-1, top).log() - attention.clamp(min=least).log()
    errors = logits.gather(-1, top) - logits - leads
    errors = torch.where(shown_tokens(logits, attention), errors.abs(), (-errors).clamp(min=0))
    errors = torch.where(logits.isfinite(), errors, 0.0) / leads.clamp(min=1)
    shares = (logits.softmax(-1) - attention).abs().sum(-1) / 2
    return shares, errors.nan_to_num(torch.inf).amax(-1)


def agrees(logits, attention):
    """Whether logits give the model's attention in all inputs, and the leads that it tells."""
    shares, leads = disagreement(logits, attention)
    return bool(shares.max() <= ATTENTION_TOLERANCE and leads.max() <= LEAD_TOLERANCE)


def largest_logits(logits, attention):
    """Logits (n, T) where the model's attention tells them, and elsewhere the largest that it leaves possible."""
    top = attention.argmax(-1, keepdim=True)
    largest = logits.gather(-1, top) - attention.gather(-1, top).log() + math.log(least_share(attention))
    return torch.where(shown_tokens(logits, attention) | ~logits.isfinite(), logits, largest)


def check_attention(logits, attention):
    """Raise ValueError if the model's attention (n, T), where it is given, is not that of logits (n, T)."""
    if attention is None:
        return
    attention = checks.float64("attention", attention, "n", "T")
    checks.trailing_shape("attention", attention, *logits.shape)
    if not agrees(logits, attention):
        shares, leads = disagreement(logits, attention)
        i = int(torch.maximum(shares / ATTENTION_TOLERANCE, leads / LEAD_TOLERANCE).argmax())
        raise ValueError(
            f"attention on input {i} differs from what is computed by {shares[i]:.2g}, its leads by {leads[i]:.2g}:"
            " likely tokens from before a layer norm, another number of heads, head, layer or place that asks, a mask"
            " that is True where a token is hidden, or rotary or relative positions, for which fit_problem is there"
        )


def compared(computed, attention, positions, why):
    """Compare logits with the model's attention: logits that give it, or None; ``check``, ``off`` and ``why``.

    Where they do not, those with one bias for each distance from ``positions`` (n,), None for tokens of another
    sequence, may.
    """
    if attention is None:
        return computed, {"check": "assumed", "off": None, "why": ""}
    off = disagreement(computed, attention)[0].max().item()
    if agrees(computed, attention):
        return computed, {"check": "agrees", "off": off, "why": ""}
    biased = None if positions is None else _with_biases(computed, attention, positions)
    if biased is not None and agrees(biased, attention):
        off = disagreement(biased, attention)[0].max().item()
        return biased, {"check": "biased", "off": off, "why": BIAS}
    return None, {"check": "recorded", "off": off, "why": why or _reason(computed, attention)}


def _with_biases(computed, attention, positions):
    """Logits with one bias for each distance in places, in all inputs alike; None where a bias is not determined."""
    inputs, length = attention.shape
    rest = (attention.log() - computed).where(shown_tokens(computed, attention), torch.nan)
    rest = rest - rest.gather(1, positions.clamp(max=length - 1)[:, None])
    ahead = torch.arange(length) - positions[:, None] + length  # distances, from 0 on
    spread = rest.new_full((inputs, 2 * length), torch.nan).scatter(1, ahead, rest)
    if inputs < MIN_INPUTS_FOR_BIAS or (spread.isfinite().sum(0) == 1).any():
        return None
    return computed + spread.nanmedian(0).values[ahead].nan_to_num(0)


def _reason(computed, attention):
    """The likely reason why attention is not the model's."""
    if ((attention == 0) & (computed.softmax(-1) > least_share(attention))).any():
        return "the model hides tokens, and no mask says which"
    both = shown_tokens(computed, attention)
    if both.sum() < 3:
        return "a mask: the model sees other tokens than these"
    weight = both.double() / both.sum(-1, keepdim=True)
    first, second = (
        torch.where(both, logits - (weight * logits.where(both, 0.0)).sum(-1, keepdim=True), 0.0)
        for logits in (computed.where(both, 0.0), attention.clamp(min=1e-300).log())
    )
    slope = ((first * second).sum() / first.square().sum()).item()
    alike = torch.cosine_similarity(first.flatten(), second.flatten(), dim=0).item()
    if alike > SCALE_CORRELATION:
        return f"the scale: the model's logits are {slope:.4g} times those of the weights"
    return (
        "rotary or relative positions, a norm of queries or keys, tokens from before a layer norm, or tokens or weights"
        f" of another layer: the correlation of logits is {alike:.2f}"
    )
