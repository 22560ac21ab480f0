"""Find how a running model makes its queries and keys of what a layer receives: which rows of which matrix, turned how.

Of a head, query or key at a place is J (W x + b): x is what a linear module receives there, W some rows of its matrix,
and J, which depends on the place alone, turns it: rotary positions, a scale, or nothing. No table says which: the model
is run on one input, and the derivatives of its queries and keys in the outputs of linear modules tell rows and J. A
head counts only if queries and keys that are made again in this way, on all inputs, are those of the model: where a
norm stands between, or two matrices meet, they are not.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .watch import is_linear, watching

AGAIN = 1e-3  # largest relative error of queries and keys that are made again
MOST_PARTNERS = 2  # entries of a query in which an output of the matrix may stand: rotary positions turn pairs


class Turn(NamedTuple):
    """How one side of a layer, its queries or keys, is made.

    module : Module, linear; its name is ``name``.
    rows : Tensor of int, shape (groups, h), of its matrix, those of each head.
    first, second : Tensor of int, shape (h,): the entries of a query in which output k of the rows stands,
    by_first, by_second : Tensor, shape (places, h): and what it is multiplied by there.
    """

    module: torch.nn.Module
    rows: Tensor
    first: Tensor
    second: Tensor
    by_first: Tensor
    by_second: Tensor

    def matrix(self):
        """Rows of the matrix and of its bias, (groups, h, e) and (groups, h), in float64."""
        weight, bias = self.module.weight.detach(), getattr(self.module, "bias", None)
        weight = weight if isinstance(self.module, torch.nn.Linear) else weight.mT
        some = weight.double()[self.rows]
        return some, torch.zeros(self.rows.shape).double() if bias is None else bias.detach().double()[self.rows]

    def ahead(self, outputs, places):
        """J times outputs (..., T, h) of the rows, at places (..., T)."""
        turned = torch.zeros_like(outputs)
        turned.index_add_(-1, self.first, outputs * self.by_first.to(outputs)[places])
        turned.index_add_(-1, self.second, outputs * self.by_second.to(outputs)[places])
        return turned

    def back(self, vectors, places):
        """J^T times vectors (..., T, h), at places that broadcast to (..., T)."""
        first, second = self.by_first.to(vectors)[places], self.by_second.to(vectors)[places]
        return first * vectors[..., self.first] + second * vectors[..., self.second]

    @property
    def lengths(self):
        """What J multiplies lengths by at each place, (places,); None where it is no multiple of a rotation."""
        dots = torch.einsum("pkl,pkj->plj", self._dense, self._dense)
        squares = dots.diagonal(dim1=-2, dim2=-1).mean(-1)
        apart = dots - squares[:, None, None] * torch.eye(len(self.first))
        return None if apart.abs().max() > 1e-3 * squares.max() else squares.sqrt()

    @property
    def _dense(self):
        size = len(self.first)
        dense = self.by_first.new_zeros(len(self.by_first), size, size)
        dense[:, torch.arange(size), self.first] += self.by_first
        dense[:, torch.arange(size), self.second] += self.by_second
        return dense


def plain_turn(module, heads, size, first_row=0):
    """The turn of a linear module whose rows are the queries, head by head, as they are."""
    rows = first_row + torch.arange(heads * size).view(heads, size)
    one = torch.ones(1, size)
    return Turn(module, rows, torch.arange(size), torch.arange(size), one, torch.zeros_like(one))


def find_turns(model, run):
    """Turns of queries and keys, a pair for each attention of a model by its name; None where there is none.

    ``run`` runs the model on one input without padding, the longest.
    """
    found, leaves = {}, []

    def cut(module, given, output):
        leaf = output.detach().requires_grad_()
        leaves.append((module, leaf))
        return leaf.clone()  # which the model may change in place

    def receive(call):
        found[call.name] = tuple(_turn(side, leaves) for side in (call.query, call.key))
        leaves.clear()

    hooks = [module.register_forward_hook(cut) for module in model.modules() if is_linear(module)]
    try:
        with torch.inference_mode(False), torch.enable_grad(), watching(model, receive):
            run()
    finally:
        for hook in hooks:
            hook.remove()
    return found


def _turn(side, leaves):
    """The :class:`Turn` of queries or keys (1, groups, T, h) of one input; None where they are none of one matrix."""
    if not side.requires_grad or len(side) != 1 or not leaves:
        return None
    groups, size = side.shape[1], side.shape[-1]
    weights = torch.linspace(1, 2, size).to(side)  # of which no rotation makes zero at all places
    each = [_derivatives(side, leaves, group, weights) for group in range(groups)]
    if {*map(tuple, each)} != {tuple(each[0])} or len(each[0]) != 1:
        return None
    (place,) = each[0]
    rows = [(one[place] != 0).any(0).nonzero().flatten() for one in each]
    module, leaf = leaves[place]
    if any(len(some) != size for some in rows) or leaf.shape[:-1] not in ((1, side.shape[2]), side.shape[2:3]):
        return None
    entries = [_derivatives(side, leaves, 0, weights * (torch.arange(size) == entry)) for entry in range(size)]
    dense = [one[place][:, rows[0]] / weights[k] if one else 0 * side[0, 0] for k, one in enumerate(entries)]
    return _paired(module, torch.stack(rows), torch.stack(dense, 1).detach())


def _derivatives(side, leaves, group, weights):
    """Derivatives (T, outputs) of a weighted sum of a group's entries, by the place of the leaf; none that is zero."""
    pattern = torch.zeros_like(side)
    pattern[:, group] = weights
    slopes = torch.autograd.grad(side, [leaf for _, leaf in leaves], pattern, retain_graph=True, allow_unused=True)
    return {k: slope.flatten(0, -2) for k, slope in enumerate(slopes) if slope is not None and slope.any()}


def _paired(module, rows, dense):
    """The turn of J (T, h, h), in which each row's output stands in one or two entries of the query."""
    there = (dense != 0).any(0)
    if there.sum(0).max() > MOST_PARTNERS or not there.any(0).all():
        return None
    order = there.double().argsort(dim=0, descending=True, stable=True)
    first, second = order[0], order[min(1, len(order) - 1)]
    every = torch.arange(dense.shape[-1])
    by_second = dense[:, second, every].where(there[second, every] & (second != first), 0.0)
    return Turn(module, rows, first, second, dense[:, first, every], by_second)
