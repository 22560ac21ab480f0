"""Joint descent of head and theta, one behind the other in one vector, some trials side by side."""

import math
from typing import NamedTuple

import numpy as np
from numba import b1, f8, i8

from .._compiled import compiled
from .descent import Record, Rule, State, begin, keep, queries_of, recorded, rows_of, rule_of, take_step
from .elementary import exponentials
from .gradient import (
    LANES,
    LOSS,
    dots,
    fill_gradient,
    fill_logits,
    fill_slopes,
    multiples,
    side_by_side,
    space_for,
    to_one_scale,
)


class JointProblems(NamedTuple):
    """Keys, queries, tokens (problems, n, T, c) and labels of many problems, where each trial's are, and the loss."""

    keys: f8[:, :, :, ::1]
    queries: f8[:, :, ::1]
    tokens: f8[:, :, :, ::1]
    labels: f8[:, ::1]
    problem_index: i8[:, ::1]
    loss: LOSS


class JointRules(NamedTuple):
    """The rule of the head and that of theta, or twice the one by which they move together."""

    head: Rule
    theta: Rule
    together: b1


@compiled()
def fill_scores(tokens, labels, vector, scores):
    """gamma_it = Y_i v . x_it."""
    dots(tokens, vector.reshape(1, *vector.shape), scores)
    for i in range(len(scores)):
        for t in range(scores.shape[1]):
            for lane in range(scores.shape[2]):
                scores[i, t, lane] *= labels[i, lane]


@compiled()
def fill_features(tokens, labels, space, features):
    """Y_i r_i, what attention passes on."""
    logits, odds, totals, highest = space.logits, space.odds, space.totals, space.slopes
    inputs, count, lanes = logits.shape
    highest[:], totals[:] = -np.inf, 0.0
    for i in range(inputs):
        for t in range(count):
            for lane in range(lanes):
                higher = logits[i, t, lane] > highest[i, lane]
                highest[i, lane] = logits[i, t, lane] if higher else highest[i, lane]
        for t in range(count):
            for lane in range(lanes):
                odds[i, t, lane] = logits[i, t, lane] - highest[i, lane]
    exponentials(odds.reshape(-1))
    for i in range(inputs):
        for t in range(count):
            for lane in range(lanes):
                totals[i, lane] += odds[i, t, lane]
    multiples(odds, tokens, features)
    for i in range(inputs):
        for k in range(features.shape[1]):
            for lane in range(lanes):
                features[i, k, lane] *= labels[i, lane] / totals[i, lane]


@compiled()
def head_gradient(features, loss, vector, space, direction, log_scales):
    """Fill in the direction of the gradient in the head and its logarithm, as `lib.joint.head_gradient` does."""
    inputs, size, lanes = features.shape
    space.pulls[:], space.smalls[:], space.shifts[:] = 0.0, 1.0, 0.0
    all_features, one = features.reshape(1, inputs, size, lanes), (1, inputs, lanes)
    dots(all_features, vector.reshape(1, size, lanes), space.bests.reshape(one))
    fill_slopes(loss, space)
    inverse = to_one_scale(space.slopes.reshape(inputs, 1, lanes), space.scales, log_scales)
    for i in range(inputs):
        for lane in range(lanes):
            space.slopes[i, lane] *= -inverse[lane]
    multiples(space.slopes.reshape(one), all_features, direction.reshape(1, size, lanes))


@compiled()
def part_of(both, sizes, first, last):
    """The state of a part of the vectors, with its own scales and steps."""
    vectors = both.theta[first:last], both.mirrored[first:last], both.direction[first:last], both.raised[first:last]
    log_scales, steps = np.empty_like(sizes), np.empty_like(sizes)
    return State(*vectors, log_scales, sizes.copy(), steps, both.signs, both.logarithms)


@compiled()
def scale_together(both, head, theta):
    """Give the two parts of each lane's direction one scale, the larger one."""
    for lane in range(len(both.log_scales)):
        log_scale = max(head.log_scales[lane], theta.log_scales[lane])
        if log_scale > -np.inf:
            head.direction[:, lane] *= math.exp(head.log_scales[lane] - log_scale)
            theta.direction[:, lane] *= math.exp(theta.log_scales[lane] - log_scale)
        both.log_scales[lane] = log_scale


@compiled(JointProblems, f8[:, ::1], JointRules, f8, Record, i8, i8)
def descend_jointly(problems, thetas, rules, norm, record, first, last):
    """Run the trials from first to before last; thetas have the head before theta."""
    cut, size, loss = problems.tokens.shape[3], thetas.shape[1], problems.loss
    for start in range(first, last, LANES):
        end = min(start + LANES, last)
        index = problems.problem_index[:, start:end]
        keys, queries = side_by_side(problems.keys, index[0]), side_by_side(problems.queries, index[1])
        tokens, labels = side_by_side(problems.tokens, index[2]), side_by_side(problems.labels, index[3])
        space, both = space_for(keys), begin(thetas[start:end], rules.theta.sizes[start:end], norm)
        head = part_of(both, rules.head.sizes[start:end], 0, cut)
        theta = part_of(both, both.sizes, cut, size)
        scores, features = np.empty_like(space.logits), np.empty((len(keys), cut, end - start))
        row = 0
        for k in range(record.kept[-1] + 1):
            row = keep(record, k, row, start, both.theta)
            if k == record.kept[-1]:
                break
            fill_logits(keys, queries, theta.theta, space)
            fill_features(tokens, labels, space, features)
            head_gradient(features, loss, head.theta, space, head.direction, head.log_scales)
            fill_scores(tokens, labels, head.theta, scores)
            fill_gradient(keys, queries, scores, loss, space, theta.direction, theta.log_scales)
            if rules.together:
                scale_together(both, head, theta)
                lost = take_step(both, rules.theta, norm, k)
            else:
                lost = take_step(head, rules.head, norm, k)
                lost = min(lost, take_step(theta, rules.theta, norm, k))
            if lost < end - start:
                record.failed[start + lost] = k + 1
                break


def joint_trajectories(problem, loss, start, head_rule, rule, times, norm=2.0):
    """Descend as `lib.joint.run` does, head and theta one behind the other; by one rule if the head has none."""
    batch = start.shape[:-1]
    rules = JointRules(rule_of(head_rule or rule, batch), rule_of(rule, batch), head_rule is None)
    return recorded(descend_jointly, start, times, norm, joint_problems_of(problem, loss.code, batch), rules)


def joint_problems_of(problem, loss, batch):
    """The arrays of a joint problem for trials of this batch."""
    keys, queries, tokens, labels = problem.keys, queries_of(problem), problem.tokens, problem.labels
    arrays, index = rows_of(batch, keys, 3, queries, 2, tokens, 3, labels, 1)
    return JointProblems(*arrays, index, loss)
