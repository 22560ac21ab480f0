"""Measure a trained network: loss, accuracy, the map of [CLS], sparsity of attention, norms of key-query matrices."""

import torch
from torch import nn


def cross_entropy(logits, labels):
    """Mean cross-entropy (members,) of logits (members, N, classes) at labels (members, N) or (N,)."""
    labels = labels.expand(logits.shape[:-1])
    return nn.functional.cross_entropy(logits.movedim(-1, 1), labels, reduction="none").mean(-1)


def accuracy(logits, labels):
    """Share (members,) of right answers; logits that are not finite give no answer."""
    right = (logits.argmax(-1) == labels) & logits.isfinite().all(-1)
    return right.double().mean(-1)


def linear_answers(features, labels, unseen):
    """Classes (N',) that ridge regression gives to unseen features: the linear baseline of a network.

    Features are centred, and the penalty on the square of the weights is 1.

    Parameters
    ----------
    features : Tensor, shape (N, d)
    labels : Tensor of int, shape (N,)
    unseen : Tensor, shape (N', d)

    Examples
    --------
    >>> features = torch.tensor([[0.0], [1.0], [4.0], [5.0]])
    >>> linear_answers(features, torch.tensor([0, 0, 1, 1]), features + 0.5).tolist()
    [0, 0, 1, 1]
    """
    middle = features.double().mean(0)
    rows, wanted = features.double() - middle, nn.functional.one_hot(labels).double()
    gram = rows.mT @ rows + torch.eye(rows.shape[1], dtype=rows.dtype, device=rows.device)
    weights = torch.linalg.solve(gram, rows.mT @ (wanted - wanted.mean(0)))
    return ((unseen.double() - middle) @ weights + wanted.mean(0)).argmax(-1)


def cls_map(attention):
    """Map of [CLS] on the tokens: last block, mean over heads, without what it gives itself.

    The map of Figure 6 (arXiv:2306.13596).

    Parameters
    ----------
    attention : Tensor, shape (..., depth, heads, T + 1)

    Returns
    -------
    Tensor, shape (..., T)
        Adds up to 1.
    """
    given = attention[..., -1, :, 1:].mean(-2)
    return given / given.sum(-1, keepdim=True)


def soft_sparsity(attention):
    """1 / sum of squares of probabilities along the last dimension: T if they are equal, 1 if one has all.

    The measure ``|s|_1 / |s|_2^2`` of Figure 7 (arXiv:2306.13596).
    """
    return 1 / attention.square().sum(-1)


def key_query_norm(parameters, network, layer=-1):
    """Frobenius norm of the key-query matrices ``W_Q^T W_K`` of all heads of a layer together, shape (members,).

    The norm of Figure 7 (arXiv:2306.13596), up to the paper's unknown way to combine its heads.
    """
    depth = len(network.blocks)
    if layer not in range(-depth, depth):
        raise ValueError(f"layer is {layer}: there are {depth}, from {-depth} to {depth - 1}")
    layer %= depth
    heads = network.blocks[layer].self_attn.num_heads
    queries, keys, _ = parameters[f"blocks.{layer}.self_attn.in_proj_weight"].detach().chunk(3, dim=1)
    queries, keys = queries.unflatten(1, (heads, -1)), keys.unflatten(1, (heads, -1))
    return torch.linalg.vector_norm(queries.mT @ keys, dim=(1, 2, 3))


def shares(weights, network):
    """Share of entries that count, ``(|w|_1 / |w|_2)^2`` by their number, in each member's matrices of the last block.

    It is 1 where all entries have one size, 2/pi where they are normal. Of the query, key and value matrix, and of the
    key-query matrices ``W_Q^T W_K`` of the heads, mean over heads.
    """
    packed = weights[f"blocks.{len(network.blocks) - 1}.self_attn.in_proj_weight"].detach().double()
    matrices = dict(zip(("query", "key", "value"), packed.chunk(3, dim=1), strict=True))
    query, key = (matrices[name].unflatten(1, (network.heads, -1)) for name in ("query", "key"))
    shares_by_name = {name: share_that_counts(matrix.flatten(1)) for name, matrix in matrices.items()}
    return shares_by_name | {"product": share_that_counts((query.mT @ key).flatten(2)).mean(1)}


def share_that_counts(entries):
    """Share of entries (..., n) that count, ``(|w|_1 / |w|_2)^2 / n``, shape (...); 1 where all are zero."""
    lengths = entries.norm(p=1, dim=-1) / entries.norm(dim=-1)
    return (lengths.square() / entries.shape[-1]).nan_to_num(1.0)


def attend(tokens, queries):
    """Attention ``softmax(x_t . q)``, shape (..., T), of tokens (..., T, width) to queries (..., width)."""
    return (tokens @ queries[..., None])[..., 0].softmax(-1)
