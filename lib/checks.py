"""One sentence for each kind of bad input: it names the value and the remedy."""

import torch


def tensor(name, value, *trailing):
    """Return ``value`` as a finite float64 tensor whose last dimensions are called ``trailing``.

    Parameters
    ----------
    name : str
        What the error message calls the value.
    value : array_like
    *trailing : str
        Names of the dimensions that the array must at least have, for the message.

    Raises
    ------
    ValueError
        If it has fewer dimensions than that, an empty one, or an entry that is NaN or infinite.
    """
    array = torch.as_tensor(value, dtype=torch.float64)
    shape = tuple(array.shape)
    if array.ndim < len(trailing):
        raise ValueError(f"{name} has shape {shape}: give an array of shape (..., {', '.join(trailing)})")
    if 0 in shape:
        raise ValueError(f"{name} has shape {shape}: no dimension may be empty")
    finite(name, array)
    return array


def finite(name, array):
    """Raise ValueError unless every entry of ``array`` is finite; the message has the first one that is not."""
    if not torch.isfinite(array).all():
        place = tuple(torch.nonzero(~torch.isfinite(array))[0].tolist())
        raise ValueError(
            f"{name} has the entry {array[place].item()} at index {place}: all entries must be finite numbers"
        )


def labels(value):
    """Return ``value`` as a tensor of labels +1 and -1, or raise ValueError that names the first other value."""
    array = tensor("labels", value)
    if not (array.abs() == 1).all():
        wrong = array[array.abs() != 1][0].item()
        raise ValueError(f"labels contain {wrong:g}: every label must be +1 or -1 (map classes 0 and 1 by 2 * y - 1)")
    return array


def positive(name, value):
    """Return ``value`` as a tensor of finite numbers above zero, or raise ValueError."""
    array = tensor(name, value)
    if not (array > 0).all():
        raise ValueError(f"{name} is {array.min().item():g}: it must be above 0")
    return array


def broadcastable(**shapes):
    """Return the common leading (batch) shape of the given ones, or raise ValueError that lists them."""
    try:
        return torch.broadcast_shapes(*shapes.values())
    except RuntimeError:
        listed = ", ".join(f"{name} {tuple(shape)}" for name, shape in shapes.items())
        raise ValueError(f"leading (batch) dimensions do not fit together: {listed}") from None


def fitting(name, value, tokens, dimensions):
    """Return a vector or a matrix (``dimensions`` 1 or 2) that acts on tokens (..., n, T, d), or raise ValueError."""
    array = tensor(name, value, *("k", "d")[-dimensions:])
    if array.shape[-1] != tokens.shape[-1]:
        raise ValueError(f"{name} has {array.shape[-1]} columns, tokens have d = {tokens.shape[-1]}: they must agree")
    broadcastable(tokens=tokens.shape[:-3], **{name: array.shape[:-dimensions]})
    return array
