"""Define step rules for :mod:`lib.descent`: steepest descent in any norm, memory, Adam, Muon, decay, factored weights.

Everything that can underflow is a logarithm, so each rule is exact at any saturation of attention. Rules with memory
have an empty one in each run; called by hand, without a run, they forget at step 0 and take steps in their order.
"""

import math
from functools import partial

import torch

from . import checks, geometry
from .descent import Trajectory, gradient_near, iterate
from .logspace import LogScaled
from .rules import apply_rule, check_polyak_problem, fresh

QUINTIC = (3.4445, -4.7750, 2.0315)  # coefficients of Muon's Newton-Schulz steps, as published (K. Jordan, 2024)


def steepest_direction(vectors, norm=2.0, shape=None):
    """The s with norm 1 that has the largest <vectors, s>, shape (..., D); zero for a zero vector.

    Where there are several: for l_1 the first of the largest entries, for l_inf zero where the entry is zero, for the
    spectral norm the one of least rank, for the nuclear norm the first singular vectors that the decomposition gives.

    Parameters
    ----------
    vectors : array_like, shape (..., D)
    norm : float, "spectral", "nuclear", or sequence of (norm, shape)
        A sequence is the largest of the norms of blocks, one behind the other; a block's shape is (size,) or (d, e).
    shape : (int, int), optional
        Of the matrix, for spectral and nuclear.

    Examples
    --------
    >>> steepest_direction([3.0, -4.0], math.inf).tolist(), steepest_direction([3.0, -4.0], 1).tolist()
    ([1.0, -1.0], [0.0, -1.0])
    >>> steepest_direction([3.0, 0.0, 0.0, -4.0], "spectral", (2, 2)).tolist()
    [1.0, 0.0, 0.0, -1.0]
    """
    vectors = checks.tensor("vectors", vectors, "D")
    if isinstance(norm, list | tuple):
        sizes = [math.prod(size) for _, size in norm]
        if sum(sizes) != vectors.shape[-1]:
            raise ValueError(f"blocks have {sum(sizes)} entries, vectors {vectors.shape[-1]}: give every entry a block")
        for (block_norm, block_shape), size in zip(norm, sizes, strict=True):
            checks.any_norm(block_norm, block_shape, size)
    else:
        checks.any_norm(norm, shape, vectors.shape[-1])
    return _direction(vectors, norm, shape)


def _direction(vectors, norm, shape):
    """The same of arguments that were checked before: a run takes thousands of steps."""
    if isinstance(norm, list | tuple):
        parts = vectors.split([math.prod(size) for _, size in norm], -1)
        return torch.cat([_direction(part, *block_norm) for part, block_norm in zip(parts, norm, strict=True)], -1)
    largest = vectors.abs().amax(-1, keepdim=True)
    vectors = vectors / torch.where(largest == 0, 1.0, largest)
    if isinstance(norm, str):
        left, values, right = torch.linalg.svd(vectors.unflatten(-1, tuple(shape)), full_matrices=False)
        rounding = torch.finfo(vectors.dtype).eps * max(shape) * values[..., :1]
        weights = (values > rounding).to(values)
        weights[..., 1:] *= norm == "spectral"
        return (left * weights[..., None, :] @ right).flatten(-2)
    if norm == math.inf:
        return vectors.sign()
    if norm == 1:
        place = vectors.abs().argmax(-1, keepdim=True)
        return torch.zeros_like(vectors).scatter(-1, place, vectors.gather(-1, place).sign())
    powers = vectors.sign() * vectors.abs() ** (geometry.dual(norm) - 1)
    total = geometry.norm(powers, norm)[..., None]
    return powers / torch.where(total == 0, 1.0, total)


def newton_schulz(matrices, steps=5):
    """Muon's approximate polar factor, by the published Newton-Schulz steps.

    X <- a X + (b S + c S^2) X with S = X X^T, from X of Frobenius norm 1. Its singular values end between about 0.7
    and 1.2, not at 1, where they were not too small.

    Parameters
    ----------
    matrices : array_like, shape (..., d, e)
    steps : int
    """
    matrices = checks.tensor("matrices", matrices, "d", "e")
    checks.integer("steps", steps)
    tall = matrices.shape[-2] > matrices.shape[-1]
    size = torch.linalg.matrix_norm(matrices, keepdim=True)
    x = (matrices.mT if tall else matrices) / torch.where(size == 0, 1.0, size)
    a, b, c = QUINTIC
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


