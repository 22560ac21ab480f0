"""Read the weights of an attention layer, head by head, from a torch layer or a state dict under any common names."""

import difflib
import math
import os
import re
from typing import NamedTuple

from torch import Tensor, nn

from .. import checks

PARTS = ("query", "key", "value", "out")
LAYOUTS = {  # by who writes them so: what receives the tokens, its matrices (one where they are fused), the output's
    "PyTorch": ("", "in_proj_weight", "out_proj.weight"),
    "PyTorch, separate sizes": ("", "q_proj_weight k_proj_weight v_proj_weight", "out_proj.weight"),
    "BERT": ("attention.self.", "query.weight key.weight value.weight", "attention.output.dense.weight"),
    "ALBERT": ("attention.", "query.weight key.weight value.weight", "attention.dense.weight"),
    "ViT": ("attention.attention.", "query.weight key.weight value.weight", "attention.output.dense.weight"),
    "GPT-2": ("attn.", "c_attn.weight", "attn.c_proj.weight"),
    "timm": ("attn.", "qkv.weight", "attn.proj.weight"),
    "Phi-3": ("", "qkv_proj.weight", "o_proj.weight"),
    "projections": ("", "q_proj.weight k_proj.weight v_proj.weight", "out_proj.weight"),
    "Llama": ("", "q_proj.weight k_proj.weight v_proj.weight", "o_proj.weight"),
    "DistilBERT": ("", "q_lin.weight k_lin.weight v_lin.weight", "out_lin.weight"),
    "T5": ("", "q.weight k.weight v.weight", "o.weight"),
}
UNSCALED = ("t5", "mt5", "umt5", "longt5", "pop2piano", "switch_transformers", "gpt_neo")  # no 1 / sqrt(h)
TRANSPOSED = ("GPT-2",)  # whose matrices are (in, out)
# Tensors that change logits wherever they stand: rotary and relative positions, norms of queries and keys.
OTHERWISE = re.compile(
    r"rotary|(?<![a-z])rope|inv_freq|rel_pos|relative_(pos|att)|distance_emb|bias_table|alibi"
    r"|(?<![a-z])(q|k|query|key)_?(layer)?_?norm|bias_[kv]$"
)
# Tensors inside of an attention layer that change none: masks of GPT-2, and norms of its sum with the residual.
HARMLESS = ("bias", "masked_bias", "output.LayerNorm.weight", "output.LayerNorm.bias", "LayerNorm.weight",
            "LayerNorm.bias")  # fmt: skip


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

    Raises
    ------
    TypeError
        For another layer.
    ValueError
        If a weight is not finite, or the layer adds tokens of its own (``add_bias_kv``, ``add_zero_attn``).
    """
    layer = getattr(layer, "self_attn", layer)
    if not isinstance(layer, nn.MultiheadAttention):
        raise TypeError(
            f"layer is a {type(layer).__name__}: give a MultiheadAttention or TransformerEncoderLayer of torch.nn, or"
            " take state_weights, or recorded_problem"
        )
    if layer.bias_k is not None or layer.add_zero_attn:
        raise ValueError(
            "layer has add_bias_kv or add_zero_attn, tokens that are no input's: record its logits, and use"
            " recorded_problem"
        )
    return state_weights(layer.state_dict(), layer.num_heads)


def state_weights(state, heads, prefix="", names=None, groups=None, scale=None, transposed=False):
    """Weights of all heads of one attention layer in a state dict.

    The conventions of PyTorch and of Hugging Face's BERT, ViT, GPT-2 (fused and transposed) and Llama, and of timm
    (fused) are known by their names.

    Parameters
    ----------
    state : dict of str to Tensor
    heads : int
        That the layer has.
    prefix : str
        In front of the names, such as ``"encoder.layer.3."``.
    names : dict, optional
        Another convention: full names by part, "query", "key", "value" and "out", or "qkv" for the first three in one
        matrix (out, in). A bias has the name of its weight with "bias" for "weight", or that of "query_bias" and so on.
    groups : int, optional
        Heads that keys and values have, where several heads share them; ``heads`` when left out.
    scale : float, optional
        1 / sqrt(h) when left out.
    transposed : bool
        Whether matrices under ``names`` are (in, out), as those of GPT-2.

    Returns
    -------
    Weights

    Raises
    ------
    ValueError
        If names are unknown (the nearest are listed), shapes do not fit the heads, an entry is not finite, weights are
        quantised, or, without ``names``, the layer has tensors that are not used here, such as a norm of its queries.

    Examples
    --------
    >>> import torch
    >>> names = {"query": "q.w", "key": "k.w", "value": "v.w", "out": "o.w"}
    >>> weights = state_weights({name: torch.eye(8) for name in names.values()}, heads=2, names=names)
    >>> weights.query.shape, weights.scale
    (torch.Size([2, 4, 8]), 0.5)
    """
    checks.whole("heads", heads)
    groups = heads if groups is None else checks.whole("groups", groups)
    if heads % groups:
        raise ValueError(f"heads is {heads}, groups is {groups}: give a number of groups that divides the heads")
    if scale is not None:
        checks.number("scale", scale, lambda one: one is not True and 0 < one < math.inf, "give a number above 0")
    layout, names = _layout(state, prefix, names)
    if layout != "named":
        _check_used(state, names)
    found = _parts(state, names, transposed or layout in TRANSPOSED, heads, groups)
    query, key, value = (_cut(part, *found[part], heads if part == "query" else groups) for part in PARTS[:3])
    key, value, value_bias = (one.repeat_interleave(heads // groups, 0) for one in (key[0], *value))
    if query[0].shape[1] != key.shape[1]:
        raise ValueError(
            f"queries of a head have {query[0].shape[1]} entries, keys {key.shape[1]}: give the layer's heads, and its"
            " groups where heads share their keys"
        )
    out, out_bias = found["out"]
    if out.shape[1] != heads * value.shape[1]:
        raise ValueError(
            f"{names['out']} has shape {tuple(out.shape)}: {heads} heads of {value.shape[1]} values need"
            f" {heads * value.shape[1]} columns"
        )
    out = out.unflatten(1, (heads, -1)).transpose(0, 1)
    return Weights(*query, key, value, value_bias, out, out_bias, query[0].shape[1] ** -0.5 if scale is None else scale)


def layer_names(state, own=None):
    """Names of the parts of each attention layer of a known convention, and that convention, by what stands before.

    In the order of their numbers; ValueError where there is none, with the names that come nearest. Names of one's
    ``own``, by part, have * for the number of the layer: ``{"query": "blocks.*.wq.weight", ...}``.
    """
    if own:
        return _own_names(state, own)
    found = {}
    for layout, parts in _layouts().items():
        first = next(iter(parts.values()))
        for before in [name.removesuffix(first) for name in state if name.endswith(first)]:
            if before[-1:] in ("", ".") and all(before + name in state for name in parts.values()):
                found.setdefault(before, (layout, {part: before + name for part, name in parts.items()}))
    if not found:
        wanted = [next(iter(parts.values())) for parts in _layouts().values()]
        near = {one: None for name in wanted for one in difflib.get_close_matches(name, list(state), 2, 0.3)}
        raise ValueError(
            f"no layer of a known convention is there, the nearest names are {listed(near or state)}: give your own,"
            " to state_weights as names=, to a report as --names query=blocks.*.wq.weight,key=..., and value and out"
        )
    return dict(sorted(found.items(), key=lambda one: ([int(word) for word in re.findall(r"\d+", one[0])], one[0])))


def _own_names(state, own):
    """Names of one's own of each layer, by what stands before the number and with it."""
    _layout(dict.fromkeys(own.values()), "", own)  # whether all parts are there
    first = next(iter(own.values()))
    pattern = re.compile(re.escape(first).replace(r"\*", r"(\d+)"))
    found = {}
    for number in sorted((m.groups() for m in map(pattern.fullmatch, state) if m), key=lambda one: [*map(int, one)]):
        names = {part: name.replace("*", *number) if number else name for part, name in own.items()}
        _check_names(state, names.values())
        found[names[next(iter(own))].rpartition(".")[0].rpartition(".")[0] + "."] = ("named", names)
    if not found:
        _check_names(state, [first])
    return found


