"""Keep sizes of rows, margins and errors apart from rounding and inside the floats, for :mod:`lib.separators`."""

import torch

from . import geometry, svm

LONGEST = 1e9  # length of theta, times (longest row) / (largest required margin), above which there may be no theta
MODERATE = 64  # powers of 2 between which the largest entry of rows leaves room for squares and products
TOP = 2048  # power of 2 above all of the floats
WIDE = 20  # powers of 2 between the largest and smallest row above which each is scaled by its own
CERTAIN = 1e-10  # part of |row| |theta| that a margin is raised to where it is less: rounding would hide it
TINIEST = 1e-300  # size of rows below which they are not made larger: the power of 2 would leave the floats
ROUNDING = 1e-15  # a gap below which nothing is known


def scaled(rows, required, wide=WIDE):
    """Rows and required margins times powers of 2, where they are of about 2^64 or 2^-64 or differ by 2^wide in size.

    Exactly, and with the same solutions up to a factor: also the powers (..., m) of rows and (..., 1) of theta, as the
    exponents, or None where all are 0. Each row has its own where they differ, all of a set the same where they do not.
    """
    smallest, largest = rows.aminmax(dim=-1)
    largest = torch.maximum(largest, -smallest)
    exponent = torch.frexp(largest.clamp(min=TINIEST))[1]
    top = exponent.amax(-1, keepdim=True)
    exponent = torch.where(largest > 0, exponent, top)
    differ = top - exponent.amin(-1, keepdim=True) > wide
    exponent = torch.where(differ, exponent, torch.where(top.abs() > MODERATE, top, 0))
    if not exponent.any():
        return rows, required, None
    power = torch.where(required > 0, -exponent, -TOP).amax(-1, keepdim=True)
    required = torch.where(required > 0, (required * power_of_two(-exponent - power)).clamp(min=TINIEST), 0.0)
    return rows * power_of_two(-exponent)[..., None], required, (-exponent, power)


def power_of_two(exponent):
    """2^exponent in float64."""
    return 2.0 ** exponent.double()


def beyond_rounding(rows, required):
    """Theta, duals and certificate for p = 2, and the required margins that were asked for.

    A margin that rounding could hide, of a row far longer than others, is raised to one that it cannot.
    """
    theta, duals, certificate = svm.shortest(rows, required, LONGEST)
    size = sizes(rows, theta)
    most = torch.where(required > 0, required / size, 0.0).amax(-1, keepdim=True)
    least = (2.0**-WIDE * most).clamp(max=CERTAIN) * size
    hidden = (required > 0) & (required < least)
    again = hidden.any(-1)
    if again.any():
        required = torch.where(hidden, least, required)
        theta[again], duals[again], certificate[again] = svm.shortest(rows[again], required[again], LONGEST)
    return theta, duals, certificate, required


def sizes(rows, theta):
    """|row| |theta|, shape (..., m)."""
    return torch.linalg.vector_norm(rows, dim=-1) * torch.linalg.vector_norm(theta, dim=-1)[..., None]


def entry_errors(theta, gap, norm):
    """Bounds on the distance of each entry of theta from the exact solution's, shape (..., D), for 1 < p < infinity.

    Half way between two solutions is one as well, so the mean of their powers ``|x|^p`` exceeds that of the middle by
    at most ``1 - (1 - gap)^p`` of ``|theta|_p^p``. How far apart entries can then be is told by the second derivative
    ``p (p - 1) |x|^(p-2)`` and, for p > 2, near zero, by Clarkson's ``|difference / 2|^p``.
    """
    length = geometry.norm(theta, norm)[..., None]
    share = theta.abs() / torch.where(length == 0, 1.0, length)
    excess = -torch.expm1(norm * torch.log1p(-gap.nan_to_num().clamp(ROUNDING, 0.5)))[..., None]
    bend = norm * (norm - 1)
    if norm < 2:
        return (8 * excess / bend) ** 0.5 * length * torch.ones_like(share)
    curved = (16 * excess / bend * (share / 2) ** (2 - norm)) ** 0.5
    return torch.where(curved <= share, curved, torch.inf).minimum(2 * excess ** (1 / norm)) * length
