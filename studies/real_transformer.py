"""Ask of all-MiniLM-L6-v2, which people use, what the three papers and this book say of attention.

What stood here before the first run. An independent reader had looked at this model on 200 film reviews, at queries of
all tokens: shares of attention, the kinds of token that are selected, flips by rounding, bits, the cosine of W to the
max-margin W of its choices beside random heads, effective ranks, leads below ceilings, the part from W of the leans of
`your-attention`. So every row on film reviews, and every row on the weights alone, counts as set after. Nobody had
looked at other sentences, at shuffled choices, or at descent on the tokens of this model; these rows count as before.
A text is cut at 32 pieces; every token asks, in all 72 heads, unless a line says otherwise.

Editorials: 100 snippets of newspaper editorials from the same archive, drawn by seed 0.
(a) At most half of the choices have more than .9 of the attention: the papers' saturation is not there.
(b) At least .6 of the choices are [CLS] or [SEP].
(c) Flips counted over forecast, all choices pooled, mean over 3 to 6 bits a row: within .15 of 1.
(d) Rank correlation over heads of forecast and counted flips at 4 bits: at least .8.
(e) The forecast bits that keep 95 % of the choices are right to within one for at least .95 of the heads.
(f) One query of each of 12 texts: the median cosine of W to the max-margin W of the head's own choices is at most .1,
the median share of the best margin at most .01. The least lead is at most half of its ceiling in the spectral ball of
the head's own W, in every head.

Film reviews. (g) The median cosine of W to the max-margin W of shuffled choices (one token of each text at random) is
below that to the max-margin W of its own choices.

The theorems' own model on tokens of MiniLM: tokens are what the last layer receives of 24 of the 48 film reviews,
drawn, frozen, in units of their root mean square length; the query is that of [CLS]; W is 384 x 384; the head u is
fixed, the sum over reviews of their label times the mean of their tokens, less the mean of all tokens, of length 1;
labels are the signs of the ratings; logistic loss, full batch. Steps of normalised descent are .02 |W_mm| long, 2,000
of them.
(h) Tokens of different reviews are not nearly orthogonal: the median |cos| is at least .1.
(i) The best tokens are separable by W, and so are 8 random selections: a share of 1.
(j) With one prompt for all reviews none of these is: a share of 0.
(k) R1: of the runs from W = 0 and from 8 starts, of 3 |W_mm|, each at the separator of a random selection, at least .9
end on the best tokens.
(l) Of 12 selections that are best but in one review, where the second-best token is selected, at least .05 are locally
optimal: there are wrong limits.
(m) Theorem 3: starts at 20 times the separators of those that are locally optimal keep their tokens, a share of 1; the
same of those that are not is an ablation.
(n) R2: from W = 0 the log distance of the direction to W_mm falls with log t with a slope of at most -.5, second half.
(o) R3: the exponent of 1 - (attention on the best token), worst review, is eta / |W_mm| to within .1 of it, last half.
(p) R5: gradient descent whose first step is as long as that of normalised descent has, after as many steps, at least a
hundred times as much attention elsewhere (mean over reviews).
(q) R6: Polyak's steps from W = 0 end on the best tokens.
The same of 200 reviews, recorded: (h); (i) and (j) with two random selections; (k) from W = 0; (n), (o).
(r) Paper 3, six reviews, W = 0, p = 1.1, 2 and 3, normalised mirror descent, 2,000 steps of .1, three draws of
reviews: the nearest of the three separators of the run's own tokens, in the directional Bregman divergence of the
run's p, is that of its own p in at least .9 of the runs; (s) p = 1.1 has the fewest entries that count, p = 3 the most,
in every draw.
R4 is left out: joint training needs tokens that are a signal, which these are not.

Changed before the first run: 24 reviews in place of 48, since a separator of 48 takes a second, and fewer of (r).
"""

import math
import unicodedata
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from heads.choices import Side, chosen
from heads.rounding import head_rounding
from heads.turns import plain_turn
from heads.watch import Attention
from lib.problem import Problem, difference_rows
from lib.separators import hard_margin
from lib.span import from_span, in_span, span_coordinates
from studies import archives, frozen_tokens, minilm

LENGTH, SIZE = 32, minilm.WIDTH // minilm.HEADS  # pieces of a text at most, columns of a head
KINDS = ("[CLS]", "[SEP]", "punctuation", "function words", "content words")
BITS = tuple(range(2, 9))
REVIEWS, EDITORIALS, QUERIES = 48, 100, 12


class Run(NamedTuple):
    """A run: its settings."""

    settings: dict


class Texts(NamedTuple):
    """Texts as the layers receive them, padded.

    tokens : Tensor, shape (layers, n, T, d). there : bool, shape (n, T). kinds : int, shape (n, T), places in `KINDS`.
    labels : Tensor, shape (n,), 1 and -1.
    """

    tokens: Tensor
    there: Tensor
    kinds: Tensor
    labels: Tensor


def plan():
    """All runs, by name."""
    return {
        "reviews": Run({"texts": "film", "count": REVIEWS, "seed": 0}),
        "editorials": Run({"texts": "editorials", "count": EDITORIALS, "seed": 0}),
        "one-layer": Run({"texts": "film", "count": 200, "seed": 0}),
        "norms": Run({"texts": "film", "count": 30, "seed": 0}),
    }


STUDIES = {"minilm": plan}