def _layouts():
    """Names of the parts of a layer, by convention and part."""
    for_parts = {1: ("qkv",), 3: PARTS[:3]}
    return {
        layout: {part: place + name for part, name in zip(for_parts[len(names)], names, strict=True)} | {"out": out}
        for layout, (place, names, out) in ((key, (a, b.split(), c)) for key, (a, b, c) in LAYOUTS.items())
    }


def listed(names, most=6):
    """The first of some names in a line."""
    names = list(names)
    return (", ".join(names[:most]) or "none") + (f" and {len(names) - most} more" if len(names) > most else "")


def _layout(state, prefix, names):
    """Name of the convention, and the full name of each part; ValueError with the nearest names if there is none."""
    if names is not None:
        wanted = ("qkv", "out") if "qkv" in names else PARTS
        if missing := [part for part in wanted if part not in names]:
            raise ValueError(f"names have no {missing[0]}: give {', '.join(wanted)}")
        _check_names(state, [name for name in names.values() if name])
        return "named", dict(names)
    for layout, parts in _layouts().items():
        for inner in ("", "self_attn.", "attn.", "attention.", "self_attention."):
            full = {part: prefix + inner + name for part, name in parts.items()}
            if all(name in state for name in full.values()):
                return layout, full
    near = {near: None for parts in _layouts().values()
            for near in difflib.get_close_matches(prefix + next(iter(parts.values())), state, 2, 0.4)}  # fmt: skip
    raise ValueError(
        f"prefix {prefix!r} is followed by no convention that is known, the nearest names are {listed(near or state)}:"
        " give the prefix, or names"
    )


