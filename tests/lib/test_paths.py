"""Regularisation paths: closed forms, brute force over the disc, and a second method above the plane."""

import math
from dataclasses import replace

import pytest
import torch
from problems import seeded

from lib import losses
from lib.geometry import (
    along_circle,
    in_cone,
    inverse_mirror_map,
    norm,
    on_circle,
    one_minus_cosine,
    unit,
)
from lib.logspace import excess_risk
from lib.paths import multistart_path, regularization_path, stationarity
from lib.problem import Problem, difference_rows
from lib.selection import limit_offset, optimal_tokens, selected_tokens
from lib.separators import att_svm, hard_margin

RADII = torch.logspace(0, 4, 9)
every_loss = pytest.mark.parametrize("loss", list(losses.LOSSES.values()), ids=lambda loss: loss.name)


def in_the_plane(seed, n=2, T=3, batch=()):
    """Random problems, their optimal token ahead so that it can be separated more often than not."""
    generator = seeded(seed)
    keys = torch.randn(*batch, n, T, 2, generator=generator)
    keys[..., 0, :] += torch.tensor([2.0, 0.0])
    scores = torch.rand(*batch, n, T, generator=generator)
    scores[..., 0] += 0.5
    return Problem(keys, scores)


# --- closed forms


@every_loss
@pytest.mark.parametrize("ratio", [1.0, 3.0, 100.0])
def test_offset_of_two_orthogonal_rows(loss, ratio):
    # The risk is about c1 e^{-x-y} + c2 e^{-x+y}: on a large circle y tends to log(c1 / c2) / 2.
    problem = Problem([[[1.0, 1.0], [0.0, 0.0]], [[1.0, -1.0], [0.0, 0.0]]], [[ratio, 0.0], [1.0, 0.0]])
    weight = loss.log_slope(problem.scores[:, 0]) + problem.scores[:, 0].log()
    path = regularization_path(problem, loss, [1e6])
    assert path.theta[0, 1].item() == pytest.approx((weight[0] - weight[1]).item() / 2, rel=1e-5, abs=1e-9)


def test_a_minimiser_between_the_radii_is_found():
    # Opposed rows of unequal score balance at one finite x; a second such pair on the other axis pins y as well.
    rows = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [0.0, 1.0], [0.0, -1.0]])
    scores = torch.tensor([[2.0, 0.0], [0.5, 0.0], [2.0, 0.0], [0.5, 0.0]])
    problem = Problem(torch.stack([rows, torch.zeros(4, 2)], dim=1), scores)
    x = torch.linspace(-5, 5, 1_000_001)
    best = x[(torch.exp(-2 * x.sigmoid()) + torch.exp(-0.5 * (-x).sigmoid())).argmin()]
    path = regularization_path(problem, losses.exponential, [0.01, 0.1, 1.0, 10.0])
    torch.testing.assert_close(path.theta[-1], best.expand(2), rtol=0.08, atol=0)
    assert 1 < best < 2


# --- cones


def test_a_cone_without_the_minimiser_ends_on_its_edge():
    problem = Problem([[[1.0, 0.0], [0.0, 0.0]]], [[1.0, 0.0]])
    axis, opening = torch.tensor([0.0, 2.0]), 1 - math.cos(0.3)
    path = regularization_path(problem, losses.logistic, RADII, cone=(axis, opening))
    edge = torch.tensor([math.sin(0.3), math.cos(0.3)])
    torch.testing.assert_close(path.theta, RADII[:, None] * edge)
    assert in_cone(path.theta, axis, opening * (1 + 1e-9)).all()


def test_a_cone_around_the_wrong_token_stays_at_its_first_radius():
    problem = Problem([[[1.0, 0.0], [0.0, 0.0]]], [[0.5, 1.0]])
    path = regularization_path(problem, losses.logistic, RADII, cone=(torch.tensor([1.0, 0.0]), 0.1))
    torch.testing.assert_close(norm(path.theta), RADII[:1].expand(9))
    assert path.selected.tolist() == [0]
    assert (path.excess.direction == -1).all()  # all of the ray has a lower risk than its end


def test_each_problem_its_own_cone():
    problem = in_the_plane(4, batch=(5,))
    axes, openings = torch.randn(5, 2, generator=seeded(4)), torch.linspace(0.01, 0.5, 5)
    together = regularization_path(problem, losses.logistic, RADII, cone=(axes, openings), angles=100)
    for k in range(5):
        alone = regularization_path(problem[k], losses.logistic, RADII, cone=(axes[k], openings[k]), angles=100)
        torch.testing.assert_close(together.theta[:, k], alone.theta, rtol=1e-6, atol=1e-6)


