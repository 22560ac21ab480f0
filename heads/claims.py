"""Read a problem of one's own, and see which selections can hold descent."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ._lib import (
    Problem,
    checks,
    difference_rows,
    every_selection,
    hard_margin,
    in_span,
    norm,
    optimal_tokens,
    other_tokens,
    score_leads,
    token_margins,
)
from .files import ARRAYS, read_arrays

SHAPES = {"keys": 3, "scores": 2, "queries": 2, "start": None}
EXPECTED = "keys (n, T, d) and scores (n, T), and if you like queries (n, e) and start"
MOST_TOKENS, MOST_ENTRIES = 400, 2**16  # of all inputs; of W
LARGEST = 1e100  # entry, and 1 over it the least largest one, so that squares stay in the floats
MOST_CHOICES = 5000  # selections up to which all are tried
TIE = 1e-9  # of a lag, from 1


class Claim(NamedTuple):
    """What a file holds: the problem, and vec(W) or p at the start."""

    problem: Problem
    start: Tensor


def read_claim(path):
    """Read a :class:`Claim`; ValueError with one sentence where the file does not hold what is needed."""
    if Path(path).suffix not in ARRAYS:
        raise ValueError(f"{path} is no npz or safetensors: save {EXPECTED}")
    arrays = read_arrays(path)
    if unknown := [name for name in arrays if name not in SHAPES]:
        raise ValueError(f"{path} has {unknown[0]}, which is not known: give {EXPECTED}")
    if missing := [name for name in ("keys", "scores") if name not in arrays]:
        but = f", but {checks.join_names(arrays)}" * bool(arrays)
        raise ValueError(f"{path} has no {' and no '.join(missing)}{but}: give {EXPECTED}")
    arrays = {name: torch.as_tensor(array).double() for name, array in arrays.items()}
    _check_sizes(path, arrays)
    problem = Problem(arrays["keys"], arrays["scores"], arrays.get("queries"))
    checks.single(problem)
    return Claim(problem, _start(path, problem, arrays.get("start")))


def _check_sizes(path, arrays):
    """Raise ValueError where there is nothing to choose, or too much, before anything is made of it."""
    keys, scores = arrays["keys"], arrays["scores"]
    for name, array in arrays.items():
        if SHAPES[name] not in (None, array.ndim):
            raise ValueError(f"{name} of {path} have shape {tuple(array.shape)}: give {EXPECTED}")
        largest = array.abs().max().item() if array.numel() else 0.0
        if largest and not 1 / LARGEST <= largest <= LARGEST and largest < torch.inf:
            raise ValueError(f"{name} of {path} reach {largest:.0e}: divide them by a number, so that they are near 1")
    if not keys.numel() or keys.shape[1] < 2 or keys.shape[:2].numel() > MOST_TOKENS:
        limits = f"two tokens an input or more, and at most {MOST_TOKENS} in all"
        raise ValueError(f"keys of {path} have shape {tuple(keys.shape)}: give {limits}")
    entries = keys.shape[-1] * (arrays["queries"].shape[-1] if "queries" in arrays else 1)
    if not 0 < entries <= MOST_ENTRIES:
        raise ValueError(f"W of {path} has {entries:,} entries: give keys and queries for 1 to {MOST_ENTRIES:,}")
    if (keys == keys[:, :1]).all():
        raise ValueError(f"keys of {path} are the same for all tokens of an input, so nothing is chosen: give others")
    equal = (scores == scores[:, :1]).all(-1).tolist()
    if any(equal):
        raise ValueError(
            f"scores of input {equal.index(True)} of {path} are all equal, so no token is best: give others"
        )


def _start(path, problem, start):
    """vec(W) or p at the start, zero without one; ValueError if its shape is another than that of W or p."""
    if start is None:
        return torch.zeros(problem.parameter_size, dtype=torch.float64)
    d, e = weight_shape(problem)
    shape, named = ((d,), "(d,) without queries") if problem.queries is None else ((d, e), "(d, e) with queries")
    if tuple(start.shape) != shape:
        raise ValueError(f"start of {path} has shape {tuple(start.shape)}: give {named}, {shape}")
    checks.finite("start", start)
    problem.logits(start.flatten())  # refuses one whose logits leave the floats
    return start.flatten()


def weight_shape(problem):
    """(d, e) of W, or (d, 1) of p."""
    return problem.keys.shape[-1], 1 if problem.queries is None else problem.queries.shape[-1]


def separable(problem):
    """Whether a direction separates the best tokens, and in a clause why: its length, or tokens that bar it."""
    best = optimal_tokens(problem)
    separator = hard_margin(difference_rows(problem, best))
    if separator.feasible:
        size = norm(separator.theta)
        return True, f"the shortest separator has length {size:.4g}, relative gap {separator.gap:.0e}"
    others = other_tokens(best, problem.scores.shape[-1])
    weighed = (separator.certificate.view_as(others) > 0).nonzero().tolist()
    tokens = checks.join_names(f"{others[place, k]} of input {place}" for place, k in weighed)
    return False, (f"no direction separates them: none puts tokens {tokens} all behind them, as their differences"
                   f" from these, with weights of sum 1, add up to"
                   f" {norm(separator.certificate @ difference_rows(problem, best)):.0e}")  # fmt: skip


def stable_selections(problem):
    """Selections that can hold descent for good, best scores first, and their lags; None if there are too many.

    As the chapter *From any start* has it: with q the separator of the selected tokens from those that score lower, a
    better token's lag is (row of the selected - its own row) q, and all lags have to exceed 1.

    Returns
    -------
    (Tensor of int, Tensor) or None
        Shapes (m, n) and (m,): the smallest lag of a better token, inf where there is none.
    """
    inputs, tokens = problem.scores.shape
    if tokens**inputs > MOST_CHOICES:
        return None
    problem = problem if problem.queries is None else in_span(problem)
    every = every_selection(inputs, tokens)
    rows, lower = difference_rows(problem, every), score_leads(problem, every) > 0
    every, rows, lower = (part[lower.any(-1)] for part in (every, rows, lower))
    first = lower.long().argmax(-1)[:, None, None].expand(-1, 1, rows.shape[-1])
    separator = hard_margin(rows.where(lower[..., None], rows.gather(-2, first)))
    margins = token_margins(problem, every, separator.theta)
    own = problem.scores.expand(margins.shape).gather(-1, every[..., None])
    lags = margins.where(problem.scores > own, torch.inf).amin((-2, -1))
    tied = (margins.where(problem.scores == own, 0.0) >= 0).all(-1).all(-1)
    stable = separator.feasible & tied & (lags > 1 + TIE)
    order = problem.scores.expand(margins.shape).gather(-1, every[..., None]).sum((-2, -1)).argsort(descending=True)
    order = order[stable[order]]
    return every[order], lags[order]
