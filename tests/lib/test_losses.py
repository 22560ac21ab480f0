"""Slopes against autograd, changes against many digits, and the constants of Assumption A against random intervals."""

import math

import mpmath
import pytest
import torch
from problems import MP_LOSSES

from lib import losses

ALL = [*losses.KNOWN.values(), losses.cubic(0.5), losses.cubic(-1.0)]
every_loss = pytest.mark.parametrize("loss", ALL, ids=lambda loss: loss.name)


@every_loss
def test_slope_is_the_derivative_of_the_value(loss):
    margins = torch.linspace(-30, 30, 121, requires_grad=True)
    loss.value(margins).sum().backward()
    torch.testing.assert_close(loss.slope(margins.detach()), margins.grad, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("loss", "margin", "expected"),
    [(losses.logistic, 1e4, -1e4), (losses.logistic, -1e4, 0.0), (losses.exponential, 1e4, -1e4)],
)
def test_log_slope_neither_overflows_nor_underflows(loss, margin, expected):
    assert loss.log_slope(torch.tensor(margin)) == pytest.approx(expected)


@every_loss
@pytest.mark.parametrize("log_drop", [-800.0, -40.0, -30.0, -5.0, 0.0, 1.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_log_change_is_right_at_any_size(loss, log_drop, sign):
    with mpmath.workdps(1200):
        for margin in (-3.0, 0.5, 2.0):
            drop = sign * mpmath.exp(mpmath.mpf(log_drop))
            exact = mpmath.log(abs(MP_LOSSES[loss.name](margin - drop) - MP_LOSSES[loss.name](margin)))
            got = loss.log_change(torch.tensor(margin), torch.tensor(float(sign)), torch.tensor(log_drop))
            assert got.item() == pytest.approx(float(exact), abs=1e-12, rel=1e-14)


@every_loss
def test_no_drop_changes_nothing(loss):
    none = torch.tensor(-math.inf)
    assert loss.log_change(torch.tensor([0.5, 2.0]), torch.tensor(0.0), none).tolist() == [-math.inf] * 2


@every_loss
def test_constants_bound_the_slope_and_its_differences(loss):
    generator = torch.Generator().manual_seed(0)
    for bound in 5 * torch.rand(20, generator=generator):
        m0, m1 = loss.constants(bound)
        first, second = bound * (2 * torch.rand(2, 2000, generator=generator) - 1)
        assert (loss.slope(first).abs() <= m1 * (1 + 1e-12)).all()
        assert ((loss.slope(first) - loss.slope(second)).abs() <= m0 * (first - second).abs() + 1e-12).all()


@pytest.mark.parametrize("loss", [losses.exponential, losses.correlation, losses.cubic(-1.0)], ids=lambda x: x.name)
def test_largest_slope_is_reached(loss):
    bound = torch.tensor(2.0)
    assert loss.slope(torch.tensor([-2.0, 2.0])).abs().max() == pytest.approx(loss.constants(bound)[1].item())


def test_cubic_has_slope_zero_at_its_centre_alone():
    loss = losses.cubic(0.5)
    assert loss.slope(torch.tensor(0.5)) == 0
    assert loss.log_slope(torch.tensor(0.5)) == -torch.inf
    assert (loss.slope(torch.tensor([0.499, 0.501])) < 0).all()
