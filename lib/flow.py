"""Integrate the gradient flow in logarithmic time, far beyond the reach of any number of descent steps."""

import warnings

import numpy as np
import torch

from . import checks, geometry
from .descent import Trajectory, compiled
from .geometry import inverse_mirror_map, mirror_map
from .logspace import gradient

LONGEST = 1e12  # log time plus path length at which a flow that has not arrived is given up
MAX_STEPS = 50_000  # of the solver, after which a flow is given up; those of the book take a few thousand


def log_time_flow(problem, loss, start, log_times, accuracy=1e-9, norm=2.0):
    """Integrate the gradient flow d theta/dt = -grad L in tau = log(1 + t), where t = e^10000 is within reach.

    In log time the velocity is v = -e^tau grad L(theta), its two factors multiplied as logarithms. Descent that has to
    leave a saturated wrong token waits, then jumps, so tau and theta are both integrated over sigma with
    ``d sigma = (1 + |v|) d tau``: no speed is above 1. By a solver for stiff equations (LSODA), one entry of the batch
    after the other. At a *finite* stationary point e^tau multiplies rounding errors: there log times end near 30.

    Parameters
    ----------
    problem : lib.problem.Problem
    loss : lib.losses.Loss
    start : Tensor, shape (..., parameter_size)
        theta at t = 0, one for each entry of the problem's batch, or several for a problem without one.
    log_times : array_like, shape (records,)
        Increasing values of log(1 + t), none below zero.
    accuracy : float
        Relative and absolute tolerance of the solver, at most 0.01.
    norm : float
        p of the potential ``|x|_p^p / p``: the flow is that of mirror descent, dM/dt = -grad L with the mirror variable
        M in place of theta everywhere above. For p above 2 theta has an infinite slope in M where an entry is zero.

    Returns
    -------
    Trajectory

    Raises
    ------
    RuntimeError
        If the solver gives up; the message has its reason.

    Examples
    --------
    >>> from lib.losses import by_name
    >>> from lib.problem import Problem
    >>> keys = torch.tensor([[[1, 0], [0, 0]]], dtype=torch.float64)
    >>> problem = Problem(keys, scores=torch.tensor([[1, 0]], dtype=torch.float64))
    >>> flow = log_time_flow(problem, by_name("logistic"), torch.zeros(2, dtype=torch.float64), [0, 10000])
    >>> round(flow.theta[-1, 0].item() / 10000, 2)  # along the separator, (1, 0), by log t
    1.0
    """
    checks.problem(problem)
    checks.loss(loss)
    checks.number("accuracy", accuracy, lambda part: 0 < part <= 0.01, "give a number above 0, at most 0.01")
    times = checks.tensor("log_times", log_times, "records")
    if times.ndim != 1 or times[0] < 0 or (times.diff() <= 0).any():
        raise ValueError(
            f"log_times is {checks.shown(times.tolist())}: values of log(1 + t) must increase, in one list from 0 on"
        )
    start = checks.tensor("start", start, "parameter")
    problem.check_parameter(start)
    batch = problem.batch_shape
    if batch and start.shape[:-1] != batch:
        raise ValueError(
            f"start has leading dimensions {tuple(start.shape[:-1])}, the problem {tuple(batch)}:"
            " give each problem one start"
        )
    flows = [
        _flow(problem[index] if batch else problem, loss, start[index], times.numpy(), accuracy, norm)
        for index in np.ndindex(start.shape[:-1])
    ]
    theta = torch.as_tensor(np.stack(flows, axis=1))
    return Trajectory(theta.reshape(len(times), *start.shape), times)


def _flow(problem, loss, start, times, accuracy, norm):
    """One flow at the given log times, shape (records, parameter_size)."""
    from scipy.integrate import LSODA  # slow to import

    state = np.append(mirror_map(start, norm).numpy(), 0.0)
    speed, slopes = _speed(problem, loss, norm)
    solver = LSODA(speed, 0.0, state, LONGEST, rtol=accuracy, atol=accuracy, jac=slopes)
    message, states = f"its length is {LONGEST:g}", []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # LSODA warns before it fails, and a failure is raised below
        for _ in range(MAX_STEPS):
            if solver.status != "running" or len(states) == len(times):
                break
            message = solver.step() or message
            if solver.status != "failed" and solver.y[-1] >= times[len(states)]:
                states += _passed(solver, times[len(states) :])
        else:
            message = f"{MAX_STEPS} steps were not enough"
    if len(states) < len(times):
        length = geometry.norm(inverse_mirror_map(torch.as_tensor(solver.y[:-1]), norm))
        raise RuntimeError(
            f"the flow stopped at log(1 + t) = {solver.y[-1]:g} with |theta| = {length:.2g} ({message}):"
            " rounding of the logits has reached the accuracy; end earlier"
        )
    return inverse_mirror_map(torch.as_tensor(np.stack(states)[:, :-1]), norm).numpy()


def _passed(solver, times):
    """States at the log times that the solver's last step passed, in order."""
    from scipy.optimize import brentq  # slow to import

    between, first, last = solver.dense_output(), solver.t_old, solver.t

    def after(sigma, time):
        return between(sigma)[-1] - time

    states = []
    for time in times[times <= solver.y[-1]]:
        sigma = first if after(first, time) >= 0 else last
        if after(first, time) < 0 < after(last, time):
            sigma = brentq(after, first, last, (time,))
        states.append(between(sigma))
    return states


def _speed(problem, loss, norm):
    """The velocity of mirror variable and log time as a function of sigma and of both, and its derivatives or None."""
    if compiled(problem, loss, problem.keys):
        from .kernels import velocity  # imports numba

        return velocity(problem, loss, norm)
    from scipy.special import expit  # slow to import

    def speed(_, state):
        grad = gradient(problem, loss, inverse_mirror_map(torch.as_tensor(state[:-1]), norm))
        length = geometry.norm(grad.direction)
        log_velocity = (state[-1] + grad.log_scale + length.log()).item()
        share = expit(log_velocity)  # |v| / (1 + |v|), for any size of v
        heading = -grad.direction.numpy() / (length.item() or 1.0)
        return np.append(share * heading, expit(-log_velocity))

    return speed, None
