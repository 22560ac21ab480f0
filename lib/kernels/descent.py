"""Descent of many trials, some side by side, and gradients and excess risks for descent that is not compiled.

Keys are (problems, n, T, d), queries (problems, n, e), or (problems, n, 0) with a prompt, scores (problems, n, T), and
theta is (d) or (d e). ``problem_index`` has, for each trial, the indices of its keys, queries and scores.
"""

import math
from collections import namedtuple
from typing import NamedTuple

import numpy as np
import torch
from numba import f8, i8

from .. import rules
from .._compiled import compiled, in_threads
from ..logspace import LogScaled
from ..rules import CONSTANT, KINDS, POLYAK
from .elementary import fill_lengths, powers
from .gradient import LANES, LOSS, fill_excess, fill_gradient, fill_logits, side_by_side, space_for


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


# Theta, its mirror variable, the gradient's direction and its powers, (D, lanes); then (lanes): the direction's
# log_scales, step sizes, steps, and sign and logarithm of the excess risk.
State = namedtuple("State", "theta mirrored direction raised log_scales sizes steps signs logarithms")


@compiled()
def begin(thetas, sizes, norm):
    """The state of trials side by side at their starts (lanes, D), with these step sizes."""
    theta = side_by_side(thetas, np.arange(len(thetas)))
    mirrored, direction, raised = np.empty_like(theta), np.empty_like(theta), np.empty_like(theta)
    powers(theta.reshape(-1), norm - 1.0, mirrored.reshape(-1))
    numbers = np.zeros_like(sizes), sizes.copy(), np.zeros_like(sizes), np.zeros_like(sizes), np.zeros_like(sizes)
    return State(theta, mirrored, direction, raised, *numbers)


@compiled()
def keep(record, k, row, start, theta):
    """Keep the iterates if k is the next iteration to keep, in this row; return the row of the one after."""
    if k != record.kept[row]:
        return row
    for lane in range(theta.shape[1]):
        record.out[row, start + lane] = theta[:, lane]
    return row + 1


@compiled()
def decay(k, power):
    """(k + 1)^-power."""
    return 1.0 if power == 0.0 else (k + 1.0) ** -power


step_length = compiled()(rules.step_length)


@compiled()
def take_step(state, rule, norm, k):
    """Take step k of each lane; return the first lane that is no longer finite, or how many there are."""
    theta, mirrored, direction, raised, log_scales, sizes, steps, signs, logarithms = state
    kind, factor, lanes = rule.kind, decay(k, rule.power), len(steps)
    if kind != CONSTANT:
        fill_lengths(direction, rule.dual, raised, steps)
    for lane in range(lanes):
        steps[lane] = step_length(
            kind, factor, sizes[lane], steps[lane], log_scales[lane], signs[lane], logarithms[lane]
        )
    for m in range(len(theta)):
        for lane in range(lanes):
            mirrored[m, lane] -= steps[lane] * direction[m, lane]
    powers(mirrored.reshape(-1), 1.0 / (norm - 1.0), theta.reshape(-1))
    if not np.isfinite(theta).all():
        for lane in range(lanes):
            if not np.isfinite(theta[:, lane]).all():
                return lane
    return lanes


@compiled(Problems, f8[:, ::1], Rule, f8, Record, i8, i8)
def descend(problems, thetas, rule, norm, record, first, last):
    """Run the trials from first to before last."""
    loss, kind = problems.loss, rule.kind  # here, because a field in the loop has its references counted
    for start in range(first, last, LANES):
        end = min(start + LANES, last)
        index = problems.problem_index[:, start:end]
        keys, queries = side_by_side(problems.keys, index[0]), side_by_side(problems.queries, index[1])
        scores = side_by_side(problems.scores, index[2])
        space, state = space_for(keys), begin(thetas[start:end], rule.sizes[start:end], norm)
        bests = best_scores(scores, rule.selected[start:end]) if kind == POLYAK else space.bests
        row = 0
        for k in range(record.kept[-1] + 1):
            row = keep(record, k, row, start, state.theta)
            if k == record.kept[-1]:
                break
            fill_logits(keys, queries, state.theta, space)
            fill_gradient(keys, queries, scores, loss, space, state.direction, state.log_scales)
            if kind == POLYAK:
                fill_excess(scores, loss, bests, space, state.signs, state.logarithms)
            lost = take_step(state, rule, norm, k)
            if lost < end - start:
                record.failed[start + lost] = k + 1
                break


