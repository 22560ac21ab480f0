"""Hold the arrays of problems whose leading dimensions broadcast, for :mod:`lib.problem` and :mod:`lib.joint`."""

from dataclasses import replace
from functools import cached_property

import torch

from . import checks

DIMS = {  # dimensions of each array behind the leading ones
    "keys": ("n", "T", "d"),
    "scores": ("n", "T"),
    "queries": ("n", "e"),
    "tokens": ("n", "T", "c"),
    "labels": ("n",),
    "mask": ("n", "T"),
}


class Batch:
    """Hold arrays whose leading dimensions broadcast: the base of problems in theta, and in head and theta."""

    mask = None  # no token is hidden

    @property
    def batch_shape(self):
        """Leading dimensions of the risk, those of all fields together."""
        return checks.broadcastable(
            **{name: value.shape[: -len(DIMS[name])] for name, value in self._tensors().items()}
        )

    def _tensors(self):
        """Arrays that are set, by name."""
        return {name: getattr(self, name) for name in DIMS if getattr(self, name, None) is not None}

    def _expanded(self):
        """Arrays that are set, by name, all with the same leading dimensions."""
        batch = self.batch_shape
        return {name: value.expand(*batch, *value.shape[-len(DIMS[name]) :]) for name, value in self._tensors().items()}

    @cached_property
    def duplicate_keys(self):
        """Which tokens of an input have the same key, bool (..., n, T, T); None where no two have.

        They have one logit at every theta, and so one share of the attention.
        """
        if not (self.keys[..., 0].sort(dim=-1).values.diff(dim=-1) == 0).any():
            return None
        same = _same(self.keys)
        if self.mask is not None:
            same = same & self.mask[..., :, None] & self.mask[..., None, :]
        return same if same.sum() > same.diagonal(dim1=-2, dim2=-1).sum() else None

    @cached_property
    def duplicates_agree(self):
        """Whether tokens of an input with the same key are the same to the head, too."""
        if self.duplicate_keys is None:
            return True
        arrays = self._expanded()
        seen = arrays["scores"][..., None] if "scores" in arrays else arrays["tokens"]
        return bool((_same(seen) | ~self.duplicate_keys).all())

    def __getitem__(self, index):
        """The problem at ``index`` of the leading batch dimensions."""
        return replace(self, **{name: value[index] for name, value in self._expanded().items()})


def _same(vectors):
    """Which of the vectors (..., T, d) are equal, bool (..., T, T)."""
    same = torch.ones((), dtype=torch.bool)
    for column in vectors.unbind(-1):
        same = same & (column[..., :, None] == column[..., None, :])
        if same.sum() == column.numel():  # no two are left
            break
    return same


def stack(problems):
    """One problem of several, with one leading dimension more: ``stack(problems)[k]`` is ``problems[k]``.

    Parameters
    ----------
    problems : sequence of Problem, or of lib.joint.JointProblem
        At least one, all of the same sizes and, where it is not linear, with the same head.

    Raises
    ------
    ValueError
        If they differ in a size, in which arrays they have, or in the head.

    Examples
    --------
    >>> from lib.problem import Problem
    >>> one = Problem(keys=[[[0, 2], [0, 0]]], scores=[[1, 0]])
    >>> stack([one, one, one]).batch_shape
    torch.Size([3])
    """
    if not len(problems):
        raise ValueError(f"problems is {problems!r}: give at least one")
    for problem in problems:
        checks.either_problem(problem)
    first, *others = parts = [problem._expanded() for problem in problems]
    sizes = {name: tuple(value.shape) for name, value in first.items()}
    for other in others:
        shapes = {name: tuple(value.shape) for name, value in other.items()}
        if shapes != sizes:
            raise ValueError(f"problems have arrays of shapes {sizes} and {shapes}: give problems of the same shapes")
    if len({getattr(problem, "head", None) for problem in problems}) > 1:
        raise ValueError("problems have different nonlinear heads: give problems with the same one")
    return replace(problems[0], **{name: torch.stack([problem[name] for problem in parts]) for name in first})


def same_problem(first, second):
    """Whether two problems have the same arrays and the same head."""
    mine, theirs = first._tensors(), second._tensors()
    return first is second or (
        mine.keys() == theirs.keys()
        and getattr(first, "head", None) is getattr(second, "head", None)
        and all(torch.equal(array, theirs[name]) for name, array in mine.items())
    )
