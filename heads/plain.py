"""Read attention from arrays: queries and keys as a layer multiplies them.

An npz or safetensors has for each layer, numbered from 0, ``query.0`` (n, heads, T, h) and ``key.0`` (n, groups, S, h);
where it is not 1 / sqrt(h) ``scale.0``, where some are hidden ``mask.0``, (n, S) or for shape (n, heads, T, S), True
where one is seen, and if known ``attention.0`` (n, heads, T, S), with which the layer is compared. ``texts`` (n, T) are
the words. One layer needs no number.
"""

from pathlib import Path

import torch
from torch import nn

from ._lib import checks
from .inputs import Source, array_file
from .watch import Attention

KNOWN = ("query", "key", "scale", "mask", "attention", "texts")


def plain_source(options):
    """:class:`heads.inputs.Source` of the arrays in DATA, whose calls are read and not run."""
    arrays = array_file(options)
    if unknown := [name for name in arrays if name.partition(".")[0] not in KNOWN]:
        raise ValueError(f"{options.data} has {unknown[0]}, which is not known: give {', '.join(KNOWN)}")
    arrays = {name: x[: options.inputs] if name.partition(".")[0] != "scale" else x for name, x in arrays.items()}
    ends = [name.removeprefix("query") for name in arrays if name.partition(".")[0] == "query"]
    ends.sort(key=lambda end: (len(end), end))  # 2 before 10
    if not ends:
        raise ValueError(f"{options.data} has {checks.join_names(arrays)}: give query.0 and key.0")
    calls = [_call(arrays, end, options.data) for end in ends]
    count, length = len(calls[0].query), calls[0].query.shape[2]
    masks = [x.bool() for name, x in arrays.items() if name.startswith("mask") and x.shape == (count, length)]
    mask = masks[0] if masks else torch.ones(count, length).bool()
    said = "Its attention is compared with what the arrays record."
    if any(call.attention is None for call in calls):
        said = "Its attention was compared with nothing: the arrays have none."
    says = [f"{count} inputs, recorded in {Path(options.data).name}.", said]
    return Source(nn.Identity(), {"attention_mask": mask.long()}, arrays.get("texts"), says=says, calls=calls)


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
    scale = arrays.get(f"scale{end}", torch.tensor(query.shape[-1] ** -0.5))
    mask = mask if padding is None else padding[:, None, None]
    whole = (*query.shape[:3], key.shape[2])
    for part, x, fits in (("scale", scale, scale.numel() == 1), ("mask", mask, mask is None or _fits(mask, whole)),
                          ("attention", seen, seen is None or seen.shape == whole)):  # fmt: skip
        if not fits:
            wanted = "one number" if part == "scale" else f"shape {whole}"
            raise ValueError(f"{part}{end} of {path} has shape {tuple(x.shape)}: give {wanted}")
    name = f"layer {end.lstrip('.') or 0}"
    return Attention(name, query, key, float(scale), mask, attention=None if seen is None else seen.double()).compared()


def _without_padding(x, mask):
    """Queries or keys with zeros where a mask (n, T) says padding, whatever stood there."""
    if mask is None or (len(x), x.shape[-2]) != mask.shape:
        return x
    return x.masked_fill(~mask[:, None, :, None], 0)


def _fits(mask, whole):
    """Whether a mask can be expanded to a shape."""
    sizes = zip(mask.shape[::-1], whole[::-1], strict=False)
    return mask.ndim <= len(whole) and all(size in (1, own) for size, own in sizes)
