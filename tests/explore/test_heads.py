"""The figure of MiniLM's heads: choices, shares, turned choices and their forecast are those of `heads` and `lib`."""

import json
import re

import javascript
import numpy as np
import pytest
import torch
from javascript import PROGRAM
from test_snippets import ran

from heads import bits as plain
from heads.weights import Weights
from studies import minilm, real_heads
from workflow.book.catalogue import BookError, yaml_of
from workflow.site import reviews

pytestmark = pytest.mark.skipif(not javascript.engines(), reason="no node and no chromium on this machine")

SETTINGS = [(37, 0, 0, 2), (37, 5, 11, 8), (6, 2, 0, 3), (6, 1, 7, 4), (11, 3, 5, 5), (11, 0, 9, 2), (6, 4, 4, 6)]
ASK = """all => all.map(([text, count, layer, head, bits]) => {
  const one = headsModule.headOf(headsModule.decoded(text), count, layer, head);
  return [headsModule.selects(one), headsModule.attention(one), headsModule.selects(headsModule.roundedHead(one, bits)),
    headsModule.forecast(one, bits)];
})"""


@pytest.fixture(scope="module")
def kept():
    return reviews.recorded()


def text_of(place):
    """The numbers of a review as its script has them."""
    return re.search('"(.*)"', reviews.scripts()[f"{place}.js"])[1]


def as_head(queries, keys):
    """A head whose matrices have queries and keys as columns, and its choices, of tokens that are unit vectors."""
    one, none = torch.eye(len(keys)).double(), torch.zeros(1, keys.shape[-1]).double()
    head = Weights(queries.mT[None], none, keys.mT[None], None, None, None, None, keys.shape[-1] ** -0.5)
    tokens = one.expand(len(one), -1, -1)
    return head, plain.Choices(tokens, one, plain.head_logits(head, 0, tokens, one))


def test_choices_shares_and_turned_choices_are_those_of_the_library(kept):
    asked = [(text_of(place), len(reviews.texts()[place]), *where) for place, *where in SETTINGS]
    turned = 0
    for (place, layer, number, bits), found in zip(SETTINGS, javascript.call(PROGRAM, ASK, asked), strict=True):
        queries, keys = torch.tensor(reviews.vectors(kept, place)[:, layer, number].astype(float))
        head, choices = as_head(queries, keys)
        before, shares, after, told = map(torch.tensor, found)
        assert before.equal(choices.logits.argmax(-1))
        torch.testing.assert_close(shares.double(), choices.logits.softmax(-1), rtol=0, atol=1e-9)
        assert (before != after).equal(plain.count_flips(head, 0, choices, bits)), (place, layer, number, bits)
        expected = plain.forecast(head, 0, choices, bits).float()
        torch.testing.assert_close(told.float(), expected, rtol=0, atol=1e-5)
        turned += int((before != after).sum())
    assert turned > 10


def test_keys_and_queries_are_those_that_the_chapter_measures(kept):
    weights = {name: torch.as_tensor(kept[name]).float() for name in ("query", "key", "query_bias", "key_bias")}
    texts = real_heads.as_texts(kept)
    for layer, (call, _) in enumerate(real_heads.attentions(texts, weights)):
        for place, pieces in reviews.texts().items():
            ours = reviews.vectors(kept, place)[:, layer].astype(np.float32)
            theirs = torch.stack([call.query[place], call.key[place]])[:, :, : len(pieces)]
            torch.testing.assert_close(torch.tensor(ours), theirs, rtol=2e-3, atol=2e-3)


def test_a_sum_over_all_heads_is_one_of_each(kept):
    ask = """([text, count]) => { const all = headsModule.everyHead(headsModule.decoded(text), count);
      return [headsModule.turns(all, 3), all.map((one) => headsModule.turns([one], 3))]; }"""
    whole, each = javascript.call(PROGRAM, ask, [text_of(37), len(reviews.texts()[37])])
    assert len(each) == minilm.LAYERS * minilm.HEADS
    for name in ("counted", "forecast"):
        assert whole[name] == pytest.approx(sum(one[name] for one in each))


def test_the_same_in_python_prints_what_the_figure_says(kept):
    place, layer, head, bits = SETTINGS[3]
    state = {"layer": layer + 1, "head": head + 1, "bits": bits}
    ask = """([state, place, text, count]) => {
      const one = headsModule.headOf(headsModule.decoded(text), count, state.layer - 1, state.head - 1);
      return [headsModule.python(state, place), headsModule.turns([one], state.bits)];
    }"""
    lines, told = javascript.call(PROGRAM, ask, [state, place, text_of(place), len(reviews.texts()[place])])
    counted, forecast = map(float, re.findall(r"tensor\(([\d.]+)", ran(lines)[1]))
    assert counted == told["counted"]
    assert forecast == pytest.approx(told["forecast"], abs=1e-3)


def test_no_file_is_larger_than_a_page_may_load():
    assert max(map(len, reviews.scripts().values())) < 400_000


def test_pieces_of_another_review_are_refused(monkeypatch):
    other = {5: reviews.texts()[6], 6: reviews.texts()[5]}
    monkeypatch.setattr(reviews, "texts", lambda: other)
    with pytest.raises(BookError, match="review 5 has other pieces"):
        reviews.recorded()


def test_pieces_are_those_of_the_model_s_vocabulary(kept):
    try:
        pieces = minilm.read().pieces
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    for place, words in reviews.texts().items():
        assert [pieces[k] for k in kept["pieces"][reviews.span(kept, place)]] == words


def test_what_trains_on_the_first_page_is_the_library_s_descent():
    shown = reviews.trained()
    problem = json.loads(shown["problem"])
    program = (javascript.SOURCES.parent / "landing.js").read_text("utf-8")
    ask = "([problem, bests]) => bests.map((best) => trained(problem, best))"
    bests = range(len(shown["words"]))
    for best, found in zip(bests, javascript.call(program, ask, [problem, [*bests]]), strict=True):
        expected = reviews.attention(np.array(problem["keys"]), best)
        torch.testing.assert_close(torch.tensor(found).double(), expected.double(), rtol=0, atol=1e-6)
    assert shown["words"][problem["best"]] == shown["picked"]


def test_coordinates_in_the_span_have_the_tokens_products(kept):
    keys = np.array(json.loads(reviews.trained()["problem"])["keys"])
    place = yaml_of(reviews.REVIEWS)["first"]["review"]
    tokens = kept["tokens"][-1, reviews.span(kept, place)][reviews.REST].astype(float)
    products = tokens @ tokens.T
    np.testing.assert_allclose(keys @ keys.T, products / products.diagonal().mean(), atol=1e-3)
