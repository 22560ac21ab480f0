"""Define losses of the margin u = y f(X), each with the slope in log space and the constants of Assumption A.

All of them decrease, so the slope is known by log(-loss'(u)): a number that neither overflows nor underflows
where the slope itself would. Differences of the loss are known by their logarithm as well.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from . import checks

LOGISTIC, EXPONENTIAL, CORRELATION, CUBIC, SIGMOID = range(5)  # codes, by which compiled loops know a loss
TINY = 1e-16  # below it, e^s - 1 = s and log(1 + s) = s to rounding


@dataclass(frozen=True)
class Loss:
    """A decreasing loss of the margin u.

    Attributes
    ----------
    name : str
    value : callable
        Elementwise loss(u).
    log_slope : callable
        ``log_slope(u, drop=0.0)`` is log(-loss'(u - drop)), elementwise; -inf where the slope is zero. The drop is an
        argument of its own because it may be too small to show in u - drop.
    log_change : callable
        ``log_change(u, sign, log_drop)`` is ``log |loss(u - sign e^log_drop) - loss(u)|``, elementwise: the effect of a
        drop (or, with sign -1, a rise) of the margin that may be far too small to show in u itself.
    constants : callable
        ``constants(bound)`` returns (M0, M1) of Assumption A (arXiv:2306.13596) on [-bound, bound]:
        loss' is M0-Lipschitz there and ``|loss'| <= M1``.
    code : (int, float), optional
        By which :mod:`lib.kernels` knows it; without one, descent goes by tensors.
    """

    name: str
    value: Callable[[Tensor], Tensor]
    log_slope: Callable[..., Tensor]
    log_change: Callable[[Tensor, Tensor, Tensor], Tensor]
    constants: Callable[[Tensor], tuple[Tensor, Tensor]]
    code: tuple[int, float] | None = None

    def __post_init__(self):
        margins = torch.linspace(-5, 5, 21, dtype=torch.float64)
        if (self.value(margins).diff() > 0).any():
            raise ValueError(f"loss {self.name!r} increases with the margin: give one that decreases, such as of -u")

    def slope(self, margins):
        """loss'(u), elementwise: not above zero."""
        return -self.log_slope(margins).exp()


def _log_growth(sign, log_drop):
    """log |exp(s) - 1| for s = sign * exp(log_drop)."""
    drop = sign * log_drop.exp()
    return torch.where(drop.abs() < TINY, log_drop, torch.expm1(drop).abs().log())


def _logistic_change(u, sign, log_drop):
    # log(1 + e^(s - u)) - log(1 + e^-u) = log(1 + x) with x = sigmoid(-u) (e^s - 1), and log(1 + x) = x where x is tiny
    log_size = logsigmoid(-u) + _log_growth(sign, log_drop)
    return torch.where(log_size.exp() < TINY, log_size, torch.log1p(sign * log_size.exp()).abs().log())


def _cubic_change(height, sign, log_drop):
    # h^3 - (h - s)^3 = s (3 h^2 - 3 h s + s^2), and at h = 0 the bracket is s^2
    drop = sign * log_drop.exp()
    bracket = 3 * height**2 - 3 * height * drop + drop**2
    return log_drop + torch.where(height == 0, 2 * log_drop, bracket.log())


logistic = Loss(
    "logistic",
    value=lambda u: -logsigmoid(u),
    log_slope=lambda u, drop=0.0: logsigmoid(drop - u),
    log_change=_logistic_change,
    constants=lambda bound: (torch.full_like(bound, 0.25), torch.ones_like(bound)),
    code=(LOGISTIC, 0.0),
)

exponential = Loss(
    "exponential",
    value=lambda u: torch.exp(-u),
    log_slope=lambda u, drop=0.0: drop - u,
    log_change=lambda u, sign, log_drop: _log_growth(sign, log_drop) - u,
    constants=lambda bound: (bound.exp(), bound.exp()),
    code=(EXPONENTIAL, 0.0),
)

correlation = Loss(
    "correlation",
    value=lambda u: -u,
    log_slope=lambda u, drop=0.0: torch.zeros_like(u),
    log_change=lambda u, sign, log_drop: log_drop + torch.zeros_like(u),
    constants=lambda bound: (torch.zeros_like(bound), torch.ones_like(bound)),
    code=(CORRELATION, 0.0),
)

# Bounded, neither convex nor concave: "general decreasing loss functions without requiring convexity".
sigmoid = Loss(
    "sigmoid",
    value=lambda u: logsigmoid(-u).exp(),
    log_slope=lambda u, drop=0.0: logsigmoid(u - drop) + logsigmoid(drop - u),
    log_change=lambda u, sign, log_drop: (
        logsigmoid(u) + logsigmoid(sign * log_drop.exp() - u) + _log_growth(-sign, log_drop)
    ),
    constants=lambda bound: (torch.full_like(bound, 3**-1.5 / 2), torch.full_like(bound, 0.25)),
    code=(SIGMOID, 0.0),
)

LOSSES = {loss.name: loss for loss in (logistic, exponential, correlation)}  # those that the papers name
KNOWN = LOSSES | {"sigmoid": sigmoid}


def cubic(centre):
    """The loss -(u - centre)^3: strictly decreasing, but with slope zero at ``centre``.

    The counterexample to Assumption A as printed (arXiv:2306.13596): "strictly decreasing" admits it, and the
    theorems need loss' < 0.
    """
    checks.number("centre", centre, math.isfinite, "give a finite number")
    return Loss(
        f"cubic at {centre:g}",
        value=lambda u: -((u - centre) ** 3),
        log_slope=lambda u, drop=0.0: math.log(3) + 2 * (u - centre - drop).abs().log(),
        log_change=lambda u, sign, log_drop: _cubic_change(u - centre, sign, log_drop),
        constants=lambda bound: (6 * (bound + abs(centre)), 3 * (bound + abs(centre)) ** 2),
        code=(CUBIC, float(centre)),
    )


def by_name(name):
    """The loss called ``name``; ValueError lists those there are.

    Examples
    --------
    >>> import torch
    >>> loss = by_name("logistic")
    >>> round(loss.value(torch.tensor(0, dtype=torch.float64)).item(), 4)
    0.6931
    >>> loss.log_slope(torch.tensor(800.0)).item()  # where the slope itself is 0
    -800.0
    """
    if name not in [*KNOWN]:
        raise ValueError(f"loss {name!r} is unknown: use one of {', '.join(KNOWN)}")
    return KNOWN[name]


def smoothness(loss, tokens, head, key_matrix):
    """L_p of equation (6) and Lemma 6 (arXiv:2306.13596): the risk in p is L_p-smooth. Shape (...).

    ``L_p = (1/n) sum_i ( M0 |v|^2 |W|^2 |X_i|^4 + 3 M1 |v| |W|^2 |X_i|^3 )``, spectral norms, M0 and M1 of the loss
    on the interval that the margins can reach.

    Parameters
    ----------
    tokens : Tensor, shape (..., n, T, d)
    head : Tensor, shape (..., d)
    key_matrix : Tensor, shape (..., k, d)
    """
    checks.loss(loss)
    given = checks.tensors(tokens=(tokens, "n", "T", "d"), head=(head, "d"), key_matrix=(key_matrix, "k", "d"))
    tokens, head, key_matrix = given.values()
    checks.match_width("head", head, tokens)
    checks.match_width("key_matrix", key_matrix, tokens)
    reach = torch.einsum("...ntd,...d->...nt", tokens, head).abs().amax((-2, -1))
    m0, m1 = loss.constants(reach)
    token_norm = torch.linalg.matrix_norm(tokens, ord=2)
    head_norm = torch.linalg.vector_norm(head, dim=-1)[..., None]
    key_norm = torch.linalg.matrix_norm(key_matrix, ord=2)[..., None] ** 2
    terms = (
        m0[..., None] * head_norm**2 * key_norm * token_norm**4
        + 3 * m1[..., None] * head_norm * key_norm * token_norm**3
    )
    return terms.mean(-1)
