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
UNDERFLOW = 1e-6  # computed attention above which none at all in the model is no underflow, in 16 bits either


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
    mask = layer.mask[choosing]
    if weights is None:
        return facts | _today(layer, seen, choosing)
    tokens, queries = layer.tokens[choosing], layer.queries[choosing]
    asked = queries @ weights.query[head].mT + weights.query_bias[head]
    computed = weights.scale * torch.einsum("ntd,nd->nt", tokens, asked @ weights.key[head])
    computed = computed.masked_fill(~mask, -torch.inf)
    logits, checked = _checked(computed, seen, None if layer.cross else layer.positions[choosing], layer.why)
    facts |= checked
    if logits is None:
        return facts | _today(layer, seen, choosing)
    lengths = queries.square().sum(-1).add(float(weights.query_bias[head].any())).sqrt()
    flips, facts["norms"] = nearest_flips(tokens, logits, logits.argmax(-1), lengths), _norms(weights, head)
    if bits is not None:
        facts |= rounding_facts(weights, head, Choices(tokens, queries, logits), bits)
    leads = logits.amax(-1) - logits.gather(1, flips.taker[:, None])[:, 0]
    return facts | _today(layer, logits.softmax(-1), choosing, flips, facts["norms"], leads)


def _norms(weights, head):
    """Frobenius and spectral norm of W, with its column for the queries' bias, by the small factors of K and Q."""
    query = torch.cat([weights.query[head], weights.query_bias[head][:, None]], 1)
    small = torch.linalg.qr(weights.key[head].mT).R @ torch.linalg.qr(query.mT).R.mT
    values = weights.scale * torch.linalg.svdvals(small)
    return [values.square().sum().sqrt().item(), values.max().item()]


def _checked(computed, seen, positions, why):
    """Compare logits with the model's attention: logits that give it, or None; ``check``, ``off`` and ``why``."""
    if seen is None:
        return computed, {"check": "assumed", "off": None, "why": ""}
    off = _distance(computed, seen)
    if off <= ATTENTION_TOLERANCE:
        return computed, {"check": "agrees", "off": off, "why": ""}
    biased = None if positions is None else _with_biases(computed, seen, positions)
    if biased is not None and _distance(biased, seen) <= ATTENTION_TOLERANCE:
        about = {"off": _distance(biased, seen), "why": "a bias for each distance in places, the same in all inputs"}
        return biased, {"check": "biased"} | about
    return None, {"check": "recorded", "off": off, "why": why or _reason(computed, seen)}


def _distance(logits, seen):
    """How far attention is from the model's; 1 where the model sees nothing of a token that has attention."""
    attention = logits.softmax(-1)
    hidden = (seen == 0) & (attention > UNDERFLOW)
    return 1.0 if hidden.any() else total_variation(attention, seen).max().item()


def _with_biases(computed, seen, positions):
    """Logits with one bias for each distance in places, in all inputs alike; None where a bias is not determined."""
    inputs, length = seen.shape
    rest = (seen.log() - computed).where((seen > 0) & computed.isfinite(), torch.nan)
    rest = rest - rest.gather(1, positions.clamp(max=length - 1)[:, None])
    ahead = torch.arange(length) - positions[:, None] + length  # distances, from 0 on
    spread = rest.new_full((inputs, 2 * length), torch.nan).scatter(1, ahead, rest)
    if inputs < MIN_INPUTS_FOR_BIAS or (spread.isfinite().sum(0) == 1).any():
        return None
    return computed + spread.nanmedian(0).values[ahead].nan_to_num(0)


def _reason(computed, seen):
    """The likely reason why attention is not the model's."""
    if ((seen == 0) & (computed.softmax(-1) > UNDERFLOW)).any():
        return "the model hides tokens, and no mask says which"
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
        return f"the scale: the model's logits are {slope:.4g} times those of the weights"
    return (
        "rotary or relative positions, a norm of queries or keys, tokens from before a layer norm, or tokens or weights"
        f" of another layer: the correlation of logits is {alike:.2f}"
    )


def _today(layer, attention, choosing, flips=None, norms=None, leads=None):
    """What a head selects, how firmly, and what would change it."""
    rows, positions, words = torch.nonzero(choosing).flatten(), layer.positions[choosing], layer.words
    share, selected = attention.max(-1)
    entropy = -(attention * attention.clamp(min=1e-300).log()).sum(-1) / layer.mask[choosing].sum(-1).double().log()
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
            (relative.median().item(), relative.min().item()) if len(relative) else (None, None)
        )
        facts["takers"] = _common(_text(words, entry, "taker") for entry in inputs)
    if words is not None:
        for entry in inputs:
            entry |= {f"{key}_word": _text(words, entry, key) for key in ("selects", "taker") if key in entry}
    picks = torch.linspace(0, len(order) - 1, min(INPUTS_SHOWN, len(order))).round().long().unique()
    kinds = {"the first token": selected == 0}
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
