"""Slopes and changes of the losses, by the logarithm where the number itself would underflow.

A loss is its ``code``, a pair: which of the formulas, and the centre of the cubic one. A new loss has its formula for
tensors in :mod:`lib.losses`, with a code of its own, and its branches of `slope_at` and `log_change` here; no other
file knows it.
"""

import math

from .._compiled import compiled
from ..losses import CORRELATION, EXPONENTIAL, LOGISTIC, SIGMOID, TINY

STEEP = 300.0  # margin at which a slope is given by its logarithm


@compiled()
def slope_at(loss, top_score, pull, shift, small):
    """-loss'(u) at the margin u = top_score + pull small, with small = e^shift, as a factor and a logarithm."""
    kind, centre = loss
    margin = top_score + pull * small
    if kind == LOGISTIC:
        return (1.0, -margin) if margin > STEEP else (1.0 / (1.0 + math.exp(margin)), 0.0)
    if kind == EXPONENTIAL:
        return (1.0, -margin) if abs(margin) > STEEP else (math.exp(-margin), 0.0)
    if kind == CORRELATION:
        return 1.0, 0.0
    if kind == SIGMOID:
        size = abs(margin)
        return (1.0, -size) if size > STEEP else (math.exp(-size) / (1.0 + math.exp(-size)) ** 2, 0.0)
    if top_score == centre:
        return 3.0 * pull**2, 2.0 * shift
    return 3.0 * (margin - centre) ** 2, 0.0


@compiled()
def log_growth(sign, log_drop):
    """log |exp(s) - 1| for s = sign * exp(log_drop)."""
    drop = sign * math.exp(log_drop)
    return log_drop if abs(drop) < TINY else math.log(abs(math.expm1(drop)))


@compiled()
def log_share(margin):
    """log 1 / (1 + e^-u)."""
    return -math.log1p(math.exp(-margin)) if margin > 0.0 else margin - math.log1p(math.exp(margin))


@compiled()
def log_change(loss, margin, sign, log_drop):
    """log |loss(u - sign e^log_drop) - loss(u)|, as in :mod:`lib.losses`."""
    kind, centre = loss
    if kind == LOGISTIC:
        log_size = log_share(-margin) + log_growth(sign, log_drop)
        size = math.exp(log_size)
        return log_size if size < TINY else math.log(abs(math.log1p(sign * size)))
    if kind == EXPONENTIAL:
        return log_growth(sign, log_drop) - margin
    if kind == CORRELATION:
        return log_drop
    if kind == SIGMOID:
        lowered = sign * math.exp(log_drop) - margin
        return log_share(margin) + log_share(lowered) + log_growth(-sign, log_drop)
    height, drop = margin - centre, sign * math.exp(log_drop)
    if height == 0.0:
        return 3.0 * log_drop
    return log_drop + math.log(3.0 * height**2 - 3.0 * height * drop + drop**2)
