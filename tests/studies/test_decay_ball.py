"""Minimisers over balls, against cvxpy and where all leads are equal."""

import math

import cvxpy as cp
import pytest
import torch

from lib.problem import Problem, difference_rows
from lib.selection import optimal_tokens
from studies import decay_ball

SHAPE = 3, 3


@pytest.fixture(scope="module")
def problem():
    generator = torch.Generator().manual_seed(3)
    keys, queries = (torch.randn(2, *size, 3, generator=generator).double() for size in ((2, 3), (2,)))
    return Problem(keys, torch.rand(2, 2, 3, generator=generator).double(), queries)


def within(norm, matrix, radius):
    if norm == "spectral":
        return cp.sigma_max(matrix) <= radius
    return cp.norm(cp.vec(matrix, order="C"), "inf" if norm == math.inf else 2) <= radius


@pytest.mark.parametrize("norm", [math.inf, 2.0, "spectral"])
def test_minimiser_is_that_of_the_exponential_risk_with_its_weights(problem, norm):
    best = optimal_tokens(problem)
    found = decay_ball.solved(problem, best, norm, SHAPE, torch.tensor([20.0]).double())
    assert found["tight"].all()
    assert found["best"].all()
    c, rows = decay_ball.gaps(problem, best)[1], difference_rows(problem, best)
    separator = decay_ball.hard_margin(rows, norm, shape=SHAPE, largest_gap=1e-5)
    radius = 20 * decay_ball.geometry.norm(separator.theta, norm, SHAPE)
    for k in range(2):
        matrix = cp.Variable(SHAPE)
        leads = rows[k].numpy() @ cp.vec(matrix, order="C")
        risk = cp.log_sum_exp(c[k].log().numpy() - leads)
        cp.Problem(cp.Minimize(risk), [within(norm, matrix, radius[k].item())]).solve(cp.CLARABEL)
        assert abs(leads.value.min() - found["lead"][0, k].item()) < 1e-3  # the risks differ by a factor 1 + O(e^-20)


def test_one_difference_ends_at_its_ceiling():
    keys = torch.tensor([[[[1.0, 2.0], [0.0, 0.0]]]]).double()
    one = Problem(keys, torch.tensor([[[1.0, 0.0]]]).double(), torch.tensor([[[1.0, 1.0]]]).double())
    found = decay_ball.solved(one, optimal_tokens(one), math.inf, (2, 2), torch.tensor([3.0, 9.0]).double())
    assert found["lead"][:, 0].tolist() == pytest.approx([3, 9], rel=1e-6)
    assert found["law"][:, 0].tolist() == pytest.approx([3, 9])
