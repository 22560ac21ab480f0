"""Check arguments, and convert arrays once: raise one sentence that names value and remedy.

What the theory is given, lists, arrays, tensors of any dtype on any device, becomes float64 on the CPU at the door, and
so is what it answers. Only :mod:`lib.geometry` and the rules of :mod:`lib.rules`, which networks use, too, keep
tensors of other floats and of a GPU as they are.
"""

import math
from functools import partial
from inspect import signature
from numbers import Real
from operator import index

import numpy as np
import torch
from torch import Tensor

MATRIX_NORMS = ("spectral", "nuclear")
SIGN_NORMS = ("signs", "inf-1")


def shown(value):
    """One-line repr of a value, cut at 60 characters."""
    try:
        text = " ".join(repr(value).split())
    except (ValueError, NotImplementedError):  # an integer of more than 4300 digits, a tensor without values
        text = f"a value of type {type(value).__name__} that cannot be printed"
    return text if len(text) <= 60 else f"{text[:60]}..."


def real(name, value):
    """``value`` as a tensor of float64 on the CPU, or ValueError if it is no array of real numbers."""
    if type(value) is Tensor and value.dtype == torch.float64 and value.is_cpu and value.layout == torch.strided:
        return value
    wanted = "an array of real numbers, all rows of one length"
    array = as_tensor(name, value, wanted, None if hasattr(value, "__array__") else torch.float64)
    if array.is_complex():
        raise ValueError(f"{name} has dtype {array.dtype}: give real numbers, such as the real parts")
    return array.to(torch.float64)


def floats(name, value):
    """``value`` as :func:`real`, but a tensor of floats as it is: for what networks use, too."""
    return value if isinstance(value, Tensor) and value.is_floating_point() else real(name, value)


def tensor(name, value, *trailing):
    """``value`` as a finite tensor with last dimensions ``trailing``; one that requires grad is detached.

    Parameters
    ----------
    name : str
        What the error message calls the value.
    value : array_like
    *trailing : str
        Names of the dimensions that the array must at least have, for the message.

    Returns
    -------
    Tensor
        In float64 on the CPU.

    Raises
    ------
    ValueError
        If it is no array of real numbers, has fewer dimensions than that, an empty one, or an entry that is NaN or
        infinite.
    """
    array = real(name, value).detach()
    shape = tuple(array.shape)
    if array.ndim < len(trailing):
        raise ValueError(f"{name} has shape {shape}: give an array of shape (..., {', '.join(trailing)})")
    if 0 in shape:
        raise ValueError(f"{name} has shape {shape}: no dimension may be empty")
    finite(name, array)
    return array


def float64(name, value, *trailing, more=False):
    """``value`` as :func:`tensor`, with the dimensions ``trailing`` and no others, unless there may be ``more``."""
    array = tensor(name, value, *trailing)
    if array.ndim > len(trailing) and not more:
        raise ValueError(f"{name} has shape {tuple(array.shape)}: give an array of shape ({', '.join(trailing)})")
    return array


def tensors(*optional, **given):
    """Arrays, each given as (value, *names of its last dimensions), as :func:`tensor`.

    Those whose names are ``optional`` are left out where they are None.
    """
    given = {name: pair for name, pair in given.items() if pair[0] is not None or name not in optional}
    return {name: tensor(name, value, *trailing) for name, (value, *trailing) in given.items()}


def finite(name, array):
    """Raise ValueError unless every entry of ``array`` is finite; the message has the first one that is not."""
    # one pass where all is well: the sum has whatever is not finite, and may itself leave the floats
    if not (math.isfinite(array.detach().sum()) or torch.isfinite(array).all()):
        place = tuple(torch.nonzero(~torch.isfinite(array))[0].tolist())
        raise ValueError(
            f"{name} has the entry {array[place].item()} at index {place}: all entries must be finite numbers"
        )


def mask(value, shape, name="mask", wanted="True for each token that may be seen, else False"):
    """``value`` as a tensor of bool whose last dimensions are ``shape``, or ValueError."""
    wanted = f"{wanted}, shape {shape}"
    array = as_tensor(name, value, wanted)
    if array.dtype != torch.bool or tuple(array.shape[-len(shape) :]) != shape:
        raise ValueError(f"{name} has type {array.dtype} and shape {tuple(array.shape)}: give {wanted}")
    return array


