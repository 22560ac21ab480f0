"""Train transformers on images, with twins that show whether the norm makes an attention map sparse."""

import torch

from .measures import accuracy, cls_map, cross_entropy, key_query_norm, linear_answers, soft_sparsity
from .step_rules import optimiser
from .training import train
from .transformer import apply, apply_in_parts, ensemble

TWINS = ("trained", "frozen", "only", "alike")


def train_twins(
    train_set, test_set, rows, seeds, step_size, *, rule="sgd", faster=5.0, probes=60, device="cpu", **settings
):
    """Train networks and, from the same weights on the same images in the same order, three twins of each.

    The *frozen* twin leaves keys, queries and the layer norms before them as they were; the twin *only* trains nothing
    but the keys and queries of the last layer, by steps ``faster`` times as long; *alike* has keys and queries of zero,
    which is uniform attention.

    Parameters
    ----------
    train_set, test_set : pair of Tensor
        Patches (N, T, features) and labels (N,) of the images to train on, and of those to test on.
    rows : Tensor of int, shape (members, examples)
    seeds : sequence of int
        One for each member.
    step_size : float
    rule : str
        Of :func:`optimiser`.
    probes : int
        Images of each member on which its map is measured while it trains.
    **settings
        ``epochs``, ``batch`` and ``at`` of :func:`train`, ``width``, ``depth``, ``heads`` and ``hidden`` of
        :class:`Transformer`.

    Returns
    -------
    dict
        at, numbers of steps; losses (epochs, twins, members); ``sparse``, ``spread`` and ``norm``
        (len(at), twins, members): soft sparsity of the map of [CLS], logarithm of the standard deviation of its logits,
        norm of the key-query matrix of the last layer. On the test images: ``maps``, at start and end
        (2, twins, members, N, T); ``right`` (twins, members); right answers of least squares, ``linear`` (members,);
        and ``hiding``, by how much more the loss rises by hiding the "most" or the "least" attended quarter of the
        patches, or that of most "contrast", than by hiding random ones (members,).
    """
    (inputs, labels), (tests, answers) = train_set, test_set
    sizes = {name: settings.pop(name) for name in ("width", "depth", "heads", "hidden")}
    count, width = len(seeds), sizes["width"]
    like = {"length": inputs.shape[1], "features": inputs.shape[2], "classes": int(labels.max()) + 1}
    network, weights = ensemble([*seeds] * 4, device=device, **like, **sizes)
    _hold(weights, count, width, sizes["depth"] - 1)
    initial = {name: weight.detach().clone() for name, weight in weights.items()}
    every = rows.repeat(4, 1)

    def measure(now):
        maps = apply_in_parts(network, now, inputs[every[:, :probes]])[1]
        logits = maps[:, :, -1, :, 1:].clamp_min(1e-37).log()
        sparsity = {"sparse": soft_sparsity(cls_map(maps)).mean(1), "spread": logits.std(-1).log().mean((1, 2))}
        return sparsity | {"norm": key_query_norm(now, network)}

    longer = torch.tensor([1.0, 1.0, faster, 1.0]).repeat_interleave(count)
    record = train(
        network, weights, optimiser(rule, weights, step_size * longer), inputs, labels, every, [*seeds] * 4,
        measure=measure, name="twins", **settings,
    )  # fmt: skip
    if record.losses.isinf().any():
        raise ValueError(f"step_size is {step_size}: take a smaller one")

    with torch.no_grad():
        logits, end = apply_in_parts(network, weights, tests)
        maps = [cls_map(apply_in_parts(network, initial, tests)[1]), cls_map(end)]
        maps = torch.stack(maps).unflatten(1, (4, count))
        trained = {name: weight[:count] for name, weight in weights.items()}
        hiding = hiding_costs(network, trained, tests, answers, maps[1, 0], seeds[0])
    straight = [
        (linear_answers(inputs[member_rows].flatten(1), labels[member_rows], tests.flatten(1)) == answers)
        .double()
        .mean()
        for member_rows in rows
    ]
    measured = {name: value.cpu().double().unflatten(1, (4, count)) for name, value in record.measured.items()}
    losses = record.losses.unflatten(0, (settings["epochs"], -1)).mean(1).unflatten(1, (4, count)).cpu()
    return measured | {
        "at": record.at, "losses": losses, "maps": maps.cpu(), "hiding": hiding, "linear": torch.stack(straight).cpu(),
        "right": accuracy(logits, answers).unflatten(0, (4, count)).cpu(),
    }  # fmt: skip


def hiding_costs(network, weights, images, answers, attended, seed):
    """Rise of the loss by hiding a quarter of the patches in each of three orders, over that at random."""

    def loss_without(rank):
        away = rank.argsort(-1, descending=True)[..., : rank.shape[-1] // 4]
        visible = torch.ones_like(rank).scatter(-1, away, 0.0)[..., None]
        parts = zip(images.split(250), visible.split(250, 1), strict=True)
        logits = torch.cat([apply(network, weights, part * seen)[0] for part, seen in parts], 1)
        return cross_entropy(logits, answers)

    drawn = torch.rand(attended.shape, generator=torch.Generator().manual_seed(seed)).to(attended)
    contrast = images.square().mean(-1).expand_as(attended).to(attended)
    ranks = {"most": attended, "least": -attended, "contrast": contrast}
    at_random = loss_without(drawn)
    return {name: (loss_without(rank) - at_random).cpu().double() for name, rank in ranks.items()}


def _hold(weights, count, width, last):
    """Freeze what a twin does not train, by gradients of 0; start the last twin with keys and queries of zero.

    The members are all of one kind, then all of the next, as in ``TWINS``; 0 is where the last one's gradients vanish.
    """
    frozen, only, alike = (slice(k * count, (k + 1) * count) for k in (1, 2, 3))

    def freeze(name):
        packed = "self_attn.in_proj" in name
        free = 2 * width if packed and name.startswith(f"blocks.{last}.") else 0

        def hook(slope):
            slope = slope.clone()
            if packed or "norm1" in name:
                slope[frozen, : 2 * width] = 0
            slope[only, free:] = 0
            return slope

        return hook

    for name, weight in weights.items():
        if "self_attn.in_proj" in name:
            weight.data[alike, : 2 * width] = 0
        weight.register_hook(freeze(name))
