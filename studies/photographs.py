"""The recorded runs on photographs: transformers learn CIFAR-10, by each step rule, or beside a frozen twin."""

import torch

from studies import archives, networks

VALIDATION_SIZE = 2000  # photographs that choose step sizes and epochs; no network is trained on them


def train_on_cifar10(seeds, patch, examples, rule, epochs, batch, step_size=None, **sizes):
    """Train transformers on photographs, each on its own; of each measure the epoch that is best on held-out ones.

    With several step sizes only losses and held-out accuracy; "linear" for a rule is least squares on the pixels.
    """
    (images, labels), (held, answers), (new, unseen), rows = _photographs(seeds, patch, examples)
    if rule == "linear":
        guesses = [
            networks.linear_answers(images[member_rows].flatten(1), labels[member_rows], new.flatten(1))
            for member_rows in rows
        ]
        return {"right": torch.stack([(guess == unseen).double().mean() for guess in guesses])}
    network, weights = networks.ensemble(seeds, length=images.shape[1], features=images.shape[2], classes=10, **sizes)
    weights = {name: weight.detach().float().requires_grad_() for name, weight in weights.items()}
    measured, best_weights = networks.train_best(
        network, weights, networks.optimiser(rule, weights, step_size), images, labels, rows, seeds,
        lambda now: networks.accuracy(_answers(network, now, held)[0], answers), epochs=epochs, batch=batch, name=rule,
    )  # fmt: skip
    if isinstance(step_size, list):
        return {name: measured[name] for name in ("losses", "held")}
    logits, tokens = _answers(network, best_weights, new)
    measured |= {"right": networks.accuracy(logits, unseen), "tokens": tokens.mean(1)}
    return measured | {"matrices": best_weights[f"blocks.{sizes['depth'] - 1}.self_attn.in_proj_weight"][0]}


def train_maps(seeds, patch, examples, tests, **settings):
    """Train transformers and their twins on images of CIFAR-10, and measure their attention maps."""
    data = archives.images("cifar10")
    orders = [torch.randperm(50_000, generator=torch.Generator().manual_seed(seed))[:examples] for seed in seeds]
    seen, rows = torch.cat(orders).unique(return_inverse=True)
    train_images, test_images = data.train_images[seen].double(), data.test_images[:tests].double()
    parts = (train_images, data.train_labels[seen]), (test_images, data.test_labels[:tests])
    each = examples // settings["batch"]
    early = [round(2 ** (k / 2)) for k in range(60) if 2 ** (k / 2) < each]
    at = [0, *early, *(each * k for k in range(1, settings["epochs"] + 1))]
    results = networks.train_twins(*_in_patches(parts, patch), rows.view(len(seeds), -1), seeds, at=at, **settings)
    names = ("losses", "sparse", "spread", "norm", "right", "linear")
    hiding = {f"hiding-{name}": value for name, value in results["hiding"].items()}
    return {"at": results["at"]} | {name: results[name] for name in names} | hiding


def _photographs(seeds, patch, examples):
    """Patches and labels of the photographs to train on, to choose by and to test on, and every seed's rows."""
    data = archives.images("cifar10")
    order = torch.randperm(50_000, generator=torch.Generator().manual_seed(0))
    known, held = order[:-VALIDATION_SIZE], order[-VALIDATION_SIZE:]
    drawn = [torch.randperm(len(known), generator=torch.Generator().manual_seed(seed))[:examples] for seed in seeds]
    seen, rows = known[torch.stack(drawn)].unique(return_inverse=True)
    parts = (
        (data.train_images[seen], data.train_labels[seen]),
        (data.train_images[held], data.train_labels[held]),
        (data.test_images, data.test_labels),
    )
    return *_in_patches(parts, patch), rows


def _in_patches(parts, patch):
    """Patches and labels of each part, the channels of the first one with mean 0 and deviation 1."""
    images, _ = parts[0]
    middle, deviation = images.mean((0, 2, 3), keepdim=True), images.std((0, 2, 3), keepdim=True)
    return [(networks.patches((x - middle) / deviation, patch), labels) for x, labels in parts]


def _answers(network, weights, inputs):
    """Logits, and the soft sparsity of the maps of [CLS], of all inputs."""
    with torch.no_grad():
        logits, maps = networks.apply_in_parts(network, weights, inputs)
    return logits, networks.soft_sparsity(networks.cls_map(maps))
