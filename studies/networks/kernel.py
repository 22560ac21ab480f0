"""Train a reader, a layer of attention whose tokens are sums of trained rows of a table; see `apply_readers`.

A row has `LANES` numbers. A reader's weights are the rows of its table, then a query and a part of the head for each
attention head.
"""

import logging
import math
from collections import namedtuple
from itertools import islice
from time import monotonic
from typing import NamedTuple

import numpy as np
import torch
from numba import b1, f8, i8

from lib._compiled import compiled
from lib.kernels.descent import step_length
from lib.kernels.losses import STEEP
from lib.rules import CONSTANT, NORMALISED

LOG = logging.getLogger(__name__)
CHUNK = 2**16  # examples that a reader is trained on from one call to the next
LOG_INTERVAL_S = 10.0  # at least, from one line of the log to the next
LANES = 8  # numbers of a row


class Inputs(NamedTuple):
    """Rows of the table that a token adds up, and how much of each, (inputs, T, parts), and labels."""

    places: i8[:, :, ::1]
    values: f8[:, :, ::1]
    labels: f8[::1]


class Training(NamedTuple):
    """Attention heads, inputs of a step, whether steps are normalised, their size, the norm, frozen queries, decay."""

    heads: i8
    batch: i8
    normalised: b1
    size: f8
    norm: f8
    frozen: b1
    decay: f8  # step k has the size times (1 + k / 100)^-decay


Weights = namedtuple(
    "Weights", "table queries head"
)  # of a reader, or their gradient: (rows, LANES), (heads, LANES) twice
# Tokens (T, LANES) of one input, attention (heads, T), what is read (heads, LANES), and the tokens' gradient.
Reading = namedtuple("Reading", "tokens attention read of_tokens")


@compiled()
def add_multiple(out, place, factor, rows, row):
    """out[place] += factor rows[row], whose length the compiler does not know: then it vectorises the loop."""
    for j in range(rows.shape[1]):
        out[place, j] += factor * rows[row, j]


@compiled()
def parts_of(weights, heads):
    """Table, queries and head."""
    cut = len(weights) - 2 * heads
    return Weights(weights[:cut], weights[cut : cut + heads], weights[cut + heads :])


@compiled()
def empty_reading(count, heads):
    """Arrays for one input of so many tokens."""
    tokens = np.empty((count, LANES)), np.empty((count, LANES))
    return Reading(tokens[0], np.empty((heads, count)), np.empty((heads, LANES)), tokens[1])


@compiled()
def read_input(i, inputs, weights, reading):
    """Fill in tokens, attention and what a reader reads of input i; return its output."""
    places, values, _ = inputs
    table, queries, head = weights
    tokens, attention, read, _ = reading
    _, count, parts = places.shape
    tokens[:] = 0.0
    for t in range(count):
        for k in range(parts):
            add_multiple(tokens, t, values[i, t, k], table, places[i, t, k])
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
            add_multiple(read, h, attention[h, t], tokens, t)
        for j in range(LANES):
            output += head[h, j] * read[h, j]
    return output


@compiled()
def add_slopes(i, slope, inputs, weights, reading, slopes, used):
    """Add the gradient of input i to that of a reader's weights, where its output has this slope; mark its rows."""
    tokens, attention, read, of_tokens = reading
    places, values, _ = inputs
    of_table, of_queries, of_head = slopes
    _, queries, head = weights
    _, count, parts = places.shape
    of_tokens[:] = 0.0
    for h in range(len(queries)):
        mean = 0.0
        for j in range(LANES):
            mean += head[h, j] * read[h, j]
        add_multiple(of_head, h, slope, read, h)
        for t in range(count):
            value = 0.0
            for j in range(LANES):
                value += head[h, j] * tokens[t, j]
            part = slope * attention[h, t]
            of_logit = part * (value - mean) / math.sqrt(LANES)
            for j in range(LANES):
                of_tokens[t, j] += part * head[h, j] + of_logit * queries[h, j]
            add_multiple(of_queries, h, of_logit, tokens, t)
    for t in range(count):
        for k in range(parts):
            used[places[i, t, k]] = True
            add_multiple(of_table, places[i, t, k], values[i, t, k], of_tokens, t)


@compiled()
def mirrored_by(weight, power):
    """sign(w) |w|^power."""
    return weight if power == 1.0 else math.copysign(abs(weight) ** power, weight)


