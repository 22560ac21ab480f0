"""Two styles of tensors, all trials in one batch in float64: what compiled code is measured against.

``exact`` takes the library's own gradient, driven by plain loops and by scipy, with the same results as
:func:`lib.descent.run`, :func:`lib.joint.run` and :func:`lib.flow.log_time_flow`. ``textbook`` takes the Jacobian of
softmax, which saturated attention turns into rounding noise (:mod:`lib.logspace` says why): a measure of speed alone.
"""

import numpy as np
import torch
from scipy.integrate import solve_ivp
from scipy.special import expit

from lib.geometry import dual, inverse_mirror_map, mirror_map
from lib.geometry import norm as length
from lib.joint import _features_gradient
from lib.logspace import gradient
from lib.losses import logistic


def exact(problem, theta):
    """Direction of the gradient."""
    return gradient(problem, logistic, theta).direction


def textbook(problem, theta):
    """Gradient (1/n) sum_i loss'(u_i) A_i^T (diag(a_i) - a_i a_i^T) gamma_i."""
    return _pulled(problem, problem.logits(theta).softmax(-1))


def exact_jointly(problem, head, theta):
    """Directions of the gradients in head and theta of a JointProblem."""
    fixed = problem.fixed_head(head)
    features = problem.features(fixed.attention(theta))
    return _features_gradient(features, logistic, head).direction, exact(fixed, theta)


def textbook_jointly(problem, head, theta):
    """Gradients in head and theta of a JointProblem."""
    fixed = problem.fixed_head(head)
    attention = fixed.attention(theta)
    features = problem.features(attention)
    slope = -torch.sigmoid(-(features * head[..., None, :]).sum(-1, keepdim=True))
    return (slope * features).mean(-2), _pulled(fixed, attention)


def _pulled(problem, attention):
    margins = (attention * problem.scores).sum(-1, keepdim=True)
    weights = -torch.sigmoid(-margins) * attention * (problem.scores - margins)
    return problem.pull_back(weights) / problem.scores.shape[-2]


def _step(grad, step_size, norm=2.0):
    size = length(grad, dual(norm))[..., None]
    return step_size * grad / torch.where(size == 0, 1.0, size)


def descend(style, problem, start, step_size, iterations, norm=2.0):
    """Final theta of normalised (mirror) descent from starts (..., parameter_size)."""
    theta, mirrored = start, mirror_map(start, norm)
    for _ in range(iterations):
        mirrored = mirrored - _step(style(problem, theta), step_size, norm)
        theta = inverse_mirror_map(mirrored, norm)
    return theta


def descend_jointly(style, problem, head, theta, step_size, iterations):
    """Final head (..., c) and theta of normalised descent in both."""
    for _ in range(iterations):
        of_head, of_theta = style(problem, head, theta)
        head, theta = head - _step(of_head, step_size), theta - _step(of_theta, step_size)
    return head, theta


def flow(problem, start, log_time):
    """Gradient flow of one problem to log(1 + t) = log_time: theta, and how often the solver asked for the gradient."""

    def speed(_, state):
        grad = gradient(problem, logistic, torch.as_tensor(state[:-1]))
        size = length(grad.direction)
        log_velocity = (state[-1] + grad.log_scale + size.log()).item()
        heading = -grad.direction.numpy() / (size.item() or 1.0)
        return np.append(expit(log_velocity) * heading, expit(-log_velocity))

    def arrived(_, state):
        return state[-1] - log_time

    arrived.terminal = True
    state, settings = np.append(start.numpy(), 0.0), {"method": "LSODA", "rtol": 1e-9, "atol": 1e-9}
    solution = solve_ivp(speed, (0.0, 1e12), state, dense_output=True, events=arrived, **settings)
    return torch.as_tensor(solution.y_events[0][0][:-1]), solution.nfev
