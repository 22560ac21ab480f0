"""Facts of every head of a layer: whether its attention is the model's, what it selects, and how firmly."""

import math
from collections import Counter

import torch

from .bits import Choices, rounding_facts
from .flips import nearest_flips
from .layers import ATTENTION_TOLERANCE, check_width, total_variation

INPUTS_SHOWN = 4  # of each head, with their tokens: the nearest to a flip, the farthest, and between
MIN_INPUTS_FOR_BIAS = 3  # below which a bias of each distance is not estimated
AGREE = ("agrees", "biased")  # checks of heads that the weights give
SCALE_CORRELATION = 0.999  # above which logits differ by a factor alone


def layer_facts(layer, texts=None, bits=None):
    """Facts of each head of a :class:`heads.capture.Layer`, a list of dicts for JSON; texts are of the tokens.

    With ``bits`` also those of :func:`heads.bits.rounding_facts`, of heads that the weights give.
    """
    candidates = layer.weights() if layer.weights is not None and layer.tokens is not None else []
    choosing = layer.mask.sum(-1) > 1  # an input with one token has no choice
    if not choosing.any():
        raise ValueError(f"{layer.name}: every input sees one token alone, so nothing is chosen: give longer inputs")
    if candidates:
        layer = layer._replace(tokens=layer.tokens.double(), queries=layer.queries.double())
        check_width(f"tokens of {layer.name}", layer.tokens, candidates[0].key)
        check_width(f"queries of {layer.name}", layer.queries, candidates[0].query)
    candidate_facts = [
        [_head_facts(layer, weights, head, choosing, texts, bits) for head in range(len(weights.query))]
        for weights in candidates
    ] or [[_head_facts(layer, None, head, choosing, texts) for head in range(layer.attention.shape[1])]]
    # Of the orders that the rows of a fused matrix may have, the one in which most heads agree.
    return min(candidate_facts, key=lambda heads: sum(facts["check"] not in AGREE for facts in heads))


def _head_facts(layer, weights, head, choosing, texts, bits=None):
    facts = {"layer": layer.name, "head": head, "check": "recorded", "off": None, "why": layer.modifiers}
    seen = None if layer.attention is None else layer.attention[choosing, head]
    mask, positions = layer.mask[choosing], layer.positions[choosing]
    if weights is None:
        return facts | _today(seen.log(), None, None, choosing, positions, texts)
    tokens, queries = layer.tokens[choosing], layer.queries[choosing]
    asked = queries @ weights.query[head].mT + weights.query_bias[head]
    computed = weights.scale * torch.einsum("ntd,nd->nt", tokens, asked @ weights.key[head])
    computed = computed.masked_fill(~mask, -torch.inf)
    facts |= _checked(computed, seen, positions, layer.modifiers)
    if facts["check"] == "differs":
        return facts
    if facts["check"] == "recorded":
        return facts | _today(seen.log(), None, None, choosing, positions, texts)
    logits = seen.log() if facts["check"] == "biased" else computed
    lengths = queries.square().sum(-1).add(float(weights.query_bias[head].any())).sqrt()
    flips, facts["norms"] = nearest_flips(tokens, logits, logits.argmax(-1), lengths), _norms(weights, head)
    if bits is not None:
        facts |= rounding_facts(weights, head, Choices(tokens, queries, logits), bits)
    return facts | _today(logits, flips, facts["norms"], choosing, positions, texts)


def _norms(weights, head):
    """Frobenius and spectral norm of W, with its column for the queries' bias, by the small factors of K and Q."""
    query = torch.cat([weights.query[head], weights.query_bias[head][:, None]], 1)
    small = torch.linalg.qr(weights.key[head].mT).R @ torch.linalg.qr(query.mT).R.mT
    values = weights.scale * torch.linalg.svdvals(small)
    return [values.square().sum().sqrt().item(), values.max().item()]


def _checked(computed, seen, positions, modifiers):
    """Compare attention with the model's: ``check``, ``off`` and ``why``."""
    if seen is None:
        return {"check": "unchecked", "off": None, "why": "the model's attention was not at hand"}
    off = total_variation(computed.softmax(-1), seen).max().item()
    if off <= ATTENTION_TOLERANCE:
        return {"check": "agrees", "off": off, "why": ""}
    fixed = _with_biases(computed, seen, positions)
    if fixed is not None:
        return {"check": "biased", "off": fixed, "why": "a bias for each distance in places, the same in all inputs"}
    if modifiers:
        return {"check": "recorded", "off": off, "why": modifiers}
    return {"check": "differs", "off": off, "why": _reason(computed, seen)}


