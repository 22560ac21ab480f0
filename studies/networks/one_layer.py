"""Train readers: the papers' model of one layer, with tokens that are trained too, by compiled steps."""

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import softplus

from lib import checks

from .measures import attend, soft_sparsity
from .step_rules import flat, optimiser, order_of, step_sizes
from .transformer import patches


class Readers(NamedTuple):
    """Trained readers and the record of their training; all but the weights have the shape (len(at), members).

    at : list of int, numbers of steps.
    losses : mean logistic loss on all rows of a member; NaN, as all else, at looks after a member has stopped.
    paths : lengths of the gradients of all steps so far, together.
    tokens : soft sparsity of the attention, mean over rows and heads.
    weights : dict of Tensor, at the end: ``table`` (members, words, width), both others (members, heads, width).
    """

    at: list[int]
    losses: Tensor
    paths: Tensor
    tokens: Tensor
    weights: dict[str, Tensor]


def train_readers(
    places, values, labels, rows, seeds, step_size, *, rule="sgd", attention="trained", heads=1, batch=1, at=(0,),
    until=0.0, decay=0.0,
):  # fmt: skip
    """Train the papers' model with tokens that are trained too, on the mean logistic loss: a fast network of one layer.

    A token is a sum of rows of a table, ``x_t = sum_k value_tk table[place_tk]``, 8 numbers wide; a head attends by a
    query and reads by a vector, ``f = sum_h v_h . sum_t softmax_t(q_h . x_t / sqrt(8)) x_t``. :func:`apply_readers` is
    the same by tensors.

    Parameters
    ----------
    places : Tensor of int, shape (N, T, k)
        Rows of the table that make a token, such as the number of a word.
    values : Tensor, shape (N, T, k)
        What they are multiplied with: 1 for words, the pixel for images.
    labels : Tensor, shape (N,)
        +1 or -1.
    rows : Tensor of int, shape (members, examples)
        Inputs of each member; those that do not fill the last batch of an epoch are left out of it.
    seeds : sequence of int
        Of the initial weights, and of the order in which a member sees its rows.
    step_size : float or sequence of float
    rule : str
        "sgd", "normalised" (the gradient by its length), mirror descent "l1.1", "l3", ...; and by tensors, many times
        slower, "adam" with the defaults of torch, or "polyak", which moves by ``min(loss / (2 |g|^2), step_size) g``
        along the gradient g of a batch and its loss, whose least value counts as 0: all examples can be learned.
    attention : str
        "trained"; "never", its queries stay as drawn; or "alike", they stay zero, which is mean pooling.
    at : sequence of int
        Numbers of steps after which to look.
    until : float
        Loss at which a member stops, at a look. One that is no longer finite stops, too.
    decay : float
        Step k has the step size times (1 + k / 100)^-decay; 0 for "adam" and "polyak".

    Long runs log their progress every ten seconds, at level INFO.

    Returns
    -------
    Readers

    Raises
    ------
    ValueError
        If shapes do not fit, an entry is out of range or not finite, a label is neither +1 nor -1, or steps of "adam"
        or "polyak" should shrink.
    """
    normalised, norm = rule == "normalised", order_of("sgd" if rule in ("normalised", *BY_TENSORS) else rule)
    if attention not in ("trained", "never", "alike"):
        raise ValueError(f"attention is {attention!r}: use trained, never or alike")
    places = checks.indices("places", places, None, "N", "T", "k")
    values, labels = checks.tensor("values", values), checks.labels(labels)
    checks.trailing_shape("values", values, *places.shape)
    checks.trailing_shape("labels", labels, len(places))
    rows, seeds = checks.indices("rows", rows, len(places), "members", "examples"), checks.seeds(seeds)
    checks.trailing_shape("rows", rows, len(seeds), rows.shape[1])
    checks.integer("heads", heads)
    checks.number("decay", decay, lambda power: power >= 0, "give the power of a step size that shrinks, from 0 on")
    if decay and rule in BY_TENSORS:
        raise ValueError(f"decay is {decay} with the rule {rule}, whose steps do not shrink: leave it out")
    checks.number("until", until, lambda loss: loss >= 0, "give a loss at which to stop, from 0 on")
    if not 0 < checks.integer("batch", batch) <= rows.shape[1]:
        raise ValueError(f"batch is {batch}, each member has {rows.shape[1]} examples: choose at most so many")
    from .kernel import LANES, readers  # imports numba

    shapes = {"table": (int(places.max()) + 1, LANES), "queries": (heads, LANES), "head": (heads, LANES)}
    looks = sorted({checks.integer("at", k, 0) for k in at}) if hasattr(at, "__iter__") else []
    if not looks:
        raise ValueError(f"at is {checks.shown(at)}: give the numbers of steps after which to look")
    weights = torch.stack([_drawn(shapes, seed, attention) for seed in seeds])
    sizes = step_sizes(step_size, len(seeds)).expand(len(seeds)).tolist()

    parts = dict(zip(shapes, weights.split([count for count, _ in shapes.values()], dim=1), strict=True))
    about = {"batch": batch, "freeze_queries": attention != "trained", "until": until, "at": looks}
    inputs = places, values.double(), labels.double()
    if rule in BY_TENSORS:
        records = _train_by_tensors(BY_TENSORS[rule], inputs, rows, seeds, parts, sizes, **about)
    else:
        records = readers(
            *inputs, rows, seeds, weights, sizes, heads=heads, normalised=normalised, norm=norm, decay=decay, **about
        )
    return Readers(looks, *records.unbind(-1), parts)


