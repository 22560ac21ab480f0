"""Capture what the attention layers of a model receive and attend to while it runs; what it computes stays the same."""

import inspect
import re
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .conventions import CROSS_KEYS, OTHERWISE, changed_by, scale_of
from .slopes import disable_fastpath
from .weights import Weights, layer_layouts, possible_layouts, state_weights

HIDDEN = -90  # at and below this what a mask adds to a logit hides the token: Swin adds -100
NONE = 1e-12  # attention up to which a token that a mask hides has none
ATTENTION = re.compile("(attention|attn)(?!.*(output|input|norm|embed|bias))", re.IGNORECASE)  # names of classes
CONTENT = re.compile("(decoder_)?input_ids|pixel|input_values|input_features|audio|image|visual")


class Layer(NamedTuple):
    """One run of an attention layer, at the query token of each input.

    name : str
    positions : Tensor of int, shape (n,), of the query tokens.
    attention : Tensor, shape (n, heads, T), as the model says, or None.
    mask : Tensor of bool, shape (n, T), True where a token is seen.
    tokens, queries : Tensor, shapes (n, T, d) and (n, e), or None where weights are not known either.
    weights : callable without arguments that returns :class:`heads.Weights`, a list of them, one for each order that
        the rows of a fused matrix may have; or None.
    why : str, why the weights alone may not give the attention, as far as settings and names tell.
    words : list of list of str, the tokens of each input, or None.
    cross : whether the query tokens are of another sequence.
    first : Tensor of int, shape (n,), of the first token that is no padding, or None where all have it at 0.
    """

    name: str
    positions: Tensor
    attention: Tensor | None
    mask: Tensor
    tokens: Tensor | None = None
    queries: Tensor | None = None
    weights: Callable[[], list[Weights]] | None = None
    why: str = ""
    words: list | None = None
    cross: bool = False
    first: Tensor | None = None


def attention_layers(model, own_names=None):
    """Name and layout of each attention layer of a model, by its module; None for a layout that is not known."""
    try:
        layouts = layer_layouts(model.state_dict(), own_names)
    except ValueError:
        if own_names:
            raise
        layouts = {}
    layers = {}
    for before, layout in layouts.items():  # the module that has the matrices of queries, keys and values
        weight = next(iter(layout.names.values())).removesuffix(".weight")
        layers[model.get_submodule(weight.rpartition(".")[0])] = before.rstrip("."), layout
    for name, module in reversed(list(model.named_modules())):  # the innermost first
        inner = any(part in layers for part in module.modules())
        if not inner and ATTENTION.search(type(module).__name__) and next(module.parameters(), None) is not None:
            layers[module] = name, None
    return layers


@contextmanager
def capture_attention(model, receive, leave_out=None, query=None, own_names=None, spell=None):
    """Capture each attention layer of a model when it has run in the block: ``receive`` gets it as a :class:`Layer`.

    The query token is that at ``query``; when left out the last of a causal layer and of cross-attention, else the
    first, of those that are no padding. Names are of a known convention, or the user's ``own_names``, as
    :func:`heads.weights.layer_layouts` takes them; ``spell`` turns a row of ``input_ids`` into words. A layer that
    fails does so alone: ``leave_out`` gets its name and the error.
    """
    layers, places = attention_layers(model, own_names), {module: name for name, module in model.named_modules()}
    state, calls, counts, hooks = model.state_dict(), {}, Counter(), []
    around = {module: [places[module][:end] for end in _ends(places[module])] for module in layers}

    def note(module, given, kwargs):
        calls[places[module]] = _arguments(module, given, kwargs)

    def ask(module, given, kwargs):
        asked = {"need_weights": True, "average_attn_weights": False}
        return (), _arguments(module, given, kwargs) | asked

    def seen(module, given, kwargs, output):
        name, layout = layers[module]
        counts[name] += 1
        name += f", call {counts[name]}" if counts[name] > 1 else ""  # ALBERT has one layer for all
        try:
            attention, called = find_attention(module, output), _arguments(module, given, kwargs)
            outside = [calls[place] for place in around[module] if place in calls]
            layer = _layer(attention, module, called, outside, query, spell)
            layer = layer._replace(name=name, why=_why(model, module, called, layer, layout))
            if layout is not None:
                layer = layer._replace(weights=lambda: _weights(model, module, layout, state, attention.shape[1]))
            receive(layer)
        except Exception as error:  # of this layer alone; the model itself runs on
            if leave_out is None:
                raise
            leave_out(name, error)

    for module in layers:
        if type(module) is nn.MultiheadAttention:
            hooks.append(module.register_forward_pre_hook(ask, with_kwargs=True))
        hooks.append(module.register_forward_hook(seen, with_kwargs=True))
    for place in {place for names in around.values() for place in names}:
        hooks.append(model.get_submodule(place).register_forward_pre_hook(note, with_kwargs=True))
    try:
        with disable_fastpath():
            yield
        for name in {name for name, _ in layers.values() if not counts[name]} if leave_out is not None else ():
            leave_out(name, ValueError("it did not run"))
    finally:
        for hook in hooks:
            hook.remove()


