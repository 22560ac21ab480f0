"""Measure the heads of a pretrained transformer: what they select, flips, separators of their choices, shapes of W.

The plan and its bounds stand in :mod:`studies.real_transformer`; arrays are those that it records.
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor, nn

from heads.choices import Side, chosen
from heads.rounding import head_rounding
from heads.turns import plain_turn
from heads.watch import Attention
from lib.problem import Problem, difference_rows
from lib.separators import hard_margin
from lib.span import from_span, in_span, span_coordinates
from studies import minilm

SIZE = minilm.WIDTH // minilm.HEADS  # columns of a head
KINDS = ("[CLS]", "[SEP]", "punctuation", "function words", "content words")
BITS = tuple(range(2, 9))
QUERIES = 12  # of a layer, for which separators are solved


class Texts(NamedTuple):
    """Texts as the layers receive them, padded.

    tokens : Tensor, shape (layers, n, T, d). there : bool, shape (n, T). kinds : int, shape (n, T), places in `KINDS`.
    labels : Tensor, shape (n,), 1 and -1.
    """

    tokens: Tensor
    there: Tensor
    kinds: Tensor
    labels: Tensor


def as_texts(arrays):
    """:class:`Texts` from arrays as a run keeps them."""
    lengths = torch.as_tensor(arrays["lengths"]).long()
    there = torch.arange(int(lengths.max())) < lengths[:, None]
    flat = torch.as_tensor(arrays["tokens"]).float()
    tokens, kinds = flat.new_zeros(len(flat), *there.shape, flat.shape[-1]), torch.zeros(there.shape, dtype=torch.long)
    tokens[:, there], kinds[there] = flat, torch.as_tensor(arrays["kinds"]).long()
    return Texts(tokens, there, kinds, torch.as_tensor(arrays["labels"]).double())


def attentions(texts, weights):
    """Each layer's attention on texts, and the sides from which the forecast of flips comes."""
    for k, tokens in enumerate(texts.tokens):
        made, pair = [], []
        for side in ("query", "key"):
            module = nn.Linear(minilm.WIDTH, minilm.WIDTH)
            module.weight.data, module.bias.data = weights[side][k].float(), weights[f"{side}_bias"][k].float()
            made.append(module(tokens).detach().unflatten(-1, (minilm.HEADS, SIZE)).transpose(1, 2))
            pair.append(Side(plain_turn(module, minilm.HEADS, SIZE), tokens.double(), 0 * texts.kinds))
        yield Attention(f"layer {k + 1}", *made, SIZE**-0.5, texts.there[:, None, None]), pair


def selects(texts, weights):
    """The token that each query of each head selects, (layers, heads, pieces): the pieces of all texts in a row."""
    text, at = texts.there.nonzero(as_tuple=True)
    return torch.stack([call.logits.argmax(-1)[text, :, at].T for call, _ in attentions(texts, weights)])


def of_heads(texts, weights, bits=BITS):
    """What heads select and how firmly, and their flips by rounding; tensors (layers, heads, ...).

    ``share`` and ``entropy`` are means over choices, ``above`` and ``nearly`` the shares of choices with more than .9
    and .99 of the attention, ``kinds`` those of each kind, ``given`` the attention that each kind gets. Of the first
    token as the query: ``first``, the share above .9, and ``itself``, the share that select it.
    """
    layers = [_of_layer(texts, *layer, bits) for layer in attentions(texts, weights)]
    return {name: torch.stack([layer[name] for layer in layers]) for name in layers[0]}


def _of_layer(texts, call, pair, bits):
    found = chosen(call, texts.there)
    selected = texts.kinds[found.input, found.selects]
    one_hot = nn.functional.one_hot(texts.kinds, len(KINDS)).float()
    given = torch.einsum("nhts,nsk->nthk", call.shares(), one_hot)[texts.there]
    first = found.place == 0
    rounding = head_rounding(call, texts.there, *pair, list(bits))
    return {
        "share": found.share.mean(-1), "above": (found.share > 0.9).float().mean(-1),
        "nearly": (found.share > 0.99).float().mean(-1), "entropy": found.entropy.mean(-1),
        "kinds": nn.functional.one_hot(selected, len(KINDS)).float().mean(1),
        "given": given.mean(0), "first": (found.share[:, first] > 0.9).float().mean(-1),
        "itself": (found.selects[:, first] == 0).float().mean(-1),
        "forecast": torch.tensor([list(head.forecast.values()) for head in rounding]),
        "counted": torch.tensor([list(head.counted.values()) for head in rounding]),
    }  # fmt: skip


def fewest(shares, bits=BITS, kept=0.95):
    """The fewest bits from which on at most 5 % flip, of shares (..., bits); one more than the most where none does."""
    few = (shares <= 1 - kept).long().flip(-1).cumprod(-1).sum(-1)
    return bits[-1] + 1 - few


def against_separators(texts, weights, draw):
    """Heads beside the max-margin W of their choices, tensors (layers, heads).

    One query of each of `QUERIES` texts, drawn; W is 384 x 385, with the query's bias. ``cosine`` and ``best``, the
    share of the best margin, of heads, ``random_…`` of heads with the same singular values and random singular
    vectors, for their own choices; ``shuffled`` the cosine to the separator of one token of each text, drawn, nan where
    texts with equal queries contradict each other; ``lead``, the least lead over its ceiling in the spectral ball of
    the head's own W.
    """
    found = [_against(texts, *head, draw) for head in enumerate(bilinear(weights))]
    return {name: torch.stack([layer[name] for layer in found]) for name in found[0]}


