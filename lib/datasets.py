"""Draw the papers' synthetic data, each from an explicit generator: in float64."""

import math
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from . import checks


def coin_labels(trials, n, generator):
    """Draw labels +1 and -1 (trials, n) by a fair coin."""
    checks.generator(generator)
    return 2 * torch.randint(0, 2, (trials, n), generator=generator).double() - 1


class DataSet(NamedTuple):
    """Arguments of :func:`lib.problem.from_tokens`: ``from_tokens(*data)``.

    tokens (..., n, T, d), labels (..., n), head (..., d), key_matrix (d, d).
    """

    tokens: Tensor
    labels: Tensor
    head: Tensor
    key_matrix: Tensor


def scored_tokens(positions, scores):
    """Tokens (position, score) with W = diag(1, ..., 1, 0) and v = (0, ..., 0, 1), labels +1.

    The construction of figures 1, 4 and 5 of arXiv:2306.13596: any score at any key.

    Parameters
    ----------
    positions : array_like, shape (..., n, T, k)
    scores : array_like, shape (..., n, T)

    Returns
    -------
    DataSet
        With d = k + 1.
    """
    given = checks.tensors(positions=(positions, "n", "T", "k"), scores=(scores, "n", "T"))
    shapes = [tuple(given["positions"].shape[-3:-1]), tuple(given["scores"].shape[-2:])]
    if shapes[0] != shapes[1]:
        raise ValueError(f"positions have (n, T) = {shapes[0]}, scores {shapes[1]}: give each token one score")
    tokens = torch.cat([given["positions"], given["scores"][..., None]], dim=-1)
    last = tokens.new_zeros(tokens.shape[-1])
    last[-1] = 1.0
    return DataSet(tokens, tokens.new_ones(tokens.shape[:-2]), last, torch.diag(1 - last))


def figure_1(panel, generator=None):
    """Data of Figure 1 (arXiv:2306.13596), settings of the authors' experiments.

    Parameters
    ----------
    panel : {"a", "b", "c"}
        (a) one input, all non-optimal scores equal; (b) the same keys, unequal scores; (c) three inputs.
    generator : torch.Generator, optional
        For the Gaussian positions of (c); without one they are the authors' own draw, which Figure 4 shares.

    Examples
    --------
    >>> from lib.problem import from_tokens
    >>> from_tokens(*figure_1("b")).scores.argmax(-1).tolist()
    [0]
    >>> [round(entry, 3) for entry in figure_1("c").tokens[0, 0].tolist()]
    [0.775, -0.23, 1.0]
    """
    if panel in ("a", "b"):
        scores = [1.0, 0.9, 0.9 if panel == "a" else 0.0]
        return scored_tokens([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]], [scores])
    if panel != "c":
        raise ValueError(f"panel {panel!r} is unknown: use a, b or c")
    if generator is None:  # three coordinates in single precision, of which the last made room for the score
        spread = torch.randn(3, 7, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float32)[..., :2]
    else:
        spread = _gaussian(3, 7, 2, generator=generator)
    centres = spread.new_tensor([[1.0, 0.0]] + 3 * [[-1.0, 1.0]] + 3 * [[-0.5, -0.5]])
    return scored_tokens((centres + 0.2 * spread).double(), 3 * [[1.0] + 6 * [0.5]])


def figure_3(panel):
    """Tokens (3, 2, 2) and labels (3,) of Figure 3 (arXiv:2306.13596), settings of the authors' experiments.

    Parameters
    ----------
    panel : {"a", "b"}
        (a) all three optimal tokens support the head; (b) the third lies beyond the label margin.
    """
    if panel not in ("a", "b"):
        raise ValueError(f"panel {panel!r} is unknown: use a or b")
    third = 1.0 if panel == "a" else 1.5
    tokens = [[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]], [[0.0, 0.0], [0.5, third]]]
    return torch.tensor(tokens, dtype=torch.float64), torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)


