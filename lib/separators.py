"""Solve hard-margin SVMs over difference rows: the directions that attention tends to.

``min |theta|`` subject to D theta >= 1 has no bias, so it is a least-distance problem: a dual active-set method solves
it exactly in finitely many steps, gives the multipliers or, where nothing satisfies the constraints, the weights that
prove it. Every solution carries its own certificate. The same with other margins than 1 gives the relaxed SVM, with
labelled features as rows the SVM of the head.
"""

import torch

from . import checks
from ._hard_margin import NORMS, InfeasibleError, Separator, hard_margin, hard_margin_cvxpy
from .problem import Problem, difference_rows

__all__ = [
    "InfeasibleError", "Separator", "att_svm", "hard_margin", "hard_margin_cvxpy", "label_svm", "relaxed_att_svm",
]  # fmt: skip


def att_svm(problem, selected=None, norm=2.0, infeasible="raise"):
    """ATT-SVM: ``argmin |theta|`` s.t. theta . (A_{i, selected_i} - A_it) >= 1 for all i and t (arXiv:2306.13596).

    With queries it is W-SVM (arXiv:2402.05738), with ``norm`` l_p-AttSVM (arXiv:2410.14581).

    Parameters
    ----------
    problem : Problem, or Tensor of shape (..., m, D)
        A problem, or the difference rows themselves.
    selected : array_like of int, shape (..., n)
        The chosen token of each input; that with the highest score when left out. Not with difference rows.
    norm : float, "spectral", "nuclear" or "signs"
        1 <= p <= inf; that of the matrix W for a problem with queries.
    infeasible : {"raise", "mark"}
        What becomes of those of the batch that have no solution: an error, or ``feasible`` is False.

    Returns
    -------
    Separator

    Raises
    ------
    InfeasibleError
        If any of the batch has no solution, unless that is to be marked.
    ValueError
        If ``selected`` does not fit the problem, or the rows are not finite.

    Examples
    --------
    >>> keys = torch.tensor([[[0, 2], [0, 0]], [[1, 0], [0, 0]]], dtype=torch.float64)
    >>> problem = Problem(keys, scores=torch.tensor([[1, 0], [1, 0]], dtype=torch.float64))
    >>> separator = att_svm(problem, selected=[0, 0])
    >>> [round(entry, 6) for entry in separator.theta.tolist()], bool(separator.gap < 1e-10)
    ([1.0, 0.5], True)
    """
    if infeasible not in ("raise", "mark"):
        raise ValueError(f"infeasible is {infeasible!r}: use raise or mark")
    shape = None
    if isinstance(problem, Problem):
        if problem.queries is not None:
            shape = problem.keys.shape[-1], problem.queries.shape[-1]
        checks.any_norm(norm, shape, names=NORMS)
        problem = difference_rows(problem, problem.seen(problem.scores).argmax(-1) if selected is None else selected)
    elif selected is not None:
        raise ValueError(
            f"problem is a {type(problem).__name__}, selected {checks.shown(selected)}: give a Problem, or leave"
            " selected out, which difference rows know"
        )
    separator = hard_margin(problem, norm, shape=shape)
    if infeasible == "mark":
        return separator
    return _all_feasible(separator, "no direction separates the selected tokens", "select other tokens")


def relaxed_att_svm(problem, selected, support):
    """Solve the relaxed ATT-SVM, problem (10) of arXiv:2306.13596: margin 1 where it supports the head, else only 0.

    ``argmin |p|`` s.t. p . (k_{i selected_i} - k_it) >= 1 for the inputs in ``support``, and >= 0 for the others.

    Parameters
    ----------
    problem : Problem
    selected : array_like of int, shape (..., n)
    support : array_like of bool, shape (..., n)
        Support vectors of :func:`label_svm`.

    Returns
    -------
    Separator

    Raises
    ------
    InfeasibleError
        If any of the batch has no solution.
    ValueError
        If shapes do not fit, or no input is in the support.
    """
    rows = difference_rows(problem, selected)
    inputs, tokens = problem.scores.shape[-2:]
    support = checks.mask(support, (inputs,), "support", "True for each input that supports the head, else False")
    separator = hard_margin(rows, required=support.to(rows).repeat_interleave(tokens - 1, -1))
    return _all_feasible(separator, "no direction separates the selected tokens", "select other tokens")


def label_svm(features, labels, norm=2.0):
    """SVM of the head: ``argmin |v|`` s.t. Y_i v . r_i >= 1, problem (SVM) of arXiv:2306.13596.

    With ``norm`` l_p-SVM (arXiv:2410.14581).

    Parameters
    ----------
    features : array_like, shape (..., n, d)
        r_i, one feature vector for each input.
    labels : array_like, shape (..., n)
        Y_i, +1 or -1.
    norm : float
        1 <= p <= inf.

    Returns
    -------
    Separator
        ``theta`` is v_mm, ``1 / |v_mm|`` the label margin; the support vectors have margin 1.

    Raises
    ------
    InfeasibleError
        If any of the batch has no solution.

    Examples
    --------
    >>> features = torch.tensor([[2, 0], [0, -1]], dtype=torch.float64)
    >>> [round(entry, 6) for entry in label_svm(features, labels=[1, -1]).theta.tolist()]
    [0.5, 1.0]
    """
    features, labels = checks.tensors(features=(features, "n", "d"), labels=(labels,)).values()
    labels = checks.labels(labels, features.shape[-2])
    separator = hard_margin(labels[..., None] * features, norm)
    return _all_feasible(separator, "no head has every label right", "use other features")


def _all_feasible(separator, failure, remedy):
    """The separator; InfeasibleError with the certificate of the first of the batch that has none."""
    if not separator.feasible.all():
        which = torch.nonzero(~separator.feasible)[0].tolist()
        place = f" at index {tuple(which)} of the batch" if which else ""
        raise InfeasibleError(
            f"the SVM{place} is infeasible: {failure} by more than 1e-12 of the lengths of rows, as the attached"
            f" certificate proves; {remedy}, or use hard_margin for a mask",
            separator.certificate[tuple(which)],
        )
    return separator
