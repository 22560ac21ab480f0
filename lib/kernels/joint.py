"""Joint descent of head and theta, one behind the other in one vector, eight trials at a time."""

import math
from collections import namedtuple
from typing import NamedTuple

import numpy as np
from numba import b1, f8, i8

from .._compiled import compiled
from .arrays import queries_of, rows_of
from .descent import Record, Rule, State, begin, empty_state, keep, recorded, rule_of, take_step
from .lanes import (
    dots,
    empty_lanes,
    empty_space,
    gather,
    gather_inputs,
    gradient_lanes,
    logit_gradient_lanes,
    logits_lanes,
    multiples,
    odds_lanes,
    slopes_lanes,
    to_one_scale,
    zero_excess,
)
from .llvm import LANES
from .trial import LOSS


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


# Tokens (n, T, c), labels (n), features Y_i r_i (n, c), which attention passes on; then (n); the lane last.
HeadWorkspace = namedtuple("HeadWorkspace", "tokens labels features margins zeros slopes log_slopes")


@compiled()
def empty_head(problems):
    """Arrays for the heads of a block of these problems."""
    _, inputs, count, size = problems.tokens.shape
    own = inputs, LANES
    return HeadWorkspace(
        np.empty((inputs, count, size, LANES)), np.empty(own), np.empty((inputs, size, LANES)),
        np.empty(own), np.zeros(own), np.empty(own), np.empty(own),
    )  # fmt: skip


@compiled()
def fill_scores(head, vector, scores):
    """gamma_it = Y_i v . x_it."""
    labels = head.labels
    dots(head.tokens, vector.reshape(1, len(vector), LANES), scores)
    for i in range(len(scores)):
        for t in range(scores.shape[1]):
            for lane in range(LANES):
                scores[i, t, lane] *= labels[i, lane]


@compiled()
def fill_features(head, odds, totals):
    """Y_i r_i, what attention passes on."""
    features, labels = head.features, head.labels
    multiples(odds, head.tokens, features)
    for i in range(len(features)):
        for k in range(features.shape[1]):
            for lane in range(LANES):
                features[i, k, lane] *= labels[i, lane] / totals[i, lane]


@compiled()
def head_gradient(head, loss, vector, direction, log_scales):
    """Fill in the direction of the gradient in the head and its logarithm, as `lib.joint.head_gradient` does."""
    features, margins, slopes, log_slopes = head.features, head.margins, head.slopes, head.log_slopes
    inputs, size, _ = features.shape
    dots(features.reshape(1, inputs, size, LANES), vector.reshape(1, size, LANES), margins.reshape(1, inputs, LANES))
    slopes_lanes(loss, margins.reshape(-1), head.zeros.reshape(-1), slopes.reshape(-1), log_slopes.reshape(-1))
    inverse = to_one_scale(slopes.reshape(inputs, 1, LANES), log_slopes, log_scales)
    for i in range(inputs):
        for lane in range(LANES):
            slopes[i, lane] *= -inverse[lane]
    multiples(
        slopes.reshape(1, inputs, LANES), features.reshape(1, inputs, size, LANES), direction.reshape(1, size, LANES)
    )


@compiled()
def part_of(both, first, last):
    """The state of a part of the vectors, with its own scales and steps."""
    return State(
        both.theta[first:last], both.mirrored[first:last], both.direction[first:last], both.raised[first:last],
        np.empty(LANES), np.empty(LANES), np.empty(LANES),
    )  # fmt: skip


@compiled()
def scale_together(both, head, theta):
    """Give the two parts of each lane's direction one scale, the larger one."""
    for lane in range(LANES):
        log_scale = max(head.log_scales[lane], theta.log_scales[lane])
        if log_scale > -np.inf:
            head.direction[:, lane] *= math.exp(head.log_scales[lane] - log_scale)
            theta.direction[:, lane] *= math.exp(theta.log_scales[lane] - log_scale)
        both.log_scales[lane] = log_scale


@compiled(JointProblems, f8[:, ::1], JointRules, f8, Record, i8, i8)
def descend_jointly(problems, thetas, rules, norm, record, first, last):
    """Run the trials from first to before last; thetas have the head before theta."""
    lanes, space, head_space = empty_lanes(problems), empty_space(problems), empty_head(problems)
    cut, size, nothing = problems.tokens.shape[3], thetas.shape[1], zero_excess(1)
    keys, queries, scores, loss = lanes  # here, because a field in the loop has its references counted
    logits, weights, Wz, tops, sums = space
    both = empty_state(size)
    head, theta = part_of(both, 0, cut), part_of(both, cut, size)
    for start in range(first, last, LANES):
        gather_inputs(problems, start, last, lanes)
        gather(problems.tokens, problems.problem_index[2], start, last, head_space.tokens)
        gather(problems.labels, problems.problem_index[3], start, last, head_space.labels)
        begin(thetas, rules.theta.sizes, norm, start, last, both)
        theta.sizes[:] = both.sizes
        for lane in range(LANES):
            head.sizes[lane] = rules.head.sizes[min(start + lane, last - 1)]
        row = 0
        for k in range(record.kept[-1] + 1):
            row = keep(record, k, row, start, last, both.theta)
            if k == record.kept[-1]:
                break
            logits_lanes(keys, queries, theta.theta, Wz, logits)
            fill_scores(head_space, head.theta, scores)
            odds_lanes(logits, scores, tops, sums, weights)
            fill_features(head_space, weights, sums[1])
            head_gradient(head_space, loss, head.theta, head.direction, head.log_scales)
            scales = logit_gradient_lanes(logits, scores, loss, tops, sums, weights)
            gradient_lanes(keys, queries, weights, scales, Wz, theta.direction, theta.log_scales)
            if rules.together:
                scale_together(both, head, theta)
                lost = take_step(both, rules.theta, norm, k, nothing)
            else:
                lost = take_step(head, rules.head, norm, k, nothing)
                lost = min(lost, take_step(theta, rules.theta, norm, k, nothing))
            if lost < LANES:
                record.failed[min(start + lost, last - 1)] = k + 1
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
