"""Gradients and excess risks of trials side by side, in loops that the compiler turns into those of SIMD registers.

The number of the trial, the lane, is the last dimension of all arrays: keys (n, T, d, lanes), queries (n, e, lanes), or
(n, 0, lanes) with a prompt, scores (n, T, lanes) and theta (d, lanes) or (d e, lanes). How many lanes there are is
known only at run time, so each loop over them stays a loop, which is what LLVM vectorises. No sum runs over the lanes:
a trial has the same bits whichever others go beside it, and one trial alone is one lane.
"""

import math
from collections import namedtuple

import numpy as np
from numba import f8, i8, types

from .._compiled import compiled
from .elementary import exponentials
from .losses import log_change, slope_at

LANES = 32  # trials side by side: their problems stay in the second cache for all steps
LOSS = types.Tuple([i8, f8])

# Logits and odds, which become the weights of the gradient, (n, T); Wz (n, d); tops, the tokens with the largest
# logits, and their scores (n). Of `part_odds`, (n): totals of odds, pulls, shifts, smalls. Then slopes and scales (n).
Space = namedtuple("Space", "logits odds Wz tops bests totals pulls shifts smalls slopes scales")


@compiled()
def space_for(keys):
    """Arrays for the gradients of problems with these keys."""
    inputs, tokens, size, lanes = keys.shape
    wide, own = (inputs, tokens, lanes), (inputs, lanes)
    return Space(
        np.empty(wide), np.empty(wide), np.empty((inputs, size, lanes)), np.empty(own, np.int64), np.empty(own),
        np.empty(own), np.empty(own), np.empty(own), np.empty(own), np.empty(own), np.empty(own),
    )  # fmt: skip


@compiled()
def side_by_side(rows, index):
    """rows[index], the number of the trial last."""
    count, lanes = rows.size // len(rows), len(index)
    flat, out = rows.reshape(len(rows), count), np.empty((count, lanes))
    for m in range(count):
        for lane in range(lanes):
            out[m, lane] = flat[index[lane], m]
    return out.reshape((*rows.shape[1:], lanes))


@compiled()
def add_products(out, place, rows, row, row_step, others, other, other_step, count):
    """out[place] += sum_k rows[row + k row_step] others[other + k other_step] for k < count, lane by lane."""
    for k in range(count):
        left, right = row + k * row_step, other + k * other_step
        for lane in range(out.shape[1]):
            out[place, lane] += rows[left, lane] * others[right, lane]


@compiled()
def dots(rows, vectors, out):
    """rows (n, m, k, lanes) times vectors (n, k, lanes), or (1, k, lanes) for all."""
    inputs, count, size, lanes = rows.shape
    flat, factors, sums = rows.reshape(-1, lanes), vectors.reshape(-1, lanes), out.reshape(-1, lanes)
    sums[:] = 0.0
    for i in range(inputs):
        first = i * size if len(vectors) > 1 else 0
        for t in range(i * count, (i + 1) * count):
            add_products(sums, t, flat, t * size, 1, factors, first, 1, size)


@compiled()
def multiples(factors, rows, out):
    """Sums over m of factors (n, m, lanes) times rows (n, m, k, lanes), one for each n, or one for all."""
    inputs, count, size, lanes = rows.shape
    flat, weights, sums = rows.reshape(-1, lanes), factors.reshape(-1, lanes), out.reshape(-1, lanes)
    sums[:] = 0.0
    for i in range(inputs):
        first = i * size if len(out) > 1 else 0
        for k in range(size):
            add_products(sums, first + k, flat, i * count * size + k, size, weights, i * count, 1, count)


@compiled()
def fill_logits(keys, queries, theta, space):
    """A theta: keys times theta with a prompt, times W z_i with queries."""
    inputs, _, size, lanes = keys.shape
    width, Wz = queries.shape[1], space.Wz
    if width == 0:
        dots(keys, theta.reshape(1, size, lanes), space.logits)
        return
    Wz[:] = 0.0
    flat, sums = queries.reshape(-1, lanes), Wz.reshape(-1, lanes)
    for i in range(inputs):
        for k in range(size):
            add_products(sums, i * size + k, theta, k * width, 1, flat, i * width, 1, width)
    dots(keys, Wz, space.logits)


