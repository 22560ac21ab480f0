"""Read layers from weights and from arrays that were recorded of them, without a model that runs."""

import argparse
from collections import ChainMap
from functools import partial
from pathlib import Path

import torch

from ._lib import checks
from .agreement import agrees
from .bits import head_logits
from .capture import Layer, is_causal, query_positions
from .conventions import CROSS
from .files import check_logits, config_modifiers, count_heads, file_weights, hides_behind, read_state
from .weights import layer_layouts, possible_layouts, precision_note

FEW = 4  # inputs, on which arrays of another layer are tried


class OrderError(ValueError):
    """Arrays are matched to the wrong layers, so that nothing can be reported."""


def read_layers(options, data, add_layer):
    """Hand on every layer of a file of weights with the tokens that were recorded for it.

    A sentence on the data, and the layers that were left out, with reasons: one that fails does so alone.
    """
    model, path = Path(options.model), Path(options.data)
    state = _state(model)
    layers = {
        name: layout for name, layout in layer_layouts(state, options.names).items() if name.startswith(options.prefix)
    }
    alone = "tokens" in data
    if alone and len(layers) > 1:
        raise ValueError(
            f"{path} has tokens of one layer, {model} has {len(layers)}: give tokens.0, tokens.1, ... or --prefix"
        )
    ends = {before: "" if alone else f".{number}" for number, before in enumerate(layers)}
    _check_arrays(options, data, ends)
    left_out = {}
    for before, layout in layers.items():
        try:
            layer, weights = _with_weights(state, before, layout, data, ends[before], options)
            _check_order(state, layers, layer, weights, data, ends, options)
            why, words = config_modifiers(model, before), data.get("texts")
            add_layer(layer._replace(weights=lambda weights=weights: weights, why=why, words=words))
        except OrderError:
            raise
        except ValueError as error:
            left_out[before.rstrip(".")] = str(error)
    if left_out and len(left_out) == len(layers):
        raise ValueError(next(iter(left_out.values())))
    if not layers:
        return "", {}
    count = min(options.inputs, len(data[f"tokens{next(iter(ends.values()))}"]))
    which = "" if alone else f" Its arrays by layer: {_matched(ends)}."
    return f"{count} inputs, recorded in {path.name}.{which}{precision_note(state.values(), 'float64')}", left_out


def _matched(ends):
    """Which array is of which layer, in a line."""
    return ", ".join(f"tokens{end}: {before.rstrip('.')}" for before, end in ends.items())


def _check_arrays(options, data, ends):
    """Raise ValueError where arrays of a layer are missing, or arrays are there that nothing takes."""
    path = options.data
    for before, end in ends.items():
        if f"tokens{end}" not in data:
            raise ValueError(f"{path} has no tokens{end} for {before}: record what it receives, or give --prefix")
        if CROSS.search(before) and f"queries{end}" not in data:
            raise ValueError(
                f"{path} has no queries{end} for {before}, cross-attention, whose queries are none of its tokens: give"
                f" them; arrays are numbered as layers run ({_matched(ends)})"
            )
    taken = {f"{name}{end}" for end in ends.values() for name in ("tokens", "attention", "queries")}
    taken |= {"query", "mask", "texts"} | ({"labels", "readout"} if "" in ends.values() else set())
    if ends and (unused := [name for name in data if name not in taken]):
        raise ValueError(
            f"{path} has {checks.join_names(unused, 8)}, which no layer takes: leave it out, or mend its name"
            f" ({_matched(ends)})"
        )


def _with_weights(state, before, layout, data, end, options):
    """A layer at the query token of each input, and its weights, once for each order that they may have."""
    model, layer = Path(options.model), _file_layer(before, data, end, options)
    heads, known = options.heads, [layout if options.names else None]
    if layer.attention is None:
        check_logits(state, before, model, layer.tokens.shape[1], layout)
    else:  # any other change of the logits would show in the attention
        heads, known = layer.attention.shape[1], possible_layouts(layout, checked=True)
        _check_heads(before, layer, data[f"attention{end}"], options.heads or count_heads(model, before))
    return layer, [file_weights(state, before, model, heads, layout) for layout in known]


