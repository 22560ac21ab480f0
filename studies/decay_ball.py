"""Minimise the risk over the ball in which weight decay keeps W, by an interior-point method, to a certified gap.

Where attention on each best token is near 1 the risk is convex in the leads (weight-decay, part 3). There the excess
E of a feasible W is at most g above the least one, g the largest <-grad E, S - W> over the ball.
"""

import math

import pandas as pd
import torch
from IPython.display import HTML
from torch.func import grad, grad_and_value, hessian, vmap

from lib import geometry
from lib.problem import difference_rows, other_tokens
from lib.separators import hard_margin

ON = 1e-6  # a multiplier, of their sum, that counts
GROWTH, STAGES, STEPS = 10.0, 11, 4  # of the weight of the risk beside the barrier; Newton steps a stage
TRIED = 0.5 ** torch.arange(12.0)  # lengths of a Newton step


def of_others(values, selected):
    """Of values (..., n, T) those of all tokens but the selected, one after the other."""
    others = other_tokens(selected, values.shape[-1])
    return values.gather(-1, others.expand(*values.shape[:-1], -1)).flatten(-2)


def weights(problem, theta, selected):
    """Weights of the differences in the gradient of the logistic risk, up to a factor."""
    attention = problem.attention(theta)
    mean = (attention * problem.scores).sum(-1, keepdim=True)
    return of_others(torch.sigmoid(-mean) * attention * (mean - problem.scores), selected)


def gaps(problem, selected):
    """Differences of scores and, for the logistic loss, what part 4 calls c, one entry a difference row."""
    scores = problem.scores.expand(*selected.shape, -1)
    mine = scores.gather(-1, selected[..., None])
    return of_others(mine - scores, selected), of_others(torch.sigmoid(-mine) * (mine - scores), selected)


def constant(separator, problem, selected):
    """D of part 4, from the multipliers; nan where one belongs to a token with a higher score."""
    c = gaps(problem, selected)[1]
    p = separator.duals / separator.duals.sum(-1, keepdim=True)
    log = torch.where(p > ON, (c / p).log(), 0.0)
    return (p * log).sum(-1) - log.where(p > ON, torch.inf).amin(-1)


def log_excess(theta, rows, apart, c, inputs):
    """Logarithm of the logistic risk, summed over inputs, less that of the best scores; of one problem."""
    odds = (-(rows @ theta)).exp().unflatten(-1, (inputs, -1))
    apart = apart.unflatten(-1, (inputs, -1))
    slope = c.unflatten(-1, (inputs, -1))[:, 0] / apart[:, 0]
    lost = (apart * odds).sum(-1) / (1 + odds.sum(-1))
    return (slope * lost.expm1()).log1p().sum().log()


def barrier(theta, norm, shape):
    """Infinite on the boundary of the unit ball of norm 2, inf or "spectral"."""
    if norm == math.inf:
        return -(1 - theta.square()).log().sum()
    if norm == 2:
        return -(1 - theta.square().sum()).log()
    matrix = theta.unflatten(-1, shape)
    root = torch.linalg.cholesky_ex(torch.eye(shape[0]).to(theta) - matrix @ matrix.mT)[0]
    return -2 * root.diagonal().log().sum()


def minimiser(rows, apart, c, inputs, start, norm, shape):
    """Minimise the logistic risk of theta over the unit ball.

    Parameters
    ----------
    rows : Tensor, shape (..., m, D)
        Differences of the best tokens of inputs to others, times the radius of the ball that is meant.
    apart, c : Tensors, shape (..., m)
        As :func:`gaps` gives them.
    inputs : int
    start : Tensor, shape (..., D)
        Inside the ball.
    norm : 2, inf or "spectral"
    shape : (int, int)

    Returns
    -------
    theta : Tensor, shape (..., D)
    gap : Tensor, shape (...)
        g over E.
    """
    batch = start.shape[:-1]
    rows = rows.expand(*batch, -1, -1).flatten(0, -3)
    apart, c, theta = (part.expand(*batch, -1).flatten(0, -2) for part in (apart, c, start))

    def risk(theta, *about):
        return log_excess(theta, *about, inputs)

    def merit(theta, weight, *about):
        return weight * risk(theta, *about) + barrier(theta, norm, shape)

    slopes, bends = (vmap(of(merit), (0, None, 0, 0, 0)) for of in (grad_and_value, hessian))
    many = vmap(vmap(merit, (0, None, 0, 0, 0)), (0, None, None, None, None))
    for weight in (GROWTH**stage for stage in range(STAGES) for _ in range(STEPS)):
        slope, now = slopes(theta, weight, rows, apart, c)
        values, vectors = torch.linalg.eigh(bends(theta, weight, rows, apart, c))
        step = -(vectors @ ((slope[:, None] @ vectors)[:, 0] / values.abs())[..., None])[..., 0]
        tried = theta + TRIED[:, None, None].to(theta) * step
        found = many(tried, weight, rows, apart, c).nan_to_num(nan=math.inf)
        least, place = found.where(geometry.norm(tried, norm, shape) < 1, math.inf).min(0)
        theta = torch.where((least < now)[:, None], tried[place, torch.arange(len(theta))], theta)
    slope = -vmap(grad(risk))(theta, rows, apart, c)
    gap = geometry.norm(slope, geometry.dual(norm), shape) - (slope * theta).sum(-1)
    return theta.view(start.shape), gap.view(batch)


