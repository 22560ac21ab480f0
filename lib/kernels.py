"""Descent, and the flow's velocity, compiled: one trial at a time stays in the processor's nearest cache.

The same arithmetic as :mod:`lib.logspace`, :mod:`lib.descent` and :mod:`lib.joint`, which are the statement to read and
the second opinion; those modules call this one by themselves for linear heads in float64 on the CPU. numba compiles it,
because the loops below then stay Python and need no compiler on the machine. All that is compiled for attention is in
this file.

Shapes are those of one trial: keys (n, T, d); queries (n, e), (n, 0) with a prompt; scores (n, T); theta (d) or (d e).
A loss is its ``code``, a pair: which of the formulas, and the centre of the cubic one.
"""

import logging
import math
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from time import monotonic

import numpy as np
import torch
from llvmlite import ir
from numba import literal_unroll, types
from numba.core import cgutils
from numba.extending import intrinsic

from ._compiled import compile_all as compile_all
from ._compiled import compiled
from .logspace import LogScaled

LOG = logging.getLogger(__name__)
LOGISTIC, EXPONENTIAL, CORRELATION, CUBIC, SIGMOID = range(5)  # as in lib.losses: the cache sees no constant change
TINY = 1e-16  # likewise
ROOT = 2.0**-26  # the square root of a rounding error
RULES = ("constant", "normalised", "polyak")  # a step rule is known to compiled code by its place here
CONSTANT, NORMALISED, POLYAK = range(3)
ANGLE = 2.0**-51  # half the width of a bracket that is narrow enough; the rounding of an angle of pi
STEEP = 300.0  # margin at which a slope is given by its logarithm
FAINT = 1e-100  # part of attention whose logarithm is taken out: products of three still are floats
LANES = 8  # trials that go abreast
CHUNK = 2**16  # examples that a reader is trained on from one call to the next
PAUSE = 10.0  # seconds at least from one line of the log to the next
KEPT = 2**23  # numbers of problems that stand side by side from one gradient to the next
LOWEST = -600.0  # what has a lower logarithm counts as zero: numbers near the smallest of all slow the processor down
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first has its last 20 bits at zero
TO_WHOLE = 1.5 * 2.0**52  # added to a number it leaves the nearest whole one
SERIES = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))
ARTANH = tuple(2.0 / (2 * k + 1) for k in range(11, 0, -1))
ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)

# ---- one input -------------------------------------------------------------------------------------------------------


@compiled()
def _slope(loss, centre, top_score, pull, shift, small):
    """-loss'(u) at the margin u = top_score + pull small, with small = e^shift, as a factor and a logarithm."""
    margin = top_score + pull * small
    if loss == LOGISTIC:
        return (1.0, -margin) if margin > STEEP else (1.0 / (1.0 + math.exp(margin)), 0.0)
    if loss == EXPONENTIAL:
        return (1.0, -margin) if abs(margin) > STEEP else (math.exp(-margin), 0.0)
    if loss == CORRELATION:
        return 1.0, 0.0
    if loss == SIGMOID:
        size = abs(margin)
        return (1.0, -size) if size > STEEP else (math.exp(-size) / (1.0 + math.exp(-size)) ** 2, 0.0)
    if top_score == centre:
        return 3.0 * pull**2, 2.0 * shift
    return 3.0 * (margin - centre) ** 2, 0.0


@compiled()
def _weigh(i, logits, scores, loss, centre, weights):
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
        odds = _small(logits[i, t] - top_logit)
        total += odds
        drift += odds * (scores[i, t] - top_score)
        weights[i, t] = odds
    if abs(drift) < FAINT:
        lone = (*logits.shape, 1)
        return _weigh_faint(i, 0, top, logits.reshape(lone), scores.reshape(lone), loss, centre, weights.reshape(lone))
    drift /= total
    slope, log_slope = _slope(loss, centre, top_score, drift, 0.0, 1.0)
    others, factor = 0.0, -slope / total
    for t in range(tokens):
        weights[i, t] *= factor * (scores[i, t] - top_score - drift)
        others += weights[i, t]
    weights[i, top] -= others
    return log_slope


@compiled()
def _weigh_faint(i, lane, top, logits, scores, loss, centre, weights):
    """As `_weigh`, where little attention is left to tokens with a gap: its logarithm, shift, is taken out of them.

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
    small, total, pull = _small(shift), 0.0, 0.0
    for t in range(tokens):
        gap = scores[i, t, lane] - top_score
        weight = _small(logits[i, t, lane] - top_logit - (0.0 if gap == 0.0 else shift))
        total += weight if gap == 0.0 else small * weight
        pull += gap * weight
        weights[i, t, lane] = weight
    pull /= total
    slope, log_slope = _slope(loss, centre, top_score, pull, shift, small)
    others, factor = 0.0, -slope / total
    for t in range(tokens):
        gap = scores[i, t, lane] - top_score
        weight = weights[i, t, lane] * factor * (-pull if gap == 0.0 else gap - small * pull)
        others += 0.0 if t == top else weight
        weights[i, t, lane] = weight
    weights[i, top, lane] = -others
    return shift + log_slope


@compiled()
def _log_growth(sign, log_drop):
    """log |exp(s) - 1| for s = sign * exp(log_drop)."""
    drop = sign * math.exp(log_drop)
    return log_drop if abs(drop) < TINY else math.log(abs(math.expm1(drop)))


@compiled()
def _log_share(margin):
    """log 1 / (1 + e^-u)."""
    return -math.log1p(math.exp(-margin)) if margin > 0.0 else margin - math.log1p(math.exp(margin))


@compiled()
def _log_change(loss, centre, margin, sign, log_drop):
    """log |loss(u - sign e^log_drop) - loss(u)|, as in :mod:`lib.losses`."""
    if loss == LOGISTIC:
        log_size = _log_share(-margin) + _log_growth(sign, log_drop)
        size = math.exp(log_size)
        return log_size if size < TINY else math.log(abs(math.log1p(sign * size)))
    if loss == EXPONENTIAL:
        return _log_growth(sign, log_drop) - margin
    if loss == CORRELATION:
        return log_drop
    if loss == SIGMOID:
        lowered = sign * math.exp(log_drop) - margin
        return _log_share(margin) + _log_share(lowered) + _log_growth(-sign, log_drop)
    height, drop = margin - centre, sign * math.exp(log_drop)
    if height == 0.0:
        return 3.0 * log_drop
    return log_drop + math.log(3.0 * height**2 - 3.0 * height * drop + drop**2)


# ---- one trial -------------------------------------------------------------------------------------------------------


@compiled()
def _fill_logits(keys, queries, theta, moved, logits):
    """A theta: keys times theta with a prompt, times ``moved``, which is W z_i, with queries."""
    inputs, tokens, size = keys.shape
    if queries.shape[1] == 0:
        for i in range(inputs):
            for t in range(tokens):
                logit = 0.0
                for k in range(size):
                    logit += keys[i, t, k] * theta[k]
                logits[i, t] = logit
        return
    for i in range(inputs):
        for k in range(size):
            entry = 0.0
            for j in range(queries.shape[1]):
                entry += theta[k * queries.shape[1] + j] * queries[i, j]
            moved[k] = entry
        for t in range(tokens):
            logit = 0.0
            for k in range(size):
                logit += keys[i, t, k] * moved[k]
            logits[i, t] = logit


@compiled()
def _pull_back(keys, queries, weights, moved, direction):
    """A^T weights."""
    inputs, tokens, size = keys.shape
    direction[:] = 0.0
    for i in range(inputs):
        if queries.shape[1] == 0:
            for t in range(tokens):
                for k in range(size):
                    direction[k] += weights[i, t] * keys[i, t, k]
        else:
            moved[:] = 0.0
            for t in range(tokens):
                for k in range(size):
                    moved[k] += weights[i, t] * keys[i, t, k]
            for k in range(size):
                for j in range(queries.shape[1]):
                    direction[k * queries.shape[1] + j] += moved[k] * queries[i, j]


@compiled()
def _gradient(keys, queries, scores, loss, centre, logits, weights, scales, moved, direction):
    """Fill in the direction of the gradient at these logits; return its log_scale, as `lib.logspace.gradient` does."""
    inputs, tokens = scores.shape
    for i in range(inputs):
        scales[i] = _weigh(i, logits, scores, loss, centre, weights)
    scale, largest = -np.inf, 0.0
    for i in range(inputs):
        scale = max(scale, scales[i])
    for i in range(inputs):
        factor = 1.0 if scales[i] == scale else _small(scales[i] - scale)
        for t in range(tokens):
            weights[i, t] *= factor
            largest = max(largest, abs(weights[i, t]))
    if largest == 0.0:
        direction[:] = 0.0
        return -np.inf
    _pull_back(keys, queries, weights, moved, direction)
    inverse = 1.0 / largest
    for k in range(len(direction)):
        direction[k] *= inverse
    return scale + math.log(largest / inputs)


@compiled()
def _length(vector, norm, room):
    """l_p norm; ``room`` has place for the powers of the entries, which are scaled if they leave the floats."""
    unit = 1.0
    if norm != np.inf:
        total = _power_sum(vector, unit, norm, room)
        if FAINT < total < 1.0 / FAINT:
            return math.sqrt(total) if norm == 2.0 else total ** (1.0 / norm)
    unit = 0.0
    for k in range(len(vector)):
        unit = max(unit, abs(vector[k]))
    if norm == np.inf or unit == 0.0:
        return unit
    return unit * _power_sum(vector, unit, norm, room) ** (1.0 / norm)


@compiled()
def _power_sum(vector, unit, power, room):
    """Sum of |x / unit|^power, in four parts that do not wait for each other."""
    for k in range(len(vector)):
        room[k] = abs(vector[k]) / unit
    _raise(room, power, room)
    first, second, third, fourth = 0.0, 0.0, 0.0, 0.0
    whole = len(room) - len(room) % 4
    for k in range(0, whole, 4):
        first += room[k]
        second += room[k + 1]
        third += room[k + 2]
        fourth += room[k + 3]
    for k in range(whole, len(room)):
        first += room[k]
    return first + second + (third + fourth)


@intrinsic
def _fused(_, factor, other, term):
    """factor * other + term, rounded once."""

    def generate(context, builder, signature, arguments):
        return builder.fma(*arguments)

    return types.float64(factor, other, term), generate


@intrinsic
def _bits(_, number):
    """The 64 bits of a float as a whole number."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(number), generate