def make(study, run, known):
    """Make a run; its settings and its results."""
    torch.set_num_threads(1)
    model, draw = minilm.read(), torch.Generator().manual_seed(run.settings["seed"])
    arrays = received(model, *texts_of(run.settings["texts"], run.settings["count"]))
    texts, weights = as_texts(arrays), weights_of(model)
    if run.settings["texts"] == "editorials":
        found = of_heads(texts, weights, draw) | against_separators(texts, weights, draw)
        return run.settings, {name: rounded(part) for name, part in found.items()}
    if run.settings["count"] == REVIEWS:
        halves = {name: part.half().numpy() for name, part in weights.items()}
        selects = torch.stack(
            [
                call.logits.argmax(-1)[texts.there.nonzero().T[0], :, texts.there.nonzero().T[1]].T
                for call, _ in attentions(texts, weights)
            ]
        )
        return run.settings, {"reviews.npz": arrays | halves | {"selects": selects.byte().numpy()}}
    if run.settings["count"] == 200:
        return run.settings, frozen_tokens.at_length(texts, draw)
    return run.settings, frozen_tokens.in_norms(texts)


def rounded(values):
    """Lists of numbers with five digits."""
    if isinstance(values, list):
        return [rounded(value) for value in values]
    return rounded(values.tolist()) if isinstance(values, Tensor) else float(f"{values:.5g}")


def data_of(run):
    """Files that a run reads, each with its published hash."""
    return archives.files("film-reviews") | archives.files("minilm")


def texts_of(kind, count):
    """Texts drawn by seed 0 in the order of the other studies, and their labels 1 and -1."""
    known = archives.film_reviews() if kind == "film" else archives.editorials()
    order = torch.randperm(len(known.texts), generator=torch.Generator().manual_seed(0))[:count]
    return [known.texts[k] for k in order], torch.where(known.ratings[order] > 0, 1, -1)


@torch.no_grad()
def received(model, texts, labels):
    """What each layer receives of texts, (layers, pieces, d) in float16, the numbers of pieces and their kinds."""
    from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS  # slow to import

    pieces = minilm.as_pieces(texts, model.pieces, LENGTH, ENGLISH_STOP_WORDS)
    states, kept = minilm.embedded(model.weights, pieces.ids), []
    for number in range(minilm.LAYERS):
        kept.append(states[pieces.there])
        states, _ = minilm.layer(model.weights, number, states, pieces.there)
    kinds = [kind_of(model.pieces[k], marked)
             for k, marked in zip(pieces.ids[pieces.there], pieces.marked[pieces.there], strict=True)]  # fmt: skip
    return {
        "tokens": torch.stack(kept).half().numpy(),
        "lengths": pieces.there.sum(1).byte().numpy(),
        "pieces": pieces.ids[pieces.there].short().numpy(),
        "kinds": np.array(kinds, np.uint8),
        "labels": labels.char().numpy(),
    }


def kind_of(piece, marked):
    """The kind of a piece, as a place in `KINDS`; ``marked`` if its word is a function word.

    Examples
    --------
    >>> [KINDS[kind_of(piece, piece == "the")] for piece in ("[SEP]", "!", "the", "film")]
    ['[SEP]', 'punctuation', 'function words', 'content words']
    """
    if piece in KINDS:
        return KINDS.index(piece)
    mark = len(piece) == 1 and (
        unicodedata.category(piece).startswith("P") or (piece.isascii() and not piece.isalnum())
    )
    return 2 if mark else 3 if marked else 4


def weights_of(model):
    """Key and query matrices of all layers, (layers, d, d), and their biases (layers, d)."""
    return {
        f"{side}{'_bias' * (part == 'bias')}": torch.stack(
            [model.weights[f"encoder.layer.{k}.{minilm.MATRICES[side]}.{part}"] for k in range(minilm.LAYERS)]
        )
        for side in ("query", "key")
        for part in ("weight", "bias")
    }


def as_texts(arrays):
    """:class:`Texts` from arrays of :func:`received`."""
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


def of_heads(texts, weights, draw=None, bits=BITS):
    """What heads select and how firmly, and their flips by rounding; tensors (layers, heads, ...)."""
    layers = [_of_layer(texts, *layer, bits) for layer in attentions(texts, weights)]
    return {name: torch.stack([layer[name] for layer in layers]) for name in layers[0]}


def _of_layer(texts, call, pair, bits):
    found = chosen(call, texts.there)
    selected = texts.kinds[found.input, found.selects]
    one_hot = nn.functional.one_hot(texts.kinds, len(KINDS)).float()
    given = torch.einsum("nhts,nsk->nhtk", call.shares(), one_hot)[texts.there[:, None].expand(-1, minilm.HEADS, -1)]
    rounding = head_rounding(call, texts.there, *pair, list(bits))
    return {
        "share": found.share.mean(-1), "above": (found.share > 0.9).float().mean(-1),
        "nearly": (found.share > 0.99).float().mean(-1), "entropy": found.entropy.mean(-1),
        "kinds": nn.functional.one_hot(selected, len(KINDS)).float().mean(1),
        "given": given.unflatten(0, (-1, minilm.HEADS)).mean(0),
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
    vectors, for their own choices; ``shuffled`` the cosine to the separator of one token of each text, drawn;
    ``lead``, the least lead over its ceiling in the spectral ball of the head's own W.
    """
    found = [_against(texts, *head, draw) for head in enumerate(bilinear(weights))]
    return {name: torch.stack([layer[name] for layer in found]) for name in found[0]}


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
