"""Bound the least lead of a head whose keys and queries stay in a ball: weights of the differences, and the bound.

In a set of queries of one head each selects a token alpha among those before it, which leads every other token t by
(x_alpha - x_t) . W z with W = K Q^T / sqrt(r). Weights p, not negative and of sum 1, bound the least of these leads: it
is at most their mean, <G, W> with G = sum p_j (x_alpha - x_t) z^T. For K and Q in the ball of radius 1 / decay that is
at most the support function of the unit ball at G, over decay^2 sqrt(r). The weights that make this bound least are
the multipliers of the separator in the norm that the ball induces; if that has the norm N, the bound is 1 over
decay^2 N sqrt(r).
"""

import itertools
import warnings
from functools import cache

import numpy as np
import torch

from lib.problem import Problem
from lib.selection import selected_tokens
from lib.separators import hard_margin

GAP = 0.01  # of the bound in the sign ball, relative to what a separator reaches
ROUNDS = 2000


def asked(tokens, places):
    """The problem of sets of queries: texts (S, T, d), places (..., n) as text * T + position; each sees its past."""
    length = tokens.shape[1]
    text, at = places // length, places % length
    mask = torch.arange(length) <= at[..., None]
    return Problem(tokens[text], torch.zeros(mask.shape, dtype=tokens.dtype), tokens[text, at], mask=mask)


def combined(problem, selected, weights):
    """G = sum p_it (x_i alpha_i - x_it) z_i^T, shape (..., d, d), of weights p (..., n, T)."""
    weights = weights / weights.sum((-2, -1), keepdim=True)
    at_selected = torch.nn.functional.one_hot(selected, weights.shape[-1]) * weights.sum(-1, keepdim=True)
    d = problem.keys.shape[-1]
    return problem.pull_back(at_selected - weights).unflatten(-1, (d, d))


def support(matrices, ball, columns):
    """The largest <G, K Q^T> over K and Q of this many columns in the unit ball of a rule, for G (..., d, d).

    "sign": entries at most 1. "spectral": singular values at most 1. "nuclear": |K|^2 + |Q|^2 at most 1.
    """
    if ball == "sign":
        signs, flat = sign_vectors(matrices.shape[-1]), matrices.reshape(-1, *matrices.shape[-2:])
        largest = [(signs @ one).abs().sum(-1).max() for one in flat]
        return columns * torch.stack(largest).view(matrices.shape[:-2])
    values = torch.linalg.svdvals(matrices)
    return values[..., :columns].sum(-1) if ball == "spectral" else values[..., 0] / 2