@intrinsic
def _of_bits(_, number):
    """The float with these 64 bits."""

    def generate(context, builder, signature, arguments):
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(number), generate


@compiled()
def _exponential(value, low):
    """exp(value + low) for values between -707 and 707 and a low that rounding left of one; two series side by side.

    exp(x) = 2^k exp(x - k log 2), the second factor by its series.
    """
    whole = value * (1.0 / LOG_2_HIGH) + TO_WHOLE  # k stands in the last bits of this sum
    k = whole - TO_WHOLE
    rest = (value - k * LOG_2_HIGH) - k * LOG_2_LOW + low
    square, odd, even = rest * rest, SERIES[0], SERIES[1]
    for term in literal_unroll(SERIES[2::2]):
        odd = _fused(odd, square, term)
    for term in literal_unroll(SERIES[3::2]):
        even = _fused(even, square, term)
    return _fused(odd, rest, even) * _of_bits((_bits(whole) << 52) + (1023 << 52))


@compiled()
def _small(value):
    """exp(value) for values up to 0, or a little more."""
    return 0.0 if value < LOWEST else _exponential(value, 0.0)


@compiled()
def _power(size, power):
    """size^power by a logarithm in two floats and an exponential, to a unit of the last place, alike on every machine.

    size = 2^k y with y between sqrt(1/2) and sqrt(2), and log y = 2 artanh((y - 1) / (y + 1)).
    """
    k = (_bits(size) - ROOT_HALF) >> 52
    y = _of_bits(_bits(size) - (k << 52))
    inverse = 1.0 / (y + 1.0)
    part = (y - 1.0) * inverse
    rest = (_fused(-part, y + 1.0, y - 1.0) - part * (y - ((y + 1.0) - 1.0))) * inverse
    square = part * part
    fourth, odd, even = square * square, ARTANH[0], ARTANH[1]
    for term in literal_unroll(ARTANH[2::2]):
        odd = _fused(odd, fourth, term)
    for term in literal_unroll(ARTANH[3::2]):
        even = _fused(even, fourth, term)
    high = k * LOG_2_HIGH
    log = high + 2.0 * part
    low = (2.0 * part - (log - high)) + (2.0 * rest + (part * _fused(odd, square, even * fourth) + k * LOG_2_LOW))
    product = power * log
    return _exponential(product, _fused(power, log, -product) + power * low)


@compiled()
def _powers(vector, power, out):
    """sign(x) |x|^power entry by entry; a power below 1e-260 of a number below 1 is zero."""
    longest = math.exp(600.0 * min(1.0 / power, 1.0))
    shortest, unusual = 1.0 / longest, 0
    nothing = shortest if power >= 1.0 else 0.0
    for m in range(len(vector)):
        size = abs(vector[m])
        unusual += 0 if (size <= nothing) | ((size < longest) & (size > shortest)) else 1
    for m in range(0 if unusual else len(vector)):
        size = abs(vector[m])
        out[m] = 0.0 if size <= nothing else math.copysign(_power(size, power), vector[m])
    for m in range(len(vector) if unusual else 0):
        size = abs(vector[m])
        usual = (size < longest) & (size > shortest)
        out[m] = 0.0 if size <= nothing else math.copysign(_power(size, power) if usual else size**power, vector[m])


@compiled()
def _raise(vector, power, out):
    """sign(x) |x|^power entry by entry; the powers of p = 3, 2 and 3/2 without logarithms."""
    if power == 1.0:
        for k in range(len(vector)):
            out[k] = vector[k]
    elif power == 2.0:
        for k in range(len(vector)):
            out[k] = vector[k] * abs(vector[k])
    elif power == 0.5:
        for k in range(len(vector)):
            out[k] = math.copysign(math.sqrt(abs(vector[k])), vector[k])
    elif power == 1.5:
        for k in range(len(vector)):
            out[k] = vector[k] * math.sqrt(abs(vector[k]))
    else:
        _powers(vector, power, out)


@compiled()
def _step_length(rule, factor, size, length, log_scale, excess_sign, excess_log):
    """What a direction of this length is multiplied by, with the sign that goes downhill turned."""
    if rule == CONSTANT:
        return factor * size * math.exp(log_scale)
    if length == 0.0:
        return 0.0
    if rule == NORMALISED:
        return factor * size / length
    if excess_sign <= 0.0:
        return 0.0
    return factor * math.exp(excess_log - math.log(2.0) - log_scale - 2.0 * math.log(length))


@compiled()
def _decay(k, power):
    """(k + 1)^-power."""
    return 1.0 if power == 0.0 else (k + 1.0) ** -power


@compiled()
def _fill_scores(tokens, labels, head, scores):
    """gamma_it = Y_i v . x_it."""
    inputs, count, size = tokens.shape
    for i in range(inputs):
        for t in range(count):
            score = 0.0
            for k in range(size):
                score += tokens[i, t, k] * head[k]
            scores[i, t] = labels[i] * score


@compiled()
def _fill_features(tokens, labels, logits, features):
    """Y_i r_i, what attention passes on."""
    inputs, count, size = tokens.shape
    features[:] = 0.0
    for i in range(inputs):
        top, total = logits[i].max(), 0.0
        for t in range(count):
            odds = math.exp(logits[i, t] - top)
            total += odds
            for k in range(size):
                features[i, k] += odds * tokens[i, t, k]
        for k in range(size):
            features[i, k] *= labels[i] / total


# ---- eight trials abreast --------------------------------------------------------------------------------------------
# The number of the trial is the last dimension, of fixed length, and no sum runs over it: the compiler puts trials side
# by side into the processor's vectors, and a trial is the same whichever others stand beside it.


@compiled()
def _exponentials(values):
    """Replace values, at most 0, by their exponentials, to the last digit."""
    for m in range(len(values)):
        values[m] = _small(values[m])


