"""Read layers from weights and from arrays that were recorded of them, without a model that runs."""

from collections import ChainMap
from functools import partial
from pathlib import Path

import torch

from ._lib import checks
from .capture import Layer, is_causal, query_positions
from .files import check_logits, config_modifiers, count_heads, file_weights, hides_behind, read_state
from .weights import layer_layouts, possible_layouts, precision_note


def read_layers(options, data, add_layer):
    """Hand on every layer of a file of weights with the tokens that were recorded for it; a sentence on the data."""
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
    layer = None
    for number, (before, layout) in enumerate(layers.items()):
        end = "" if alone else f".{number}"
        if f"tokens{end}" not in data:
            raise ValueError(f"{path} has no tokens{end} for {before}: record what it receives, or give --prefix")
        layer = _file_layer(before, data, end, options)
        heads, known = options.heads, [layout if options.names else None]
        if layer.attention is None:
            check_logits(state, before, model, layer.tokens.shape[1], layout)
        else:  # any other change of the logits would show in the attention
            heads, known = layer.attention.shape[1], possible_layouts(layout, checked=True)
            _check_heads(before, layer, data[f"attention{end}"], options.heads or count_heads(model, before))
        weights = [file_weights(state, before, model, heads, layout) for layout in known]
        why, words = config_modifiers(model, before), data.get("texts")
        add_layer(layer._replace(weights=lambda weights=weights: weights, why=why, words=words))
    if layer is None:
        return ""
    return f"{len(layer.tokens)} inputs, recorded in {path.name}.{precision_note(state.values(), 'float64')}"


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
    causal = is_causal(attention, seen) if every else attention is None and hides_behind(options.model, before)
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
