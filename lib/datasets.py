"""The papers' synthetic data, each from an explicit generator: in float64, on the generator's device."""

import math
import re
from itertools import islice
from typing import NamedTuple

import torch
from torch import Tensor

from . import checks


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
    given = checks.tensors(positions=(positions, "n", "T", "k"), scores=(scores, "n", "T"))
    shapes = [tuple(given["positions"].shape[-3:-1]), tuple(given["scores"].shape[-2:])]
    if shapes[0] != shapes[1]:
        raise ValueError(f"positions have (n, T) = {shapes[0]}, scores {shapes[1]}: give each token one score")
    tokens = torch.cat([given["positions"], given["scores"][..., None]], dim=-1)
    last = tokens.new_zeros(tokens.shape[-1])
    last[-1] = 1.0
    return DataSet(tokens, tokens.new_ones(tokens.shape[:-2]), last, torch.diag(1 - last))


def figure_1(panel, generator=None):
    """Data of Figure 1 (arXiv:2306.13596), settings of the authors' experiments.

    Parameters
    ----------
    panel : {"a", "b", "c"}
        (a) one input, all non-optimal scores equal; (b) the same keys, unequal scores; (c) three inputs.
    generator : torch.Generator
        For the Gaussian positions of (c).

    Examples
    --------
    >>> from lib.problem import from_tokens
    >>> from_tokens(*figure_1("b")).scores.argmax(-1).tolist()
    [0]
    """
    if panel in ("a", "b"):
        scores = [1.0, 0.9, 0.9 if panel == "a" else 0.0]
        return scored_tokens([[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]], [scores])
    if panel != "c":
        raise ValueError(f"panel {panel!r} is unknown: use a, b or c")
    spread = _gaussian(3, 7, 2, generator=generator)
    centres = spread.new_tensor([[1.0, 0.0]] + 3 * [[-1.0, 1.0]] + 3 * [[-0.5, -0.5]])
    return scored_tokens(centres + 0.2 * spread, 3 * [[1.0] + 6 * [0.5]])


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
    tokens = [[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]], [[0.0, 0.0], [0.5, third]]]
    return torch.tensor(tokens, dtype=torch.float64), torch.tensor([1.0, -1.0, 1.0], dtype=torch.float64)


def _gaussian(*shape, generator):
    """Independent N(0, 1) numbers."""
    checks.generator(generator)
    return torch.randn(*shape, generator=generator, dtype=torch.float64, device=generator.device)


def _check_sizes(**sizes):
    for name, value in sizes.items():
        checks.whole(name, value)


def on_sphere(n, T, d, trials, generator):
    """Tokens and heads uniform on the unit sphere, labels +1 or -1 by a fair coin, W = I; ``trials`` of them.

    The random problems of Figures 9 and 10 (arXiv:2306.13596).

    Examples
    --------
    >>> data = on_sphere(n=4, T=6, d=10, trials=3, generator=torch.Generator().manual_seed(0))
    >>> tuple(data.tokens.shape), data.labels.abs().unique().tolist()
    ((3, 4, 6, 10), [1.0])
    """
    _check_sizes(n=n, T=T, d=d, trials=trials)
    tokens = torch.nn.functional.normalize(_gaussian(trials, n, T, d, generator=generator), dim=-1)
    head = torch.nn.functional.normalize(_gaussian(trials, d, generator=generator), dim=-1)
    return DataSet(tokens, _coins(trials, n, generator), head, torch.eye(d, dtype=head.dtype, device=head.device))


class Sequences(NamedTuple):
    """Data of self-attention: ``from_tokens(*data, head, queries=data.queries)`` for a fixed head.

    tokens (trials, n, T, d), labels (trials, n).
    """

    tokens: Tensor
    labels: Tensor

    @property
    def queries(self):
        """z_i = x_i1, the first token of each input, shape (trials, n, d)."""
        return self.tokens[..., 0, :]


