"""Descent of many trials, eight at a time, and gradients and excess risks for descent that is not compiled.

Keys are (problems, n, T, d), queries (problems, n, e), or (problems, n, 0) with a prompt, scores (problems, n, T), and
theta is (d) or (d e). ``problem_index`` has, for each trial, the indices of its keys, queries and scores.
"""

import math
from collections import namedtuple
from typing import NamedTuple

import numpy as np
import torch
from numba import b1, f8, i8

from .. import rules
from .._compiled import compiled, in_threads
from ..logspace import LogScaled
from ..rules import CONSTANT, KINDS, POLYAK
from .arrays import lines, queries_of, rows_of
from .elementary import SMALLEST, length, powers
from .lanes import (
    Lanes,
    empty_lanes,
    empty_space,
    excess_lanes,
    gather,
    gather_bests,
    gather_inputs,
    gradient_lanes,
    logit_gradient_lanes,
    logits_lanes,
    odds_lanes,
    zero_excess,
)
from .llvm import LANES, add_dot
from .trial import LOSS

KEPT = 2**23  # numbers of problems that stay in the lanes from one gradient to the next


class Problems(NamedTuple):
    """Keys, queries and scores of many problems, where each trial's are, and the loss."""

    keys: f8[:, :, :, ::1]
    queries: f8[:, :, ::1]
    scores: f8[:, :, ::1]
    problem_index: i8[:, ::1]
    loss: LOSS


class Rule(NamedTuple):
    """A step rule: its place in `KINDS`, a step size for each trial, the norm that measures gradients, the decay.

    ``selected`` has the tokens of each trial for Polyak's rule, and none for others.
    """

    kind: i8
    sizes: f8[::1]
    dual: f8
    power: f8
    selected: i8[:, ::1]


class Record(NamedTuple):
    """Iterations to keep, in order, the iterates (kept, trials, D), and where each trial first is not finite, or 0."""

    kept: i8[::1]
    out: f8[:, :, ::1]
    failed: i8[::1]


# Theta, its mirror variable, the gradient's direction and its powers, (D, LANES); then (LANES): the direction's
# log_scales, step sizes, and steps.
State = namedtuple("State", "theta mirrored direction raised log_scales sizes steps")


@compiled()
def empty_state(size):
    """Arrays for thetas of this size."""
    wide = size, LANES
    vectors = np.empty(wide), np.empty(wide), np.empty(wide), np.empty(wide)
    return State(*vectors, np.empty(LANES), np.empty(LANES), np.empty(LANES))


@compiled()
def begin(thetas, sizes, norm, start, last, state):
    """Put the thetas and the step sizes of these trials into the lanes."""
    gather(thetas, np.arange(last), start, last, state.theta)
    powers(state.theta.reshape(-1), norm - 1.0, state.mirrored.reshape(-1))
    for lane in range(LANES):
        state.sizes[lane] = sizes[min(start + lane, last - 1)]


@compiled()
def keep(record, k, row, start, last, theta):
    """Keep the iterates if k is the next iteration to keep, in this row; return the row of the one after."""
    if k != record.kept[row]:
        return row
    for lane in range(min(LANES, last - start)):
        record.out[row, start + lane] = theta[:, lane]
    return row + 1


@compiled()
def decay(k, power):
    """(k + 1)^-power."""
    return 1.0 if power == 0.0 else (k + 1.0) ** -power


step_length = compiled()(rules.step_length)


@compiled()
def lengths_lanes(direction, norm, raised, lengths):
    """`length` of each lane."""
    lengths[:] = 0.0
    if norm == np.inf:
        for k in range(len(direction)):
            for lane in range(LANES):
                lengths[lane] = max(lengths[lane], abs(direction[k, lane]))
        return
    powers(direction.reshape(-1), norm, raised.reshape(-1))
    for k in range(len(direction)):
        for lane in range(LANES):
            lengths[lane] += abs(raised[k, lane])
    for lane in range(LANES):
        if SMALLEST < lengths[lane] < 1.0 / SMALLEST:
            lengths[lane] = math.sqrt(lengths[lane]) if norm == 2.0 else lengths[lane] ** (1.0 / norm)
        else:
            lengths[lane] = length(direction[:, lane], norm, raised[:, lane])


