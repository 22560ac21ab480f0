"""The gradient of one trial, which the flow and the joint path in the plane take: keys (n, T, d), scores (n, T).

Queries are (n, e), or (n, 0) with a prompt; theta is (d) or (d e).
"""

import math
from collections import namedtuple

import numpy as np
from numba import f8, i8, types

from .._compiled import compiled
from .arrays import queries_of
from .elementary import SMALLEST, exp_nonpositive, length, powers
from .losses import slope_at

ROOT = 2.0**-26  # the square root of a rounding error
LOSS = types.Tuple([i8, f8])
TRIAL = f8[:, :, ::1], f8[:, ::1], f8[:, ::1], i8, f8

Trial = namedtuple("Trial", "keys queries scores loss")
Workspace = namedtuple("Workspace", "logits weights scales Wz")  # (n, T), (n, T), (n), (d)


@compiled()
def space_of(keys):
    """Arrays for the gradient of a trial with these keys."""
    inputs, tokens, size = keys.shape
    return Workspace(np.empty((inputs, tokens)), np.empty((inputs, tokens)), np.empty(inputs), np.empty(size))


@compiled()
def fill_logits(keys, queries, theta, space):
    """A theta: keys times theta with a prompt, times W z_i with queries."""
    inputs, tokens, size = keys.shape
    logits, Wz, width = space.logits, space.Wz, queries.shape[1]
    for i in range(inputs):
        for k in range(size):
            entry = 0.0 if width else theta[k]
            for j in range(width):
                entry += theta[k * width + j] * queries[i, j]
            Wz[k] = entry
        for t in range(tokens):
            logit = 0.0
            for k in range(size):
                logit += keys[i, t, k] * Wz[k]
            logits[i, t] = logit


@compiled()
def pull_back(trial, space, direction):
    """A^T weights."""
    keys, queries, weights, Wz = trial.keys, trial.queries, space.weights, space.Wz
    inputs, tokens, size = keys.shape
    direction[:] = 0.0
    for i in range(inputs):
        if queries.shape[1] == 0:
            for t in range(tokens):
                for k in range(size):
                    direction[k] += weights[i, t] * keys[i, t, k]
        else:
            Wz[:] = 0.0
            for t in range(tokens):
                for k in range(size):
                    Wz[k] += weights[i, t] * keys[i, t, k]
            for k in range(size):
                for j in range(queries.shape[1]):
                    direction[k * queries.shape[1] + j] += Wz[k] * queries[i, j]


@compiled()
def logit_gradient(i, logits, scores, loss, weights):
    """Fill in loss' a_t (gamma_t - gamma . a) of input i up to a factor e^scale; return scale, -inf if all tokens tie.

    With gap_t = gamma_t - gamma_b, b the token with the largest logit, and drift = sum_t a_t gap_t the weight is
    -slope a_t (gap_t - drift); that of b is minus the sum of the others.
    """
    tokens, top = logits.shape[1], 0
    for t in range(1, tokens):
        if logits[i, t] > logits[i, top]:
            top = t
    top_logit, top_score = logits[i, top], scores[i, top]
    total, drift = 0.0, 0.0
    for t in range(tokens):
        odds = exp_nonpositive(logits[i, t] - top_logit)
        total += odds
        drift += odds * (scores[i, t] - top_score)
        weights[i, t] = odds
    if abs(drift) < SMALLEST:
        one_lane = (*logits.shape, 1)
        return logit_gradient_underflow(
            i, 0, top, logits.reshape(one_lane), scores.reshape(one_lane), loss, weights.reshape(one_lane)
        )
    drift /= total
    slope, log_slope = slope_at(loss, top_score, drift, 0.0, 1.0)
    others, factor = 0.0, -slope / total
    for t in range(tokens):
        weights[i, t] *= factor * (scores[i, t] - top_score - drift)
        others += weights[i, t]
    weights[i, top] -= others
    return log_slope


