"""Which tokens attention picks, and whether a pick can last: Definitions 1 and 2 of arXiv:2306.13596."""

import torch

from . import checks


def optimal_tokens(problem):
    """opt_i, the index of the highest score, shape (..., n); the first of those that tie."""
    return problem.scores.argmax(-1)


def selected_tokens(problem, theta):
    """Index of the largest logit at theta (the token that attention turns to as theta grows), shape (..., n)."""
    return problem.logits(theta).argmax(-1)


def check_selected(selected, inputs, tokens):
    """Return ``selected`` as indices of shape (..., n); ValueError if one is out of range or not a whole number."""
    indices = torch.as_tensor(selected)
    if indices.dtype.is_floating_point or indices.dtype == torch.bool:
        raise ValueError(f"selected has type {indices.dtype}: give one whole number for each input")
    if indices.shape[-1:] != (inputs,):
        raise ValueError(f"selected has shape {tuple(indices.shape)}: give one index for each of the {inputs} inputs")
    if ((indices < 0) | (indices >= tokens)).any():
        wrong = indices[(indices < 0) | (indices >= tokens)][0].item()
        raise ValueError(f"selected index {wrong} is out of range: there are {tokens} tokens, 0 to {tokens - 1}")
    return indices


def other_tokens(selected, tokens):
    """Indices of the tokens that are not selected, in order, shape (..., n, T - 1)."""
    order = torch.arange(tokens - 1).expand(*selected.shape, -1)
    return order + (order >= selected[..., None])


def token_margins(problem, selected, theta):
    """theta . (row of the selected token - row of token t), shape (..., n, T); zero at the selected token."""
    logits = problem.logits(theta)
    selected = check_selected(selected, *logits.shape[-2:])
    return _at(logits, selected) - logits


def score_leads(problem, selected):
    """gamma_{i alpha_i} - gamma_it for all inputs i and other tokens t, shape (..., n (T - 1)).

    In the order of :func:`lib.separators.difference_rows`.
    """
    scores = problem.scores
    selected = check_selected(selected, *scores.shape[-2:])
    batch = checks.broadcastable(problem=scores.shape[:-2], selected=selected.shape[:-1])
    others = other_tokens(selected, scores.shape[-1]).expand(*batch, -1, -1)
    return (_at(scores, selected) - scores.expand(*batch, -1, -1).gather(-1, others)).flatten(-2)


def _at(values, selected):
    """Entries (..., n, 1) of ``values`` (..., n, T) at the selected tokens (..., n), leading dimensions broadcast."""
    batch = checks.broadcastable(problem=values.shape[:-2], selected=selected.shape[:-1])
    values, selected = values.expand(*batch, *values.shape[-2:]), selected.expand(*batch, selected.shape[-1])
    return values.gather(-1, selected[..., None])


def svm_neighbours(problem, selected, separator, tolerance=1e-6):
    """Tokens on the margin of the ATT-SVM (Definition 2): bool, shape (..., n, T).

    Parameters
    ----------
    separator : lib.separators.Separator
        The ATT-SVM of ``selected``.
    tolerance : float
        A token is on the margin when its own margin is 1 to within this.
    """
    margins = token_margins(problem, selected, separator.theta)
    checks.positive("tolerance", tolerance)
    return margins.sub(1).abs() <= tolerance


def score_gaps(problem, selected, separator):
    """Smallest lead of a selected token's score over its SVM-neighbours, shape (...); inf where nothing neighbours.

    The min_i min_{t in T_i} (gamma_{i alpha_i} - gamma_it) of Figures 9(b) and 10 of arXiv:2306.13596.
    """
    selected = check_selected(selected, *problem.scores.shape[-2:])
    lead = _at(problem.scores, selected) - problem.scores
    neighbours = svm_neighbours(problem, selected, separator)
    return torch.where(neighbours, lead, torch.inf).amin((-2, -1))


def locally_optimal(problem, selected, separator):
    """Whether each selected token scores above all its SVM-neighbours (Definition 2): bool, shape (...)."""
    return score_gaps(problem, selected, separator) > 0
