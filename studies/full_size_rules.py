"""The step rules of arXiv:2402.05738 on MNIST and CIFAR-10 in full, for ten minutes of one GPU.

A vision transformer is trained by SGD, normalised SGD, Polyak's steps or Adam. Each takes the best of five step sizes,
by the loss on a tenth of the training images after a few epochs on the others, and then trains three networks on all of
them, all for as many epochs. A run prints images per second in its first seconds and gives up if its epochs do not fit.
It saves after each epoch and goes on from there. ``make record NAME=full-size-rules DEVICE=cuda`` makes the runs; on a
machine that has neither the book's environment nor a network,
``python -m studies.full_size_rules mnist-sgd mnist-normalised mnist-polyak mnist-adam --budget 540`` leaves their
results in ``build/full-size``, from which ``make record`` takes them. Nothing was run at this size yet. MNIST in full
needs the four published files in ``data``; the package that ``make data`` gets has 10,000 of its 70,000 images.

What the rows will say was fixed before the first run, on each of MNIST and CIFAR-10, and must hold for all three seeds:
normalised SGD comes sooner to the loss that SGD has after its last epoch; after the last epoch its loss is lower; and
[CLS] then attends to at most half as many tokens as at the start, mean over layers and heads. The same is asked of
Polyak's steps but for the tokens, as the book's claim. Of Adam, and of the answers on test images, nothing is asked.
"""

import math
import os
import time
from typing import NamedTuple

import torch

from studies import archives, full_size, networks, pieces
from studies.recorded import Run

STEPS, FACTOR = 5, 3.0  # step sizes of a list, and from one to the next
LOWEST = {"sgd": 0.01, "normalised": 0.01, "polyak": 0.03, "adam": 0.0003}  # of Polyak the longest step
SEEDS = (6000, 6001, 6002)
TUNING_SEED = 0
PROBES = 500  # test images on which attention is measured


class Plan(NamedTuple):
    """Settings of a run: data, rule, sizes of the network, epochs to tune by and to train, and the seconds it has."""

    data: str
    rule: str
    patch: int = 4
    width: int = 128
    depth: int = 4
    heads: int = 4
    hidden: int = 256
    batch: int = 100
    tuning_epochs: int = 3
    epochs: int = 15
    seconds: float = 130
    examples: int = 60_000


RUNS = {f"mnist-{rule}": Plan("mnist", rule) for rule in LOWEST}
RUNS |= {f"cifar10-{rule}": Plan("cifar10", rule, examples=50_000) for rule in LOWEST}
STUDIES = {"full-size-rules": lambda: {name: Run(plan._asdict()) for name, plan in RUNS.items()}}


def make(study, run, record):
    """Make a run, or take what another machine left; its settings and its results."""
    plan, device = Plan(**run.settings), os.environ.get("DEVICE") or "cpu"
    return run.settings, full_size.made(f"{plan.data}-{plan.rule}", plan, device, make=train)


def data_of(run):
    """The archive that a run reads, with its published hash."""
    return archives.files(run.settings["data"])


def train(name, plan, device="cpu", folder=full_size.FOLDER):
    """Tune and train the networks of a plan; curves (epochs, seeds) as lists, on unseen images also of the start."""
    networks.precision(device)
    folder.mkdir(parents=True, exist_ok=True)
    inputs, labels, tests, answers = (part.to(device) for part in images(plan))
    split, tried = len(inputs) // 10 * 9, [LOWEST[plan.rule] * FACTOR**k for k in range(STEPS)]
    learned, held = (inputs[:split], labels[:split]), (inputs[split:], labels[split:])
    tuning, tuned = f"{name}-tuning", plan._replace(epochs=plan.tuning_epochs)
    losses = _fit(tuning, tuned, learned, held, [TUNING_SEED] * STEPS, tried, device, folder)["unseen"][-1]
    best = min(range(STEPS), key=lambda k: math.inf if losses[k] is None else losses[k])
    if best in (0, STEPS - 1):
        raise ValueError(f"{name}: the best step size, {tried[best]:g}, is at an end of its list: move LOWEST")
    found = _fit(name, plan, (inputs, labels), (tests, answers), SEEDS, tried[best], device, folder)
    where = torch.cuda.get_device_name() if device == "cuda" else "cpu"
    return found | {"step_size": tried[best], "device": where, "torch": torch.__version__}