def _ends(name):
    """Lengths of the names of the modules around a module, the innermost first."""
    return [*(match.start() for match in reversed([*re.finditer(r"\.", name)])), 0]


def _arguments(module, given, kwargs):
    """Arguments of a call by name."""
    return dict(zip(inspect.signature(module.forward).parameters, given, strict=False)) | kwargs


def _content(called):
    """Names of the sequences that a module was given, such as input_ids and pixel_values."""
    return [name for name, array in called.items() if CONTENT.match(name) and isinstance(array, Tensor)]


def _present(outside, name, *shape):
    """Padding mask (n, T) of that name in the innermost call around a layer that has it, None where all is seen."""
    for called in outside:
        mask, other = called.get(name), called.get("decoder_input_ids")
        if other is None and tuple(getattr(mask, "shape", ())) == shape:
            return mask.cpu().bool()
        if _content(called):  # masks further out are of other sequences
            return None
    return None


def _words(outside, cross, shape, spell):
    """Words (n, T) of the keys: of the innermost call that was given a sequence, if it is one of words alone."""
    if cross:  # over what an encoder has read
        outside = [called | {"decoder_input_ids": None} for called in outside if "decoder_input_ids" in called]
    called = next(filter(_content, outside), {})
    if spell is None or _content(called) != ["input_ids"] or tuple(called["input_ids"].shape) != shape:
        return None
    return [spell(row) for row in called["input_ids"].tolist()]


def find_attention(module, output):
    """Attention (n, heads, T, S) among a module's outputs, in rows that sum to 1, or 0 where nothing is seen.

    With sinks they sum to less. Other sums are of other arrays, such as XLNet's attention, whose heads come last.
    """
    sinks, outputs = any("sink" in name for name, _ in module.named_parameters()), [output]
    while outputs:
        array = outputs.pop(0)
        outputs += array if isinstance(array, tuple | list) else ()
        if isinstance(array, Tensor) and array.ndim == 4 and array.is_floating_point() and array.numel():
            if array.isnan().any():
                bad = [name for name, part in module.named_parameters() if part.isnan().any()]
                raise ValueError(f"it gives NaN, which is in {', '.join(bad) or 'what it receives'}")
            sums = array.detach().float().sum(-1)
            whole = sums.max() < 1.01 if sinks else (((sums - 1).abs() < 0.01) | (sums == 0)).all()
            if (array >= 0).all() and whole and sums.any():
                if min(array.shape[1], array.shape[3]) > 1 and (array == array[:, :1]).all():
                    raise ValueError("its heads have one attention, as the mean over them, so nothing is known of each")
                return array.detach()
    raise ValueError("it gives no attention (inputs, heads, tokens, tokens), so nothing of it can be checked")


def _layer(attention, module, called, outside, query, spell):
    """The layer that was called with these arguments, and the modules around it with theirs."""
    (inputs, _, length, size), batch_first = attention.shape, getattr(module, "batch_first", None)
    arrays = [x.detach() for x in called.values() if isinstance(x, Tensor) and x.ndim == 3 and x.is_floating_point()]
    queries = arrays[0] if arrays else None
    others = [called[name].detach() for name in CROSS_KEYS if isinstance(called.get(name), Tensor)]
    keys = next((x for x in others + arrays if size in x.shape[:2]), queries)
    turned = arrays and queries.shape[:2] == (length, inputs) != (inputs, length)
    if batch_first is False or (batch_first is None and turned):
        queries, keys = queries.transpose(0, 1), keys.transpose(0, 1)
    if arrays and (queries.shape[:2] != (inputs, length) or keys.shape[:2] != (inputs, size)):
        shape = tuple(attention.shape)
        raise ValueError(f"its attention has shape {shape}, which is not over the tokens that it receives")
    cross = length != size or (keys is not queries and keys.data_ptr() != queries.data_ptr())
    present = _present(outside, "attention_mask", inputs, length)
    seen = _present(outside, "encoder_attention_mask", inputs, size) if cross else present
    masks = [x for name, x in called.items() if "mask" in name and "head" not in name and isinstance(x, Tensor)]
    masks += [x[..., :length, :] for x in module.buffers() if x.ndim == 4]  # GPT-Neo has its windows in one
    layer = queried(attention, query, present, seen, masks, cross)
    layer = layer._replace(words=_words(outside, cross, (inputs, size), spell))
    if arrays:
        layer = layer._replace(tokens=keys.cpu(), queries=queries[torch.arange(inputs), layer.positions].cpu())
    return layer


def _why(model, module, called, layer, layout):
    """Why the weights alone may not give the attention; "" where nothing tells."""
    if layer.attention.sum(-1).max() < 0.99:
        return "a part of the attention that goes to no token"
    unknown = "its weights are under names that are not known: --names tells them" if layout is None else ""
    return logit_modifiers(model, module, called) or unknown