@intrinsic
def _add_dot(_, out, place, rows, row, row_step, others, other, other_step, count):
    """out[place] += sum_k rows[row + k row_step] others[other + k other_step] for k < count; an item is LANES numbers.

    The sum stays in registers. Arrays and places, not parts of arrays: those would be counted in and out.
    """

    def generate(context, builder, signature, arguments):
        width = ir.VectorType(ir.DoubleType(), LANES)
        fused = builder.module.declare_intrinsic(f"llvm.fma.v{LANES}f64", (), ir.FunctionType(width, 3 * [width]))
        kinds, values = signature.args, arguments
        data = [
            builder.bitcast(context.make_array(kinds[k])(context, builder, values[k]).data, width.as_pointer())
            for k in (0, 2, 5)
        ]
        total = cgutils.alloca_once_value(builder, builder.load(target := builder.gep(data[0], [values[1]]), align=8))
        with cgutils.for_range(builder, values[8]) as loop:
            at = [builder.add(values[k], builder.mul(loop.index, values[k + 1])) for k in (3, 6)]
            items = [builder.load(builder.gep(one, [place]), align=8) for one, place in zip(data[1:], at, strict=True)]
            builder.store(builder.call(fused, [*items, builder.load(total)]), total)
        builder.store(builder.load(total), target, align=8)
        return context.get_dummy_value()

    whole = types.int64
    return types.void(out, whole, rows, whole, whole, others, whole, whole, whole), generate


@intrinsic
def _add_multiple(_, out, place, factor, rows, row):
    """out[place] += factor rows[row]; an item is LANES numbers, and a product is rounded before it is added."""

    def generate(context, builder, signature, arguments):
        width = ir.VectorType(ir.DoubleType(), LANES)
        target, source = (
            builder.gep(
                builder.bitcast(
                    context.make_array(signature.args[k])(context, builder, arguments[k]).data, width.as_pointer()
                ),
                [arguments[k + step]],
            )
            for k, step in ((0, 1), (3, 1))
        )
        first = builder.insert_element(ir.Constant(width, ir.Undefined), arguments[2], ir.Constant(ir.IntType(32), 0))
        spread = ir.Constant(ir.VectorType(ir.IntType(32), LANES), LANES * [0])
        factors = builder.shuffle_vector(first, ir.Constant(width, ir.Undefined), spread)
        product = builder.fmul(factors, builder.load(source, align=8))
        builder.store(builder.fadd(builder.load(target, align=8), product), target, align=8)
        return context.get_dummy_value()

    return types.void(out, types.int64, types.float64, rows, types.int64), generate


@compiled()
def _side_by_side(keys, queries, scores, places, first, last, own_keys, own_queries, own_scores):
    """Put what these trials have of keys, queries, and scores or tokens into the lanes; the last fills those left."""
    for lane in range(LANES):
        b = min(first + lane, last - 1)
        own_keys[..., lane], own_queries[..., lane] = keys[places[0, b]], queries[places[1, b]]
        own_scores[..., lane] = scores[places[2, b]]


@compiled()
def _beside_them(thetas, first, last, theta):
    """Put the thetas of these trials into the lanes."""
    for lane in range(LANES):
        theta[:, lane] = thetas[min(first + lane, last - 1)]


@compiled()
def _dots(rows, vectors, out):
    """rows (n, m, k, LANES) times vectors (n, k, LANES), or (1, k, LANES) for all."""
    inputs, count, size, _ = rows.shape
    out[:] = 0.0
    for i in range(inputs):
        first = i * size if len(vectors) > 1 else 0
        for t in range(i * count, (i + 1) * count):
            _add_dot(out, t, rows, t * size, 1, vectors, first, 1, size)


@compiled()
def _multiples(factors, rows, out):
    """Sums over m of factors (n, m, LANES) times rows (n, m, k, LANES), one for each n, or one for all."""
    inputs, count, size, _ = rows.shape
    out[:] = 0.0
    for i in range(inputs):
        first = i * size if len(out) > 1 else 0
        for k in range(size):
            _add_dot(out, first + k, rows, i * count * size + k, size, factors, i * count, 1, count)


@compiled()
def _logits_abreast(keys, queries, theta, moved, logits):
    """A theta, as `_fill_logits`."""
    inputs, _, size, _ = keys.shape
    width = queries.shape[1]
    if width == 0:
        _dots(keys, theta.reshape(1, size, LANES), logits)
        return
    moved[:] = 0.0
    for i in range(inputs):
        for k in range(size):
            _add_dot(moved, i * size + k, theta, k * width, 1, queries, i * width, 1, width)
    _dots(keys, moved, logits)


@compiled()
def _pull_abreast(keys, queries, weights, moved, direction):
    """A^T weights, as `_pull_back`."""
    inputs, _, size, _ = keys.shape
    width = queries.shape[1]
    if width == 0:
        _multiples(weights, keys, direction.reshape(1, size, LANES))
        return
    _multiples(weights, keys, moved)
    direction[:] = 0.0
    for k in range(size):
        for j in range(width):
            _add_dot(direction, k * width + j, moved, k, size, queries, j, width, inputs)


@compiled()
def _odds_abreast(logits, scores, tops, top_scores, totals, drifts, odds):
    """Fill in each input's token with the largest logit, its score, all odds against it, their sum, the drift."""
    inputs, tokens, _ = logits.shape
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
    _exponentials(odds.reshape(-1))
    totals[:], drifts[:] = 0.0, 0.0
    for i in range(inputs):
        for t in range(tokens):
            for lane in range(LANES):
                totals[i, lane] += odds[i, t, lane]
                drifts[i, lane] += odds[i, t, lane] * (scores[i, t, lane] - top_scores[i, lane])


@compiled()
def _slopes_abreast(loss, centre, top_scores, pulls, slopes, log_slopes):
    """`_slope` at the margins top_score + pull; the logistic one without calls of a library."""
    log_slopes[:] = 0.0
    if loss == LOGISTIC:
        for m in range(len(slopes)):
            slopes[m] = -abs(top_scores[m] + pulls[m])
        _exponentials(slopes)
        for m in range(len(slopes)):
            slopes[m] = (slopes[m] if top_scores[m] + pulls[m] > 0.0 else 1.0) / (1.0 + slopes[m])
    for m in range(len(slopes)):
        if loss != LOGISTIC or top_scores[m] + pulls[m] > STEEP:
            slopes[m], log_slopes[m] = _slope(loss, centre, top_scores[m], pulls[m], 0.0, 1.0)


@compiled()
def _weigh_abreast(logits, scores, loss, centre, room, tops, weights):
    """`_weigh` for every input; return the logarithms, shape (n, LANES), of what was taken out."""
    top_scores, totals, drifts = room[0], room[1], room[2]
    _odds_abreast(logits, scores, tops, top_scores, totals, drifts, weights)
    return _weigh_odds(logits, scores, loss, centre, room, tops, weights)


@compiled()
def _weigh_odds(logits, scores, loss, centre, room, tops, weights):
    """The rest of it, for weights that are odds."""
    inputs, tokens, _ = logits.shape
    top_scores, totals, drifts, slopes, scales = room[0], room[1], room[2], room[3], room[4]
    faint = False
    for i in range(inputs):
        for lane in range(LANES):
            faint |= abs(drifts[i, lane]) < FAINT
            drifts[i, lane] /= totals[i, lane]
    _slopes_abreast(loss, centre, top_scores.reshape(-1), drifts.reshape(-1), slopes.reshape(-1), scales.reshape(-1))
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
    if faint:
        for i in range(inputs):
            for lane in range(LANES):
                if abs(drifts[i, lane]) * totals[i, lane] < FAINT:
                    scales[i, lane] = _weigh_faint(i, lane, tops[i, lane], logits, scores, loss, centre, weights)
    return scales


