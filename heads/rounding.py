"""How many bits the keys and queries of a running model need: forecast from leads, counted, and with an interval.

With independent noise in the entries of W_Q and W_K, of standard deviation r_k and s_k in row k, the lead of the chosen
token a over token t (:mod:`heads.choices`) changes by noise of variance, over the square of the scale::

    |x_i|^2 sum_k r_k^2 v_k^2,  v = J_i^T (k_a - k_t),                            from W_Q,
    sum_k s_k^2 |w_ak x_a - w_tk x_t|^2,  w_t = J_t^T q,                          from W_K,

and where both are noisy by one more term, of fourth order in the noise. Gradients are those of the closed forms, so
rotary positions and shared keys are in it. :func:`heads.bits.flip_probability` makes probabilities of spreads.
"""

from typing import NamedTuple

import torch

from . import bits as plain
from .choices import made

ASKS = 8  # queries of an input that are rounded, drawn at random where there are more
DRAWS = 6  # roundings with other offsets, from which the interval comes
NARROW = 1.645  # standard deviations on either side of an interval that holds nine times in ten
NEAREST = 48  # tokens whose overtaking is reckoned with; others are farther than these


class Rounded(NamedTuple):
    """Shares of choices that flip, of a head.

    forecast, counted : dict by number of bits.
    needed, fewest, most : int or None, the bits at which 95 % of the choices stay by the forecast, and its interval
        over inputs and roundings; None where the largest number of bits that was asked for is too few.
    queries : int, different queries among the ``choices``: inputs that share one flip together.
    """

    forecast: dict
    counted: dict
    needed: int | None
    fewest: int | None
    most: int | None
    queries: int
    choices: int


class Part(NamedTuple):
    """What is measured on one batch, of which :func:`rounded` makes shares.

    forecast : Tensor, shape (numbers, heads, n), of each input. counted : Tensor, shape (numbers, heads), flips.
    choices : Tensor, shape (n,). queries : set of hashes. over : list, relative spread over roundings of each head.
    """

    forecast: torch.Tensor
    counted: torch.Tensor
    choices: torch.Tensor
    queries: set
    over: list


def some_asks(call, asks, rows):
    """A mask (n, T) of at most `ASKS` of the queries of each input that choose, drawn at random by its number."""
    asks = asks & (call.logits.isfinite().sum(-1) > 1).all(1)
    some, rows = torch.zeros_like(asks), rows if len(rows) == len(asks) else range(len(asks))  # windows of an image
    for there, few, row in zip(asks, some, rows, strict=True):
        at = there.nonzero().flatten()
        few[at[torch.randperm(len(at), generator=torch.Generator().manual_seed(int(row)))[:ASKS]]] = True
    return some


def head_rounding(call, asks, queries, keys, numbers):
    """:class:`Rounded` of each head of a call, for numbers of bits; ``asks`` (n, T) are the queries.

    ``queries`` and ``keys`` are :class:`heads.choices.Side`.
    """
    return rounded([measured(call, asks, queries, keys, numbers)], numbers)


def measured(call, asks, queries, keys, numbers, again=True):
    """:class:`Part` of a call, None where nothing chooses; with ``again`` it is rounded with other offsets, too."""
    asks = asks & (call.logits.isfinite().sum(-1) > 1).all(1)
    places = [(i, where.nonzero().flatten()) for i, where in enumerate(asks) if where.any()]
    if not places:
        return None
    noise = [_largest(side) for side in (queries, keys)]
    forecasts = torch.stack([_forecast(call, i, at, queries, keys, noise, numbers) for i, at in places], -1)
    counted = torch.stack([_flips(call, places, queries, keys, b).sum(-1) for b in numbers])
    turn, spots = queries.turn, torch.cat([queries.places[i, at] for i, at in places])
    rows = [torch.cat([queries.inputs[i, at] for i, at in places]), turn.by_first[spots], turn.by_second[spots]]
    rows = torch.cat([row.double() for row in rows], -1).numpy()  # what asks, and how it is turned
    part = Part(forecasts, counted, torch.tensor([len(at) for _, at in places]), {hash(x.tobytes()) for x in rows}, [])
    if not again:
        return part
    means = (forecasts * part.choices).sum(-1) / part.choices.sum()
    needed = [_fewest(numbers, means[:, head]) or numbers[-1] for head in range(means.shape[1])]
    over = _over_roundings(call, places, queries, keys, needed)
    at = [max(means[numbers.index(bits), head].item(), 1e-9) for head, bits in enumerate(needed)]
    return part._replace(over=[spread / share for spread, share in zip(over, at, strict=True)])


