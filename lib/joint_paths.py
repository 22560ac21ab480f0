"""Trace the joint regularisation path of head and prompt in the plane, and its limit at each ratio of the radii.

The theory is that of the logistic loss (section 3 of arXiv:2306.13596).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from . import checks, geometry
from ._circles import REFINED
from .geometry import on_circle, unit
from .joint import TIGHT, selected_features
from .logspace import excess_risk, ordered
from .losses import logistic
from .paths import FEWEST
from .problem import difference_rows
from .selection import selected_tokens
from .separators import att_svm, hard_margin, label_svm, relaxed_att_svm

BISECTIONS = 55  # from the spacing of a grid of angles, or of margins, to that of floats


class JointLimit(NamedTuple):
    """Limit of the joint path at one ratio of the radii.

    head : unit v_mm, shape (c,); prompt : unit vector, shape (d,), with queries (d e,); threshold : float, a ratio
    from which on the prompt is the relaxed SVM's (the first such ratio unless that SVM has a margin of 0).
    """

    head: Tensor
    prompt: Tensor
    threshold: float


def joint_limit(problem, selected, ratio):
    """Limit directions of the joint regularisation path over ``|v| <= c R, |p| <= R`` as R grows, c the ratio.

    The head tends to v_mm. The prompt tends to the unit u that maximises
    ``min_{i,t} [ u . (k_{i alpha_i} - k_it) + c (Y_i w . x_{i alpha_i} - Gamma) ]`` subject to
    u . (k_{i alpha_i} - k_it) >= 0, where w is the unit v_mm and Gamma its margin. For c = 0 that is ATT-SVM, from the
    threshold on the relaxed ATT-SVM, problem (10): the correction to Theorem 6 of arXiv:2306.13596.

    Parameters
    ----------
    problem : JointProblem
        Without leading dimensions.
    selected : array_like of int, shape (n,)
        alpha, the tokens that the path selects.
    ratio : float
        c, not below zero; ``math.inf`` where r grows faster than R.

    Returns
    -------
    JointLimit

    Raises
    ------
    InfeasibleError
        If the labels or the selected tokens cannot be separated.

    Examples
    --------
    >>> from lib.datasets import figure_3
    >>> from lib.joint import JointProblem
    >>> problem = JointProblem(*figure_3("b"))
    >>> for ratio in (0.0, 0.5, 1.0):
    ...     print([round(entry, 4) for entry in joint_limit(problem, [1, 1, 1], ratio).prompt.tolist()])
    [0.9806, 0.1961]
    [0.9951, 0.099]
    [1.0, 0.0]
    """
    checks.joint_problem(problem)
    checks.single(problem)
    remedy = "the radius of the head, in radii of the prompt, must not be below 0"
    checks.number("ratio", ratio, lambda ratio: ratio >= 0, remedy)
    features = selected_features(problem, selected)
    label = label_svm(features, features.new_ones(len(features)))
    head = unit(label.theta)
    at_selected = problem.fixed_head(head)
    rows = difference_rows(at_selected, selected)
    buffer = (features @ head - 1 / geometry.norm(label.theta)).clamp(min=0)
    support = label.margins < 1 + TIGHT
    buffer = torch.where(support, 0.0, buffer).repeat_interleave(problem.keys.shape[-2] - 1)

    relaxed = relaxed_att_svm(at_selected, selected, support)
    length = geometry.norm(relaxed.theta)
    behind = torch.where(buffer > 0, (1 - relaxed.margins) / (length * buffer), 0.0)
    threshold = behind.max().clamp(min=0).item()
    if ratio >= threshold:
        return JointLimit(head, unit(relaxed.theta), threshold)
    if ratio == 0:
        return JointLimit(head, unit(att_svm(at_selected, selected).theta), threshold)

    def shortest(margin):
        """Shortest prompt with this margin where an input has no buffer, less where it has, and none for rounding."""
        required = margin - ratio * buffer
        return hard_margin(rows, required=torch.where(required > TIGHT * margin, required, 0.0))

    # A unit vector reaches the least of these two margins, and not the other. The length is convex in the margin, with
    # the sum of the multipliers as the slope of half its square: Newton's steps, and bisection where they leave.
    low, high = min(ratio * buffer[buffer > 0].min(), 1 / length), 1 / length
    margin = high
    for _ in range(BISECTIONS):
        separator = shortest(margin)
        size = geometry.norm(separator.theta)
        low, high = (margin, high) if separator.feasible and size <= 1 else (low, margin)
        if separator.feasible and (size - 1).abs() < 1e-14:
            break
        onward = margin - size * (size - 1) / separator.duals.sum()
        margin = onward if separator.feasible and low < onward < high else (low + high) / 2
    return JointLimit(head, unit(separator.theta if separator.feasible else shortest(low).theta), threshold)


class JointPath(NamedTuple):
    """A joint regularisation path.

    head : shape (radii, ..., 2), v of length r; theta : shape (radii, ..., 2), p of length R.
    log_risk : shape (radii, ...), the logarithm of the risk there.
    """

    head: Tensor
    theta: Tensor
    log_risk: Tensor


def joint_path(problem, head_radii, radii, angles=360, norm=2.0, within=None):
    """Joint regularisation path of the logistic risk over ``|v| = r, |p| = R`` in the plane, globally minimal.

    For each prompt the best head solves a convex problem, by bisection between the outermost features. By the envelope
    theorem the slope of the risk along the circle of prompts, the best head for each, is that at a fixed head, and the
    log-space gradient knows its sign at any radius. Every angle where it turns from minus to plus is refined, and the
    best of them kept. Prompts whose features no head separates are left out: there the risk is at least log(2) / n.

    Parameters
    ----------
    problem : JointProblem
        Tokens and keys in the plane.
    head_radii, radii : array_like, shape (radii,)
        r and R, pair by pair.
    angles : int
        Of the prompts that are compared; raise it where minima lie closer together than 2 pi / ``angles``.
    norm : float
        p of the norm of head and prompt, 1 < p < inf.
    within : array_like of int, shape (..., n), optional
        Only over prompts at which no token's logit is above that of these: the path of Lemma 13 (arXiv:2306.13596).

    Returns
    -------
    JointPath

    Raises
    ------
    InfeasibleError
        If no prompt gives the tokens of ``within`` the largest logits.
    ValueError
        If tokens or keys are not in the plane, there are queries, a radius is not positive, or no prompt separates the
        labels.
    """
    checks.joint_problem(problem)
    angles = checks.integer("angles", angles, FEWEST)
    head_radii, radii = _plane_radii(problem, head_radii, radii)
    from .kernels import profile  # imports numba

    pairs = [radius.reshape(-1, *[1] * len(problem.batch_shape)) for radius in (head_radii, radii)]
    first, last = (-math.pi, math.pi) if within is None else _quadrant(problem, within)
    parts = torch.linspace(0, 1, angles + 1, dtype=torch.float64).reshape(-1, *[1] * (1 + len(problem.batch_shape)))
    places = (first + (last - first) * parts).expand(-1, len(radii), *problem.batch_shape)
    _, slope, value = profile(problem, *pairs, places, norm)
    if within is None:
        slope, value = (torch.cat([x[:-1], x[:1]]) for x in (slope, value))  # both ends are one place
    else:  # repeat the ends, as if the risk rose beyond them
        wall = torch.ones_like(slope[:1])
        places, value = (torch.cat([x[:1], x, x[-1:]]) for x in (places, value))
        slope = torch.cat([-wall, slope, wall])
    if value.isinf().all(0).any():
        raise ValueError("no prompt lets a head separate the labels: take other tokens")
    minima = _minima(lambda angles: profile(problem, *pairs, angles, norm), *_brackets(places, slope, value))
    heads, _, value = profile(problem, *pairs, minima, norm)
    prompts = on_circle(minima, pairs[1], norm)
    # Where minima select the same tokens, the risks may agree to rounding: then their distance from the limit decides.
    selected = _take(selected_tokens(problem.fixed_head(heads), prompts), value.argmin(0))
    excess = excess_risk(problem.fixed_head(heads), logistic, prompts, selected)
    close = ~_higher(value, value.amin(0))
    best = torch.where(close, ordered(excess), torch.inf).argmin(0)
    return JointPath(_take(heads, best), _take(prompts, best), value.gather(0, best[None])[0])


def _plane_radii(problem, head_radii, radii):
    """The two lists of radii in float64; ValueError where they do not fit each other or the problem is not planar."""
    if problem.queries is not None:
        raise ValueError("the joint path is one of prompts, and there are queries: leave them out, or use run")
    if problem.tokens.shape[-1] != 2 or problem.keys.shape[-1] != 2:
        raise ValueError(
            f"tokens have c = {problem.tokens.shape[-1]} and keys d = {problem.keys.shape[-1]}, and both must be in the"
            " plane: above it, use run"
        )
    head_radii, radii = (checks.positive(name, radii) for name, radii in (("head_radii", head_radii), ("radii", radii)))
    if head_radii.ndim != 1 or head_radii.shape != radii.shape:
        raise ValueError(
            f"there are {tuple(head_radii.shape)} radii of the head and {tuple(radii.shape)} of the prompt: give two"
            " lists of one length"
        )
    return head_radii, radii


def _quadrant(problem, selected):
    """First and last angle, shape (...), of the prompts with p . (k_{i selected_i} - k_it) >= 0 for all i and t."""
    at_zero = problem.fixed_head(torch.zeros_like(problem.tokens[..., 0, 0, :]))
    rows = difference_rows(at_zero, selected)
    inside = att_svm(rows).theta
    across = rows[..., 1] * inside[..., None, 0] - rows[..., 0] * inside[..., None, 1]
    turned = torch.atan2(across, torch.einsum("...md,...d->...m", rows, inside))  # less than a right angle
    middle = torch.atan2(inside[..., 1], inside[..., 0])
    return middle + turned.amax(-1) - math.pi / 2, middle + turned.amin(-1) + math.pi / 2


def _brackets(places, slope, value):
    """Pairs of neighbouring angles with the lowest minima between them: downhill from the first, not so at the second.

    That is where the slope turns, or the risk is higher after all, or the second separates no labels: a minimum may be
    within 1 / R of a prompt that selects other tokens. ``onward`` is the sign of the step from the first to the second.
    """
    left = (slope[:-1] <= 0) & (~(slope[1:] <= 0) | _higher(value[1:], value[:-1]))
    right = (slope[1:] >= 0) & (~(slope[:-1] >= 0) | _higher(value[:-1], value[1:])) & ~left
    lowest = torch.where(torch.cat([left, right]), torch.cat([value[:-1], value[1:]]), torch.inf).argsort(dim=0)[
        :REFINED
    ]
    inside = torch.cat([places[:-1], places[1:]]).gather(0, lowest)
    beyond = torch.cat([places[1:], places[:-1]]).gather(0, lowest)
    return inside, beyond, (beyond - inside).sign()


def _minima(profile, inside, beyond, onward):
    """Angles of the minima between the brackets' two ends, by bisection of the slope."""
    floor = profile(inside)[2]
    for _ in range(BISECTIONS):
        middle = (inside + beyond) / 2
        _, slope, value = profile(middle)
        over = ~(onward * slope <= 0) | _higher(value, floor)
        inside, beyond, floor = (
            torch.where(over, *pair) for pair in ((inside, middle), (middle, beyond), (floor, value))
        )
    return inside


def _higher(value, other):
    """Whether a log risk is higher by more than its rounding."""
    return value > other + 1e-9 * (1 + other.abs())


def _take(values, index):
    """Entries of ``values`` (candidates, ..., k) at ``index`` (...)."""
    return torch.take_along_dim(values, index[None, ..., None], 0)[0]