def orthogonal_tokens(n, T, d, trials, generator, noise=0.0):
    """Unit tokens, orthogonal across the whole data set; labels by a fair coin.

    On such data the convergence of arXiv:2402.05738 is global. Scores can be chosen freely
    (:func:`head_with_scores`).

    Parameters
    ----------
    n, T, d, trials : int
        ``d >= n T``.
    generator : torch.Generator
    noise : float
        Gaussian noise of about this length is added to each token: nearly orthogonal ones.

    Returns
    -------
    Sequences
    """
    _check_sizes(n=n, T=T, d=d, trials=trials)
    checks.number("noise", noise, lambda noise: 0 <= noise < math.inf, "give a length of at least 0")
    if d < n * T:
        raise ValueError(f"d is {d}: {n * T} tokens (n T) are orthogonal only in at least as many dimensions")
    tokens = _orthonormal(trials, n * T, d, generator)
    tokens = tokens + noise / d**0.5 * _gaussian(*tokens.shape, generator=generator)
    return Sequences(tokens.unflatten(-2, (n, T)), _coins(trials, n, generator))


def _orthonormal(trials, count, d, generator):
    """Orthonormal rows (trials, count, d), uniformly distributed, which takes the signs of QR's diagonal."""
    columns, triangle = torch.linalg.qr(_gaussian(trials, d, count, generator=generator))
    return (columns * triangle.diagonal(dim1=-2, dim2=-1).sign()[..., None, :]).mT


def _coins(trials, n, generator):
    """Labels +1 and -1."""
    checks.generator(generator)
    return 2 * torch.randint(0, 2, (trials, n), generator=generator, device=generator.device).double() - 1


def head_with_scores(tokens, labels, scores):
    """Shortest head u with given scores, Y_i u . x_it = gamma_it, shape (..., d).

    Parameters
    ----------
    tokens : array_like, shape (..., n, T, d)
    labels : array_like, shape (..., n)
    scores : array_like, shape (..., n, T)

    Raises
    ------
    ValueError
        If no head has them; with n T independent tokens there always is one.
    """
    data = checks.tensors(tokens=(tokens, "n", "T", "d"), labels=(labels,), scores=(scores, "n", "T"))
    tokens, labels, scores = data["tokens"], checks.labels(data["labels"]), data["scores"]
    if tokens.shape[-3:-1] != scores.shape[-2:] or labels.shape[-1:] != scores.shape[-2:-1]:
        raise ValueError(
            f"tokens have (n, T) = {tuple(tokens.shape[-3:-1])}, scores {tuple(scores.shape[-2:])}, labels"
            f" n = {tuple(labels.shape[-1:])}: give each token one score and each input one label"
        )
    wanted = (labels[..., None] * scores).double().flatten(-2)
    rows = tokens.double().flatten(-3, -2)
    head = torch.einsum("...dm,...m->...d", torch.linalg.pinv(rows), wanted)
    missed = (torch.einsum("...md,...d->...m", rows, head) - wanted).abs().max()
    if missed > 1e-9 * wanted.abs().max():
        raise ValueError(
            f"no head has these scores, the nearest is off by {missed:.2g}: take linearly independent tokens"
        )
    return head.to(tokens)


def one_best(n, T, trials, generator, top=None, equal=True):
    """Scores with one best token in each input, anywhere; the others are lower by between 0.2 and 1.2.

    Where an input's other scores are equal, they satisfy Assumption B of arXiv:2306.13596.

    Parameters
    ----------
    n, T, trials : int
    generator : torch.Generator
    top : float, optional
        Score of all best tokens; uniform between 0 and 2 when left out, each input's its own.
    equal : bool
        Whether an input's other tokens have one score, or each its own.

    Returns
    -------
    Tensor, shape (trials, n, T)

    Examples
    --------
    >>> scores = one_best(n=2, T=3, trials=5, generator=torch.Generator().manual_seed(0), top=1.0)
    >>> tuple(scores.shape), scores.amax(-1).unique().tolist()
    ((5, 2, 3), [1.0])
    """
    _check_sizes(n=n, trials=trials)
    checks.whole("T", T, 2)
    checks.generator(generator)

    def uniform(count):
        return torch.rand(trials, n, count, generator=generator, dtype=torch.float64, device=generator.device)

    best = torch.randint(T, (trials, n, 1), generator=generator, device=generator.device)
    highest = 2 * uniform(1) if top is None else torch.full(best.shape, top, dtype=torch.float64, device=best.device)
    gap = 0.2 + uniform(1 if equal else T)
    return (highest - gap).expand(-1, -1, T).scatter(-1, best, highest)