@compiled()
def take_step(state, rule, norm, k, excess):
    """Take step k of each lane; return the first lane that is no longer finite, or LANES."""
    theta, mirrored, direction, raised, log_scales, sizes, steps = state
    _, signs, logarithms = excess
    kind, factor = rule.kind, decay(k, rule.power)
    if kind != CONSTANT:
        lengths_lanes(direction, rule.dual, raised, steps)
    for lane in range(LANES):
        steps[lane] = step_length(
            kind, factor, sizes[lane], steps[lane], log_scales[lane], signs[0, lane], logarithms[0, lane]
        )
    squares, back = np.zeros(LANES), -steps
    for m in range(len(theta)):
        add_dot(mirrored, m, direction, m, 0, back, 0, 0, 1)
    powers(mirrored.reshape(-1), 1.0 / (norm - 1.0), theta.reshape(-1))
    add_dot(squares, 0, theta, 0, 1, theta, 0, 1, len(theta))
    for lane in range(LANES):
        if not squares[lane] < np.inf and not np.isfinite(theta[:, lane]).all():
            return lane
    return LANES


@compiled(Problems, f8[:, ::1], Rule, f8, Record, i8, i8)
def descend(problems, thetas, rule, norm, record, first, last):
    """Run the trials from first to before last."""
    lanes, space, state = empty_lanes(problems), empty_space(problems), empty_state(thetas.shape[1])
    keys, queries, scores, loss = lanes  # here, because a field in the loop has its references counted
    logits, weights, Wz, tops, sums = space
    excess = zero_excess(len(keys))
    for start in range(first, last, LANES):
        gather_inputs(problems, start, last, lanes)
        gather(problems.scores, problems.problem_index[2], start, last, scores)
        if rule.kind == POLYAK:
            gather_bests(scores, rule.selected, start, last, excess.bests)
        begin(thetas, rule.sizes, norm, start, last, state)
        row = 0
        for k in range(record.kept[-1] + 1):
            row = keep(record, k, row, start, last, state.theta)
            if k == record.kept[-1]:
                break
            logits_lanes(keys, queries, state.theta, Wz, logits)
            odds_lanes(logits, scores, tops, sums, weights)
            scales = logit_gradient_lanes(logits, scores, loss, tops, sums, weights)
            gradient_lanes(keys, queries, weights, scales, Wz, state.direction, state.log_scales)
            if rule.kind == POLYAK:
                excess_lanes(logits, scores, loss, weights, excess)
            lost = take_step(state, rule, norm, k, excess)
            if lost < LANES:
                record.failed[min(start + lost, last - 1)] = k + 1
                break


class Blocks(NamedTuple):
    """Keys, queries and scores of all blocks of trials, or of one, the lane last."""

    keys: f8[:, :, :, :, ::1]
    queries: f8[:, :, :, ::1]
    scores: f8[:, :, :, ::1]


@compiled(Problems, Blocks, b1, f8[:, ::1], f8[:, ::1], f8[::1])
def fill_gradients(problems, blocks, fresh, thetas, directions, log_scales):
    """Fill in gradients; the problems are put into the blocks if ``fresh``, and are there otherwise."""
    logits, weights, Wz, tops, sums = empty_space(problems)
    state, every, loss = empty_state(thetas.shape[1]), np.arange(len(thetas)), problems.loss
    for start in range(0, len(thetas), LANES):
        block = start // LANES % len(blocks.keys)
        keys, queries, scores = blocks.keys[block], blocks.queries[block], blocks.scores[block]
        if fresh:
            gather_inputs(problems, start, len(thetas), Lanes(keys, queries, scores, loss))
            gather(problems.scores, problems.problem_index[2], start, len(thetas), scores)
        gather(thetas, every, start, len(thetas), state.theta)
        logits_lanes(keys, queries, state.theta, Wz, logits)
        odds_lanes(logits, scores, tops, sums, weights)
        scales = logit_gradient_lanes(logits, scores, loss, tops, sums, weights)
        gradient_lanes(keys, queries, weights, scales, Wz, state.direction, state.log_scales)
        for lane in range(min(LANES, len(thetas) - start)):
            directions[start + lane], log_scales[start + lane] = state.direction[:, lane], state.log_scales[lane]


