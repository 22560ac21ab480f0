"""State the step rules of descent: constant, normalised, decaying and Polyak's; :mod:`lib.steepest` has the others.

A step rule is a function ``rule(grad, theta, k)``: from the gradient at the iterate theta, a
:class:`lib.logspace.LogScaled`, and the number k of steps that were taken before, it makes the step, of the shape of
theta. In a geometry other than Euclid's the step is one of the mirror variable, and descent is mirror descent:
l_p-AttGD of arXiv:2410.14581. The networks of the studies take the same rules.

A rule with memory has a method ``fresh()``, which returns the same rule with an empty memory. Each run, and each part
of a joint run, calls it, so that nothing passes from one to another.

A rule of one's own needs nothing else: it runs by tensors. Compiled code takes a rule with the attribute ``spec``, by
its kind, and has its formula from :func:`step_length` here.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from . import checks, geometry
from .logspace import excess_risk
from .problem import check_selected, same_problem

# Kinds of rules that compiled code has; there a kind is its place here, and has a branch of its own in `step_length`.
# The attribute `spec` of a rule decides how a run goes: with it compiled, by the formula of its kind, without it by
# tensors, as the rule itself is written. Chapters import rules from lib/descent.py, which passes on those of this file.
KINDS = ("constant", "normalised", "polyak")
CONSTANT, NORMALISED, POLYAK = range(len(KINDS))


def step_length(kind, factor, size, direction_length, log_scale, excess_sign, excess_log):
    """What a step multiplies the gradient's direction by, with the sign turned: the formulas below for compiled code.

    Parameters
    ----------
    kind : int
        Place in ``KINDS``.
    factor, size : float
        The decay (k + 1)^-power, and the step size.
    direction_length, log_scale : float
        Norm of the direction of the gradient, and the logarithm of the gradient's scale.
    excess_sign, excess_log : float
        Excess risk L - L*, for Polyak's step.

    Raises
    ------
    ValueError
        If the kind has no formula here.
    """
    if kind == CONSTANT:
        return factor * size * math.exp(log_scale)
    if direction_length == 0.0:
        return 0.0
    if kind == NORMALISED:
        return factor * size / direction_length
    if kind != POLYAK:
        raise ValueError("the kind of the rule has no formula: write its branch in lib/rules.py, step_length")
    if excess_sign <= 0.0:
        return 0.0
    return factor * math.exp(excess_log - math.log(2.0) - log_scale - 2.0 * math.log(direction_length))


class RuleSpec(NamedTuple):
    """What compiled code needs to know of a step rule: its attribute ``spec``.

    kind : one of `KINDS`.
    step_size : of batch shape, a number, or None.
    dual : the norm that the gradient is divided by.
    power : the steps decay like (k + 1)^-power.
    problem, loss, selected : those of Polyak's step.
    """

    kind: str
    step_size: Tensor | None = None
    dual: float = 2.0
    power: float = 0.0
    problem: object = None
    loss: object = None
    selected: Tensor | None = None


def constant(step_size):
    """Gradient descent with a constant step, theta <- theta - step_size * grad L; > 0, a number or of batch shape."""
    step_size = checks.positive("step_size", step_size)

    def rule(grad, theta, k):
        check_step_size(step_size, grad.log_scale.shape)
        return -(step_size.to(grad.log_scale) * grad.log_scale.exp())[..., None] * grad.direction

    rule.spec = RuleSpec("constant", step_size)
    return rule


def normalised(step_size, norm=2.0):
    """Normalised descent, ``theta <- theta - step_size * grad L / |grad L|``; stays put where the gradient is zero.

    No epsilon: the direction is exact at any size of the gradient. For mirror descent with the potential of the l_p
    norm, ``norm`` is p: the gradient is divided by its dual norm, that of p / (p - 1).
    """
    step_size, dual = checks.positive("step_size", step_size), geometry.dual(norm)

    def rule(grad, theta, k):
        check_step_size(step_size, grad.log_scale.shape)
        length = geometry.norm(grad.direction, dual)
        return -(step_size.to(length) / torch.where(length == 0, 1.0, length))[..., None] * grad.direction

    rule.spec = RuleSpec("normalised", step_size, dual)
    return rule


def decaying(rule, power):
    """Steps of ``rule`` times (k + 1)^-power, k = 0, 1, ...

    The joint training of arXiv:2402.05738 is ``decaying(normalised(step_size), 2 / 3)``.

    Parameters
    ----------
    rule : callable
        Step rule.
    power : float
        Not below zero. Above 1 steps of one length have a finite sum, so that the iterate stays near its start.

    Raises
    ------
    ValueError
        If the power is below zero or not a finite number.
    """
    checks.rule(rule)
    remedy = "steps decay like (k + 1)^-power, so it must be a finite number from 0 on"
    checks.number("power", power, lambda power: 0 <= power < math.inf, remedy)

    def decayed(grad, theta, k):
        return rule(grad, theta, k) * (k + 1.0) ** -power

    decayed.fresh = lambda: decaying(fresh(rule), power)
    if spec := getattr(rule, "spec", None):
        decayed.spec = spec._replace(power=spec.power + power)
    return decayed


def polyak(problem, loss, selected):
    """Polyak's step ``theta <- theta - (L(theta) - L*) / (2 |grad L|^2) grad L`` (arXiv:2402.05738), by logarithms.

    L* is the risk with all attention on the selected tokens, so these should be the optimal ones. The step is zero
    where the risk is not above L*, and where the gradient is zero.

    Attention that is saturated on wrong tokens leaves a finite excess but a gradient of about e^-g, g the lead of their
    logits over the next: the step is as long as e^g. Up to g = 700 that is a float, so a run can show the step, 1e100
    on a logarithmic axis; beyond, :func:`run` raises FloatingPointError. After a step above about 1e15 the iterate is
    known only to its rounding, which steps of ordinary length do not exceed. Take the length and the direction of that
    step, and the tokens that it selects, for the result, and nothing after it. In a batch one overflow ends all runs:
    take such starts one by one, and FloatingPointError as an outcome.

    Parameters
    ----------
    problem : lib.problem.Problem
    loss : lib.losses.Loss
        Both those of the run.
    selected : array_like of int, shape (..., n)
        For example ``optimal_tokens(problem)``.

    Raises
    ------
    ValueError
        If ``selected`` does not fit the problem.
    """
    checks.problem(problem)
    checks.loss(loss)
    selected = check_selected(problem, selected)

    def rule(grad, theta, k):
        excess = excess_risk(problem, loss, theta, selected)
        length = geometry.norm(grad.direction)
        moves = (excess.direction > 0) & (length > 0)
        log_factor = excess.log_scale - math.log(2) - grad.log_scale - 2 * length.log()
        return -torch.where(moves, log_factor, -torch.inf).exp()[..., None] * grad.direction

    rule.spec = RuleSpec("polyak", problem=problem, loss=loss, selected=selected)
    return rule


def fresh(rule):
    """The rule with an empty memory, for one run; a rule without a memory as it is."""
    return rule.fresh() if hasattr(rule, "fresh") else rule


def apply_rule(rule, grad, theta, k):
    """Apply a rule: its step; ValueError unless that is a tensor of the shape of theta."""
    step = rule(grad, theta, k)
    if not isinstance(step, Tensor) or step.shape != theta.shape:
        returned = f"a tensor of shape {tuple(step.shape)}" if isinstance(step, Tensor) else checks.shown(step)
        raise ValueError(f"the rule's step is {returned}: return a tensor of theta's shape {tuple(theta.shape)}")
    return step


def check_polyak_problem(rule, problem=None, loss=None):
    """Raise ValueError if a rule is Polyak's step for another problem or loss: their optimum is another."""
    spec = getattr(rule, "spec", None)
    if spec is None or spec.problem is None:
        return
    if problem is None or spec.loss is not loss or not same_problem(spec.problem, problem):
        raise ValueError(
            "rule is Polyak's step of another problem or loss, whose optimum is another: make it of those of the run"
        )


def check_step_size(step_size, batch):
    """Raise ValueError unless the step size is one number, or one for each run of the batch."""
    if checks.broadcastable(step_size=step_size.shape, run=batch) != batch:
        raise ValueError(
            f"step_size has shape {tuple(step_size.shape)}, the run {tuple(batch)}: give one number, or one per run"
        )