@compiled()
def logit_gradient_underflow(i, lane, top, logits, scores, loss, weights):
    """As `logit_gradient`, where little attention is left to tokens with a gap: its logarithm, shift, is taken out.

    drift is pull e^shift, and a token that ties with the top one, whose attention may be larger, feels the pull.
    The last dimension of the arrays is that of the lanes.
    """
    tokens, shift = logits.shape[1], -np.inf
    top_logit, top_score = logits[i, top, lane], scores[i, top, lane]
    for t in range(tokens):
        if scores[i, t, lane] != top_score:
            shift = max(shift, logits[i, t, lane] - top_logit)
    if shift == -np.inf:
        weights[i, :, lane] = 0.0
        return shift
    small, total, pull = exp_nonpositive(shift), 0.0, 0.0
    for t in range(tokens):
        gap = scores[i, t, lane] - top_score
        weight = exp_nonpositive(logits[i, t, lane] - top_logit - (0.0 if gap == 0.0 else shift))
        total += weight if gap == 0.0 else small * weight
        pull += gap * weight
        weights[i, t, lane] = weight
    pull /= total
    slope, log_slope = slope_at(loss, top_score, pull, shift, small)
    others, factor = 0.0, -slope / total
    for t in range(tokens):
        gap = scores[i, t, lane] - top_score
        weight = weights[i, t, lane] * factor * (-pull if gap == 0.0 else gap - small * pull)
        others += 0.0 if t == top else weight
        weights[i, t, lane] = weight
    weights[i, top, lane] = -others
    return shift + log_slope


@compiled()
def gradient(trial, space, direction):
    """Fill in the direction of the gradient at these logits; return its log_scale, as `lib.logspace.gradient` does."""
    weights, scales = space.weights, space.scales
    inputs, tokens = weights.shape
    for i in range(inputs):
        scales[i] = logit_gradient(i, space.logits, trial.scores, trial.loss, weights)
    scale, largest = -np.inf, 0.0
    for i in range(inputs):
        scale = max(scale, scales[i])
    for i in range(inputs):
        factor = 1.0 if scales[i] == scale else exp_nonpositive(scales[i] - scale)
        for t in range(tokens):
            weights[i, t] *= factor
            largest = max(largest, abs(weights[i, t]))
    if largest == 0.0:
        direction[:] = 0.0
        return -np.inf
    pull_back(trial, space, direction)
    inverse = 1.0 / largest
    for k in range(len(direction)):
        direction[k] *= inverse
    return scale + math.log(largest / inputs)


@compiled()
def fill_velocity(trial, state, norm, out):
    """Fill in the velocity of mirror variable and log time over sigma, as :mod:`lib.flow` states it."""
    space, theta, direction = space_of(trial.keys), np.empty(len(state) - 1), np.empty(len(state) - 1)
    powers(state[:-1], 1.0 / (norm - 1.0), theta)
    fill_logits(trial.keys, trial.queries, theta, space)
    log_scale = gradient(trial, space, direction)
    size = length(direction, 2.0, np.empty(len(direction)))
    log_velocity = state[-1] + log_scale + math.log(size) if size > 0.0 else -np.inf
    small = math.exp(-abs(log_velocity))
    share, rest = (1.0, small) if log_velocity > 0.0 else (small, 1.0)
    for k in range(len(direction)):
        out[k] = -share / (1.0 + small) * direction[k] / (size if size > 0.0 else 1.0)
    out[-1] = rest / (1.0 + small)


@compiled(*TRIAL, f8[::1], f8, f8[::1])
def velocity_at(keys, queries, scores, kind, centre, state, norm, out):
    """Fill in the velocity; numba takes arrays in a third of the time of a named tuple."""
    fill_velocity(Trial(keys, queries, scores, (kind, centre)), state, norm, out)


@compiled(*TRIAL, f8[::1], f8, f8[:, ::1])
def velocity_slopes_at(keys, queries, scores, kind, centre, state, norm, out):
    """Fill in the derivatives of the velocity in the state, by differences: row j has those in entry j."""
    trial = Trial(keys, queries, scores, (kind, centre))
    here, moved = np.empty(len(state)), state.copy()
    fill_velocity(trial, state, norm, here)
    for j in range(len(state)):
        moved[j] += ROOT * max(abs(state[j]), 1.0)
        width = moved[j] - state[j]
        fill_velocity(trial, moved, norm, out[j])
        for k in range(len(state)):
            out[j, k] = (out[j, k] - here[k]) / width
        moved[j] = state[j]


def velocity(problem, loss, norm=2.0):
    """The right-hand side of `lib.flow.log_time_flow`, for a problem without batch, and its derivatives."""
    arrays = problem.keys, queries_of(problem), problem.scores
    trial = *(np.ascontiguousarray(array.numpy()) for array in arrays), *loss.code

    def speed(_, state):
        out = np.empty_like(state)
        velocity_at(*trial, state, float(norm), out)
        return out

    def slopes(_, state):
        out = np.empty((len(state), len(state)))
        velocity_slopes_at(*trial, state, float(norm), out)
        return out.T

    return speed, slopes
