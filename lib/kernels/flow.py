"""The velocity of the flow in log time, compiled: one trial, which is one lane of :mod:`lib.kernels.gradient`."""

import math

import numpy as np
from numba import f8, i8

from .._compiled import compiled
from .descent import queries_of
from .elementary import fill_lengths, powers
from .gradient import fill_gradient, fill_logits, space_for

ROOT = 2.0**-26  # the square root of a rounding error
TRIAL = f8[:, :, :, ::1], f8[:, :, ::1], f8[:, :, ::1], i8, f8  # keys, queries and scores of one lane; the loss


@compiled()
def fill_velocity(keys, queries, scores, loss, space, state, norm, out):
    """Fill in the velocity of mirror variable and log time over sigma, as :mod:`lib.flow` states it."""
    size = len(state) - 1
    theta, direction, raised = np.empty((size, 1)), np.empty((size, 1)), np.empty((size, 1))
    log_scale, length = np.empty(1), np.empty(1)
    powers(state[:-1], 1.0 / (norm - 1.0), theta.reshape(size))
    fill_logits(keys, queries, theta, space)
    fill_gradient(keys, queries, scores, loss, space, direction, log_scale)
    fill_lengths(direction, 2.0, raised, length)
    log_velocity = state[-1] + log_scale[0] + math.log(length[0]) if length[0] > 0.0 else -np.inf
    small = math.exp(-abs(log_velocity))
    share, rest = (1.0, small) if log_velocity > 0.0 else (small, 1.0)
    for k in range(size):
        out[k] = -share / (1.0 + small) * direction[k, 0] / (length[0] if length[0] > 0.0 else 1.0)
    out[-1] = rest / (1.0 + small)


@compiled(*TRIAL, f8[::1], f8, f8[::1])
def velocity_at(keys, queries, scores, kind, centre, state, norm, out):
    """Fill in the velocity; numba takes arrays in a third of the time of a named tuple."""
    fill_velocity(keys, queries, scores, (kind, centre), space_for(keys), state, norm, out)


@compiled(*TRIAL, f8[::1], f8, f8[:, ::1])
def velocity_slopes_at(keys, queries, scores, kind, centre, state, norm, out):
    """Fill in the derivatives of the velocity in the state, by differences: row j has those in entry j."""
    space, here, moved = space_for(keys), np.empty(len(state)), state.copy()
    fill_velocity(keys, queries, scores, (kind, centre), space, state, norm, here)
    for j in range(len(state)):
        moved[j] += ROOT * max(abs(state[j]), 1.0)
        width = moved[j] - state[j]
        fill_velocity(keys, queries, scores, (kind, centre), space, moved, norm, out[j])
        for k in range(len(state)):
            out[j, k] = (out[j, k] - here[k]) / width
        moved[j] = state[j]


def velocity(problem, loss, norm=2.0):
    """The right-hand side of `lib.flow.log_time_flow`, for a problem without batch, and its derivatives."""
    arrays = problem.keys, queries_of(problem), problem.scores
    trial = *(np.ascontiguousarray(array.numpy())[..., None] for array in arrays), *loss.code

    def speed(_, state):
        out = np.empty_like(state)
        velocity_at(*trial, state, float(norm), out)
        return out

    def slopes(_, state):
        out = np.empty((len(state), len(state)))
        velocity_slopes_at(*trial, state, float(norm), out)
        return out.T

    return speed, slopes
