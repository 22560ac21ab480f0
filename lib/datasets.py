"""The papers' synthetic data, each from an explicit generator."""

from typing import NamedTuple

import torch
from torch import Tensor

from lib import checks


class DataSet(NamedTuple):
    """What :func:`lib.problem.from_tokens` takes: ``from_tokens(*data)``.

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
    positions, scores = checks.tensor("positions", positions, "n", "T", "k"), checks.tensor("scores", scores, "n", "T")
    tokens = torch.cat([positions, scores[..., None]], dim=-1)
    last = torch.zeros(tokens.shape[-1])
    last[-1] = 1.0
    return DataSet(tokens, torch.ones(tokens.shape[:-2]), last, torch.diag(1 - last))


def figure_1(panel, generator=None):
    """Data of Figure 1 (arXiv:2306.13596), settings of the authors' experiments.

    Parameters
    ----------
    panel : {"a", "b", "c"}
        (a) one input, all non-optimal scores equal; (b) the same keys, unequal scores; (c) three inputs.
    generator : torch.Generator
        For the Gaussian positions of (c).
    """
    if panel in ("a", "b"):
        scores = [1.0, 0.9, 0.9 if panel == "a" else 0.0]
        return scored_tokens([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]], [scores])
    if panel != "c":
        raise ValueError(f"panel {panel!r} is unknown: use a, b or c")
    centres = torch.tensor([[1.0, 0.0]] + 3 * [[-1.0, 1.0]] + 3 * [[-0.5, -0.5]])
    positions = centres + 0.2 * torch.randn(3, 7, 2, generator=generator)
    return scored_tokens(positions, torch.tensor([1.0] + 6 * [0.5]).expand(3, -1))


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
    tokens = torch.tensor([[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]], [[0.0, 0.0], [0.5, third]]])
    return tokens, torch.tensor([1.0, -1.0, 1.0])


def on_sphere(n, T, d, trials, generator):
    """Tokens and heads uniform on the unit sphere, labels +1 or -1 by a fair coin, W = I; ``trials`` of them.

    The random problems of Figures 9 and 10 (arXiv:2306.13596).
    """
    tokens = torch.nn.functional.normalize(torch.randn(trials, n, T, d, generator=generator), dim=-1)
    head = torch.nn.functional.normalize(torch.randn(trials, d, generator=generator), dim=-1)
    labels = 2.0 * torch.randint(0, 2, (trials, n), generator=generator) - 1
    return DataSet(tokens, labels, head, torch.eye(d))
