"""Head and attention together: the risk in (v, theta), its descent, its regularisation path and what that tends to.

For a fixed head the scores are fixed, and everything else in the library applies (:meth:`JointProblem.fixed_head`).
For a fixed prompt the head solves a convex problem whose limit is :func:`lib.separators.label_svm`. The functions
here put the two together; the theory is that of the logistic loss (section 3 of arXiv:2306.13596).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor
from torch.nn.functional import logsigmoid

from . import checks
from .descent import Trajectory, iterate
from .geometry import inverse_mirror_map, norm, unit
from .losses import logistic
from .paths import along_circle, on_circle, ordered
from .problem import Gradient, Problem, excess_risk, gradient
from .selection import check_selected, selected_tokens
from .separators import MOST_SELECTIONS, Separator, att_svm, difference_rows, hard_margin, label_svm, relaxed_att_svm

TIGHT = 1e-9  # a margin is tight, a lead or a residual zero, to within this part
REFINED = 6  # lowest local minima of a circle of prompts that are refined
BISECTIONS = 55  # from a half circle, or the spacing of a grid, to that of floats


@dataclass(frozen=True, eq=False)
class JointProblem:
    """Tokens, labels, keys and, for W, queries; the parameters are a head v of shape (..., c) and a theta.

    theta is a prompt p of shape (..., d) or, with queries, vec(W) of shape (..., d e), as in
    :class:`lib.problem.Problem`; :func:`lib.problem.in_span` turns the one into the other.

    Attributes
    ----------
    tokens : Tensor, shape (..., n, T, c)
        x_it, as the head sees them.
    labels : Tensor, shape (..., n)
        Y_i, +1 or -1.
    keys : Tensor, shape (..., n, T, d), optional
        k_it, as the prompt sees them; the tokens themselves when left out.
    queries : Tensor, shape (..., n, e), optional
        z_i; in arXiv:2402.05738 the first token of each input.

    Raises
    ------
    ValueError
        If shapes do not fit, an entry is not finite, or a label is neither +1 nor -1.
    """

    tokens: Tensor
    labels: Tensor
    keys: Tensor | None = None
    queries: Tensor | None = None

    def __post_init__(self):
        tokens, labels = checks.tensor("tokens", self.tokens, "n", "T", "c"), checks.labels(self.labels)
        keys = tokens if self.keys is None else checks.tensor("keys", self.keys, "n", "T", "d")
        if labels.shape[-1:] != tokens.shape[-3:-2] or keys.shape[-3:-1] != tokens.shape[-3:-1]:
            raise ValueError(
                f"tokens have (n, T) = {tuple(tokens.shape[-3:-1])}, keys {tuple(keys.shape[-3:-1])}, labels"
                f" n = {tuple(labels.shape[-1:])}: give each token one key and each input one label"
            )
        queries = None if self.queries is None else checks.tensor("queries", self.queries, "n", "e")
        for name, value in (("tokens", tokens), ("labels", labels), ("keys", keys), ("queries", queries)):
            object.__setattr__(self, name, value)
        self.batch_shape  # noqa: B018  refuses leading dimensions that do not fit together
        self.fixed_head(torch.zeros(tokens.shape[-1]))  # refuses what no problem can be made of

    @property
    def batch_shape(self):
        """Leading dimensions of tokens, labels, keys and queries together."""
        shapes = {"tokens": self.tokens.shape[:-3], "labels": self.labels.shape[:-1], "keys": self.keys.shape[:-3]}
        if self.queries is not None:
            shapes["queries"] = self.queries.shape[:-2]
        return checks.broadcastable(**shapes)

    def fixed_head(self, head):
        """Return the problem in theta alone for a head v of shape (..., c): scores gamma_it = Y_i v . x_it."""
        head = checks.tensor("head", head, "c")
        if head.shape[-1] != self.tokens.shape[-1]:
            raise ValueError(
                f"the head has {head.shape[-1]} entries, tokens have {self.tokens.shape[-1]}: they must agree"
            )
        checks.broadcastable(tokens=self.tokens.shape[:-3], head=head.shape[:-1])
        scores = self.labels[..., None] * torch.einsum("...ntc,...c->...nt", self.tokens, head)
        return Problem(self.keys, scores, self.queries)

    def features(self, attention):
        """Y_i r_i with r_i = X_i^T a_i, what attention passes on, shape (..., n, c): the rows of the label SVM."""
        return self.labels[..., None] * torch.einsum("...nt,...ntc->...nc", attention, self.tokens)

    def attention(self, theta):
        """softmax(A_i theta), shape (..., n, T)."""
        return Problem(self.keys, torch.zeros(self.keys.shape[:-1]), self.queries).attention(theta)


def label_margin(problem, attention):
    """Largest margin of a unit head on the features, max_v min_i Y_i v . r_i, shape (...); 0 where none is above 0.

    The label margin Gamma of Assumption C (arXiv:2306.13596), as a function of attention of shape (..., n, T).
    """
    separator = hard_margin(problem.features(attention))
    return torch.where(separator.feasible, 1 / norm(separator.theta).clamp(min=1e-300), 0.0)


class LabelChoice(NamedTuple):
    """The tokens with the largest label margin, and whether Assumption C holds.

    selected : shape (n,).
    separator : Separator, the label SVM on them; its support vectors have margin 1.
    margin : shape (), their label margin Gamma.
    runner_up : shape (), the largest label margin of any other selection.
    holds : bool, Assumption C for every attention map.
    """

    selected: Tensor
    separator: Separator
    margin: Tensor
    runner_up: Tensor
    holds: bool


def assumption_c(problem):
    """Decide Assumption C of arXiv:2306.13596 for a small data set, over all attention maps, by T^n label SVMs.

    It holds for some selection exactly if (i) every other selection has a smaller label margin, and (ii) every input
    has a multiplier above zero in some solution of the dual. For the attention maps that keys and a prompt can make,
    the two are sufficient. The chapter on Assumption C has the proof.

    Parameters
    ----------
    problem : JointProblem
        Without leading dimensions.

    Returns
    -------
    LabelChoice

    Raises
    ------
    ValueError
        If the problem has leading dimensions, more than 100,000 selections, or no selection that separates labels.
    """
    inputs, tokens = problem.keys.shape[-3:-1]
    if problem.batch_shape:
        raise ValueError(f"problem has leading dimensions {tuple(problem.batch_shape)}: give one at a time")
    if tokens**inputs > MOST_SELECTIONS:
        raise ValueError(f"there are {tokens}^{inputs} selections: at most {MOST_SELECTIONS} are compared")
    selected = torch.cartesian_prod(*inputs * [torch.arange(tokens)]).reshape(-1, inputs)
    margins = label_margin(problem, torch.nn.functional.one_hot(selected, tokens).double())
    best = margins.argmax()
    if margins[best] == 0:
        raise ValueError("no selection of tokens lets a head have every label right: Assumption C asks for one")
    features = _selected_features(problem, selected[best])
    separator = label_svm(features, torch.ones(inputs))
    runner_up = margins[torch.arange(len(margins)) != best].max()
    alone = runner_up < (1 - TIGHT) * margins[best]
    essential = _can_have_multipliers(features, separator)
    return LabelChoice(selected[best], separator, margins[best], runner_up, bool(alone and essential.all()))


def _can_have_multipliers(features, separator):
    """Whether some solution of the dual gives an input a positive multiplier: bool, shape (n,).

    Row z_j has one exactly if s v_mm - z_j, for some s, is a non-negative combination of the tight rows.
    """
    tight = separator.margins < 1 + TIGHT
    system = torch.cat([features[tight], -separator.theta[None]]).T.numpy()
    residuals = [nnls(system, -row)[1] / np.linalg.norm(row) for row in features.numpy()]
    return tight & (torch.tensor(residuals) < TIGHT)


def _selected_features(problem, selected):
    """Y_i x_{i selected_i}, shape (..., n, c)."""
    selected = check_selected(selected, *problem.keys.shape[-3:-1])
    return problem.features(torch.nn.functional.one_hot(selected, problem.keys.shape[-2]).double())


class JointLimit(NamedTuple):
    """What the joint path tends to at one ratio of the radii.

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
    """
    features = _selected_features(problem, selected)
    label = label_svm(features, torch.ones(len(features)))
    head = unit(label.theta)
    at_selected = problem.fixed_head(head)
    rows = difference_rows(at_selected, selected)
    buffer = (features @ head - 1 / norm(label.theta)).clamp(min=0)
    support = label.margins < 1 + TIGHT
    buffer = torch.where(support, 0.0, buffer).repeat_interleave(problem.keys.shape[-2] - 1)
    if not ratio >= 0:
        raise ValueError(f"ratio is {ratio}: the radius of the head, in radii of the prompt, must not be below 0")

    relaxed = relaxed_att_svm(at_selected, selected, support)
    length = norm(relaxed.theta)
    behind = torch.where(buffer > 0, (1 - relaxed.margins) / (length * buffer), 0.0)
    threshold = behind.max().clamp(min=0).item()
    if ratio >= threshold:
        return JointLimit(head, unit(relaxed.theta), threshold)
    if ratio == 0:
        return JointLimit(head, unit(att_svm(at_selected, selected).theta), threshold)

    def shortest(margin):
        """Shortest prompt with this margin where an input has no buffer, less where it has; rounding asks for none."""
        required = margin - ratio * buffer
        return hard_margin(rows, required=torch.where(required > TIGHT * margin, required, 0.0))

    # A unit vector reaches the least of these two margins, and not the other.
    low, high = min(ratio * buffer[buffer > 0].min(), 1 / length), 1 / length
    for _ in range(BISECTIONS):
        margin = (low + high) / 2
        found = shortest(margin)
        low, high = (margin, high) if found.feasible and norm(found.theta) <= 1 else (low, margin)
    return JointLimit(head, unit(shortest(low).theta), threshold)


def head_gradient(problem, loss, head, theta):
    """Gradient of the joint risk in the head, (1/n) sum_i loss'(u_i) Y_i r_i, its size as a logarithm.

    Returns
    -------
    lib.problem.Gradient
        ``direction`` of shape (..., c).
    """
    return _head_gradient(problem.features(problem.attention(theta)), loss, head)


def _head_gradient(features, loss, head):
    log_slope = loss.log_slope(torch.einsum("...nc,...c->...n", features, head))
    log_scale = log_slope.amax(-1)
    weights = (log_slope - log_scale[..., None]).exp()
    direction = -torch.einsum("...n,...nc->...c", weights, features)
    return Gradient(direction, log_scale - math.log(features.shape[-2]))


def joint_gradient(problem, loss, head, theta):
    """Gradient of the joint risk in the head and theta as one vector, its size as a logarithm.

    Returns
    -------
    lib.problem.Gradient
        ``direction`` of shape (..., c + size of theta), the head first.
    """
    parts = _both_gradients(problem, loss, head, theta)
    log_scale = torch.maximum(*(part.log_scale for part in parts))
    common = torch.where(torch.isneginf(log_scale), 0.0, log_scale)
    scaled = [(part.log_scale - common).exp()[..., None] * part.direction for part in parts]
    return Gradient(torch.cat(scaled, dim=-1), log_scale)


def _both_gradients(problem, loss, head, theta):
    fixed = problem.fixed_head(head)
    return _head_gradient(problem.features(fixed.attention(theta)), loss, head), gradient(fixed, loss, theta)


def run(problem, loss, head, theta, head_rule, rule, iterations, record=None, order=2.0):
    """Descend in the head and theta at once, over all leading dimensions: each by its own step rule, or both by one.

    By one rule, ``head_rule`` being None, head and theta are one vector: ``normalised`` then divides both gradients by
    their joint norm. Two rules see one gradient each, and ``normalised`` makes both steps equally long.

    Parameters
    ----------
    problem : JointProblem
    loss : lib.losses.Loss
    head : Tensor, shape (..., c)
    theta : Tensor, shape (..., d), with queries (..., d e)
        Starts; leading dimensions that the problem lacks are several runs of one problem.
    head_rule : callable, or None
        Step rule of the head, for example ``normalised(0.1)`` of :mod:`lib.descent`.
    rule : callable
        Step rule of theta or, if there is no ``head_rule``, of the head and theta together.
    iterations : int
    record : sequence of int, optional
        Iterations to keep, 0 being the start; all of them when left out.
    order : float
        p of the potential of both, as in :func:`lib.descent.run`: l_p-JointGD of arXiv:2410.14581.

    Returns
    -------
    (Trajectory, Trajectory)
        Of the head and of theta.

    Raises
    ------
    ValueError, FloatingPointError
        As :func:`lib.descent.run`.
    """
    head, theta = checks.tensor("head", head, "c"), checks.tensor("theta", theta, "d")
    problem.fixed_head(head)  # refuses a head of another size
    size = head.shape[-1]
    batch = checks.broadcastable(problem=problem.batch_shape, head=head.shape[:-1], theta=theta.shape[:-1])
    start = torch.cat([head.expand(*batch, size), theta.expand(*batch, theta.shape[-1])], dim=-1)

    def step(both, k):
        head, theta = both[..., :size], both[..., size:]
        if head_rule is None:
            return rule(joint_gradient(problem, loss, head, theta), both, k)
        of_head, of_theta = _both_gradients(problem, loss, head, theta)
        return torch.cat([head_rule(of_head, head, k), rule(of_theta, theta, k)], dim=-1)

    both = iterate(step, start, iterations, record, order)
    return Trajectory(both.theta[..., :size], both.times), Trajectory(both.theta[..., size:], both.times)


class JointPath(NamedTuple):
    """A joint regularisation path.

    head : shape (radii, ..., 2), v of length r; theta : shape (radii, ..., 2), p of length R.
    log_risk : shape (radii, ...), the logarithm of the risk there.
    """

    head: Tensor
    theta: Tensor
    log_risk: Tensor


def joint_path(problem, head_radii, radii, angles=360, order=2.0):
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
    order : float
        p of the norm of head and prompt, 1 < p < inf.

    Returns
    -------
    JointPath

    Raises
    ------
    ValueError
        If tokens or keys are not in the plane, there are queries, a radius is not positive, or no prompt separates the
        labels.
    """
    if problem.queries is not None:
        raise ValueError("the joint path is one of prompts, and there are queries: leave them out, or use run")
    if problem.tokens.shape[-1] != 2 or problem.keys.shape[-1] != 2:
        raise ValueError("tokens and keys must be in the plane: above it, use run")
    head_radii, radii = checks.positive("head_radii", head_radii), checks.positive("radii", radii)
    if head_radii.ndim != 1 or head_radii.shape != radii.shape:
        raise ValueError(
            f"there are {tuple(head_radii.shape)} radii of the head and {tuple(radii.shape)} of the prompt"
        )
    pairs = [radius.reshape(-1, *[1] * len(problem.batch_shape)) for radius in (head_radii, radii)]
    places = torch.linspace(-math.pi, math.pi, angles + 1).reshape(-1, *[1] * (1 + len(problem.batch_shape)))
    places = places.expand(-1, len(radii), *problem.batch_shape)
    _, slope, value = _profile(problem, *pairs, places, order)
    slope, value = (torch.cat([one[:-1], one[:1]]) for one in (slope, value))  # one place, whatever rounding says
    if value.isinf().all(0).any():
        raise ValueError("no prompt lets a head separate the labels: take other tokens")
    inside, beyond, onward = _brackets(places, slope, value)
    floor = _profile(problem, *pairs, inside, order)[2]
    for _ in range(BISECTIONS):
        middle = (inside + beyond) / 2
        _, slope, value = _profile(problem, *pairs, middle, order)
        over = ~(onward * slope <= 0) | _higher(value, floor)
        inside, beyond, floor = (
            torch.where(over, *pair) for pair in ((inside, middle), (middle, beyond), (floor, value))
        )
    heads, _, value = _profile(problem, *pairs, inside, order)
    prompts = on_circle(inside, pairs[1], order)
    # Where minima select the same tokens, the risks may agree to rounding: then their distance from the limit decides.
    selected = _take(selected_tokens(problem.fixed_head(heads), prompts), value.argmin(0))
    excess = excess_risk(problem.fixed_head(heads), logistic, prompts, selected)
    close = ~_higher(value, value.amin(0))
    best = torch.where(close, ordered(excess), torch.inf).argmin(0)
    return JointPath(_take(heads, best), _take(prompts, best), value.gather(0, best[None])[0])


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


