"""Gradients and excess risks of eight trials side by side, one in each SIMD lane.

The number of the trial is the last dimension, of fixed length, and no sum runs over it: the compiler puts trials side
by side into SIMD registers, and a trial has the same bits whichever others are in the other lanes. Functions do what
those of :mod:`lib.kernels.trial` do, where their names are alike.
"""

import math
from collections import namedtuple

import numpy as np

from .._compiled import compiled
from .elementary import SMALLEST, exp_nonpositive, exponentials
from .llvm import LANES, add_dot
from .losses import LOGISTIC, STEEP, log_change, slope_at
from .trial import logit_gradient_underflow

Lanes = namedtuple("Lanes", "keys queries scores loss")  # (n, T, d), (n, e), (n, T); the lane last, here and below
# Logits and weights (n, T), Wz (n, d), tops (n): tokens with the largest logits. Sums (5, n): their scores, totals of
# odds, drifts, which are totals of odds times gaps, slopes, and the logarithms taken out of weights.
Workspace = namedtuple("Workspace", "logits weights Wz tops sums")
# Scores of selected tokens, signs and logarithms of what margins lack of them, all (n); those of the risk come first.
Excess = namedtuple("Excess", "bests signs logarithms")


@compiled()
def empty_lanes(problems):
    """Arrays for a block of these problems."""
    _, inputs, tokens, size = problems.keys.shape
    keys, queries = np.empty((inputs, tokens, size, LANES)), np.empty((*problems.queries.shape[1:], LANES))
    return Lanes(keys, queries, np.empty((inputs, tokens, LANES)), problems.loss)


@compiled()
def empty_space(problems):
    """Arrays for the gradient of a block of these problems."""
    _, inputs, tokens, size = problems.keys.shape
    logits, weights = np.empty((inputs, tokens, LANES)), np.empty((inputs, tokens, LANES))
    tops, sums = np.empty((inputs, LANES), np.int64), np.empty((5, inputs, LANES))
    return Workspace(logits, weights, np.empty((inputs, size, LANES)), tops, sums)


@compiled()
def zero_excess(inputs):
    """Arrays for excess risks of so many inputs."""
    return Excess(np.zeros((inputs, LANES)), np.zeros((inputs, LANES)), np.zeros((inputs, LANES)))


@compiled()
def gather(rows, index, start, last, out):
    """Put rows[index[start:last]] into the lanes, and the last of them into the lanes that are left."""
    for lane in range(LANES):
        out[..., lane] = rows[index[min(start + lane, last - 1)]]


@compiled()
def gather_inputs(problems, start, last, lanes):
    """Put the keys and queries of these trials into the lanes."""
    gather(problems.keys, problems.problem_index[0], start, last, lanes.keys)
    gather(problems.queries, problems.problem_index[1], start, last, lanes.queries)


@compiled()
def gather_bests(scores, selected, start, last, bests):
    """Put the scores of the selected tokens into the lanes."""
    for lane in range(LANES):
        for i in range(len(bests)):
            bests[i, lane] = scores[i, selected[min(start + lane, last - 1), i], lane]


@compiled()
def dots(rows, vectors, out):
    """rows (n, m, k, LANES) times vectors (n, k, LANES), or (1, k, LANES) for all."""
    inputs, count, size, _ = rows.shape
    out[:] = 0.0
    for i in range(inputs):
        first = i * size if len(vectors) > 1 else 0
        for t in range(i * count, (i + 1) * count):
            add_dot(out, t, rows, t * size, 1, vectors, first, 1, size)


@compiled()
def multiples(factors, rows, out):
    """Sums over m of factors (n, m, LANES) times rows (n, m, k, LANES), one for each n, or one for all."""
    inputs, count, size, _ = rows.shape
    out[:] = 0.0
    for i in range(inputs):
        first = i * size if len(out) > 1 else 0
        for k in range(size):
            add_dot(out, first + k, rows, i * count * size + k, size, factors, i * count, 1, count)


@compiled()
def logits_lanes(keys, queries, theta, Wz, logits):
    """A theta."""
    inputs, _, size, _ = keys.shape
    width = queries.shape[1]
    if width == 0:
        dots(keys, theta.reshape(1, size, LANES), logits)
        return
    Wz[:] = 0.0
    for i in range(inputs):
        for k in range(size):
            add_dot(Wz, i * size + k, theta, k * width, 1, queries, i * width, 1, width)
    dots(keys, Wz, logits)


