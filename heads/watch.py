"""Watch a model attend: queries, keys, mask and scale as its own attention receives them, layer by layer.

A model of transformers hands them to a function that is registered with its two interfaces, of attention and of masks;
any other module of torch is seen where it calls ``scaled_dot_product_attention``. Both get queries and keys as they are
used: after rotary positions, norms and grouping. What the model itself computes stays the same.
"""

import inspect
import sys
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from .slopes import disable_fastpath

NAME = "attention_selects"  # under which transformers knows the function
HIDDEN = -1e4  # at and below this what a mask adds to a logit hides the token
EXACT = 1e-5  # largest difference of an entry from the model's own attention
_watching = []  # what receives calls, the innermost last


class Refused(ValueError):
    """What is watched must not be reported."""


class Product(NamedTuple):
    """What a linear module received, inputs (n, T, e), and the module."""

    inputs: Tensor
    module: nn.Module


@dataclass(eq=False)
class Attention:
    """One call of an attention layer.

    Attributes
    ----------
    query, key : Tensor, shapes (n, heads, T, h) and (n, groups, S, h), as they are multiplied; with their graph
        where it exists; heads share the keys of their group.
    mask : Tensor of bool or None, for shape (n, heads, T, S), True where a token is seen.
    bias : Tensor or None, for shape (n, heads, T, S), added to the logits, such as that of relative positions.
    cap : float or None; logits are cap * tanh(products / cap) before the bias.
    sinks : Tensor or None, for shape (n, heads, T, 1), logits of what takes attention and is no token.
    attention : Tensor or None, shape (n, heads, T, S), as the model gives it.
    off : Tensor or None, shape (heads,), largest difference from what the model gives.
    products : list of Product, of the linear modules that have run since the attention before.
    """

    name: str
    query: Tensor
    key: Tensor
    scale: float
    mask: Tensor | None = None
    bias: Tensor | None = None
    cap: float | None = None
    sinks: Tensor | None = None
    attention: Tensor | None = None
    off: Tensor | None = None
    module: nn.Module | None = None
    products: list = ()

    @cached_property
    def keys(self):
        """Keys (n, heads, S, h), those of a group once for each of its heads."""
        return self.key.detach().repeat_interleave(self.query.shape[1] // self.key.shape[1], 1)

    @cached_property
    def logits(self):
        """Logits (n, heads, T, S), -inf for hidden tokens."""
        logits = (self.query.detach() @ self.keys.mT) * self.scale
        if self.cap is not None:
            logits = self.cap * (logits / self.cap).tanh()
        logits = logits if self.bias is None else logits + self.bias
        return logits if self.mask is None else logits.masked_fill(~self.mask, -torch.inf)

    def shares(self):
        """Attention (n, heads, T, S) that follows from queries and keys; zero where nothing is seen."""
        logits = self.logits
        if self.sinks is not None:
            sinks = self.sinks.to(logits).expand(*logits.shape[:-1], 1)
            return torch.cat([logits, sinks], -1).softmax(-1)[..., :-1].nan_to_num(0.0)
        return logits.softmax(-1).nan_to_num(0.0)

    def of_rows(self, rows):
        """The same call of some inputs."""

        def some(x):
            return x if x is None or len(x) == 1 < len(self.query) else x[rows]

        parts = {name: some(getattr(self, name)) for name in ("query", "key", "mask", "bias", "attention")}
        return replace(self, **parts, products=[p._replace(inputs=p.inputs[rows]) for p in self.products])

    def compared(self):
        """Fill in how far its attention is from the model's; sinks that the model adds elsewhere are left out.

        Rows of queries that see nothing, as of padding, do not count.
        """
        if self.attention is None:
            return self
        self.off = self._difference()
        if self.sinks is not None and self.off.max() > EXACT:
            sinks, self.sinks = self.sinks, None
            off = self._difference()
            self.sinks, self.off = (None, off) if off.max() < self.off.max() else (sinks, self.off)
        return self

    def _difference(self):
        apart = (self.shares() - self.attention).abs().amax(-1).where(self.logits.isfinite().any(-1), 0.0)
        return apart.transpose(0, 1).flatten(1).amax(1).nan_to_num(torch.inf)


def attention(query, key, mask=None, scale=None, bias=None):
    """Attend by hand: the attention (n, heads, T, S) that follows, which a block of :func:`watching` sees.

    Parameters
    ----------
    query, key : Tensor, shapes (n, heads, T, h) and (n, groups, S, h), after rotary positions and norms.
    mask : Tensor of bool, for shape (n, heads, T, S), optional; True where a token is seen.
    scale : float, optional; 1 / sqrt(h) when left out.
    bias : Tensor, for shape (n, heads, T, S), optional; added to the logits.

    Examples
    --------
    >>> query, key = torch.randn(1, 2, 3, 4), torch.randn(1, 1, 3, 4)
    >>> with watching() as calls:
    ...     shares = attention(query, key, mask=torch.ones(3, 3).tril().bool())
    >>> shares.shape, calls[0].query is query
    (torch.Size([1, 2, 3, 3]), True)
    """
    shapes = f"query has shape {tuple(query.shape)}, key {tuple(key.shape)}"
    if query.ndim != 4 or key.ndim != 4:
        raise ValueError(f"{shapes}: give (inputs, heads, tokens, size of a head)")
    if query.shape[1] % key.shape[1] or query.shape[-1] != key.shape[-1] or len(query) != len(key):
        raise ValueError(f"{shapes}: give heads of one size, and equally many for each group of keys")
    if mask is not None and mask.dtype != torch.bool:
        raise ValueError(f"mask has dtype {mask.dtype}: give bool, True where a token is seen")
    call = Attention("", query, key, query.shape[-1] ** -0.5 if scale is None else float(scale), mask, bias)
    call.attention = shares = call.shares()
    _received(call, sys._getframe(1))
    return shares


@contextmanager
def watching(model=None, receive=None):
    """Watch every attention that runs in the block.

    A list of :class:`Attention`, which grows with each call; with ``receive``, a function of one, nothing is kept.

    Parameters
    ----------
    model : Module, optional; its names are those of the calls, its linear modules are watched for distances in K and Q.
    receive : callable, optional

    Examples
    --------
    >>> query = torch.randn(2, 4, 5, 8)
    >>> with watching() as calls:
    ...     output = functional.scaled_dot_product_attention(query, query, query, is_causal=True)
    >>> calls[0].shares()[0, 0, 0].tolist(), bool(calls[0].off.max() < 1e-5)
    ([1.0, 0.0, 0.0, 0.0, 0.0], True)
    """
    calls = []
    state = _State(receive or calls.append, model)
    with ExitStack() as stack:
        stack.enter_context(disable_fastpath())
        if model is not None:
            for module in model.modules():
                if is_linear(module):
                    stack.callback(module.register_forward_hook(state.keep).remove)
        _watching.append(state)
        stack.callback(_watching.remove, state)
        stack.enter_context(_SeeAttention())
        yield calls


def is_linear(module):
    """Whether a module multiplies by one matrix: torch's Linear, and the Conv1D of transformers."""
    return isinstance(module, nn.Linear) or type(module).__name__ == "Conv1D"


class _State:
    """Who receives calls, the names of a model's modules, and the products since the last call."""

    def __init__(self, receive, model):
        self.receive, self.products, self.counts, self.last = receive, [], Counter(), None
        self.names = {} if model is None else {module: name for name, module in model.named_modules()}

    def keep(self, module, given, output):
        inputs = given[0].detach()
        self.products.append(Product(inputs[None] if inputs.ndim == 2 else inputs, module))  # patches of one image

    def name(self, module):
        name = self.names.get(module) or ("attention" if module is None else type(module).__name__)
        windows = module in self.names and module is self.last and not self.products  # the next part of the same call
        self.last, self.counts[name] = module, self.counts[name] + (not windows)
        return name if self.counts[name] == 1 else f"{name}, call {self.counts[name]}"


def _received(call, frame):
    """Hand a call to the innermost block that watches, with the name of the module in whose frames it was made."""
    if not _watching:
        return
    state = _watching[-1]
    while call.module is None and frame is not None:
        module = frame.f_locals.get("self")
        call.module = module if isinstance(module, nn.Module) else None
        frame = frame.f_back
    call.name, call.products, state.products = state.name(call.module), state.products, []
    state.receive(call.compared())


class _SeeAttention(TorchFunctionMode):
    """Sees the calls of scaled_dot_product_attention."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        output = function(*args, **(kwargs or {}))
        if function is functional.scaled_dot_product_attention:
            _see(output, sys._getframe(1), *args, **(kwargs or {}))
        if function is functional.multi_head_attention_forward:
            given = inspect.signature(function).bind(*args, **(kwargs or {}))
            given.apply_defaults()
            _see_torchs_layer(output[0], given.arguments, sys._getframe(1))
        return output


def _see(out, at, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
    """Receive a call of torch's own attention, compared by its output."""
    if query.ndim == 3:
        query, key, value, out = (x[:, None] for x in (query, key, value, out))
    if query.ndim != 4:
        return
    call = Attention("", query, key, query.shape[-1] ** -0.5 if scale is None else scale)
    if is_causal:
        call.mask = torch.ones(query.shape[-2], key.shape[-2], dtype=torch.bool, device=query.device).tril()
    elif attn_mask is not None:
        call.mask, call.bias = split_mask(attn_mask)
    values = value.detach().repeat_interleave(query.shape[1] // value.shape[1], 1)
    apart = (call.shares() @ values - out.detach()).abs().amax(-1).where(call.logits.isfinite().any(-1), 0.0)
    call.off = (apart / values.abs().amax().clamp(min=1e-30)).transpose(0, 1).flatten(1).amax(1)
    _received(call, at)


def _see_torchs_layer(output, given, frame):
    """Receive a call of torch.nn.MultiheadAttention, with queries and keys made of its matrices, compared by output."""
    if given["bias_k"] is not None or given["add_zero_attn"]:
        return
    tokens, bias = [given[name].detach() for name in ("query", "key", "value")], given["in_proj_bias"]
    weights = [given[f"{name}_proj_weight"] for name in "qkv"] if given["use_separate_proj_weight"] else None
    weights, biases = weights or given["in_proj_weight"].chunk(3), (None,) * 3 if bias is None else bias.chunk(3)
    parts = [functional.linear(*three) for three in zip(tokens, weights, biases, strict=True)]
    query, key, value = (part.unflatten(-1, (given["num_heads"], -1)).permute(1, 2, 0, 3) for part in parts)
    call, hidden = Attention("", query, key, query.shape[-1] ** -0.5), given["key_padding_mask"]
    for mask in (given["attn_mask"], None if hidden is None else hidden[:, None, None]):
        if mask is not None:
            mask = mask.unflatten(0, (len(query), -1)) if mask.ndim == 3 else mask
            seen, added = split_mask(~mask if mask.dtype == torch.bool else mask)
            call.mask = seen if call.mask is None else call.mask if seen is None else call.mask & seen
            call.bias = added if call.bias is None else call.bias
    mixed = (call.shares() @ value).permute(2, 0, 1, 3).flatten(2)
    again = functional.linear(mixed, given["out_proj_weight"], given["out_proj_bias"])
    apart = (again - output.detach()).abs().amax() / output.detach().abs().amax().clamp(min=1e-30)
    call.off = apart.nan_to_num(0.0).expand(query.shape[1]) if call.logits.isfinite().any(-1).all() else None
    _received(call, frame)


def split_mask(mask):
    """What a mask hides, and what else it adds to logits: a mask of bool, True where a token is seen, and a bias."""
    if mask.dtype == torch.bool:
        return mask, None
    seen = mask > HIDDEN
    bias = mask.where(seen, 0.0)
    return (None if seen.all() else seen), (bias if bias.any() else None)


def register():
    """Register the function with transformers' interfaces of attention and of masks: the name to give a model.

    With the first alone a mask arrives as None.
    """
    from transformers import AttentionInterface
    from transformers.masking_utils import AttentionMaskInterface, eager_mask

    AttentionInterface.register(NAME, _attend)
    AttentionMaskInterface.register(NAME, eager_mask)
    return NAME


def _attend(module, query, key, value, attention_mask=None, scaling=None, dropout=0.0, **more):
    """Attend as the model's own eager function does, and receive the call.

    That function stands in the module that called: transformers passes it as the default.
    """
    frame = sys._getframe(1)
    while not (eager := [name for name in frame.f_code.co_names if name.startswith("eager_")]):
        frame = frame.f_back
    given = {} if scaling is None else {"scaling": scaling}
    output, shares = frame.f_globals[eager[0]](
        module, query, key, value, attention_mask, dropout=0.0, **given, **more
    )  # as the model was trained to run: dropout is that of training
    if not isinstance(shares, Tensor):
        raise Refused(f"{eager[0]} of {type(module).__name__} gives no attention, so nothing of it can be checked")
    call = Attention("", query, key, query.shape[-1] ** -0.5 if scaling is None else scaling)
    call.module, call.attention, call.cap = module, shares.detach(), more.get("softcap")
    _check_mask(module, attention_mask, query, key, more)
    if attention_mask is not None:
        call.mask, call.bias = split_mask(attention_mask[..., : key.shape[-2]])
    if more.get("position_bias") is not None:
        call.bias = more["position_bias"] if call.bias is None else call.bias + more["position_bias"]
    sinks = [x for x in (more.get("sinks"), more.get("s_aux"), getattr(module, "sinks", None)) if x is not None]
    if sinks:
        call.sinks = sinks[0].detach().reshape(1, -1, 1, 1) if sinks[0].ndim == 1 else sinks[0].detach()
    _received(call, frame)
    return output, shares


def _check_mask(module, mask, query, key, more):
    """Raise ValueError where a causal layer got no mask."""
    causal = more.get("is_causal")
    causal = getattr(module, "is_causal", False) if causal is None else causal
    if mask is None and causal and query.shape[-2] == key.shape[-2] > 1:
        raise Refused(f"{type(module).__name__} is causal and got no mask: its tokens would see those behind them")
