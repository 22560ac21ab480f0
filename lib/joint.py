"""Train head and attention together: the risk in (v, theta), its descent, the label margin and Assumption C.

For a fixed head the scores are fixed, and everything else in the library applies (:meth:`JointProblem.fixed_head`).
For a fixed prompt the head solves a convex problem whose limit is :func:`lib.separators.label_svm`. The functions
here put the two together (section 3 of arXiv:2306.13596).
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from . import checks, geometry
from .descent import Trajectory, compiled, iterate, kept_iterations
from .logspace import LogScaled, gradient
from .problem import Batch, Problem, check_selected
from .rules import apply_rule, check_polyak_problem, fresh
from .selection import every_selection
from .separators import Separator, hard_margin

TIGHT = 1e-9  # a margin is tight, a lead or a residual zero, to within this part


@dataclass(frozen=True, eq=False)
class JointProblem(Batch):
    """Tokens, labels, keys and, for W, queries; the parameters are a head v of shape (..., c) and a theta.

    theta is a prompt p of shape (..., d) or, with queries, vec(W) of shape (..., d e), as in
    :class:`lib.problem.Problem`; :func:`lib.span.in_span` turns the one into the other.

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

    Examples
    --------
    >>> tokens = torch.tensor([[[0, 2], [0, 0]], [[1, 0], [0, 0]]], dtype=torch.float64)
    >>> problem = JointProblem(tokens, labels=torch.tensor([1, -1], dtype=torch.float64))
    >>> problem.fixed_head(torch.tensor([-1, 1], dtype=torch.float64)).scores[:, 0].tolist()
    [2.0, 1.0]
    """

    tokens: Tensor
    labels: Tensor
    keys: Tensor | None = None
    queries: Tensor | None = None

    def __post_init__(self):
        data = checks.tensors(
            "queries",
            tokens=(self.tokens, "n", "T", "c"),
            labels=(self.labels,),
            keys=(self.tokens if self.keys is None else self.keys, "n", "T", "d"),
            queries=(self.queries, "n", "e"),
        )
        tokens, token_shape = data["tokens"], tuple(data["tokens"].shape[-3:-1])
        key_shape = tuple(data["keys"].shape[-3:-1])
        checks.labels(data["labels"], token_shape[0])
        if key_shape != token_shape:
            raise ValueError(f"tokens have (n, T) = {token_shape}, keys {key_shape}: give each token one key")
        for name, value in data.items():
            object.__setattr__(self, name, value)
        self.batch_shape  # noqa: B018  refuses leading dimensions that do not fit together
        self.fixed_head(tokens.new_zeros(tokens.shape[-1]))  # refuses arrays that make no problem

    def fixed_head(self, head):
        """The problem in theta alone for a head v of shape (..., c): scores gamma_it = Y_i v . x_it."""
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
        attention = checks.real("attention", attention)
        checks.trailing_shape("attention", attention, *self.tokens.shape[-3:-1])
        return self.labels[..., None] * torch.einsum("...nt,...ntc->...nc", attention, self.tokens)

    def attention(self, theta):
        """softmax(A_i theta), shape (..., n, T)."""
        return Problem(self.keys, self.keys.new_zeros(self.keys.shape[:-1]), self.queries).attention(theta)


def selected_features(problem, selected):
    """Y_i x_{i selected_i}, the features where all attention is on the selected tokens, shape (..., n, c)."""
    checks.joint_problem(problem)
    selected = check_selected(problem, selected)
    return problem.features(torch.nn.functional.one_hot(selected, problem.keys.shape[-2]).to(problem.keys))


def label_margin(problem, attention):
    """Largest margin of a unit head on the features, max_v min_i Y_i v . r_i, shape (...); 0 where none is above 0.

    The label margin Gamma of Assumption C (arXiv:2306.13596), as a function of attention of shape (..., n, T).
    """
    separator = hard_margin(problem.features(attention))
    return torch.where(separator.feasible, 1 / geometry.norm(separator.theta).clamp(min=1e-300), 0.0)


class LabelChoice(NamedTuple):
    """The tokens with the largest label margin, and whether Assumption C holds.

    selected : shape (n,).
    separator : Separator, the label SVM on them; its support vectors have margin 1. Infeasible where no selection
    separates the labels: then no margin is above 0, and Assumption C does not hold.
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
        If the problem has leading dimensions, or more than 100,000 selections.
    """
    checks.joint_problem(problem)
    checks.single(problem)
    inputs, tokens = problem.keys.shape[-3:-1]
    selected = every_selection(inputs, tokens)
    margins = label_margin(problem, torch.nn.functional.one_hot(selected, tokens).to(problem.keys))
    best = margins.argmax()
    features = selected_features(problem, selected[best])
    separator = hard_margin(features)
    runner_up = margins[torch.arange(len(margins)) != best].max()
    alone = runner_up < (1 - TIGHT) * margins[best]
    essential = _can_have_multipliers(features, separator)
    return LabelChoice(selected[best], separator, margins[best], runner_up, bool(alone and essential.all()))


def _can_have_multipliers(features, separator):
    """Whether some solution of the dual gives an input a positive multiplier: bool, shape (n,).

    Row z_j has one exactly if s v_mm - z_j, for some s, is a non-negative combination of the tight rows.
    """
    from scipy.optimize import nnls  # slow to import

    tight = separator.margins < 1 + TIGHT
    system = torch.cat([features[tight], -separator.theta[None]]).T.numpy()
    residuals = [nnls(system, -row)[1] / np.linalg.norm(row) for row in features.numpy()]
    return tight & torch.tensor([residual < TIGHT for residual in residuals])


@torch.no_grad()
def head_gradient(problem, loss, head, theta):
    """Gradient of the joint risk in the head, (1/n) sum_i loss'(u_i) Y_i r_i, its size as a logarithm."""
    checks.joint_problem(problem)
    return _features_gradient(problem.features(problem.attention(theta)), loss, head)


