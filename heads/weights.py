"""Read the weights of an attention layer, head by head, from a torch layer or a state dict under any common names."""

import difflib
import math
import os
import re
from functools import reduce
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ._lib import checks
from .conventions import FUSED, HARMLESS, INNER, LAYOUTS, OTHERWISE, PARTS, Layout


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
            f"layer is a {type(layer).__name__}: give a MultiheadAttention or TransformerEncoderLayer of torch.nn, or"
            " take state_weights, or recorded_problem"
        )
    if layer.bias_k is not None or layer.add_zero_attn:
        raise ValueError("layer has add_bias_kv or add_zero_attn, tokens of its own: use recorded_problem")
    return state_weights(layer.state_dict(), layer.num_heads)


def state_weights(state, heads, prefix="", names=None, scale=None):
    """Weights of all heads of one attention layer in a state dict, as :class:`Weights`.

    Shapes say how many heads share their keys and values.
    The conventions of PyTorch, of Hugging Face's BERT, ViT, GPT-2 and Llama, and of timm are known by their names.
    ValueError if names are unknown (the nearest are listed), shapes do not fit the heads, an entry is not finite,
    weights are quantised, or, without ``names``, the layer has tensors that are not used, as a norm of its queries.

    Parameters
    ----------
    state : dict of str to Tensor
    heads : int
        That the layer has.
    prefix : str
        In front of the names, such as ``"encoder.layer.3."``.
    names : dict, optional
        Another convention: full names by part, "query", "key", "value" and "out", or "qkv" for the first three in one
        matrix (out, in), and then "fused" for the order of its rows: "blocks" where all queries come first, "per head"
        where query, key and value of a head stand together, as GPT-NeoX, BLOOM and Megatron have them. A bias has the
        name of its weight with "bias" for "weight", or that of "query_bias" and so on.
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
        checks.number("scale", scale, lambda one: one is not True and 0 < one < math.inf, "give a number above 0")
    if names is None:
        layout = _layout_at(state, prefix)
        _check_used(state, layout.names)
    else:
        layout = names if isinstance(names, Layout) else own_layout(state, names)
    if "qkv" in layout.names and layout.fused not in FUSED:
        raise ValueError(
            f"the order of the rows of {layout.names['qkv']} is {layout.fused or 'not known'}: add fused to the names,"
            f" {FUSED[0]!r} where all queries come first, {FUSED[1]!r} where those of a head stand with its keys"
        )
    found, groups = _parts(state, layout, checks.whole("heads", heads))
    query, query_bias = _cut("query", *found["query"], heads)
    key, value, value_bias = (
        one.repeat_interleave(heads // groups, 0)
        for one in (_cut("key", *found["key"], groups)[0], *_cut("value", *found["value"], groups))
    )
    size, width = query.shape[1], value.shape[1]
    if size != key.shape[1]:
        raise ValueError(f"queries of a head have {size} entries, keys {key.shape[1]}: give the layer's heads")
    out, out_bias = found["out"]
    if out.shape[1] != heads * width:
        need = f"{heads} heads of {width} values need {heads * width}"
        raise ValueError(f"{layout.names['out']} has {out.shape[1]} columns: {need}")
    out = out.unflatten(1, (heads, -1)).transpose(0, 1)
    return Weights(query, query_bias, key, value, value_bias, out, out_bias, size**-0.5 if scale is None else scale)


def layer_layouts(state, own=None):
    """Layout of each attention layer of a known convention, by what stands before its names.

    In the order of their numbers; ValueError where there is none, with the names that come nearest. Names of one's
    ``own``, by part, have * for the number of the layer: ``{"query": "blocks.*.wq.weight", ...}``.
    """
    if own:
        return _own_layouts(state, own)
    found = {}
    for layout in LAYOUTS:
        first = next(iter(layout.names.values()))
        for before in [name.removesuffix(first) for name in state if name.endswith(first)]:
            names = {part: before + name for part, name in layout.names.items() if before + name in state}
            needed = [part for part in layout.names if not part.endswith("bias")]
            if before[-1:] in ("", ".") and all(part in names for part in needed):
                found.setdefault(before, layout._replace(names=names))
    if not found:
        near = _nearest(state, [next(iter(layout.names.values())) for layout in LAYOUTS])
        raise ValueError(
            f"no layer of a known convention is there, the nearest names are {near}: give your own, to state_weights"
            " as names=, to a report as --names query=blocks.*.wq.weight,key=..., and value and out, or qkv, out and"
            " fused where the first three are one matrix"
        )
    return dict(sorted(found.items(), key=lambda one: ([int(word) for word in re.findall(r"\d+", one[0])], one[0])))


def _layout_at(state, prefix):
    """Layout of the layer behind a prefix; ValueError with the layers that there are, if there is none."""
    found = layer_layouts(state)
    for inner in INNER:
        if prefix + inner in found:
            return found[prefix + inner]
    raise ValueError(f"prefix is {prefix!r}, the layers are {listed(map(repr, found))}: give one of these, or names")


def _own_layouts(state, own):
    """Map each layer's prefix to the layout that the user's names give it."""
    first = next(iter(own.values()))
    pattern = re.compile(re.escape(first).replace(r"\*", r"(\d+)"))
    numbers = [found.groups() for found in map(pattern.fullmatch, state) if found]
    found = {}
    for number in sorted(numbers, key=lambda one: [*map(int, one)]) or [()]:
        names = {part: reduce(lambda text, one: text.replace("*", one, 1), number, name) for part, name in own.items()}
        found[next(iter(names.values())).rpartition(".")[0].rpartition(".")[0] + "."] = own_layout(state, names)
    return found


def listed(names, most=6):
    """The first of some names in a line."""
    names = list(names)
    return (", ".join(names[:most]) or "none") + (f" and {len(names) - most} more" if len(names) > most else "")


def _nearest(state, wanted):
    """Names of a state dict that are nearest to some, in a line."""
    near = {one: None for name in wanted for one in difflib.get_close_matches(name, list(state), 2, 0.3)}
    return listed(near or state)


def own_layout(state, names):
    """Layout that the user's names give; ValueError if they lack a part, or one is not in the state dict."""
    fused = names.get("fused", "")
    names = {part: name for part, name in names.items() if part != "fused"}
    wanted = ("qkv", "out") if "qkv" in names else PARTS
    if missing := [part for part in wanted if part not in names]:
        raise ValueError(f"names have no {missing[0]}: give {', '.join(wanted)}")
    for name in names.values():
        if name and name not in state:
            raise ValueError(f"the state dict has no {name!r}: the nearest names are {_nearest(state, [name])}")
    return Layout(names, fused)


