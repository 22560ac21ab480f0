"""Swap selected tokens for SVM-neighbours that score higher: where descent is likely to lead from a selection."""

from dataclasses import replace

import torch

from ._lib import check_selected, checks, difference_rows, hard_margin, in_span, svm_neighbours


def swap_until_stable(problem, selected):
    """Swap outscored tokens, one at a time, until a selection is locally optimal.

    Of the SVM-neighbours that score above the selected token of their input, the one with the largest lead takes its
    place; the next, where that leaves no separator. Each swap raises the sum of the scores, so it ends. That descent
    goes this way is a rule of thumb: Theorem 4 (arXiv:2306.13596) says only that it does not stay where a neighbour
    scores higher.

    Parameters
    ----------
    problem : Problem
        Without leading dimensions.
    selected : array_like of int, shape (n,)

    Returns
    -------
    Tensor of int, shape (n,)
        Where no swap is left that has a separator, or scores tie, it need not be locally optimal.

    Raises
    ------
    ValueError
        If the problem has leading dimensions, or the selection does not fit or has no separator.

    Examples
    --------
    >>> from lib.problem import Problem
    >>> problem = Problem([[[0.0, 1.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]], scores=[[1.0, 0.0], [0.0, 1.0]])
    >>> swap_until_stable(problem, [1, 0]).tolist()
    [0, 1]
    """
    checks.problem(problem)
    checks.single(problem)
    selected = check_selected(problem, selected)
    if problem.queries is not None:  # in the coordinates that occur: few, where all queries are equal
        problem = in_span(problem)
        problem = replace(problem, keys=problem.keys[..., problem.keys.flatten(0, 1).any(0)])
    separator = hard_margin(difference_rows(problem, selected))
    if not separator.feasible:
        raise ValueError(
            f"selected is {checks.shown(selected.tolist())}, which nothing separates: give one that has a separator"
        )
    while (swap := _swap(problem, selected, separator)) is not None:
        selected, separator = swap
    return selected


def _swap(problem, selected, separator):
    """The selection with one outscored token swapped, and its separator; None where no swap has one."""
    leads = problem.scores - problem.scores.gather(-1, selected[:, None])
    leads = torch.where(svm_neighbours(problem, selected, separator), leads, 0.0)
    for place in leads.flatten().argsort(descending=True)[: int((leads > 0).sum())].tolist():
        i, token = divmod(place, leads.shape[-1])
        swapped = selected.clone()
        swapped[i] = token
        new_separator = hard_margin(difference_rows(problem, swapped))
        if new_separator.feasible:
            return swapped, new_separator
    return None