def rounded(parts, numbers):
    """:class:`Rounded` of each head, of all batches, each choice with the same weight.

    The first batch tells the spread over roundings: it comes from the weights, and more inputs do not lessen it.
    """
    forecasts, choices = (torch.cat([getattr(part, name) for part in parts], -1) for name in ("forecast", "choices"))
    total = choices.sum()
    means, counted = (forecasts * choices).sum(-1) / total, sum(part.counted for part in parts) / total
    spread = ((forecasts - means[..., None]) * choices).square().sum(-1).sqrt() / total  # (numbers, heads)
    different, found = len(set().union(*(part.queries for part in parts))), []
    for head, over in enumerate(parts[0].over):
        needed = _fewest(numbers, means[:, head])
        k = numbers.index(needed or numbers[-1])
        sizes = means[:, head].clamp(min=1e-9)  # a count's spread over roundings grows at most like its root
        relative = NARROW * torch.hypot(spread[:, head] / sizes, over * (sizes[k] / sizes).sqrt())
        low, high = (_fewest(numbers, sizes * (1 + sign * relative).clamp(min=0)) for sign in (-1, 1))
        shares = [dict(zip(numbers, x[:, head].tolist(), strict=True)) for x in (means, counted)]
        found.append(Rounded(*shares, needed, low, high, different, int(total)))
    return found


def _fewest(numbers, shares):
    """The fewest bits at which at most 5 % flip; None where the most are too few."""
    return next((b for b, share in zip(numbers, shares.tolist(), strict=True) if share <= 1 - plain.KEPT), None)


def _largest(side):
    """Largest entry of each row of a side's matrix, (groups, h)."""
    return side.turn.matrix()[0].abs().amax(-1)


def _forecast(call, i, at, queries, keys, noise, numbers):
    """Probability that the choices of an input flip, mean over its queries: (numbers, heads)."""
    first, second, both = lead_variances(call, i, at, queries, keys, *noise)
    logits = call.logits[i][:, at].double()
    answers = []
    for b in numbers:
        size = 1 / (2 ** (b - 1) - 1) ** 2 / 12
        variances = size * (first + second) + size**2 * both
        answers.append(lead_probability(logits, call.scale * variances.clamp(min=0).sqrt()).mean(-1))
    return torch.stack(answers)


def lead_probability(logits, spreads):
    """:func:`heads.bits.flip_probability` of (heads, m, S), by the tokens that are nearest to overtake."""
    top, selected = logits.max(-1, keepdim=True)
    distances = ((top - logits) / spreads).nan_to_num(torch.inf).scatter(-1, selected, -1.0)
    near = distances.topk(min(NEAREST, distances.shape[-1]), largest=False).indices
    return plain.flip_probability(logits.gather(-1, near), spreads.gather(-1, near))


