"""Which tokens are picked, which neighbour them, and whether a pick can last."""

import math

import pytest
import torch
from problems import random_problem, seeded

from lib import losses, selection
from lib._hard_margin import _certified
from lib.datasets import figure_1, one_best
from lib.geometry import mirror_map, norm, one_minus_cosine, unit
from lib.logspace import gradient
from lib.paths import regularization_path
from lib.problem import Problem, difference_rows, from_tokens
from lib.separators import att_svm, hard_margin, relaxed_att_svm


def test_optimal_and_selected_tokens():
    problem = Problem([[[1.0], [0.0], [-1.0]], [[0.0], [2.0], [1.0]]], [[0.1, 0.3, 0.3], [5.0, 1.0, 0.0]])
    assert selection.optimal_tokens(problem).tolist() == [1, 0]  # the first of those that tie
    assert selection.selected_tokens(problem, torch.tensor([1.0])).tolist() == [0, 1]
    assert selection.selected_tokens(problem, torch.tensor([[1.0], [-1.0]])).tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize(("selected", "others"), [(0, [1, 2, 3]), (2, [0, 1, 3]), (3, [0, 1, 2])])
def test_other_tokens(selected, others):
    assert selection.other_tokens(torch.tensor([selected]), 4).tolist() == [others]
    assert selection.other_tokens(torch.tensor([[selected], [1]]), 4).tolist() == [[others], [[0, 2, 3]]]


# Keys (-.1, 1), (1, 0), (0, 0). Token 2 is a trade-off of both others; only token 1 of panel (a) ties with its
# neighbour.
FIGURE_1 = [
    ("a", 0, [2], 0.1),
    ("a", 1, [2], 0.0),
    ("a", 2, [0, 1], -0.1),
    ("b", 0, [2], 1.0),
    ("b", 1, [2], 0.9),
    ("b", 2, [0, 1], -1.0),
]


@pytest.mark.parametrize(("panel", "token", "neighbours", "gap"), FIGURE_1)
def test_neighbours_and_local_optimality_in_figure_1(panel, token, neighbours, gap):
    problem, selected = from_tokens(*figure_1(panel)), torch.tensor([token])
    separator = att_svm(problem, selected)
    mask = selection.svm_neighbours(problem, selected, separator)
    assert torch.nonzero(mask[0]).flatten().tolist() == neighbours
    assert selection.score_gaps(problem, selected, separator).item() == pytest.approx(gap)
    assert selection.locally_optimal(problem, selected, separator).item() is (gap > 0)


@pytest.mark.parametrize(("behind", "lasts"), [(0.0, False), (1e-3, True), (2e-2, True)])
def test_a_token_just_behind_the_margin_is_no_neighbour(behind, lasts):
    problem, selected = Problem([[[1.0], [0.0], [-behind]]], [[0.5, 0.4, 9.0]]), torch.tensor([0])
    assert selection.locally_optimal(problem, selected, att_svm(problem, selected)).item() is lasts


def test_token_margins():
    problem = Problem([[[1.0, 0.0], [0.0, 2.0], [0.5, 0.5]]], [[1.0, 0.0, 0.0]])
    margins = selection.token_margins(problem, torch.tensor([1]), torch.tensor([2.0, 3.0]))
    assert margins.tolist() == [[4.0, 0.0, 3.5]]


def test_score_gap_is_infinite_without_neighbours():
    problem, selected = Problem([[[1.0], [0.0]]], [[0.0, 1.0]]), torch.tensor([0])
    longer = att_svm(2 * torch.ones(1, 1))  # an SVM over other rows, whose margin no token is on
    assert selection.score_gaps(problem, selected, longer) == torch.inf


def test_score_leads_have_the_order_of_the_difference_rows():
    problem = random_problem(5, n=3, T=4, d=2)
    selected = torch.tensor([[0, 2, 3], [1, 1, 0]])
    as_keys = Problem(problem.scores[..., None], problem.scores)
    torch.testing.assert_close(selection.score_leads(problem, selected), difference_rows(as_keys, selected)[..., 0])


def test_each_token_that_loses_pulls_by_its_own_lead():
    problem = Problem([[[1.0], [0.0], [-1.0]]], [[1.0, 0.5, 0.0]])
    found = selection.log_pulls(problem, losses.exponential, [0]).exp()
    assert found.tolist() == pytest.approx([0.5 / math.e, 1.0 / math.e])


def test_each_input_has_its_own_neighbours_and_its_own_requirement():
    """The least lead over neighbours of the second input decides; the first input's is larger."""
    problem = Problem([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]], [[3.0, 0.0], [1.0, 0.75]])
    svm = att_svm(problem)
    assert selection.score_gaps(problem, selection.optimal_tokens(problem), svm) == 0.25
    worse = Problem(problem.keys, [[3.0, 0.0], [1.0, 1.05]])
    assert not selection.locally_optimal(worse, torch.tensor([0, 0]), svm)
    relaxed = relaxed_att_svm(problem, torch.tensor([0, 0]), torch.tensor([False, True]))
    assert relaxed.theta.tolist() == pytest.approx([0.0, 1.0])


# --- the offset of the limit


def test_offsets_weigh_each_row_by_its_own_multiplier():
    """Rows (1, 0) and (0, 2) with pulls 1 and 8: p_mm = (1, 1/2) with the multipliers 1 and 1/4."""
    problem = Problem([[[0.0, 0.0], [-1.0, 0.0], [0.0, -2.0]]], [[8.0, 7.0, 0.0]])
    svm = att_svm(problem)
    assert svm.duals.tolist() == pytest.approx([1.0, 0.25])
    across, along = selection.limit_offset(problem, losses.correlation, svm)
    first, second = across.tolist()
    assert (first + along, 2 * second + along) == (pytest.approx(0), pytest.approx(math.log(8 / 0.25)))
    assert first + second / 2 == pytest.approx(0)


