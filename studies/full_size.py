"""The vision transformers of the papers at their own size, on CIFAR-10 in full, for ten minutes of one GPU.

Each run is limited by time: it prints images per second in its first seconds and gives up if its epochs do not fit. It
saves after an epoch, once a minute at most, and goes on from there. ``make record NAME=full-size DEVICE=cuda`` makes
the runs. A machine that has PyTorch, SciPy, Numba and Pillow, but neither the book's environment nor a network, needs
the sources and ``data/pieces`` (``python -m studies.pieces`` cuts them): there
``python -m studies.full_size mirror-l1.1 mirror-l2 figure-6 figure-6-frozen --budget 690`` leaves results in
``build/full-size``; with these in place ``make record NAME=full-size`` puts them into the book's records.

Measured on one H100, bfloat16: 17,000 images a second for mirror descent's network (157 s for 50 epochs, 15 of them
until it is compiled), 2,800 for ViT-base (17.7 s an epoch, 25 s until it is compiled). On two cores, with networks of a
twentieth of the width, bfloat16 moved soft sparsity by at most 1.2 %, the norm by .2 % and the shares by .0001; another
seed moves them by up to 100, 4 and .4 %.

What the rows will say was fixed before the first run. Figures 6 and 7 (arXiv:2306.13596), one network: the soft
sparsity of the attention map of the last layer is smaller at the end than at the start; on the way down it rises by at
most a tenth of its fall; the norm of the key-query matrix of the last layer grows by at least 1 %; and hiding the
quarter of the patches that is attended to most costs more than hiding a random quarter. The paper names neither
optimiser nor step size: Adam with the step size that the authors of arXiv:2410.14581 took on the same photographs. The
twin has the same start, photographs and order, and its keys, queries and the layer norms before them never move; of its
epochs nothing is asked. Mirror descent (arXiv:2410.14581), one network for each method, in the authors' setting but for
the number of epochs: right answers on the test photographs after the last epoch, p = 1.1 against Adam and against
p = 2, are at most 1.5 points apart; and the share of the entries that counts in the query, key and value matrices of
all layers, mean over the matrices, is smaller with p = 1.1 than with Adam, and than with p = 2.
"""

import argparse
import json
import math
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch.nn import functional

from studies import networks, pieces
from studies.full_size_network import half, histogram, logits, patches, shares, shuffled, start
from studies.networks.twins import hiding_costs

FOLDER = Path("build/full-size")
TESTS = 10_000  # photographs that no network is trained on, the last of all
PROBES = 250  # photographs on which maps are measured, the first to train on
SHOWN = 12  # test photographs whose maps are kept
PAUSE = 60  # seconds from one saving to the next
MARGIN = 15  # seconds that a run needs after its last epoch


class Plan(NamedTuple):
    """Settings of a run.

    rule, step_size : of :func:`studies.networks.optimiser`; "adam" is the one of torch.
    epochs : int or None, of the cosine schedule; None is a fixed step size for as long as there is time.
    seconds : float, after which no epoch begins; a plan that does not fit is given up.
    pixels : int, along a side; photographs of 32 are made larger.
    augment : bool, crop and flip.
    authors : bool, initial weights and missing biases of the authors of arXiv:2410.14581.
    frozen : bool, keys, queries and the layer norms before them stay.
    """

    rule: str
    step_size: float
    epochs: int | None
    seconds: float
    batch: int
    patch: int
    width: int
    depth: int
    heads: int
    hidden: int
    pixels: int = 32
    dropout: float = 0.0
    augment: bool = False
    authors: bool = False
    frozen: bool = False
    seed: int = 6000
    examples: int = 50_000


FIGURE_6 = Plan("adam", 1e-4, None, 330, 128, 2, 768, 12, 12, 3072)
MIRROR = Plan("l1.1", 0.1, 50, 200, 100, 4, 512, 6, 8, 512, 48, 0.1, augment=True, authors=True)
RUNS = {
    "mirror-l1.1": MIRROR,
    "mirror-adam": MIRROR._replace(rule="adam", step_size=1e-4),
    "mirror-l2": MIRROR._replace(rule="l2"),
    "figure-6": FIGURE_6,
    "figure-6-frozen": FIGURE_6._replace(frozen=True, seconds=110),
}
RUNS |= {f"{name}-{seed}": plan._replace(seed=seed) for seed in (6001, 6002) for name, plan in RUNS.items()}


def make(name, plan, device="cpu", folder=FOLDER):
    """Train the network of a plan, from where an earlier call ended; return its results.

    Curves are lists over the looks or the epochs; ``maps.npz`` holds photographs and their maps.
    """
    folder.mkdir(parents=True, exist_ok=True)
    saved = folder / f"{name}.pt"
    images, labels = (part.to(device) for part in pieces.photographs())
    network = start(plan).to(device)
    state = torch.load(saved, map_location=device, weights_only=False) if saved.exists() else None
    return _train(name, plan, network, images, labels, state, saved)


