"""What can be said of every head of a layer: whether its attention is the model's, what it selects, and how firmly."""

import math
from collections import Counter

import torch

from .flips import nearest_flips
from .layers import ALIKE, apart, check_width

SHOWN = 4  # inputs of a head whose tokens are shown: nearest to a flip, farthest, and between
PLACED = 3  # inputs at least, from which a bias of a place is told
AGREE = ("agrees", "biased")  # checks of heads that the weights give
ALIGNED = 0.999  # correlation from which logits differ by a factor alone


def layer_facts(layer, texts=None):
    """Facts of each head of a :class:`heads.capture.Layer`, a list of dicts for JSON; texts are of the tokens."""
    candidates = layer.weights() if layer.weights is not None and layer.tokens is not None else []
    kept = layer.mask.sum(-1) > 1  # who sees one token has no choice
    if not kept.any():
        raise ValueError(f"{layer.name}: every input sees one token alone, so nothing is chosen: give longer inputs")
    if candidates:
        layer = layer._replace(tokens=layer.tokens.double(), queries=layer.queries.double())
        check_width(f"tokens of {layer.name}", layer.tokens, candidates[0].key)
        check_width(f"queries of {layer.name}", layer.queries, candidates[0].query)
    tried = [
        [_head_facts(layer, weights, head, kept, texts) for head in range(len(weights.query))] for weights in candidates
    ] or [[_head_facts(layer, None, head, kept, texts) for head in range(layer.attention.shape[1])]]
    return min(tried, key=lambda heads: sum(one["check"] not in AGREE for one in heads))  # of orders of fused rows


def _head_facts(layer, weights, head, kept, texts):
    facts = {"layer": layer.name, "head": head, "check": "recorded", "off": None, "why": layer.otherwise}
    seen = None if layer.attention is None else layer.attention[kept, head]
    mask, places = layer.mask[kept], layer.places[kept]
    if weights is None:
        return facts | _today(seen.log(), None, None, kept, places, texts)
    tokens, queries = layer.tokens[kept], layer.queries[kept]
    asked = queries @ weights.query[head].mT + weights.query_bias[head]
    computed = weights.scale * torch.einsum("ntd,nd->nt", tokens, asked @ weights.key[head])
    computed = computed.masked_fill(~mask, -torch.inf)
    facts |= _checked(computed, seen, places, layer.otherwise)
    if facts["check"] == "differs":
        return facts
    if facts["check"] == "recorded":
        return facts | _today(seen.log(), None, None, kept, places, texts)
    logits = seen.log() if facts["check"] == "biased" else computed
    lengths = queries.square().sum(-1).add(float(weights.query_bias[head].any())).sqrt()
    flips, facts["norms"] = nearest_flips(tokens, logits, logits.argmax(-1), lengths), _norms(weights, head)
    return facts | _today(logits, flips, facts["norms"], kept, places, texts)


def _norms(weights, head):
    """Frobenius and spectral norm of W, with its column for the queries' bias, by the small factors of K and Q."""
    query = torch.cat([weights.query[head], weights.query_bias[head][:, None]], 1)
    small = torch.linalg.qr(weights.key[head].mT).R @ torch.linalg.qr(query.mT).R.mT
    values = weights.scale * torch.linalg.svdvals(small)
    return [values.square().sum().sqrt().item(), values.max().item()]


def _checked(computed, seen, places, otherwise):
    """Whether attention is the model's: ``check``, ``off`` and ``why``."""
    if seen is None:
        return {"check": "unchecked", "off": None, "why": "the model's attention was not at hand"}
    off = apart(computed.softmax(-1), seen).max().item()
    if off <= ALIKE:
        return {"check": "agrees", "off": off, "why": ""}
    fixed = _with_biases(computed, seen, places)
    if fixed is not None:
        return {"check": "biased", "off": fixed, "why": "a bias for each distance in places, the same in all inputs"}
    if otherwise:
        return {"check": "recorded", "off": off, "why": otherwise}
    return {"check": "differs", "off": off, "why": _reason(computed, seen)}


def _with_biases(computed, seen, places):
    """How far attention is off with one bias for each distance in places, in all inputs alike; None if that fails."""
    inputs, length = seen.shape
    rest = (seen.log() - computed).where(seen > 0, torch.nan)
    rest = rest - rest.gather(1, places.clamp(max=length - 1)[:, None])
    ahead = torch.arange(length) - places[:, None] + length  # distances, from 0 on
    spread = rest.new_full((inputs, 2 * length), torch.nan).scatter(1, ahead, rest)
    if inputs < PLACED or (spread.isfinite().sum(0) == 1).any():
        return None
    biased = computed + spread.nanmedian(0).values[ahead].nan_to_num(0)
    off = apart(biased.softmax(-1), seen).max().item()
    return off if off <= ALIKE else None


def _reason(computed, seen):
    """The likely reason why attention is not the model's."""
    both = (seen > 1e-12) & computed.isfinite()
    if both.sum() < 3:
        return "a mask: the model sees other tokens than these"
    weight = both.double() / both.sum(-1, keepdim=True)
    first, second = (
        torch.where(both, one - (weight * one.where(both, 0.0)).sum(-1, keepdim=True), 0.0)
        for one in (computed.where(both, 0.0), seen.clamp(min=1e-300).log())
    )
    slope = ((first * second).sum() / first.square().sum()).item()
    alike = torch.cosine_similarity(first.flatten(), second.flatten(), dim=0).item()
    if alike > ALIGNED:
        return f"the scale: the model's logits are {slope:.4g} times these"
    return (
        "rotary or relative positions, a norm of queries or keys, tokens from before a layer norm, or tokens or weights"
        f" of another layer: the correlation of logits is {alike:.2f}"
    )


def _today(logits, flips, norms, kept, places, texts):
    """What a head selects, how firmly, and what would change it."""
    attention, rows = logits.softmax(-1), torch.nonzero(kept).flatten()
    share, selected = attention.max(-1)
    seen = logits.isfinite().sum(-1).double()
    entropy = -(attention * attention.clamp(min=1e-300).log()).sum(-1) / seen.log()
    inputs = [
        {"input": int(row), "asks": int(place), "selects": int(token), "share": _short(top), "entropy": _short(spread)}
        for row, place, token, top, spread in zip(rows, places, selected, share, entropy, strict=True)
    ]
    found = {"entropy": entropy.mean().item(), "top": share.mean().item()}
    order = share.argsort()
    if flips is not None:
        for one, taker, distance in zip(inputs, *flips, strict=True):
            relative = {"flip": _short(distance / norms[0]), "flip_spectral": _short(distance / norms[1])}
            one |= {"taker": int(taker)} | relative
        order = flips.distance.argsort()
        relative = flips.distance[flips.distance.isfinite()] / norms[0]
        found["flip"], found["flip_least"] = (
            (relative.median().item(), relative.min().item()) if len(relative) else (None, None)
        )
        found["takers"] = _common([_text(texts, row, one["taker"]) for row, one in zip(rows, inputs, strict=True)])
    picks = torch.linspace(0, len(order) - 1, min(SHOWN, len(order))).round().long().unique()
    kinds = {
        "the query token": selected == places,
        "the token before the query": selected == places - 1,
        "the token after the query": selected == places + 1,
        "the first token": selected == 0,
    }
    return found | {
        "places": {kind: int(found.sum()) for kind, found in kinds.items() if found.any()},
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
    return [list(one) for one in Counter(names).most_common(3)]