def test_a_window_between_two_ties_is_searched_in_a_cone():
    # The lowest risk is in a window of 0.003 between two ties; 60 angles of the cone are 0.015 apart.
    keys = [
        [[-0.0332, -1.7386], [1.0237, 0.0959], [-1.5863, 2.0818]],
        [[-0.6612, -0.2696], [0.8546, 0.3484], [0.7402, 0.1513]],
    ]
    problem = Problem(keys, [[0.1694, -0.6390, -1.1668], [-0.3542, 1.6174, -0.5634]])
    axis, opening, radii = torch.tensor([0.8649, -0.5019]), 0.1, torch.logspace(-1, 6, 4)
    path = regularization_path(problem, losses.logistic, radii, cone=(axis, opening), angles=60)
    middle, half = math.atan2(axis[1], axis[0]), math.acos(1 - opening)
    everywhere = on_circle(torch.linspace(middle - half, middle + half, 100_001), 1.0)
    lowest = problem.risk(losses.logistic, radii[:, None, None] * everywhere).min()
    assert problem.risk(losses.logistic, path.theta[-1]) <= lowest + 1e-9


def test_equal_keys_and_hidden_tokens_in_a_cone():
    problem = Problem([[[1.0, 0.0], [0.0, 0.0], [0.0, 0.0]]] * 2, [[1.0, 0.0, 0.0]] * 2)
    hidden = replace(problem, mask=[[True, True, True], [True, True, False]])
    for one in (problem, hidden, problem[None]):
        path = regularization_path(one, losses.logistic, RADII, cone=(torch.tensor([1.0, 0.2]), 0.1), angles=20)
        assert one_minus_cosine(path.theta[-1], torch.tensor([1.0, 0.0])).max() < 1e-12


# --- above the plane


@pytest.mark.parametrize(("order", "seed"), [(2.0, 0), (2.0, 1), (1.5, 0), (1.75, 1), (3.0, 0)])
def test_multistart_agrees_with_the_global_search_in_the_plane(order, seed):
    problem, radii = in_the_plane(seed), torch.logspace(0, 2, 3)
    starts = torch.randn(12, 2, generator=seeded(seed))
    path = multistart_path(problem, losses.logistic, radii, starts, optimal_tokens(problem), order)
    exact = regularization_path(problem, losses.logistic, radii, norm=order)
    torch.testing.assert_close(path.excess.log_scale, exact.excess.log_scale, rtol=1e-9, atol=1e-7)
    torch.testing.assert_close(path.theta, exact.theta, rtol=1e-3, atol=1e-3)


def test_multistart_above_the_plane_is_stationary_and_no_higher_than_the_svm():
    # At most lengths here every random direction is on a plateau of the risk, with all attention on one token or other.
    generator = seeded(0)
    keys = torch.randn(20, 2, 4, 5, generator=generator)
    scores = torch.rand(20, 2, 4, generator=generator)
    problem = Problem(keys, scores)
    svm = att_svm(problem, infeasible="mark")
    kept = torch.nonzero(svm.feasible & (norm(svm.theta) < 10)).flatten()[:3]
    problem, theta = problem[kept], svm.theta[kept]
    assert len(kept) == 3
    for one, separator in zip(problem, theta, strict=True):
        selected, radii = optimal_tokens(one), norm(separator) * torch.tensor([1.0, 10.0, 100.0, 1000.0])
        starts = torch.randn(4, 5, generator=generator)
        path = multistart_path(one, losses.logistic, radii, starts, selected)
        assert stationarity(one, losses.logistic, path.theta).max() < 1e-12
        rival = excess_risk(one, losses.logistic, radii[:, None] * unit(separator), selected)
        assert (path.excess.log_scale <= rival.log_scale + 1e-9).all()
        assert torch.equal(selected_tokens(one, path.theta[-1]), selected)


