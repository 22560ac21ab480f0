"""The film review of *In ten minutes*: its numbers are the recorded ones, and its words those of the review."""

import numpy as np
import pytest

from studies import film_reader
from workflow.book.catalogue import BookError, yaml_of
from workflow.site import film_review


def test_attention_after_training_is_that_of_the_film_reader():
    kept = np.load(film_reader.KEPT / "reviews.npz")
    np.testing.assert_allclose(film_review.recorded()["after"], kept["attention"], atol=1e-5)


@pytest.mark.parametrize("time", film_review.TIMES)
def test_attention_is_a_share_of_each_token_that_is_there(time):
    there, shares = np.load(film_reader.KEPT / "reviews.npz")["mask"], film_review.recorded()[time]
    np.testing.assert_allclose(shares.sum(-1), 1, atol=1e-4)
    assert not (shares * ~there[:, None]).any()
    assert sum(film_review.attention()[time]) == pytest.approx(1, abs=1e-3)


@pytest.mark.parametrize(
    ("review", "words", "named"),
    [
        (22, ["thick", "period", "piece"], "review 22 is thin period piece"),
        (22, ["thin", "period"], "review 22 is thin period piece"),
        (62, ["a", "riveting", "documentary"], "of which the first must decide"),
    ],
)
def test_another_review_than_one_whose_first_word_decides_is_refused(review, words, named, monkeypatch):
    story = yaml_of(film_review.STORY)
    other = story | {"review": review, "scene": story["scene"] | {"words": words}}
    monkeypatch.setattr(film_review, "yaml_of", lambda _: other)
    with pytest.raises(BookError, match=named):
        film_review.numbers()