def _features_gradient(features, loss, head):
    """:func:`head_gradient` for the features Y_i r_i themselves, shape (..., n, c)."""
    checks.loss(loss)
    head = checks.real("head", head)
    log_slope = loss.log_slope(torch.einsum("...nc,...c->...n", features, head))
    log_scale = log_slope.amax(-1)
    weights = (log_slope - log_scale[..., None]).exp()
    direction = -torch.einsum("...n,...nc->...c", weights, features)
    return LogScaled(direction, log_scale - math.log(features.shape[-2]))


@torch.no_grad()
def _joint_gradient(problem, loss, head, theta):
    """Gradient of the joint risk in the head and theta as one vector, the head first, its size as a logarithm."""
    checks.joint_problem(problem)
    parts = _both_gradients(problem, loss, head, theta)
    log_scale = torch.maximum(*(part.log_scale for part in parts))
    common = torch.where(torch.isneginf(log_scale), 0.0, log_scale)
    scaled = [(part.log_scale - common).exp()[..., None] * part.direction for part in parts]
    return LogScaled(torch.cat(scaled, dim=-1), log_scale)


def _both_gradients(problem, loss, head, theta):
    fixed = problem.fixed_head(head)
    return _features_gradient(problem.features(fixed.attention(theta)), loss, head), gradient(fixed, loss, theta)


def run(problem, loss, head, theta, head_rule, rule, iterations, record=None, norm=2.0):
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
        Step rule of theta or, if there is no ``head_rule``, of the head and theta together. It may be the head's, too:
        each part has a memory of its own.
    iterations : int
    record : sequence of int, optional
        Iterations to keep, 0 being the start; all of them when left out.
    norm : float
        p of the potential of both, as in :func:`lib.descent.run`: l_p-JointGD of arXiv:2410.14581.

    Returns
    -------
    (Trajectory, Trajectory)
        Of the head and of theta.

    Raises
    ------
    ValueError, FloatingPointError
        As :func:`lib.descent.run`.

    Examples
    --------
    >>> from lib.descent import normalised
    >>> from lib.losses import by_name
    >>> tokens = torch.tensor([[[0, 2], [0, 0]], [[1, 0], [0, 0]]], dtype=torch.float64)
    >>> problem = JointProblem(tokens, labels=torch.tensor([1, -1], dtype=torch.float64))
    >>> zero, rule = torch.zeros(2, dtype=torch.float64), normalised(0.1)
    >>> heads, prompts = run(problem, by_name("logistic"), zero, zero, rule, rule, iterations=200)
    >>> heads.theta[-1].sign().tolist(), prompts.theta[-1].sign().tolist()
    ([-1.0, 1.0], [1.0, 1.0])
    """
    checks.joint_problem(problem)
    checks.loss(loss)
    for name, given_rule in (("rule", rule), ("head_rule", rule if head_rule is None else head_rule)):
        checks.rule(given_rule, name)
        check_polyak_problem(given_rule)
    head = checks.tensor("head", head, "c")
    theta = checks.tensor("theta", theta, "d")
    problem.fixed_head(head).check_parameter(theta)  # refuses a head of another size, too
    size = head.shape[-1]
    batch = checks.broadcastable(problem=problem.batch_shape, head=head.shape[:-1], theta=theta.shape[:-1])
    start = torch.cat([head.expand(*batch, size), theta.expand(*batch, theta.shape[-1])], dim=-1)

    if compiled(problem, loss, start, [rule] if head_rule is None else [head_rule, rule]):
        from .kernels import joint_trajectories  # imports numba

        times, norm = kept_iterations(iterations, record, start), checks.potential(norm)
        spec = None if head_rule is None else head_rule.spec
        both = joint_trajectories(problem, loss, start, spec, rule.spec, times, norm)
        times = torch.tensor(list(times))
        return Trajectory(both[..., :size], times), Trajectory(both[..., size:], times)

    head_rule, rule = fresh(head_rule), fresh(rule)

    def step(both, k):
        head, theta = both[..., :size], both[..., size:]
        if head_rule is None:
            return apply_rule(rule, _joint_gradient(problem, loss, head, theta), both, k)
        of_head, of_theta = _both_gradients(problem, loss, head, theta)
        return torch.cat([apply_rule(head_rule, of_head, head, k), apply_rule(rule, of_theta, theta, k)], dim=-1)

    both = iterate(step, start, iterations, record, norm)
    return Trajectory(both.theta[..., :size], both.times), Trajectory(both.theta[..., size:], both.times)
