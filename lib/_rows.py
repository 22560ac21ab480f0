"""Form the difference rows of a selection, for :mod:`lib.problem`."""

import torch

from . import checks


def check_selected(problem, selected):
    """``selected`` as indices of shape (..., n); ValueError if one is out of range or not a whole number."""
    checks.either_problem(problem)
    inputs, tokens = problem.keys.shape[-3:-1]
    indices = checks.as_tensor("selected", selected, "one whole number for each input")
    if indices.dtype.is_floating_point or indices.dtype.is_complex or indices.dtype == torch.bool:
        raise ValueError(f"selected has type {indices.dtype}: give one whole number for each input")
    if indices.dtype != torch.int64:
        indices = indices.to(torch.int64)  # for gather; a uint64 that is too large turns negative
    if indices.shape[-1:] != (inputs,):
        raise ValueError(f"selected has shape {tuple(indices.shape)}: give one index for each of the {inputs} inputs")
    if ((indices < 0) | (indices >= tokens)).any():
        wrong = indices[(indices < 0) | (indices >= tokens)][0].item()
        raise ValueError(f"selected index {wrong} is out of range: there are {tokens} tokens, 0 to {tokens - 1}")
    if (mask := problem.mask) is not None:
        visible = mask.expand(*checks.broadcastable(mask=mask.shape[:-1], selected=indices.shape), tokens)
        hidden = ~visible.gather(-1, indices.expand(visible.shape[:-1])[..., None])[..., 0]
        if hidden.any():
            wrong = indices.expand(hidden.shape)[hidden][0].item()
            raise ValueError(f"selected index {wrong} is of a token that the mask hides: select one that may be seen")
    return indices


def other_tokens(selected, tokens, mask=None):
    """Indices of the tokens that are not selected, in order, shape (..., n, T - 1).

    In place of a token that a mask hides stands the first other one that may be seen: rows stay as many for each input,
    and one that is there twice changes no separator.
    """
    places = torch.arange(tokens - 1).expand(*selected.shape, -1)
    others = places + (places >= selected[..., None])
    if mask is None:
        return others
    batch = checks.broadcastable(mask=mask.shape[:-1], selected=selected.shape)
    others, mask = others.expand(*batch, -1), mask.expand(*batch, tokens)
    visible = mask.gather(-1, others)
    first = others.gather(-1, visible.to(torch.uint8).argmax(-1, keepdim=True))
    return torch.where(visible, others, first)


def difference_rows(problem, selected):
    """Rows A_{i, selected_i} - A_it for all inputs i and other tokens t, shape (..., n (T - 1), parameter_size).

    Input by input, tokens in the order of :func:`other_tokens`. Raises ValueError if an index is out of range.
    """
    selected = check_selected(problem, selected)
    inputs, tokens, size = problem.keys.shape[-3:]
    others = other_tokens(selected, tokens, problem.mask)
    batch = checks.broadcastable(keys=problem.keys.shape[:-3], selected=others.shape[:-2])
    keys = problem.keys.expand(*batch, inputs, tokens, size)
    selected, others = selected.expand(*batch, inputs), others.expand(*batch, inputs, tokens - 1)

    def pick(indices):
        return keys.gather(-2, indices[..., None].expand(*indices.shape, size))

    rows = pick(selected[..., None]) - pick(others)
    if problem.queries is not None:
        rows = torch.einsum("...ntd,...ne->...ntde", rows, problem.queries).flatten(-2)
    return rows.flatten(-3, -2)
