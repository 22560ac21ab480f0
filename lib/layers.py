"""A head of a trained attention layer as a problem and its theta.

With queries W_Q z + b_Q and keys W_K x + b_K the logits of a head are x . W z / sqrt(h) for ``W = W_K^T W_Q``, up to a
number that all tokens of an input share: theta is vec(W), with one column more for b_Q. Everything else that the layer
adds to its output at the token that asks, such as the other heads, does not depend on this W: each token's part has it
added, which changes nothing, because attention sums to 1. All is computed in float64 on the CPU, in the layer's
evaluation mode, without dropout. A mask is True where a token may be seen.
"""

import copy
import difflib
from typing import NamedTuple

import torch
from torch import Tensor, nn

from . import checks
from .problem import Problem
from .span import from_span, in_span, span_coordinates

PARTS = ("query", "key", "value", "out")
LAYOUTS = {  # names of the parts of a layer in a state dict, by who writes them so; a fused part has one name alone
    "PyTorch": {"qkv": "in_proj_weight", "qkv_bias": "in_proj_bias", "out": "out_proj.weight"},
    "PyTorch, separate sizes": {
        "query": "q_proj_weight", "key": "k_proj_weight", "value": "v_proj_weight", "qkv_bias": "in_proj_bias",
        "out": "out_proj.weight",
    },
    "BERT": {
        "query": "attention.self.query.weight", "key": "attention.self.key.weight",
        "value": "attention.self.value.weight", "out": "attention.output.dense.weight",
    },
    "ViT": {
        "query": "attention.attention.query.weight", "key": "attention.attention.key.weight",
        "value": "attention.attention.value.weight", "out": "attention.output.dense.weight",
    },
    "GPT-2": {"qkv": "attn.c_attn.weight", "out": "attn.c_proj.weight"},
    "timm": {"qkv": "attn.qkv.weight", "out": "attn.proj.weight"},
    "projections": {
        "query": "q_proj.weight", "key": "k_proj.weight", "value": "v_proj.weight", "out": "out_proj.weight",
    },
    "Llama": {"query": "q_proj.weight", "key": "k_proj.weight", "value": "v_proj.weight", "out": "o_proj.weight"},
}  # fmt: skip
TRANSPOSED = ("GPT-2",)  # whose matrices are (in, out)


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


class Head(NamedTuple):
    """One head of a layer.

    problem : Problem, with the tokens that one token of each input chooses among.
    theta : shape (parameter_size,), vec(W) as it was trained.
    scores : "exact", or "first order" where they are the effect of attention on the answer to first order.
    """

    problem: Problem
    theta: Tensor
    scores: str


class Recorded(NamedTuple):
    """A black box.

    problem : Problem.
    theta : shape (parameter_size,), the shortest whose logits come closest to those that were recorded.
    misfit : how far the attention at theta is from that of the recorded logits, the largest difference of an entry.
    """

    problem: Problem
    theta: Tensor
    misfit: float


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


