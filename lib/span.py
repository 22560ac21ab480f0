"""Write a problem in coordinates of the span of its rows: only these can descent change."""

from dataclasses import replace

import torch

from . import checks


def in_span(problem):
    """The problem in coordinates of an orthonormal basis of the span of its rows A_it, and without queries.

    Gradients are combinations of the rows, so descent never leaves theta_0 + their span. The coordinates keep all inner
    products: within the span, Euclidean norms, cosines, SVMs and the iterates of every rule of :mod:`lib.descent` are
    the same. With queries this is the way to train W where d is large: the inner product of k_it (outer) z_i and
    k_js (outer) z_j is ``<k_it, k_js> <z_i, z_j>``, and neither these rows nor W are formed.

    A theta_0 outside the span keeps its orthogonal part: :func:`span_coordinates` has the start, and ``|theta_t|^2`` is
    ``|theta_0|^2 - |start|^2 + |coordinates|^2``. If theta_0 has independent N(0, s^2) entries, so has the start, one
    for each dimension of the span.

    Parameters
    ----------
    problem : Problem, or lib.joint.JointProblem

    Returns
    -------
    Problem, or JointProblem
        Its keys have m = min(n T, parameter_size) coordinates; scores, tokens, labels and head are the same. Where the
        rank is lower, as it may be in some of a batch, the first coordinates are zero: those of directions in which
        the rows extend less than about 1e-7 of what they do in the widest (the Gram matrix holds squares, in float64).

    Examples
    --------
    >>> from lib.problem import Problem
    >>> problem = Problem(torch.eye(500)[:6].reshape(2, 3, 500), scores=[[1, 0, 0], [1, 0, 0]])  # 6 of 500 dimensions
    >>> small = in_span(problem)
    >>> small.keys.shape, from_span(problem, small, torch.zeros(6)).shape
    (torch.Size([2, 3, 6]), torch.Size([500]))
    """
    checks.either_problem(problem)
    keys = problem.keys.flatten(-3, -2)
    gram, size = keys @ keys.mT, keys.shape[-1]
    if problem.queries is not None:
        queries = problem.queries
        between = queries @ queries.mT
        tokens = problem.keys.shape[-2]
        gram = gram * between.repeat_interleave(tokens, -2).repeat_interleave(tokens, -1)
        size = size * problem.queries.shape[-1]
    squares, vectors = torch.linalg.eigh(gram)
    noise = gram.shape[-1] * 2.0**-52 * squares[..., -1:]
    lengths = torch.where(squares > noise, squares, 0.0).sqrt()
    coordinates = (vectors * lengths[..., None, :])[..., -size:]
    keys = coordinates.unflatten(-2, problem.keys.shape[-3:-1])
    return replace(problem, keys=keys, queries=None)


def span_coordinates(spanned, logits):
    """Coordinates of the projection of a theta on the span of the rows, shape (..., m), from its logits.

    Parameters
    ----------
    spanned : Problem
        Result of :func:`in_span`.
    logits : Tensor, shape (..., n, T)
        ``problem.logits(theta)`` of the problem that it was made from.
    """
    logits = checks.real("logits", logits)
    checks.trailing_shape("logits", logits, *spanned.keys.shape[-3:-1])
    if spanned.mask is not None:
        logits = torch.where(spanned.mask, logits, 0.0)
    return torch.einsum("...ntm,...nt->...m", _pseudo_inverse(spanned.keys), logits)


def from_span(problem, spanned, coordinates):
    """The theta in the span of the rows of ``problem``, (..., parameter_size), from its coordinates (..., m).

    The inverse of :func:`span_coordinates`; with queries it forms W.
    """
    coordinates = checks.real("coordinates", coordinates)
    checks.trailing_shape("coordinates", coordinates, spanned.keys.shape[-1])
    return problem.pull_back(torch.einsum("...ntm,...m->...nt", _pseudo_inverse(spanned.keys), coordinates))


def _pseudo_inverse(keys):
    """Transposed pseudo-inverse of coordinates, whose columns are orthogonal: each divided by its squared length."""
    squares = (keys**2).sum((-3, -2), keepdim=True)
    return keys / torch.where(squares == 0, 1.0, squares)