def labels(value, inputs=None):
    """``value`` as a tensor of labels +1 and -1, one for each of so many inputs, or ValueError."""
    array = tensor("labels", value)
    if not (array.abs() == 1).all():
        wrong = array[array.abs() != 1][0].item()
        raise ValueError(f"labels contain {wrong:g}: every label must be +1 or -1 (map classes 0 and 1 by 2 * y - 1)")
    if inputs is not None and array.shape[-1:] != (inputs,):
        raise ValueError(f"labels have shape {tuple(array.shape)}, inputs are {inputs}: give each input one label")
    return array


def positive(name, value):
    """``value`` as a tensor of finite numbers above zero, or ValueError."""
    array = tensor(name, value)
    if not (array > 0).all():
        raise ValueError(f"{name} is {array.min().item():g}: it must be above 0")
    return array


def join_names(names, limit=6):
    """The first names in a line, and how many more there are."""
    names = list(map(str, names))
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return (", ".join(names[:limit]) or "none") + more


def integer(name, value, least=1):
    """``value`` as an int, or ValueError unless it is a whole number (no bool) of at least ``least``.

    Nor may it leave 64 bits, as compiled code and generators have them.
    """
    try:
        number = least - 1 if isinstance(value, bool) else index(value)
    except TypeError:
        number = least - 1
    if number < least:
        raise ValueError(f"{name} is {shown(value)}: give a whole number of at least {least}")
    if number >= 2**63:
        raise ValueError(f"{name} is {shown(value)}: give a whole number below 2^63")
    return number


def number(name, value, fits, remedy):
    """``value`` as Python's number, or ValueError with the remedy unless it is a real one for which ``fits`` is true.

    A bool is none, and neither is an integer beyond the floats.
    """
    try:
        good = isinstance(value, Real) and not isinstance(value, bool) and fits(float(value))
    except OverflowError:
        good = False
    if not good:
        raise ValueError(f"{name} is {shown(value)}: {remedy}")
    return value.item() if isinstance(value, np.generic) else value  # float32 would make powers of it float32


