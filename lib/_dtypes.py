"""Settle the dtype and device of results, for :mod:`lib.checks`.

Tensors keep their dtype, float32 or float64, and their device; so do NumPy arrays, and mixed ones are promoted as by
torch. Lists and whole numbers have no dtype of their own: they take that of what they come with, or else float64.
"""

from dataclasses import fields, is_dataclass, replace
from functools import partial, reduce, wraps
from inspect import signature

import numpy as np
import torch
from torch import Tensor

FLOATS = (torch.float32, torch.float64)


def shown(value):
    """One-line repr of a value, cut at 60 characters."""
    try:
        text = " ".join(repr(value).split())
    except (ValueError, NotImplementedError):  # an integer of more than 4300 digits, a tensor without values
        text = f"a value of type {type(value).__name__} that cannot be printed"
    return text if len(text) <= 60 else f"{text[:60]}..."


def floating(name, value, like=None):
    """``value`` as a tensor of float32 or float64, by the rule above, or ValueError."""
    array, follows = value, not hasattr(value, "__array__")
    if isinstance(value, Tensor):
        dense(name, value)
    else:
        array = array if follows else native(name, value)
        try:
            array = torch.as_tensor(value, dtype=torch.float64) if follows else torch.as_tensor(array)
        except (TypeError, ValueError, RuntimeError, OverflowError):
            raise ValueError(
                f"{name} is {shown(value)}: give an array of real numbers, all rows of one length"
            ) from None
        array = array if like is None else array.to(like.device)
    if array.is_complex():
        raise ValueError(f"{name} has dtype {array.dtype}: give real numbers, such as the real parts")
    if follows or not array.is_floating_point():
        return array.to(torch.float64 if like is None else like.dtype)
    if array.dtype not in FLOATS:
        raise ValueError(f"{name} has dtype {array.dtype}: give float32 or float64, such as {name}.float()")
    return array


def native(name, value):
    """An array as NumPy's, in this machine's order of bytes and with steps that torch takes.

    ValueError for a masked array: torch would drop its mask.
    """
    if np.ma.is_masked(value):
        raise ValueError(
            f"{name} is a masked array, whose mask would be lost: give {name}.filled(0), and hidden tokens by mask="
        )
    array = np.asarray(value)
    array = array.astype(array.dtype.newbyteorder("="), copy=False)
    return array.copy() if min(array.strides, default=0) < 0 else array


def dense(name, array):
    """Raise ValueError for a tensor that does not store all its values: a sparse, meta, nested or quantised one."""
    if array.is_nested or array.is_meta or array.is_quantized or array.layout != torch.strided:
        kinds = {"nested": array.is_nested, "meta": array.is_meta, "quantised": array.is_quantized, "sparse": True}
        kind = next(kind for kind, unusable in kinds.items() if unusable)
        raise ValueError(f"{name} is a {kind} tensor: give an ordinary one that has all its values")


def common(**arrays):
    """Tensors in the dtype to which torch promotes them together; ValueError if their devices differ."""
    first = next(iter(arrays.values()))
    if all(array.dtype == first.dtype and array.device == first.device for array in arrays.values()):
        return arrays
    if len({array.device for array in arrays.values()}) > 1:
        listed = ", ".join(f"{name} on {array.device}" for name, array in arrays.items())
        raise ValueError(f"tensors are on several devices, {listed}: move them to one, for example by .to('cpu')")
    dtype = reduce(torch.promote_types, {array.dtype for array in arrays.values()})
    return {name: array.to(dtype) for name, array in arrays.items()}


def moved(value, dtype, device):
    """Move a tensor, or all of a tuple, dataclass or problem, to a device and, where they are floats, to a dtype."""
    if isinstance(value, Tensor):
        return value.to(device, dtype if value.is_floating_point() else value.dtype)
    if isinstance(value, tuple):
        parts = [moved(part, dtype, device) for part in value]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    if hasattr(value, "to"):
        return value.to(dtype, device)
    if is_dataclass(value):
        parts = {field.name: getattr(value, field.name) for field in fields(value)}
        return replace(value, **{name: moved(part, dtype, device) for name, part in parts.items()})
    return value


def in_float64(solver):
    """Let a function compute in float64 on the CPU; what it returns has the dtype and device of its first argument."""
    name = next(iter(signature(solver).parameters))

    @wraps(solver)
    def solve(first, *others, **options):
        if type(first) is Tensor and first.dtype == torch.float64 and first.is_cpu:  # the solver looks at the rest
            return solver(first, *others, **options)
        array = getattr(first, "keys", first)
        array = floating(name, array) if hasattr(array, "__array__") else torch.empty(0, dtype=torch.float64)
        if array.dtype == torch.float64 and array.device.type == "cpu":
            return solver(first, *others, **options)
        move = partial(moved, dtype=torch.float64, device="cpu")
        options = {key: move(option) for key, option in options.items()}
        first = array if hasattr(first, "__array__") else first
        return moved(solver(move(first), *map(move, others), **options), array.dtype, array.device)

    return solve
