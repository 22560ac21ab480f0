"""Norms, unit vectors, mirror maps, and a 1 - cos and a Bregman divergence that are right below rounding."""

import math

import mpmath as mp
import pytest
import torch
from hypothesis import given
from problems import seeded, seeds

from lib.geometry import (
    bregman_divergence,
    directional_bregman_divergence,
    dual,
    in_cone,
    inverse_mirror_map,
    mirror_map,
    norm,
    one_minus_cosine,
    unit,
)

every_order = pytest.mark.parametrize("order", [1.05, 1.1, 1.5, 1.75, 2.0, 3.0, 10.0, 30.0])


@pytest.mark.parametrize(("order", "expected"), [(1, 7.0), (2, 5.0), (3, 91 ** (1 / 3)), (math.inf, 4.0)])
def test_norm(order, expected):
    assert norm(torch.tensor([[3.0, -4.0]]), order) == pytest.approx(expected)


@pytest.mark.parametrize("angle", [1e-12, 1e-7, 1e-3, 1.0, math.pi / 2, math.pi])
@pytest.mark.parametrize("length", [1e-200, 1.0, 1e150])
def test_one_minus_cosine_at_any_angle_and_length(angle, length):
    first = torch.tensor([1.0, 0.0])
    second = length * torch.tensor([math.cos(angle), math.sin(angle)])
    assert one_minus_cosine(first, second) == pytest.approx(2 * math.sin(angle / 2) ** 2, rel=1e-3, abs=0)


def test_in_cone_is_inside_the_angle_and_beyond_the_radius():
    axis, opening = torch.tensor([0.0, 3.0]), 1 - math.cos(0.5)
    angles = torch.tensor([0.49, -0.49, 0.51, -0.51])
    edge = torch.stack([angles.sin(), angles.cos()], dim=-1)
    assert in_cone(2 * edge, axis, opening).tolist() == [True, True, False, False]
    assert in_cone(2 * edge, axis, opening, radius=2.1).tolist() == [False] * 4
    assert in_cone(2 * edge[:1], axis, opening, radius=torch.tensor([1.9])).tolist() == [True]


# --- other norms and their mirror maps


@pytest.mark.parametrize("order", [1.0, 1.1, 2.0, 3.0, 101.0, math.inf])
def test_norms_neither_overflow_nor_vanish(order):
    ones = torch.ones(3, 4) * torch.tensor([[1e-100], [1.0], [1e100]])
    torch.testing.assert_close(norm(ones, order), ones[:, 0] * 4 ** (1 / order), rtol=1e-12, atol=0)
    assert norm(torch.zeros(4), order) == 0


@every_order
@given(seed=seeds)
def test_the_dual_norm_is_the_largest_product(order, seed):
    vectors = torch.randn(4, 5, generator=seeded(seed))
    best = unit(inverse_mirror_map(unit(vectors, dual(order)), order), order)  # where Hölder is an equality
    torch.testing.assert_close((best * vectors).sum(-1), norm(vectors, dual(order)), rtol=1e-10, atol=0)
    others = unit(torch.randn(50, 4, 5, generator=seeded(seed + 1)), order)
    assert ((others * vectors).sum(-1) <= norm(vectors, dual(order)) * (1 + 1e-12)).all()


@every_order
@given(seed=seeds)
def test_the_inverse_mirror_map_is_one(order, seed):
    vectors = torch.randn(4, 5, generator=seeded(seed)) * torch.tensor([[1e-5], [1.0], [100.0], [0.0]])
    torch.testing.assert_close(inverse_mirror_map(mirror_map(vectors, order), order), vectors, rtol=1e-12, atol=1e-300)
    assert (mirror_map(vectors, order).sign() == vectors.sign()).all()


@every_order
def test_the_mirror_map_is_the_gradient_of_the_potential(order):
    vectors = torch.randn(20, generator=seeded(0)).requires_grad_()
    (vectors.abs() ** order / order).sum().backward()
    torch.testing.assert_close(mirror_map(vectors.detach(), order), vectors.grad, rtol=1e-12, atol=0)


def bregman_by_definition(first, second, order):
    with mp.workdps(400):
        p, total = mp.mpf(order), mp.mpf(0)
        for a, b in zip(map(mp.mpf, first.tolist()), map(mp.mpf, second.tolist()), strict=True):
            total += (abs(a) ** p - abs(b) ** p) / p - mp.sign(b) * abs(b) ** (p - 1) * (a - b)
        return float(total)


@every_order
@pytest.mark.parametrize("distance", [10.0, 1.0, 0.6, 0.4, 1e-2, 1e-5, 1e-12, 1e-15, 0.0])
def test_bregman_divergence_at_any_distance(order, distance):
    for seed in range(3):
        generator = seeded(seed)
        second = torch.randn(6, generator=generator)
        first = second * (1 + distance * torch.randn(6, generator=generator))
        value = bregman_divergence(first, second, order)
        assert value.item() == pytest.approx(bregman_by_definition(first, second, order), rel=3e-13, abs=0)


@every_order
def test_bregman_divergence_where_entries_are_zero_or_change_sign(order):
    first = torch.tensor([0.0, 0.3, 1e-20, -1e-9, 2.0, 0.0])
    second = torch.tensor([0.7, 0.0, -1e-20, 1e-3, -1.0, 0.0])
    value = bregman_divergence(first, second, order)
    assert value.item() == pytest.approx(bregman_by_definition(first, second, order), rel=1e-12, abs=0)
    assert (bregman_divergence(first.expand(3, 6), second, order) == value).all()


@every_order
def test_directional_bregman_divergence_knows_no_length(order):
    first, second = torch.randn(2, 7, 5, generator=seeded(0))
    value = directional_bregman_divergence(first, second, order)
    scaled = directional_bregman_divergence(1e50 * first, 1e-50 * second, order)
    torch.testing.assert_close(value, scaled, rtol=1e-11, atol=0)
    assert (value > 0).all()
    assert directional_bregman_divergence(first, 3 * first, order).max() < 1e-28
    pairs = zip(unit(first, order), unit(second, order), strict=True)
    expected = [bregman_by_definition(*pair, order) for pair in pairs]
    torch.testing.assert_close(value, torch.tensor(expected), rtol=1e-11, atol=0)
