"""Train the members of an ensemble of transformers, all with one step."""

import logging
from contextlib import contextmanager
from itertools import chain
from typing import NamedTuple

import torch
from torch import Tensor

from lib import checks

from .measures import cross_entropy, shares
from .transformer import apply

LOG = logging.getLogger(__package__)


class Training(NamedTuple):
    """Record of a training of several members.

    losses : shape (steps, members), mean of each step's batch, before the step; infinite once a member has diverged.
    at : list of int, steps after which ``measured`` was taken, 0 for the start.
    measured : dict of Tensor, each of shape (len(at), ...).
    """

    losses: Tensor
    at: list[int]
    measured: dict[str, Tensor]


@contextmanager
def _one_thread():
    """Sums by several threads round otherwise, which training amplifies; so do those of other kinds of processor."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@_one_thread()
def train(
    network, parameters, step_rule, inputs, labels, rows, seeds, *, epochs, batch, at=(), measure=None,
    name="training",
):  # fmt: skip
    """Train all members on the mean cross-entropy, each on its own rows, in its own order.

    Parameters
    ----------
    network, parameters
        Of :func:`ensemble`; the parameters are changed.
    step_rule : torch.optim.Optimizer
        Over these parameters.
    inputs : Tensor, shape (N, ...)
    labels : Tensor of int, shape (N,) or (members, N)
    rows : Tensor of int, shape (members, examples)
        The examples of each member.
    seeds : sequence of int
        One for each member, for the order of its examples.
    epochs, batch : int
        Examples that do not fill the last batch of an epoch are left out of it.
    at : sequence of int
        Numbers of steps after which to measure; the start is 0. Default: before the first and after each epoch.
    measure : callable, optional
        ``measure(parameters)`` returns a dict of tensors; called without gradients.
    name : str
        What the line in the log, one an epoch, begins with.

    Returns
    -------
    Training

    Raises
    ------
    ValueError
        If the batch is larger than the number of examples.
    """
    rows, seeds = checks.indices("rows", rows, len(inputs), "members", "examples"), checks.seeds(seeds)
    labels = checks.indices("labels", labels, network.head.out_features, *["members", "N"][-labels.ndim :])
    examples = rows.shape[1]
    checks.integer("epochs", epochs)
    checks.trailing_shape("rows", rows, len(seeds), examples)
    checks.trailing_shape("labels", labels, len(inputs))
    checks.finite("inputs", inputs)
    if checks.integer("batch", batch) > examples:
        raise ValueError(f"batch is {batch}, each member has {examples} examples: choose a batch from 1 to {examples}")
    each = examples // batch
    at = sorted(set(at)) or [epoch * each for epoch in range(epochs + 1)]
    if at[0] < 0 or at[-1] > epochs * each:
        raise ValueError(f"at is {checks.shown(at)}: give numbers of steps from 0 to {epochs * each}")
    wanted, weights, labels = set(at), list(parameters.values()), labels.expand(len(seeds), -1)
    losses, measured = [], []
    for step, chosen in enumerate(chain(_batches(rows, seeds, epochs, batch), [None])):
        if step in wanted and measure:
            with torch.no_grad():
                measured.append(measure(parameters))
        if chosen is None:
            break
        loss = cross_entropy(apply(network, parameters, inputs[chosen])[0], labels.gather(1, chosen))
        for weight, slope in zip(weights, torch.autograd.grad(loss.sum(), weights), strict=True):
            weight.grad = slope
        step_rule.step()
        losses.append(loss.detach())
        if (step + 1) % each == 0:
            mean = torch.stack(losses[-each:]).mean()
            LOG.info("%s epoch %d of %d, loss %.4f", name, (step + 1) // each, epochs, mean)
    losses = torch.stack(losses)
    diverged = losses.isfinite().logical_not().cummax(0).values
    return Training(
        losses.masked_fill(diverged, torch.inf),
        at,
        {key: torch.stack([entry[key] for entry in measured]) for key in (measured[0] if measured else {})},
    )


def train_best(network, weights, step_rule, inputs, labels, rows, seeds, right, **settings):
    """Train as :func:`train`, and keep of each member the epoch with the most right answers on held-out inputs.

    ``right(weights)`` is the share of these, (members,). Two dicts of tensors: ``losses`` (epochs, members), ``held``,
    the right answers (epochs + 1, members), ``epoch``, the one that is kept, :func:`shares` of its weights and, as
    ``start-...``, of the first ones; and the weights themselves.
    """
    best = torch.full((len(seeds),), -1.0, dtype=torch.float64)
    best_weights = {name: weight.detach().clone() for name, weight in weights.items()}
    start = {f"start-{name}": share for name, share in shares(weights, network).items()}

    def measure(now):
        held = right(now)
        better = held > best
        best[better] = held[better]
        for name, weight in now.items():
            best_weights[name][better] = weight[better]
        return {"held": held}

    record = train(network, weights, step_rule, inputs, labels, rows, seeds, measure=measure, **settings)
    held = record.measured["held"]
    losses = record.losses.unflatten(0, (len(held) - 1, -1)).mean(1)
    measured = {"losses": losses, "held": held, "epoch": held.argmax(0)}
    return measured | shares(best_weights, network) | start, best_weights


def _batches(rows, seeds, epochs, batch):
    """Yield the rows (members, batch) of each step, every member's in an order of its own in each epoch."""
    examples = rows.shape[1]
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    for _ in range(epochs):
        order = torch.stack([torch.randperm(examples, generator=generator) for generator in generators])
        for start in range(0, examples - batch + 1, batch):
            yield rows.gather(1, order[:, start : start + batch].to(rows.device))