def _with_biases(computed, seen, positions):
    """How far attention is off with one bias for each distance in places, in all inputs alike; None if that fails."""
    inputs, length = seen.shape
    rest = (seen.log() - computed).where(seen > 0, torch.nan)
    rest = rest - rest.gather(1, positions.clamp(max=length - 1)[:, None])
    ahead = torch.arange(length) - positions[:, None] + length  # distances, from 0 on
    spread = rest.new_full((inputs, 2 * length), torch.nan).scatter(1, ahead, rest)
    if inputs < MIN_INPUTS_FOR_BIAS or (spread.isfinite().sum(0) == 1).any():
        return None
    biased = computed + spread.nanmedian(0).values[ahead].nan_to_num(0)
    off = total_variation(biased.softmax(-1), seen).max().item()
    return off if off <= ATTENTION_TOLERANCE else None


def _reason(computed, seen):
    """The likely reason why attention is not the model's."""
    both = (seen > 1e-12) & computed.isfinite()
    if both.sum() < 3:
        return "a mask: the model sees other tokens than these"
    weight = both.double() / both.sum(-1, keepdim=True)
    first, second = (
        torch.where(both, logits - (weight * logits.where(both, 0.0)).sum(-1, keepdim=True), 0.0)
        for logits in (computed.where(both, 0.0), seen.clamp(min=1e-300).log())
    )
    slope = ((first * second).sum() / first.square().sum()).item()
    alike = torch.cosine_similarity(first.flatten(), second.flatten(), dim=0).item()
    if alike > SCALE_CORRELATION:
        return f"the scale: the model's logits are {slope:.4g} times these"
    return (
        "rotary or relative positions, a norm of queries or keys, tokens from before a layer norm, or tokens or weights"
        f" of another layer: the correlation of logits is {alike:.2f}"
    )


def _today(logits, flips, norms, choosing, positions, texts):
    """What a head selects, how firmly, and what would change it."""
    attention, rows = logits.softmax(-1), torch.nonzero(choosing).flatten()
    share, selected = attention.max(-1)
    seen = logits.isfinite().sum(-1).double()
    entropy = -(attention * attention.clamp(min=1e-300).log()).sum(-1) / seen.log()
    inputs = [
        {"input": int(row), "asks": int(place), "selects": int(token), "share": _short(top), "entropy": _short(spread)}
        for row, place, token, top, spread in zip(rows, positions, selected, share, entropy, strict=True)
    ]
    facts = {"entropy": entropy.mean().item(), "top": share.mean().item()}
    order = share.argsort()
    if flips is not None:
        for entry, taker, distance in zip(inputs, *flips, strict=True):
            relative = {"flip": _short(distance / norms[0]), "flip_spectral": _short(distance / norms[1])}
            entry |= {"taker": int(taker)} | relative
        for entry, row, token, taker in zip(inputs, logits, selected, flips.taker, strict=True):
            entry["lead"] = _short(row[token] - row[taker])
        order = flips.distance.argsort()
        relative = flips.distance[flips.distance.isfinite()] / norms[0]
        facts["flip"], facts["flip_least"] = (
            (relative.median().item(), relative.min().item()) if len(relative) else (None, None)
        )
        facts["takers"] = _common([_text(texts, row, entry["taker"]) for row, entry in zip(rows, inputs, strict=True)])
    picks = torch.linspace(0, len(order) - 1, min(INPUTS_SHOWN, len(order))).round().long().unique()
    kinds = {
        "the query token": selected == positions,
        "the token before the query": selected == positions - 1,
        "the token after the query": selected == positions + 1,
        "the first token": selected == 0,
    }
    return facts | {
        "places": {kind: int(hits.sum()) for kind, hits in kinds.items() if hits.any()},
        "texts": _common([_text(texts, row, token) for row, token in zip(rows, selected, strict=True)]),
        "nearest": [inputs[k] for k in order[:8]],
        "shown": [{**inputs[k], "attention": [_short(a) for a in attention[k]]} for k in order[picks]],
        "inputs": inputs,
    }


def _short(number):
    """A number for JSON, in four digits; None where it is none."""
    return float(f"{float(number):.4g}") if math.isfinite(float(number)) else None


def _text(texts, row, token):
    return f"token {int(token)}" if texts is None else texts[int(row)][int(token)]


def _common(names):
    """The three most common of some names, each with how often it is there."""
    return [list(pair) for pair in Counter(names).most_common(3)]
