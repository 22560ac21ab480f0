"""Intervals: how often they cover the truth at the sizes in use, known values, refusals."""

import math

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis.extra.numpy import array_shapes, arrays
from problems import seeded
from scipy.stats import binom, quantile_test

from lib.intervals import correlation_interval, mean_interval, median, median_interval, wilson

DRAWS = 4000


def normal(*shape):
    return torch.randn(shape, generator=seeded(1), dtype=torch.float64)


def exponential(*shape):
    return -torch.rand(shape, generator=seeded(2), dtype=torch.float64).log()


def paired(*shape):
    """Differences of two skewed numbers of each seed."""
    return exponential(2, *shape).diff(dim=0)[0]


def covers_as_often(ends, truth, share):
    """Whether so many draws cover the truth as have this share each, but for one test in a million."""
    low, high = ends
    covered = ((low <= truth) & (truth <= high)).sum()
    return binom.ppf(1e-6, DRAWS, share) <= covered <= binom.isf(1e-6, DRAWS, share)


# Seeds of the networks, data sets and problems of the chapters; the shares of what is not normal are of 200 000 draws.
@pytest.mark.parametrize(
    ("count", "of_paired", "of_skewed"),
    [
        (5, 0.966, 0.883),
        (6, 0.964, 0.886),
        (8, 0.960, 0.894),
        (15, 0.954, 0.913),
        (20, 0.954, 0.918),
        (30, 0.953, 0.928),
        (40, 0.952, 0.932),
    ],
)
def test_the_mean_is_covered_as_often_as_is_said(count, of_paired, of_skewed):
    assert covers_as_often(mean_interval(normal(DRAWS, count)), 0, 0.95)
    assert covers_as_often(mean_interval(paired(DRAWS, count)), 0, of_paired)
    assert covers_as_often(mean_interval(exponential(DRAWS, count)), 1, of_skewed)


def test_the_interval_of_a_mean_of_shares_stays_within_and_covers_as_often():
    shares = exponential(DRAWS, 5) < 2  # all of five for half of the draws
    ends = mean_interval(shares, (0, 1))
    truth = 1 - torch.tensor(-2.0).exp().double()
    beyond = mean_interval(shares)
    assert ends.min() >= 0
    assert ends.max() == 1 < beyond.max()
    assert torch.equal((ends[0] <= truth) & (truth <= ends[1]), (beyond[0] <= truth) & (truth <= beyond[1]))
    with pytest.raises(ValueError, match=r"values contain 1\.5"):
        mean_interval([0.5, 1.5], (0, 1))


@pytest.mark.parametrize("rho", [0.0, -0.9])
def test_a_correlation_of_normal_pairs_is_covered_and_stays_between_its_ends(rho):
    one, other = normal(2, DRAWS, 8, 200)
    pairs = torch.stack((one, rho * one + (1 - rho**2) ** 0.5 * other))
    centred = pairs - pairs.mean(-1, keepdim=True)
    found = (centred[0] * centred[1]).sum(-1) / centred.norm(dim=-1).prod(0)
    assert covers_as_often(correlation_interval(found), rho, 0.95)
    low, high = correlation_interval([-0.999, -0.2, -0.9])
    assert -1 < low < high < 0.999


@pytest.mark.parametrize("count", [*range(6, 31), 40, 100, 101])
def test_the_interval_of_the_median_is_that_of_scipy(count):
    values = normal(count)
    assert median_interval(values).tolist() == [*quantile_test(values.numpy()).confidence_interval(0.95)]


@pytest.mark.parametrize("interval", [mean_interval, median_interval])
def test_many_intervals_are_each_alone_and_of_equal_values_it_is_a_point(interval):
    values = exponential(3, 4, 8)
    assert interval(values).shape == (2, 3, 4)
    assert torch.equal(interval(values)[:, 1, 2], interval(values[1, 2]))
    assert interval([2.0] * 6).tolist() == [2, 2]


@pytest.mark.parametrize(  # published by Newcombe (Statistics in Medicine, 1998)
    ("hits", "trials", "low", "high"),
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_is_the_published_one(hits, trials, low, high):
    share, ends = wilson(torch.arange(trials) < hits)
    assert share.item() == pytest.approx(hits / trials)
    assert torch.stack(ends).tolist() == pytest.approx([low, high], abs=5e-5)


def test_wilson_of_many_counts_is_each_alone():
    hits = torch.rand(3, 4, 50, generator=seeded(0)) < 0.3
    share, (low, high) = wilson(hits)
    assert share.shape == low.shape == high.shape == (3, 4)
    assert torch.equal(low[1, 2], wilson(hits[1, 2])[1][0])
    assert ((low < share) & (share < high)).all()


@given(
    arrays(float, array_shapes(min_dims=2, max_dims=3, max_side=7), elements=st.floats(-1e9, 1e9) | st.just(math.inf))
)
def test_the_median_is_that_of_numpy(values):
    with np.errstate(invalid="ignore"):
        assert median(values).item() == np.median(values)
        for dim in range(values.ndim):
            assert median(values, dim).tolist() == np.median(values, axis=dim).tolist()


def test_a_median_without_values_or_with_nan_is_nan():
    assert median(torch.ones(0, 2), 0).isnan().all()
    assert median(torch.ones(0)).isnan()
    assert median(torch.tensor([[1.0, torch.nan], [1.0, 2.0]]), 1).isnan().tolist() == [True, False]
