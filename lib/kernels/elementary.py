"""Exponentials, powers and l_p norms, to a unit of the last place and with the same bits on every processor."""

import math

import numpy as np
from numba import literal_unroll

from .._compiled import compiled
from .llvm import fused

LOWEST = -600.0  # what has a lower logarithm counts as zero: denormals slow the processor down
SMALLEST = 1e-100  # a sum of powers or of attention below it is formed again from scaled terms: products must be floats
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first has its last 20 bits at zero
TO_WHOLE = 1.5 * 2.0**52  # added to a number it leaves the nearest whole one
SERIES = tuple(1.0 / math.factorial(k) for k in range(13, -1, -1))
ARTANH = tuple(2.0 / (2 * k + 1) for k in range(11, 0, -1))
ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)


@compiled()
def exponential(value, low):
    """exp(value + low) for values between -707 and 707 and a low that rounding left of one.

    exp(x) = 2^k exp(x - k log 2), the second factor by its series, in two halves side by side. In SIMD lanes a number
    takes 1.8 ns, by math.exp, which is a call for each lane, 5.1, and by a loop over the terms without `fused` 8.1.
    """
    whole = value * (1.0 / LOG_2_HIGH) + TO_WHOLE  # k stands in the last bits of this sum
    k = whole - TO_WHOLE
    rest = (value - k * LOG_2_HIGH) - k * LOG_2_LOW + low
    square, odd, even = rest * rest, SERIES[0], SERIES[1]
    for term in literal_unroll(SERIES[2::2]):
        odd = fused(odd, square, term)
    for term in literal_unroll(SERIES[3::2]):
        even = fused(even, square, term)
    exponent = (np.float64(whole).view(np.int64) << 52) + (1023 << 52)
    return fused(odd, rest, even) * np.int64(exponent).view(np.float64)


@compiled()
def exp_nonpositive(value):
    """exp(value) for values up to 0, or a little more."""
    return 0.0 if value < LOWEST else exponential(value, 0.0)


@compiled()
def exponentials(values):
    """Replace values, at most 0, by their exponentials."""
    for m in range(len(values)):
        values[m] = exp_nonpositive(values[m])


@compiled()
def positive_power(size, power):
    """size^power by a logarithm in two floats and an exponential.

    size = 2^k y with y between sqrt(1/2) and sqrt(2), and log y = 2 artanh((y - 1) / (y + 1)). In SIMD lanes a number
    takes 3.8 ns, by size**power 11.9.
    """
    bits = np.float64(size).view(np.int64)
    k = (bits - ROOT_HALF) >> 52
    y = np.int64(bits - (k << 52)).view(np.float64)
    inverse = 1.0 / (y + 1.0)
    part = (y - 1.0) * inverse
    rest = (fused(-part, y + 1.0, y - 1.0) - part * (y - ((y + 1.0) - 1.0))) * inverse
    square = part * part
    fourth, odd, even = square * square, ARTANH[0], ARTANH[1]
    for term in literal_unroll(ARTANH[2::2]):
        odd = fused(odd, fourth, term)
    for term in literal_unroll(ARTANH[3::2]):
        even = fused(even, fourth, term)
    high = k * LOG_2_HIGH
    log = high + 2.0 * part
    low = (2.0 * part - (log - high)) + (2.0 * rest + (part * fused(odd, square, even * fourth) + k * LOG_2_LOW))
    product = power * log
    return exponential(product, fused(power, log, -product) + power * low)


@compiled()
def any_powers(vector, power, out):
    """sign(x) |x|^power entry by entry; a power below 1e-260 of a number below 1 is zero."""
    longest = math.exp(600.0 * min(1.0 / power, 1.0))
    shortest, unusual = 1.0 / longest, 0
    nothing = shortest if power >= 1.0 else 0.0
    for m in range(len(vector)):
        size = abs(vector[m])
        unusual += 0 if (size <= nothing) | ((size < longest) & (size > shortest)) else 1
    for m in range(0 if unusual else len(vector)):
        size = abs(vector[m])
        out[m] = 0.0 if size <= nothing else math.copysign(positive_power(size, power), vector[m])
    for m in range(len(vector) if unusual else 0):
        size = abs(vector[m])
        usual = (size < longest) & (size > shortest)
        value = positive_power(size, power) if usual else size**power
        out[m] = 0.0 if size <= nothing else math.copysign(value, vector[m])


@compiled()
def powers(vector, power, out):
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
        any_powers(vector, power, out)


@compiled()
def length(vector, norm, room):
    """l_p norm; ``room`` has place for the powers of the entries, which are scaled if they leave the floats."""
    unit = 1.0
    if norm != np.inf:
        total = power_sum(vector, unit, norm, room)
        if SMALLEST < total < 1.0 / SMALLEST:
            return math.sqrt(total) if norm == 2.0 else total ** (1.0 / norm)
    unit = 0.0
    for k in range(len(vector)):
        unit = max(unit, abs(vector[k]))
    if norm == np.inf or unit == 0.0:
        return unit
    return unit * power_sum(vector, unit, norm, room) ** (1.0 / norm)


@compiled()
def power_sum(vector, unit, power, room):
    """Sum of |x / unit|^power, in four parts that do not wait for each other."""
    for k in range(len(vector)):
        room[k] = abs(vector[k]) / unit
    powers(room, power, room)
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
