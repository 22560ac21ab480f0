"""Descend on the risk by a step rule of :mod:`lib.rules` or :mod:`lib.steepest`, and record the trajectory."""

import math
from dataclasses import dataclass
from functools import partial
from operator import index

import torch
from torch import Tensor

from . import checks
from .geometry import inverse_mirror_map, mirror_map
from .logspace import excess_risk, gradient
from .problem import check_selected
from .rules import apply_rule, check_polyak_problem, check_step_size, fresh
from .rules import constant as constant  # chapters import rules from here
from .rules import decaying as decaying
from .rules import normalised as normalised
from .rules import polyak as polyak

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
    theta = checks.tensor("start", start, "parameter")
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

    It has linear heads without a mask, with the losses and step rules of this library; Polyak's
    step for the problem and the loss of the run itself; tokens on one spot must be alike.
    """
    specs = [getattr(rule, "spec", None) for rule in rules]
    of_tensors = (getattr(problem, name, None) for name in ("head", "mask"))
    if not all(specs) or loss.code is None or any(spec is not None for spec in of_tensors):
        return False
    for spec in specs:
        if spec.step_size is not None:
            check_step_size(spec.step_size, theta.shape[:-1])
    of_this_run = all(spec.problem in (None, problem) and spec.loss in (None, loss) for spec in specs)
    return of_this_run and problem.duplicates_agree


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
                raise FloatingPointError(f"the iterate is no longer finite at iteration {k + 1}: take a smaller step")
    return Trajectory(torch.stack(records), torch.tensor(list(times)))


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