@compiled()
def _gradient_abreast(keys, queries, weights, scales, moved, direction, log_scales):
    """The rest of `_gradient`: fill in direction (D, LANES) and log_scales (LANES)."""
    inputs, tokens, _ = weights.shape
    largest = np.zeros(LANES)
    log_scales[:] = -np.inf
    for i in range(inputs):
        for lane in range(LANES):
            log_scales[lane] = max(log_scales[lane], scales[i, lane])
    for i in range(inputs):
        for lane in range(LANES):
            if scales[i, lane] != log_scales[lane]:
                weights[i, :, lane] *= _small(scales[i, lane] - log_scales[lane])
        for t in range(tokens):
            for lane in range(LANES):
                largest[lane] = max(largest[lane], abs(weights[i, t, lane]))
    _pull_abreast(keys, queries, weights, moved, direction)
    for lane in range(LANES):
        log_scales[lane] += math.log(largest[lane] / inputs)
        largest[lane] = 1.0 / largest[lane] if largest[lane] > 0.0 else 0.0
    for k in range(len(direction)):
        for lane in range(LANES):
            direction[k, lane] *= largest[lane]


@compiled()
def _drops_abreast(logits, scores, bests, odds, signs, logarithms):
    """Sign and logarithm of best - gamma . a, how far each input's margin is below the score ``best``."""
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
    _exponentials(odds.reshape(-1))
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
                total = best + _small(logarithms[i, lane]) * small
                logarithms[i, lane] += math.log(abs(drop) / total)
            elif small > 0.0:
                logarithms[i, lane] = -np.inf


@compiled()
def _excess_abreast(logits, scores, loss, centre, bests, odds, signs, logarithms):
    """Sign and logarithm of the risk minus its limit on the tokens of these scores, in the first row of both.

    As `lib.logspace.excess_risk` has them.
    """
    inputs = len(logits)
    _drops_abreast(logits, scores, bests, odds, signs, logarithms)
    for lane in range(LANES):
        shift, total = -np.inf, 0.0
        for i in range(inputs):
            if signs[i, lane] != 0.0:
                logarithms[i, lane] = _log_change(loss, centre, bests[i, lane], signs[i, lane], logarithms[i, lane])
            shift = max(shift, logarithms[i, lane])
        for i in range(inputs if shift > -np.inf else 0):
            total += signs[i, lane] * math.exp(logarithms[i, lane] - shift)
        signs[0, lane] = np.sign(total)
        logarithms[0, lane] = shift + math.log(abs(total) / inputs) if total != 0.0 else -np.inf


@compiled()
def _bests_beside(scores, selected, first, last, bests):
    """Put the scores of the selected tokens into the lanes."""
    for lane in range(LANES):
        for i in range(len(bests)):
            bests[i, lane] = scores[i, selected[min(first + lane, last - 1), i], lane]


@compiled()
def _lengths_abreast(direction, norm, room, lengths):
    """`_length` of each lane."""
    lengths[:] = 0.0
    if norm == np.inf:
        for k in range(len(direction)):
            for lane in range(LANES):
                lengths[lane] = max(lengths[lane], abs(direction[k, lane]))
        return
    _raise(direction.reshape(-1), norm, room.reshape(-1))
    for k in range(len(direction)):
        for lane in range(LANES):
            lengths[lane] += abs(room[k, lane])
    for lane in range(LANES):
        if FAINT < lengths[lane] < 1.0 / FAINT:
            lengths[lane] = math.sqrt(lengths[lane]) if norm == 2.0 else lengths[lane] ** (1.0 / norm)
        else:
            lengths[lane] = _length(direction[:, lane], norm, room[:, lane])


@compiled()
def _move_abreast(mirrored, theta, direction, steps, norm):
    """Take the steps in the mirror variable; return the first lane that is no longer finite, or LANES."""
    squares, back = np.zeros(LANES), -steps
    for k in range(len(theta)):
        _add_dot(mirrored, k, direction, k, 0, back, 0, 0, 1)
    _raise(mirrored.reshape(-1), 1.0 / (norm - 1.0), theta.reshape(-1))
    _add_dot(squares, 0, theta, 0, 1, theta, 0, 1, len(theta))
    for lane in range(LANES):
        if not squares[lane] < np.inf and not np.isfinite(theta[:, lane]).all():
            return lane
    return LANES


@compiled()
def _scores_abreast(tokens, labels, head, scores):
    """gamma_it = Y_i v . x_it, as `_fill_scores`."""
    _dots(tokens, head.reshape(1, len(head), LANES), scores)
    for i in range(len(tokens)):
        for t in range(scores.shape[1]):
            for lane in range(LANES):
                scores[i, t, lane] *= labels[i, lane]


@compiled()
def _features_abreast(tokens, labels, odds, totals, features):
    """Y_i r_i, what attention passes on, as `_fill_features`."""
    _multiples(odds, tokens, features)
    for i in range(len(tokens)):
        for k in range(features.shape[1]):
            for lane in range(LANES):
                features[i, k, lane] *= labels[i, lane] / totals[i, lane]


@compiled()
def _head_gradient_abreast(features, loss, centre, head, room, direction, log_scales):
    """Fill in the direction of the gradient in the head and its logarithm, as `lib.joint.head_gradient` does."""
    margins, nothing, slopes, log_slopes = room[0], room[1], room[2], room[3]
    inputs, size, _ = features.shape
    _dots(features.reshape(1, inputs, size, LANES), head.reshape(1, size, LANES), margins.reshape(1, inputs, LANES))
    nothing[:] = 0.0
    _slopes_abreast(loss, centre, margins.reshape(-1), nothing.reshape(-1), slopes.reshape(-1), log_slopes.reshape(-1))
    largest = np.zeros(LANES)
    log_scales[:] = -np.inf
    for i in range(inputs):
        for lane in range(LANES):
            log_scales[lane] = max(log_scales[lane], log_slopes[i, lane])
    for i in range(inputs):
        for lane in range(LANES):
            if log_slopes[i, lane] != log_scales[lane]:
                slopes[i, lane] *= _small(log_slopes[i, lane] - log_scales[lane])
            largest[lane] = max(largest[lane], slopes[i, lane])
    for lane in range(LANES):
        log_scales[lane] += math.log(largest[lane] / inputs)
        largest[lane] = -1.0 / largest[lane] if largest[lane] > 0.0 else 0.0
    for i in range(inputs):
        for lane in range(LANES):
            slopes[i, lane] *= largest[lane]
    _multiples(
        slopes.reshape(1, inputs, LANES), features.reshape(1, inputs, size, LANES), direction.reshape(1, size, LANES)
    )


# ---- the joint path in the plane -------------------------------------------------------------------------------------


@compiled()
def _on_circle(angle, radius, power, norm, vector):
    """Fill in the vector of this l_p norm in the direction of the powers of cosine and sine; 1 for the angle's own."""
    vector[0], vector[1] = math.cos(angle), math.sin(angle)
    _raise(vector, power, vector)
    if norm != 2.0:
        radius /= (abs(vector[0]) ** norm + abs(vector[1]) ** norm) ** (1.0 / norm)
    vector[0] *= radius
    vector[1] *= radius


@compiled()
def _arc(features):
    """The angles of the outermost features, the second at most pi beyond the first; nan where no head has all right."""
    across, along = 0.0, 0.0
    for i in range(len(features)):
        length = math.hypot(features[i, 0], features[i, 1])
        if length == 0.0:
            return np.nan, np.nan
        across += features[i, 0] / length
        along += features[i, 1] / length
    middle = math.atan2(along, across)
    low, high = np.inf, -np.inf
    for i in range(len(features)):
        turned = (math.atan2(features[i, 1], features[i, 0]) - middle + math.pi) % (2.0 * math.pi) - math.pi
        low, high = min(low, turned), max(high, turned)
    return (middle + low, middle + high) if high - low < math.pi else (np.nan, np.nan)