def boolean(name, value):
    """``value`` as a bool, or ValueError unless it is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} is {shown(value)}: give True or False")
    return bool(value)


def indices(name, value, size, *trailing):
    """``value`` as a tensor of int64 from 0 to ``size - 1`` with the dimensions ``trailing``, or ValueError."""
    array = as_tensor(name, value, "whole numbers")
    wanted = f"whole numbers from 0 {f'to {size - 1}' if size else 'on'}, shape ({', '.join(trailing)})"
    if array.is_floating_point() or array.is_complex() or array.dtype == torch.bool:
        raise ValueError(f"{name} has type {array.dtype}: give {wanted}")
    if array.ndim != len(trailing) or not array.numel():
        raise ValueError(f"{name} has shape {tuple(array.shape)}: give {wanted}")
    array = array.long()
    outside = (array < 0) | (array >= (size or 2**62))
    if outside.any():
        raise ValueError(f"{name} contains {array[outside][0].item()}: give {wanted}")
    return array


def seeds(value):
    """Seeds, one for each member, as a list of int, or ValueError."""
    numbers = list(value) if hasattr(value, "__iter__") else []
    if not numbers:
        raise ValueError(f"seeds is {shown(value)}: give one whole number for each member")
    return [integer("seed", seed, 0) for seed in numbers]


# Each returns p, of an l_p norm or of the potential of mirror descent, or raises ValueError.
norm = partial(number, "norm", fits=lambda p: p >= 1, remedy="an l_p norm has 1 <= p <= inf")
potential = partial(
    number, "norm", fits=lambda p: 1 < p < math.inf, remedy="the potential |x|_p^p / p is that of 1 < p < inf"
)


def any_norm(value, shape=None, size=None, names=MATRIX_NORMS):
    """The order p, or the name of a norm of matrices, whose shape (d, e) vectors of this size have to fit."""
    if value not in names:
        remedy = f"an l_p norm has 1 <= p <= inf, a matrix {', '.join(names[:-1])} and {names[-1]} too"
        return number("norm", value, lambda p: p >= 1, remedy)
    if shape is None or len(shape) != 2:
        raise ValueError(f"norm is {value!r}, shape {shape}: a prompt is no matrix; give the shape (d, e) of one")
    if size is not None and math.prod(shape) != size:
        raise ValueError(f"shape is {tuple(shape)}, vectors have {size} entries: give the shape of theirs")
    return value


def as_tensor(name, value, wanted, dtype=None):
    """``value``, whatever its dtype, as a tensor, or ValueError that says what is wanted."""
    if np.ma.is_masked(value):
        raise ValueError(
            f"{name} is a masked array, whose mask would be lost: give {name}.filled(0), and hidden tokens by mask="
        )
    try:
        if hasattr(value, "__array__") and not isinstance(value, Tensor):  # in an order and with steps torch takes
            value = np.asarray(value)
            value = value.astype(value.dtype.newbyteorder("="), copy=min(value.strides, default=0) < 0)
        array = torch.as_tensor(value, dtype=dtype)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        raise ValueError(f"{name} is {shown(value)}: give {wanted}") from None
    if array.is_nested or array.is_meta or array.is_quantized or array.layout != torch.strided:
        kinds = {"nested": array.is_nested, "meta": array.is_meta, "quantised": array.is_quantized, "sparse": True}
        kind = next(kind for kind, unusable in kinds.items() if unusable)
        raise ValueError(f"{name} is a {kind} tensor: give an ordinary one that has all its values")
    return array.cpu()


def has_attribute(name, value, part, remedy):
    """Raise TypeError unless ``value`` has the attribute ``part``, by which its type is recognised."""
    if not hasattr(value, part):
        raise TypeError(f"{name} is {shown(value)}: give {remedy}")


# Each raises TypeError unless its argument is one of these.
problem = partial(has_attribute, "problem", part="logits", remedy="a Problem, such as from_tokens makes")
joint_problem = partial(has_attribute, "problem", part="fixed_head", remedy="a JointProblem of tokens and labels")
either_problem = partial(
    has_attribute, "problem", part="batch_shape", remedy="a Problem, such as from_tokens makes, or a JointProblem"
)
loss = partial(has_attribute, "loss", part="log_slope", remedy="a Loss, such as losses.by_name('logistic')")
generator = partial(
    has_attribute, "generator", part="manual_seed", remedy="a torch.Generator, such as torch.Generator().manual_seed(0)"
)


def single(value):
    """Raise ValueError if a problem, of either type, has leading dimensions."""
    if value.batch_shape:
        raise ValueError(f"problem has leading dimensions {tuple(value.batch_shape)}: give one at a time")


def rule(value, name="rule"):
    """Raise TypeError unless this is a step rule."""
    has_attribute(name, value, "__call__", "a step rule, such as constant(0.1)")
    try:
        signature(value).bind("grad", "theta", "k")
    except TypeError:
        raise TypeError(
            f"{name} is {shown(value)}: a step rule takes the gradient, theta and the number of steps before"
        ) from None
    except ValueError:  # one without a signature, not written in Python
        pass


def trailing_shape(name, array, *sizes):
    """Raise ValueError unless the last dimensions of ``array`` have these sizes."""
    if tuple(array.shape[-len(sizes) :]) != sizes:
        raise ValueError(f"{name} has shape {tuple(array.shape)}: its last dimensions must be {sizes}")


def broadcastable(**shapes):
    """The common shape of the given ones, leading (batch) or whole, or ValueError that lists them."""
    try:
        return torch.Size(np.broadcast_shapes(*shapes.values()))  # torch's own imports a computer algebra system
    except ValueError:
        listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"dimensions of {listed} do not fit together: they must be equal, or 1") from None


def match_width(name, array, tokens):
    """A head (..., d) or a matrix (..., k, d) for tokens (..., n, T, d); ValueError if it does not fit them."""
    if array.shape[-1] != tokens.shape[-1]:
        raise ValueError(f"{name} has {array.shape[-1]} columns, tokens have d = {tokens.shape[-1]}: they must agree")
    broadcastable(tokens=tokens.shape[:-3], **{name: array.shape[: -1 if name == "head" else -2]})
    return array
