"""Naive Bayes against its formula, word by word."""

import math

import torch

from studies.word_counts import naive_bayes


def test_it_chooses_the_class_with_the_larger_product_of_probabilities():
    draw = torch.Generator().manual_seed(0)
    ids, unseen = (torch.randint(7, (count, 5), generator=draw) for count in (30, 40))
    labels = torch.randint(2, (30,), generator=draw)
    words = {k: [w for row in ids[labels == k].tolist() for w in row if w > 1] for k in (0, 1)}

    def log_probability(text, k):
        shares = [(words[k].count(w) + 1) / (len(words[k]) + 5) for w in text if w > 1]
        return math.log((labels == k).double().mean()) + sum(map(math.log, shares))

    wanted = [int(log_probability(text, 1) > log_probability(text, 0)) for text in unseen.tolist()]
    assert 0 < sum(wanted) < len(wanted)
    assert naive_bayes(ids, labels, unseen).tolist() == wanted


def test_rare_words_and_empty_places_tell_nothing():
    ids, labels = torch.tensor([[2, 1, 1], [3, 0, 0]]), torch.tensor([0, 1])
    short, padded = torch.tensor([[3]]), torch.tensor([[3, 1, 1]])
    assert naive_bayes(ids, labels, short).tolist() == naive_bayes(ids, labels, padded).tolist() == [1]
