"""The joint path of the logistic loss in the plane: the best head for a prompt, and the slope of the risk."""

import math
from typing import NamedTuple

import numpy as np
import torch
from numba import f8, i8

from .._compiled import compiled, in_threads
from .elementary import powers
from .gradient import LANES, fill_gradient, fill_logits, space_for
from .joint import JointProblems, fill_features, fill_scores, joint_problems_of
from .losses import LOGISTIC

ANGLE = 2.0**-51  # half the width of a bracket that is narrow enough; the rounding of an angle of pi


class Circles(NamedTuple):
    """For each trial the length of the head, that of the prompt, and the prompt's angle."""

    head_radii: f8[::1]
    radii: f8[::1]
    angles: f8[::1]


class Profile(NamedTuple):
    """For each trial the best head, the slope of the risk along the prompt's circle, and the logarithm of the risk."""

    heads: f8[:, ::1]
    slopes: f8[::1]
    values: f8[::1]


@compiled()
def on_circle(angle, radius, power, norm, vector):
    """Fill in the vector of this l_p norm in the direction of the powers of cosine and sine; 1 for the angle's own."""
    powers(np.array([math.cos(angle), math.sin(angle)]), power, vector)
    if norm != 2.0:
        radius /= (abs(vector[0]) ** norm + abs(vector[1]) ** norm) ** (1.0 / norm)
    vector[0] *= radius
    vector[1] *= radius


@compiled()
def arc(features):
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
def balance(features, angle, radius, norm, head):
    """How much more the features ahead of a head pull than those behind it: a logarithm, falling with its angle."""
    on_circle(angle, radius, 1.0 / (norm - 1.0), norm, head)
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
def find_head(features, low, high, radius, norm, head):
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
        value, left = balance(features, angle, radius, norm, head), left - 1
        if value > 0.0:
            low, at_low = angle, value
        else:
            high, at_high = angle, value
    on_circle((low + high) / 2.0, radius, 1.0 / (norm - 1.0), norm, head)


@compiled()
def log_risk(features, head):
    """Logarithm of the mean logistic loss."""
    total = -np.inf
    for i in range(len(features)):
        margin = features[i, 0] * head[0] + features[i, 1] * head[1]
        if margin > 30.0:
            total = np.logaddexp(total, -margin)  # log log(1 + e^-u) = -u to rounding
        else:
            total = np.logaddexp(total, math.log(max(-margin, 0.0) + math.log1p(math.exp(-abs(margin)))))
    return total - math.log(len(features))


@compiled(JointProblems, Circles, f8, Profile, i8, i8)
def fill_profile(problems, circles, norm, profile, first, last):
    """Fill in the profile of the trials from first to before last."""
    keys, queries, tokens, labels, problem_index, loss = problems
    heads, slopes, values = profile
    _, inputs, count, size = keys.shape
    space = space_for(keys[0].reshape(inputs, count, size, 1))
    scores, features = np.empty((inputs, count, 1)), np.empty((inputs, 2))
    prompt, direction, across, log_scale = np.empty((2, 1)), np.empty((2, 1)), np.empty(2), np.empty(1)
    for b in range(first, last):  # each is one lane
        own_keys = keys[problem_index[0, b]].reshape(inputs, count, size, 1)
        own_queries = queries[problem_index[1, b]].reshape(inputs, -1, 1)
        own_tokens = tokens[problem_index[2, b]].reshape(inputs, count, 2, 1)
        own_labels = labels[problem_index[3, b]].reshape(inputs, 1)
        on_circle(circles.angles[b], circles.radii[b], 1.0, norm, prompt.reshape(2))
        fill_logits(own_keys, own_queries, prompt, space)
        fill_features(own_tokens, own_labels, space, features.reshape(inputs, 2, 1))
        low, high = arc(features)
        if math.isnan(low):
            slopes[b], values[b] = np.nan, np.inf
            heads[b] = 0.0
            continue
        find_head(features, low, high, circles.head_radii[b], norm, heads[b])
        values[b] = log_risk(features, heads[b])
        fill_scores(own_tokens, own_labels, heads[b].reshape(2, 1), scores)
        fill_gradient(own_keys, own_queries, scores, loss, space, direction, log_scale)
        on_circle(circles.angles[b], 1.0, 1.0, norm, prompt.reshape(2))
        powers(prompt.reshape(2), norm - 1.0, across)
        slopes[b] = direction[1, 0] * across[0] - direction[0, 0] * across[1]


def profile(problem, head_radii, radii, angles, norm):
    """Best heads for prompts at angles (...), the slope of the risk along the circle, and log risks.

    For the joint path: the logistic loss in the plane, heads and prompts of these radii. The best head, or its mirror
    map, is a positive combination of the features Y_i r_i, so it lies between the outermost of them, where the risk has
    one stationary point: the multiplier of ``|v| <= r`` is positive there. Zero, nan and inf without such an arc.
    """
    problems = joint_problems_of(problem, (LOGISTIC, 0.0), angles.shape)
    heads, slopes, values = np.empty((*angles.shape, 2)), np.empty(angles.shape), np.empty(angles.shape)
    out = Profile(heads.reshape(-1, 2), slopes.reshape(-1), values.reshape(-1))
    circles = (array.expand(angles.shape).contiguous().numpy().reshape(-1) for array in (head_radii, radii, angles))
    whole = problems, Circles(*circles), float(norm), out
    in_threads(angles.numel(), lambda *part: fill_profile(*whole, *part), LANES)
    return tuple(torch.from_numpy(array) for array in (heads, slopes, values))
