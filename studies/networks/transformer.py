"""Run a small transformer with its attention exposed, on images or words, all members of an ensemble at once."""

import torch
from torch import nn
from torch.func import stack_module_state

from lib import checks


class Transformer(nn.Module):
    """Hold the weights of a classifier that reads the token [CLS], put before the others; :func:`apply` runs it.

    Its blocks are those of ``torch.nn.TransformerEncoderLayer``, layer norms first and GELU within.

    Parameters
    ----------
    length, classes : int
        Tokens T of an input, and classes.
    features : int
        Length of a token: inputs are vectors (N, T, features), such as :func:`patches` of images, taken in the floats
        of the weights. With ``words``, their number: inputs are whole numbers (N, T), and nobody attends to a 0.
    width, depth, heads : int
        ``heads`` divides ``width``.
    hidden : int
        Width within a block's two-layer network.
    words : bool
    """

    def __init__(self, length, classes, features, *, width=16, depth=2, heads=2, hidden=32, words=False):
        super().__init__()
        like = {"dtype": torch.float64}
        sizes = {"length": length, "classes": classes, "features": features, "width": width, "depth": depth}
        for name, size in (sizes | {"heads": heads, "hidden": hidden}).items():
            checks.integer(name, size)
        if width % heads:
            raise ValueError(f"width is {width}, heads is {heads}: choose a width that the heads divide")
        self.heads = heads
        self.embed = (nn.Embedding if words else nn.Linear)(features, width, **like)
        if words:
            self.embed.weight.data /= width**0.5
        self.cls = nn.Parameter(torch.randn(width, **like) / width**0.5)
        self.places = nn.Parameter(torch.randn(length + 1, width, **like) / width**0.5)
        more = {"activation": nn.functional.gelu, "batch_first": True, "norm_first": True}
        blocks = [nn.TransformerEncoderLayer(width, heads, hidden, 0.0, **more, **like) for _ in range(depth)]
        self.blocks, self.norm = nn.ModuleList(blocks), nn.LayerNorm(width, **like)
        self.head = nn.Linear(width, classes, **like)


def patches(images, size):
    """Square patches of images (N, channels, height, width), in reading order: (N, T, channels size^2)."""
    checks.integer("size", size)
    if images.ndim != 4:
        raise ValueError(f"images has shape {tuple(images.shape)}: give an array of shape (N, channels, height, width)")
    height, width = images.shape[2:]
    if height % size or width % size:
        raise ValueError(f"patch size is {size}, images are {height} x {width}: choose a divisor of both")
    cut = images.unfold(2, size, size).unfold(3, size, size)
    return cut.permute(0, 2, 3, 1, 4, 5).flatten(3).flatten(1, 2)


def precision(device):
    """Float64 for the CPU and float32 for a GPU, "cuda"; ValueError where there is none, or for another name."""
    if device not in ("cpu", "cuda"):
        raise ValueError(f"device is {device!r}: use cpu or cuda")
    if device == "cuda" and not torch.cuda.is_available():
        raise ValueError("device is cuda, but torch sees no GPU here: use device=cpu")
    return torch.float64 if device == "cpu" else torch.float32


def ensemble(seeds, *, device="cpu", **settings):
    """One :class:`Transformer` for each seed.

    Parameters
    ----------
    seeds : sequence of int
        The members' initial weights; torch's own generator is left as it was.
    device : str
        "cpu" or "cuda"; :func:`precision` says in which floats.
    **settings
        Of :class:`Transformer`.

    Returns
    -------
    network : Transformer
        Its structure; its own weights are not used.
    parameters : dict of Tensor
        Each with the members first.
    """
    dtype, numbers, members = precision(device), checks.seeds(seeds), []
    with torch.random.fork_rng():
        for seed in numbers:
            torch.manual_seed(seed)
            members.append(Transformer(**settings))
    parameters, _ = stack_module_state(members)
    return members[0].to(device, dtype), {
        name: value.detach().to(device, dtype).requires_grad_() for name, value in parameters.items()
    }


