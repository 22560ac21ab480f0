"""Losses of the margin u = y f(X), each with the slope in log space and the constants of Assumption A.

All of them decrease, so the slope is known by log(-loss'(u)): a number that neither overflows nor underflows
where the slope itself would.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid


@dataclass(frozen=True)
class Loss:
    """A decreasing loss of the margin u.

    Attributes
    ----------
    name : str
    value : callable
        Elementwise loss(u).
    log_slope : callable
        Elementwise log(-loss'(u)); -inf where the slope is zero.
    constants : callable
        ``constants(bound)`` returns (M0, M1) of Assumption A (arXiv:2306.13596) on [-bound, bound]:
        loss' is M0-Lipschitz there and ``|loss'| <= M1``.
    """

    name: str
    value: Callable[[Tensor], Tensor]
    log_slope: Callable[[Tensor], Tensor]
    constants: Callable[[Tensor], tuple[Tensor, Tensor]]

    def slope(self, margins):
        """loss'(u), elementwise: not above zero."""
        return -self.log_slope(margins).exp()


logistic = Loss(
    "logistic",
    value=lambda u: -logsigmoid(u),
    log_slope=lambda u: logsigmoid(-u),
    constants=lambda bound: (torch.full_like(bound, 0.25), torch.ones_like(bound)),
)

exponential = Loss(
    "exponential",
    value=lambda u: torch.exp(-u),
    log_slope=lambda u: -u,
    constants=lambda bound: (bound.exp(), bound.exp()),
)

correlation = Loss(
    "correlation",
    value=lambda u: -u,
    log_slope=torch.zeros_like,
    constants=lambda bound: (torch.zeros_like(bound), torch.ones_like(bound)),
)

LOSSES = {loss.name: loss for loss in (logistic, exponential, correlation)}


def cubic(centre):
    """Return the loss -(u - centre)^3: strictly decreasing, but with slope zero at ``centre``.

    The counterexample to Assumption A as printed (arXiv:2306.13596): "strictly decreasing" admits it, and the
    theorems need loss' < 0.
    """
    return Loss(
        f"cubic at {centre:g}",
        value=lambda u: -((u - centre) ** 3),
        log_slope=lambda u: math.log(3) + 2 * (u - centre).abs().log(),
        constants=lambda bound: (6 * (bound + abs(centre)), 3 * (bound + abs(centre)) ** 2),
    )


def by_name(name):
    """Return the loss called ``name``; ValueError lists those there are."""
    if name not in LOSSES:
        raise ValueError(f"loss {name!r} is unknown: use one of {', '.join(LOSSES)}")
    return LOSSES[name]