@compiled()
def move_rows(weights, slopes, used, training, size):
    """Step along those rows of the slopes that are used, which are zero again then; return the slopes' length."""
    norm, squares = training.norm, 0.0
    for row in range(len(used)):
        if used[row]:
            for j in range(LANES):
                squares += slopes[row, j] * slopes[row, j]
    length = math.sqrt(squares)
    moved = step_length(NORMALISED if training.normalised else CONSTANT, 1.0, size, length, 0.0, 0.0, 0.0)
    for row in range(len(used)):
        if used[row]:
            for j in range(LANES):
                if slopes[row, j] != 0.0:
                    mirrored = mirrored_by(weights[row, j], norm - 1.0) - moved * slopes[row, j]
                    weights[row, j] = mirrored_by(mirrored, 1.0 / (norm - 1.0))
                    slopes[row, j] = 0.0
    return length


@compiled(Inputs, i8[::1], f8[:, ::1], i8)
def evaluate(inputs, rows, weights, heads):
    """Evaluate a reader on its rows: its mean loss, and the mean number of tokens that it attends to."""
    parts, reading = parts_of(weights, heads), empty_reading(inputs.places.shape[1], heads)
    loss, attended = 0.0, 0.0
    for i in rows:
        margin = inputs.labels[i] * read_input(i, inputs, parts, reading)
        loss += math.log1p(math.exp(-margin)) if margin > -STEEP else -margin
        for h in range(heads):
            attended += 1.0 / (reading.attention[h] ** 2).sum()
    return loss / len(rows), attended / (len(rows) * heads)


@compiled(Inputs, i8[:, ::1], Training, i8, i8, f8[:, ::1], f8)
def train_reader(inputs, orders, training, first, last, weights, path):
    """Train one reader from the step ``first`` to before ``last``; return the path, longer by these steps.

    ``orders`` has the rows of each epoch in their order, from the epoch of the first step on.
    """
    heads, batch, slopes = training.heads, training.batch, np.zeros(weights.shape)
    parts, of_parts = parts_of(weights, heads), parts_of(slopes, heads)
    reading = empty_reading(inputs.places.shape[1], heads)
    cut, used, each = len(parts.table), np.empty(len(weights), np.bool_), orders.shape[1] // batch
    for step in range(first, last):
        order = orders[step // each - first // each]
        used[:cut], used[cut:] = False, True
        for i in order[step % each * batch : (step % each + 1) * batch]:
            output = read_input(i, inputs, parts, reading)
            slope = -inputs.labels[i] / (1.0 + math.exp(inputs.labels[i] * output)) / batch
            add_slopes(i, slope, inputs, parts, reading, of_parts, used)
        if training.frozen:
            of_parts.queries[:] = 0.0
        shrunk = (1.0 + step / 100.0) ** -training.decay if training.decay else 1.0
        path += move_rows(weights, slopes, used, training, training.size * shrunk)
    return path


def readers(
    places,
    values,
    labels,
    rows,
    seeds,
    weights,
    steps,
    *,
    heads,
    batch,
    normalised,
    norm,
    freeze_queries,
    decay,
    until,
    at,
):
    """Train readers as `studies.networks.train_readers` does: their weights (members, rows, `LANES`) change.

    Returns
    -------
    Tensor, shape (len(at), members, 3)
        Loss, path and tokens attended to; NaN after a member has stopped.
    """
    out, since = np.full((len(seeds), len(at), 3), np.nan), monotonic()
    inputs = Inputs(*(np.ascontiguousarray(array.numpy()) for array in (places, values, labels)))
    each, most = rows.shape[1] // batch, max(1, CHUNK // rows.shape[1])  # steps of an epoch, epochs of a call
    for k, seed in enumerate(seeds):
        member_rows, member_weights, step, path = np.ascontiguousarray(rows[k].numpy()), weights[k].numpy(), 0, 0.0
        training = Training(heads, batch, normalised, float(steps[k]), float(norm), freeze_queries, float(decay))
        epochs, orders = epochs_of(member_rows, seed), []
        for look, goal in enumerate(at):
            while step < goal:
                last = min(goal, (step // each + most) * each)
                count = (last - 1) // each - (step - 1) // each
                orders = np.stack([*(orders[-1:] if step % each else []), *islice(epochs, count)])
                path = train_reader(inputs, orders, training, step, last, member_weights, path)
                step = last
                if monotonic() - since > LOG_INTERVAL_S:
                    LOG.info("reader %d of %d, step %d of %d", k + 1, len(seeds), step, at[-1])
                    since = monotonic()
            loss, attended = evaluate(inputs, member_rows, member_weights, heads)
            out[k, look] = loss, path, attended
            if not until < loss < np.inf:
                break
    return torch.from_numpy(out).transpose(0, 1)


def epochs_of(rows, seed):
    """Yield the rows in the order of each epoch, one array for each."""
    generator, order = np.random.RandomState(seed % 2**32), rows.copy()  # the accepted numbers come from this stream
    while True:
        generator.shuffle(order)
        yield order.copy()
