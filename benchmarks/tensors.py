"""The library's exact gradient as tensors, driven by plain loops and by scipy: what compiled code is measured against.

The same results as :func:`lib.descent.run`, :func:`lib.joint.run` and :func:`lib.flow.log_time_flow`.
"""

import numpy as np
import torch
from scipy.integrate import solve_ivp
from scipy.special import expit

from lib.geometry import inverse_mirror_map, mirror_map
from lib.geometry import norm as length
from lib.joint import features_gradient
from lib.logspace import gradient


def descend(problem, loss, start, rule, iterations, norm=2.0):
    """Final theta of descent by a step rule, from starts (..., parameter_size)."""
    theta, mirrored = start, mirror_map(start, norm)
    for k in range(iterations):
        mirrored = mirrored + rule(gradient(problem, loss, theta), theta, k)
        theta = inverse_mirror_map(mirrored, norm)
    return theta


def descend_jointly(problem, loss, head, theta, rule, iterations):
    """Final head (..., c) and theta of descent in both, each by the rule."""
    for k in range(iterations):
        fixed = problem.fixed_head(head)
        of_head = features_gradient(problem.features(fixed.attention(theta)), loss, head)
        of_theta = gradient(fixed, loss, theta)
        head, theta = head + rule(of_head, head, k), theta + rule(of_theta, theta, k)
    return head, theta


def flow(problem, loss, start, log_time, accuracy=1e-9):
    """Gradient flow of one problem to log(1 + t) = log_time, as lib.flow has it.

    Returns
    -------
    theta : Tensor, shape (parameter_size,)
    calls : int
        How often the solver asked for the gradient.
    """

    def speed(_, state):
        grad = gradient(problem, loss, torch.as_tensor(state[:-1]))
        size = length(grad.direction)
        log_velocity = (state[-1] + grad.log_scale + size.log()).item()
        heading = -grad.direction.numpy() / (size.item() or 1.0)
        return np.append(expit(log_velocity) * heading, expit(-log_velocity))

    def arrived(_, state):
        return state[-1] - log_time

    arrived.terminal = True
    state = np.append(start.numpy(), 0.0)
    solution = solve_ivp(
        speed, (0.0, 1e12), state, method="LSODA", rtol=accuracy, atol=accuracy, dense_output=True, events=arrived
    )
    return torch.as_tensor(solution.y_events[0][0][:-1]), solution.nfev