@compiled(Problems, i8[:, ::1], f8[:, ::1], f8[::1], f8[::1])
def fill_excesses(problems, selected, thetas, signs, logarithms):
    """Fill in the excess risks; ``selected`` has a row for each trial."""
    lanes, space, theta = empty_lanes(problems), empty_space(problems), np.empty((thetas.shape[1], LANES))
    excess, every, count = zero_excess(len(lanes.keys)), np.arange(len(thetas)), len(thetas)
    for start in range(0, count, LANES):
        gather_inputs(problems, start, count, lanes)
        gather(problems.scores, problems.problem_index[2], start, count, lanes.scores)
        gather_bests(lanes.scores, selected, start, count, excess.bests)
        gather(thetas, every, start, count, theta)
        logits_lanes(lanes.keys, lanes.queries, theta, space.Wz, space.logits)
        excess_lanes(space.logits, lanes.scores, lanes.loss, space.weights, excess)
        for lane in range(min(LANES, count - start)):
            signs[start + lane], logarithms[start + lane] = excess.signs[0, lane], excess.logarithms[0, lane]


def trajectories(problem, loss, start, rule, times, norm=2.0):
    """Descend as `lib.descent.run` does, from ``start`` (..., D); the iterates ``times``, (len(times), ..., D)."""
    batch = start.shape[:-1]
    return recorded(descend, start, times, norm, problems_of(problem, loss, batch), rule_of(rule, batch))


def gradients(problem, loss, batch):
    """`lib.logspace.gradient` as a function of theta, ``(*batch, D)``, into which the problem's fits."""
    problems = problems_of(problem, loss, batch)
    arrays, blocks = problems[:3], -(-problems.problem_index.shape[1] // LANES)
    fit = blocks * LANES * sum(array[0].size for array in arrays) <= KEPT
    blocks_of_problems = Blocks(*(np.empty((blocks if fit else 1, *array.shape[1:], LANES)) for array in arrays))
    fresh = True

    def at(theta):
        nonlocal fresh
        thetas = lines(theta)
        directions, log_scales = np.empty_like(thetas), np.empty(len(thetas))
        fill_gradients(problems, blocks_of_problems, fresh, thetas, directions, log_scales)
        fresh = not fit
        return LogScaled(torch.from_numpy(directions).view(theta.shape), torch.from_numpy(log_scales).view(batch))

    return at


def excesses(problem, loss, batch, selected):
    """`lib.logspace.excess_risk` as a function of theta, ``(*batch, D)``; ``selected`` has to fit, too."""
    problems, selected = problems_of(problem, loss, batch), lines(selected.expand(*batch, -1))

    def at(theta):
        thetas = lines(theta)
        signs, logarithms = np.empty(len(thetas)), np.empty(len(thetas))
        fill_excesses(problems, selected, thetas, signs, logarithms)
        return LogScaled(torch.from_numpy(signs).view(batch), torch.from_numpy(logarithms).view(batch))

    return at


def problems_of(problem, loss, batch):
    """The arrays of a problem for trials of this batch."""
    arrays, index = rows_of(batch, problem.keys, 3, queries_of(problem), 2, problem.scores, 2)
    return Problems(*arrays, index, loss.code)


def rule_of(rule, batch):
    """A step rule for trials of this batch, with zeros for one without a step size; ValueError for an unknown kind."""
    if rule.kind not in KINDS:
        raise ValueError(f"the rule's spec has kind {rule.kind!r}: give {', '.join(KINDS)}, or a rule without spec")
    sizes = np.zeros(()) if rule.step_size is None else rule.step_size.numpy()
    sizes = np.broadcast_to(sizes, batch).astype(float).ravel()
    selected = np.zeros((len(sizes), 0), dtype=np.int64)
    if rule.selected is not None:
        selected = lines(rule.selected.expand(*batch, -1))
    return Rule(KINDS.index(rule.kind), sizes, float(rule.dual), float(rule.power), selected)


def recorded(kernel, start, times, norm, problems, rule):
    """Run a kernel over the trials, in parts on torch's number of threads; a trial is the same on any of them."""
    thetas, trials = lines(start), math.prod(start.shape[:-1])
    out, failed = np.empty((len(times), trials, start.shape[-1])), np.zeros(trials, dtype=np.int64)
    record = Record(np.array(times, dtype=np.int64), out, failed)
    in_threads(trials, lambda *part: kernel(problems, thetas, rule, float(norm), record, *part), LANES)
    if failed.any():
        raise FloatingPointError(
            f"the iterate is no longer finite at iteration {failed[failed > 0].min()}: take a smaller step"
        )
    return torch.from_numpy(out).reshape(len(times), *start.shape)
