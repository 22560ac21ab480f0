"""95 % intervals for what a chapter counts or averages over random problems."""

import torch

from . import checks


def wilson(hits):
    """Share of hits along the last dimension, and its interval by Wilson's score.

    Parameters
    ----------
    hits : array_like of bool or of 0 and 1, shape (..., trials)

    Returns
    -------
    share : Tensor, shape (...)
    (low, high) : Tensors, shape (...)

    Raises
    ------
    ValueError
        If there are no trials, or an entry is neither 0 nor 1.
    """
    hits = checks.tensor("hits", hits, "trials")
    if not ((hits == 0) | (hits == 1)).all():
        raise ValueError("hits must be True or False, or 1 and 0: one for each trial")
    count, hit, z = hits.shape[-1], hits.sum(-1), 1.96
    centre, half = hit + z**2 / 2, z * (hit * (count - hit) / count + z**2 / 4).sqrt()
    return hit / count, ((centre - half) / (count + z**2), (centre + half) / (count + z**2))


def mean(values):
    """Mean along the last dimension."""
    return values.mean(-1)


def median(values):
    """Median along the last dimension, the lower of two middle ones."""
    return values.median(-1).values


def bootstrap(values, generator, statistic=mean, draws=2000):
    """Interval of a statistic over problems, from problems drawn again with replacement (percentiles).

    Parameters
    ----------
    values : array_like, shape (problems,)
    generator : torch.Generator
    statistic : callable
        From (draws, problems) to (draws,): :func:`mean`, :func:`median`.
    draws : int

    Returns
    -------
    Tensor, shape (2,)
        Lower and upper end.
    """
    values = checks.tensor("values", values, "problems")
    chosen = torch.randint(len(values), (draws, len(values)), generator=generator)
    return statistic(values[chosen]).quantile(torch.tensor([0.025, 0.975]))
