"""Facts of every head of a layer: whether its attention is the model's, what it selects, and how firmly."""

import math
from collections import Counter

import torch

from .agreement import SHARP, compared, largest_logits
from .bits import Choices, head_logits, rounding_facts
from .flips import nearest_flips
from .layers import check_width

INPUTS_SHOWN = 4  # of each head, with their tokens: the nearest to a flip, the farthest, and between
AGREE = ("agrees", "biased")  # checks of heads that the weights give


def layer_facts(layer, bits=None):
    """Facts of each head of a :class:`heads.capture.Layer`, a list of dicts for JSON.

    With ``bits`` also those of :func:`heads.bits.rounding_facts`, of heads that the weights give.
    """
    candidates = layer.weights() if layer.weights is not None and layer.tokens is not None else []
    choosing = layer.mask.sum(-1) > 1  # an input with one token has no choice
    if not choosing.any():
        raise ValueError("every input sees one token alone, so nothing is chosen: give longer inputs")
    if candidates:
        layer = layer._replace(tokens=layer.tokens.double(), queries=layer.queries.double())
        check_width(f"tokens of {layer.name}", layer.tokens, candidates[0].key)
        check_width(f"queries of {layer.name}", layer.queries, candidates[0].query)
    candidate_facts = [
        [_head_facts(layer, weights, head, choosing, bits) for head in range(len(weights.query))]
        for weights in candidates
    ] or [[_head_facts(layer, None, head, choosing) for head in range(layer.attention.shape[1])]]
    # Of the orders that the rows of a fused matrix may have, the one in which most heads agree.
    return min(candidate_facts, key=lambda heads: sum(facts["check"] not in AGREE for facts in heads))


def _head_facts(layer, weights, head, choosing, bits=None):
    facts = {"layer": layer.name, "head": head, "check": "recorded", "off": None, "why": layer.why}
    facts["cross"] = layer.cross
    seen = None if layer.attention is None else layer.attention[choosing, head]
    if weights is None:
        return facts | _today(layer, seen, choosing)
    tokens, queries = layer.tokens[choosing], layer.queries[choosing]
    computed = head_logits(weights, head, tokens, queries).masked_fill(~layer.mask[choosing], -torch.inf)
    logits, checked = compared(computed, seen, None if layer.cross else layer.positions[choosing], layer.why)
    facts |= checked
    if logits is None:
        return facts | _today(layer, seen, choosing)
    lengths = queries.square().sum(-1).add(float(weights.query_bias[head].any())).sqrt()
    largest = logits if seen is None else largest_logits(logits, seen)
    flips = nearest_flips(tokens, largest, logits.argmax(-1), lengths)
    leads = logits.amax(-1) - logits.gather(1, flips.taker[:, None])[:, 0]
    told = (largest == logits).gather(1, flips.taker[:, None])[:, 0]  # whose nearest token has a lead that is told
    if not told.any():
        return facts | {"check": "recorded", "why": SHARP} | _today(layer, seen, choosing)
    facts |= {"norms": _norms(weights, head), "told": int(told.sum())}
    facts["query_bias"] = bool(weights.query_bias[head].any())
    if bits is not None:
        facts |= rounding_facts(weights, head, Choices(tokens[told], queries[told], logits[told]), bits)
    flips = flips._replace(distance=flips.distance.where(told, torch.inf))
    return facts | _today(layer, logits.softmax(-1), choosing, flips, facts["norms"], leads.where(told, torch.inf))


def _norms(weights, head):
    """Frobenius and spectral norm of W, with its column for the queries' bias, by the small factors of K and Q."""
    query = torch.cat([weights.query[head], weights.query_bias[head][:, None]], 1)
    small = torch.linalg.qr(weights.key[head].mT).R @ torch.linalg.qr(query.mT).R.mT
    values = weights.scale * torch.linalg.svdvals(small)
    return [values.square().sum().sqrt().item(), values.max().item()]


def _today(layer, attention, choosing, flips=None, norms=None, leads=None):
    """What a head selects, how firmly, and what would change it."""
    rows, positions, words = torch.nonzero(choosing).flatten(), layer.positions[choosing], layer.words
    share, selected = attention.max(-1)
    seen = layer.mask  # where weights give the attention; else a model may hide more in silence
    if flips is None and layer.attention is not None:
        seen = seen & (layer.attention > 0).any(1)  # by some head
    most = seen[choosing].sum(-1).clamp(min=2).double().log()
    entropy = -(attention * attention.clamp(min=1e-300).log()).sum(-1) / most
    inputs = [
        {"input": int(row), "asks": int(place), "selects": int(token), "share": _short(top), "entropy": _short(spread)}
        for row, place, token, top, spread in zip(rows, positions, selected, share, entropy, strict=True)
    ]
    facts = {"entropy": entropy.mean().item(), "top": share.mean().item()}
    order = share.argsort()
    if flips is not None:
        for entry, taker, distance, lead in zip(inputs, *flips, leads, strict=True):
            relative = {"flip": _short(distance / norms[0]), "flip_spectral": _short(distance / norms[1])}
            entry |= {"taker": int(taker), "lead": _short(lead)} | relative
        order = flips.distance.argsort()
        relative = flips.distance[flips.distance.isfinite()] / norms[0]
        facts["flip"], facts["flip_least"] = (
            (relative.quantile(0.5).item(), relative.min().item()) if len(relative) else (None, None)
        )
        facts["flip_inputs"] = len(relative)  # of which these are the median and the least
        facts["takers"] = _common(_text(words, entry, "taker") for entry in inputs if entry["lead"] is not None)
    if words is not None:
        for entry in inputs:
            entry |= {f"{key}_word": _text(words, entry, key) for key in ("selects", "taker") if key in entry}
    picks = torch.linspace(0, len(order) - 1, min(INPUTS_SHOWN, len(order))).round().long().unique()
    kinds = {"the first token": selected == (0 if layer.first is None else layer.first[choosing])}
    if not layer.cross:  # whose query token has its place in another sequence
        kinds |= {
            "the query token": selected == positions,
            "the token before the query": selected == positions - 1,
            "the token after the query": selected == positions + 1,
        }
    return facts | {
        "places": {kind: int(hits.sum()) for kind, hits in kinds.items() if hits.any()},
        "texts": _common(_text(words, entry, "selects") for entry in inputs),
        "nearest": [inputs[k] for k in order[:8]],
        "shown": [_shown(inputs[k], attention[k], words) for k in order[picks]],
        "inputs": inputs,
    }


def _shown(entry, attention, words):
    """An input with the attention of its tokens, and their words where these are known."""
    spelt = {} if words is None else {"words": words[entry["input"]]}
    return entry | spelt | {"attention": [_short(share) for share in attention]}


def _short(number):
    """A number for JSON, in four digits; None where it is none."""
    return float(f"{float(number):.4g}") if math.isfinite(float(number)) else None


def _text(words, entry, key):
    return f"token {entry[key]}" if words is None else words[entry["input"]][entry[key]]


def _common(names):
    """The three most common of some names, each with how often it is there."""
    return [list(pair) for pair in Counter(names).most_common(3)]
