"""Descend on the risk by a step rule, and record the trajectory.

A step rule is a function ``rule(grad, theta, k)``: from the gradient at the iterate theta, and the number k of steps
that were taken before, it makes the step, of the shape of theta. In a geometry other than Euclid's the step is one of
the mirror variable, and descent is mirror descent: l_p-AttGD of arXiv:2410.14581.

A rule with memory has a method ``fresh()``, which returns the same rule with an empty memory. Each run, and each part
of a joint run, calls it, so that nothing passes from one to another.
"""

import math
from dataclasses import dataclass
from functools import partial
from operator import index
from typing import NamedTuple

import torch
from torch import Tensor

from . import checks, geometry
from .geometry import inverse_mirror_map, mirror_map
from .logspace import excess_risk, gradient
from .problem import check_selected, same_problem

LARGEST = 2**35  # bytes of a record


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Recorded iterates; ``theta[k]`` has the batch shape of the run, so it fits the problem as it is.

    Attributes
    ----------
    theta : Tensor, shape (records, ..., parameter_size)
    times : Tensor, shape (records,)
        Iteration numbers of a run, log(1 + t) of a flow.
    """

    theta: Tensor
    times: Tensor


class RuleSpec(NamedTuple):
    """What compiled code needs to know of a step rule: its attribute ``spec``.

    kind : "constant", "normalised" or "polyak".
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
        _check_step_size(step_size, grad.log_scale.shape)
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
        _check_step_size(step_size, grad.log_scale.shape)
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


def _check_step_size(step_size, batch):
    if checks.broadcastable(step_size=step_size.shape, run=batch) != batch:
        raise ValueError(
            f"step_size has shape {tuple(step_size.shape)}, the run {tuple(batch)}: give one number, or one per run"
        )


def run(problem, loss, start, rule, iterations, record=None, norm=2.0):
    """Descend for ``iterations`` steps of ``rule`` from ``start``, over all leading dimensions at once.

    With another ``norm`` than 2 by mirror descent: the mirror variable is carried from step to step.

    Parameters
    ----------
    problem : lib.problem.Problem
    loss : lib.losses.Loss
    start : Tensor, shape (..., parameter_size)
        Leading dimensions that the problem lacks are several starts of one problem.
    rule : callable
        Step rule ``rule(grad, theta, k)``, for example ``normalised(0.1)``.
    iterations : int
        At least 1.
    record : sequence of int, optional
        Iterations to keep, 0 being the start; all of them when left out.
    norm : float
        p of the potential ``|x|_p^p / p``, 1 < p < inf. The iterate grows like k^(1/(p-1)): for p = 1.1 it is finite
        while the mirror variable stays below 6e30, but from about 1e16 on the logits of two tokens that compete are
        known only to their own rounding, so that each step is for the one with the smallest margin.

    Returns
    -------
    Trajectory

    Raises
    ------
    ValueError
        If ``start`` does not fit, a number of iterations is out of range, the record would take above 32 GiB, a step
        has another shape than theta, or ``rule`` is Polyak's step of another problem or loss.
    FloatingPointError
        If an iterate is no longer finite; the message has the iteration.

    Examples
    --------
    >>> from lib.geometry import one_minus_cosine
    >>> from lib.losses import by_name
    >>> from lib.problem import Problem
    >>> keys = torch.tensor([[[0, 2], [0, 0]], [[1, 0], [0, 0]]], dtype=torch.float64)
    >>> problem = Problem(keys, scores=torch.tensor([[1, 0], [1, 0]], dtype=torch.float64))
    >>> start = torch.zeros(2, dtype=torch.float64)
    >>> path = run(problem, by_name("logistic"), start, normalised(0.1), iterations=2000)
    >>> separator = torch.tensor([1, 0.5], dtype=torch.float64)
    >>> (one_minus_cosine(path.theta[-1], separator) < 1e-3).item()
    True
    """
    checks.problem(problem)
    checks.loss(loss)
    checks.rule(rule)
    check_polyak_problem(rule, problem, loss)
    theta = checks.tensor("start", start, "parameter", like=problem.keys)
    theta = checks.common(start=theta, problem=problem.keys)["start"]
    batch = checks.broadcastable(problem=problem.batch_shape, start=theta.shape[:-1])
    problem.check_parameter(theta)
    theta = theta.expand(*batch, theta.shape[-1])
    if compiled(problem, loss, theta, [rule]):
        from .kernels import trajectories  # imports numba

        times, norm = kept_iterations(iterations, record, theta), checks.potential(norm)
        return Trajectory(trajectories(problem, loss, theta, rule.spec, times, norm), torch.tensor(list(times)))
    grad, rule = gradient_near(problem, loss, theta), fresh(rule)
    return iterate(lambda theta, k: apply_rule(rule, grad(theta), theta, k), theta, iterations, record, norm)