def _train(name, plan, network, images, labels, state, saved):
    views = {key: weight.detach()[None] for key, weight in network.named_parameters()}
    rule, size = _rule(plan, views)
    record = {"looks": [], "loss": [], "right": [], "seconds": 0.0}
    first = 0
    if state:
        network.load_state_dict(state["network"])
        rule.load_state_dict(state["rule"])
        record, first = state["record"], state["epoch"]
    step = _step(plan, network, views, rule)
    epochs, began, spent = plan.epochs, time.monotonic(), record["seconds"]
    probes = patches(plan, images[:PROBES])
    maps = state["maps"] if state else []
    epoch, kept = first, spent
    while epoch != epochs and not record.get("ended"):
        factor = 1.0 if epochs is None else (1 + math.cos(math.pi * epoch / epochs)) / 2
        rule.param_groups[0][size] = plan.step_size * factor
        inputs, order = shuffled(plan, images, epoch)
        losses = torch.empty(len(order) // plan.batch, device=images.device)
        clock = time.monotonic()
        for k in range(len(losses)):
            if _is_early(plan, epoch, k):
                record["looks"].append(_look(plan, network, views, probes, k))
            rows = slice(k * plan.batch, (k + 1) * plan.batch)
            losses[k] = step(inputs[rows], labels[order[rows]])
            if epoch == first and k in (20, 70):
                clock = pace(name, plan, clock, k, spent + time.monotonic() - began, epoch)
        epoch += 1
        record["loss"].append(losses.mean().item())
        record["right"].append(right(plan, network, images[-TESTS:][:2000], labels[-TESTS:][:2000]))
        if not plan.epochs:
            record["looks"].append(_look(plan, network, views, probes, epoch * len(losses)))
            maps.append(_maps(plan, network, views, images))
        took = time.monotonic() - clock
        record["seconds"] = spent + time.monotonic() - began
        record["ended"] = epoch == epochs or (epochs is None and record["seconds"] + took > plan.seconds)
        print(f"{name} epoch {epoch}: loss {record['loss'][-1]:.4f}, right {record['right'][-1]:.4f}, "
              f"{record['seconds']:.0f} s", flush=True)  # fmt: skip
        if record["ended"] or record["seconds"] > kept + PAUSE:
            kept = record["seconds"]
            save(saved, network=network.state_dict(), rule=rule.state_dict(), record=record, epoch=epoch, maps=maps)
    return _results(plan, network, views, images, labels, record, maps)


def _rule(plan, views):
    """The step rule over the weights, and the name of its step size."""
    if plan.rule == "adam":
        return torch.optim.Adam(views.values(), plan.step_size, fused=views["cls"].is_cuda), "lr"
    return networks.optimiser(plan.rule, views, plan.step_size), "step_size"


def _step(plan, network, views, rule):
    """A function that takes one step on a batch and returns its loss, before the step."""
    on_gpu, weights = views["cls"].is_cuda, [*network.parameters()]

    def loss_of(x, y):
        with torch.autocast(x.device.type, torch.bfloat16, enabled=half(x)):
            answers = logits(network, x, plan.dropout)
        return functional.cross_entropy(answers.float(), y)

    compiled = torch.compile(loss_of, mode="reduce-overhead") if on_gpu else loss_of

    def step(x, y):
        if on_gpu:
            torch.compiler.cudagraph_mark_step_begin()
        loss = compiled(x, y)
        for (key, view), slope in zip(views.items(), torch.autograd.grad(loss, weights), strict=True):
            _hold(plan, key, slope)
            view.grad = slope[None]
        rule.step()
        return loss.detach()

    return step


def _hold(plan, name, slope):
    """Set the gradient of what a plan does not train to zero."""
    if plan.authors and name.endswith("in_proj_bias"):
        slope.zero_()
    if plan.frozen and "in_proj" in name:
        slope[: 2 * plan.width] = 0
    if plan.frozen and "norm1" in name:
        slope.zero_()


def _is_early(plan, epoch, k):
    """Tell the steps of the first epoch after which maps are measured: 0, 1, 2, 4, ..."""
    return not plan.epochs and epoch == 0 and k & (k - 1) == 0


def pace(name, plan, clock, k, spent, epoch):
    """Start the clock after the first steps; then print the pace, and give up a plan that does not fit."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    now = time.monotonic()
    if k == 70:
        images = 50 * plan.batch / (now - clock)
        ahead = ((plan.epochs or epoch + 1) - epoch) * plan.examples / images
        print(f"{name}: {images:.0f} images a second, {plan.examples / images:.1f} s an epoch", flush=True)
        if spent + ahead > plan.seconds:
            raise ValueError(f"{name} needs {spent + ahead:.0f} s and has {plan.seconds}: plan fewer epochs")
    return now


@torch.no_grad()
def right(plan, network, images, labels):
    """Share of right answers."""
    total = 0
    for x, y in zip(images.split(500), labels.split(500), strict=True):
        with torch.autocast(x.device.type, torch.bfloat16, enabled=half(x)):
            total += (logits(network, patches(plan, x)).argmax(-1) == y).sum()
    return total.item() / len(labels)


@torch.no_grad()
def _look(plan, network, views, probes, step):
    """Soft sparsity of the maps of each layer, spread of the last layer's logits, norms of the key-query matrices."""
    attention = networks.apply_in_parts(network, views, probes)[1][0]  # photographs, layers, heads, tokens
    maps = attention[..., 1:].mean(2)
    maps = maps / maps.sum(-1, keepdim=True)
    spread = attention[:, -1, :, 1:].clamp_min(1e-37).log().std(-1).log().mean()
    norms = [networks.key_query_norm(views, network, layer).item() for layer in range(plan.depth)]
    return {"step": step, "sparse": networks.soft_sparsity(maps).mean(0).tolist(), "norm": norms,
            "spread": spread.item()}  # fmt: skip


@torch.no_grad()
def _maps(plan, network, views, images):
    attention = networks.apply_in_parts(network, views, patches(plan, images[-TESTS:][:SHOWN]))[1]
    return networks.cls_map(attention)[0].half().cpu().numpy()


def save(path, **state):
    """Write a state so that a run that is cut off leaves the one before."""
    torch.save(state, path.with_suffix(".part"))
    path.with_suffix(".part").replace(path)


@torch.no_grad()
def _results(plan, network, views, images, labels, record, maps):
    device = torch.cuda.get_device_name() if images.is_cuda else "cpu"
    results = {
        "epochs": len(record["loss"]), "seconds": round(record["seconds"]), "device": device,
        "torch": torch.__version__, "loss": record["loss"], "right": record["right"],
        "right-unseen": right(plan, network, images[-TESTS:], labels[-TESTS:]),
        "right-known": right(plan, network, images[: plan.examples][:TESTS], labels[: plan.examples][:TESTS]),
        "shares": shares(network), "start-shares": shares(start(plan)),
    }  # fmt: skip
    if plan.epochs:
        return results | {"histogram": histogram(network)}
    looks = record["looks"]
    tests, answers = images[-TESTS:][:1000], labels[-TESTS:][:1000]
    costs = []
    for k, (x, y) in enumerate(zip(patches(plan, tests).split(100), answers.split(100), strict=True)):
        attended = networks.cls_map(networks.apply_in_parts(network, views, x)[1])
        costs.append({what: cost.item() for what, cost in hiding_costs(network, views, x, y, attended, k).items()})
    results |= {"at": [look["step"] for look in looks]}
    results |= {what: [look[what] for look in looks] for what in ("sparse", "norm", "spread")}
    results |= {f"hiding-{what}": [cost[what] for cost in costs] for what in costs[0]}
    shown = images[-TESTS:][:SHOWN].cpu().numpy()
    return results | {"maps.npz": {"images": shown, "maps": np.stack(maps)}}


def main(runs=RUNS, make=make):
    """Make the runs that the command names, in their order, and leave their results as JSON and npz."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("runs", nargs="+", choices=runs)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--budget", type=float, default=math.inf, help="seconds for all of them together")
    asked, began = parser.parse_args(), time.monotonic()
    for name in asked.runs:
        left = asked.budget - (time.monotonic() - began) - MARGIN
        try:
            made(name, runs[name]._replace(seconds=min(runs[name].seconds, left)), asked.device, make=make)
        except ValueError as error:
            print(error, flush=True)


def made(name, plan, device, folder=FOLDER, make=make):
    """Results of a run that another machine left in the folder, or of one that is made now and left there."""
    path, arrays = folder / f"{name}.json", folder / f"{name}-maps.npz"
    if not path.exists():
        results = make(name, plan, device, folder)
        if "maps.npz" in results:
            np.savez_compressed(arrays, **results.pop("maps.npz"))
        path.write_text(json.dumps({"settings": plan._asdict(), "found": results}), "utf-8")
    left = json.loads(path.read_text("utf-8"))
    differing = [key for key, value in left["settings"].items() if key != "seconds" and plan._asdict()[key] != value]
    if differing:
        raise ValueError(f"{path} was made with another {differing[0]}: delete it, and run it again")
    return left["found"] | ({f"{name}-maps.npz": dict(np.load(arrays))} if arrays.exists() else {})


if __name__ == "__main__":
    main()