def queried(attention, query, present, seen, masks=(), cross=False):
    """The query tokens of attention (n, heads, T, S), and what they see.

    ``present`` (n, T) and ``seen`` (n, S) are masks of padding, of the queries and of the keys, or None; ``masks`` are
    what the layer was called with. What is hidden is read from masks, since far tokens may have no attention by
    underflow; only that a layer is causal, which many do not say, is read from the attention of all its tokens. A token
    that has attention is seen, whatever a mask says.
    """
    inputs, _, length, size = attention.shape
    rows, attention = torch.arange(inputs), attention.cpu()
    present = torch.ones(inputs, length, dtype=torch.bool) if present is None else present
    causal = not cross and is_causal(attention, present)
    positions = query_positions(causal or cross, query, present)
    at = attention[rows, :, positions].double()
    mask = torch.ones(inputs, size, dtype=torch.bool) if seen is None else seen.clone()
    if causal:
        mask &= torch.arange(size) <= positions[:, None]
    for array in masks:
        read = _read_mask(array.detach().cpu(), attention, rows, positions)
        mask &= True if read is None else read
    first = None if seen is None else seen.long().argmax(-1)
    return Layer("", positions, at, mask | (at > NONE).any(1), cross=cross, first=first)


def _read_mask(mask, attention, rows, positions):
    """Where a mask lets the query tokens look (n, S); None where it fits neither way round."""
    inputs, heads, length, size = attention.shape
    if mask.ndim == 3:
        mask = mask.unflatten(0, (inputs, -1)) if len(mask) == inputs * heads > inputs else mask[:, None]
        if inputs % len(mask) == 0:  # one for each window of an image
            mask = mask.repeat(inputs // len(mask), 1, 1, 1)
    mask = mask[:, None, None] if mask.ndim == 2 and tuple(mask.shape) == (inputs, size) != (length, size) else mask
    try:
        mask = mask[..., :size].expand(inputs, -1 if mask.ndim == 4 else 1, length, size)[rows, :, positions]
    except (RuntimeError, IndexError):
        return None
    at = attention[rows, :, positions]
    shown = mask > HIDDEN if mask.is_floating_point() and not (mask == 1).any() else mask != 0
    for read in (shown, ~shown):  # of True some say that a token is seen, and some that it is hidden
        if not (at.masked_select(~read.expand_as(at)) > NONE).any():
            return read.any(1)
    return None


def is_causal(attention, present):
    """Whether no token that is no padding attends to one behind it; present is (n, T)."""
    if not 1 < attention.shape[2] == attention.shape[3]:
        return False
    real = present[:, None, :, None] & present[:, None, None, :]
    return not attention.masked_fill(~real, 0).triu(1).any()


def query_positions(last, query, present):
    """Positions (n,) of the query tokens among those that are ``present`` (n, T): the last, the first, or ``query``."""
    if not present.any(-1).all():
        empty = present.any(-1).tolist().index(False)
        raise ValueError(f"input {empty} is padding from end to end: its mask must be 1 where it has tokens")
    counts, query = present.sum(-1), (-1 if last else 0) if query is None else query
    least, few = (int(number) for number in counts.min(0))
    if not -least <= query < least:
        where = f" that are no padding in input {few}" if least < present.shape[1] else ""
        raise ValueError(f"query is {query}: there are {least} tokens{where}, 0 to {least - 1}")
    return (present & (present.cumsum(-1) == (query + counts * (query < 0) + 1)[:, None])).long().argmax(-1)


def _weights(model, module, layout, state, heads):
    """Weights by their shapes, whatever else the settings say: attention is checked afterwards."""
    scaling, kind = getattr(module, "scaling", None), getattr(getattr(model, "config", None), "model_type", "")
    scale = scaling if isinstance(scaling, float) else scale_of(kind)
    return [state_weights(state, heads, names=order, scale=scale) for order in possible_layouts(layout, True)]


def logit_modifiers(model, module, called):
    """What in a model makes the logits others than those of one matrix, in a few words; "" where nothing is known."""
    config = getattr(model, "config", None)
    modifiers = {words: None for _, _, words in changed_by(config.to_dict() if hasattr(config, "to_dict") else {})}
    inside = " ".join(name for name, _ in module.named_modules())
    alibi = any("ALiBi" in words for words in modifiers)
    if not alibi and (called.get("position_embeddings") is not None or "rotary" in inside):
        modifiers["rotary positions"] = None
    if re.search(r"(?<![a-z])(q|k|query|key)_?(layer)?_?norm", inside):
        modifiers["norms of queries and keys"] = None
    if OTHERWISE.search(inside) and not modifiers:
        modifiers[f"what {OTHERWISE.search(inside)[0]} does"] = None
    return " and ".join(modifiers)
