"""Intervals: a second implementation, known distributions, refusals."""

import pytest
import torch
from problems import seeded
from scipy.stats import binomtest

from lib.intervals import bootstrap, mean, median, wilson


@pytest.mark.parametrize(("hits", "trials"), [(0, 5), (5, 5), (1, 3), (40, 100), (999, 1000)])
def test_wilson_is_that_of_scipy(hits, trials):
    share, (low, high) = wilson(torch.arange(trials) < hits)
    expected = binomtest(hits, trials).proportion_ci(0.95, method="wilson")
    assert share == hits / trials
    assert low.item() == pytest.approx(expected.low, abs=1e-4)
    assert high.item() == pytest.approx(expected.high, abs=1e-4)


def test_wilson_of_many_counts_is_each_alone():
    hits = torch.rand(3, 4, 50, generator=seeded(0)) < 0.3
    share, (low, high) = wilson(hits)
    assert share.shape == low.shape == high.shape == (3, 4)
    assert torch.equal(low[1, 2], wilson(hits[1, 2])[1][0])
    assert ((low < share) & (share < high)).all()


@pytest.mark.parametrize("statistic", [mean, median])
def test_bootstrap_covers_the_truth_about_19_times_in_20(statistic):
    generator = seeded(1)
    ends = [bootstrap(torch.randn(60, generator=generator), generator, statistic, 500) for _ in range(300)]
    covered = sum((low < 0 < high).item() for low, high in ends) / 300
    assert 0.9 <= covered <= 0.98


def test_bootstrap_of_equal_values_is_a_point_and_the_seed_decides():
    assert bootstrap([2.0, 2.0, 2.0], seeded(0)).tolist() == [2.0, 2.0]
    values = torch.randn(20, generator=seeded(2))
    assert torch.equal(bootstrap(values, seeded(0)), bootstrap(values, seeded(0)))
    assert not torch.equal(bootstrap(values, seeded(0)), bootstrap(values, seeded(1)))


def test_refusals():
    with pytest.raises(ValueError, match="True or False"):
        wilson([0.5, 1.0])
    with pytest.raises(ValueError, match="no dimension may be empty"):
        wilson(torch.zeros(0))
    with pytest.raises(ValueError, match="at index \\(1,\\)"):
        bootstrap([1.0, float("nan")], seeded(0))
