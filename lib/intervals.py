"""Compute 95 % intervals for what a chapter averages or counts over random problems or seeds.

By ``scipy.special``: ``scipy.stats`` has the same and takes four times as long to import.
"""

import math

import torch
from scipy import special

from . import checks


def mean_interval(values, within=(-math.inf, math.inf)):
    """Interval of the mean along the last dimension, by Student's t: for few values too, as of five seeds.

    Methods that share their seeds are compared by their difference at each seed. Of normal values, and of such
    differences, it covers the mean 95 times in 100; of skewed ones less often: of exponential ones 88 times with 5
    values, 92 times with 20.

    Parameters
    ----------
    values : array_like, shape (..., n)
        At least two.
    within : (float, float)
        Least and largest value that there can be, such as 0 and 1 of a share. The mean lies between them, so an
        interval that ends there covers it as often.

    Returns
    -------
    Tensor, shape (2, ...)
        Lower and upper end.

    Raises
    ------
    ValueError
        If there are fewer, or one is not finite or not within.

    Examples
    --------
    >>> [round(end, 4) for end in mean_interval([0.1, 0.3, 0.2, 0.4, 0.2]).tolist()]
    [0.0984, 0.3816]
    """
    values = _enough(values, 2, "mean")
    if (wrong := values[(values < within[0]) | (values > within[1])]).numel():
        raise ValueError(f"values contain {wrong[0]:g}, but within is {within}: give what holds for every value")
    count = values.shape[-1]
    quantile = float(special.stdtrit(count - 1, 0.975))
    ends = [values.mean(-1) + end * values.std(-1) / count**0.5 for end in (-quantile, quantile)]
    return torch.stack(ends).clamp(*within)


def correlation_interval(values):
    """Interval of a correlation that was measured several times, along the last dimension, on Fisher's z scale.

    Student's t gives the interval of the mean of z = artanh(correlation); its ends are taken back to correlations, so
    that they stay between -1 and 1.

    Parameters
    ----------
    values : array_like, shape (..., n)
        At least two correlations, each strictly between -1 and 1.

    Returns
    -------
    Tensor, shape (2, ...)
        Lower and upper end.

    Raises
    ------
    ValueError
        If there are fewer, or one is not strictly between -1 and 1.

    Examples
    --------
    >>> [round(end, 4) for end in correlation_interval([-0.9, -0.6, -0.8]).tolist()]
    [-0.9678, -0.1195]
    """
    values = _enough(values, 2, "correlation")
    if (wrong := values[values.abs() >= 1]).numel():
        raise ValueError(f"values contain {wrong[0]:g}: a correlation lies strictly between -1 and 1")
    return mean_interval(values.atanh()).tanh()


def median(values, dim=None):
    """Median of all values, or along one dimension: of an even number of values the mean of the two in the middle.

    ``torch.median`` takes the lower of the two, so of six or eight values it is systematically too small.

    Parameters
    ----------
    values : array_like
        Infinite ones are allowed.
    dim : int, optional
        Without it, all values.

    Returns
    -------
    Tensor
        Shape of the values without that dimension; nan where one of them is nan or there is none.

    Examples
    --------
    >>> median([3.0, 1.0, 2.0, 10.0]).item()
    2.5
    """
    values = torch.as_tensor(values).double()
    if dim is None:
        values, dim = values.flatten(), 0
    count = values.shape[dim]
    if count == 0:
        return values.sum(dim) + torch.nan
    middle = values.sort(dim).values.narrow(dim, (count - 1) // 2, 2 - count % 2).mean(dim)
    return torch.where(values.isnan().any(dim), torch.nan, middle)


def median_interval(values):
    """Interval of the median along the last dimension, from one of the values to another: right for any distribution.

    So many values lie below the median as a fair coin has heads.

    Parameters
    ----------
    values : array_like, shape (..., n)
        At least six: between the least and the largest of five lies the median 94 times in 100.

    Returns
    -------
    Tensor, shape (2, ...)
        Lower and upper end.

    Raises
    ------
    ValueError
        If there are fewer, or one is not finite.
    """
    values = _enough(values, 6, "median")
    place = math.ceil(special.bdtrik(0.025, values.shape[-1], 0.5)) - 1
    return values.sort(-1).values[..., [place, -1 - place]].movedim(-1, 0)


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

    Examples
    --------
    >>> share, (low, high) = wilson([True] * 19 + [False])
    >>> print(f"{share:.2f}, between {low:.2f} and {high:.2f}")
    0.95, between 0.76 and 0.99
    """
    hits = checks.tensor("hits", hits, "trials")
    if (wrong := hits[(hits != 0) & (hits != 1)]).numel():
        raise ValueError(f"hits contain {wrong[0]:g}: give True or False, or 1 and 0, for each trial")
    share, trials = hits.mean(-1), hits.shape[-1]
    normal = float(special.ndtri(0.975))
    whole = 2 * (trials + normal**2)
    centre = (2 * trials * share + normal**2) / whole
    half = normal / whole * (4 * trials * share * (1 - share) + normal**2).sqrt()
    return share, ((centre - half).where(share > 0, 0.0), (centre + half).where(share < 1, 1.0))


def _enough(values, least, statistic):
    values = checks.tensor("values", values, "n")
    if values.shape[-1] < least:
        raise ValueError(f"{values.shape[-1]} values give no interval of the {statistic}: take at least {least}")
    return values