def of_more(texts, weights, draw, count=4 * QUERIES):
    """What the test says of a max-margin W, tensor (layers,): its cosine to the separator of a part of its choices.

    For the first head of each layer W is the separator of the choices of ``count`` queries, of a text each; the part
    are the first `QUERIES` of them. So many choices as a network was trained on cannot be had.
    """
    cosines = []
    for k, matrices in enumerate(bilinear(weights)):
        problem = asked(texts, k, draw, count)
        spanned, logits = in_span(problem), problem.logits(matrices[0].flatten())
        rows = difference_rows(spanned, logits.argmax(-1))
        few = rows[: QUERIES * (logits.shape[-1] - 1)]  # rows come input by input
        whole, part = (hard_margin(one).theta for one in (rows, few))
        cosines.append(whole @ part / whole.norm() / part.norm())
    return torch.stack(cosines)


def bilinear(weights):
    """W (heads, d, d + 1) of each layer, in float64: logits are x . W (z, 1) up to what all tokens share."""
    keys, queries = (weights[side].double().unflatten(1, (minilm.HEADS, SIZE)) for side in ("key", "query"))
    bias = weights["query_bias"].double().unflatten(1, (minilm.HEADS, SIZE))
    return keys.mT @ torch.cat([queries, bias[..., None]], -1) / math.sqrt(SIZE)


def spectra(weights):
    """Singular values of W (layers, heads, columns of a head), the query's bias left out."""
    keys, queries = (
        torch.linalg.qr(weights[side].double().unflatten(1, (minilm.HEADS, SIZE)).mT).R for side in ("key", "query")
    )
    return torch.linalg.svdvals(keys @ queries.mT) / math.sqrt(SIZE)


def effective_rank(sizes):
    """e to the entropy of singular values (..., r) over their sum (Roy and Vetterli, 2007).

    Examples
    --------
    >>> effective_rank(torch.tensor([2.0, 2.0, 0.0])).item()
    2.0
    """
    shares = sizes / sizes.sum(-1, keepdim=True)
    return torch.special.entr(shares).sum(-1).exp()


def lean_of_weights(weights, draw, without=()):
    """The part from W of the lean to l_inf, less that of the head in rotated coordinates, (layers, heads).

    log(|W|_2 / |W|_inf) as in `your-attention`, where it is above 0 for Adam; ``without`` coordinates that are left
    out.
    """
    kept = [k for k in range(minilm.WIDTH) if k not in without]
    turn = torch.linalg.qr(torch.randn(len(kept), len(kept), generator=draw, dtype=torch.float64)).Q
    parts = [weights[side].double()[..., kept].unflatten(1, (minilm.HEADS, SIZE)) for side in ("key", "query")]
    flat = []
    for keys, queries in (parts, [part @ turn for part in parts]):  # of one Euclidean length, which cancels
        flat.append(
            torch.stack([(one.mT @ other).abs().amax((-2, -1)) for one, other in zip(keys, queries, strict=True)])
        )
    return (flat[1] / flat[0]).log()


def outliers(weights, count=2):
    """The coordinates with the largest sum of squares over key and query matrices of all layers."""
    squares = sum(weights[side].double().square().sum((0, 1)) for side in ("key", "query"))
    return squares.topk(count).indices.tolist()


def alike(matrix, draw):
    """A matrix with the same singular values and random singular vectors."""
    sizes = torch.linalg.svdvals(matrix)[..., :SIZE]
    left, right = (
        torch.linalg.qr(torch.randn(*matrix.shape[:-2], size, SIZE, generator=draw, dtype=matrix.dtype)).Q
        for size in matrix.shape[-2:]
    )
    return left * sizes[..., None, :] @ right.mT


def asked(texts, k, draw, count=QUERIES):
    """The problem of one query of each of some texts, in a layer; its scores are zero."""
    rows = torch.randperm(len(texts.there), generator=draw)[:count]
    there, tokens = texts.there[rows], texts.tokens[k, rows].double()
    at = (torch.rand(count, generator=draw) * there.sum(1)).long()
    queries = nn.functional.pad(tokens[torch.arange(count), at], (0, 1), value=1.0)
    return Problem(tokens, torch.zeros(there.shape, dtype=torch.float64), queries, mask=there)


def _against(texts, k, matrices, draw):
    problem = asked(texts, k, draw)
    spanned, length = in_span(problem), torch.linalg.matrix_norm(matrices)
    basis = torch.linalg.qr(problem.queries.mT).Q
    found = {}
    for kind, one in (("", matrices), ("random_", alike(matrices, draw))):
        logits = problem.logits(one.flatten(1))
        svms, cosines, best = _separated(spanned, logits, logits.argmax(-1), length)
        found |= {f"{kind}cosine": cosines, f"{kind}best": best}
        if not kind:
            own, leads, sizes = logits, best * length / svms.norm(dim=-1), svms
    drawn = (torch.rand(len(matrices), len(problem.keys), generator=draw) * problem.mask.sum(-1)).long()
    found["shuffled"] = _separated(spanned, own, drawn, length)[1]
    separators = from_span(problem, spanned, sizes).unflatten(1, matrices.shape[1:])
    nuclear = torch.linalg.svdvals(separators @ basis).sum(-1)
    ceilings = torch.linalg.matrix_norm(matrices, 2) * nuclear / sizes.square().sum(-1)
    return found | {"lead": leads / ceilings}


def _separated(spanned, logits, selected, length):
    """Separators (heads, m) of selections, cosines of heads with these logits to them, shares of the best margin."""
    rows = [difference_rows(spanned, one) for one in selected]
    svms = torch.stack([hard_margin(some).theta for some in rows])
    here = span_coordinates(spanned, logits)
    cosines = (svms * here).sum(-1) / svms.norm(dim=-1) / length
    least = torch.stack([(some @ one).min() for some, one in zip(rows, here, strict=True)])
    return svms, cosines, least * svms.norm(dim=-1) / length
