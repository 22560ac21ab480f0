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
from .conventions import CROSS, FUSED, HARMLESS, INNER, LAYOUTS, OTHERWISE, PARTS, QKV, Layout


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
            " take state_weights, or fit_problem"
        )
    if layer.bias_k is not None or layer.add_zero_attn:
        raise ValueError("layer has add_bias_kv or add_zero_attn, tokens of its own: use fit_problem")
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
        matrix (out, in), and then "fused" for the order of its rows, such as "blocks" where all queries come first, or
        "per head" where query, key and value of a head stand together, as GPT-NeoX, BLOOM and Megatron have them; all
        are in ``heads.conventions.FUSED``. A bias has the name of its weight with "bias" for "weight", or that of
        "query_bias" and so on.
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
    if names is None:
        layout = _layout_at(state, prefix)
        _check_used(state, layout.names)
    else:
        layout = names if isinstance(names, Layout) else own_layout(state, names)
    if "qkv" in layout.names and layout.fused not in FUSED:
        orders = ", ".join(f"{name!r} where {order.words}" for name, order in FUSED.items())
        raise ValueError(
            f"the order of the rows of {layout.names['qkv']} is {layout.fused or 'not known'}: add fused to the names,"
            f" {orders}"
        )
    parts, groups = _parts(state, layout, checks.integer("heads", heads))
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
        raise ValueError(f"{layout.names['out']} has {out.shape[1]} columns: {need}")
    out = out.unflatten(1, (heads, -1)).transpose(0, 1)
    return Weights(query, query_bias, key, value, value_bias, out, out_bias, size**-0.5 if scale is None else scale)


def layer_layouts(state, own_names=None):
    """Layout of each attention layer of a known convention, by the prefix of its names.

    In the order in which they run, as far as names tell: one stack of layers behind the other, decoders last, by
    number, and in a block self-attention before cross-attention. ValueError where there is none, with the names that
    come nearest. The user's ``own_names``, by part, have * for the number: ``{"query": "blocks.*.wq.weight", ...}``.
    """
    if own_names:
        return _own_layouts(state, own_names)
    layouts = {}
    for layout in LAYOUTS:
        first = next(iter(layout.names.values()))
        for before in [name.removesuffix(first) for name in state if name.endswith(first)]:
            names = {part: before + name for part, name in layout.names.items() if before + name in state}
            needed = [part for part in layout.names if not part.endswith("bias")]
            if before[-1:] in ("", ".") and all(part in names for part in needed):
                layouts.setdefault(before, layout._replace(names=names))
    if not layouts:
        near = _near_names(state, [next(iter(layout.names.values())) for layout in LAYOUTS])
        raise ValueError(
            f"no layer of a known convention is there, the nearest names are {near}: give your own, to state_weights"
            " as names=, to a report as --names query=blocks.*.wq.weight,key=..., and value and out, or qkv, out and"
            " fused where the first three are one matrix"
        )
    return {before: layouts[before] for before in sorted(layouts, key=_place)}


def _place(before):
    """What sorts layers by their prefixes in the order in which they run."""
    stack, numbers = re.split(r"\d", before)[0], [int(digits) for digits in re.findall(r"\d+", before)]
    stack = stack if numbers else ""
    return "decoder" in stack, stack, numbers, bool(CROSS.search(before)), before


def _layout_at(state, prefix):
    """Layout of the layer behind a prefix; ValueError with the layers that there are, if there is none."""
    layouts = layer_layouts(state)
    for inner in INNER:
        if prefix + inner in layouts:
            return layouts[prefix + inner]
    raise ValueError(
        f"prefix is {prefix!r}, the layers are {checks.join_names(map(repr, layouts))}: give one of these, or names"
    )


def _own_layouts(state, own_names):
    """Map each layer's prefix to the layout that the user's names give it."""
    first = next(iter(own_names.values()))
    pattern = re.compile(re.escape(first).replace(r"\*", r"(\d+)"))
    numbers = [match.groups() for match in map(pattern.fullmatch, state) if match]
    layouts = {}
    for number in sorted(numbers, key=lambda digits: [*map(int, digits)]) or [()]:
        names = {part: reduce(lambda s, digits: s.replace("*", digits, 1), number, s) for part, s in own_names.items()}
        layouts[next(iter(names.values())).rpartition(".")[0].rpartition(".")[0] + "."] = own_layout(state, names)
    return layouts


def _near_names(state, wanted):
    """The names of a state dict that resemble the wanted ones, in a line."""
    near = [name for word in wanted for name in difflib.get_close_matches(word, list(state), 2, 0.3)]
    return checks.join_names(dict.fromkeys(near) or state)


def own_layout(state, names):
    """Layout that the user's names give; ValueError if they lack a part, or one is not in the state dict."""
    fused = names.get("fused", "")
    names = {part: name for part, name in names.items() if part != "fused"}
    wanted = ("qkv", "out") if "qkv" in names else PARTS
    if missing := [part for part in wanted if part not in names]:
        raise ValueError(f"names have no {missing[0]}: give {', '.join(wanted)}")
    for name in names.values():
        if name and name not in state:
            raise ValueError(f"the state dict has no {name!r}: the nearest names are {_near_names(state, [name])}")
    return Layout(names, fused, config=False)


