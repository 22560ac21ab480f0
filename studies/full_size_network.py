"""The network of a plan of :mod:`studies.full_size`, made fast, and the photographs that it learns."""

import torch
from torch.nn import functional

from studies import networks
from studies.networks.measures import share_that_counts

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2023, 0.1994, 0.2010)  # of the colours, as the authors have them


def start(plan):
    """The network of a plan before training, in float32; its seed is also that of dropout."""
    torch.manual_seed(plan.seed)
    tokens, features = (plan.pixels // plan.patch) ** 2, 3 * plan.patch**2
    sizes = {"width": plan.width, "depth": plan.depth, "heads": plan.heads, "hidden": plan.hidden}
    network = networks.Transformer(tokens, 10, features, **sizes).float()
    if plan.authors:
        with torch.no_grad():
            for block in network.blocks:  # uniform up to 1 / sqrt(width), where torch's own attention has sqrt(3 / 2)
                block.self_attn.in_proj_weight.mul_((2 / 3) ** 0.5)
            network.cls.mul_(plan.width**0.5)
            network.places.mul_(plan.width**0.5)
    return network


def logits(network, x, dropout=0.0):
    """Logits (N, classes) of patches (N, T, features): :func:`studies.networks.apply` of one network, made fast."""
    x = network.embed(x)
    x = torch.cat([network.cls.to(x.dtype).expand(len(x), 1, -1), x], 1) + network.places.to(x.dtype)
    x = functional.dropout(x, dropout)
    for k, block in enumerate(network.blocks):
        x = _block(block, x, network.heads, dropout, k == len(network.blocks) - 1)
    return network.head(network.norm(x[:, 0]))


def _block(block, x, heads, dropout, last):
    """One block; of the last only [CLS] is read."""
    normed, attention, width = block.norm1(x), block.self_attn, x.shape[-1]
    weight, bias = attention.in_proj_weight, attention.in_proj_bias
    asking = normed[:, :1] if last else normed
    q = functional.linear(asking, weight[:width], bias[:width])
    k, v = functional.linear(normed, weight[width:], bias[width:]).chunk(2, -1)
    q, k, v = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in (q, k, v))
    read = functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).flatten(2)
    x = x[:, : q.shape[2]] + functional.dropout(attention.out_proj(read), dropout)
    inner = functional.dropout(functional.gelu(block.linear1(block.norm2(x))), dropout)
    return x + functional.dropout(block.linear2(inner), dropout)


def half(x):
    """Whether matrix products are in bfloat16, with weights, steps and what is measured in float32: on a GPU."""
    return x.is_cuda


def patches(plan, images):
    """Patches of bytes of photographs, standardised and of the plan's size."""
    mean, deviation = (images.new_tensor(c, dtype=torch.float32).view(3, 1, 1) for c in (MEAN, DEVIATION))
    x = (images.float() / 255 - mean) / deviation
    if plan.pixels != 32:
        x = functional.interpolate(x, size=plan.pixels, mode="bilinear", align_corners=False)
    return networks.patches(x, plan.patch)


def shuffled(plan, images, epoch):
    """Patches of all photographs to train on, in the order of an epoch, cropped and flipped if the plan says so."""
    generator = torch.Generator().manual_seed(plan.seed * 10_000 + epoch)
    order = torch.randperm(plan.examples, generator=generator)
    corners = torch.randint(9, (2, plan.examples), generator=generator).to(images.device)
    flips = torch.randint(2, (plan.examples,), generator=generator).bool().to(images.device)
    order = order.to(images.device)
    dtype = torch.bfloat16 if half(images) else torch.float32
    parts = []
    for rows in torch.arange(plan.examples, device=images.device).split(5000):
        part = images[order[rows]]
        if plan.augment:
            part = cropped(part, corners[:, rows], flips[rows])
        parts.append(patches(plan, part).to(dtype))
    return torch.cat(parts), order


def cropped(images, corners, flips):
    """Photographs within a black border of four pixels, cut at corners (2, N) to their old size; some are mirrored."""
    n, side = images.shape[0], images.shape[-1]
    wide = functional.pad(images, (4, 4, 4, 4))
    span = torch.arange(side, device=images.device)
    rows, columns = (corner[:, None] + span for corner in corners)
    columns = torch.where(flips[:, None], columns.flip(1), columns)
    each = torch.arange(n, device=images.device)[:, None, None, None]
    colours = torch.arange(3, device=images.device)[None, :, None, None]
    return wide[each, colours, rows[:, None, :, None], columns[:, None, None, :]]


def _matrices(network):
    """Weight matrices by kind, those of all layers together."""
    blocks = network.blocks
    packed = [block.self_attn.in_proj_weight.detach().chunk(3) for block in blocks]
    kinds = dict(zip(("query", "key", "value"), zip(*packed, strict=True), strict=True))
    kinds["output"] = [block.self_attn.out_proj.weight.detach() for block in blocks]
    kinds["inner"] = [block.linear1.weight.detach() for block in blocks]
    kinds["outer"] = [block.linear2.weight.detach() for block in blocks]
    return kinds


def shares(network):
    """Share of the entries that count, of each kind of matrix in each layer."""
    return {
        kind: [share_that_counts(w.double().flatten()).item() for w in layers]
        for kind, layers in _matrices(network).items()
    }


def histogram(network):
    """Counts of the query, key and value weights of all layers, in 60 equal pieces of log10 |w| from -6 to 0."""
    kinds = _matrices(network)
    sizes = torch.cat([w.flatten() for kind in ("query", "key", "value") for w in kinds[kind]]).abs().clamp(1e-6, 1)
    return torch.histc(sizes.log10().float(), 60, -6, 0).long().tolist()
