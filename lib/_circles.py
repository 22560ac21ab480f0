"""Search circles in the plane for the lowest risk, for :func:`lib.paths.regularization_path`."""

import math
from dataclasses import replace

import numpy as np
import torch

from . import checks, geometry
from .descent import excess_near, gradient_near
from .geometry import along_circle, on_circle
from .logspace import excess_risk, ordered
from .problem import difference_rows

TIES = 4096  # of two tokens in the plane: arcs between them are searched, unless there are more
NARROW = 1e-9  # part of a cone below which two angles are one
GOLDEN = (5**0.5 - 1) / 2
REFINED = 6  # lowest local minima of a grid of angles that are refined


def arc(cone):
    """Middle and half width of the angles to search."""
    if cone is None:
        return 0.0, math.pi
    pair = isinstance(cone, tuple | list) and len(cone) == 2
    axis = checks.tensor("axis", cone[0], "d") if pair else torch.empty(0)
    if axis.shape[-1] != 2:
        raise ValueError(f"cone is {checks.shown(cone)}: give (axis, opening), the axis in the plane")
    if (axis == 0).all(-1).any():
        raise ValueError("the cone's axis is zero: give a direction")
    opening = checks.positive("opening", cone[1])
    if (opening > 2).any():
        raise ValueError(f"the cone's opening is {opening.max():g}: 1 - cos is at most 2")
    return torch.atan2(axis[..., 1], axis[..., 0]), (1 - opening).arccos()


def with_ties(fractions, problem, middle, half):
    """Fractions of the arc (angles, ...), in order, with those at ties of two tokens and between each two of them."""
    inputs, tokens = problem.scores.shape[-2:]
    if inputs * tokens * (tokens - 1) > TIES:
        return fractions
    selections = torch.arange(tokens).reshape(-1, *[1] * len(problem.batch_shape), 1)
    selections = selections.expand(*selections.shape[:-1], inputs)
    rows = difference_rows(replace(problem, mask=None), selections)  # all pairs, both ways: a tie has two sides
    across = torch.atan2(rows[..., 0], -rows[..., 1]) - torch.as_tensor(middle)[..., None]
    ties = (across + math.pi).remainder(2 * math.pi) - math.pi
    ties = ties.movedim(-1, 0).flatten(0, 1).div(half).expand(-1, *problem.batch_shape)
    ties = _replace_repeats(torch.cat([fractions[:1], torch.where(ties.abs() < 1, ties, -1.0), fractions[-1:]]))
    return _replace_repeats(torch.cat([fractions, ties, (ties[:-1] + ties[1:]) / 2]))


def _replace_repeats(fractions):
    """Fractions in order; one that repeats the one before it is replaced by any other of the arc."""
    fractions = fractions.sort(0).values
    others = (GOLDEN * torch.arange(1, len(fractions), dtype=torch.float64)).remainder(1.0).mul(2).sub(1)
    others = others.reshape(-1, *[1] * (fractions.ndim - 1))
    rest = torch.where(fractions.diff(dim=0) > NARROW, fractions[1:], others)
    return torch.cat([fractions[:1], rest]).sort(0).values


def best_limit(problem, loss, directions):
    """Tokens (..., n) of the direction along which the risk has the lowest limit; directions with ties left out."""
    logits = problem.logits(directions)
    sorted_logits, tokens = logits.sort(-1, descending=True)
    clear = (sorted_logits[..., 0] > sorted_logits[..., 1]).all(-1)
    if not clear.any(0).all():
        raise ValueError("two tokens of one input have the same key: no direction selects one of them alone")
    selected = tokens[..., 0]
    limits = loss.value(problem.scores.expand(logits.shape).gather(-1, selected[..., None])).mean((-2, -1))
    best = torch.where(clear, limits, torch.inf).argmin(0)
    return torch.take_along_dim(selected, best[None, ..., None], 0)[0]


def circle_minima(problem, loss, radii, places, selected, norm):
    """Global minimisers over and between the angles ``places`` (angles, ...) at the radii, shape (radii, ..., 2)."""
    batch = problem.batch_shape
    circles = (on_circle(places, radius, norm) for radius in radii)
    value = torch.stack([ordered(excess_near(problem, loss, theta, selected)(theta)) for theta in circles], dim=1)
    before, after = (torch.cat(side) for side in ((value[:1], value[:-1]), (value[1:], value[-1:])))
    lowest = torch.where((value <= before) & (value <= after), value, torch.inf).sort(0)
    rank, which, *trial = torch.nonzero(lowest.values[:REFINED].isfinite(), as_tuple=True)
    trial, middle = tuple(trial), lowest.indices[rank, which, *trial]
    around = [places[(middle + step).clamp(0, len(places) - 1), *trial] for step in (-1, 0, 1)]
    minima = problem[trial] if batch else problem
    theta = on_circle(_turn(minima, loss, radii[which], around, norm), radii[which], norm)
    excess = torch.full((REFINED, len(radii), *batch), torch.inf, dtype=torch.float64)
    excess[rank, which, *trial] = ordered(excess_risk(minima, loss, theta, selected[trial] if batch else selected))
    best = theta.new_zeros(*excess.shape, 2)
    best[rank, which, *trial] = theta
    return torch.take_along_dim(best, excess.argmin(0)[None, ..., None], 0)[0]


def _turn(problem, loss, radii, around, norm):
    """Angles (minima,) at which the risk turns from falling to rising, each near the middle one of three.

    At the edge of a cone, or where there are two turns between two angles, that is the middle one itself.
    """
    from scipy.optimize.elementwise import find_root  # slow to import

    def slope(angles, line):
        line_problem, angles = problem[line] if problem.batch_shape else problem, torch.as_tensor(angles)
        theta = on_circle(angles, radii[line], norm)
        steepest = gradient_near(line_problem, loss, theta)(theta).direction
        length = geometry.norm(steepest).clamp(min=torch.finfo(theta.dtype).tiny)
        return ((steepest * along_circle(angles, norm)).sum(-1) / length).numpy()

    before, middle, after = around
    lines = np.arange(len(middle))
    rising = torch.as_tensor(slope(middle, lines)) > 0
    ends = torch.where(rising, before, middle).numpy(), torch.where(rising, middle, after).numpy()
    roots = find_root(slope, ends, args=(lines,))
    return torch.where(torch.as_tensor(roots.success), torch.as_tensor(roots.x), middle)


def around_inner_minima(radii, value):
    """Radii half way, in logarithms, from each that has a minimum of ``value`` (radii, problems) to its neighbours."""
    middle = value[1:-1] + 1e-9 * value[1:-1].abs().clamp(max=1)  # no minimum of rounding errors
    minima = torch.nonzero(((middle < value[:-2]) & (middle < value[2:])).any(-1)).flatten()
    between = (radii[:-1] * radii[1:]).sqrt()
    return between[torch.cat([minima, minima + 1]).unique()]