def certified(problem, theta, best):
    """Whether the excess risk is so small that all minimisers, and theta, lie where the risk is convex (part 3)."""
    apart, _ = gaps(problem, best)
    attention = problem.attention(theta)
    slopes = torch.sigmoid(-problem.scores)
    least, most = slopes.amin((-2, -1)), slopes.amax((-2, -1))
    smallest, largest = apart.amin(-1), apart.amax(-1)
    odds = smallest / ((attention.shape[-1] - 1) * largest * (3 + (1 - least) * largest))
    lost = (apart * of_others(attention, best)).sum(-1)
    return most * lost <= least * smallest * odds / (1 + odds)


def solved(problem, best, norm, shape, ceilings, largest_gap=1e-5):
    """Minimisers under ceilings, from just inside the ball in the separator's direction; shapes (ceilings, P).

    Returns a dict: least leads, ceilings, leads by the law, whether the gap is small, whether convexity is proved.
    """
    rows = difference_rows(problem, best)
    separator = hard_margin(rows, norm, shape=shape, largest_gap=largest_gap)
    size = geometry.norm(separator.theta, norm, shape)
    tall = ceilings[:, None].to(size)
    start = (0.9 * separator.theta / size[:, None]).expand(len(ceilings), -1, -1)
    radius = (tall * size)[..., None]
    apart, c = gaps(problem, best)
    theta, gap = minimiser(radius[..., None] * rows, apart, c, best.shape[-1], start, norm, shape)
    lead = torch.einsum("...d,...md->...m", radius * theta, rows).amin(-1)
    return {
        "lead": lead, "ceiling": tall, "law": tall - constant(separator, problem, best), "best": lead > 0,
        "tight": gap <= largest_gap, "proved": certified(problem, radius * theta, best),
    }  # fmt: skip


def median_error(lead, expected, which=True):
    """Median relative error, of those of the last dimension that count and have an expected value."""
    return (lead / expected - 1).abs().where(torch.as_tensor(which), math.nan).nanquantile(0.5, -1)


def errors(found, minima=None):
    """Columns of the table: share that selects the best tokens, median errors, distance from minimisers."""
    lead, which = found["lead"], found.get("tight", True)
    columns = {
        "best tokens": found["best"].double().mean(-1),
        "error of the formula": median_error(lead, found["law"], which),
        "error of the ceiling alone": median_error(lead, found["ceiling"], which),
    }
    if minima:
        end, tight = (minima[part][: lead.shape[0], : lead.shape[1]] for part in ("lead", "tight"))
        columns["distance from the minimiser"] = median_error(lead, end, found["best"] & tight)
    return columns


def settled(minima, found):
    """Median error of the formula at minimisers over that of runs, under the runs' last ceiling.

    Of the problems in which a run selects the best tokens; of all, if there is none.
    """
    last, count = found["lead"].shape[0] - 1, found["lead"].shape[1]
    won = found["best"][last] | ~found["best"][last].any()
    at, run = (median_error(one["lead"][last, :count], one["law"][last, :count], won) for one in (minima, found))
    return at / run


def percent(value):
    """A share in words of two digits; below the accuracy of minimisers only that."""
    if math.isnan(value):
        return "–"
    return "&lt; 0.001%" if value < 1e-5 else f"{100 * value:.{2 + (value >= 0.995)}g}%"


def table(lines, ceilings):
    """A column for each quantity, with a value below the other for each ceiling of a line, as HTML."""
    shown = {
        name: {"ceiling": "<br>".join(f"{ceiling:.0f}" for ceiling in ceilings.tolist()[: len(columns["best tokens"])])}
        | {group: "<br>".join(map(percent, values.tolist())) for group, values in columns.items()}
        for name, columns in lines.items()
    }
    order = dict.fromkeys(group for columns in shown.values() for group in columns)
    frame = pd.DataFrame.from_dict(shown, orient="index")[[*order]]
    return HTML(frame.to_html(na_rep="–", border=0, escape=False))
