"""Draw sparse teachers W*, and inputs of which a teacher chooses one token each."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from lib import checks
from lib.datasets import coin_labels


def sparse_entries(entries, count, size, generator):
    """Vectors (count, size) of which ``entries`` are +1 or -1, by fair coins and in random places, and the others 0.

    Examples
    --------
    >>> sparse_entries(3, 2, 8, torch.Generator().manual_seed(0)).abs().sum(-1).tolist()
    [3.0, 3.0]
    """
    for name, value in {"entries": entries, "count": count, "size": size}.items():
        checks.integer(name, value)
    if entries > size:
        raise ValueError(f"entries is {entries}: a vector of {size} has at most {size} of them")
    ranks = torch.rand(count, size, generator=generator, dtype=torch.float64, device=generator.device).argsort(-1)
    return coin_labels(count, size, generator) * (ranks < entries)


class Choices(NamedTuple):
    """Inputs and the tokens that a teacher chose: ``Problem(tokens, one_hot(chosen), queries)`` learns them.

    tokens (trials, n, T, d), queries (trials, n, d), chosen (trials, n) of int.
    """

    tokens: Tensor
    queries: Tensor
    chosen: Tensor


def taught_choices(teachers, n, T, generator, noise=0.0):
    """Gaussian tokens and queries, and of each input the token with the largest logit under a teacher W*.

    Parameters
    ----------
    teachers : Tensor, shape (trials, d * d)
        vec(W*), one for each trial.
    n, T : int
    generator : torch.Generator
    noise : float
        Share of the inputs in which another token is chosen, at random.

    Returns
    -------
    Choices

    Examples
    --------
    >>> generator = torch.Generator().manual_seed(0)
    >>> teachers = sparse_entries(4, 3, 64, generator)
    >>> tuple(taught_choices(teachers, n=5, T=4, generator=generator).chosen.shape)
    (3, 5)
    """
    checks.integer("n", n)
    checks.generator(generator)
    checks.integer("T", T, 2)
    checks.number("noise", noise, lambda share: 0 <= share <= 1, "give a share from 0 to 1")
    matrices = checks.tensor("teachers", teachers, "trials", "d * d")
    trials, d = len(matrices), math.isqrt(matrices.shape[-1])
    if d * d != matrices.shape[-1]:
        raise ValueError(f"teachers have {matrices.shape[-1]} entries: give vec(W*) of square matrices")
    like = {"generator": generator, "dtype": torch.float64, "device": generator.device}
    tokens, queries = torch.randn(trials, n, T, d, **like), torch.randn(trials, n, d, **like)
    wanted = torch.einsum("bde,bne->bnd", matrices.unflatten(-1, (d, d)), queries)
    chosen = torch.einsum("bntd,bnd->bnt", tokens, wanted).argmax(-1)
    wrong = torch.rand(trials, n, **like) < noise
    away = torch.randint(1, T, (trials, n), generator=generator, device=generator.device)
    return Choices(tokens, queries, torch.where(wrong, (chosen + away) % T, chosen))