def possible_layouts(layout, checked):
    """The layout, once for each order of its fused rows that is possible; one where attention will not be checked."""
    if not checked or layout.fused or "qkv" not in layout.names:
        return [layout]
    return [layout._replace(fused=order) for order in FUSED]


def _check_used(state, names):
    """Raise ValueError if the layer has a tensor of which nothing here knows what it does."""
    used = {*names.values(), *(_bias_name(names, part) for part in (*PARTS, "qkv"))}
    scope = "".join(os.path.commonprefix(list(names.values())).rpartition(".")[:2])  # noqa: RUF071  of names
    used |= {scope + name for name in HARMLESS}
    for name in state:
        inside = "att" in scope.lower() and name.startswith(scope) and name not in used
        found = OTHERWISE.search(name)  # in the layer, or where all layers share it
        if inside or (found and stem(scope).startswith(stem("".join(name[: found.start()].rpartition(".")[:2])))):
            raise ValueError(f"the layer has {name}, which may change its logits: use recorded_problem, or give names")


def stem(name):
    """A name without its numbers: what one layer of a stack has, such as T5's table of biases, goes for all of them."""
    return re.sub(r"\d+", "*", name)


def _parts(state, layout, heads):
    """Weight (out, in) and bias (out,) of each part, by part, a fused one cut in three; and the groups of heads."""
    found, names, fused = {}, layout.names, "qkv" in layout.names
    for part in ("qkv", "out") if fused else PARTS:
        weight = _floats(state, names[part], "out", "in")
        weight = weight.mT if layout.transposed else weight
        found[part] = weight, _bias(state, _bias_name(names, part), len(weight))
    asking = found["out"][0].shape[1] if fused else len(found["query"][0])
    shared = (len(found["qkv"][0]) - asking) // 2 if fused else len(found["key"][0])
    groups = shared * heads // asking
    groups = heads if groups < 1 or heads % groups else groups
    if fused:
        weight, bias = found.pop("qkv")
        size, over = divmod(len(weight), heads + 2 * groups)
        if over:
            need = f"{heads} heads with keys of {groups} need a multiple of {heads + 2 * groups}"
            raise ValueError(f"{names['qkv']} has {len(weight)} rows: {need}")
        counts = [heads // groups, 1, 1] if layout.fused == "per head" else [heads, groups, groups]
        cut = [_cut_fused(one, counts, size) for one in (weight, bias)]
        found |= dict(zip(PARTS, zip(*cut, strict=True), strict=False))
    elif names.get("qkv_bias") in state:
        sizes = [len(found[part][0]) for part in PARTS[:3]]
        biases = _bias(state, names["qkv_bias"], sum(sizes)).split(sizes)
        found |= {part: (found[part][0], bias) for part, bias in zip(PARTS, biases, strict=False)}
    return found, groups


def _cut_fused(rows, counts, size):
    """Rows of queries, keys and values, from rows that repeat so many heads of each, each of a size."""
    groups = rows.unflatten(0, (-1, sum(counts) * size)).split([count * size for count in counts], 1)
    return [group.flatten(0, 1) for group in groups]


def _bias(state, name, rows):
    """A bias of so many entries, zero where there is none."""
    if state.get(name) is None:
        return torch.zeros(rows, dtype=torch.float64)
    bias = _floats(state, name, "out")
    if len(bias) != rows:
        raise ValueError(f"{name} has {len(bias)} entries, its weight {rows} rows: they must agree")
    return bias


def _bias_name(names, part):
    """Name of the bias of a part, or None."""
    name = names.get(part) or ""
    return names.get(f"{part}_bias", name.removesuffix("weight") + "bias" if name.endswith("weight") else None)


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
