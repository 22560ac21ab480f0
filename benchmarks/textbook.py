"""Textbook tensors: the gradient by the Jacobian of softmax, all trials in one batch, in float64.

What one writes who knows the formula and batches well. Saturated attention turns it into rounding noise
(:mod:`lib.logspace` says why), so it is a measure of speed alone.
"""

import torch

from lib.geometry import dual, inverse_mirror_map, mirror_map
from lib.geometry import norm as length


def gradient(problem, theta):
    """Gradient of the logistic risk in theta, (1/n) sum_i loss'(u_i) A_i^T (diag(a_i) - a_i a_i^T) gamma_i."""
    return _pulled(problem, problem.logits(theta).softmax(-1))


def _pulled(problem, attention):
    margins = (attention * problem.scores).sum(-1, keepdim=True)
    slope = -torch.sigmoid(-margins)
    weights = slope * attention * (problem.scores - margins)
    return problem.pull_back(weights) / problem.scores.shape[-2]


def descend(problem, start, step_size, iterations, norm=2.0):
    """Normalised (mirror) descent from starts (..., parameter_size); returns the final theta."""
    theta, mirrored = start, mirror_map(start, norm)
    for _ in range(iterations):
        mirrored = mirrored - step_size * normalised(gradient(problem, theta), norm)
        theta = inverse_mirror_map(mirrored, norm)
    return theta


def descend_jointly(problem, head, theta, step_size, iterations):
    """Normalised descent in head (..., c) and theta (..., parameter_size) of a JointProblem; returns both."""
    for _ in range(iterations):
        fixed = problem.fixed_head(head)
        attention = fixed.attention(theta)
        features = problem.features(attention)
        slope = -torch.sigmoid(-(features * head[..., None, :]).sum(-1, keepdim=True))
        of_head = (slope * features).mean(-2)
        of_theta = _pulled(fixed, attention)
        head, theta = head - step_size * normalised(of_head), theta - step_size * normalised(of_theta)
    return head, theta


def normalised(grad, norm=2.0):
    """A gradient divided by its dual norm; zero where it is zero."""
    size = length(grad, dual(norm))[..., None]
    return grad / torch.where(size == 0, 1.0, size)