def images(plan):
    """Patches and labels to train on, in an order drawn once, and to test on; one mean and deviation for all."""
    if plan.data == "mnist":
        known, labels, new, answers, _ = archives.images("mnist")
    else:
        pixels, numbers = pieces.photographs()
        (known, new), (labels, answers) = (
            (part[: -full_size.TESTS].float(), part[-full_size.TESTS :].float()) for part in (pixels, numbers)
        )
        labels, answers = labels.long(), answers.long()
    order = torch.randperm(len(known), generator=torch.Generator().manual_seed(0))[: plan.examples]
    middle, width = known.mean(), known.std()
    known, new = (networks.patches((part - middle) / width, plan.patch) for part in (known, new))
    return known[order], labels[order], new, answers


def _fit(name, plan, known, unseen, seeds, step_size, device, folder):
    """Train an ensemble, from where an earlier call ended: its losses on batches, and what :func:`_look` adds."""
    (inputs, labels), saved = known, folder / f"{name}.pt"
    sizes = {"width": plan.width, "depth": plan.depth, "heads": plan.heads, "hidden": plan.hidden}
    shape = {"length": inputs.shape[1], "classes": 10, "features": inputs.shape[2]}
    network, weights = networks.ensemble(seeds, device=device, **shape, **sizes)
    rule = networks.optimiser("sgd" if plan.rule == "polyak" else plan.rule, weights, step_size)
    record, clock = {"losses": [], "unseen": [], "right": [], "tokens": []}, time.monotonic()
    if saved.exists():
        state = torch.load(saved, map_location=device, weights_only=False)
        record = state["record"]
        rule.load_state_dict(state["rule"])
        for key, weight in weights.items():
            weight.data.copy_(state["weights"][key])
    else:
        _look(network, weights, unseen, record)
    first = len(record["losses"])
    for epoch in range(first, plan.epochs):
        order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(1000 * seeds[0] + epoch))
        losses = []
        for k, rows in enumerate(order.to(device).split(plan.batch)):
            losses.append(_step(network, weights, rule, plan.rule, step_size, inputs[rows], labels[rows]))
            if epoch == first and k in (20, 70):
                clock = full_size.pace(name, plan, clock, k, 0, epoch)
        record["losses"].append(_numbers(torch.stack(losses).mean(0)))
        _look(network, weights, unseen, record)
        print(f"{name} epoch {epoch + 1}: loss {record['losses'][-1]}", flush=True)
        full_size.save(saved, record=record, rule=rule.state_dict(), weights=weights)
    return record


def _step(network, weights, rule, name, longest, x, y):
    """One step of all members on one batch; their losses before it."""
    loss = networks.cross_entropy(networks.apply(network, weights, x)[0], y)
    slopes = torch.autograd.grad(loss.sum(), [*weights.values()])
    loss = loss.detach()
    if name == "polyak":
        sizes = loss / (2 * networks.flat(slopes).norm(dim=1) ** 2)
        rule.param_groups[0]["step_size"] = sizes.minimum(torch.as_tensor(longest).to(sizes))
    for weight, slope in zip(weights.values(), slopes, strict=True):
        weight.grad = slope
    rule.step()
    return loss


@torch.no_grad()
def _look(network, weights, unseen, record):
    """Add loss and right answers on unseen images, and the tokens that [CLS] attends to on some of them."""
    inputs, labels = unseen
    outputs = torch.cat([networks.apply(network, weights, part)[0] for part in inputs.split(500)], 1)
    attention = networks.apply(network, weights, inputs[:PROBES])[1]
    found = {"unseen": networks.cross_entropy(outputs, labels), "right": networks.accuracy(outputs, labels)}
    found["tokens"] = networks.soft_sparsity(attention).flatten(1).mean(1)
    for name, values in found.items():
        record[name].append(_numbers(values))


def _numbers(values):
    """A number for each member, None where it is not finite."""
    return [value if math.isfinite(value) else None for value in values.tolist()]


if __name__ == "__main__":
    full_size.main(RUNS, train)