def possible_layouts(layout, checked):
    """The layout, once for each order of its fused rows that is possible; one where attention will not be checked."""
    if not checked or layout.fused or "qkv" not in layout.names:
        return [layout]
    return [layout._replace(fused=order) for order in FUSED]


def _check_used(state, names):
    """Raise ValueError if the layer has a tensor whose part in the logits is not known."""
    used = {*names.values(), *(_bias_name(names, part) for part in (*PARTS, "qkv"))}
    scope = "".join(os.path.commonprefix(list(names.values())).rpartition(".")[:2])  # noqa: RUF071  of names
    used |= {scope + name for name in HARMLESS}
    for name in state:
        inside = "att" in scope.lower() and name.startswith(scope) and name not in used
        match = OTHERWISE.search(name)
        owner = "".join(name[: match.start()].rpartition(".")[:2]) if match else ""  # the layer, or all that share it
        if inside or (match and layer_pattern(scope).startswith(layer_pattern(owner))):
            raise ValueError(f"the layer has {name}, which may change its logits: use fit_problem, or give names")


def layer_pattern(name):
    """Name with its layer numbers replaced by *."""
    return re.sub(r"\d+", "*", name)


def _parts(state, layout, heads):
    """Weight (out, in) and bias (out,) of each part, by part, a fused one cut in three; and the groups of heads."""
    parts, names, fused = {}, layout.names, "qkv" in layout.names
    for part in ("qkv", "out") if fused else PARTS:
        weight = _floats(state, names[part], "out", "in")
        weight = weight.mT if layout.transposed else weight
        parts[part] = weight, _bias(state, _bias_name(names, part), len(weight))
    query_rows = parts["out"][0].shape[1] if fused else len(parts["query"][0])
    shared = (len(parts["qkv"][0]) - query_rows) // 2 if fused else len(parts["key"][0])
    groups = shared * heads // query_rows
    groups = heads if groups < 1 or heads % groups else groups
    if fused:
        weight, bias = parts.pop("qkv")
        size, over = divmod(len(weight), heads + 2 * groups)
        if over:
            need = f"{heads} heads with keys of {groups} need a multiple of {heads + 2 * groups}"
            raise ValueError(f"{names['qkv']} has {len(weight)} rows: {need}")
        axes, sizes = FUSED[layout.fused].axes, {"head": groups, "share": heads // groups, "entry": size}
        weights, biases = _cut_fused(weight, axes, sizes), _cut_fused(bias, axes, sizes)
        parts |= {part: (weights[part], biases[part]) for part in QKV}
    elif names.get("qkv_bias") in state:
        counts = [len(parts[part][0]) for part in QKV]
        biases = _bias(state, names["qkv_bias"], sum(counts)).split(counts)
        parts |= {part: (parts[part][0], bias) for part, bias in zip(QKV, biases, strict=True)}
    return parts, groups


def _cut_fused(rows, axes, sizes):
    """Rows of each part, by part and head by head, from rows whose axes stand in the order of an entry of `FUSED`.

    ``sizes`` has the number of heads of the keys, as "head", of entries of a head, and of heads that "share" a key.
    """
    axes = axes.split()
    (letters,) = set(axes) - set(sizes)
    place = axes.index(letters)
    axes.remove(letters)  # in its place are now the heads and entries of one part
    axes.insert(max(place, axes.index("head") + 1), "share")
    order = [axes.index(axis) for axis in ("head", "share", "entry")]
    shapes = [[1 if axis == "share" and letter != "q" else sizes[axis] for axis in axes] for letter in letters]
    blocks = rows.unflatten(0, (*shapes[0][:place], -1)).split([math.prod(shape[place:]) for shape in shapes], place)
    parts, by_letter = {}, {part[0]: part for part in QKV}
    for letter, shape, block in zip(letters, shapes, blocks, strict=True):
        parts[by_letter[letter]] = block.unflatten(place, shape[place:]).movedim(order, (0, 1, 2)).flatten(0, 2)
    return parts


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
    return checks.float64(name, value, *trailing)


def precision_note(tensors, computed):
    """A sentence where all matrices have numbers of 16 bits, since all is ``computed`` in more; "" where not."""
    some = [x.detach().flatten()[:256] for x in tensors if x.ndim > 1 and x.is_floating_point()]
    for dtype in (torch.bfloat16, torch.float16):
        if some and all(x.to(dtype).to(x.dtype).equal(x) for x in some):
            return f" The weights are {str(dtype).removeprefix('torch.')}; the report computes with them in {computed}."
    return ""


def _cut(part, weight, bias, heads):
    """Weight (heads, h, in) and bias (heads, h)."""
    if weight.shape[0] % heads:
        raise ValueError(f"the {part} matrix has {weight.shape[0]} rows: {heads} heads need a multiple of that")
    return weight.unflatten(0, (heads, -1)), bias.unflatten(0, (heads, -1))