@compiled()
def _balance(features, angle, radius, norm, head):
    """How much more the features ahead of a head pull than those behind it: a logarithm, falling with its angle."""
    _on_circle(angle, radius, 1.0 / (norm - 1.0), norm, head)
    cosine, sine = math.cos(angle), math.sin(angle)
    ahead, behind = -np.inf, -np.inf
    for i in range(len(features)):
        across = features[i, 1] * cosine - features[i, 0] * sine
        if across != 0.0:
            margin = features[i, 0] * head[0] + features[i, 1] * head[1]
            log_pull = math.log(abs(across)) - max(margin, 0.0) - math.log1p(math.exp(-abs(margin)))
            if across > 0.0:
                ahead = np.logaddexp(ahead, log_pull)
            else:
                behind = np.logaddexp(behind, log_pull)
    return 0.0 if ahead == behind else ahead - behind


@compiled()
def _find_head(features, low, high, radius, norm, head):
    """Fill in the head between two angles at which the logistic loss is least, to the last digit of its angle.

    By Oliveira and Takahashi's method (ITP, ACM Trans. Math. Softw. 47, 2020), which takes at most one step more than
    bisection, and far fewer where the balance is nearly a line, as it is for a long head.
    """
    at_low, at_high = np.inf, -np.inf
    width, left = high - low, math.ceil(math.log2(max((high - low) / (2.0 * ANGLE), 1.0))) + 1
    while high - low > 2.0 * ANGLE:
        middle = (low + high) / 2.0
        angle, spare = middle, ANGLE * 2.0**left - (high - low) / 2.0
        if at_low - at_high < np.inf:
            angle = low + (high - low) * (at_low / (at_low - at_high))
            nudge = max(0.2 / width * (high - low) ** 2, ANGLE)
            angle = middle if abs(middle - angle) <= nudge else angle + math.copysign(nudge, middle - angle)
            if abs(middle - angle) > spare:
                angle = middle - math.copysign(spare, middle - angle)
        if not low < angle < high:
            angle = middle
        if not low < angle < high:
            break
        value, left = _balance(features, angle, radius, norm, head), left - 1
        if value > 0.0:
            low, at_low = angle, value
        else:
            high, at_high = angle, value
    _on_circle((low + high) / 2.0, radius, 1.0 / (norm - 1.0), norm, head)


@compiled()
def _log_risk(features, head):
    """Logarithm of the mean logistic loss."""
    total = -np.inf
    for i in range(len(features)):
        margin = features[i, 0] * head[0] + features[i, 1] * head[1]
        if margin > 30.0:
            total = np.logaddexp(total, -margin)  # log log(1 + e^-u) = -u to rounding
        else:
            total = np.logaddexp(total, math.log(max(-margin, 0.0) + math.log1p(math.exp(-abs(margin)))))
    return total - math.log(len(features))


@compiled(
    "void(f8[:,:,:,::1], f8[:,:,:,::1], f8[:,::1], i8[:,::1], f8[::1], f8[::1], f8[::1], f8, f8[:,::1], f8[::1],"
    " f8[::1], i8, i8)"
)
def _profile(keys, tokens, labels, places, head_radii, radii, angles, norm, heads, slopes, values, first, last):
    """The best heads for prompts at these angles, the slopes of the risk along their circles, and the log risks."""
    _, inputs, count, size = keys.shape
    logits, weights, moved = np.empty((inputs, count)), np.empty((inputs, count)), np.empty(size)
    scores, scales, features = np.empty((inputs, count)), np.empty(inputs), np.empty((inputs, size))
    prompt, direction, across, none = np.empty(size), np.empty(size), np.empty(size), np.empty((inputs, 0))
    for b in range(first, last):
        own_keys, own_tokens, own_labels = keys[places[0, b]], tokens[places[1, b]], labels[places[2, b]]
        _on_circle(angles[b], radii[b], 1.0, norm, prompt)
        _fill_logits(own_keys, none, prompt, moved, logits)
        _fill_features(own_tokens, own_labels, logits, features)
        low, high = _arc(features)
        if math.isnan(low):
            slopes[b], values[b] = np.nan, np.inf
            heads[b] = 0.0
            continue
        _find_head(features, low, high, head_radii[b], norm, heads[b])
        values[b] = _log_risk(features, heads[b])
        _fill_scores(own_tokens, own_labels, heads[b], scores)
        _gradient(own_keys, none, scores, LOGISTIC, 0.0, logits, weights, scales, moved, direction)
        _on_circle(angles[b], 1.0, 1.0, norm, prompt)
        _raise(prompt, norm - 1.0, across)
        slopes[b] = direction[1] * across[0] - direction[0] * across[1]


# ---- a reader, whose tokens are trained ------------------------------------------------------------------------------


@compiled()
def _read(places, values, table, queries, head, tokens, attention, read):
    """Fill in tokens, attention and what a reader reads of one input; return its output. See `lib.networks.read`."""
    count, parts = places.shape
    tokens[:] = 0.0
    for t in range(count):
        for k in range(parts):
            _add_multiple(tokens, t, values[t, k], table, places[t, k])
    output = 0.0
    read[:] = 0.0
    for h in range(len(queries)):
        top, total = -np.inf, 0.0
        for t in range(count):
            logit = 0.0
            for j in range(LANES):
                logit += queries[h, j] * tokens[t, j]
            attention[h, t] = logit / math.sqrt(LANES)
            top = max(top, attention[h, t])
        for t in range(count):
            attention[h, t] = math.exp(attention[h, t] - top)
            total += attention[h, t]
        for t in range(count):
            attention[h, t] /= total
            _add_multiple(read, h, attention[h, t], tokens, t)
        for j in range(LANES):
            output += head[h, j] * read[h, j]
    return output


@compiled()
def _add_slopes(
    slope, places, values, queries, head, tokens, attention, read, of_tokens, of_table, of_queries, of_head, used
):
    """Add the gradient of one input to those of a reader's weights, where its output has this slope; mark its rows."""
    count, parts = places.shape
    of_tokens[:] = 0.0
    for h in range(len(queries)):
        mean = 0.0
        for j in range(LANES):
            mean += head[h, j] * read[h, j]
        _add_multiple(of_head, h, slope, read, h)
        for t in range(count):
            value = 0.0
            for j in range(LANES):
                value += head[h, j] * tokens[t, j]
            part = slope * attention[h, t]
            of_logit = part * (value - mean) / math.sqrt(LANES)
            for j in range(LANES):
                of_tokens[t, j] += part * head[h, j] + of_logit * queries[h, j]
            _add_multiple(of_queries, h, of_logit, tokens, t)
    for t in range(count):
        for k in range(parts):
            used[places[t, k]] = True
            _add_multiple(of_table, places[t, k], values[t, k], of_tokens, t)


@compiled()
def _mirrored(weight, power):
    """sign(w) |w|^power."""
    return weight if power == 1.0 else math.copysign(abs(weight) ** power, weight)


# ---- what the library calls ------------------------------------------------------------------------------------------


@compiled(
    "void(f8[:,:,:,::1], f8[:,:,::1], f8[:,:,::1], i8[:,::1], i8, f8, f8[:,::1], i8, f8[::1], f8, f8, i8[:,::1],"
    " i8[::1], f8, f8[:,:,::1], i8[::1], i8, i8)"
)
def _descend(
    keys, queries, scores, places, loss, centre, start, rule, sizes, dual, power, selected, kept, norm, out, failed,
    first, last,
):  # fmt: skip
    """Run the trials from first to before last; ``failed`` gets the iteration of each that is not finite, or stays 0.

    ``places`` has, for each trial, the indices of its keys, queries and scores.
    """
    _, inputs, tokens, size = keys.shape
    own_keys, own_queries = np.empty((inputs, tokens, size, LANES)), np.empty((*queries.shape[1:], LANES))
    each = inputs, tokens, LANES
    logits, own_scores, weights = np.empty(each), np.empty(each), np.empty(each)
    room, tops = np.empty((5, inputs, LANES)), np.empty((inputs, LANES), np.int64)
    wide = start.shape[1], LANES
    direction, theta, mirrored, raised = np.empty(wide), np.empty(wide), np.empty(wide), np.empty(wide)
    moved = np.empty((inputs, size, LANES))
    log_scales, lengths, steps = np.empty(LANES), np.empty(LANES), np.empty(LANES)
    bests, signs, logarithms = np.zeros((inputs, LANES)), np.zeros((inputs, LANES)), np.zeros((inputs, LANES))
    for head in range(first, last, LANES):
        _side_by_side(keys, queries, scores, places, head, last, own_keys, own_queries, own_scores)
        if rule == POLYAK:
            _bests_beside(own_scores, selected, head, last, bests)
        _beside_them(start, head, last, theta)
        _raise(theta.reshape(-1), norm - 1.0, mirrored.reshape(-1))
        count, record = min(LANES, last - head), 0
        for k in range(kept[-1] + 1):
            if k == kept[record]:
                for lane in range(count):
                    out[record, head + lane] = theta[:, lane]
                record += 1
            if k == kept[-1]:
                break
            _logits_abreast(own_keys, own_queries, theta, moved, logits)
            scales = _weigh_abreast(logits, own_scores, loss, centre, room, tops, weights)
            _gradient_abreast(own_keys, own_queries, weights, scales, moved, direction, log_scales)
            if rule != CONSTANT:
                _lengths_abreast(direction, dual, raised, lengths)
            if rule == POLYAK:
                _excess_abreast(logits, own_scores, loss, centre, bests, weights, signs, logarithms)
            factor = _decay(k, power)
            for lane in range(LANES):
                steps[lane] = _step_length(
                    rule, factor, sizes[min(head + lane, last - 1)], lengths[lane], log_scales[lane], signs[0, lane],
                    logarithms[0, lane],
                )  # fmt: skip
            lost = _move_abreast(mirrored, theta, direction, steps, norm)
            if lost < LANES:
                failed[min(head + lost, last - 1)] = k + 1
                break