def _train_by_tensors(rule, inputs, rows, seeds, weights, sizes, *, batch, freeze_queries, until, at):
    """Train all members side by side; change their weights, return their records (len(at), members, 3)."""
    moving = {name: weight.clone().requires_grad_() for name, weight in weights.items()}
    take_step, runs = rule(moving, sizes), set(range(len(seeds)))
    path, records = torch.zeros(len(seeds)).double(), torch.full((len(at), len(seeds), 3), torch.nan).double()
    for step, now in enumerate(batches(rows, seeds, batch)):
        if step in at:
            record = records[at.index(step)]
            for k in sorted(runs):
                member = {name: weight[k : k + 1].detach() for name, weight in moving.items()}
                places, values, labels = (array[rows[k]] for array in inputs)
                outputs, attention = apply_readers(member, places, values)
                loss = softplus(-labels * outputs).mean()
                record[k] = torch.stack([loss, path[k], soft_sparsity(attention).mean()])
                for name, weight in weights.items():
                    weight[k] = member[name][0]
            runs = {k for k in runs if until < record[k, 0] < math.inf}
        if step == at[-1] or not runs:
            return records
        places, values, labels = (array[now] for array in inputs)
        outputs, _ = apply_readers(moving, places, values)
        losses = softplus(-labels * outputs).mean(1)
        losses.sum().backward()
        if freeze_queries:
            moving["queries"].grad.zero_()
        lengths = flat([weight.grad for weight in moving.values()]).norm(dim=1)
        path += lengths
        take_step(losses.detach(), lengths)
        for weight in moving.values():
            weight.grad = None


def _adam(weights, sizes):
    rule = optimiser("adam", weights, sizes)
    return lambda losses, lengths: rule.step()


def _polyak(weights, longest):
    def take_step(losses, lengths):
        sizes = torch.minimum(losses / (2 * lengths**2), torch.tensor(longest).double())
        with torch.no_grad():
            for weight in weights.values():
                weight -= sizes[:, None, None] * weight.grad

    return take_step


BY_TENSORS = {"adam": _adam, "polyak": _polyak}


def batches(rows, seeds, batch):
    """Yield the rows (members, batch) of each step; the last of an epoch that do not fill a batch are left out."""
    from .kernel import epochs_of

    each = rows.shape[1] // batch * batch
    epochs = [epochs_of(member_rows.numpy(), seed) for member_rows, seed in zip(rows, seeds, strict=True)]
    for epoch in zip(*epochs, strict=True):
        yield from torch.from_numpy(np.stack(epoch))[:, :each].split(batch, dim=1)


def patch_places(images, size):
    """Places and values (N, T, k), for :func:`train_readers`, of square patches: their pixels, and where they lie."""
    pixels = patches(images, size).double()
    inputs, tokens, features = pixels.shape
    of_pixels = torch.arange(features).expand(inputs, tokens, -1)
    of_patches = (features + torch.arange(tokens)[:, None]).expand(inputs, -1, -1)
    ones = torch.ones(inputs, tokens, 1, dtype=pixels.dtype)
    return torch.cat([of_pixels, of_patches], -1), torch.cat([pixels, ones], -1)


def reached(record, level):
    """Steps (members,) of :class:`Readers` until the loss is at a level, and the path until then; infinite if never.

    Between two looks the logarithm of the loss is taken as straight.
    """
    above = record.losses.log() - math.log(checks.positive("level", level))
    there = above <= 0
    k = there.int().argmax(0)[None]
    steps = torch.tensor(record.at, dtype=above.dtype)[:, None].expand_as(above)
    (a, b), *ends = [[x.gather(0, j)[0] for j in ((k - 1).clamp_min(0), k)] for x in (above, steps, record.paths)]
    part = (a / (a - b)).clamp(0, 1).nan_to_num(0)  # 0 / 0 at the first look
    return tuple((u + part * (v - u)).where(there.any(0), math.inf) for u, v in ends)


def _drawn(shapes, seed, attention):
    """A reader's initial weights, one below the other: normal, tokens and head of length about 1."""
    generator = torch.Generator().manual_seed(seed)
    drawn = {name: torch.randn(shape, generator=generator, dtype=torch.float64) for name, shape in shapes.items()}
    drawn["table"] /= shapes["table"][1] ** 0.5
    drawn["head"] /= shapes["head"][1] ** 0.5
    drawn["queries"] *= attention != "alike"
    return torch.cat([*drawn.values()])


def apply_readers(weights, places, values):
    """Outputs (members, N) of readers and their attention (members, N, heads, T); weights as of :class:`Readers`.

    Places and values (N, T, k) are those of all members, or each has its own, with the members first.
    """
    table, queries, head = (weights[name] for name in ("table", "queries", "head"))
    if places.ndim == 3:
        tokens = torch.einsum("ntk,mntkw->mntw", values.to(table), table[:, places])
    else:
        entries = table[torch.arange(len(table))[:, None, None, None], places]
        tokens = torch.einsum("mntk,mntkw->mntw", values.to(table), entries)
    attention = attend(tokens[:, :, None], queries[:, None] / table.shape[-1] ** 0.5)
    return torch.einsum("mnht,mntw,mhw->mn", attention, tokens, head), attention