@compiled()
def best_scores(scores, selected):
    """Scores (n, lanes) of the selected tokens (lanes, n)."""
    bests = np.empty((scores.shape[0], scores.shape[2]))
    for i in range(len(bests)):
        for lane in range(len(selected)):
            bests[i, lane] = scores[i, selected[lane, i], lane]
    return bests


@compiled(Problems, f8[:, ::1], f8[:, ::1], f8[::1])
def fill_gradients(problems, thetas, directions, log_scales):
    """Fill in the gradients of all trials."""
    for start in range(0, len(thetas), LANES):
        end = min(start + LANES, len(thetas))
        index = problems.problem_index[:, start:end]
        keys, queries = side_by_side(problems.keys, index[0]), side_by_side(problems.queries, index[1])
        space, theta = space_for(keys), side_by_side(thetas, np.arange(start, end))
        direction, logarithms = np.empty_like(theta), log_scales[start:end]
        fill_logits(keys, queries, theta, space)
        scores = side_by_side(problems.scores, index[2])
        fill_gradient(keys, queries, scores, problems.loss, space, direction, logarithms)
        for lane in range(end - start):
            directions[start + lane] = direction[:, lane]


@compiled(Problems, i8[:, ::1], f8[:, ::1], f8[::1], f8[::1])
def fill_excesses(problems, selected, thetas, signs, logarithms):
    """Fill in the excess risks; ``selected`` has a row for each trial."""
    for start in range(0, len(thetas), LANES):
        end = min(start + LANES, len(thetas))
        index = problems.problem_index[:, start:end]
        keys, queries = side_by_side(problems.keys, index[0]), side_by_side(problems.queries, index[1])
        space, scores = space_for(keys), side_by_side(problems.scores, index[2])
        fill_logits(keys, queries, side_by_side(thetas, np.arange(start, end)), space)
        bests = best_scores(scores, selected[start:end])
        fill_excess(scores, problems.loss, bests, space, signs[start:end], logarithms[start:end])


def trajectories(problem, loss, start, rule, times, norm=2.0):
    """Descend as `lib.descent.run` does, from ``start`` (..., D); the iterates ``times``, (len(times), ..., D)."""
    batch = start.shape[:-1]
    return recorded(descend, start, times, norm, problems_of(problem, loss, batch), rule_of(rule, batch))


def gradients(problem, loss, batch):
    """`lib.logspace.gradient` as a function of theta, ``(*batch, D)``, into which the problem's fits."""
    problems = problems_of(problem, loss, batch)

    def at(theta):
        thetas = lines(theta)
        directions, log_scales = np.empty_like(thetas), np.empty(len(thetas))
        fill_gradients(problems, thetas, directions, log_scales)
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


def queries_of(problem):
    """Queries, (..., n, 0) with a prompt."""
    return problem.keys.new_empty(problem.keys.shape[-3], 0) if problem.queries is None else problem.queries


def lines(array):
    """All vectors of an array, one below the other."""
    return np.ascontiguousarray(array.reshape(-1, array.shape[-1]).numpy())


def rows_of(batch, *arrays):
    """Arrays, each with how many dimensions are its own, with one leading dimension; for each trial their indices."""
    flat, index = [], []
    for array, trailing in zip(arrays[::2], arrays[1::2], strict=True):
        lead = array.shape[: array.ndim - trailing]
        flat.append(np.ascontiguousarray(array.numpy()).reshape(math.prod(lead), *array.shape[array.ndim - trailing :]))
        index.append(torch.arange(math.prod(lead)).reshape(lead).expand(batch).reshape(-1))
    return flat, torch.stack(index).numpy()


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