def apply(network, parameters, inputs):
    """Run all members at once.

    Parameters
    ----------
    network, parameters
        Of :func:`ensemble`.
    inputs : Tensor, shape (members, N, ...) or (N, ...)
        As :class:`Transformer` says; those without members are for all of them.

    Returns
    -------
    logits : Tensor, shape (members, N, classes)
    attention : Tensor, shape (members, N, depth, heads, T + 1)
        Of [CLS], token 0, in each block.
    """
    x, members = inputs, len(parameters["cls"])
    words = "embed.bias" not in parameters
    x = x if x.ndim == 4 - words else x.expand(members, *x.shape)
    away = None
    if words:
        away = nn.functional.pad(x == 0, (1, 0))[:, :, None, None]  # never of [CLS]
        table = parameters["embed.weight"]
        x = x + len(table[0]) * torch.arange(members, device=x.device)[:, None, None]
        x = nn.functional.embedding(x, table.flatten(0, 1))
    else:
        x = _linear(x.to(parameters["cls"].dtype), parameters, "embed")
    x = torch.cat([parameters["cls"][:, None, None].expand(*x.shape[:2], 1, -1), x], dim=2)
    x = x + parameters["places"][:, None]
    maps = []
    for k in range(len(network.blocks)):
        block = {
            name.removeprefix(f"blocks.{k}."): w for name, w in parameters.items() if name.startswith(f"blocks.{k}.")
        }
        last = k == len(network.blocks) - 1  # of which only [CLS] is read
        x, attention = _block(block, x, network.heads, away, last)
        maps.append(attention[..., 0, :])
    x = _layer_norm(x[:, :, 0], parameters, "norm")
    return _linear(x, parameters, "head"), torch.stack(maps, dim=2)


def apply_in_parts(network, parameters, x):
    """Logits and attention as :func:`apply`, of 250 inputs at a time."""
    outputs = [apply(network, parameters, part) for part in x.split(250, -3)]
    logits, attention = (torch.cat(parts, 1) for parts in zip(*outputs, strict=True))
    return logits, attention


def _block(block, x, heads, away, last):
    """One block, of which the last is for [CLS] alone: tokens and attention (members, N, heads, asking, T + 1)."""
    read, attention = (_attend_once if last else _attend)(block, _layer_norm(x, block, "norm1"), heads, away)
    x = x[:, :, : read.shape[2]] + read
    inner = nn.functional.gelu(_linear(_layer_norm(x, block, "norm2"), block, "linear1"))
    return x + _linear(inner, block, "linear2"), attention


def _attend(block, x, heads, away):
    """What all tokens x (members, N, T + 1, width) read from each other, and their attention."""
    q, k, v = _affine(x, block["self_attn.in_proj_weight"], block["self_attn.in_proj_bias"]).chunk(3, dim=-1)
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(2, 3) for part in (q, k, v))
    attention = _softmax(q @ k.mT / q.shape[-1] ** 0.5, away)
    return _linear((attention @ v).transpose(2, 3).flatten(3), block, "self_attn.out_proj"), attention


def _attend_once(block, x, heads, away):
    """The same of [CLS]: its query goes through the keys' matrix, the mean token through the values', not all tokens.

    The bias of the keys adds the same to the logits of all tokens, which changes nothing.
    """
    queries, keys, values = (w.unflatten(1, (heads, -1)) for w in block["self_attn.in_proj_weight"].chunk(3, dim=1))
    bias_q, _, bias_v = (b.unflatten(1, (heads, -1))[:, None] for b in block["self_attn.in_proj_bias"].chunk(3, dim=1))
    q = torch.einsum("mnw,mhew->mnhe", x[:, :, 0], queries) + bias_q
    towards = torch.einsum("mnhe,mhew->mnhw", q, keys) / q.shape[-1] ** 0.5
    attention = _softmax((towards @ x.mT)[:, :, :, None], away)
    read = torch.einsum("mnhw,mhew->mnhe", attention[..., 0, :] @ x, values) + bias_v
    return _linear(read.flatten(2)[:, :, None], block, "self_attn.out_proj"), attention


def _softmax(logits, away):
    """Attention (members, N, heads, asking, T + 1), none of it on what is away, (members, N, 1, 1, T + 1)."""
    return (logits if away is None else logits.masked_fill(away, -torch.inf)).softmax(-1)


def _affine(x, weight, bias):
    """x (members, N, ..., in) times weight (members, out, in), plus bias (members, out)."""
    return torch.baddbmm(bias[:, None], x.flatten(1, -2), weight.mT).unflatten(1, x.shape[1:-1])


def _linear(x, parameters, name):
    return _affine(x, parameters[f"{name}.weight"], parameters[f"{name}.bias"])


def _layer_norm(x, parameters, name):
    shape = (len(x), *[1] * (x.ndim - 2), -1)
    normed = nn.functional.layer_norm(x, x.shape[-1:])
    return normed * parameters[f"{name}.weight"].view(shape) + parameters[f"{name}.bias"].view(shape)