def steepest(step_size, norm=2.0, shape=None):
    """Normalised steepest descent: the step of norm ``step_size`` that lowers the risk most, to first order.

    Sign descent for inf, coordinate descent for 1, spectral descent for "spectral"; arguments as of
    :func:`steepest_direction`. Stays put where the gradient is zero.
    """
    step_size = checks.positive("step_size", step_size)
    for block_norm in norm if isinstance(norm, list | tuple) else [(norm, shape)]:
        checks.any_norm(*block_norm)

    def rule(grad, theta, k):
        direction = _direction if k else steepest_direction  # a gradient of a run has the shape of the first
        return -step_size.to(theta)[..., None] * direction(grad.direction, norm, shape)

    return rule


def momentum(rule, beta, nesterov=False):
    """Give a rule the sum m <- beta m + grad in the gradient's place, or grad + beta m with ``nesterov``.

    Heavy ball with ``constant``, Signum with ``steepest(step_size, math.inf)``. Bare of 1 - beta, as Muon has it.

    Raises
    ------
    ValueError
        Unless 0 <= beta < 1.
    """
    checks.rule(rule)
    checks.boolean("nesterov", nesterov)
    log_beta = _log(_check_beta("beta", beta))

    def averaged(memory, inner_rule, grad, theta, k):
        now = _entries(grad)
        memory["m"] = _add(_shifted(_remembered(memory, "m", k, now), log_beta), now)
        used = _add(_shifted(memory["m"], log_beta), now) if nesterov else memory["m"]
        scale = used[1].amax(-1)
        scale = torch.where(torch.isneginf(scale), 0.0, scale)
        return inner_rule(LogScaled(used[0] * (used[1] - scale[..., None]).exp(), scale), theta, k)

    return _remembering(lambda: partial(averaged, {}, fresh(rule)))


def muon(step_size, shape, beta=0.95, steps=5):
    """Muon: momentum in Nesterov's form, then its polar factor by Newton-Schulz steps, or exactly with ``steps=None``.

    Without weight decay and without a factor for the matrix's shape.
    """
    step_size = checks.positive("step_size", step_size)
    checks.any_norm("spectral", shape)
    if steps is None:
        return momentum(steepest(step_size, "spectral", shape), beta, nesterov=True)
    checks.integer("steps", steps)

    def rule(grad, theta, k):
        factor = newton_schulz(grad.direction.unflatten(-1, tuple(shape)), steps)
        return -step_size.to(theta)[..., None] * factor.flatten(-2)

    return momentum(rule, beta, nesterov=True)


def adam(step_size, betas=(0.9, 0.999), epsilon=1e-8, corrected=True):
    """Adam, with or without bias correction. Its limit epsilon = 0 is exact at any size of the gradient.

    An entry whose gradients have all been zero stays put.

    Raises
    ------
    ValueError
        If epsilon is below 0, a beta outside [0, 1), or there are not two of them.
    """
    step_size = checks.positive("step_size", step_size)
    if not isinstance(betas, list | tuple) or len(betas) != 2:
        raise ValueError(f"betas is {checks.shown(betas)}: give two, of the mean and of the squares")
    betas = [_check_beta("beta", beta) for beta in betas]
    remedy = "it is added to a length, so it must be a finite number from 0 on"
    log_epsilon = _log(checks.number("epsilon", epsilon, lambda epsilon: 0 <= epsilon < math.inf, remedy))
    checks.boolean("corrected", corrected)

    def rule(memory, grad, theta, k):
        now = _entries(grad)
        squares = torch.ones_like(now[0]), 2 * now[1]
        for name, new, beta in (("m", now, betas[0]), ("v", squares, betas[1])):
            old = _shifted(_remembered(memory, name, k, new), _log(beta))
            memory[name] = _add(old, _shifted(new, math.log1p(-beta)))
        (sign, log_mean), (_, log_square) = memory["m"], memory["v"]
        if corrected:
            log_mean, log_square = (
                log - math.log1p(-(beta ** (k + 1))) for log, beta in zip((log_mean, log_square), betas, strict=True)
            )
        divisor = torch.logaddexp(log_square / 2, torch.full_like(log_square, log_epsilon))
        ratio = torch.where(torch.isneginf(log_mean), 0.0, (log_mean - divisor).exp())
        return -step_size.to(theta)[..., None] * sign * ratio

    return _remembering(lambda: partial(rule, {}))


