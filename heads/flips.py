"""How far a head is from selecting another token: the least change of its W, in closed form and with a certificate.

Token t overtakes the selected token a of an input with query z where (x_a - x_t) . (W + dW) z <= 0. Of all such dW the
one of rank one, -lead (x_a - x_t) z^T / (|x_a - x_t| |z|)^2, is shortest, in the Frobenius and in the spectral norm
alike: its length is lead / (|x_a - x_t| |z|), and no shorter one moves the lead as far (Cauchy and Schwarz). A head
has W as a product of keys and queries; a change of these is a change of W, and so no smaller.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from ._lib import check_selected


class Flips(NamedTuple):
    """The least change that turns each input to another token.

    taker : Tensor of int, shape (n,), the token that overtakes first.
    distance : Tensor, shape (n,), length of the least change; below 0 where the token has not the largest logit.
    """

    taker: Tensor
    distance: Tensor


def nearest_flips(keys, logits, selected, lengths=1.0):
    """Least change of W for each input: :class:`Flips`.

    Keys are (n, T, d), logits (n, T) -inf for hidden tokens, and may hold a part that does not depend on W, such as a
    bias for each place; lengths (n,) are those of the vectors that ask, 1 with a prompt.

    Examples
    --------
    >>> keys = torch.tensor([[[0.0, 3.0], [4.0, 0.0], [9.0, 9.0]]])
    >>> nearest_flips(keys, torch.tensor([[5.0, 0.0, -torch.inf]]), torch.tensor([0]))
    Flips(taker=tensor([1]), distance=tensor([1.]))
    """
    place = selected[:, None, None].expand(-1, 1, keys.shape[-1])
    key_distances = torch.linalg.vector_norm(keys - keys.gather(1, place), dim=-1)
    leads = logits.gather(1, selected[:, None]) - logits
    # A token with the same key has the same logit under any W: it cannot overtake.
    nearest = torch.where(key_distances > 0, leads / key_distances, torch.inf).min(-1)
    return Flips(nearest.indices, nearest.values / lengths)


def flip_distances(problem, theta, selected=None):
    """Least change of theta under which another token of an input has as large a logit: :class:`Flips` of all inputs.

    The problem has no leading dimensions; ``selected`` (n,) are the tokens with the largest logit when left out.

    Examples
    --------
    >>> from lib.problem import Problem
    >>> problem = Problem([[[0.0, 3.0], [4.0, 0.0]]], [[1.0, 0.0]], queries=[[1.0]])
    >>> flip_distances(problem, [1.0, 3.0]).distance.item()
    1.0
    """
    logits, queries = problem.logits(theta), problem.queries
    selected = logits.argmax(-1) if selected is None else check_selected(problem, selected)
    return nearest_flips(
        problem.keys, logits, selected, 1.0 if queries is None else torch.linalg.vector_norm(queries, dim=-1)
    )


def least_change(problem, theta, place, token, selected=None):
    """Certificate of a flip: the least change of theta that makes ``token`` tie in the input at ``place``.

    Examples
    --------
    >>> from lib.problem import Problem
    >>> problem = Problem([[[0.0, 3.0], [4.0, 0.0]]], [[1.0, 0.0]], queries=[[1.0]])
    >>> change = least_change(problem, [1.0, 3.0], place=0, token=1)
    >>> problem.logits(change + torch.tensor([1.0, 3.0])).diff().abs().item() < 1e-12, change.norm().item()
    (True, 1.0)
    """
    logits = problem.logits(theta)[place]
    chosen = logits.argmax() if selected is None else check_selected(problem, selected)[place]
    row = problem.keys[place, chosen] - problem.keys[place, token]
    if problem.queries is not None:
        row = torch.outer(row, problem.queries[place]).flatten()
    return (logits[token] - logits[chosen]) / row.square().sum() * row
