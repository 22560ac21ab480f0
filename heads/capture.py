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
from .layers import disable_fastpath
from .weights import Weights, layer_layouts, possible_layouts, state_weights


class Layer(NamedTuple):
    """One run of an attention layer, at the query token of each input.

    name : str
    positions : Tensor of int, shape (n,), of the query tokens.
    attention : Tensor, shape (n, heads, T), as the model says, or None.
    mask : Tensor of bool, shape (n, T), True where a token is seen.
    tokens, queries : Tensor, shapes (n, T, d) and (n, e), or None where weights are not known either.
    weights : callable without arguments that returns :class:`heads.Weights`, a list of them, one for each order that
        the rows of a fused matrix may have; or None.
    modifiers : str, what makes the logits others than those of one matrix, as far as settings and names tell.
    """

    name: str
    positions: Tensor
    attention: Tensor | None
    mask: Tensor
    tokens: Tensor | None = None
    queries: Tensor | None = None
    weights: Callable[[], list[Weights]] | None = None
    modifiers: str = ""


def attention_layers(model, own_names=None):
    """Attention modules of a model and their layouts, by the prefix of their weights; {} where none is known."""
    try:
        layouts = layer_layouts(model.state_dict(), own_names)
    except ValueError:
        if own_names:
            raise
        return {}
    # The module that has the matrices of queries, keys and values, or their modules.
    place = {before: next(iter(layout.names.values())).removesuffix(".weight") for before, layout in layouts.items()}
    return {before: (model.get_submodule(place[before].rpartition(".")[0]), layouts[before]) for before in layouts}


@contextmanager
def capture_attention(model, receive, query=None, present=None, own_names=None):
    """Capture each attention layer of a model when it has run in the block: ``receive`` gets it as a :class:`Layer`.

    The query token is that at ``query``; when left out the last of a causal layer and of cross-attention, else the
    first, of those that are ``present`` (n, T). Names are of a known convention, or the user's ``own_names``, as
    :func:`heads.weights.layer_layouts` takes them.
    """
    hooks, state, calls = [], model.state_dict(), Counter()

    def ask(module, given, kwargs):
        return (given, kwargs | {"need_weights": True, "average_attn_weights": False})

    for before, (module, layout) in attention_layers(model, own_names).items():

        def seen(module, given, kwargs, output, before=before, layout=layout):
            called = dict(zip(inspect.signature(module.forward).parameters, given, strict=False)) | kwargs
            called["tokens"] = given[0] if given else next(iter(kwargs.values()))
            calls[before] += 1  # ALBERT has one layer for all
            layer = _layer(module, called, output, query, present)._replace(
                name=before.rstrip(".") + (f", call {calls[before]}" if calls[before] > 1 else ""),
                modifiers=logit_modifiers(model, module, called),
            )
            heads = module.num_heads if layer.attention is None else layer.attention.shape[1]
            orders = possible_layouts(layout, layer.attention is not None)
            receive(layer._replace(weights=lambda: _weights(model, module, orders, state, heads)))

        if isinstance(module, nn.MultiheadAttention):
            hooks.append(module.register_forward_pre_hook(ask, with_kwargs=True))
        hooks.append(module.register_forward_hook(seen, with_kwargs=True))
    try:
        with disable_fastpath():
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _layer(module, called, output, query, present):
    """The layer of a module that was called with these arguments, its tokens among them."""
    queries = called["tokens"].detach()
    keys = next((called[name].detach() for name in CROSS_KEYS if isinstance(called.get(name), Tensor)), queries)
    if isinstance(module, nn.MultiheadAttention) and not module.batch_first:
        queries, keys = queries.transpose(0, 1), keys.transpose(0, 1)
    cross = keys is not queries and keys.data_ptr() != queries.data_ptr()
    attention = _attention(output, queries.shape[:2], keys.shape[1])
    positions = query_positions(attention, query, present, cross, *queries.shape[:2])
    rows = torch.arange(len(queries))
    seen = None if attention is None else attention[rows, :, positions].double().cpu()
    if seen is not None:
        mask = (seen > 0).any(1)
    else:
        mask = torch.ones(keys.shape[:2], dtype=torch.bool) if present is None else torch.as_tensor(present).bool()
    return Layer("", positions, seen, mask, keys.cpu(), queries[rows, positions].cpu())


def _attention(output, shape, keys):
    """Attention (n, heads, T, S) among a module's outputs, by its shape and because its rows sum to 1; or None."""
    for array in output if isinstance(output, tuple | list) else ():
        if isinstance(array, Tensor) and array.ndim == 4 and array.shape[::2] == shape and array.shape[-1] >= keys:
            array = array.detach()[..., :keys]
            if (array >= 0).all() and (array.sum(-1) - 1).abs().max() < 1e-2:
                return array
    return None


def query_positions(attention, query, present, cross, inputs, length):
    """Positions (n,) of the query tokens."""
    here = torch.arange(length).expand(inputs, -1)
    fits = present is not None and tuple(present.shape) == (inputs, length)
    seen = torch.as_tensor(present).cpu().bool() if fits else torch.ones(inputs, length, dtype=torch.bool)
    if not seen.any(-1).all():
        empty = seen.any(-1).tolist().index(False)
        raise ValueError(f"input {empty} is padding from end to end: its mask must be 1 where it has tokens")
    causal = cross or (attention is not None and length > 1 and not attention.triu(1).any())
    if query is None:
        return torch.where(seen, here, -1).amax(-1) if causal else torch.where(seen, here, length).amin(-1)
    if not -length <= query < length:
        raise ValueError(f"query is {query}: there are {length} tokens, 0 to {length - 1}")
    return torch.full((inputs,), query % length)


def _weights(model, module, layouts, state, heads):
    """Weights by their shapes, whatever else the settings say: attention is checked afterwards."""
    scaling, kind = getattr(module, "scaling", None), getattr(getattr(model, "config", None), "model_type", "")
    scale = scaling if isinstance(scaling, float) else scale_of(kind)
    return [state_weights(state, heads, names=layout, scale=scale) for layout in layouts]


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
