"""Ceilings of large matrices, optimisers by their classes, and training on frozen tokens."""

import itertools
import math

import pytest
import torch

from lib.geometry import norm
from lib.problem import Problem, difference_rows
from lib.selection import optimal_tokens
from lib.separators import hard_margin
from studies import frozen_decay, products, unit_balls


@pytest.fixture
def texts():
    """Two inputs of three tokens, the last one hidden, of width 5."""
    draw = torch.Generator().manual_seed(3)
    keys, queries = (torch.randn(*size, 5, generator=draw, dtype=torch.float64) for size in ((2, 4), (2,)))
    mask = torch.tensor([[True] * 4, [True] * 3 + [False]])
    problem = Problem(keys, torch.rand(2, 4, generator=draw, dtype=torch.float64), queries, mask=mask)
    best = optimal_tokens(problem)
    others = mask & ~torch.nn.functional.one_hot(best, 4).bool()
    away = (keys[torch.arange(2), best][:, None] - keys)[others]
    return frozen_decay.Texts(problem, best, others, away, others.nonzero()[:, 0])


@pytest.mark.parametrize(("best", "of"), [(unit_balls.spectral, "spectral"), (unit_balls.signs, math.inf)])
def test_the_bound_is_that_of_the_separator(texts, best, of):
    rows = difference_rows(texts.problem, texts.best).unique(dim=0)
    separator = hard_margin(rows[rows.abs().sum(-1) > 0], of, shape=(5, 5))
    bound, reached, weights = unit_balls.multipliers(texts.away, texts.of, texts.problem.queries, best)
    assert reached <= 1 / norm(separator.theta, of, (5, 5)) * (1 + 1e-6) <= bound * (1 + 2e-6)
    assert bound - reached <= unit_balls.GAP * bound
    assert weights.min() >= 0
    assert weights.sum() == pytest.approx(1)


def test_products_of_signs_are_all_that_three_queries_tell_apart():
    draw = torch.Generator().manual_seed(1)
    left, queries = (torch.randn(*size, generator=draw, dtype=torch.float64) for size in ((4, 3), (3, 6)))
    best = unit_balls.products_of_signs(queries)
    size, points = best((left, queries))
    vectors = torch.tensor(list(itertools.product([1.0, -1.0], repeat=6)), dtype=torch.float64)
    assert size == pytest.approx((vectors @ (left @ queries).mT).abs().sum(-1).max())
    assert (left * points[0]).sum() == pytest.approx(size)


@pytest.mark.parametrize("power", [1, 0.5])
def test_exact_muon_comes_near_the_law_and_not_above_the_ceiling(texts, power):
    near = frozen_decay.reduced(texts)
    bound, _, weights = unit_balls.multipliers(near.away, near.of, near.problem.queries, unit_balls.spectral)
    decays = [(bound / 10) ** power]
    start = frozen_decay.started(near, decays, frozen_decay.polar, power, 0)
    ends = frozen_decay.trained(near, start, frozen_decay.polar(start, decays), 400)
    assert ends["other"] == [0]
    assert ends["lead"][0] <= 10
    assert ends["lead"][0] == pytest.approx(10 - frozen_decay.constant(weights), rel=0.05)


def test_rates_are_step_size_times_decay(texts):
    weights = [[torch.nn.Parameter(torch.ones(3, 2))]]
    weights[0][0].grad = torch.ones(3, 2)
    frozen_decay.adamw(weights, [0.5])(0.1)
    assert torch.allclose(weights[0][0], torch.full((3, 2), 0.9 - 0.1 / 0.5))


def test_lion_is_its_published_formula():
    part, gradients = torch.tensor([1.0, -2.0], requires_grad=True), [[0.3, -1.0], [-0.01, 2.0]]
    made, theta, memory = products.Lion([part], lr=0.1, weight_decay=0.5), [1.0, -2.0], [0.0, 0.0]
    for gradient in gradients:
        part.grad = torch.tensor(gradient)
        made.step()
        for k, slope in enumerate(gradient):
            theta[k] -= 0.1 * (math.copysign(1, 0.9 * memory[k] + 0.1 * slope) + 0.5 * theta[k])
            memory[k] = 0.99 * memory[k] + 0.01 * slope
    assert part.tolist() == pytest.approx(theta)


def test_heads_of_one_matrix_share_the_ball_of_muon():
    x, z = torch.eye(6)[:1], torch.eye(6)[1:2]
    start = [0.1 * torch.randn(6, 4, generator=torch.Generator().manual_seed(k)) for k in range(2)]
    pair = x.expand(2, -1), z.expand(2, -1)
    whole = (products.leads(torch.optim.Muon, 0.5, *each, start, 2500).sum().item() for each in ((x, z), pair))
    assert next(whole) == pytest.approx(next(whole), rel=0.05)