def gradient_near(problem, loss, theta):
    """:func:`lib.logspace.gradient` as a function of thetas of one shape, into which the problem's fits.

    Compiled where it can be: then these are not checked.
    """
    if compiled(problem, loss, theta):
        from .kernels import gradients  # imports numba

        return gradients(problem, loss, theta.shape[:-1])
    return partial(gradient, problem, loss)


def excess_near(problem, loss, theta, selected):
    """:func:`lib.logspace.excess_risk` as a function of theta, as :func:`gradient_near` does."""
    if compiled(problem, loss, theta):
        from .kernels import excesses  # imports numba

        return excesses(problem, loss, theta.shape[:-1], check_selected(problem, selected))
    return partial(excess_risk, problem, loss, selected=selected)


def compiled(problem, loss, theta, rules=()):
    """Whether :mod:`lib.kernels` has what a run needs; otherwise it goes by tensors.

    It has linear heads without a mask, in float64 on the CPU, with the losses and step rules of this library; Polyak's
    step for the problem and the loss of the run itself; tokens on one spot must be alike.
    """
    specs = [getattr(rule, "spec", None) for rule in rules]
    of_tensors = (getattr(problem, name, None) for name in ("head", "mask"))
    if not all(specs) or loss.code is None or any(spec is not None for spec in of_tensors):
        return False
    for spec in specs:
        if spec.step_size is not None:
            _check_step_size(spec.step_size, theta.shape[:-1])
    of_this_run = all(spec.problem in (None, problem) and spec.loss in (None, loss) for spec in specs)
    in_float64 = theta.device.type == "cpu" and theta.dtype == problem.keys.dtype == torch.float64
    return of_this_run and in_float64 and problem.duplicates_agree


def kept_iterations(iterations, record, theta):
    """The iterations to keep, in order; ValueError if one is out of range, or thetas like this are too many."""
    times = range(checks.integer("iterations", iterations) + 1)
    if record is not None:
        try:
            times = sorted({index(k) for k in record})
        except TypeError:
            times = []
    if not times or times[0] < 0 or times[-1] > iterations:
        raise ValueError(
            f"record is {checks.shown(record)}: keep at least one of the iterations 0 to {iterations}, and no other"
        )
    size = theta.numel() * theta.element_size() * (iterations + 1 if record is None else len(times))
    if size > LARGEST:
        raise ValueError(
            f"iterations is {iterations}, and a record of them takes {size / 2**30:.0f} GiB: keep fewer, for example by"
            " record=log_spaced(iterations, 100)"
        )
    return times


def iterate(step, theta, iterations, record=None, norm=2.0):
    """Add ``step(theta, k)`` to theta, or to its mirror variable, k = 0, ..., iterations - 1; as :func:`run` does."""
    times = kept_iterations(iterations, record, theta)
    wanted, records, mirrored = set(times), [], mirror_map(theta, norm)
    for k in range(times[-1] + 1):
        if k in wanted:
            records.append(theta)
        if k < times[-1]:
            mirrored = mirrored + step(theta, k)
            theta = mirrored if norm == 2 else inverse_mirror_map(mirrored, norm)
            if not torch.isfinite(theta).all():
                remedy = "take a smaller step" + (", or float64" if theta.dtype == torch.float32 else "")
                raise FloatingPointError(f"the iterate is no longer finite at iteration {k + 1}: {remedy}")
    return Trajectory(torch.stack(records), torch.tensor(list(times), device=theta.device))


def log_spaced(last, count, first=1):
    """Iterations from ``first`` to ``last``, about evenly spaced on a logarithmic axis: what a run should record.

    Parameters
    ----------
    last : int
    count : int
        How many; fewer are left where several round to one iteration.
    first : float
        Above zero.

    Returns
    -------
    Tensor of int64, shape (records,)
        Rounded to whole numbers, each once.

    Raises
    ------
    ValueError
        Unless 0 < first <= last.

    Examples
    --------
    >>> log_spaced(1000, 4).tolist()
    [1, 10, 100, 1000]
    """
    checks.integer("last", last)
    checks.integer("count", count)
    if not 0 < first <= last:
        raise ValueError(f"iterations go from {first} to {last}: give 0 < first <= last")
    places = torch.logspace(math.log10(first), math.log10(last), count, dtype=torch.float64)
    return places.round().long().unique()