def _gaussian(*shape, generator):
    """Independent N(0, 1) numbers."""
    checks.generator(generator)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def _check_sizes(**sizes):
    for name, value in sizes.items():
        checks.integer(name, value)


def on_sphere(n, T, d, trials, generator):
    """Tokens and heads uniform on the unit sphere, labels +1 or -1 by a fair coin, W = I; ``trials`` of them.

    The random problems of Figures 9 and 10 (arXiv:2306.13596).

    Examples
    --------
    >>> data = on_sphere(n=4, T=6, d=10, trials=3, generator=torch.Generator().manual_seed(0))
    >>> tuple(data.tokens.shape), data.labels.abs().unique().tolist()
    ((3, 4, 6, 10), [1.0])
    """
    _check_sizes(n=n, T=T, d=d, trials=trials)
    tokens = torch.nn.functional.normalize(_gaussian(trials, n, T, d, generator=generator), dim=-1)
    head = torch.nn.functional.normalize(_gaussian(trials, d, generator=generator), dim=-1)
    return DataSet(tokens, coin_labels(trials, n, generator), head, torch.eye(d, dtype=head.dtype))


class Sequences(NamedTuple):
    """Data of self-attention: ``from_tokens(*data, head, queries=data.queries)`` for a fixed head.

    tokens (trials, n, T, d), labels (trials, n).
    """

    tokens: Tensor
    labels: Tensor

    @property
    def queries(self):
        """z_i = x_i1, the first token of each input, shape (trials, n, d)."""
        return self.tokens[..., 0, :]


def orthogonal_tokens(n, T, d, trials, generator, noise=0.0):
    """Unit tokens, orthogonal across the whole data set; labels by a fair coin.

    On such data the convergence of arXiv:2402.05738 is global. Scores can be chosen freely
    (:func:`head_with_scores`).

    Parameters
    ----------
    n, T, d, trials : int
        ``d >= n T``.
    generator : torch.Generator
    noise : float
        Gaussian noise of about this length is added to each token: nearly orthogonal ones.

    Returns
    -------
    Sequences
    """
    _check_sizes(n=n, T=T, d=d, trials=trials)
    checks.number("noise", noise, lambda noise: 0 <= noise < math.inf, "give a length of at least 0")
    if d < n * T:
        raise ValueError(f"d is {d}: {n * T} tokens (n T) are orthogonal only in at least as many dimensions")
    tokens = _orthonormal(trials, n * T, d, generator)
    tokens = tokens + noise / d**0.5 * _gaussian(*tokens.shape, generator=generator)
    return Sequences(tokens.unflatten(-2, (n, T)), coin_labels(trials, n, generator))


def _orthonormal(trials, count, d, generator):
    """Orthonormal rows (trials, count, d), uniformly distributed, which takes the signs of QR's diagonal."""
    columns, triangle = torch.linalg.qr(_gaussian(trials, d, count, generator=generator))
    return (columns * triangle.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]).mT


def head_with_scores(tokens, labels, scores):
    """Shortest head u with given scores, Y_i u . x_it = gamma_it, shape (..., d).

    Parameters
    ----------
    tokens : array_like, shape (..., n, T, d)
    labels : array_like, shape (..., n)
    scores : array_like, shape (..., n, T)

    Raises
    ------
    ValueError
        If no head has them; with n T independent tokens there always is one.
    """
    data = checks.tensors(tokens=(tokens, "n", "T", "d"), labels=(labels,), scores=(scores, "n", "T"))
    tokens, labels, scores = data["tokens"], checks.labels(data["labels"]), data["scores"]
    if tokens.shape[-3:-1] != scores.shape[-2:] or labels.shape[-1:] != scores.shape[-2:-1]:
        raise ValueError(
            f"tokens have (n, T) = {tuple(tokens.shape[-3:-1])}, scores {tuple(scores.shape[-2:])}, labels"
            f" n = {tuple(labels.shape[-1:])}: give each token one score and each input one label"
        )
    wanted = (labels[..., None] * scores).flatten(-2)
    rows = tokens.flatten(-3, -2)
    head = torch.einsum("...dm,...m->...d", torch.linalg.pinv(rows), wanted)
    missed = (torch.einsum("...md,...d->...m", rows, head) - wanted).abs().max()
    if missed > 1e-9 * wanted.abs().max():
        raise ValueError(
            f"no head has these scores, the nearest is off by {missed:.2g}: take linearly independent tokens"
        )
    return head