@compiled()
def pull_back(keys, queries, space, direction):
    """A^T weights."""
    inputs, _, size, lanes = keys.shape
    width, Wz = queries.shape[1], space.Wz
    if width == 0:
        multiples(space.odds, keys, direction.reshape(1, size, lanes))
        return
    multiples(space.odds, keys, Wz)
    direction[:] = 0.0
    flat, sums = queries.reshape(-1, lanes), Wz.reshape(-1, lanes)
    for k in range(size):
        for j in range(width):
            add_products(direction, k * width + j, sums, k, size, flat, j, width, inputs)


@compiled()
def find_tops(scores, space):
    """Fill in the tokens with the largest logits, and their scores."""
    logits, tops, bests, highest = space.logits, space.tops, space.bests, space.totals
    inputs, tokens, lanes = logits.shape
    for i in range(inputs):
        for lane in range(lanes):
            tops[i, lane], bests[i, lane], highest[i, lane] = 0, scores[i, 0, lane], logits[i, 0, lane]
        for t in range(1, tokens):
            for lane in range(lanes):
                higher = logits[i, t, lane] > highest[i, lane]
                tops[i, lane] = t if higher else tops[i, lane]
                bests[i, lane] = scores[i, t, lane] if higher else bests[i, lane]
                highest[i, lane] = logits[i, t, lane] if higher else highest[i, lane]


@compiled()
def part_odds(scores, bests, space):
    """Fill in odds against the largest logit; those of tokens of another score than the best, without a factor.

    That factor, small = e^shift, may be far below the floats; it is the odds of the largest of these tokens. The total
    of an input's odds has it, the pull, which is the sum of odds times gaps of the scores, is without it.
    """
    logits, odds, totals, pulls, shifts = space.logits, space.odds, space.totals, space.pulls, space.shifts
    inputs, tokens, lanes = logits.shape
    smalls = space.smalls
    totals[:], shifts[:] = -np.inf, -np.inf
    for i in range(inputs):
        for t in range(tokens):
            for lane in range(lanes):
                logit = logits[i, t, lane]
                other = logit if scores[i, t, lane] != bests[i, lane] else -np.inf
                totals[i, lane] = logit if logit > totals[i, lane] else totals[i, lane]
                shifts[i, lane] = other if other > shifts[i, lane] else shifts[i, lane]
        for t in range(tokens):
            for lane in range(lanes):
                same = scores[i, t, lane] == bests[i, lane]
                odds[i, t, lane] = logits[i, t, lane] - (totals[i, lane] if same else shifts[i, lane])
        for lane in range(lanes):
            shifts[i, lane] -= totals[i, lane]
            smalls[i, lane] = shifts[i, lane]
    exponentials(odds.reshape(-1))
    exponentials(smalls.reshape(-1))
    totals[:], pulls[:] = 0.0, 0.0
    for i in range(inputs):
        for t in range(tokens):
            for lane in range(lanes):
                gap = scores[i, t, lane] - bests[i, lane]
                totals[i, lane] += odds[i, t, lane] * (1.0 if gap == 0.0 else smalls[i, lane])
                pulls[i, lane] += odds[i, t, lane] * gap


@compiled()
def fill_slopes(loss, space):
    """Fill in `slope_at` of each input, its logarithm as the scale."""
    bests, pulls, shifts, smalls = space.bests, space.pulls, space.shifts, space.smalls
    slopes, scales = space.slopes, space.scales
    for i in range(slopes.shape[0]):
        for lane in range(slopes.shape[1]):
            found = slope_at(loss, bests[i, lane], pulls[i, lane], shifts[i, lane], smalls[i, lane])
            slopes[i, lane], scales[i, lane] = found


