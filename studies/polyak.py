"""Train readers by Polyak's steps on minibatches."""

import torch
from torch.nn.functional import softplus

from studies import networks
from studies.networks.one_layer import batches


def train_readers(places, values, labels, rows, seeds, longest, *, heads, batch, until, at):
    """Train as :func:`studies.networks.train_readers` does, with steps as long as Polyak's rule says.

    A step moves by ``min(loss / (2 |g|^2), longest) g`` along the gradient g of a batch and its loss, whose least value
    counts as 0: all examples can be learned. Each member has a ``longest`` of its own, or all have one.
    """
    first = networks.train_readers(places, values, labels, rows, seeds, 1.0, heads=heads, batch=batch, at=[0])
    weights = {name: weight.clone().requires_grad_() for name, weight in first.weights.items()}
    longest, looks = torch.as_tensor(longest).double().expand(len(seeds)), sorted(set(at))
    path, records = torch.zeros(len(seeds)).double(), torch.full((len(looks), len(seeds), 3), torch.nan).double()
    runs = torch.ones(len(seeds), dtype=torch.bool)
    for step, now in enumerate(batches(rows, seeds, batch)):
        if step in looks:
            with torch.no_grad():
                outputs, attention = networks.apply_readers(weights, places[rows], values[rows])
            loss = softplus(-labels[rows] * outputs).mean(1)
            found = torch.stack([loss, path, networks.soft_sparsity(attention).flatten(1).mean(1)], 1)
            records[looks.index(step)] = found.where(runs[:, None], torch.nan)
            runs &= (loss > until) & loss.isfinite()
        if step == looks[-1] or not runs.any():
            return networks.Readers(looks, *records.unbind(-1), {name: w.detach() for name, w in weights.items()})
        outputs, _ = networks.apply_readers(weights, places[now], values[now])
        loss = softplus(-labels[now] * outputs).mean(1)
        slopes = torch.autograd.grad(loss.sum(), [*weights.values()])
        length = networks.flat(slopes).norm(dim=1)
        path += length
        size = (loss.detach() / (2 * length**2)).clamp(max=longest) * runs
        with torch.no_grad():
            for weight, slope in zip(weights.values(), slopes, strict=True):
                weight -= size[:, None, None] * slope
