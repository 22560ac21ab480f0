"""SVMs in l_p norms: closed forms, the conditions of optimality, and brute force."""

import math

import pytest
import torch
from problems import seeded, verify
from test_least_distance import drawn, duplicated, integers, tall, wide

from lib.geometry import dual, inverse_mirror_map, mirror_map, norm, unit
from lib.problem import Problem, difference_rows
from lib.separators import att_svm, hard_margin

ORDERS = [1.05, 1.1, 1.5, 1.75, 3.0, 10.0, 30.0]
every_order = pytest.mark.parametrize("order", ORDERS)


# --- closed forms


@every_order
@pytest.mark.parametrize("factor", [1e-12, 1.0, 1e12])
def test_one_row_by_hand(order, factor):
    # By Hölder theta is the inverse mirror map of the row, up to its length 1 / |row|_q.
    row = factor * torch.tensor([[3.0, -4.0, 0.5, 1e-3]])
    separator = att_svm(row, norm=order)
    size = norm(row[0], dual(order)).item()
    expected = unit(inverse_mirror_map(unit(row[0], dual(order)), order), order) / size
    torch.testing.assert_close(separator.theta, expected, rtol=1e-9, atol=1e-9 / size)
    assert norm(separator.theta, order) == pytest.approx(1 / size, rel=1e-12)
    assert separator.duals.item() == pytest.approx(1 / size**2, rel=1e-9)


@every_order
def test_rows_on_different_axes_by_hand(order):
    # One margin for each entry: theta = b / length, whatever the norm.
    lengths, required = torch.tensor([2.0, 0.5, 1.0]), torch.tensor([1.0, 0.3, 2.0])
    rows = torch.cat([torch.diag(lengths), torch.zeros(3, 2)], dim=1)
    separator = hard_margin(rows, order, required)
    # the second entry's share of |theta|_p^p is 4^-10 or 4^-30, so its margin is free to within rounding of the gap
    torch.testing.assert_close(separator.theta[:3], required / lengths, rtol=1e-11 if order <= 3 else 1e-3, atol=0)
    assert separator.theta[3:].abs().max() <= 1e-6
    length = norm(separator.theta, order)
    expected = mirror_map((required / lengths) / length, order) * length / lengths
    torch.testing.assert_close(separator.duals, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("order", [1.0, math.inf])
def test_linear_programs_by_hand(order):
    # |theta|_1 puts all on the larger entry, |theta|_inf the same on each; the second row is implied by the first.
    separator = att_svm([[3.0, -4.0], [6.0, -8.0]], norm=order)
    expected = [0.0, -1 / 4] if order == 1 else [1 / 7, -1 / 7]
    torch.testing.assert_close(separator.theta, torch.tensor(expected), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(separator.duals, torch.tensor([norm(separator.theta, order).item() ** 2, 0.0]))


# --- the conditions of optimality over random problems


def opposed_pairs(gaussian, _):
    """Difference rows of a problem with queries, as the papers have them: few rows, many columns."""
    return difference_rows(Problem(gaussian(3, 4, 5), gaussian(3, 4), gaussian(3, 5)), [0, 1, 2])


def sparse(gaussian, _):
    return gaussian(8, 20) * (gaussian(8, 20) > 0.5)


KINDS = [tall, wide, duplicated, integers, opposed_pairs, sparse]


@every_order
@pytest.mark.parametrize("kind", KINDS)
def test_conditions_of_optimality(order, kind):
    found = 0
    for seed in range(12):
        for with_required in (False, True):
            rows, required = drawn(kind, seed, seed, with_required)
            separator = hard_margin(rows, order, required)
            assert separator.feasible == hard_margin(rows, required=required).feasible
            verify(rows, required, separator, order, gap=1e-10 if order < 20 else 1e-8)
            found += separator.feasible.item()
    assert found >= 8


# --- brute force


@pytest.mark.parametrize("order", [1.0, 1.1, 1.5, 2.0, 3.0, 10.0, 30.0, math.inf])
@pytest.mark.parametrize("seed", range(3))
def test_no_direction_of_the_plane_is_shorter(order, seed):
    rows = torch.randn(5, 2, generator=seeded(seed)) + torch.tensor([2.0, 1.0])
    required = torch.tensor([1.0, 0.0, 0.5, 1.0, 2.0])
    separator = hard_margin(rows, order, required)
    angles = torch.linspace(0, 2 * math.pi, 200_001)
    directions = torch.stack([angles.cos(), angles.sin()], dim=-1)
    margins = directions @ rows.T
    longest = torch.where(required > 0, required / margins, 0.0).amax(-1)
    separates = ((margins > 0) | (required == 0) & (margins >= 0)).all(-1)
    best = (norm(directions, order) * longest)[separates].min()
    assert norm(separator.theta, order) <= best * (1 + (1e-12 if 1 < order < math.inf else 1e-8))
    assert norm(separator.theta, order) >= best * (1 - 1e-3)


# --- batches, limits, long solutions, refusals


@pytest.mark.parametrize("order", [1.0, 1.1, 1.75, 2.0, 10.0, math.inf])
def test_a_batch_is_each_one_alone(order):
    rows = torch.randn(3, 30, 6, 5, generator=seeded(0))  # more than are solved at once
    together = hard_margin(rows, order)
    assert len(together.feasible.unique()) == 2
    for index in [(0, 0), (0, 7), (1, 29), (2, 3), (2, 29)]:
        alone = hard_margin(rows[index], order)
        assert alone.feasible == together.feasible[index]
        torch.testing.assert_close(together.theta[index], alone.theta, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(together.duals[index], alone.duals, rtol=1e-7, atol=1e-7)
        torch.testing.assert_close(together.gap[index], alone.gap, rtol=0, atol=1e-9, equal_nan=True)
        torch.testing.assert_close(together.certificate[index], alone.certificate)


@pytest.mark.parametrize("order", [1.1, 1.5, 3.0])
@pytest.mark.parametrize(("length", "gap"), [(1e2, 1e-12), (1e6, 1e-8)])
def test_long_solutions_as_far_as_rounding_lets(order, length, gap):
    for seed in range(3):
        generator = seeded(seed)
        axis = torch.nn.functional.normalize(torch.randn(5, generator=generator), dim=0)
        across = torch.randn(14, 5, generator=generator)
        rows = torch.nn.functional.normalize(across - (across @ axis)[:, None] * axis, dim=-1) + axis / length
        assert abs(att_svm(rows, norm=order).gap) <= gap
