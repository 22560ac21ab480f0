"""The recorded runs on photographs: transformers learn CIFAR-10 by one step rule."""

import torch

from studies import archives, networks

HELD = 2000  # photographs by which step sizes and epochs are chosen; no network is trained on them


def see(seeds, patch, examples, rule, epochs, batch, step_size=None, **sizes):
    """Transformers learn photographs, each its own; of each the epoch that is best on held-out ones is kept.

    With several step sizes, or "linear" for a rule, which is least squares on the pixels, less is found.
    """
    (told, labels), (held, answers), (new, unseen), rows = _photographs(seeds, patch, examples)
    if rule == "linear":
        guesses = [networks.linear_answers(told[own].flatten(1), labels[own], new.flatten(1)) for own in rows]
        return {"right": torch.stack([(guess == unseen).double().mean() for guess in guesses])}
    network, weights = networks.ensemble(seeds, length=told.shape[1], features=told.shape[2], classes=10, **sizes)
    weights = {name: weight.detach().float().requires_grad_() for name, weight in weights.items()}
    best, kept = torch.full((len(seeds),), -1.0), {name: weight.detach().clone() for name, weight in weights.items()}
    start = networks.shares(kept, network)

    def look(now):
        right = networks.accuracy(_answers(network, now, held)[0], answers).float()
        better = right > best
        best[better] = right[better]
        for name, weight in now.items():
            kept[name][better] = weight[better]
        return {"held": right}

    record = networks.train(
        network, weights, networks.optimiser(rule, weights, step_size), told, labels, rows, seeds, epochs=epochs,
        batch=batch, measure=look, name=rule,
    )  # fmt: skip
    found = {"losses": record.losses.unflatten(0, (epochs, -1)).mean(1), "held": record.measured["held"]}
    if isinstance(step_size, list):
        return found
    logits, tokens = _answers(network, kept, new)
    found |= {"epoch": found["held"].argmax(0), "right": networks.accuracy(logits, unseen), "tokens": tokens.mean(1)}
    found |= networks.shares(kept, network) | {f"start-{name}": value for name, value in start.items()}
    return found | {"matrices": kept[f"blocks.{sizes['depth'] - 1}.self_attn.in_proj_weight"][0]}


def _photographs(seeds, patch, examples):
    """Patches and labels of the photographs to train on, to choose by and to test on, and every seed's rows."""
    data = archives.images("cifar10")
    order = torch.randperm(50_000, generator=torch.Generator().manual_seed(0))
    known, held = order[:-HELD], order[-HELD:]
    drawn = [torch.randperm(len(known), generator=torch.Generator().manual_seed(seed))[:examples] for seed in seeds]
    seen, rows = known[torch.stack(drawn)].unique(return_inverse=True)
    told = data.train_images[seen]
    middle, deviation = told.mean((0, 2, 3), keepdim=True), told.std((0, 2, 3), keepdim=True)
    pairs = (
        (told, data.train_labels[seen]),
        (data.train_images[held], data.train_labels[held]),
        (data.test_images, data.test_labels),
    )
    return *((networks.patches((x - middle) / deviation, patch), labels) for x, labels in pairs), rows


def _answers(network, weights, inputs):
    """Logits, and the soft sparsity of the maps of [CLS], of all inputs, some at a time."""
    with torch.no_grad():
        found = [networks.apply(network, weights, part) for part in inputs.split(250)]
    logits, maps = (torch.cat(parts, 1) for parts in zip(*found, strict=True))
    return logits, networks.soft_sparsity(networks.cls_map(maps))