def accepted(draw, count, tries):
    """Draw until ``count`` results are accepted, ``tries`` times at most.

    Parameters
    ----------
    draw : callable
        Returns a result, or None where it is to be left out.
    count, tries : int

    Returns
    -------
    list
        Fewer than ``count`` where not enough of the tries were accepted.

    Examples
    --------
    >>> numbers = iter([3, None, 5, 7])
    >>> accepted(lambda: next(numbers), count=2, tries=4)
    [3, 5]
    """
    checks.able("draw", draw, "__call__", "a function that returns a result")
    checks.whole("count", count, 0)
    checks.whole("tries", tries, 0)
    return list(islice((one for one in (draw() for _ in range(tries)) if one is not None), count))


def signal_tokens(n, T, d, trials, generator):
    """Gaussian-type data of the joint result of arXiv:2402.05738: in each input one token is the signal of its label.

    The signals of the two labels are orthogonal unit vectors; all other tokens are N(0, I/d), made orthogonal to both.
    Labels are a fair coin, and the signal's place is uniform among the T, so that it is the query of some inputs.

    Returns
    -------
    data : Sequences
    signal : Tensor of int, shape (trials, n)
        Place of the signal, the optimal token.
    """
    _check_sizes(n=n, T=T, d=d, trials=trials)
    if d < 3:
        raise ValueError(f"d is {d}: noise that is orthogonal to two signals needs at least 3 dimensions")
    signals = _orthonormal(trials, 2, d, generator)
    labels = _coins(trials, n, generator)
    places = torch.randint(0, T, (trials, n), generator=generator, device=generator.device)
    tokens = _gaussian(trials, n, T, d, generator=generator) / d**0.5
    along = torch.einsum("rntd,rsd->rnts", tokens, signals)
    tokens = tokens - torch.einsum("rnts,rsd->rntd", along, signals)
    own = torch.where(labels[..., None] > 0, signals[:, None, 0], signals[:, None, 1])
    here = torch.nn.functional.one_hot(places, T).bool()[..., None]
    return Sequences(torch.where(here, own[..., None, :], tokens), labels), places


def sparse_entries(entries, count, size, generator):
    """Vectors (count, size) of which ``entries`` are +1 or -1, by fair coins and in random places, and the others 0.

    Examples
    --------
    >>> sparse_entries(3, 2, 8, torch.Generator().manual_seed(0)).abs().sum(-1).tolist()
    [3.0, 3.0]
    """
    _check_sizes(entries=entries, count=count, size=size)
    if entries > size:
        raise ValueError(f"entries is {entries}: a vector of {size} has at most {size} of them")
    ranks = torch.rand(count, size, generator=generator, dtype=torch.float64, device=generator.device).argsort(-1)
    return _coins(count, size, generator) * (ranks < entries)


class Choices(NamedTuple):
    """Inputs and the tokens that a teacher chose: ``Problem(tokens, one_hot(chosen), queries)`` learns them.

    tokens (trials, n, T, d), queries (trials, n, d), chosen (trials, n) of int.
    """

    tokens: Tensor
    queries: Tensor
    chosen: Tensor


