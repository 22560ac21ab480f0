"""Trace regularisation paths ``p(R) = argmin { L(p) : |p| <= R }`` in any l_p norm, over all vectors or over a cone.

The risk is not convex in p. In the plane the minimiser is global: all angles are searched at every radius. Above the
plane it is the best of many starts, and :func:`stationarity` tells how good it is. Risks are compared as
logarithms of their distance from a limit of the risk, so that a path can be followed where L itself no longer moves.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from . import checks
from ._circles import arc, around_inner_minima, best_limit, circle_minima, with_ties
from .descent import excess_near, gradient_near
from .geometry import mirror_map, on_circle, one_minus_cosine, unit
from .logspace import LogScaled, excess_risk, gradient, ordered
from .problem import check_selected, difference_rows

FEWEST = 4  # angles of a grid
MAX_LOGITS = 10**8  # on one circle, in several arrays of almost a gigabyte
HALVINGS = 5  # of the spacing of the radii around a minimiser inside the disc
LIMITS = 4  # that one descent on a sphere may take as the reference of the risk
CROSSED = 1e6  # by which the logarithm falls where the risk crosses its reference: more than it falls otherwise


class Path(NamedTuple):
    """A regularisation path.

    theta : shape (radii, ..., parameter_size), p(R); shorter than R where the minimiser is not on the sphere.
    excess : LogScaled, a number of shape (radii, ...), L(p(R)) minus the limit of the risk on the selected tokens.
    selected : shape (..., n), those tokens.
    """

    theta: Tensor
    excess: LogScaled
    selected: Tensor


def regularization_path(problem, loss, radii, cone=None, angles=1440, norm=2.0):
    """Regularisation path in the plane, globally minimal: all angles are searched, the lowest local minima refined.

    On each circle the risk is compared at ``angles`` directions, in a cone also where two tokens of an input tie and
    between any two ties, however close: there attention turns to other tokens, of lower risk it may be. Its local
    minima are refined to zeros of the tangential gradient, each between two of these directions. A minimiser inside the
    disc lies on a smaller circle; where the risk has a minimum between three radii, circles are added between them, so
    its length is known to a thirtieth of their spacing.

    Parameters
    ----------
    problem : lib.problem.Problem
        With parameters in the plane.
    loss : lib.losses.Loss
    radii : array_like, shape (radii,)
        Increasing. The path is that over first radius <= ``|p|`` <= R: the R0 of Theorem 4 (arXiv:2306.13596).
    cone : (Tensor of shape (..., 2), float or Tensor of shape (...)), optional
        Axis and largest 1 - cos to it: the path of Theorem 4, equation (9). One cone, or one for each problem.
    angles : int
        Raise it where minima lie closer together than 2 pi / ``angles``, or where ties are more than 4,096.
    norm : float
        p of the norm in which lengths and radii are measured, 1 < p < inf; the cone's angle is Euclid's.

    Returns
    -------
    Path
        ``selected`` are the tokens with the lowest risk that any direction (of the cone) tends to.

    Raises
    ------
    ValueError
        If the parameter is not in the plane, the radii do not increase, the axis is zero, every direction ties two
        tokens, or the logits of all problems at all angles are more than 10^8.

    Examples
    --------
    >>> from lib.losses import by_name
    >>> from lib.problem import Problem
    >>> keys = torch.tensor([[[0, 2], [0, 0]], [[1, 0], [0, 0]]], dtype=torch.float64)
    >>> problem = Problem(keys, scores=torch.tensor([[1, 0], [1, 0]], dtype=torch.float64))
    >>> path = regularization_path(problem, by_name("logistic"), radii=[1, 1e6])
    >>> [round(entry, 3) for entry in (path.theta[-1] / 1e6).tolist()], path.selected.tolist()
    ([0.894, 0.447], [0, 0])
    """
    checks.problem(problem)
    checks.loss(loss)
    angles = checks.integer("angles", angles, FEWEST)
    if problem.parameter_size != 2:
        raise ValueError(f"the parameter has {problem.parameter_size} entries: use multistart_path above the plane")
    if (logits := angles * problem.scores.shape[-2:].numel() * problem.batch_shape.numel()) > MAX_LOGITS:
        raise ValueError(
            f"angles is {angles}, which makes {logits:.1g} logits on a circle: {MAX_LOGITS:.0e} fit; give fewer"
        )
    radii = _increasing(radii)
    middle, half = arc(cone)
    fractions = torch.linspace(-1, 1, angles + 1, dtype=torch.float64).reshape(-1, *[1] * len(problem.batch_shape))
    fractions = fractions.expand(-1, *problem.batch_shape)
    if cone is not None:
        fractions = with_ties(fractions, problem, middle, half)
    places = middle + half * fractions
    selected = best_limit(problem, loss, on_circle(places, 1.0))
    theta = circle_minima(problem, loss, radii, places, selected, norm)
    every = radii
    for _ in range(HALVINGS):
        value = ordered(excess_risk(problem, loss, theta, selected)).reshape(len(every), -1)
        added = around_inner_minima(every, value)
        if not len(added):
            break
        every, rank = torch.cat([every, added]).sort()
        theta = torch.cat([theta, circle_minima(problem, loss, added, places, selected, norm)])[rank]
    path = _best_so_far(theta, excess_risk(problem, loss, theta, selected), selected)
    asked = torch.searchsorted(every, radii)
    return Path(path.theta[asked], LogScaled(*(part[asked] for part in path.excess)), selected)


def multistart_path(problem, loss, radii, starts, selected, norm=2.0):
    """Regularisation path in any dimension, as the best of several local minimisations on each sphere.

    By L-BFGS over the directions, then to a zero of the tangential gradient: from each start, from the solution at the
    radius before, from where the line through the last two solutions meets the sphere, and from a direction that
    selects the tokens, if there is one. On a large sphere nearly all of it is a plateau, with all attention
    on one choice of tokens or another, and only the directions that select the best ones are low. A minimiser far out
    needs two smaller radii before it, from which it is within a few lengths: there L-BFGS stops before rows whose pulls
    differ by many orders are in balance. Where no zero of the gradient is found that is as low, the lowest end of
    L-BFGS stays, so check the path by :func:`stationarity`.

    Parameters
    ----------
    problem : lib.problem.Problem
        Without leading dimensions.
    loss : lib.losses.Loss
    radii : array_like, shape (radii,)
        Increasing.
    starts : Tensor, shape (starts, parameter_size)
        Directions to start from.
    selected : Tensor of int, shape (n,)
        Tokens whose limit of the risk is not undercut, as the optimal ones.
    norm : float
        p of the norm in which lengths are measured, 1 < p < inf. Its sphere is not smooth where p < 2 and an entry is
        zero: near there the result is only as good as the minimisation, and :func:`stationarity` tells how good.

    Returns
    -------
    Path
    """
    checks.problem(problem)
    checks.loss(loss)
    checks.single(problem)
    radii, starts = _increasing(radii), checks.tensor("starts", starts, "starts", "parameter")
    problem.check_parameter(starts)
    selected = check_selected(problem, selected)
    starts = unit(torch.cat([starts, _selecting(problem, selected)]), norm)
    best = []
    for k, radius in enumerate(radii.tolist()):
        ahead = _continued(radii[: k + 1], best, norm)
        ends = [_descend_sphere(problem, loss, radius, start, selected, norm) for start in (*starts, *ahead)]
        ends = torch.stack(ends)
        lowest = ends[ordered(excess_risk(problem, loss, radius * ends, selected)).argmin()]
        best.append(_make_stationary(problem, loss, radius, lowest, norm))
    theta = radii[:, None] * torch.stack(best)
    return _best_so_far(theta, excess_risk(problem, loss, theta, selected), selected)


def stationarity(problem, loss, theta, norm=2.0):
    """1 - cos of p and -grad L, shape (...): zero where p is stationary on its sphere and the risk falls outward.

    In another l_p norm it is that of the mirror map of p, the normal of the sphere, and -grad L. A global minimiser
    over a ball that lies on the sphere has it zero; a local one has, too. With p near 1 no float may come close to
    zero: for p = 1.1 the mirror map of an entry of 1e-16 is 0.025.
    """
    heading = -gradient(problem, loss, theta).direction
    normal = theta if norm == 2 else mirror_map(unit(theta, norm), norm)  # of the sphere, outward
    return one_minus_cosine(heading, normal)


def _increasing(radii):
    radii = checks.positive("radii", radii)
    if radii.ndim != 1 or (radii.diff() <= 0).any():
        raise ValueError(f"radii is {checks.shown(radii.tolist())}: give a list of increasing lengths")
    return radii


def _best_so_far(theta, excess, selected):
    """The minimiser over the ball at each radius: the best of the spheres up to it."""
    best = ordered(excess).cummin(0).indices
    chosen = torch.take_along_dim(theta, best[..., None], 0)
    return Path(chosen, LogScaled(*(part.gather(0, best) for part in excess)), selected)


def _continued(radii, best, norm):
    """Directions at the last radius that continue a path with the directions ``best`` at the radii before.

    The last one and, from two on, that of the line through the last two points: a path tends to a ray with an offset,
    R u + xi + o(1). The last direction itself is off by the offset, times the ratio of the radii less 1.
    """
    if len(best) < 2:
        return best
    before, last = radii[-3:-1, None] * torch.stack(best[-2:])
    step = (last - before) * (radii[-1] - radii[-2]) / (radii[-2] - radii[-3])
    return [best[-1], unit(last + step, norm)]


def _selecting(problem, selected):
    """Direction that selects the tokens, shape (1, d): that of largest margin with entries within 1, a linear program.

    Empty where no direction separates the tokens.
    """
    from scipy.optimize import linprog  # slow to import

    rows = difference_rows(problem, selected).numpy()
    rows = rows / (np.abs(rows).max() or 1.0)
    behind = np.pad(-rows, ((0, 0), (0, 1)), constant_values=1.0)  # margin - rows @ theta <= 0
    bounds = [(-1, 1)] * rows.shape[-1] + [(0, None)]
    theta = linprog(-np.eye(rows.shape[-1] + 1)[-1], behind, np.zeros(len(rows)), bounds=bounds).x[:-1]
    return torch.as_tensor(theta)[None][: int((rows @ theta > 0).all())]


def _log_excess(problem, loss, radius, like, reference, norm):
    """A function of a NumPy vector: sign and logarithm of the excess in its direction, and the gradient.

    The excess is that over the limit of the reference tokens; its gradient in the vector is divided by its size.
    """
    grad, excess = gradient_near(problem, loss, like), excess_near(problem, loss, like, reference)

    def value(vector):
        length = np.linalg.norm(vector, norm)
        direction = torch.as_tensor(vector / length)
        (sign, log_excess), steepest = excess(radius * direction), grad(radius * direction)
        slope = radius * (steepest.log_scale - log_excess).exp() * steepest.direction
        across = slope - (slope @ direction) * mirror_map(direction, norm)
        return sign.item(), log_excess.item(), across.numpy() / length

    return value


def _descend_sphere(problem, loss, radius, start, selected, norm):
    """Local minimiser of the risk over directions, from one unit vector to another.

    First of the log excess over the limit of the selected tokens. Where other tokens have all attention that is a
    constant to rounding; there the logarithm of the distance from their own limit still has a slope.
    """
    from scipy.optimize import minimize  # slow to import

    direction, reference = start, selected
    for _ in range(LIMITS):
        begin = radius * direction.numpy()  # so that the first step, of length 1, does not leave the basin
        excess = _log_excess(problem, loss, radius, direction, reference, norm)
        first_sign, first, _ = excess(begin)

        def value(vector, excess=excess, first_sign=first_sign, first=first):
            sign, log_excess, slope = excess(vector)
            if sign == first_sign:
                return sign * log_excess, slope
            return first_sign * (first - CROSSED), 0.0 * slope  # below the limit, or above it: far better, far worse

        direction = unit(torch.as_tensor(minimize(value, begin, jac=True, method="L-BFGS-B").x), norm)
        if torch.equal(reference, reference := problem.logits(direction).argmax(-1)):
            break
    return direction


def _make_stationary(problem, loss, radius, direction, norm):
    """The zero of the tangential gradient near a direction, which values of the risk cannot locate so closely.

    The direction itself where that is not found, or has a higher risk: then it is not stationary.
    """
    reference = problem.logits(direction).argmax(-1)
    excess = _log_excess(problem, loss, radius, direction, reference, norm)

    def tangent(vector):
        return excess(vector)[-1] + radius * (vector @ vector - 1) * vector

    from scipy.optimize import root  # slow to import

    refined = unit(torch.as_tensor(root(tangent, unit(direction).numpy(), options={"xtol": 1e-15}).x), norm)
    sign, log = excess_risk(problem, loss, radius * torch.stack([direction, refined]), reference)
    rise = sign[1] * (log[1] - log[0]).exp() - sign[0]  # in excesses before
    return refined if rise <= 1e-9 * radius else direction
