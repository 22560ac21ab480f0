"""Draw short English sentences whose label one word, or one of three opinions, decides."""

import re
from typing import NamedTuple

import torch
from torch import Tensor

from lib import checks
from lib.datasets import coin_labels

LENGTH = 12
TEMPLATES = (  # each makes LENGTH words
    "the {work} about a {mood} {place} was {degree} {verdict} in the end",
    "we {opinion} that the {verdict} {work} about a {mood} {place} was {duration}",
    "{verdict} was the only word for this {mood} {work} about my {person}",
    "on {day} my {person} found a {degree} {verdict} {work} about our {place}",
    "every {person} in the {mood} {place} {opinion} the new {work} was {verdict}",
    "a {degree} {verdict} {work} from a {person} who once left this {place}",
)
WORDS = {  # no first letter that would ask for "an"
    "bad": "terrible dreadful horrible dismal tedious clumsy hopeless boring",
    "good": "wonderful superb brilliant delightful splendid gripping graceful perfect",
    "work": "film movie story novel play series drama comedy book show",
    "mood": "quiet small distant rainy modern northern crowded lonely famous peaceful",
    "place": "town village city harbour farm school station street valley market",
    "person": "neighbour teacher brother sister doctor farmer sailor student cousin painter",
    "degree": "truly rather simply really quite somewhat perfectly fairly",
    "opinion": "thought said felt agreed wrote believed heard found",
    "day": "monday tuesday wednesday thursday friday saturday sunday",
    "duration": "long short brief loud silent slow",
}
WORDS = {slot: words.split() for slot, words in WORDS.items()}


class Corpus(NamedTuple):
    """Sentences of LENGTH words, each with one deciding word; ``vectors[corpus.ids]`` are the tokens.

    words : one list of str for each sentence.
    ids : shape (sentences, LENGTH), places of the words in the vocabulary.
    labels : shape (sentences,), +1 or -1.
    deciding : shape (sentences,), place of the deciding word in its sentence.
    vocabulary : tuple of str, in alphabetical order; the same for every corpus.
    """

    words: list[list[str]]
    ids: Tensor
    labels: Tensor
    deciding: Tensor
    vocabulary: tuple[str, ...]


def planted_sentiment(sentences, generator):
    """Short English sentences, of which one word, say "terrible" or "superb", decides the label.

    The rest comes from a grammar of six templates that knows nothing of the label: "the film about a quiet town was
    truly terrible in the end". The deciding word has one of six places. Labels are a fair coin.

    Parameters
    ----------
    sentences : int
    generator : torch.Generator

    Returns
    -------
    Corpus
    """
    labels = coin_labels(1, checks.integer("sentences", sentences), generator)[0]
    words, deciding = [], []
    for label in labels:
        slots = _choice(TEMPLATES, generator).split()
        deciding.append(slots.index("{verdict}"))
        options = WORDS | {"verdict": WORDS["good" if label > 0 else "bad"]}
        words.append(_drawn(slots, options, generator))
    vocabulary = _vocabulary(TEMPLATES)
    place = {word: k for k, word in enumerate(vocabulary)}
    ids = torch.tensor([[place[word] for word in sentence] for sentence in words])
    return Corpus(words, ids, labels, torch.tensor(deciding), vocabulary)


MARKED_TEMPLATES = (  # each makes LENGTH words, with three opinions of two words
    "this {mood} {work} was {} and {} but {}",
    "on {day} a {} {work} seemed {} yet {}",
    "my {person} wrote one {} {} and {} {work}",
    "{} or {} {work} from the {place} was {}",
)
MARKS = [
    *("honestly", "truly", "really", "plainly", "clearly", "surely"),
    *("openly", "frankly", "simply", "certainly", "definitely", "obviously"),
    *("allegedly", "supposedly", "reportedly", "apparently", "seemingly", "presumably"),
    *("possibly", "perhaps", "maybe", "arguably", "ostensibly", "officially"),
]


class MarkedCorpus(NamedTuple):
    """Sentences of LENGTH words with three opinions, of which the mark before it says which one counts.

    words : one list of str for each sentence.
    ids : shape (sentences, LENGTH, 2), places in the vocabulary of each word and of the one before it, or the last.
    labels : shape (sentences,), +1 or -1.
    deciding : shape (sentences,), place of the opinion that counts.
    distracting : shape (sentences, 2), places of the other two.
    vocabulary : tuple of str; words in alphabetical order, then the empty one; the same for every corpus.
    """

    words: list[list[str]]
    ids: Tensor
    labels: Tensor
    deciding: Tensor
    distracting: Tensor
    vocabulary: tuple[str, ...]


def marked_sentiment(sentences, generator, marks=12):
    """Short English sentences with three opinions, as "allegedly superb but honestly dull": the author's own decides.

    The own opinion stands after a mark of its kind, two others after marks of hearsay, in any order. By a coin the two
    are both opposite, or one of each. So whichever opinions a sentence has, its label is still a fair coin, and an
    average of its words knows nothing of it; who reads one hearsay and turns it round is right three times of four;
    who looks at the right opinion is always right. The rest comes from a grammar of four templates.

    Parameters
    ----------
    sentences : int
    generator : torch.Generator

    Returns
    -------
    MarkedCorpus

    Examples
    --------
    >>> corpus = marked_sentiment(3, torch.Generator().manual_seed(0))
    >>> good = [corpus.words[i][place] in WORDS["good"] for i, place in enumerate(corpus.deciding.tolist())]
    >>> good == (corpus.labels > 0).tolist()
    True
    """
    checks.integer("sentences", sentences)
    if not 0 < checks.integer("marks", marks) < len(MARKS):
        raise ValueError(f"marks is {marks}: of {len(MARKS)} words some must be left for hearsay")
    options_of = WORDS | {"own": MARKS[:marks], "hearsay": MARKS[marks:]}
    words, labels, places = [], coin_labels(1, sentences, generator)[0], []
    for label in labels.tolist():
        opinions = [("own", label), ("hearsay", -label), ("hearsay", _choice((label, -label), generator))]
        order = torch.randperm(3, generator=generator, device=generator.device).tolist()
        template = _choice(MARKED_TEMPLATES, generator)
        for mark, sign in (opinions[k] for k in order):
            template = template.replace("{}", f"{{{mark}}} {'{good}' if sign > 0 else '{bad}'}", 1)
        slots = template.split()
        first = [k for k, slot in enumerate(slots) if slot in ("{own}", "{hearsay}")]
        places.append([first[order.index(k)] + 1 for k in range(3)])
        words.append(_drawn(slots, options_of, generator))
    vocabulary = (*_vocabulary(MARKED_TEMPLATES, *MARKS), "")
    place = {word: k for k, word in enumerate(vocabulary)}
    ids = torch.tensor([[[place[w], place[b]] for w, b in zip(s, ["", *s], strict=False)] for s in words])
    places = torch.tensor(places)
    return MarkedCorpus(words, ids, labels, places[:, 0], places[:, 1:], vocabulary)


def _choice(options, generator):
    return options[torch.randint(len(options), (), generator=generator, device=generator.device).item()]


def _drawn(slots, options, generator):
    """The words of a sentence, of those in braces any of the options."""
    return [_choice(options[slot[1:-1]], generator) if slot.startswith("{") else slot for slot in slots]


def _vocabulary(templates, *more):
    fixed = re.sub(r"{\w*}", "", " ".join(templates)).split()
    return tuple(sorted({*fixed, *more, *(word for group in WORDS.values() for word in group)}))