def one_best(n, T, trials, generator, top=None, equal=True):
    """Scores with one best token in each input, anywhere; the others are lower by between 0.2 and 1.2.

    Where an input's other scores are equal, they satisfy Assumption B of arXiv:2306.13596.

    Parameters
    ----------
    n, T, trials : int
    generator : torch.Generator
    top : float, optional
        Score of all best tokens; uniform between 0 and 2 when left out, each input's its own.
    equal : bool
        Whether an input's other tokens have one score, or each its own.

    Returns
    -------
    Tensor, shape (trials, n, T)

    Examples
    --------
    >>> scores = one_best(n=2, T=3, trials=5, generator=torch.Generator().manual_seed(0), top=1.0)
    >>> tuple(scores.shape), scores.amax(-1).unique().tolist()
    ((5, 2, 3), [1.0])
    """
    _check_sizes(n=n, trials=trials)
    checks.integer("T", T, 2)
    checks.generator(generator)

    def uniform(count):
        return torch.rand(trials, n, count, generator=generator, dtype=torch.float64)

    best = torch.randint(T, (trials, n, 1), generator=generator)
    highest = 2 * uniform(1) if top is None else torch.full(best.shape, top, dtype=torch.float64)
    gap = 0.2 + uniform(1 if equal else T)
    return (highest - gap).expand(-1, -1, T).scatter(-1, best, highest)


def accepted(draw, count, tries):
    """Draw until ``count`` results are accepted, ``tries`` times at most.

    Parameters
    ----------
    draw : callable
        Returns a result, or None where it is to be left out.
    count, tries : int

    Returns
    -------
    list
        Fewer than ``count`` where not enough of the tries were accepted.

    Examples
    --------
    >>> numbers = iter([3, None, 5, 7])
    >>> accepted(lambda: next(numbers), count=2, tries=4)
    [3, 5]
    """
    checks.has_attribute("draw", draw, "__call__", "a function that returns a result")
    checks.integer("count", count, 0)
    checks.integer("tries", tries, 0)
    return list(islice((candidate for candidate in (draw() for _ in range(tries)) if candidate is not None), count))


def signal_tokens(n, T, d, trials, generator):
    """Gaussian-type data of the joint result of arXiv:2402.05738: in each input one token is the signal of its label.

    The signals of the two labels are orthogonal unit vectors; all other tokens are N(0, I/d), made orthogonal to both.
    Labels are a fair coin, and the signal's place is uniform among the T, so that it is the query of some inputs.

    Returns
    -------
    data : Sequences
    signal : Tensor of int, shape (trials, n)
        Place of the signal, the optimal token.
    """
    _check_sizes(n=n, T=T, d=d, trials=trials)
    if d < 3:
        raise ValueError(f"d is {d}: noise that is orthogonal to two signals needs at least 3 dimensions")
    signals = _orthonormal(trials, 2, d, generator)
    labels = coin_labels(trials, n, generator)
    places = torch.randint(0, T, (trials, n), generator=generator)
    tokens = _gaussian(trials, n, T, d, generator=generator) / d**0.5
    along = torch.einsum("rntd,rsd->rnts", tokens, signals)
    tokens = tokens - torch.einsum("rnts,rsd->rntd", along, signals)
    label_signal = torch.where(labels[..., None] > 0, signals[:, None, 0], signals[:, None, 1])
    here = torch.nn.functional.one_hot(places, T).bool()[..., None]
    return Sequences(torch.where(here, label_signal[..., None, :], tokens), labels), places
