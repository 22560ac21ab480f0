"""Sentences whose label one word, or one of three opinions, decides."""

import pytest
import torch
from problems import seeded

from studies.datasets import LENGTH, MARKS, TEMPLATES, WORDS, marked_sentiment, planted_sentiment

CORPUS = planted_sentiment(400, seeded(0))


def test_every_sentence_has_one_deciding_word_and_that_decides():
    assert CORPUS.ids.shape == (400, LENGTH)
    deciding = {word: sign for sign, group in ((-1, "bad"), (1, "good")) for word in WORDS[group]}
    for words, ids, label, place in zip(CORPUS.words, CORPUS.ids, CORPUS.labels, CORPUS.deciding, strict=True):
        assert words == [CORPUS.vocabulary[k] for k in ids]
        assert [k for k, word in enumerate(words) if word in deciding] == [place]
        assert deciding[words[place]] == label
    assert CORPUS.labels.mean().abs() < 0.15
    assert len({tuple(words) for words in CORPUS.words}) > 395
    assert len(set(CORPUS.deciding.tolist())) == len(TEMPLATES)


def test_the_vocabulary_is_the_same_for_every_corpus():
    assert planted_sentiment(1, seeded(1)).vocabulary == CORPUS.vocabulary == tuple(sorted(set(CORPUS.vocabulary)))
    assert 90 <= len(CORPUS.vocabulary) <= 130
    assert {word for words in planted_sentiment(3000, seeded(2)).words for word in words} == set(CORPUS.vocabulary)


class TestMarkedSentiment:
    def corpus(self, count=400, **about):
        return marked_sentiment(count, torch.Generator().manual_seed(0), **about)

    @pytest.mark.parametrize("marks", [1, 12])
    def test_marks_say_which_opinion_counts(self, marks):
        corpus = self.corpus(marks=marks)
        for words, label, own, others in zip(
            corpus.words, corpus.labels.tolist(), corpus.deciding.tolist(), corpus.distracting.tolist(), strict=True
        ):
            assert len(words) == LENGTH
            assert words[own] in WORDS["good" if label > 0 else "bad"]
            assert words[own - 1] in MARKS[:marks]
            assert all(words[k - 1] in MARKS[marks:] for k in others)
            assert any(words[k] in WORDS["bad" if label > 0 else "good"] for k in others)

    def test_numbers_of_good_words_leave_the_label_open(self):
        corpus = self.corpus(4000)
        good = torch.tensor([sum(word in WORDS["good"] for word in words) for words in corpus.words])
        assert set(good.tolist()) == {1, 2}
        for number in (1, 2):
            assert abs(corpus.labels[good == number].mean()) < 0.1

    def test_ids_are_a_word_and_the_one_before_it(self):
        corpus = self.corpus(20)
        for words, ids in zip(corpus.words, corpus.ids.tolist(), strict=True):
            assert [corpus.vocabulary[own] for own, _ in ids] == words
            assert [corpus.vocabulary[before] for _, before in ids] == ["", *words[:-1]]


def test_the_generator_decides_everything():
    for draw in (planted_sentiment, marked_sentiment):
        assert torch.equal(draw(20, seeded(3)).ids, draw(20, seeded(3)).ids)
        assert not torch.equal(draw(20, seeded(3)).ids, draw(20, seeded(4)).ids)
