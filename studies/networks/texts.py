"""Train transformers on labelled texts; measure accuracy, sparsity of weights, and which words attention selects."""

import re
from collections import Counter
from typing import NamedTuple

import torch
from torch import Tensor

from lib import checks

from .measures import accuracy, cls_map
from .step_rules import optimiser
from .training import train_best
from .transformer import apply, ensemble

WORD = re.compile("[a-z]+(?:'[a-z]+)?")
INITIAL = 0.02  # standard deviation of the vectors of words and places at the start, as in BERT


class Texts(NamedTuple):
    """Texts as numbers of words: 0 where a text has ended, 1 for rare words.

    ids (N, T), labels (N,), marked (N, T): whether the lexicon has the word; vocabulary: the words from number 2 on.
    """

    ids: Tensor
    labels: Tensor
    marked: Tensor
    vocabulary: list[str]


def as_texts(texts, labels, lexicon, *, learned, length=32, often=5):
    """Number the words of texts.

    Parameters
    ----------
    texts : list of str
    labels : Tensor of int, shape (N,)
    lexicon : collection of str
        Words, of which ``marked`` shows the places.
    learned : int
        The vocabulary has the words that ``often`` of the first so many texts have.
    length : int
        Words of a text beyond so many are left out.

    Examples
    --------
    >>> found = as_texts(["A fine film", "A film, isn't it?"], torch.tensor([1, 0]), {"fine"}, learned=2, often=2)
    >>> found.vocabulary, found.ids[1, :5].tolist(), found.marked[0, :3].tolist()
    (['a', 'film'], [2, 3, 1, 1, 0], [False, True, False])
    """
    checks.integer("learned", learned)
    words = [WORD.findall(text.lower())[:length] for text in texts]
    counts = Counter(word for text in words[:learned] for word in dict.fromkeys(text))
    vocabulary = [word for word, count in counts.most_common() if count >= often]
    numbers = {word: k for k, word in enumerate(vocabulary, 2)}
    ids = torch.zeros(len(words), length, dtype=torch.int64)
    marked = torch.zeros(len(words), length, dtype=torch.bool)
    for row, there, text in zip(ids, marked, words, strict=True):
        row[: len(text)] = torch.tensor([numbers.get(word, 1) for word in text])
        there[: len(text)] = torch.tensor([word in lexicon for word in text])
    return Texts(ids, labels, marked, vocabulary)


def train_texts(
    data, parts, rule, step_size, seeds, *, epochs, batch=32, attention="trained", permuted=False, **settings
):
    """Train transformers, of each keep the epoch with the most right answers on held-out texts, and measure it.

    Parameters
    ----------
    data : Texts
    parts : sequence of Tensor of int
        Rows to train on, to choose by, and to test on; without the last, nothing is tested.
    rule : str
        Of :func:`optimiser`.
    step_size : float or sequence of float
        One for all members, or one for each.
    seeds : sequence of int
        One for each member: of its weights, its order and, if ``permuted``, the order of the labels it learns.
    attention : str
        "trained"; or "alike", uniform on the words, which its query and key matrices of zero never leave.
    **settings
        Of :class:`Transformer`.

    Returns
    -------
    dict of Tensor
        losses (epochs, members), training loss of an epoch; held (epochs + 1, members), right answers; epoch (members),
        the one that is kept; of it ``right`` on the texts to test on, :func:`shares` of its weights, and
        :func:`selected`. ``matrices`` are the first member's query, key and value matrices, one below the other, and
        ``weights`` a dict of all that was kept, members first.
    """
    if attention not in ("trained", "alike"):
        raise ValueError(f"attention is {attention!r}: use trained or alike")
    train_rows, validation_rows, *tests = parts
    labels = data.labels.expand(len(seeds), -1).clone()
    if permuted:
        for row, seed in zip(labels, seeds, strict=True):
            row[train_rows] = row[train_rows][
                torch.randperm(len(train_rows), generator=torch.Generator().manual_seed(seed))
            ]
    sizes = {"length": data.ids.shape[1], "features": len(data.vocabulary) + 2, "classes": int(data.labels.max()) + 1}
    network, weights = ensemble(seeds, words=True, **sizes, **settings)
    for name in ("embed.weight", "places", "cls"):
        weights[name].data *= INITIAL * weights["cls"].shape[1] ** 0.5
    if attention == "alike":
        for name, weight in weights.items():
            if "in_proj" in name:  # 0 is where these gradients vanish
                weight.data[:, : 2 * weights["cls"].shape[1]] = 0
    weights = {name: weight.detach().float().requires_grad_() for name, weight in weights.items()}

    def right(now):
        return accuracy(apply(network, now, data.ids[validation_rows])[0], data.labels[validation_rows])

    measured, best_weights = train_best(
        network, weights, optimiser(rule, weights, step_size), data.ids, labels, train_rows.expand(len(seeds), -1),
        seeds, right, epochs=epochs, batch=batch, name=rule,
    )  # fmt: skip
    for rows in tests:
        with torch.no_grad():
            logits, maps = apply(network, best_weights, data.ids[rows])
        measured |= {"right": accuracy(logits, data.labels[rows])} | selected(cls_map(maps), data, rows)
    matrices = best_weights[f"blocks.{len(network.blocks) - 1}.self_attn.in_proj_weight"][0]
    return measured | {"matrices": matrices, "weights": best_weights}


def selected(maps, data, rows):
    """What attention (members, N, T) on the words of these texts selects, means over texts with a word of the lexicon.

    ``mass`` is the attention on words of the lexicon, ``base`` their share of the words, and ``top`` the share of texts
    whose most attended word is one; each of shape (members,). ``tokens`` is the soft sparsity.
    """
    marked = data.marked[rows]
    some, there = marked.any(1), data.ids[rows] > 0
    maps, marked = maps[:, some].double(), marked[some]
    base = (marked.sum(1) / there[some].sum(1)).double()
    return {
        "mass": (maps * marked).sum(-1).mean(1),
        "base": base.mean().expand(len(maps)),
        "top": marked.expand_as(maps).gather(2, maps.argmax(-1, keepdim=True)).double().mean((1, 2)),
        "tokens": (1 / maps.square().sum(-1)).mean(1),
    }
