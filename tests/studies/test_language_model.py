"""The language model and the ceilings of its heads: a rehearsal, closed forms, and steps of norm 1."""

import math

import pytest
import torch

from lib import geometry
from lib.problem import difference_rows
from lib.selection import selected_tokens
from lib.separators import hard_margin
from studies import head_ceilings, language_model, random_heads


@pytest.fixture
def draw():
    return torch.Generator().manual_seed(1)


@pytest.mark.parametrize("rule", language_model.DECAYS)
def test_a_short_run_stays_in_its_ball_and_below_its_ceilings(rule, draw, monkeypatch):
    monkeypatch.setattr(language_model, "LENGTH", 12)
    text = torch.randint(3, (4000,), generator=draw).cumsum(0) % 7  # the next letter is one of three
    decay = language_model.DECAYS[rule][0]
    results = language_model.train(text[:3000], text[3000:], rule, decay, seed=0, steps=150)
    arrays = results["arrays"]
    factors, tokens = (torch.as_tensor(arrays[name]).double() for name in ("factors", "tokens"))
    ball = language_model.BALLS[rule]
    longest = {"adam": 1.1650, "muon-schulz": 1.2025}.get(rule, 1 + 1e-5)
    assert results["largest"] <= longest
    assert (language_model.size_of(factors, ball) <= longest / decay).all()
    assert results["losses"][-1] < results["losses"][0]
    kept = head_ceilings.bounded(factors[:, :, :1], tokens, ball, queries=2, first=4, seed=0)
    theta = (factors[0, :, 0] @ factors[1, :, 0].mT).flatten(-2) / 2
    for layer in range(2):
        problem = head_ceilings.asked(tokens[layer], torch.as_tensor(kept["places"][layer, 0]).long())
        selected = selected_tokens(problem, theta[layer])
        matrices = head_ceilings.combined(problem, selected, torch.as_tensor(kept["weights"][layer, 0]).double())
        leads = (difference_rows(problem, selected) @ theta[layer][:, None])[..., 0].amin(-1)
        ceilings = head_ceilings.support(matrices, ball, 4) / decay**2 / 2
        assert (leads <= ceilings * longest**2).all()
        assert (leads > 0).all()
        reached = torch.as_tensor(kept["reached"][layer, 0])
        assert torch.allclose(reached.double() / decay**2 / 2, ceilings, rtol=0.02)


@pytest.mark.parametrize(("ball", "norm", "factor"), [("nuclear", "nuclear", 0.5), ("spectral", "spectral", 1.0)])
def test_bounds_are_those_of_the_separators_of_the_library(ball, norm, factor, draw):
    tokens = torch.randn(1, 6, 5, generator=draw, dtype=torch.float64)
    problem = head_ceilings.asked(tokens, torch.tensor([3, 5]))
    selected = torch.tensor([1, 2])
    weights, reached = head_ceilings.multipliers(problem, selected, ball, columns=5)
    bound = head_ceilings.support(head_ceilings.combined(problem, selected, weights), ball, 5)
    svm = hard_margin(difference_rows(problem, selected), norm, shape=(5, 5))
    assert bound.item() == pytest.approx(factor / geometry.norm(svm.theta, norm, (5, 5)).item(), rel=1e-5)
    assert reached == pytest.approx(bound.item(), rel=1e-5)


def test_the_sign_ball_has_the_bound_of_the_sign_norm(draw):
    tokens = torch.randn(1, 6, 5, generator=draw, dtype=torch.float64)
    problem, selected = head_ceilings.asked(tokens, torch.tensor([3, 5])), torch.tensor([1, 2])
    weights, reached = head_ceilings.multipliers(problem, selected, "sign", columns=3)
    bound = head_ceilings.support(head_ceilings.combined(problem, selected, weights), "sign", 3).item()
    svm = hard_margin(difference_rows(problem, selected), "signs", shape=(5, 5))
    exact = 3 / geometry.norm(svm.theta, "signs", (5, 5)).item()
    assert reached <= exact * (1 + 1e-6)
    assert exact <= bound * (1 + 1e-9) <= exact * (1 + 2 * head_ceilings.GAP)


def test_supports_are_reached_by_factors_of_the_ball(draw):
    matrix = torch.randn(6, 6, generator=draw, dtype=torch.float64)
    left, values, right = torch.linalg.svd(matrix)
    inner = ((left[:, :2] @ right[:2]) * matrix).sum()
    assert head_ceilings.support(matrix, "spectral", 2).item() == pytest.approx(inner.item())
    assert head_ceilings.support(matrix, "nuclear", 2).item() == pytest.approx(values[0].item() / 2)
    one = torch.ones(6, dtype=torch.float64)
    assert head_ceilings.support(matrix, "sign", 2) >= 2 * (one @ matrix @ one).abs()
    assert head_ceilings.support(torch.outer(one, one), "sign", 2).item() == pytest.approx(72)


def test_a_query_sees_its_past_alone(draw):
    problem = head_ceilings.asked(torch.randn(2, 5, 3, generator=draw), torch.tensor([2, 5 + 4]))
    assert problem.mask.tolist() == [[True, True, True, False, False], [True] * 5]
    assert math.isinf(problem.logits(torch.randn(9, generator=draw))[0, 3])


def test_the_plan_names_every_rule_and_decay():
    runs = language_model.plan()
    assert len(runs) == sum(len(decays) for decays in language_model.DECAYS.values())
    assert runs["muon-0.25"].settings == {"rule": "muon", "decay": 0.25, "seed": 6000, "steps": language_model.STEPS}


@pytest.mark.parametrize("ball", ["sign", "spectral", "nuclear"])
def test_random_heads_lie_on_the_surface_of_the_ball(ball):
    factors = random_heads.surface(ball, (2, 2, 3, 16, 4), torch.Generator().manual_seed(0))
    assert torch.allclose(language_model.size_of(factors, ball), torch.ones(()).double())
    one, other = factors[0].flatten(0, 1), factors[1].flatten(0, 1)
    assert not torch.isclose(one[:, None], other).all((-2, -1)).any()  # no head is drawn twice
    if ball == "spectral":  # all singular values, not only the largest
        assert torch.allclose(torch.linalg.svdvals(factors), torch.ones(()).double())


def test_each_run_has_a_random_head_for_each_trained_one():
    runs = random_heads.plan()
    assert {run.settings["of"] for run in runs.values()} == set(language_model.plan())
    assert len({run.settings["draw"] for run in runs.values()}) == len(runs)
