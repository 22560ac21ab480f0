"""Norms and directions of parameters, which are vectors along the last dimension."""

import torch

from lib import checks


def norm(vectors, order=2.0):
    """l_p norm along the last dimension, shape (...); ``order`` between 1 and infinity."""
    if not order >= 1:
        raise ValueError(f"norm order is {order}: an l_p norm has 1 <= p <= inf")
    return torch.linalg.vector_norm(vectors, ord=order, dim=-1)


def unit(vectors):
    """Vectors of shape (..., d) divided by their Euclidean length; ValueError if one of them is zero or not finite."""
    vectors = checks.tensor("vectors", vectors, "d")
    largest = vectors.abs().amax(-1, keepdim=True)
    if (largest == 0).any():
        raise ValueError("a zero vector has no direction: leave it out, or start the run elsewhere")
    vectors = vectors / largest  # the squares of very long or short ones would overflow or vanish
    return vectors / norm(vectors)[..., None]


def one_minus_cosine(first, second):
    """1 - cos of the angle between vectors, shape (...), between 0 and 2.

    Computed as half the squared distance of the unit vectors: right down to 1e-32, where 1 - <a, b> stops at 1e-16.
    """
    return 0.5 * norm(unit(first) - unit(second)) ** 2


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
    return (one_minus_cosine(vectors, axis) <= opening) & (norm(vectors) >= radius)
