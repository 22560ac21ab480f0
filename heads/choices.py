"""What the heads of a layer choose, query by query, and how far each choice is from a flip: in closed form.

A head's logit of token t for a query q is scale q . k_t + bias, and t overtakes the selected token a where the lead
L_a - L_t is 0. With q = J_i (W_Q x_i + b), k_t = J_t (W_K x_t + b'), J of :mod:`heads.turns`, it is linear in q,
in each key, in W_Q and in W_K, each alone. The least change of a linear lead to 0 is lead over the length of its
gradient, along the gradient (Cauchy and Schwarz), and the least of all tokens flips the choice. The gradients, over the
scale: in q it is k_a - k_t; in one key, that of a or that of t, it is q; in W_Q it is J_i^T (k_a - k_t) x_i^T, as long
as J_i^T (k_a - k_t) times x_i; in W_K it is w_a x_a^T - w_t x_t^T with w_t = J_t^T q, whose squared length is
``|w_a|^2 |x_a|^2 + |w_t|^2 |x_t|^2 - 2 (w_a . w_t) (x_a . x_t)``. Rotary positions are in J, and heads that
share a group's keys share its W_K: a change of it for one head is a change for all of them.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from .turns import AGAIN, Turn

DISTANCES = ("query", "key", "query_matrix", "key_matrix")


class Side(NamedTuple):
    """One side of a call with its turn: what the linear module received (n, T, e), and the places (n, T) in the J."""

    turn: Turn
    inputs: Tensor
    places: Tensor


class Chosen(NamedTuple):
    """Choices of the heads of a layer: all tensors have the shape (heads, m) but input and place, (m,).

    input, place : the query token.
    selects, share, entropy : the token with the largest logit, its attention, and the spread over what is seen, 0 to 1.
    taker, lead : the token that overtakes first as the query moves, and how far its logit is behind.
    flips : dict by `DISTANCES`: least change over the length of what is changed, nan where no closed form holds.
    spread : largest minus smallest logit that is seen.
    """

    input: Tensor
    place: Tensor
    selects: Tensor
    share: Tensor
    entropy: Tensor
    taker: Tensor
    lead: Tensor
    flips: dict
    spread: Tensor


def sides(call, pair, real):
    """The :class:`Side` of queries and of keys; None for one that is not made again to `AGAIN`.

    ``real`` are masks of queries and of keys, (n, T) and (n, S), False where a token is padding.
    """
    kept = []
    for x, turn, there in zip((call.query, call.key), pair or (None, None), real, strict=True):
        inputs = [] if turn is None else [p.inputs for p in call.products if p.module is turn.module]
        side = None
        if inputs and inputs[-1].shape[:2] == (len(x), x.shape[2]) and turn.rows.shape[0] == x.shape[1]:
            last, at = len(turn.by_first) - 1, there.cumsum(-1) - 1
            side = Side(turn, inputs[-1].double(), at.clamp(0, last) if last else torch.zeros_like(at))
            weight, bias = turn.matrix()
            again = (made(side, weight, bias) - x).masked_fill(~there[:, None, :, None], 0.0)
            side = side if again.abs().max() <= AGAIN * x.abs().max() else None
        kept.append(side)
    return kept


def made(side, weight, bias):
    """Queries or keys (n, groups, T, h) of a side, with these rows (groups, h, e) of the matrix and its bias."""
    outputs = (
        (side.inputs.to(weight) @ weight.flatten(0, 1).mT + bias.flatten()).unflatten(-1, bias.shape).transpose(1, 2)
    )
    return side.turn.ahead(outputs, side.places[:, None].expand(outputs.shape[:-1]))


def chosen(call, asks, queries=None, keys=None):
    """:class:`Chosen` of a call: where ``asks`` (n, T) and a query sees two tokens or more, it chooses."""
    asks = asks & (call.logits.isfinite().sum(-1) > 1).any(1)
    parts = [_of_input(call, i, where.nonzero().flatten(), queries, keys) for i, where in enumerate(asks)]
    flips = {name: torch.cat([part.flips[name] for part in parts], -1) for name in DISTANCES}
    joined = {
        name: torch.cat([getattr(part, name) for part in parts], -1) for name in Chosen._fields if name != "flips"
    }
    return Chosen(**joined, flips=flips)


def _of_input(call, i, at, queries, keys):
    """The choices of one input, whose tokens at these places ask."""
    logits = call.logits[i][:, at].double()
    seen = logits.isfinite()
    attention = _attention(call, i, at, logits)
    share, selects = attention.max(-1)
    entropy = -(attention * attention.clamp(min=1e-300).log()).sum(-1) / seen.sum(-1).clamp(min=2).log()
    spread = logits.amax(-1) - logits.masked_fill(~seen, torch.inf).amin(-1)
    leads = _leads(call, i, at, logits, selects)
    query, key = call.query[i].detach().double()[:, at], call.keys[i].double()
    gram = key @ key.mT
    lengths = gram.diagonal(dim1=-2, dim2=-1)
    rows = gram.gather(1, selects[..., None].expand(-1, -1, gram.shape[-1]))
    squares = lengths[:, None] + lengths.gather(1, selects)[..., None] - 2 * rows
    apart = squares.clamp(min=0).sqrt()
    # Keys that are equal to rounding have equal logits for any query: such a token cannot overtake.
    apart = apart.where(squares > 1e-12 * lengths[:, None], 0.0)
    nearest, taker = torch.where(apart > 0, leads / apart, torch.inf).min(-1)
    size, own = query.norm(dim=-1), lengths.gather(1, selects).sqrt()
    runner = leads.scatter(-1, selects[..., None], torch.inf).amin(-1)
    flips = {"query": nearest / call.scale / size, "key": runner / call.scale / size / own}
    flips["query_matrix"] = _in_query_matrix(nearest / call.scale, i, at, queries)
    flips["key_matrix"] = _in_key_matrix(leads / call.scale, selects, query, i, keys)
    flips = {name: _finite(x.expand(share.shape)) for name, x in flips.items()}
    lead = leads.gather(-1, taker[..., None])[..., 0]
    number = torch.full_like(at, i)
    numbers = (x.float() for x in (share, entropy))
    return Chosen(number, at, selects, *numbers, taker, _finite(lead), flips, spread.float())


def _finite(x):
    return x.where(x.isfinite(), torch.nan).float()


def _attention(call, i, at, logits):
    if call.sinks is None:
        return logits.softmax(-1).nan_to_num(0.0)
    return call.shares()[i][:, at].double()


def _leads(call, i, at, logits, selects):
    """Leads (heads, m, S) of the selected token over each, inf for hidden ones; nan where no closed form holds.

    A cap keeps the order of products, but not where a bias is added behind it.
    """
    if call.cap is not None:
        if call.bias is not None:
            return torch.full_like(logits, torch.nan)
        products = (call.query[i].detach().double()[:, at] @ call.keys[i].double().mT) * call.scale
        logits = products.where(logits.isfinite(), -torch.inf)
    return logits.gather(-1, selects[..., None]) - logits


def _in_query_matrix(nearest, i, at, side):
    """Distances (heads, m) in the rows of W_Q, of those in the query times its length."""
    scales = None if side is None else side.turn.lengths
    if scales is None:
        return torch.full_like(nearest, torch.nan)
    norms = side.turn.matrix()[0].norm(dim=(-2, -1))[:, None]
    return nearest / (scales.double()[side.places[i, at]] * side.inputs[i, at].norm(dim=-1)) / norms


def _in_key_matrix(leads, selects, query, i, side):
    """Distances (heads, m) in the rows of W_K of the head's group."""
    if side is None:
        return torch.full_like(leads[..., 0], torch.nan)
    turn, places, inputs = side.turn, side.places[i], side.inputs[i]
    first, second = (x.double()[places] for x in (turn.by_first, turn.by_second))  # (S, h)
    here = query[..., turn.first], query[..., turn.second]
    back = here[0] * first[selects] + here[1] * second[selects]  # w_a, (heads, m, h)
    dots = (back * here[0]) @ first.mT + (back * here[1]) @ second.mT  # w_a . w_t, (heads, m, S)
    squares = (
        here[0].square() @ first.square().mT
        + here[1].square() @ second.square().mT
        + 2 * (here[0] * here[1]) @ (first * second).mT
    )  # |w_t|^2
    gram = inputs @ inputs.mT
    sizes = gram.diagonal()
    lengths = back.square().sum(-1, keepdim=True) * sizes[selects][..., None] + squares * sizes
    lengths = lengths - 2 * dots * gram[selects]
    lengths = lengths.where(lengths > 1e-12 * squares * sizes, 0.0).sqrt()
    nearest = torch.where(lengths > 0, leads / lengths, torch.inf).amin(-1)
    norms = turn.matrix()[0].norm(dim=(-2, -1))
    return nearest / norms.repeat_interleave(len(leads) // len(norms))[:, None]
