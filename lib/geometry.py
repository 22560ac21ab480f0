"""Compute norms, directions and mirror maps of parameters, which are vectors along the last dimension.

The geometry of mirror descent (arXiv:2410.14581) is that of the potential ``psi(x) = |x|_p^p / p``, 1 < p < infinity;
``norm`` is p everywhere, and p = 2 is Euclid's.
"""

import math

import numpy as np
import torch

from . import _signs, checks

# Gauss-Legendre for an integral over [0, 1] of a function that is analytic but for a pole or branch point at 2 or
# beyond: the error falls like 5.8^-2n, and 20 nodes are enough for any p up to 40.
NODES, WEIGHTS = ((0.5 * part).tolist() for part in np.polynomial.legendre.leggauss(20))  # on [-1/2, 1/2]


def norm(vectors, norm=2.0, shape=None):
    """Norm along the last dimension, shape (...).

    ``norm`` is p, between 1 and infinity; or, of the matrix of this ``shape`` (d, e) whose rows stand there one behind
    the other, "spectral", "nuclear", "inf-1", which is the largest s^T W t over s and t of entries 1 and -1, or its
    dual "signs": the least sum of ``|c_j|`` with W = sum_j c_j s_j t_j^T. The last two take sides d <= e with
    2^(d - 1) e <= 8192.
    """
    vectors = checks.floats("vectors", vectors)
    known = (*checks.MATRIX_NORMS, *checks.SIGN_NORMS)
    if checks.any_norm(norm, shape, *vectors.shape[-1:], names=known) in checks.SIGN_NORMS:
        flat = vectors.reshape(-1, vectors.shape[-1]).double().cpu().numpy()
        norms = _signs.dual_norm(flat, shape) if norm == "inf-1" else [_signs.norm(matrix, shape) for matrix in flat]
        return torch.as_tensor(np.asarray(norms)).to(vectors).view(vectors.shape[:-1])
    if norm in checks.MATRIX_NORMS:
        values = torch.linalg.svdvals(vectors.unflatten(-1, tuple(shape)))
        return values[..., 0] if norm == "spectral" else values.sum(-1)
    if norm in (1, 2, math.inf):
        return torch.linalg.vector_norm(vectors, ord=norm, dim=-1)
    largest = vectors.abs().amax(-1, keepdim=True)  # scaled, since high powers overflow or underflow
    largest = torch.where(largest == 0, 1.0, largest)
    return torch.linalg.vector_norm(vectors / largest, ord=norm, dim=-1) * largest[..., 0]


_length = norm  # where an argument is called norm


def dual(norm):
    """Dual norm: q with 1/p + 1/q = 1 for the l_p norm; spectral and nuclear, signs and inf-1 are pairs."""
    for pair in (checks.MATRIX_NORMS, checks.SIGN_NORMS):
        if norm in pair:
            return pair[1 - pair.index(norm)]
    return math.inf if checks.norm(norm) == 1 else 1.0 if norm == math.inf else norm / (norm - 1)


def unit(vectors, norm=2.0):
    """Vectors of shape (..., d) divided by their l_p norm; ValueError if one of them is zero or not finite."""
    vectors = checks.tensor("vectors", vectors, "d")
    largest = vectors.abs().amax(-1, keepdim=True)
    if (largest == 0).any():
        raise ValueError("a vector is zero and has no direction: leave it out, or start the run elsewhere")
    vectors = vectors / largest  # the squares of very long or short ones would overflow or vanish
    return vectors / _length(vectors, norm)[..., None]


def one_minus_cosine(first, second):
    """1 - cos of the angle between vectors, shape (...), between 0 and 2.

    Computed as half the squared distance of the unit vectors: right down to 1e-32, where 1 - <a, b> stops at 1e-16.
    """
    first, second = unit(first), unit(second)
    checks.broadcastable(first=first.shape, second=second.shape)
    return 0.5 * norm(first - second) ** 2


def mirror_map(vectors, norm=2.0):
    """Gradient of the potential, ``sign(x) |x|^(p-1)``, elementwise; the vectors themselves where p = 2.

    Where x is so small or so large that the power leaves the floats it is zero or infinite, for p = 10 below 1e-36.

    Examples
    --------
    >>> mirror_map(torch.tensor([-2, 0, 3], dtype=torch.float64), norm=3).tolist()
    [-4.0, 0.0, 9.0]
    """
    vectors, norm = checks.floats("vectors", vectors), checks.potential(norm)
    return vectors if norm == 2 else vectors.sign() * vectors.abs() ** (norm - 1)


