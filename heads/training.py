"""Let an optimiser of PyTorch train W, or keys and queries, on gradients in log space that are given to it.

It is anyone's code: what it cannot do is a ValueError of one sentence.
"""

from dataclasses import replace

import torch
from torch import Tensor

from ._lib import checks, excess_near, gradient_near, logistic

NOISE = 0.1  # of the entries of K and Q at the start, times the mean root of the singular values of W
HUGE = 1e100  # entry of W from which on it diverges


def parameters_near(matrix, factored):
    """W, or K and Q with K Q^T near W: balanced, with as many more columns, and noise, since what is zero stays it."""
    if not factored:
        return [torch.nn.Parameter(matrix.clone())]
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    root = values.sqrt()
    halves = [torch.cat([half * root, half.new_zeros(len(half), max(matrix.shape))], 1) for half in (left, right.mT)]
    return [torch.nn.Parameter(half + NOISE * root.mean() * torch.randn_like(half)) for half in halves]


def products(weights):
    """vec(W) of all problems."""
    with torch.no_grad():
        return torch.stack([(parts[0] if len(parts) == 1 else parts[0] @ parts[1].mT).flatten() for parts in weights])


def made(make, parts):
    """An optimiser of these parameters, in training mode where it has one; ValueError with one sentence if it fails."""
    try:
        optimiser = make(parts)
    except (Exception, SystemExit) as error:  # of any kind: it is not our code
        raise ValueError(f"the optimiser cannot be made ({_first_line(error)}): change its parameters") from error
    if not isinstance(optimiser, torch.optim.Optimizer):
        raise ValueError(
            f"{checks.shown(optimiser)} is no torch.optim.Optimizer: give a class or function that makes one"
        )
    if any(group.get("maximize") for group in optimiser.param_groups):
        raise ValueError(f"{type(optimiser).__name__} has maximize=True, so it climbs the risk: leave it out")
    if hasattr(optimiser, "train"):  # of optimisers that average
        optimiser.train()
    optimiser.first_rates = [group.get("lr", 1.0) for group in optimiser.param_groups]
    return optimiser


def gradient_of(problem, best, one_input, log_risk):
    """Gradient of the objective as a function of vec(W) of all problems, and of the step."""
    like = problem.keys.new_zeros(*problem.batch_shape, problem.parameter_size)
    excess, inputs = excess_near(problem, logistic, like, best), problem.scores.shape[-2]
    parts = [problem]
    if one_input:
        cut = {name: getattr(problem, name) for name in ("keys", "scores", "queries")}
        parts = [replace(problem, **{name: x[:, i : i + 1] for name, x in cut.items()}) for i in range(inputs)]
    slopes, order = [gradient_near(part, logistic, like) for part in parts], []

    def at(theta, k):
        if k % len(parts) == 0:
            order[:] = torch.randperm(len(parts)).tolist() if one_input else [0]
        direction, log_scale = slopes[order[k % len(parts)]](theta)
        if log_risk:
            log_scale = log_scale - excess(theta).log_scale
        return log_scale.exp()[..., None] * direction

    return at


def take_step(optimisers, weights, slopes, k):
    """Give each optimiser its gradient and take its step; ValueError with one sentence if it cannot."""
    for optimiser, parts, slope in zip(optimisers, weights, slopes, strict=True):
        if len(parts) == 1:
            parts[0].grad = slope.view_as(parts[0]).clone()
        else:
            (keys, queries), slope = parts, slope.view(len(parts[0]), len(parts[1]))
            keys.grad, queries.grad = slope @ queries.detach(), slope.mT @ keys.detach()
            for group, rate in zip(optimiser.param_groups, optimiser.first_rates, strict=True):
                group["lr"] = rate * k**-0.5
        try:
            optimiser.step()
        except (Exception, SystemExit) as error:  # of any kind: it is not our code
            raise ValueError(
                f"{type(optimiser).__name__} fails at step {k} ({_first_line(error)}): it has to take steps from .grad"
                " alone, without a closure and second derivatives"
            ) from error
        if any(part.dtype != torch.float64 for part in parts):
            raise ValueError(f"{type(optimiser).__name__} changes the weights' type: they have to stay in float64")
        if k == 1 and any(
            isinstance(x, Tensor) and x.is_complex() for s in optimiser.state.values() for x in s.values()
        ):
            raise ValueError(f"{type(optimiser).__name__} has complex states: the weights here are real")


def _first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def evaluated(optimisers, weights):
    """vec(W) of all problems, with averaged weights where the optimiser averages."""
    for optimiser in optimisers:
        if hasattr(optimiser, "eval"):
            optimiser.eval()
    theta = products(weights)
    for optimiser in optimisers:
        if hasattr(optimiser, "train"):
            optimiser.train()
    return theta
