"""Exponentials, powers and l_p norms, with the same bits on every processor and in every lane."""

import math

import numpy as np

from .._compiled import compiled

LOWEST = -600.0  # what has a lower logarithm counts as zero: denormals slow the processor down
SMALLEST = 1e-100  # a sum of powers below it is formed again from scaled terms
LOG_2_HIGH, LOG_2_LOW = 6.93147180369123816490e-01, 1.90821492927058770002e-10  # the first has its last 20 bits at zero
TO_WHOLE = 1.5 * 2.0**52  # added to a number it leaves the nearest whole one
ROOT_HALF = 0x3FE6A09E667F3BCD  # the bits of sqrt(1/2)
HALF = 2.0**27 + 1.0  # x HALF - (x HALF - x) are the first 26 bits of x


@compiled()
def exponential(value, low):
    """exp(value + low) for values between -707 and 707 and a small low, to a unit of the last place.

    exp(x) = 2^k exp(x - k log 2), the second factor by its series in two halves that do not wait for each other. A loop
    over it is vectorised: 1.6 ns a number, where math.exp, which is a call for each lane, takes 5.
    """
    whole = value * (1.0 / LOG_2_HIGH) + TO_WHOLE  # k stands in the last bits of this sum
    k = whole - TO_WHOLE
    x = (value - k * LOG_2_HIGH) - k * LOG_2_LOW + low
    s = x * x
    odd = ((((s / 6227020800 + 1 / 39916800) * s + 1 / 362880) * s + 1 / 5040) * s + 1 / 120) * s + 1 / 6
    even = (((s / 479001600 + 1 / 3628800) * s + 1 / 40320) * s + 1 / 720) * s + 1 / 24
    power_of_2 = (np.float64(whole).view(np.int64) << 52) + (1023 << 52)
    return (1.0 + (x + s * (0.5 + (x * odd + s * even)))) * np.int64(power_of_2).view(np.float64)


@compiled()
def exponentials(values):
    """Replace values, at most 0 or a little more, by their exponentials."""
    for m in range(len(values)):
        values[m] = 0.0 if values[m] < LOWEST else exponential(values[m], 0.0)


@compiled()
def positive_power(size, power):
    """size^power by a logarithm in two parts and an exponential, to a few units of the last place.

    size = 2^k y with y between sqrt(1/2) and sqrt(2), and log y = 2 artanh((y - 1) / (y + 1)). The logarithm's first 26
    bits times those of the power are exact. Vectorised 4 ns a number, where size**power takes 12.
    """
    bits = np.float64(size).view(np.int64)
    k = (bits - ROOT_HALF) >> 52
    y = np.int64(bits - (k << 52)).view(np.float64)
    part = (y - 1.0) / (y + 1.0)
    s = part * part
    f = s * s
    odd = ((((2 / 21 * f + 2 / 17) * f + 2 / 13) * f + 2 / 9) * f + 2 / 5) * f
    even = (((2 / 23 * f + 2 / 19) * f + 2 / 15) * f + 2 / 11) * f + 2 / 7
    series = part * (odd + s * (2 / 3 + even * f))
    main = k * LOG_2_HIGH
    log = main + 2.0 * part
    low = (2.0 * part - (log - main)) + (series + k * LOG_2_LOW)
    high, first = log * HALF - (log * HALF - log), power * HALF - (power * HALF - power)
    low += log - high
    return exponential(first * high, (power - first) * high + power * low)


@compiled()
def any_powers(vector, power, out):
    """sign(x) |x|^power entry by entry; a power below 1e-260 of a number below 1 is zero."""
    longest = math.exp(600.0 * min(1.0 / power, 1.0))
    shortest, unusual = 1.0 / longest, 0
    nothing = shortest if power >= 1.0 else 0.0
    for m in range(len(vector)):
        size = abs(vector[m])
        unusual += 0 if (size <= nothing) | ((size < longest) & (size > shortest)) else 1
    for m in range(len(vector)):
        size = abs(vector[m])
        out[m] = 0.0 if size <= nothing else math.copysign(positive_power(size, power), vector[m])
    for m in range(len(vector) if unusual else 0):
        size = abs(vector[m])
        if not (size <= nothing) | ((size < longest) & (size > shortest)):
            out[m] = math.copysign(size**power, vector[m])


@compiled()
def powers(vector, power, out):
    """sign(x) |x|^power entry by entry; the powers of p = 3, 2 and 3/2 without logarithms. ``out`` is another array."""
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
def fill_lengths(vectors, norm, raised, lengths):
    """l_p norms of vectors (D, lanes); ``raised``, of their shape, gets the powers of the entries.

    Where a sum of powers leaves the floats it is formed again from entries of size 1.
    """
    lanes = len(lengths)
    largest = np.zeros(lanes)
    for k in range(len(vectors)):
        for lane in range(lanes):
            size = abs(vectors[k, lane])
            largest[lane] = size if size > largest[lane] else largest[lane]
    lengths[:] = largest
    if norm == np.inf:
        return
    add_powers(vectors, norm, raised, lengths)
    unusual = False
    for lane in range(lanes):
        fine = SMALLEST < lengths[lane] < 1.0 / SMALLEST
        unusual |= not fine
        largest[lane] = 1.0 if fine or largest[lane] == 0.0 else largest[lane]
    if unusual:
        add_powers(vectors / largest, norm, raised, lengths)
    for lane in range(lanes):
        root = math.sqrt(lengths[lane]) if norm == 2.0 else lengths[lane] ** (1.0 / norm)
        lengths[lane] = largest[lane] * root


@compiled()
def add_powers(vectors, norm, raised, sums):
    """Sums of |x|^norm down the columns."""
    powers(vectors.reshape(-1), norm, raised.reshape(-1))
    sums[:] = 0.0
    for k in range(len(vectors)):
        for lane in range(len(sums)):
            sums[lane] += abs(raised[k, lane])