def _higher(value, other):
    """Whether a log risk is higher by more than its rounding."""
    return value > other + 1e-9 * (1 + other.abs())


def _take(values, index):
    """Entries of ``values`` (candidates, ..., k) at ``index`` (...)."""
    return values.gather(0, index[None, ..., None].expand(1, *values.shape[1:]))[0]


def _profile(problem, head_radius, radius, places, order):
    """Best heads for prompts at the angles ``places``, the slope of the risk along the circle, and log risks.

    The best head, or its mirror map, is a positive combination of the features Y_i r_i, so it lies between the
    outermost of them, where the risk has one stationary point: the multiplier of ``|v| <= r`` is positive there. nan
    and inf without such an arc.
    """
    prompts = on_circle(places, radius, order)
    features = problem.features(problem.attention(prompts))
    long = norm(features)
    middle = (features / long.clamp(min=1e-300)[..., None]).sum(-2)
    middle = torch.atan2(middle[..., 1], middle[..., 0])
    turned = torch.remainder(torch.atan2(features[..., 1], features[..., 0]) - middle[..., None] + math.pi, 2 * math.pi)
    low, high = middle + turned.amin(-1) - math.pi, middle + turned.amax(-1) - math.pi
    separable = (long > 0).all(-1) & (high - low < math.pi)
    for _ in range(BISECTIONS):
        angle = (low + high) / 2
        pull = -_head_gradient(features, logistic, _by_mirror_angle(angle, head_radius, order)).direction
        onward = pull[..., 1] * angle.cos() - pull[..., 0] * angle.sin() > 0
        low, high = torch.where(onward, angle, low), torch.where(onward, high, angle)
    heads = _by_mirror_angle((low + high) / 2, head_radius, order)
    slope = (gradient(problem.fixed_head(heads), logistic, prompts).direction * along_circle(places, order)).sum(-1)
    log_risk = log_mean_loss(torch.einsum("...nc,...c->...n", features, heads))
    return heads, torch.where(separable, slope, torch.nan), torch.where(separable, log_risk, torch.inf)


def _by_mirror_angle(angles, radius, order):
    """Vectors of l_p norm ``radius`` whose mirror map is at ``angles`` from the first axis, shape (..., 2)."""
    if order == 2:
        return on_circle(angles, radius)
    return torch.as_tensor(radius)[..., None] * unit(inverse_mirror_map(on_circle(angles, 1.0), order), order)


def log_mean_loss(margins):
    """Logarithm of the mean logistic loss of margins (..., n), at any size of them, shape (...)."""
    log_loss = torch.where(margins > 30, -margins, (-logsigmoid(margins)).log())  # log log(1 + e^-u) = -u to rounding
    return log_loss.logsumexp(-1) - math.log(margins.shape[-1])
