"""See what the attention layers of a model receive and attend to while it runs, without changing what it computes."""

import inspect
import re
from collections import Counter
from collections.abc import Callable
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .conventions import CROSS_KEYS, OTHERWISE, changed_by, scale_of
from .layers import every_layer_called
from .weights import Weights, layer_layouts, possible_layouts, state_weights


class Layer(NamedTuple):
    """What was seen of an attention layer where one token of each input asks.

    name : str
    places : Tensor of int, shape (n,), of the tokens that ask.
    attention : Tensor, shape (n, heads, T), as the model says, or None.
    mask : Tensor of bool, shape (n, T), True where a token is seen.
    tokens, queries : Tensor, shapes (n, T, d) and (n, e), or None where weights are not known either.
    weights : callable without arguments that returns :class:`heads.Weights`, a list of them, one for each order that
        the rows of a fused matrix may have; or None.
    otherwise : str, why logits are not those of one matrix, as far as settings and names tell.
    """

    name: str
    places: Tensor
    attention: Tensor | None
    mask: Tensor
    tokens: Tensor | None = None
    queries: Tensor | None = None
    weights: Callable[[], list[Weights]] | None = None
    otherwise: str = ""


def attention_layers(model, own=None):
    """The modules of a model that attend, by what stands before the names of their weights; {} where none is known."""
    try:
        found = layer_layouts(model.state_dict(), own)
    except ValueError:
        if own:
            raise
        return {}
    # The module that has the matrices of queries, keys and values, or their modules.
    place = {before: next(iter(one.names.values())).removesuffix(".weight") for before, one in found.items()}
    return {before: (model.get_submodule(place[before].rpartition(".")[0]), found[before]) for before in found}


@contextmanager
def watched(model, receive, query=None, present=None, own=None):
    """While the block runs, hand each attention layer of a model to ``receive`` as a :class:`Layer`, when it has run.

    The token at ``query`` asks; when left out the last of a causal layer and of cross-attention, else the first, of
    those that are ``present`` (n, T). Names are of a known convention, or one's ``own``, as
    :func:`heads.weights.layer_layouts` takes them.
    """
    hooks, state, calls = [], model.state_dict(), Counter()

    def ask(module, given, kwargs):
        return (given, kwargs | {"need_weights": True, "average_attn_weights": False})

    for before, (module, layout) in attention_layers(model, own).items():

        def seen(module, given, kwargs, output, before=before, layout=layout):
            called = dict(zip(inspect.signature(module.forward).parameters, given, strict=False)) | kwargs
            called["tokens"] = given[0] if given else next(iter(kwargs.values()))
            calls[before] += 1  # ALBERT has one layer for all
            layer = _layer(module, called, output, query, present)._replace(
                name=before.rstrip(".") + (f", call {calls[before]}" if calls[before] > 1 else ""),
                otherwise=reasons(model, module, called),
            )
            heads = module.num_heads if layer.attention is None else layer.attention.shape[1]
            orders = possible_layouts(layout, layer.attention is not None)
            receive(layer._replace(weights=lambda: _weights(model, module, orders, state, heads)))

        if isinstance(module, nn.MultiheadAttention):
            hooks.append(module.register_forward_pre_hook(ask, with_kwargs=True))
        hooks.append(module.register_forward_hook(seen, with_kwargs=True))
    try:
        with every_layer_called():
            yield
    finally:
        for hook in hooks:
            hook.remove()


def _layer(module, called, output, query, present):
    """What is seen of a module that was called with such arguments, its tokens among them."""
    asking = called["tokens"].detach()
    keys = next((called[name].detach() for name in CROSS_KEYS if isinstance(called.get(name), Tensor)), asking)
    if isinstance(module, nn.MultiheadAttention) and not module.batch_first:
        asking, keys = asking.transpose(0, 1), keys.transpose(0, 1)
    cross = keys is not asking and keys.data_ptr() != asking.data_ptr()
    attention = _attention(output, asking.shape[:2], keys.shape[1])
    places = asking_places(attention, query, present, cross, *asking.shape[:2])
    rows = torch.arange(len(asking))
    seen = None if attention is None else attention[rows, :, places].double().cpu()
    if seen is not None:
        mask = (seen > 0).any(1)
    else:
        mask = torch.ones(keys.shape[:2], dtype=torch.bool) if present is None else torch.as_tensor(present).bool()
    return Layer("", places, seen, mask, keys.cpu(), asking[rows, places].cpu())


def _attention(output, asking, keys):
    """The attention (n, heads, T, S) among a module's outputs, told by its shape and by rows that sum to 1; or None."""
    for one in output if isinstance(output, tuple | list) else ():
        if isinstance(one, Tensor) and one.ndim == 4 and one.shape[::2] == asking and one.shape[-1] >= keys:
            one = one.detach()[..., :keys]
            if (one >= 0).all() and (one.sum(-1) - 1).abs().max() < 1e-2:
                return one
    return None


def asking_places(attention, query, present, cross, inputs, length):
    """Places (n,) of the tokens that ask."""
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
    told, kind = getattr(module, "scaling", None), getattr(getattr(model, "config", None), "model_type", "")
    scale = told if isinstance(told, float) else scale_of(kind)
    return [state_weights(state, heads, names=one, scale=scale) for one in layouts]


def reasons(model, module, called):
    """Why logits are not those of one matrix, in a few words; "" where nothing tells."""
    config = getattr(model, "config", None)
    found = {words: None for _, _, words in changed_by(config.to_dict() if hasattr(config, "to_dict") else {})}
    inside = " ".join(name for name, _ in module.named_modules())
    alibi = any("ALiBi" in words for words in found)
    if not alibi and (called.get("position_embeddings") is not None or "rotary" in inside):
        found["rotary positions"] = None
    if re.search(r"(?<![a-z])(q|k|query|key)_?(layer)?_?norm", inside):
        found["norms of queries and keys"] = None
    if OTHERWISE.search(inside) and not found:
        found[f"what {OTHERWISE.search(inside)[0]} does"] = None
    return " and ".join(found)