@compiled()
def _to_one_scale(direction, cut, log_scales):
    """Give the two parts of each lane's direction one scale, the larger one."""
    for lane in range(LANES):
        log_scale = max(log_scales[0, lane], log_scales[1, lane])
        if log_scale > -np.inf:
            direction[:cut, lane] *= math.exp(log_scales[0, lane] - log_scale)
            direction[cut:, lane] *= math.exp(log_scales[1, lane] - log_scale)
        log_scales[:, lane] = log_scale


@compiled()
def _move_part(mirrored, part, direction, log_scales, rule, factor, sizes, dual, norm, raised, steps):
    """Take each lane's step by one rule; return the first lane that is no longer finite, or LANES."""
    if rule != CONSTANT:
        _lengths_abreast(direction, dual, raised, steps)
    for lane in range(LANES):
        steps[lane] = _step_length(rule, factor, sizes[lane], steps[lane], log_scales[lane], 0.0, 0.0)
    return _move_abreast(mirrored, part, direction, steps, norm)


@compiled(
    "void(f8[:,:,:,::1], f8[:,:,::1], f8[:,:,:,::1], f8[:,::1], i8[:,::1], i8, f8, f8[:,::1], b1, i8[::1],"
    " f8[:,::1], f8[::1], f8[::1], i8[::1], f8, f8[:,:,::1], i8[::1], i8, i8)"
)
def _descend_jointly(
    keys, queries, tokens, labels, places, loss, centre, start, together, rules, sizes, duals, powers, kept, norm, out,
    failed, first, last,
):  # fmt: skip
    """As `_descend`, in the head and theta, one behind the other: together by the second rule, or each by its own."""
    _, inputs, count, size = keys.shape
    cut = tokens.shape[3]
    own_keys, own_queries = np.empty((inputs, count, size, LANES)), np.empty((*queries.shape[1:], LANES))
    own_tokens, own_labels = np.empty((inputs, count, cut, LANES)), np.empty((inputs, LANES))
    each = inputs, count, LANES
    logits, scores, weights = np.empty(each), np.empty(each), np.empty(each)
    room, tops = np.empty((5, inputs, LANES)), np.empty((inputs, LANES), np.int64)
    features, moved, of_head = (
        np.empty((inputs, cut, LANES)),
        np.empty((inputs, size, LANES)),
        np.empty((4, inputs, LANES)),
    )
    wide = start.shape[1], LANES
    direction, both, mirrored, raised = np.empty(wide), np.empty(wide), np.empty(wide), np.empty(wide)
    log_scales, own_sizes, steps = np.empty((2, LANES)), np.empty((2, LANES)), np.empty(LANES)
    for head in range(first, last, LANES):
        _side_by_side(keys, queries, tokens, places, head, last, own_keys, own_queries, own_tokens)
        for lane in range(LANES):
            b = min(head + lane, last - 1)
            own_labels[:, lane], own_sizes[:, lane] = labels[places[3, b]], sizes[:, b]
        _beside_them(start, head, last, both)
        _raise(both.reshape(-1), norm - 1.0, mirrored.reshape(-1))
        record = 0
        for k in range(kept[-1] + 1):
            if k == kept[record]:
                for lane in range(min(LANES, last - head)):
                    out[record, head + lane] = both[:, lane]
                record += 1
            if k == kept[-1]:
                break
            _logits_abreast(own_keys, own_queries, both[cut:], moved, logits)
            _scores_abreast(own_tokens, own_labels, both[:cut], scores)
            _odds_abreast(logits, scores, tops, room[0], room[1], room[2], weights)
            _features_abreast(own_tokens, own_labels, weights, room[1], features)
            _head_gradient_abreast(features, loss, centre, both[:cut], of_head, direction[:cut], log_scales[0])
            scales = _weigh_odds(logits, scores, loss, centre, room, tops, weights)
            _gradient_abreast(own_keys, own_queries, weights, scales, moved, direction[cut:], log_scales[1])
            if together:
                _to_one_scale(direction, cut, log_scales)
                lost = _move_part(
                    mirrored, both, direction, log_scales[1], rules[1], _decay(k, powers[1]), own_sizes[1], duals[1],
                    norm, raised, steps,
                )  # fmt: skip
            else:
                lost = LANES
                for part, here in enumerate((slice(0, cut), slice(cut, len(both)))):
                    at = _move_part(
                        mirrored[here], both[here], direction[here], log_scales[part], rules[part],
                        _decay(k, powers[part]), own_sizes[part], duals[part], norm, raised[here], steps,
                    )  # fmt: skip
                    lost = min(lost, at)
            if lost < LANES:
                failed[min(head + lost, last - 1)] = k + 1
                break


@compiled()
def _move_rows(weights, slopes, used, normalised, size, norm):
    """Step along those rows of the slopes that are used, which are zero again then; return the slopes' length."""
    squares = 0.0
    for row in range(len(used)):
        if used[row]:
            for j in range(LANES):
                squares += slopes[row, j] * slopes[row, j]
    length = math.sqrt(squares)
    moved = size / length if normalised and length > 0.0 else size
    for row in range(len(used)):
        if used[row]:
            for j in range(LANES):
                if slopes[row, j] != 0.0:
                    mirrored = _mirrored(weights[row, j], norm - 1.0) - moved * slopes[row, j]
                    weights[row, j] = _mirrored(mirrored, 1.0 / (norm - 1.0))
                    slopes[row, j] = 0.0
    return length


@compiled("UniTuple(f8, 2)(i8[:,:,::1], f8[:,:,::1], f8[::1], i8[::1], f8[:,::1], i8)")
def _look_at_reader(places, values, labels, rows, weights, heads):
    """Return a reader's mean loss on its rows, and the mean number of tokens that it attends to."""
    cut, count, loss, attended = len(weights) - 2 * heads, places.shape[1], 0.0, 0.0
    table, queries, head = weights[:cut], weights[cut : cut + heads], weights[cut + heads :]
    tokens, attention, read = np.empty((count, LANES)), np.empty((heads, count)), np.empty((heads, LANES))
    for i in rows:
        margin = labels[i] * _read(places[i], values[i], table, queries, head, tokens, attention, read)
        loss += math.log1p(math.exp(-margin)) if margin > -STEEP else -margin
        for h in range(heads):
            attended += 1.0 / (attention[h] ** 2).sum()
    return loss / len(rows), attended / (len(rows) * heads)


