"""Norms, unit vectors, and a 1 - cos that is right below rounding."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import seeded, seeds

from lib.geometry import in_cone, norm, one_minus_cosine, unit


@pytest.mark.parametrize(("order", "expected"), [(1, 7.0), (2, 5.0), (3, 91 ** (1 / 3)), (math.inf, 4.0)])
def test_norm(order, expected):
    assert norm(torch.tensor([[3.0, -4.0]]), order) == pytest.approx(expected)


@pytest.mark.parametrize("angle", [1e-12, 1e-7, 1e-3, 1.0, math.pi / 2, math.pi])
@pytest.mark.parametrize("length", [1e-200, 1.0, 1e150])
def test_one_minus_cosine_at_any_angle_and_length(angle, length):
    first = torch.tensor([1.0, 0.0])
    second = length * torch.tensor([math.cos(angle), math.sin(angle)])
    assert one_minus_cosine(first, second) == pytest.approx(2 * math.sin(angle / 2) ** 2, rel=1e-3, abs=0)


@given(seeds, st.integers(1, 6))
def test_one_minus_cosine_is_symmetric_and_between_0_and_2(seed, d):
    first, second = torch.randn(2, 10, d, generator=seeded(seed))
    value = one_minus_cosine(first, second)
    torch.testing.assert_close(value, one_minus_cosine(second, first))
    assert ((value >= 0) & (value <= 2 + 1e-12)).all()
    torch.testing.assert_close(norm(unit(first)), torch.ones(10))


def test_in_cone_is_inside_the_angle_and_beyond_the_radius():
    axis, opening = torch.tensor([0.0, 3.0]), 1 - math.cos(0.5)
    angles = torch.tensor([0.49, -0.49, 0.51, -0.51])
    edge = torch.stack([angles.sin(), angles.cos()], dim=-1)
    assert in_cone(2 * edge, axis, opening).tolist() == [True, True, False, False]
    assert in_cone(2 * edge, axis, opening, radius=2.1).tolist() == [False] * 4
    assert in_cone(2 * edge[:1], axis, opening, radius=torch.tensor([1.9])).tolist() == [True]