def lead_variances(call, i, at, queries, keys, query_noise, key_noise):
    """Variances (heads, m, S) of the leads of an input by noise in W_Q, in W_K, and in both, over the scale squared.

    The noise (groups, h) is the standard deviation of the entries of each row. The variance by noise in both takes
    means over a head's entries: where rotary positions turn them and rows differ in noise it is an approximation.
    """
    heads = call.query.shape[1]
    query_noise, key_noise = (x.repeat_interleave(heads // len(x), 0) for x in (query_noise, key_noise))
    query, key = call.query[i].detach().double()[:, at], call.keys[i].double()
    selects = call.logits[i][:, at].argmax(-1)  # (heads, m)
    x, received = queries.inputs[i, at], keys.inputs[i]
    gaps = key.gather(1, selects[..., None].expand(-1, -1, key.shape[-1]))[:, :, None] - key[:, None]
    turned = queries.turn.back(gaps, queries.places[i, at][:, None])  # v
    sizes = x.square().sum(-1)[:, None]
    from_query = sizes * torch.einsum("hmsk,hk->hms", turned.square(), query_noise.square())
    back = keys.turn.back(query[:, :, None], keys.places[i])  # w, (heads, m, S, h)
    gram = received @ received.mT
    norms, dots = gram.diagonal(), gram[selects]
    own = back.gather(2, selects[..., None, None].expand(-1, -1, 1, back.shape[-1]))
    squares = torch.einsum("hmsk,hk->hms", back.square(), key_noise.square())
    crossed = torch.einsum("hmsk,hmk,hk->hms", back, own[:, :, 0], key_noise.square())
    from_key = squares.gather(-1, selects[..., None]) * norms[selects][..., None] + squares * norms - 2 * crossed * dots
    turn, place = keys.turn, keys.places[i]
    rows = torch.cat([turn.by_first[place], turn.by_second[place]], -1).double()
    turns = rows @ rows.mT
    both = turns.diagonal()[selects][..., None] * norms[selects][..., None] + turns.diagonal() * norms
    both = both - 2 * turns[selects] * dots
    stretch = (
        queries.turn.by_first[queries.places[i, at]].square() + queries.turn.by_second[queries.places[i, at]].square()
    )
    common = (query_noise * key_noise).square().mean(-1)[:, None, None] * stretch.double().mean(-1)[:, None]
    return from_query, from_key, common * sizes * both


def _flips(call, places, queries, keys, bits, offsets=None):
    """Whether each choice flips when W_Q and W_K are rounded row by row, (heads, all queries)."""
    parts = []
    for side, offset in zip((queries, keys), offsets or (None, None), strict=True):
        weight, bias = side.turn.matrix()
        steps = plain.step_sizes(weight, bits) if isinstance(bits, int) else _steps(weight, bits)
        parts.append((side, _rounded(weight, steps, offset), bias))
    return turned(call, places, parts)


def _steps(weight, bits):
    """Steps (groups, h, 1) with another number of bits for each head."""
    some = torch.as_tensor(bits)[:: len(bits) // len(weight)].double()
    return weight.abs().amax(-1, keepdim=True) / (2 ** (some - 1) - 1)[:, None, None]


def _rounded(weight, steps, offset):
    if offset is None:
        return plain.rounded(weight, steps)
    return torch.where(steps > 0, ((weight / steps + offset).round() - offset) * steps, weight)


def turned(call, places, parts):
    """Whether each choice flips with other matrices of queries and keys: (side, weight, bias) of each."""
    query, key = (made(side, weight.float(), bias.float()) for side, weight, bias in parts)
    flips = []
    for i, at in places:
        then, now = _products(query[i][:, at], key[i]), _products(call.query[i].detach()[:, at], call.key[i].detach())
        logits = call.logits[i][:, at]
        flips.append((logits + call.scale * (then - now)).argmax(-1) != logits.argmax(-1))
    return torch.cat(flips, -1).double()


def _products(query, key):
    return query @ key.repeat_interleave(len(query) // len(key), 0).mT


def _over_roundings(call, places, queries, keys, bits):
    """Standard deviation over roundings of the share that flips, of each head with its bits."""
    generator = torch.Generator().manual_seed(0)
    shares = []
    for _ in range(DRAWS):
        offsets = [torch.rand(side.turn.matrix()[0].shape, generator=generator).double() for side in (queries, keys)]
        shares.append(_flips(call, places, queries, keys, bits, offsets).mean(-1))
    return torch.stack(shares).std(0).tolist()
