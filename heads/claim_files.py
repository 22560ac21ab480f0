"""Read a problem of one's own from a file, and refuse in one sentence what is none."""

from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from ._lib import JointProblem, Problem, checks
from .files import ARRAYS, read_arrays

SHAPES = {"keys": "(n, T, d)", "scores": "(n, T)", "queries": "(n, e)", "labels": "(n,)", "head": "(d,)",
          "tokens": "(n, T, c)"}  # fmt: skip
EXPECTED = (
    "keys (n, T, d) and scores (n, T), or labels (n,) and head (d,) in their place; if you like queries and start"
)
MOST_TOKENS = 400  # of all inputs
MOST_ENTRIES = 2**16  # of W
USUAL = 1e6  # keys and queries whose largest entry is beyond, or below 1 over it, are scaled to 1
LARGEST = 1e100  # score


class Claim(NamedTuple):
    """What a file holds: the problem, tokens with labels if they are there, vec(W) or p at the start."""

    problem: Problem
    joint: JointProblem | None
    start: Tensor


def read_claim(path):
    """Read a :class:`Claim`; ValueError with one sentence where the file does not hold what is needed."""
    if Path(path).suffix not in ARRAYS:
        raise ValueError(f"{path} is no npz or safetensors: save {EXPECTED}")
    arrays = read_arrays(path)
    _check_names(path, arrays)
    arrays = {name: torch.as_tensor(array).double() for name, array in arrays.items()}
    for name, shape in SHAPES.items():
        if name in arrays and arrays[name].ndim != shape.replace(",)", ")").count(",") + 1:
            raise ValueError(f"{name} of {path} have shape {tuple(arrays[name].shape)}: give {shape}")
    _check_sizes(path, arrays)
    scale = 1.0
    for name in ("keys", "queries"):  # W takes up their scale, so that its start does, too
        if (
            name in arrays
            and 0 < (size := arrays[name].abs().max().item()) < torch.inf
            and not 1 / USUAL <= size <= USUAL
        ):
            arrays[name], scale = arrays[name] / size, scale * size
    if "start" in arrays:
        arrays["start"] = arrays["start"] * scale
    keys, queries = arrays["keys"], arrays.get("queries")
    if keys.shape[:2].numel() > MOST_TOKENS:
        raise ValueError(f"keys of {path} have shape {tuple(keys.shape)}: give at most {MOST_TOKENS} tokens in all")
    if (keys == keys[:, :1]).all():
        raise ValueError(f"keys of {path} are the same for all tokens of an input, so nothing is chosen: give others")
    tokens, joint = arrays.get("tokens", keys), None
    if "labels" in arrays:
        joint = JointProblem(tokens, arrays["labels"], keys, queries)
    problem = Problem(keys, arrays["scores"], queries) if "scores" in arrays else joint.fixed_head(arrays["head"])
    checks.single(problem)
    return Claim(problem, joint, _start(path, problem, arrays.get("start")))


def _check_sizes(path, arrays):
    """Raise ValueError where there is nothing to choose, or too much, before anything is made of it."""
    keys = arrays["keys"]
    _, tokens, width = keys.shape
    if not keys.numel() or tokens < 2:
        raise ValueError(f"keys of {path} have shape {tuple(keys.shape)}: give two tokens an input or more")
    entries = width * (arrays["queries"].shape[-1] if "queries" in arrays else 1)
    if entries > MOST_ENTRIES:
        raise ValueError(f"W of {path} has {entries:,} entries: give keys and queries for at most {MOST_ENTRIES:,}")
    scores = arrays.get("scores")
    if scores is None:
        return
    if scores.numel() and scores.abs().max() > LARGEST:
        raise ValueError(f"scores of {path} reach {scores.abs().max():.0e}: divide them by a number")
    if scores.shape[1:] == (tokens,) and (scores == scores[:, :1]).all(-1).any():
        place = (scores == scores[:, :1]).all(-1).tolist().index(True)
        raise ValueError(f"scores of input {place} of {path} are all equal, so no token is best: give others")


def _check_names(path, arrays):
    """Raise ValueError where an array is missing, unknown, or stands in for another that is there, too."""
    if unknown := [name for name in arrays if name not in (*SHAPES, "start")]:
        raise ValueError(f"{path} has {unknown[0]}, which is not known: give {EXPECTED}")
    if "scores" in arrays and "head" in arrays:
        raise ValueError(f"{path} has both scores and head: give scores, or labels and head in their place")
    missing = [name for name in ("keys",) if name not in arrays]
    if "scores" not in arrays:
        labelled = [name for name in ("labels", "head") if name not in arrays]
        missing += labelled if len(labelled) < 2 else ["scores"]
    if missing:
        raise ValueError(f"{path} has no {' and no '.join(missing)}, but {checks.join_names(arrays)}: give {EXPECTED}")


def _start(path, problem, start):
    """vec(W) or p at the start, zero without one; ValueError if its shape is another than that of W or p."""
    if start is None:
        return torch.zeros(problem.parameter_size, dtype=torch.float64)
    shape, named = (problem.keys.shape[-1],), "without queries give (d,)"
    if problem.queries is not None:
        shape, named = (*shape, problem.queries.shape[-1]), "with queries give (d, e)"
    if tuple(start.shape) != shape:
        raise ValueError(f"start of {path} has shape {tuple(start.shape)}: {named} = {shape}")
    start = start.flatten()
    checks.finite("start", start)
    problem.logits(start)  # refuses one whose logits leave the floats
    return start
