"""Find a separator, to a given duality gap, without forming its rows, for problems too large for :mod:`lib.separators`.

The dual of ``min |W|^2 / 2`` subject to D vec(W) >= 1 is to maximise ``sum lambda - |D^T lambda|^2 / 2`` over
lambda >= 0. Ascent by Nesterov's method needs only products with D and its transpose, and those are the logits of a
problem and their adjoint: X_i (W z_i) and the sum of X_i^T w_i z_i^T.
"""

import torch

from ._lib import Separator, check_selected, checks, other_tokens

POWERS = 15  # iterations of the power method for the largest eigenvalue
ABOVE = 1.05  # allowance for what the power method misses


def factored_separator(problem, selected=None, gap=2e-2, iterations=1000):
    """ATT-SVM of one problem in the Euclidean norm, as :func:`lib.separators.att_svm`, to a gap, without its rows.

    Memory is that of the keys and a few arrays (n, T); an iteration costs as much as a gradient. The gap is certified:
    theta meets all constraints, and no shorter one than ``(1 - gap) |theta|`` does.

    Parameters
    ----------
    problem : Problem
        Without leading dimensions; in float32 it takes half of the time and memory.
    selected : array_like of int, shape (n,), optional
        The token with the highest score when left out.
    gap : float
        Between 0 and 1; small ones take as many iterations as the root of 1 / gap, where rows are many.
    iterations : int
        At most.

    Returns
    -------
    Separator
        ``margin_error`` bounds how far a margin is from that of the exact solution. An infeasible choice looks like one
        that needs more iterations.

    Raises
    ------
    RuntimeError
        If the gap is not reached; the sentence has the smallest that was.
    ValueError
        If the problem has leading dimensions, or arguments do not fit.

    Examples
    --------
    >>> from lib.problem import Problem
    >>> problem = Problem([[[0.0, 2.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, 0.0]]], scores=[[1.0, 0.0], [1.0, 0.0]])
    >>> separator = factored_separator(problem, gap=1e-6)
    >>> [round(entry, 3) for entry in separator.theta.tolist()], bool(separator.gap <= 1e-6)
    ([1.0, 0.5], True)
    """
    checks.problem(problem)
    checks.single(problem)
    checks.number("gap", gap, lambda gap: 0 < gap < 1, "give a number between 0 and 1")
    checks.integer("iterations", iterations)
    if selected is None:
        selected = problem.seen(problem.scores).argmax(-1)
    selected = check_selected(problem, selected)
    lengths, used = _row_lengths(problem, selected)
    scale = torch.where(used, 1 / lengths, 0.0)  # makes each row a unit vector

    def combined(weights):
        weights = scale * weights
        return problem.pull_back((-weights).scatter_add(-1, selected[:, None], weights.sum(-1, keepdim=True)))

    def margins(theta):
        logits = problem.logits(theta)
        return scale * torch.where(used, logits.gather(-1, selected[:, None]) - logits, 0.0)

    step = 1 / (ABOVE * _largest(lambda weights: margins(combined(weights)), scale))
    weights, best = _ascend(combined, margins, scale, used, step, gap, iterations)
    if best > gap:
        raise RuntimeError(
            f"the gap is {best:.2g} after {iterations} iterations, not {gap:g}: give more, or another choice, since"
            " this one may have no separator"
        )
    return _solution(problem, selected, weights, combined, margins, scale, lengths)


def _row_lengths(problem, selected):
    """Lengths of the difference rows (n, T), and a mask of the rows that exist."""
    keys = problem.keys
    selected_keys = keys.gather(-2, selected[:, None, None].expand(-1, 1, keys.shape[-1]))
    squares = keys.square().sum(-1) - 2 * (keys @ selected_keys.mT)[..., 0] + selected_keys.square().sum(-1)
    if problem.queries is not None:
        squares = squares * problem.queries.square().sum(-1, keepdim=True)
    used = torch.arange(keys.shape[-2], device=keys.device) != selected[:, None]
    used = used if problem.mask is None else used & problem.mask
    squares = torch.where(used, squares, 1.0)
    if (squares <= 0).any():
        i, token = torch.nonzero(squares <= 0)[0].tolist()
        raise ValueError(f"token {token} of input {i} is equal to the selected one: nothing separates them")
    return squares.sqrt(), used


def _largest(product, scale):
    """The largest eigenvalue of D D^T of unit rows, by the power method."""
    vector = torch.linspace(1, 2, scale.numel()).to(scale).view_as(scale) * (scale > 0)
    for _ in range(POWERS):
        vector = product(vector / vector.norm())
    return vector.norm()


def _ascend(combined, margins, scale, used, step, gap, iterations):
    """Weights of the unit rows at which the gap is met, or the best after so many iterations, and their gap."""
    weights = used.to(scale) * scale
    leads = margins(combined(weights))
    if not (square := (weights * leads).sum()) > 0:  # these weights prove that there is no separator
        return weights, torch.inf
    grown = (scale * weights).sum() / square  # the best multiple
    weights, leads = grown * weights, grown * leads
    before, leads_before, pace, best = weights, leads, 1.0, (torch.inf, weights)
    for _ in range(iterations):
        square, total = (weights * leads).sum(), (scale * weights).sum()
        lowest = torch.where(used, leads / scale, torch.inf).min()
        attained = (1 - total * lowest / square).item() if lowest > 0 else torch.inf
        best = min(best, (attained, weights), key=lambda pair: pair[0])
        if attained <= gap:
            break
        faster = (1 + (1 + 4 * pace**2) ** 0.5) / 2
        ahead = (pace - 1) / faster
        towards, slopes = weights + ahead * (weights - before), leads + ahead * (leads - leads_before)
        new = torch.where(used, towards + step * (scale - slopes), 0.0).clamp(min=0)
        pace = faster if ((towards - new) * (new - weights)).sum() <= 0 else 1.0
        before, leads_before, weights = weights, leads, new
        leads = margins(combined(weights))
    return best[1], best[0]


def _solution(problem, selected, weights, combined, margins, scale, lengths):
    """The separator that weights of unit rows stand for: theta with the smallest margin 1."""
    others = other_tokens(selected, weights.shape[-1], problem.mask)
    theta = combined(weights)
    leads = torch.where(scale > 0, margins(theta) * lengths, torch.inf)
    lowest = leads.min()
    theta, leads, weights = theta / lowest, leads / lowest, weights / lowest
    length = theta.norm()
    gap = 1 - (scale * weights).sum() / length**2
    margin_error = lengths * length * (2 * gap.clamp(min=0)).sqrt()
    duals = weights * scale

    def on_rows(values):
        return values.gather(-1, others).flatten()

    if problem.mask is not None:  # what stands in place of a hidden token has its weight elsewhere
        places = other_tokens(selected, weights.shape[-1])
        doubled = ~problem.mask.gather(-1, places).flatten()
    return Separator(
        theta=theta,
        duals=on_rows(duals) if problem.mask is None else on_rows(duals).masked_fill(doubled, 0.0),
        margins=on_rows(leads),
        gap=gap,
        feasible=torch.ones((), dtype=torch.bool, device=theta.device),
        certificate=torch.zeros_like(on_rows(duals)),
        margin_error=on_rows(margin_error),
    )
