"""Read the weights of an attention layer, head by head, from a torch layer or a state dict."""

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ._lib import checks

PARTS = ("query", "key", "value", "out")
# Names of torch.nn.MultiheadAttention, whose queries, keys and values are one matrix, and of plain projections.
FUSED = {"qkv": "in_proj_weight", "out": "out_proj.weight"}
PLAIN = {"query": "q_proj.weight", "key": "k_proj.weight", "value": "v_proj.weight", "out": "out_proj.weight"}


class Weights(NamedTuple):
    """All heads of an attention layer, in float64, copied.

    query : shape (heads, h, e), with ``query_bias`` (heads, h).
    key : shape (heads, h, d); its bias moves all logits of an input alike, and is left out.
    value : shape (heads, v, c), with ``value_bias`` (heads, v).
    out : shape (heads, m, v), with ``out_bias`` (m,).
    scale : what the products of queries and keys are multiplied by, 1 / sqrt(h).
    """

    query: Tensor
    query_bias: Tensor
    key: Tensor
    value: Tensor
    value_bias: Tensor
    out: Tensor
    out_bias: Tensor
    scale: float


def layer_weights(layer):
    """Weights of all heads of a torch.nn.MultiheadAttention, or of a TransformerEncoderLayer's, as :class:`Weights`.

    TypeError for another layer, ValueError if a weight is not finite, or the layer adds tokens of its own.
    """
    layer = getattr(layer, "self_attn", layer)
    if not isinstance(layer, nn.MultiheadAttention):
        raise TypeError(
            f"layer is a {type(layer).__name__}: give a MultiheadAttention or TransformerEncoderLayer of torch.nn, take"
            " state_weights, or watch the model"
        )
    if layer.add_zero_attn:
        raise ValueError("layer has add_zero_attn, a token of its own: watch the model")
    return state_weights(layer.state_dict(), layer.num_heads)


def state_weights(state, heads, prefix="", names=None):
    """Weights of all heads of one attention layer in a state dict, as :class:`Weights`.

    ValueError if names are unknown, shapes do not fit the heads, an entry is not finite, or weights are quantised.

    Parameters
    ----------
    state : dict of str to Tensor
    heads : int
        That the layer has.
    prefix : str
        In front of the names, such as ``"blocks.0.self_attn."``.
    names : dict, optional
        Full names by part, "query", "key", "value" and "out", where they are not those of torch.nn.MultiheadAttention.
        A bias has the name of its weight with "bias" for "weight".

    Examples
    --------
    >>> import torch
    >>> names = {"query": "q.w", "key": "k.w", "value": "v.w", "out": "o.w"}
    >>> weights = state_weights({name: torch.eye(8) for name in names.values()}, heads=2, names=names)
    >>> weights.query.shape, weights.scale
    (torch.Size([2, 4, 8]), 0.5)
    """
    checks.integer("heads", heads)
    names = _names_at(state, prefix) if names is None else _own_names(state, names)
    parts = _parts(state, names)
    query, query_bias = _cut("query", *parts["query"], heads)
    (key, _), (value, value_bias) = (_cut(part, *parts[part], heads) for part in ("key", "value"))
    size, width = query.shape[1], value.shape[1]
    if size != key.shape[1]:
        raise ValueError(
            f"queries of a head have {size} entries, keys {key.shape[1]}: give the layer's heads, or watch the model"
            " where heads share their keys"
        )
    out, out_bias = parts["out"]
    if out.shape[1] != heads * width:
        need = f"{heads} heads of {width} values need {heads * width}"
        raise ValueError(f"{names['out']} has {out.shape[1]} columns: {need}")
    out = out.unflatten(1, (heads, -1)).transpose(0, 1)
    return Weights(query, query_bias, key, value, value_bias, out.clone(), out_bias.clone(), size**-0.5)


def layer_prefixes(state):
    """Prefix of the names of each attention layer under torch's names in a state dict, in the order of their numbers.

    Examples
    --------
    >>> state = {f"layers.{k}.self_attn.{name}": torch.ones(1) for k in (10, 2) for name in FUSED.values()}
    >>> layer_prefixes(state)
    ['layers.2.self_attn.', 'layers.10.self_attn.']
    """
    firsts = FUSED["qkv"], PLAIN["query"]
    found = {name.removesuffix(first) for first in firsts for name in state if name.endswith(first)}
    if not found:
        raise ValueError(
            f"no layer has names of torch.nn.MultiheadAttention, as in_proj_weight, but {checks.join_names(state)}:"
            " give state_weights names=, or watch the model"
        )
    return sorted(found, key=lambda name: [int(part) if part.isdigit() else -1 for part in name.split(".")])


def _names_at(state, prefix):
    """Names by part behind a prefix, with or without that of the module; ValueError if there is no such layer."""
    for inner in ("", "self_attn."):
        for layout in (FUSED, PLAIN):
            names = {part: prefix + inner + name for part, name in layout.items()}
            if all(name in state for name in names.values()):
                if f"{prefix}{inner}bias_k" in state:
                    raise ValueError(f"the layer has {prefix}{inner}bias_k, a token of its own: watch the model")
                return names
    every = checks.join_names(map(repr, layer_prefixes(state)))
    raise ValueError(f"prefix is {prefix!r}, the layers are {every}: give one")


def _own_names(state, names):
    if missing := [part for part in PARTS if part not in names]:
        raise ValueError(f"names have no {missing[0]}: give {', '.join(PARTS)}")
    if missing := [name for name in names.values() if name not in state]:
        raise ValueError(f"the state dict has no {missing[0]!r}: it has {checks.join_names(state)}")
    return names


def _parts(state, names):
    """Weight (out, in) and bias (out,) by part, torch's fused one cut in three."""
    found = {part: _weight_and_bias(state, name) for part, name in names.items()}
    if "qkv" in found:
        weight, bias = found.pop("qkv")
        if len(weight) % 3:
            raise ValueError(f"{names['qkv']} has {len(weight)} rows, queries, keys and values need a multiple of 3")
        found |= dict(zip(PARTS, zip(weight.chunk(3), bias.chunk(3), strict=True), strict=False))
    return found


def _weight_and_bias(state, name):
    """A weight and its bias, zero where there is none, in float64; ValueError where quantised, or they do not fit."""
    value = state[name]
    if isinstance(value, Tensor) and not (value.is_floating_point() and value.itemsize > 1):
        raise ValueError(f"{name} has dtype {value.dtype}, and no scales are applied: give floats of 16 bits or more")
    weight, called = checks.float64(name, value, "out", "in"), name.removesuffix("weight") + "bias"
    if not name.endswith("weight") or called not in state:
        return weight, torch.zeros(len(weight), dtype=torch.float64)
    bias = checks.float64(called, state[called], "out")
    if len(bias) != len(weight):
        raise ValueError(f"{called} has {len(bias)} entries, its weight {len(weight)} rows: they must agree")
    return weight, bias


def _cut(part, weight, bias, heads):
    """Weight (heads, h, in) and bias (heads, h), of their own: the layer may train on."""
    if weight.shape[0] % heads:
        raise ValueError(f"the {part} matrix has {weight.shape[0]} rows: {heads} heads need a multiple of that")
    return weight.unflatten(0, (heads, -1)).clone(), bias.unflatten(0, (heads, -1)).clone()