@compiled("f8(i8[:,:,::1], f8[:,:,::1], f8[::1], i8[:,::1], i8, i8, i8, f8[:,::1], i8, b1, f8, f8, b1, f8)")
def _train_reader(
    places, values, labels, orders, batch, first, last, weights, heads, normalised, size, norm, still, path
):
    """Train one reader from the step ``first`` to before ``last``; return the path, longer by these steps.

    ``orders`` has the rows of each epoch in their order, from the epoch of the first step on.
    """
    cut, count, slopes = len(weights) - 2 * heads, places.shape[1], np.zeros(weights.shape)
    table, queries, head = weights[:cut], weights[cut : cut + heads], weights[cut + heads :]
    of_table, of_queries, of_head = slopes[:cut], slopes[cut : cut + heads], slopes[cut + heads :]
    tokens, of_tokens, used = np.empty((count, LANES)), np.empty((count, LANES)), np.empty(len(weights), np.bool_)
    attention, read, each = np.empty((heads, count)), np.empty((heads, LANES)), orders.shape[1] // batch
    for step in range(first, last):
        order = orders[step // each - first // each]
        used[:cut], used[cut:] = False, True
        for i in order[step % each * batch : (step % each + 1) * batch]:
            output = _read(places[i], values[i], table, queries, head, tokens, attention, read)
            slope = -labels[i] / (1.0 + math.exp(labels[i] * output)) / batch
            _add_slopes(
                slope, places[i], values[i], queries, head, tokens, attention, read, of_tokens, of_table, of_queries,
                of_head, used,
            )  # fmt: skip
        if still:
            of_queries[:] = 0.0
        path += _move_rows(weights, slopes, used, normalised, size, norm)
    return path


@compiled()
def _velocity_at(keys, queries, scores, loss, centre, state, norm, out):
    """Fill in the velocity of mirror variable and log time over sigma, as :mod:`lib.flow` states it."""
    inputs, tokens, size = keys.shape
    logits, weights, moved = np.empty((inputs, tokens)), np.empty((inputs, tokens)), np.empty(size)
    theta, direction = np.empty(len(state) - 1), np.empty(len(state) - 1)
    _raise(state[:-1], 1.0 / (norm - 1.0), theta)
    _fill_logits(keys, queries, theta, moved, logits)
    log_scale = _gradient(keys, queries, scores, loss, centre, logits, weights, np.empty(inputs), moved, direction)
    length = _length(direction, 2.0, np.empty(len(direction)))
    log_velocity = state[-1] + log_scale + math.log(length) if length > 0.0 else -np.inf
    small = math.exp(-abs(log_velocity))
    share, rest = (1.0, small) if log_velocity > 0.0 else (small, 1.0)
    for k in range(len(direction)):
        out[k] = -share / (1.0 + small) * direction[k] / (length if length > 0.0 else 1.0)
    out[-1] = rest / (1.0 + small)


@compiled("void(f8[:,:,::1], f8[:,::1], f8[:,::1], i8, f8, f8[::1], f8, f8[::1])")
def _velocity(keys, queries, scores, loss, centre, state, norm, out):
    _velocity_at(keys, queries, scores, loss, centre, state, norm, out)


@compiled("void(f8[:,:,::1], f8[:,::1], f8[:,::1], i8, f8, f8[::1], f8, f8[:,::1])")
def _velocity_slopes(keys, queries, scores, loss, centre, state, norm, out):
    """Fill in the derivatives of the velocity in the state, by differences: row j has those in entry j."""
    here, moved = np.empty(len(state)), state.copy()
    _velocity_at(keys, queries, scores, loss, centre, state, norm, here)
    for j in range(len(state)):
        moved[j] += ROOT * max(abs(state[j]), 1.0)
        width = moved[j] - state[j]
        _velocity_at(keys, queries, scores, loss, centre, moved, norm, out[j])
        for k in range(len(state)):
            out[j, k] = (out[j, k] - here[k]) / width
        moved[j] = state[j]


@compiled(
    "void(f8[:,:,:,::1], f8[:,:,::1], f8[:,:,::1], i8[:,::1], i8, f8, b1, f8[:,:,:,:,::1], f8[:,:,:,::1],"
    " f8[:,:,:,::1], f8[:,::1], f8[:,::1], f8[::1])"
)
def _gradients(
    keys, queries, scores, places, loss, centre, fresh, every_key, every_query, every_score, thetas, directions,
    log_scales,
):  # fmt: skip
    """Fill in gradients; the problems stand side by side in blocks, one or all, and are put there if ``fresh``."""
    _, inputs, tokens, size = keys.shape
    logits, weights = np.empty((inputs, tokens, LANES)), np.empty((inputs, tokens, LANES))
    room, tops = np.empty((5, inputs, LANES)), np.empty((inputs, LANES), np.int64)
    direction, theta = np.empty((thetas.shape[1], LANES)), np.empty((thetas.shape[1], LANES))
    moved, own_scales, count = np.empty((inputs, size, LANES)), np.empty(LANES), len(thetas)
    for first in range(0, count, LANES):
        block = first // LANES % len(every_key)
        own_keys, own_queries, own_scores = every_key[block], every_query[block], every_score[block]
        if fresh:
            _side_by_side(keys, queries, scores, places, first, count, own_keys, own_queries, own_scores)
        _beside_them(thetas, first, count, theta)
        _logits_abreast(own_keys, own_queries, theta, moved, logits)
        scales = _weigh_abreast(logits, own_scores, loss, centre, room, tops, weights)
        _gradient_abreast(own_keys, own_queries, weights, scales, moved, direction, own_scales)
        for lane in range(min(LANES, count - first)):
            directions[first + lane], log_scales[first + lane] = direction[:, lane], own_scales[lane]


@compiled("void(f8[:,:,:,::1], f8[:,:,::1], f8[:,:,::1], i8[:,::1], i8, f8, i8[:,::1], f8[:,::1], f8[::1], f8[::1])")
def _excesses(keys, queries, scores, places, loss, centre, selected, thetas, signs, logarithms):
    """Fill in the excess risks; ``selected`` has a row for each trial."""
    _, inputs, tokens, size = keys.shape
    own_keys, own_queries = np.empty((inputs, tokens, size, LANES)), np.empty((*queries.shape[1:], LANES))
    each = inputs, tokens, LANES
    logits, own_scores, odds = np.empty(each), np.empty(each), np.empty(each)
    moved, theta, count = np.empty((inputs, size, LANES)), np.empty((thetas.shape[1], LANES)), len(thetas)
    bests, own_signs, own_logarithms = np.empty((inputs, LANES)), np.empty((inputs, LANES)), np.empty((inputs, LANES))
    for first in range(0, count, LANES):
        _side_by_side(keys, queries, scores, places, first, count, own_keys, own_queries, own_scores)
        _bests_beside(own_scores, selected, first, count, bests)
        _beside_them(thetas, first, count, theta)
        _logits_abreast(own_keys, own_queries, theta, moved, logits)
        _excess_abreast(logits, own_scores, loss, centre, bests, odds, own_signs, own_logarithms)
        for lane in range(min(LANES, count - first)):
            signs[first + lane], logarithms[first + lane] = own_signs[0, lane], own_logarithms[0, lane]


def trajectories(problem, loss, start, rule, kept, norm=2.0):
    """Descend as `lib.descent.run` does, from ``start`` of shape (..., D), keeping the iterations ``kept``, in order.

    Returns
    -------
    Tensor, shape (len(kept), ..., D)

    Raises
    ------
    FloatingPointError
        If an iterate is no longer finite.
    """
    batch, trials = start.shape[:-1], math.prod(start.shape[:-1])
    arrays, places = _rows(batch, problem.keys, 3, _queries(problem), 2, problem.scores, 2)
    selected = np.zeros((trials, 0), dtype=np.int64)
    if rule.selected is not None:
        selected = _lines(rule.selected.expand(*batch, -1))
    return _spread(
        _descend, start, kept, norm, *arrays, places, *loss.code, _lines(start), RULES.index(rule.kind),
        _sizes(rule, batch), rule.dual, rule.power, selected,
    )  # fmt: skip


def joint_trajectories(problem, loss, start, head_rule, rule, kept, norm=2.0):
    """Descend as `lib.joint.run` does, head and theta one behind the other; by one rule if the head has none."""
    batch = start.shape[:-1]
    arrays, places = _rows(batch, problem.keys, 3, _queries(problem), 2, problem.tokens, 3, problem.labels, 1)
    rules = (head_rule or rule, rule)
    return _spread(
        _descend_jointly, start, kept, norm, *arrays, places, *loss.code, _lines(start), head_rule is None,
        np.array([RULES.index(one.kind) for one in rules]), np.stack([_sizes(one, batch) for one in rules]),
        np.array([one.dual for one in rules]), np.array([one.power for one in rules]),
    )  # fmt: skip


def gradients(problem, loss, batch):
    """Return `lib.logspace.gradient` as a function of theta, ``(*batch, D)``, into which the problem's fits."""
    arrays, places = _rows(batch, problem.keys, 3, _queries(problem), 2, problem.scores, 2)
    blocks = -(-places.shape[1] // LANES)
    fit = blocks * LANES * sum(one[0].size for one in arrays) <= KEPT
    own = [np.empty((blocks if fit else 1, *one.shape[1:], LANES)) for one in arrays]
    fresh = True

    def at(theta):
        nonlocal fresh
        lines = _lines(theta)
        direction, log_scale = np.empty_like(lines), np.empty(len(lines))
        _gradients(*arrays, places, *loss.code, fresh, *own, lines, direction, log_scale)
        fresh = not fit
        return LogScaled(torch.from_numpy(direction).view(theta.shape), torch.from_numpy(log_scale).view(batch))

    return at


def excesses(problem, loss, batch, selected):
    """Return `lib.logspace.excess_risk` as a function of theta, ``(*batch, D)``; ``selected`` has to fit, too."""
    arrays, places = _rows(batch, problem.keys, 3, _queries(problem), 2, problem.scores, 2)
    selected = _lines(selected.expand(*batch, -1))

    def at(theta):
        lines = _lines(theta)
        sign, log_scale = np.empty(len(lines)), np.empty(len(lines))
        _excesses(*arrays, places, *loss.code, selected, lines, sign, log_scale)
        return LogScaled(torch.from_numpy(sign).view(batch), torch.from_numpy(log_scale).view(batch))

    return at


def profile(problem, head_radii, radii, angles, norm):
    """Best heads for prompts at angles (...), the slope of the risk along the circle, and log risks.

    For the joint path: the logistic loss in the plane, heads and prompts of these radii. The best head, or its mirror
    map, is a positive combination of the features Y_i r_i, so it lies between the outermost of them, where the risk has
    one stationary point: the multiplier of ``|v| <= r`` is positive there. Zero, nan and inf without such an arc.
    """
    arrays, places = _rows(angles.shape, problem.keys, 3, problem.tokens, 3, problem.labels, 1)
    lines = [one.expand(angles.shape).contiguous().numpy().reshape(-1) for one in (head_radii, radii, angles)]
    heads, slopes, values = np.empty((*angles.shape, 2)), np.empty(angles.shape), np.empty(angles.shape)
    out = heads.reshape(-1, 2), slopes.reshape(-1), values.reshape(-1)
    _in_parts(angles.numel(), lambda *part: _profile(*arrays, places, *lines, float(norm), *out, *part))
    return tuple(torch.from_numpy(one) for one in (heads, slopes, values))


def readers(places, values, labels, rows, seeds, weights, steps, *, heads, batch, normalised, norm, still, until, at):
    """Train readers as `lib.networks.train_readers` does: their weights (members, rows, `LANES`) change.

    Returns
    -------
    Tensor, shape (len(at), members, 3)
        Loss, path and tokens attended to; NaN after a member has stopped.
    """
    out, since = np.full((len(seeds), len(at), 3), np.nan), monotonic()
    data = [np.ascontiguousarray(one.numpy()) for one in (places, values, labels)]
    each, most = rows.shape[1] // batch, max(1, CHUNK // rows.shape[1])  # steps of an epoch, epochs of a call
    for k, seed in enumerate(seeds):
        own, own_weights, step, path = np.ascontiguousarray(rows[k].numpy()), weights[k].numpy(), 0, 0.0
        epochs, orders = _epochs(own, seed), []
        for look, goal in enumerate(at):
            while step < goal:
                last = min(goal, (step // each + most) * each)
                count = (last - 1) // each - (step - 1) // each
                orders = np.stack([*(orders[-1:] if step % each else []), *islice(epochs, count)])
                path = _train_reader(
                    *data, orders, batch, step, last, own_weights, heads, normalised, steps[k], norm, still, path
                )
                step = last
                if monotonic() - since > PAUSE:
                    LOG.info("reader %d of %d, step %d of %d", k + 1, len(seeds), step, at[-1])
                    since = monotonic()
            loss, attended = _look_at_reader(*data, own, own_weights, heads)
            out[k, look] = loss, path, attended
            if not until < loss < np.inf:
                break
    return torch.from_numpy(out).transpose(0, 1)


def _epochs(rows, seed):
    """Yield the rows in the order of each epoch, one array for each."""
    generator, order = np.random.RandomState(seed % 2**32), rows.copy()  # numbers of the lock are of its stream
    while True:
        generator.shuffle(order)
        yield order.copy()


def velocity(problem, loss, norm=2.0):
    """Return the right-hand side of `lib.flow.log_time_flow`, for a problem without batch, and its derivatives."""
    keys, queries, scores = (
        np.ascontiguousarray(part.numpy()) for part in (problem.keys, _queries(problem), problem.scores)
    )
    about = keys, queries, scores, *loss.code

    def speed(_, state):
        out = np.empty_like(state)
        _velocity(*about, state, float(norm), out)
        return out

    def slopes(_, state):
        out = np.empty((len(state), len(state)))
        _velocity_slopes(*about, state, float(norm), out)
        return out.T

    return speed, slopes


def _queries(problem):
    """Queries, (..., n, 0) with a prompt."""
    return problem.keys.new_empty(problem.keys.shape[-3], 0) if problem.queries is None else problem.queries


def _lines(array):
    """All vectors of an array, one below the other."""
    return np.ascontiguousarray(array.reshape(-1, array.shape[-1]).numpy())


def _rows(batch, *arrays):
    """Arrays, each with how many dimensions are its own, with one leading dimension; for each trial their indices."""
    flat, places = [], []
    for array, own in zip(arrays[::2], arrays[1::2], strict=True):
        lead = array.shape[: array.ndim - own]
        flat.append(np.ascontiguousarray(array.numpy()).reshape(math.prod(lead), *array.shape[array.ndim - own :]))
        places.append(torch.arange(math.prod(lead)).reshape(lead).expand(batch).reshape(-1))
    return flat, torch.stack(places).numpy()


def _sizes(rule, batch):
    """Step sizes, shape (trials,); zeros for a rule without one."""
    sizes = np.zeros(()) if rule.step_size is None else rule.step_size.numpy()
    return np.broadcast_to(sizes, batch).astype(float).ravel()


def _spread(kernel, start, kept, norm, *arguments):
    """Run a kernel over the trials, in parts on torch's number of threads; a trial is the same on any of them."""
    trials = math.prod(start.shape[:-1])
    out, failed = np.empty((len(kept), trials, start.shape[-1])), np.zeros(trials, dtype=np.int64)
    kept = np.array(kept, dtype=np.int64)
    _in_parts(trials, lambda *part: kernel(*arguments, kept, float(norm), out, failed, *part))
    if failed.any():
        raise FloatingPointError(
            f"the iterate is no longer finite at iteration {failed[failed > 0].min()}: take a smaller step"
        )
    return torch.from_numpy(out).reshape(len(kept), *start.shape)


def _in_parts(trials, call):
    """Call with the first and the last of parts of the trials, whole lanes, on torch's number of threads."""
    threads, blocks = torch.get_num_threads(), -(-trials // LANES)
    if threads == 1 or blocks < 2:
        call(0, trials)
    else:
        parts = min(4 * threads, blocks)  # more than threads: a core that is held up leaves some to the others
        bounds = np.minimum(LANES * np.linspace(0, blocks, parts + 1).astype(int), trials)
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(call, bounds[:-1], bounds[1:]))