def inverse_mirror_map(vectors, norm=2.0):
    """The x whose :func:`mirror_map` these are, ``sign(y) |y|^(1/(p-1))``, elementwise.

    For p = 1.1 it is the tenth power: infinite where y is above 6e30, zero where it is below 1e-33.
    """
    return mirror_map(vectors, dual(checks.potential(norm)))


def bregman_divergence(first, second, norm=2.0):
    """``D(a, b) = psi(a) - psi(b) - <grad psi(b), a - b>`` of the potential, shape (...), not below zero.

    Exact to a relative 1e-13 also where a and b are nearly equal: entry by entry, with a = (1 + t) b and
    ``|t| <= 1/2``, it is ``(p - 1) |b|^p t^2`` times the integral of (1 - s) (1 + s t)^(p - 2) over s in [0, 1], where
    nothing cancels. For p = 2 it is ``|a - b|^2 / 2``.

    Parameters
    ----------
    first, second : Tensor, shape (..., d)
        a and b.
    norm : float
        1 < p < inf.

    Examples
    --------
    >>> first, second = torch.tensor([[3, 4], [0, 0]], dtype=torch.float64)
    >>> round(bregman_divergence(first, second).item(), 6)
    12.5
    """
    first, second = checks.floats("first", first), checks.floats("second", second)
    checks.broadcastable(first=first.shape, second=second.shape)
    first, second = torch.broadcast_tensors(first, second)
    change = first - second
    if checks.potential(norm) == 2:
        return 0.5 * _length(change) ** 2
    size = second.abs()
    far = first.abs() ** norm / norm - size**norm / norm - mirror_map(second, norm) * change
    close = change.abs() <= size / 2
    ratio = torch.where(close & (size > 0), change / second, 0.0)
    bend = sum(w * (0.5 - s) * (1 + (0.5 + s) * ratio) ** (norm - 2) for s, w in zip(NODES, WEIGHTS, strict=True))
    near = (norm - 1) * size**norm * ratio**2 * bend
    return torch.where(close, near, far).sum(-1)


def directional_bregman_divergence(first, second, norm=2.0):
    """:func:`bregman_divergence` of a and b after both are scaled to unit l_p norm, shape (...) (arXiv:2410.14581).

    There a is the SVM's solution and b the trained parameter. For p = 2 it is :func:`one_minus_cosine`. Where a / b is
    constant up to 1e-16, as rounding leaves it, the value is about 1e-32.
    """
    return bregman_divergence(unit(first, norm), unit(second, norm), norm)


def in_cone(vectors, axis, opening, radius=0.0):
    """Whether vectors lie in the cone C_{mu,R}(axis) of equation (8), arXiv:2306.13596: bool, shape (...).

    Parameters
    ----------
    vectors, axis : Tensor, shape (..., d)
    opening : float or Tensor
        mu: the largest 1 - cos to the axis.
    radius : float or Tensor
        R: the smallest length.
    """
    opening, radius = checks.tensor("opening", opening), checks.tensor("radius", radius)
    if (wrong := opening[(opening < 0) | (opening > 2)]).numel():
        raise ValueError(f"opening is {wrong[0]:g}: 1 - cos to the axis is from 0 to 2")
    if (radius < 0).any():
        raise ValueError(f"radius is {radius.min():g}: a length is not below 0")
    return (one_minus_cosine(vectors, axis) <= opening) & (norm(vectors) >= radius)


def on_circle(angles, radius, norm=2.0):
    """Vectors of l_p norm ``radius`` at ``angles`` from the first axis, shape (..., 2)."""
    angles = checks.floats("angles", angles)
    directions = torch.stack([angles.cos(), angles.sin()], dim=-1)
    radius = checks.floats("radius", radius)
    return radius[..., None] * (directions if norm == 2 else unit(directions, norm))


def along_circle(angles, norm=2.0):
    """Tangents of the circle of an l_p norm at ``angles``, the way that they increase, shape (..., 2)."""
    across = mirror_map(on_circle(angles, 1.0, norm), norm)  # the gradient of the norm
    return torch.stack([-across[..., 1], across[..., 0]], dim=-1)