@cache
def sign_vectors(size):
    """All vectors of entries 1 and -1, one of each pair s and -s, shape (2^(size - 1), size)."""
    vectors = torch.tensor(list(itertools.product([1.0, -1.0], repeat=size)), dtype=torch.float64)
    return vectors[: len(vectors) // 2]


def multipliers(problem, selected, ball, columns):
    """Weights p (n, T) of one set that make the bound least, and the least lead that a point of the ball reaches."""
    n, T, d = problem.keys.shape
    others = problem.mask & (torch.arange(T) != selected[:, None])
    away = (problem.keys[torch.arange(n), selected][:, None] - problem.keys)[others]
    rows = torch.einsum("md,me->mde", away, problem.queries[:, None].expand(n, T, d)[others])
    found, reached = _game(rows, columns) if ball == "sign" else _stated(rows.flatten(1), (d, d), ball, columns)
    weights = torch.zeros(n, T, dtype=rows.dtype)
    weights[others] = torch.as_tensor(found).clamp(min=0)
    return weights / weights.sum(), float(reached)


def _stated(rows, shape, ball, columns):
    """Weights of rows (m, d * d) with the least support function, and what its multipliers reach, by Clarabel.

    The sum of the r largest singular values of G is the least r |A|_spectral + |G - A|_nuclear.
    """
    import cvxpy  # slow to import

    scale = torch.linalg.vector_norm(hard_margin(rows).theta)  # with it the separator is about 1 long
    rows = scale * rows
    matrix, part = cvxpy.Variable(shape), cvxpy.Variable(shape)
    weights = cvxpy.Variable(len(rows), nonneg=True)
    if ball == "nuclear":
        size = cvxpy.sigma_max(matrix) / 2
    else:
        size = columns * cvxpy.sigma_max(matrix - part) + cvxpy.normNuc(part)
    equal = cvxpy.vec(matrix, order="C") == rows.numpy().T @ weights
    problem = cvxpy.Problem(cvxpy.Minimize(size), [equal, cvxpy.sum(weights) == 1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # that the tolerance was not reached: bound and lead are compared
        problem.solve(solver=cvxpy.CLARABEL)
    if problem.status not in ("optimal", "optimal_inaccurate"):
        raise RuntimeError(f"cvxpy ended with status {problem.status!r}: take another set of queries")
    separator = torch.as_tensor(equal.dual_value)
    margins = rows @ separator
    values = torch.linalg.svdvals(separator.view(shape))
    length = 2 * values.sum() if ball == "nuclear" else torch.maximum(values[0], values.sum() / columns)
    return weights.value, (margins * margins.mean().sign()).min() / length / scale


def _game(rows, columns):
    """The same in the sign ball, to GAP: rows play against sign matrices, which join while one of them is better."""
    from scipy.optimize import linprog  # slow to import

    signs, weights, margins, best = sign_vectors(rows.shape[-1]), torch.full((len(rows),), 1 / len(rows)), [], None
    for _ in range(ROUNDS):
        asked_signs = signs @ torch.einsum("m,mde->de", weights.double(), rows)
        sizes = asked_signs.abs().sum(-1)
        if best is None or sizes.max() < best[0]:
            best = sizes.max(), weights
        for k in sizes.topk(3).indices:
            margins.append(torch.einsum("d,mde,e->m", signs[k], rows, asked_signs[k].sign()).numpy())
        table, count = np.stack(margins, 1), len(margins)
        reached = linprog(
            np.append(np.zeros(count), -1.0), np.c_[-table, np.ones(len(rows))], np.zeros(len(rows)),
            np.append(np.ones(count), 0.0)[None], [1.0], [(0, None)] * count + [(None, None)], method="highs",
        )  # fmt: skip
        if best[0] * (1 - GAP) <= -reached.fun:
            return best[1], -columns * reached.fun
        weights = torch.as_tensor(-reached.ineqlin.marginals)
    raise RuntimeError(f"the bound in the sign ball is known to less than {GAP:g} after {ROUNDS} rounds: rescale")


def sets_of(theta, tokens, queries, first, draw):
    """Places (heads, 3, n): two random sets, the same for all heads, and the queries with the largest leads.

    theta (heads, d * d), tokens (S, T, d).
    """
    texts, length, _ = tokens.shape
    whole = torch.tensor([text * length + at for text in range(texts) for at in range(first, length)])
    random = torch.stack([whole[torch.randperm(len(whole), generator=draw)[:queries]] for _ in range(2)])
    top = asked(tokens, whole).logits(theta).topk(2, -1).values
    sharpest = whole[(top[..., 0] - top[..., 1]).topk(queries, -1).indices]
    return torch.cat([random.expand(len(theta), -1, -1), sharpest[:, None]], 1)


def bounded(factors, tokens, ball, queries, first, seed):
    """Sets of queries of all heads, places (layers, heads, 3, n), and the weights that bound them, (..., n, T).

    Keys and queries have the shape (2, layers, heads, d, r), tokens (layers, S, T, d): the very numbers that are kept.
    ``reached`` (layers, heads, 3) is the least lead of a point of the ball of radius 1, before the head's scale.
    """
    draw = torch.Generator().manual_seed(seed)
    factors, tokens = (torch.as_tensor(part).double() for part in (factors, tokens))
    columns = factors.shape[-1]
    thetas = (factors[0] @ factors[1].mT).flatten(-2) / columns**0.5
    places = torch.stack([sets_of(*pair, queries, first, draw) for pair in zip(thetas, tokens, strict=True)])
    weights, reached = torch.zeros(*places.shape, tokens.shape[2]), torch.zeros(places.shape[:3])
    for layer, head, kind in itertools.product(*map(range, places.shape[:3])):
        problem = asked(tokens[layer], places[layer, head, kind])
        selected = selected_tokens(problem, thetas[layer, head])
        weights[layer, head, kind], reached[layer, head, kind] = multipliers(problem, selected, ball, columns)
    return {"places": places.short().numpy(), "weights": weights.half().numpy(), "reached": reached.numpy()}