@compiled()
def pull_back_lanes(keys, queries, weights, Wz, direction):
    """A^T weights."""
    inputs, _, size, _ = keys.shape
    width = queries.shape[1]
    if width == 0:
        multiples(weights, keys, direction.reshape(1, size, LANES))
        return
    multiples(weights, keys, Wz)
    direction[:] = 0.0
    for k in range(size):
        for j in range(width):
            add_dot(direction, k * width + j, Wz, k, size, queries, j, width, inputs)


@compiled()
def odds_lanes(logits, scores, tops, sums, odds):
    """Fill in tops, their scores, all odds against them, totals and drifts."""
    inputs, tokens, _ = logits.shape
    top_scores, totals, drifts = sums[0], sums[1], sums[2]
    for i in range(inputs):
        top, top_score, top_logit = tops[i], top_scores[i], totals[i]
        for lane in range(LANES):
            top[lane], top_score[lane], top_logit[lane] = 0, scores[i, 0, lane], logits[i, 0, lane]
        for t in range(1, tokens):
            for lane in range(LANES):
                higher = logits[i, t, lane] > top_logit[lane]
                top[lane] = t if higher else top[lane]
                top_score[lane] = scores[i, t, lane] if higher else top_score[lane]
                top_logit[lane] = logits[i, t, lane] if higher else top_logit[lane]
        for t in range(tokens):
            for lane in range(LANES):
                odds[i, t, lane] = logits[i, t, lane] - top_logit[lane]
    exponentials(odds.reshape(-1))
    totals[:], drifts[:] = 0.0, 0.0
    for i in range(inputs):
        for t in range(tokens):
            for lane in range(LANES):
                totals[i, lane] += odds[i, t, lane]
                drifts[i, lane] += odds[i, t, lane] * (scores[i, t, lane] - top_scores[i, lane])


@compiled()
def slopes_lanes(loss, top_scores, pulls, slopes, log_slopes):
    """`slope_at` for arrays of the margins top_score + pull; that of the logistic loss without calls of a library."""
    log_slopes[:] = 0.0
    if loss[0] == LOGISTIC:
        for m in range(len(slopes)):
            slopes[m] = -abs(top_scores[m] + pulls[m])
        exponentials(slopes)
        for m in range(len(slopes)):
            slopes[m] = (slopes[m] if top_scores[m] + pulls[m] > 0.0 else 1.0) / (1.0 + slopes[m])
    for m in range(len(slopes)):
        if loss[0] != LOGISTIC or top_scores[m] + pulls[m] > STEEP:
            slopes[m], log_slopes[m] = slope_at(loss, top_scores[m], pulls[m], 0.0, 1.0)


@compiled()
def logit_gradient_lanes(logits, scores, loss, tops, sums, weights):
    """Turn weights that are the odds of `odds_lanes` into those of the gradient; return their scales (n, LANES)."""
    inputs, tokens, _ = weights.shape
    top_scores, totals, drifts, slopes, scales = sums[0], sums[1], sums[2], sums[3], sums[4]
    underflow = False
    for i in range(inputs):
        for lane in range(LANES):
            underflow |= abs(drifts[i, lane]) < SMALLEST
            drifts[i, lane] /= totals[i, lane]
    slopes_lanes(loss, top_scores.reshape(-1), drifts.reshape(-1), slopes.reshape(-1), scales.reshape(-1))
    others = np.empty(LANES)
    for i in range(inputs):
        factor = slopes[i]
        for lane in range(LANES):
            others[lane] = 0.0
            factor[lane] /= -totals[i, lane]
        for t in range(tokens):
            for lane in range(LANES):
                gap = scores[i, t, lane] - top_scores[i, lane]
                weights[i, t, lane] *= factor[lane] * (gap - drifts[i, lane])
                others[lane] += weights[i, t, lane]
        for lane in range(LANES):
            weights[i, tops[i, lane], lane] -= others[lane]
    if underflow:
        for i in range(inputs):
            for lane in range(LANES):
                if abs(drifts[i, lane]) * totals[i, lane] < SMALLEST:
                    top = tops[i, lane]
                    scales[i, lane] = logit_gradient_underflow(i, lane, top, logits, scores, loss, weights)
    return scales