@compiled()
def logit_gradient(scores, loss, space):
    """Turn the odds into weights loss' a_t (gamma_t - gamma . a), each input's without a factor e^scale.

    With gap_t = gamma_t - gamma_b, b the token with the largest logit, and small pull = sum_t a_t gap_t, the weight is
    -slope a_t (gap_t - small pull); that of b is minus the sum of the others. A token that ties with b, whose attention
    may be far larger than the rest, feels the pull alone.
    """
    odds, pulls, totals, smalls, slopes = space.odds, space.pulls, space.totals, space.smalls, space.slopes
    bests, scales, shifts, tops = space.bests, space.scales, space.shifts, space.tops
    inputs, tokens, lanes = odds.shape
    find_tops(scores, space)
    part_odds(scores, bests, space)
    for i in range(inputs):
        for lane in range(lanes):
            pulls[i, lane] /= totals[i, lane]
    fill_slopes(loss, space)
    others = np.empty(lanes)
    for i in range(inputs):
        for lane in range(lanes):
            others[lane] = 0.0
            scales[i, lane] += shifts[i, lane]
            slopes[i, lane] /= -totals[i, lane]
        for t in range(tokens):
            for lane in range(lanes):
                gap = scores[i, t, lane] - bests[i, lane]
                apart = -pulls[i, lane] if gap == 0.0 else gap - smalls[i, lane] * pulls[i, lane]
                odds[i, t, lane] *= slopes[i, lane] * apart
                others[lane] += odds[i, t, lane]
        for lane in range(lanes):
            odds[i, tops[i, lane], lane] -= others[lane]


@compiled()
def to_one_scale(weights, scales, log_scales):
    """Give a lane's weights (n, m) the largest of its scales (n); return 1 / the largest weight, or 0, for each lane.

    The weights times it are of size 1, and log_scales get the logarithm of what is taken out of their mean over inputs.
    """
    inputs, tokens, lanes = weights.shape
    largest = np.zeros(lanes)
    log_scales[:] = -np.inf
    for i in range(inputs):
        for lane in range(lanes):
            log_scales[lane] = scales[i, lane] if scales[i, lane] > log_scales[lane] else log_scales[lane]
    for i in range(inputs):
        for lane in range(lanes):
            scales[i, lane] -= log_scales[lane] if log_scales[lane] > -np.inf else 0.0
    exponentials(scales.reshape(-1))
    for i in range(inputs):
        for t in range(tokens):
            for lane in range(lanes):
                weights[i, t, lane] *= scales[i, lane]
                size = abs(weights[i, t, lane])
                largest[lane] = size if size > largest[lane] else largest[lane]
    for lane in range(lanes):
        log_scales[lane] += math.log(largest[lane] / inputs)
        largest[lane] = 1.0 / largest[lane] if largest[lane] > 0.0 else 0.0
    return largest


@compiled()
def fill_gradient(keys, queries, scores, loss, space, direction, log_scales):
    """Fill in direction (D, lanes) and log_scales (lanes) of the gradient at the logits, as `lib.logspace.gradient`."""
    logit_gradient(scores, loss, space)
    inverse = to_one_scale(space.odds, space.scales, log_scales)
    pull_back(keys, queries, space, direction)
    for k in range(len(direction)):
        for lane in range(direction.shape[1]):
            direction[k, lane] *= inverse[lane]


@compiled()
def fill_excess(scores, loss, bests, space, signs, logarithms):
    """Fill in the risk at the logits minus its limit on tokens with the scores ``bests``: signs and logarithms (lanes).

    As `lib.logspace.excess_risk` has them.
    """
    part_odds(scores, bests, space)
    signs_each, totals, changes = space.pulls, space.totals, space.shifts
    inputs, lanes = totals.shape
    for lane in range(lanes):
        shift, total = -np.inf, 0.0
        for i in range(inputs):
            drop = -space.pulls[i, lane]
            changes[i, lane] += math.log(abs(drop) / totals[i, lane])
            if drop != 0.0:
                changes[i, lane] = log_change(loss, bests[i, lane], np.sign(drop), changes[i, lane])
            shift = max(shift, changes[i, lane])
            signs_each[i, lane] = np.sign(drop)
        for i in range(inputs if shift > -np.inf else 0):
            total += signs_each[i, lane] * math.exp(changes[i, lane] - shift)
        signs[lane] = np.sign(total)
        logarithms[lane] = shift + math.log(abs(total) / inputs) if total != 0.0 else -np.inf
