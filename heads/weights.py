"""Read the weights of an attention layer, head by head, from a torch layer or a state dict."""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ._lib import checks

PARTS = ("query", "key", "value", "out")
# Names of torch.nn.MultiheadAttention, of all sizes equal and of others, and of plain projections.
FUSED = {"qkv": "in_proj_weight", "out": "out_proj.weight"}
LAYOUTS = (
    FUSED,
    {"query": "q_proj_weight", "key": "k_proj_weight", "value": "v_proj_weight", "out": "out_proj.weight"},
    {"query": "q_proj.weight", "key": "k_proj.weight", "value": "v_proj.weight", "out": "out_proj.weight"},
)


class Weights(NamedTuple):
    """All heads of an attention layer, in float64; a head that shares its keys has its own copy of them.

    query : shape (heads, h, e), with ``query_bias`` (heads, h).
    key : shape (heads, h, d); its bias moves all logits of an input alike, and is left out.
    value : shape (heads, v, c), with ``value_bias`` (heads, v).
    out : shape (heads, m, v), with ``out_bias`` (m,).
    scale : what the products of queries and keys are multiplied by.
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
    if layer.bias_k is not None or layer.add_zero_attn:
        raise ValueError("layer has add_bias_kv or add_zero_attn, tokens of its own: watch the model")
    return state_weights(layer.state_dict(), layer.num_heads)


def state_weights(state, heads, prefix="", names=None, scale=None):
    """Weights of all heads of one attention layer in a state dict, as :class:`Weights`.

    Shapes say how many heads share their keys and values. ValueError if names are unknown, shapes do not fit the heads,
    an entry is not finite, or weights are quantised.

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
    scale : float, optional
        1 / sqrt(h) when left out.

    Examples
    --------
    >>> import torch
    >>> names = {"query": "q.w", "key": "k.w", "value": "v.w", "out": "o.w"}
    >>> weights = state_weights({name: torch.eye(8) for name in names.values()}, heads=2, names=names)
    >>> weights.query.shape, weights.scale
    (torch.Size([2, 4, 8]), 0.5)
    """
    if scale is not None:
        checks.number("scale", scale, lambda scale: 0 < scale < math.inf, "give a number above 0")
    checks.integer("heads", heads)
    names = _names_at(state, prefix) if names is None else _own_names(state, names)
    parts = _parts(state, names)
    groups = len(parts["key"][0]) * heads // len(parts["query"][0])
    groups = heads if groups < 1 or heads % groups else groups
    query, query_bias = _cut("query", *parts["query"], heads)
    key, value, value_bias = (
        array.repeat_interleave(heads // groups, 0)
        for array in (_cut("key", *parts["key"], groups)[0], *_cut("value", *parts["value"], groups))
    )
    size, width = query.shape[1], value.shape[1]
    if size != key.shape[1]:
        raise ValueError(f"queries of a head have {size} entries, keys {key.shape[1]}: give the layer's heads")
    out, out_bias = parts["out"]
    if out.shape[1] != heads * width:
        need = f"{heads} heads of {width} values need {heads * width}"
        raise ValueError(f"{names['out']} has {out.shape[1]} columns: {need}")
    out = out.unflatten(1, (heads, -1)).transpose(0, 1)
    return Weights(query, query_bias, key, value, value_bias, out, out_bias, size**-0.5 if scale is None else scale)


def layer_prefixes(state):
    """Prefix of the names of each attention layer under torch's names in a state dict, in the order of their numbers.

    Examples
    --------
    >>> state = {f"layers.{k}.self_attn.{name}": torch.ones(1) for k in (10, 2) for name in FUSED.values()}
    >>> layer_prefixes(state)
    ['layers.2.self_attn.', 'layers.10.self_attn.']
    """
    found = {
        name.removesuffix(first)
        for first in (next(iter(layout.values())) for layout in LAYOUTS)
        for name in state
        if name.endswith(first)
    }
    if not found:
        raise ValueError(
            f"no layer has names of torch.nn.MultiheadAttention, as in_proj_weight, but {checks.join_names(state)}:"
            " give state_weights names=, or watch the model"
        )
    return sorted(found, key=lambda name: [int(part) if part.isdigit() else -1 for part in name.split(".")])


def _names_at(state, prefix):
    """Names by part behind a prefix, with or without that of the module; ValueError if there is no such layer."""
    for inner in ("", "self_attn.", "attn.", "attention."):
        for layout in LAYOUTS:
            names = {part: prefix + inner + name for part, name in layout.items()}
            if all(name in state for name in names.values()):
                extra = [name for name in (f"{prefix}{inner}bias_k", f"{prefix}{inner}bias_v") if name in state]
                if extra:
                    raise ValueError(f"the layer has {extra[0]}, a token of its own: watch the model")
                return names
    raise ValueError(
        f"prefix is {prefix!r}, the layers are {checks.join_names(map(repr, layer_prefixes(state)))}: give one"
    )


def _own_names(state, names):
    if missing := [part for part in PARTS if part not in names]:
        raise ValueError(f"names have no {missing[0]}: give {', '.join(PARTS)}")
    for name in names.values():
        if name not in state:
            raise ValueError(f"the state dict has no {name!r}: it has {checks.join_names(state)}")
    return names


def _parts(state, names):
    """Weight (out, in) and bias (out,) by part, torch's fused one cut in three."""
    if "qkv" not in names:
        parts = {part: (_floats(state, names[part], "out", "in"), state.get(_bias_name(names[part]))) for part in PARTS}
        fused = state.get(names["query"].removesuffix("q_proj_weight") + "in_proj_bias")
        if fused is not None and names["query"].endswith("q_proj_weight"):
            biases = fused.split([len(parts[part][0]) for part in PARTS[:3]])
            parts |= {part: (parts[part][0], bias) for part, bias in zip(PARTS, biases, strict=False)}
    else:
        weight, bias = _floats(state, names["qkv"], "out", "in"), state.get(_bias_name(names["qkv"]))
        if len(weight) % 3:
            raise ValueError(f"{names['qkv']} has {len(weight)} rows, queries, keys and values need a multiple of 3")
        biases = (None,) * 3 if bias is None else bias.chunk(3)
        parts = dict(zip(PARTS, zip(weight.chunk(3), biases, strict=True), strict=False))
        parts["out"] = _floats(state, names["out"], "out", "in"), state.get(_bias_name(names["out"]))
    return {part: (weight, _bias(part, weight, bias)) for part, (weight, bias) in parts.items()}


def _bias_name(name):
    return name.removesuffix("weight") + "bias" if name.endswith("weight") else None


def _bias(part, weight, bias):
    """A bias in float64, zero where there is none."""
    if bias is None:
        return torch.zeros(len(weight), dtype=torch.float64)
    bias = checks.float64(f"the bias of {part}", bias, "out")
    if len(bias) != len(weight):
        raise ValueError(f"the bias of {part} has {len(bias)} entries, its weight {len(weight)} rows: they must agree")
    return bias


def _floats(state, name, *trailing):
    """A tensor of the state dict in float64; ValueError where it is quantised, and its scales would be needed."""
    value = state[name]
    if isinstance(value, Tensor) and not (value.is_floating_point() and value.itemsize > 1):
        raise ValueError(f"{name} has dtype {value.dtype}, and no scales are applied: give floats of 16 bits or more")
    return checks.float64(name, value, *trailing)


def _cut(part, weight, bias, heads):
    """Weight (heads, h, in) and bias (heads, h)."""
    if weight.shape[0] % heads:
        raise ValueError(f"the {part} matrix has {weight.shape[0]} rows: {heads} heads need a multiple of that")
    return weight.unflatten(0, (heads, -1)), bias.unflatten(0, (heads, -1))