def _check_order(state, layers, layer, weights, data, ends, options):
    """Raise OrderError if a layer's weights give the attention that was recorded for another, neither giving its own.

    Even attention tells nothing, which many weights give.
    """
    if layer.attention is None or _fits(layer, weights):
        return
    few = argparse.Namespace(**vars(options) | {"inputs": min(options.inputs, FEW)})
    for before, end in ends.items():
        if before.rstrip(".") == layer.name or f"attention{end}" not in data:
            continue
        try:
            other = _file_layer(f"{layer.name}.", data, end, few)
            fits = _fits(other, weights) and not _fits(other, [w._replace(scale=0.0) for w in weights])
            if not fits or _fits(*_with_weights(state, before, layers[before], data, end, few)):
                continue
        except ValueError:  # arrays that a layer cannot take
            continue
        raise OrderError(
            f"attention{end} is what {layer.name} gives on tokens{end}, which are matched to {before.rstrip('.')}:"
            f" number arrays as layers run ({_matched(ends)})"
        )


def _fits(layer, weights):
    """Whether the weights, in one of their orders, give the attention of all heads of a layer."""
    tokens, queries = layer.tokens, layer.queries
    sizes = layer.attention.shape[1], tokens.shape[-1], queries.shape[-1]
    return any(
        sizes == (len(one.query), one.key.shape[-1], one.query.shape[-1])
        and all(
            agrees(head_logits(one, head, tokens, queries).masked_fill(~layer.mask, -torch.inf), attention)
            for head, attention in enumerate(layer.attention.unbind(1))
        )
        for one in weights
    )


def _check_heads(before, layer, attention, heads):
    """Raise ValueError where attention is of other heads, or may be the mean of all, which torch's layers return."""
    inputs, count, length = attention.shape[0], *layer.attention.shape[1:]
    if attention.ndim == 3 and count == length != heads:
        raise ValueError(
            f"attention of {before} has shape {tuple(attention.shape)}, as of all tokens in the mean over heads: record"
            f" it by average_attn_weights=False, shape ({inputs}, heads, {length}), or give --heads"
        )
    if heads not in (0, count):
        raise ValueError(f"heads of {before} are {heads}, its attention has {count}: leave --heads out, or mend it")


def _file_layer(before, data, end, options):
    """A layer of a file, at the query token of each input."""
    given = partial(_given, data, options.inputs)
    tokens = given(f"tokens{end}", inputs=None, tokens=None, width=None)
    inputs, length = tokens.shape[:2]
    query, mask = given("query", inputs=inputs), given("mask", inputs=inputs, tokens=length)
    seen = torch.ones(inputs, length, dtype=torch.bool) if mask is None else mask.bool()
    first = seen.long().argmax(-1)
    attention, rows = data.get(f"attention{end}"), torch.arange(inputs)
    every = {"queries": length} if attention is not None and attention.ndim == 4 else {}
    attention = given(f"attention{end}", inputs=inputs, heads=None, **every, tokens=length)
    causal = is_causal(attention, seen) if every else hides_behind(options.model, before)
    if query is None:
        positions = query_positions(causal, options.query, seen)
    elif ((query != query.round()) | (query < -length) | (query >= length)).any():
        raise ValueError(f"query is {checks.shown(query.tolist())}: there are {length} tokens, 0 to {length - 1}")
    else:
        positions = query.long() % length
    behind = torch.arange(length) > positions[:, None]
    if attention is not None:
        attention = attention[rows, :, positions] if every else attention
        sums = attention.sum(-1)
        if (attention < 0).any() or sums.max() > 1.01 or sums.min() < 0.01:
            raise ValueError(f"attention{end} is below 0, or its rows do not sum to 1: record it after the softmax")
        causal = causal or (not every and not attention.masked_select(behind[:, None]).any())
    seen = seen & ~behind if causal else seen
    seen = seen if attention is None else seen | (attention > 0).any(1)
    queries = given(f"queries{end}", inputs=inputs, width=None)
    return Layer(
        before.rstrip("."), positions, attention, seen, tokens, tokens[rows, positions] if queries is None else queries,
        cross=queries is not None, first=first,
    )  # fmt: skip


def _given(data, most, name, **sizes):
    """The first entries of an array in float64, None where there is none; ValueError unless it has known sizes."""
    if name not in data:
        return None
    array = data[name]
    array = checks.float64(name, array[:most] if array.ndim else array, *sizes)
    if any(size not in (None, length) for size, length in zip(sizes.values(), array.shape, strict=True)):
        wanted = ", ".join(word if size is None else f"{size} {word}" for word, size in sizes.items())
        raise ValueError(f"{name} has shape {tuple(array.shape)}: give {wanted}")
    return array


def _state(path):
    """Weights of a file, or of all files of a folder."""
    if not path.is_dir():
        return read_state(path)
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise ValueError(f"{path} has no safetensors: give the file of weights")
    return ChainMap(*map(read_state, files))