def test_a_token_off_the_margin_moves_nothing_and_one_input_of_two_pulls_half():
    problem = Problem([[[0.0], [-1.0], [-5.0]]], [[2.0, 1.0, 0.0]])
    across, along = selection.limit_offset(problem, losses.correlation, att_svm(problem))
    assert (across.item(), along.item()) == (pytest.approx(0), pytest.approx(0))
    beside = Problem([[[0.0], [-1.0]], [[0.0], [-3.0]]], [[2.0, 1.0], [2.0, 0.0]])
    assert selection.limit_offset(beside, losses.correlation, att_svm(beside)).along == pytest.approx(-math.log(2))


@pytest.mark.parametrize("loss", [losses.logistic, losses.exponential], ids=lambda loss: loss.name)
def test_on_the_road_the_gradient_points_along_the_ray(loss):
    problem = Problem(torch.randn(50, 2, 3, 6, generator=seeded(0)), one_best(2, 3, 50, seeded(1)))
    svm = att_svm(problem)
    road = 100 * svm.theta + selection.limit_offset(problem, loss, svm).across
    clear = ((svm.margins - 1).abs() < 1e-9).logical_or(svm.margins > 1.5).all(-1)
    assert clear.sum() > 20
    off = one_minus_cosine(-gradient(problem, loss, road).direction, svm.theta)[clear]
    assert off.max() < 1e-20
    assert one_minus_cosine(-gradient(problem, loss, 100 * svm.theta).direction, svm.theta)[clear].max() > 1e-3


def test_a_token_on_the_margin_without_a_multiplier_is_refused():
    """The path then leaves the ray like log R, up to the log of that."""
    problem = Problem([[[0.0, 0.0], [-1.0, 0.0], [-1.0, -1.0]]], [[1.0, 0.5, 0.0]])
    with pytest.raises(ValueError, match="1 tokens on the margin have no multiplier"):
        selection.limit_offset(problem, losses.logistic, att_svm(problem))
    ends = regularization_path(problem, losses.logistic, [1e2, 1e4, 1e6]).theta[:, 1]
    assert ((ends.diff() > 0.8 * math.log(100)) & (ends.diff() < math.log(100))).all()


@pytest.mark.parametrize("order", [1.5, 2.0, 3.0])
def test_paths_end_on_the_road(order):
    problem = Problem([[[0.0, 0.0], [-1.0, -0.2], [0.1, -1.0]]], [[1.0, 0.5, -1.0]])
    svm = att_svm(problem, norm=order)
    assert (svm.duals > 0).all()
    across = selection.limit_offset(problem, losses.logistic, svm, norm=order).across
    radius = 1e5
    end = regularization_path(problem, losses.logistic, [radius / 2, radius], norm=order).theta[-1]
    torch.testing.assert_close(end - radius * unit(svm.theta, order), across, rtol=0, atol=1e-3 * norm(across).item())


@pytest.mark.parametrize("order", [1.5, 3.0])
def test_on_the_road_of_a_matrix_the_mirror_map_is_a_sum_of_rows(order):
    """To second order in 1 / R; the shortest solution for the offset leaves a part of about 1 / R."""
    keys, queries = torch.randn(2, 2, 2, generator=seeded(2)), torch.randn(2, 2, generator=seeded(3))
    problem = Problem(keys, one_best(2, 2, 1, seeded(3))[0], queries)
    svm = att_svm(problem, norm=order)
    assert (svm.duals > 0.1).sum() == 2
    road = 1e4 * unit(svm.theta, order) + selection.limit_offset(problem, losses.logistic, svm, norm=order).across
    mirrored = unit(mirror_map(road, order))
    rows = difference_rows(problem, selection.optimal_tokens(problem)).mT
    apart = mirrored - rows @ torch.linalg.lstsq(rows, mirrored[:, None]).solution[:, 0]
    assert norm(apart) < 1e-7


def test_a_neighbour_is_known_where_the_exact_separator_has_a_zero_entry():
    """For p > 2 the gap says little about an entry near zero: interior points leave 1e-5 there, and in the margin."""
    keys = [[[2, 1], [0, 0], [-1, -1], [1, 0]], [[2, 1], [1, 0], [2, 0], [0, -1]], [[2, 1], [-1, 0], [0, 0], [1, -1]]]
    scores = [[0.5, 0, 1, 0], [1, 1, 0.5, 1], [0.5, 0.5, 0, 1]]
    assert selection.locally_optimal_selections(Problem(keys, scores), norm=3.0)[0].tolist() == [[0, 2, 3]]


@pytest.mark.parametrize("order", [1.5, 3.0, 6.0])
def test_the_doubt_bounds_how_far_margins_are_off(order):
    rows = torch.randn(12, 6, 5, generator=seeded(3), dtype=torch.float64)
    rows[..., 0] = rows[..., 0].abs() + 1
    exact, ones = hard_margin(rows, order), torch.ones(12, 6).double()
    noise = 1e-3 * torch.randn(exact.theta.shape, generator=seeded(4), dtype=torch.float64)
    off = _certified(rows, ones, exact.theta + noise, exact.duals, 0 * ones, order)
    apart = (off.margins - exact.margins).abs()
    assert (apart <= off.margin_error).all()
    assert (exact.margin_error < 0.1 * off.margin_error).all()