def state_weights(state, heads, prefix="", names=None, groups=None, scale=None):
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

    Returns
    -------
    Weights

    Raises
    ------
    ValueError
        If names are unknown (the nearest are listed), shapes do not fit the heads, or an entry is not finite.
    """
    checks.whole("heads", heads)
    groups = heads if groups is None else checks.whole("groups", groups)
    if heads % groups:
        raise ValueError(f"heads is {heads}, groups is {groups}: give a number of groups that divides the heads")
    layout, names = _layout(state, prefix, names)
    found = _parts(state, names, layout in TRANSPOSED, heads, groups)
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


def head_problem(weights, tokens, labels, readout, head=0, query=0, values=None, queries=None, mask=None, causal=False):
    """One head as a problem: among which tokens one token of each input chooses, and what each would answer.

    Parameters
    ----------
    weights : Weights
    tokens : array_like, shape (n, T, d)
        As the layer receives them, after the LayerNorm before it.
    labels : array_like, shape (n,)
        +1 or -1; one class against the rest where there are more.
    readout : array_like of shape (m,) or (n, m), or callable
        What is read from the layer's output at the token that asks, m numbers: a vector, and scores are exact; a
        differentiable function from (..., m) to (...), and they are exact for a head that is not linear; or for each
        input the gradient of the answer there, as :func:`record` has it, and they are the effect to first order.
    head : int
    query : int, or array_like of int of shape (n,)
        Place of the token that asks; -1 is the last.
    values : array_like, shape (n, T, c), optional
        What the values are made of; the tokens when left out.
    queries : array_like, shape (n, e), optional
        The vectors that ask, in place of the tokens at ``query``.
    mask : array_like of bool, shape (n, T), optional
        True where a token may be seen.
    causal : bool
        No token after the one that asks may be seen.

    Returns
    -------
    Head

    Raises
    ------
    ValueError
        If arrays do not fit the layer, or an input has fewer than two tokens to see.

    Examples
    --------
    >>> layer = nn.MultiheadAttention(4, 2, batch_first=True, dtype=torch.float64)
    >>> tokens = torch.randn(3, 5, 4, dtype=torch.float64)
    >>> problem, theta, scores = head_problem(layer_weights(layer), tokens, [1, -1, 1], readout=[1, 0, 0, 0], head=1)
    >>> seen = layer(tokens, tokens, tokens, average_attn_weights=False)[1][:, 1, 0]
    >>> torch.allclose(problem.attention(theta), seen), scores
    (True, 'exact')
    """
    heads = len(weights.query)
    if checks.whole("head", head, 0) >= heads:
        raise ValueError(f"head is {head}: the layer has {heads}, 0 to {heads - 1}")
    tokens = _double("tokens", tokens, "n", "T", "d")
    values = tokens if values is None else _double("values", values, "n", "T", "c")
    labels = _two_classes(labels)
    mask, places = _visible(tokens, mask), _places(tokens, query)
    if causal:
        mask = mask & (torch.arange(tokens.shape[1]) <= places[:, None])
    queries = tokens[torch.arange(len(tokens)), places] if queries is None else _double("queries", queries, "n", "e")
    _check_sizes(weights, tokens, values, queries, labels)
    asked = torch.einsum("hke,ne->nhk", weights.query, queries) + weights.query_bias
    logits = weights.scale * torch.einsum("nhk,hkd,ntd->nht", asked, weights.key, tokens)
    attention = logits.masked_fill(~mask[:, None], -torch.inf).softmax(-1)
    mixed = torch.einsum("hvc,ntc,nht->nhv", weights.value, values, attention) + weights.value_bias
    parts = torch.einsum("hmv,nhv->nhm", weights.out, mixed)
    rest = parts.sum(1) - parts[:, head] + weights.out_bias + weights.out[head] @ weights.value_bias[head]
    outputs = values @ (weights.out[head] @ weights.value[head]).mT + rest[:, None]
    W = weights.scale * weights.key[head].mT @ torch.cat([weights.query[head], weights.query_bias[head][:, None]], 1)
    biased = bool(weights.query_bias.any())
    queries = torch.cat([queries, torch.ones_like(queries[:, :1])], 1) if biased else queries
    theta = (W if biased else W[:, :-1]).flatten()
    mask = None if mask.all() else mask
    if callable(readout):
        answers = _answers(readout, outputs)
        problem = Problem(tokens, labels[:, None] * answers, queries, outputs, labels, readout, mask)
        return Head(problem, theta, "exact")
    readout = _double("readout", readout, "m")
    if readout.shape not in (outputs.shape[-1:], (len(outputs), outputs.shape[-1])):
        raise ValueError(
            f"readout has shape {tuple(readout.shape)}: give {outputs.shape[-1]} numbers, the layer's outputs, for all"
            f" inputs or for each of the {len(outputs)}"
        )
    scores = labels[:, None] * torch.einsum("ntm,...m->nt" if readout.ndim == 1 else "ntm,nm->nt", outputs, readout)
    return Head(Problem(tokens, scores, queries, mask=mask), theta, "exact" if readout.ndim == 1 else "first order")


def layer_problem(layer, tokens, labels, readout, head=0, query=0, **options):
    """As :func:`head_problem` for a layer of torch.nn, with tokens in the layer's own order of dimensions.

    Parameters
    ----------
    layer : torch.nn.MultiheadAttention, or TransformerEncoderLayer
        The latter takes tokens as it receives them, its own LayerNorm included, and ``readout``, a vector or a
        callable, reads from its output at the token that asks, behind its feed-forward part: scores are exact.
    tokens : array_like, shape (n, T, d), or (T, n, d) where the layer is not ``batch_first``
    **options
        Of :func:`head_problem`, ``values`` in the order of the tokens.

    Returns
    -------
    Head
    """
    weights = layer_weights(layer)
    attention = getattr(layer, "self_attn", layer)
    tokens = _double("tokens", tokens, "n", "T", "d")
    if not attention.batch_first:
        options = {name: _double(name, one, "T", "n", "c").transpose(0, 1) if name == "values" else one
                   for name, one in options.items()}  # fmt: skip
        tokens = tokens.transpose(0, 1)
    if attention is layer:
        return head_problem(weights, tokens, labels, readout, head, query, **options)
    last = None if callable(readout) else _double("readout", readout, "m")
    if last is not None and last.ndim > 1:
        raise ValueError(f"readout has shape {tuple(last.shape)}: for slopes give the layer's self_attn and its tokens")
    block = copy.deepcopy(layer).double().cpu().eval().requires_grad_(False)
    asking = tokens[torch.arange(len(tokens)), _places(tokens, query)]
    received = block.norm1(tokens) if block.norm_first else tokens
    # The residual does not depend on attention either: it joins what the output has besides this head.
    behind = weights._replace(out_bias=weights.out_bias + asking)

    def answer(sums):
        inner = sums if block.norm_first else block.norm1(sums)
        fed = block.linear2(block.activation(block.linear1(block.norm2(inner) if block.norm_first else inner)))
        outputs = inner + fed if block.norm_first else block.norm2(inner + fed)
        return readout(outputs) if last is None else outputs @ last

    return head_problem(behind, received, labels, answer, head, query, **options)


def record(module, run):
    """What a model's attention layer receives and how its output moves the answer: one run, one backward pass.

    Parameters
    ----------
    module : torch.nn.Module
        The attention layer, called with the tokens first.
    run : callable
        Without arguments; runs the model and returns its answers, shape (n,): what the label's sign is compared with,
        or minus the loss of each input, and then all labels are +1.

    Returns
    -------
    tokens : Tensor
        The first argument of the module.
    slopes : Tensor
        Gradient of the answers in the module's output, of its shape; at the token that asks it is the ``readout`` of
        :func:`head_problem`.

    Raises
    ------
    ValueError
        If the module is not called exactly once, or the answers do not depend on it.

    Examples
    --------
    >>> layer, last = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 1)
    >>> tokens = torch.randn(3, 5, 4)
    >>> received, slopes = record(layer, lambda: last(layer(tokens, tokens, tokens)[0][:, 0]).tanh()[:, 0])
    >>> head_problem(layer_weights(layer), received, [1, -1, 1], readout=slopes[:, 0]).scores
    'first order'
    """
    calls = []

    def keep(_, inputs, kwargs, output):
        output = output[0] if isinstance(output, tuple) else output
        calls.append((inputs[0] if inputs else next(iter(kwargs.values())), output))

    hook = module.register_forward_hook(keep, with_kwargs=True)
    try:
        with torch.enable_grad():
            answers = run()
    finally:
        hook.remove()
    if len(calls) != 1:
        raise ValueError(f"the module was called {len(calls)} times: give one that the run calls once")
    tokens, output = calls[0]
    if not output.requires_grad or not getattr(answers, "requires_grad", False):
        raise ValueError("the answers do not depend on the module's output: run without detach and no_grad")
    return tokens.detach(), torch.autograd.grad(answers.sum(), output)[0]


def recorded_problem(keys, logits, scores, queries=None, mask=None):
    """A black box, by what was recorded of it: rotary or relative positions, any attention with logits.

    Parameters
    ----------
    keys : array_like, shape (n, T, d)
        As the parameter sees them: tokens, or with rotary positions keys that are already turned.
    logits : array_like, shape (n, T)
        Of the token that asks; a number that all tokens of an input share does not count. Those of tokens that may not
        be seen are not looked at.
    scores : array_like, shape (n, T)
        gamma_it, such as label times readout of the token's value.
    queries : array_like, shape (n, e), optional
    mask : array_like of bool, shape (n, T), optional
        True where a token may be seen.

    Returns
    -------
    Recorded

    Raises
    ------
    ValueError
        If arrays do not fit.
    """
    keys, scores = _double("keys", keys, "n", "T", "d"), _double("scores", scores, "n", "T")
    mask = _visible(keys, mask)
    queries = None if queries is None else _double("queries", queries, "n", "e")
    problem = Problem(keys, scores, queries, mask=None if mask.all() else mask)
    logits = checks.floating("logits", logits).detach().cpu().double()
    checks.last("logits", logits, *scores.shape)
    logits = torch.where(mask, logits, 0.0)
    checks.finite("logits", logits)
    share = mask / mask.sum(-1, keepdim=True)
    centred = torch.where(mask[..., None], keys - torch.einsum("nt,ntd->nd", share, keys)[:, None], 0.0)
    shifted = torch.where(mask, logits - (share * logits).sum(-1, keepdim=True), 0.0)
    about = Problem(centred, scores, queries)
    spanned = in_span(about)
    theta = from_span(about, spanned, span_coordinates(spanned, shifted))
    recorded = torch.where(mask, logits, -torch.inf).softmax(-1)
    return Recorded(problem, theta, (problem.attention(theta) - recorded).abs().max().item())


def _double(name, value, *trailing):
    """An array of any floats, half precision too, as float64 on the CPU."""
    if isinstance(value, Tensor) and value.is_floating_point():
        value = value.detach().cpu().double()
    array = checks.tensor(name, value, *trailing).double()
    if array.ndim > len(trailing) and name != "readout":
        raise ValueError(f"{name} has shape {tuple(array.shape)}: give an array of shape ({', '.join(trailing)})")
    return array


def _layout(state, prefix, names):
    """Name of the convention, and the full name of each part; ValueError with the nearest names if there is none."""
    if names is not None:
        wanted = ("qkv", "out") if "qkv" in names else PARTS
        if missing := [part for part in wanted if part not in names]:
            raise ValueError(f"names have no {missing[0]}: give {', '.join(wanted)}")
        _check_names(state, [name for name in names.values() if name])
        return "named", dict(names)
    for layout, parts in LAYOUTS.items():
        for inner in ("", "self_attn.", "attn.", "attention.", "self_attention."):
            full = {part: prefix + inner + name for part, name in parts.items()}
            if all(name in state for part, name in full.items() if not part.endswith("bias")):
                return layout, full
    wanted = [prefix + name for parts in LAYOUTS.values() for name in (parts.get("query", parts.get("qkv")),)]
    near = {near: None for name in wanted for near in difflib.get_close_matches(name, state, 2, 0.4)}
    raise ValueError(
        f"prefix {prefix!r} is followed by no convention that is known, the nearest names are"
        f" {', '.join(list(near)[:6]) or ', '.join(list(state)[:6]) or 'none'}: give the prefix, or names"
    )


def _check_names(state, wanted):
    """Raise ValueError with the nearest names if one is not in the state dict."""
    for name in wanted:
        if name not in state:
            near = difflib.get_close_matches(name, state, 3, 0.4) or list(state)[:3]
            raise ValueError(f"the state dict has no {name!r}: the nearest names are {', '.join(near) or 'none'}")


def _parts(state, names, transposed, heads, groups):
    """Weight (out, in) and bias (out,) of each part, by part; a fused one cut in three."""
    found = {}
    fused = _bias(state, names, "qkv", None)
    for part in PARTS if "qkv" not in names else ("qkv", "out"):
        weight = _double(names[part], state[names[part]], "out", "in")
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
    name = names.get(f"{part}_bias")
    if name is None and part in names and names[part].endswith("weight"):
        name = names[part].removesuffix("weight") + "bias"
    if state.get(name) is None:
        return None if weight is None else weight.new_zeros(weight.shape[0])
    bias = _double(name, state[name], "out")
    if weight is not None and len(bias) != len(weight):
        raise ValueError(f"{name} has {len(bias)} entries, its weight {len(weight)} rows: they must agree")
    return bias


def _cut(part, weight, bias, heads):
    """Weight (heads, h, in) and bias (heads, h)."""
    if weight.shape[0] % heads:
        raise ValueError(f"the {part} matrix has {weight.shape[0]} rows: {heads} heads need a multiple of that")
    return weight.unflatten(0, (heads, -1)), bias.unflatten(0, (heads, -1))


def _two_classes(labels):
    """Labels (n,), +1 or -1; ValueError where there are more classes."""
    found = checks.tensor("labels", labels, "n").unique()
    if len(found) > 2:
        raise ValueError(
            f"labels have {len(found)} classes: take one against the rest, such as"
            f" 2 * (labels == {found[-1].item():g}) - 1"
        )
    return checks.labels(labels).cpu().double()


def _visible(tokens, mask):
    """Mask (n, T), True where a token may be seen; ValueError if it does not fit."""
    shape = tuple(tokens.shape[:2])
    mask = torch.ones(shape, dtype=torch.bool) if mask is None else checks.mask(mask, shape).cpu()
    if mask.ndim > 2:
        raise ValueError(f"mask has shape {tuple(mask.shape)}: give one for the token that asks, shape {shape}")
    return mask


def _places(tokens, query):
    """Places (n,) of the tokens that ask."""
    inputs, length = tokens.shape[:2]
    places = checks.as_tensor("query", query, "the place of the token that asks").cpu()
    if places.dtype.is_floating_point or places.dtype == torch.bool or places.shape not in ((), (inputs,)):
        raise ValueError(f"query is {checks.shown(query)}: give one whole number, or one for each of {inputs} inputs")
    if ((places < -length) | (places >= length)).any():
        raise ValueError(f"query is {checks.shown(query)}: there are {length} tokens, 0 to {length - 1}")
    return (places % length).expand(inputs)


def _check_sizes(weights, tokens, values, queries, labels):
    """Raise ValueError unless arrays fit the layer and each other."""
    for name, array, part in (
        ("tokens", tokens, weights.key), ("values", values, weights.value), ("queries", queries, weights.query),
    ):  # fmt: skip
        if array.shape[-1] != part.shape[-1]:
            raise ValueError(
                f"{name} have {array.shape[-1]} entries, the layer takes {part.shape[-1]}: give them as the layer"
                " receives them"
            )
    if not len(tokens) == len(values) == len(queries) == len(labels) or values.shape[1] != tokens.shape[1]:
        raise ValueError(
            f"tokens have (n, T) = {tuple(tokens.shape[:2])}, values {tuple(values.shape[:2])}, queries"
            f" n = {len(queries)}, labels n = {len(labels)}: give each input one query and label, each key one value"
        )


def _answers(readout, outputs):
    """What a callable reads from outputs (n, T, m), shape (n, T)."""
    with torch.no_grad():
        answers = readout(outputs)
    if answers.shape != outputs.shape[:-1]:
        raise ValueError(
            f"readout maps shape {tuple(outputs.shape)} to {tuple(answers.shape)}: it must return one number for each"
            f" output, shape {tuple(outputs.shape[:-1])}"
        )
    return answers