def taught_choices(teachers, n, T, generator, noise=0.0):
    """Gaussian tokens and queries, and of each input the token with the largest logit under a teacher W*.

    Parameters
    ----------
    teachers : Tensor, shape (trials, d * d)
        vec(W*), one for each trial.
    n, T : int
    generator : torch.Generator
    noise : float
        Share of the inputs in which another token is chosen, at random.

    Returns
    -------
    Choices

    Examples
    --------
    >>> generator = torch.Generator().manual_seed(0)
    >>> teachers = sparse_entries(4, 3, 64, generator)
    >>> tuple(taught_choices(teachers, n=5, T=4, generator=generator).chosen.shape)
    (3, 5)
    """
    _check_sizes(n=n)
    checks.whole("T", T, 2)
    checks.number("noise", noise, lambda share: 0 <= share <= 1, "give a share from 0 to 1")
    matrices = checks.tensor("teachers", teachers, "trials", "d * d")
    trials, d = len(matrices), math.isqrt(matrices.shape[-1])
    if d * d != matrices.shape[-1]:
        raise ValueError(f"teachers have {matrices.shape[-1]} entries: give vec(W*) of square matrices")
    tokens, queries = _gaussian(trials, n, T, d, generator=generator), _gaussian(trials, n, d, generator=generator)
    wanted = torch.einsum("bde,bne->bnd", matrices.unflatten(-1, (d, d)), queries)
    chosen = torch.einsum("bntd,bnd->bnt", tokens, wanted).argmax(-1)
    wrong = torch.rand(trials, n, generator=generator, dtype=torch.float64, device=generator.device) < noise
    away = torch.randint(1, T, (trials, n), generator=generator, device=generator.device)
    return Choices(tokens, queries, torch.where(wrong, (chosen + away) % T, chosen))


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

    def choice(options):
        return options[torch.randint(len(options), (), generator=generator, device=generator.device).item()]

    labels = _coins(1, checks.whole("sentences", sentences), generator)[0]
    words, deciding = [], []
    for label in labels:
        slots = choice(TEMPLATES).split()
        deciding.append(slots.index("{verdict}"))
        options = WORDS | {"verdict": WORDS["good" if label > 0 else "bad"]}
        words.append([choice(options[slot[1:-1]]) if slot.startswith("{") else slot for slot in slots])
    vocabulary = _vocabulary()
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
    checks.whole("sentences", sentences)
    if not 0 < checks.whole("marks", marks) < len(MARKS):
        raise ValueError(f"marks is {marks}: of {len(MARKS)} words some must be left for hearsay")
    options_of = WORDS | {"own": MARKS[:marks], "hearsay": MARKS[marks:]}

    def choice(options):
        return options[torch.randint(len(options), (), generator=generator, device=generator.device).item()]

    words, labels, places = [], _coins(1, sentences, generator)[0], []
    for label in labels.tolist():
        opinions = [("own", label), ("hearsay", -label), ("hearsay", choice((label, -label)))]
        order = torch.randperm(3, generator=generator, device=generator.device).tolist()
        slots = choice(MARKED_TEMPLATES).split()
        slots = _filled(slots, [opinions[k] for k in order])
        first = [k for k, slot in enumerate(slots) if slot in ("{own}", "{hearsay}")]
        places.append([first[order.index(k)] + 1 for k in range(3)])
        words.append([choice(options_of[slot[1:-1]]) if slot.startswith("{") else slot for slot in slots])
    fixed = re.sub(r"{\w*}", "", " ".join(MARKED_TEMPLATES)).split()
    known = (word for group in WORDS.values() for word in group)
    vocabulary = (*sorted({*fixed, *known, *MARKS}), "")
    place = {word: k for k, word in enumerate(vocabulary)}
    ids = torch.tensor([[[place[w], place[b]] for w, b in zip(s, ["", *s], strict=False)] for s in words])
    places = torch.tensor(places)
    return MarkedCorpus(words, ids, labels, places[:, 0], places[:, 1:], vocabulary)


def _filled(slots, opinions):
    """Slots in which each "{}" became the slot of a mark and that of an opinion."""
    opinions = iter(opinions)
    found = []
    for slot in slots:
        if slot == "{}":
            mark, sign = next(opinions)
            found += [f"{{{mark}}}", "{good}" if sign > 0 else "{bad}"]
        else:
            found.append(slot)
    return found


def _vocabulary():
    fixed = re.sub(r"{\w+}", "", " ".join(TEMPLATES)).split()
    return tuple(sorted({*fixed, *(word for group in WORDS.values() for word in group)}))