def test_multistart_of_tokens_that_no_direction_separates_is_as_low_as_the_line_of_their_rows():
    # The rows are (1, 0, 0) and its opposite, of unequal score: the risk moves with the first entry alone.
    keys = [[[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]], [[-1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]
    problem = Problem(keys, [[2.0, 0.0], [0.5, 0.0]])
    path = multistart_path(problem, losses.exponential, [1.0, 10.0], torch.eye(3), [0, 0])
    line = torch.linspace(-1, 1, 10_001)[:, None] * torch.tensor([10.0, 0.0, 0.0])
    risks = problem.risk(losses.exponential, line)
    assert problem.risk(losses.exponential, path.theta[-1]) <= risks.min() + 1e-9
    assert problem.risk(losses.exponential, path.theta[0]) <= risks[line[:, 0].abs() <= 1].min() + 1e-9


# --- in other norms

every_order = pytest.mark.parametrize("order", [1.1, 1.5, 1.75, 2.0, 3.0, 10.0])


@every_order
def test_the_tangents_of_a_circle(order):
    angles = torch.linspace(-3, 3, 50)
    circle = on_circle(angles, 7.0, order)
    torch.testing.assert_close(norm(circle, order), torch.full((50,), 7.0), rtol=1e-13, atol=0)
    torch.testing.assert_close(torch.atan2(circle[:, 1], circle[:, 0]), angles, rtol=1e-12, atol=1e-12)
    ahead, behind = on_circle(angles + 1e-6, 7.0, order), on_circle(angles - 1e-6, 7.0, order)
    torch.testing.assert_close(unit(along_circle(angles, order)), unit(ahead - behind), rtol=0, atol=1e-6)


@every_order
def test_two_tokens_of_one_input_are_a_ray_in_any_norm(order):
    # The risk falls with one row alone, so the path is Hölder's equality for it.
    problem = Problem([[[1.0, 3.0], [-2.0, 1.0]]], [[0.2, 0.7]])
    path = regularization_path(problem, losses.logistic, RADII, norm=order)
    expected = RADII[:, None] * unit(inverse_mirror_map(torch.tensor([-3.0, -2.0]), order), order)
    torch.testing.assert_close(path.theta, expected, rtol=1e-9, atol=1e-9)
    assert stationarity(problem, losses.logistic, path.theta, order).max() < 1e-20
    assert order == 2 or stationarity(problem, losses.logistic, path.theta).min() > 1e-3


@every_order
def test_nothing_in_the_ball_is_lower(order):
    outcomes, radii = set(), torch.tensor([0.1, 1.0, 5.0, 30.0])
    for seed in range(3):
        problem = in_the_plane(seed, n=4)
        feasible = hard_margin(difference_rows(problem, optimal_tokens(problem))).feasible
        outcomes.add(feasible.item())
        path = regularization_path(problem, losses.logistic, radii, angles=360, norm=order)
        lengths = 0.1 + 29.9 * torch.linspace(0, 1, 40)[:, None]
        ball = on_circle(torch.linspace(-math.pi, math.pi, 3001).expand(40, -1), lengths, order)
        every = excess_risk(problem, losses.logistic, ball, path.selected)
        if feasible:  # then all excesses are positive and the path ends on the sphere
            assert path.excess.log_scale[-1] <= every.log_scale.min() + 1e-9
            assert norm(path.theta[-1], order) == pytest.approx(30)
            # the mirror map of an entry of 1e-16, all that an angle can tell, is 0.025 for p = 1.1
            assert stationarity(problem, losses.logistic, path.theta[-1], order) < (1e-12 if order > 1.1 else 1e-3)
        else:
            best = (every.direction * every.log_scale.exp()).min()
            assert path.excess.direction[-1] * path.excess.log_scale[-1].exp() <= best + 1e-2
    assert outcomes == {True, False}


def test_multistart_is_stationary_far_out_on_the_sphere_of_another_norm():
    generator = seeded(17)
    keys, scores, queries = (torch.randn(*shape, generator=generator) for shape in ((2, 2, 2), (2, 2), (2, 2)))
    problem, starts = Problem(keys, scores, queries), torch.randn(2, 4, generator=generator)
    far = 1e5 * norm(att_svm(problem, norm=3.0).theta, 3.0).item()
    path = multistart_path(problem, losses.logistic, [far], starts, optimal_tokens(problem), norm=3.0)
    assert stationarity(problem, losses.logistic, path.theta, 3.0) < 1e-12


@pytest.mark.parametrize("order", [1.5, 2.0, 3.0])
def test_multistart_far_out_is_as_low_as_the_predicted_point_where_a_multiplier_is_small(order):
    # Of three rows on the margin one has a fortieth of the largest multiplier. In the direction of the radius before,
    # the pulls are so far out of balance that a search that has nothing closer to start from ends there.
    keys = [[[-1.66, 0.01], [-1.03, 1.07], [-0.49, 1.91]], [[-0.84, -1.05], [-0.51, -0.03], [0.48, -1.17]]]
    scores, queries = [[0.14, 1.0, 0.3], [0.92, 0.8, 0.51]], [[-0.24, -0.39], [0.06, -0.18]]
    length = norm(att_svm(Problem(keys, scores, queries), norm=order).theta, order)
    problem, radii = Problem(length * torch.tensor(keys), scores, queries), torch.logspace(0, 5, 6)
    separator, selected = att_svm(problem, norm=order), optimal_tokens(problem)
    offset = limit_offset(problem, losses.logistic, separator, norm=order).across
    predicted = radii[:, None] * unit(radii[:, None] * unit(separator.theta, order) + offset, order)
    rival = excess_risk(problem, losses.logistic, predicted, selected)
    for seed in range(4, 8):
        starts = torch.randn(3, 4, generator=seeded(seed))
        path = multistart_path(problem, losses.logistic, radii, starts, selected, order)
        assert stationarity(problem, losses.logistic, path.theta, order).max() < 1e-8
        assert (path.excess.log_scale <= rival.log_scale + 1e-8).all()