@compiled()
def to_one_scale(weights, scales, log_scales):
    """Give a lane's weights (n, m) the largest of its scales (n); return 1 / the largest weight, or 0, for each lane.

    The weights times it are of size 1, and log_scales get the logarithm of what is taken out of their mean over inputs.
    """
    inputs, tokens, _ = weights.shape
    largest = np.zeros(LANES)
    log_scales[:] = -np.inf
    for i in range(inputs):
        for lane in range(LANES):
            log_scales[lane] = max(log_scales[lane], scales[i, lane])
    for i in range(inputs):
        for lane in range(LANES):
            if scales[i, lane] != log_scales[lane]:
                weights[i, :, lane] *= exp_nonpositive(scales[i, lane] - log_scales[lane])
        for t in range(tokens):
            for lane in range(LANES):
                largest[lane] = max(largest[lane], abs(weights[i, t, lane]))
    for lane in range(LANES):
        log_scales[lane] += math.log(largest[lane] / inputs)
        largest[lane] = 1.0 / largest[lane] if largest[lane] > 0.0 else 0.0
    return largest


@compiled()
def gradient_lanes(keys, queries, weights, scales, Wz, direction, log_scales):
    """Fill in direction (D, LANES) and log_scales (LANES) of the gradient."""
    inverse = to_one_scale(weights, scales, log_scales)
    pull_back_lanes(keys, queries, weights, Wz, direction)
    for k in range(len(direction)):
        for lane in range(LANES):
            direction[k, lane] *= inverse[lane]


@compiled()
def drops_lanes(logits, scores, odds, excess):
    """Sign and logarithm of best - gamma . a, how far each input's margin is below the score ``best``."""
    bests, signs, logarithms = excess.bests, excess.signs, excess.logarithms
    inputs, tokens, _ = logits.shape
    for i in range(inputs):
        for lane in range(LANES):
            top, shift = -np.inf, -np.inf
            for t in range(tokens):
                top = max(top, logits[i, t, lane])
                if scores[i, t, lane] != bests[i, lane]:
                    shift = max(shift, logits[i, t, lane])
            logarithms[i, lane] = shift - top
            for t in range(tokens):
                odds[i, t, lane] = logits[i, t, lane] - (top if scores[i, t, lane] == bests[i, lane] else shift)
    exponentials(odds.reshape(-1))
    for i in range(inputs):
        for lane in range(LANES):
            best, drop, small = 0.0, 0.0, 0.0
            for t in range(tokens):
                gap = bests[i, lane] - scores[i, t, lane]
                drop += odds[i, t, lane] * gap
                best += odds[i, t, lane] if gap == 0.0 else 0.0
                small += odds[i, t, lane] if gap != 0.0 else 0.0
            signs[i, lane] = np.sign(drop)
            if drop != 0.0:
                total = best + exp_nonpositive(logarithms[i, lane]) * small
                logarithms[i, lane] += math.log(abs(drop) / total)
            elif small > 0.0:
                logarithms[i, lane] = -np.inf


@compiled()
def excess_lanes(logits, scores, loss, odds, excess):
    """Fill in sign and logarithm, in the first rows, of the risk minus its limit on the tokens with the best scores.

    As `lib.logspace.excess_risk` has them.
    """
    bests, signs, logarithms = excess.bests, excess.signs, excess.logarithms
    inputs = len(bests)
    drops_lanes(logits, scores, odds, excess)
    for lane in range(LANES):
        shift, total = -np.inf, 0.0
        for i in range(inputs):
            if signs[i, lane] != 0.0:
                logarithms[i, lane] = log_change(loss, bests[i, lane], signs[i, lane], logarithms[i, lane])
            shift = max(shift, logarithms[i, lane])
        for i in range(inputs if shift > -np.inf else 0):
            total += signs[i, lane] * math.exp(logarithms[i, lane] - shift)
        signs[0, lane] = np.sign(total)
        logarithms[0, lane] = shift + math.log(abs(total) / inputs) if total != 0.0 else -np.inf
