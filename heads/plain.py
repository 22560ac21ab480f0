"""Read attention from arrays: queries and keys as a layer multiplies them, or tokens and weights under torch's names.

An npz or safetensors has for each layer, numbered from 0, ``query.0`` (n, heads, T, h) and ``key.0`` (n, groups, S, h);
where it is not 1 / sqrt(h) ``scale.0``, where some are hidden ``mask.0``, for shape (n, heads, T, S), True where one is
seen, and if known ``attention.0`` (n, heads, T, S), with which the layer is compared. Or it has ``tokens`` (n, T, d)
that one layer of torch.nn receives, with ``mask`` (n, T) and ``attention`` (n, heads, T) of token 0, or of every token,
and a file has the layer's weights. ``texts`` (n, T) are the words of either. One layer needs no number.
"""

from pathlib import Path

import torch
from torch import nn

from ._lib import checks
from .files import read_layer
from .inputs import Source
from .turns import plain_turn
from .watch import Attention, Product

KNOWN = ("query", "key", "scale", "mask", "attention", "tokens", "texts", "labels", "readout")


def is_plain(arrays):
    """Whether arrays are those of attention, not inputs of a model."""
    return any(name.partition(".")[0] in ("query", "key", "tokens") for name in arrays)


def plain_source(options, arrays):
    """:class:`heads.inputs.Source` of arrays, whose calls are read and not run."""
    if unknown := [name for name in arrays if name.partition(".")[0] not in KNOWN]:
        raise ValueError(f"{options.data} has {unknown[0]}, which is not known: give {', '.join(KNOWN)}")
    arrays = {name: x[: options.inputs] if name.partition(".")[0] != "scale" else x for name, x in arrays.items()}
    ends = sorted(name.removeprefix("query") for name in arrays if name.partition(".")[0] == "query")
    if not ends and "tokens" not in arrays:
        raise ValueError(f"{options.data} has {checks.join_names(arrays)}: give query.0 and key.0, or tokens")
    if "tokens" in arrays:
        calls, turns = _of_weights(options, arrays)
    else:
        calls, turns = [_call(arrays, end, options.data) for end in ends], {}
    count, length = len(calls[0].query), calls[0].query.shape[2]
    masks = [x.bool() for name, x in arrays.items() if name.startswith("mask") and x.shape == (count, length)]
    mask = masks[0] if masks else torch.ones(count, length).bool()
    said = "Its attention is compared with what the arrays record."
    if any(call.attention is None for call in calls):
        said = "Its attention was compared with nothing: the arrays have none."
    says = [f"{count} inputs, recorded in {Path(options.data).name}.", said]
    return Source(
        nn.Identity(), {"attention_mask": mask.long()}, arrays.get("texts"), says=says, calls=calls, turns=turns
    )


def _call(arrays, end, path):
    """A call of queries and keys; ValueError where arrays do not go together."""
    if f"key{end}" not in arrays:
        raise ValueError(f"{path} has query{end} and no key{end}: give both")
    mask, seen = arrays.get(f"mask{end}"), arrays.get(f"attention{end}")
    mask = None if mask is None else mask.bool()
    padding = mask if mask is not None and mask.ndim == 2 else None
    query, key = (
        checks.float64(name, _without_padding(arrays[name], padding), "n", heads, "T", "h")
        for name, heads in ((f"query{end}", "heads"), (f"key{end}", "groups"))
    )
    if query.shape[1] % key.shape[1] or query.shape[-1] != key.shape[-1] or len(query) != len(key):
        raise ValueError(
            f"query{end} has shape {tuple(query.shape)}, key{end} {tuple(key.shape)}: they do not go together"
        )
    scale = float(arrays.get(f"scale{end}", torch.tensor(query.shape[-1] ** -0.5)))
    mask = mask if padding is None else padding[:, None, None]
    name = f"layer {end.lstrip('.') or 0}"
    return Attention(name, query, key, scale, mask, attention=None if seen is None else seen.double()).compared()


def _without_padding(x, mask):
    """Tokens (n, T, d), or (n, heads, T, h), with zeros where a mask (n, T) says padding, whatever stood there."""
    if mask is None or (len(x), x.shape[-2]) != mask.shape:
        return x
    return x.masked_fill(~(mask[..., None] if x.ndim == 3 else mask[:, None, :, None]), 0)


def _of_weights(options, arrays):
    """The call of one layer of torch.nn on tokens, and its turns."""
    mask = arrays["mask"].bool() if "mask" in arrays else None
    tokens, seen = _without_padding(arrays["tokens"], mask), arrays.get("attention")
    tokens = checks.float64("tokens", tokens, "n", "T", "d")
    heads = options.heads or (0 if seen is None else seen.shape[1])
    weights, prefix = read_layer(options.model, heads, options.prefix)
    sides = []
    for part, bias in ((weights.query, weights.query_bias), (weights.key, None)):
        module = nn.Linear(part.shape[-1], part.shape[:2].numel(), bias is not None, dtype=torch.float64)
        module.weight.data = part.flatten(0, 1)
        if bias is not None:
            module.bias.data = bias.flatten()
        sides.append(module)
    with torch.no_grad():
        query, key = (module(tokens).unflatten(-1, weights.query.shape[:2]).transpose(1, 2) for module in sides)
    name = prefix.rstrip(".") or "attention"
    call = Attention(
        name,
        query,
        key,
        weights.scale,
        None if mask is None else mask[:, None, None],
        products=[Product(tokens, module) for module in sides],
    )
    if seen is not None:  # of token 0 alone: the others are what is computed
        given = call.shares()
        given[:, :, slice(None) if seen.ndim == 4 else 0] = seen.double()
        call.attention = given
    return [call.compared()], {name: tuple(plain_turn(module, *weights.query.shape[:2]) for module in sides)}