def _check_names(state, wanted):
    """Raise ValueError with the nearest names if one is not in the state dict."""
    for name in wanted:
        if name not in state:
            near = difflib.get_close_matches(name, state, 3, 0.4) or list(state)[:3]
            raise ValueError(f"the state dict has no {name!r}: the nearest names are {', '.join(near) or 'none'}")


def _check_used(state, names):
    """Raise ValueError if the layer has a tensor of which nothing here knows what it does."""
    used = {*names.values(), *(_bias_name(names, part) for part in (*PARTS, "qkv"))}
    scope = "".join(os.path.commonprefix(list(names.values())).rpartition(".")[:2])  # noqa: RUF071  of names
    used |= {scope + name for name in HARMLESS}
    for name in state:
        inside = "att" in scope.lower() and name.startswith(scope) and name not in used
        found = OTHERWISE.search(name)  # in the layer, or where all layers share it
        if inside or (found and _stem(scope).startswith(_stem("".join(name[: found.start()].rpartition(".")[:2])))):
            raise ValueError(
                f"the layer has {name}, which is not used here and may change its logits: record these, and use"
                " recorded_problem; or if it changes nothing, give names"
            )


def _stem(name):
    """A name without its numbers: what one layer of a stack has, such as T5's table of biases, goes for all of them."""
    return re.sub(r"\d+", "*", name)


def _parts(state, names, transposed, heads, groups):
    """Weight (out, in) and bias (out,) of each part, by part; a fused one cut in three."""
    found = {}
    fused = _bias(state, names, "qkv", None)
    for part in PARTS if "qkv" not in names else ("qkv", "out"):
        weight = _floats(state, names[part], "out", "in")
        weight = weight.mT if transposed else weight
        found[part] = weight, _bias(state, names, part, weight)
    if "qkv" in found:
        weight, bias = found.pop("qkv")
        if weight.shape[0] % (heads + 2 * groups):
            raise ValueError(
                f"{names['qkv']} has {weight.shape[0]} rows: queries of {heads} heads, and keys and values of {groups},"
                f" need a multiple of {heads + 2 * groups}"
            )
        size = weight.shape[0] // (heads + 2 * groups)
        sizes = [heads * size, groups * size, groups * size]
        found |= dict(zip(PARTS, zip(weight.split(sizes), bias.split(sizes), strict=True), strict=False))
    elif fused is not None:
        cut = fused.split([len(found[part][0]) for part in PARTS[:3]])
        found |= {part: (found[part][0], one) for part, one in zip(PARTS, cut, strict=False)}
    return found


def _bias(state, names, part, weight):
    """Bias of a part, zero where it has none; None for that of a fused part without weight."""
    name = _bias_name(names, part)
    if state.get(name) is None:
        return None if weight is None else weight.new_zeros(weight.shape[0])
    bias = _floats(state, name, "out")
    if weight is not None and len(bias) != len(weight):
        raise ValueError(f"{name} has {len(bias)} entries, its weight {len(weight)} rows: they must agree")
    return bias


def _bias_name(names, part):
    """Name of the bias of a part, or None."""
    name = names.get(f"{part}_bias")
    if part == "qkv" and names.get("query", "").endswith("q_proj_weight"):  # of torch, apart from its matrices
        return names["query"].removesuffix("q_proj_weight") + "in_proj_bias"
    if name is None and (names.get(part) or "").endswith("weight"):
        return names[part].removesuffix("weight") + "bias"
    return name


def _floats(state, name, *trailing):
    """A tensor of the state dict in float64; ValueError where it is quantised, and its scales would be needed."""
    value = state[name]
    if isinstance(value, Tensor) and not (value.is_floating_point() and value.itemsize > 1):
        raise ValueError(f"{name} has dtype {value.dtype}, and no scales are applied: give floats of 16 bits or more")
    return checks.double(name, value, *trailing)


def _cut(part, weight, bias, heads):
    """Weight (heads, h, in) and bias (heads, h)."""
    if weight.shape[0] % heads:
        raise ValueError(f"the {part} matrix has {weight.shape[0]} rows: {heads} heads need a multiple of that")
    return weight.unflatten(0, (heads, -1)), bias.unflatten(0, (heads, -1))