def weight_decay(rule, amount):
    """Give a rule decoupled weight decay: from its step at theta, subtract ``amount`` theta.

    AdamW with :func:`adam`; ``amount`` is the step size times the coefficient of the decay.

    Parameters
    ----------
    rule : callable
    amount : float or Tensor of batch shape
        Above zero.
    """
    checks.rule(rule)
    amount = checks.positive("amount", amount)
    fresh_rule = fresh(rule)

    def decayed(grad, theta, k):
        return fresh_rule(grad, theta, k) - amount.to(theta)[..., None] * theta

    decayed.fresh = partial(weight_decay, rule, amount)
    return decayed


def factored_run(problem, loss, keys, queries, rule, iterations, record=None):
    """Descend in the factors of W = K Q^T, for ``iterations`` steps of ``rule`` on vec(K) and vec(Q) together.

    Parameters
    ----------
    problem : lib.problem.Problem
        With queries.
    loss : lib.losses.Loss
    keys, queries : array_like, shape (..., d, r) and (..., e, r)
        The start of K and Q. Small ones, 1e-3 say, are those of which theory speaks; zero is a stationary point.
    rule, iterations, record
        As in :func:`lib.descent.run`.

    Returns
    -------
    Trajectory
        Of vec(W).
    """
    checks.problem(problem)
    checks.rule(rule)
    check_polyak_problem(rule)
    factors = checks.tensors(keys=(keys, "d", "r"), queries=(queries, "e", "r"))
    keys, queries = factors["keys"], factors["queries"]
    if problem.queries is None:
        raise ValueError("problem has a prompt: W = K Q^T needs one with queries")
    wanted = problem.keys.shape[-1], problem.queries.shape[-1]
    if (keys.shape[-2], queries.shape[-2]) != wanted or keys.shape[-1] != queries.shape[-1]:
        raise ValueError(
            f"keys have shape {tuple(keys.shape)}, queries {tuple(queries.shape)}: give (..., {wanted[0]}, r) and"
            f" (..., {wanted[1]}, r)"
        )
    rule = fresh(rule)
    rank, batch = keys.shape[-1], checks.broadcastable(problem=problem.batch_shape, keys=keys.shape[:-2])

    def parts(theta):
        first, second = theta.split([wanted[0] * rank, wanted[1] * rank], -1)
        return first.unflatten(-1, (wanted[0], rank)), second.unflatten(-1, (wanted[1], rank))

    def step(theta, k):
        first, second = parts(theta)
        slope, log_scale = grad((first @ second.mT).flatten(-2))
        slope = slope.unflatten(-1, wanted)
        both = torch.cat([(slope @ second).flatten(-2), (slope.mT @ first).flatten(-2)], -1)
        return apply_rule(rule, LogScaled(both, log_scale), theta, k)

    start = torch.cat([keys.flatten(-2), queries.flatten(-2)], -1).expand(*batch, -1)
    first, second = parts(start)
    grad = gradient_near(problem, loss, (first @ second.mT).flatten(-2))
    path = iterate(step, start, iterations, record)
    first, second = parts(path.theta)
    return Trajectory((first @ second.mT).flatten(-2), path.times)


def _remembering(make):
    """A rule with memory, as ``make`` makes it; its method ``fresh`` makes another one, with an empty memory."""
    rule = make()
    rule.fresh = partial(_remembering, make)
    return rule


def _check_beta(name, beta):
    return checks.number(name, beta, lambda beta: 0 <= beta < 1, "momentum is from 0 on and below 1")


def _log(number):
    return math.log(number) if number > 0 else -math.inf


def _entries(grad):
    """Sign and logarithm of the size of each entry of a gradient."""
    return grad.direction.sign(), grad.direction.abs().log() + grad.log_scale[..., None]


def _shifted(entries, log_factor):
    return entries[0], entries[1] + log_factor


def _add(first, second):
    """Sum of two arrays of numbers, each given by sign and logarithm."""
    top = torch.maximum(first[1], second[1])
    top = torch.where(torch.isneginf(top), 0.0, top)
    total = sum(sign * (log - top).exp() for sign, log in (first, second))
    return total.sign(), top + total.abs().log()


def _remembered(memory, name, k, like):
    """Memory of a rule; empty before step 0. ValueError if a step is left out or taken twice."""
    steps = memory.setdefault("steps", {})
    if k != 0 and steps.get(name) != k - 1:
        raise ValueError(
            f"a rule with memory takes step {k} after step {steps.get(name)}: begin with step 0, go on one by one, and"
            " give each run a rule of its own"
        )
    steps[name] = k
    return (torch.zeros_like(like[0]), torch.full_like(like[1], -math.inf)) if k == 0 else memory[name]
