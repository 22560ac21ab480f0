"""Search as readers use it: what they typed finds its page, by the index of the built site."""

from pathlib import Path

import javascript
import pytest

from workflow.book.catalogue import yaml_of

pytestmark = pytest.mark.skipif("node" not in javascript.engines(), reason="no node on this machine")
PARTS = ("max-margin", "rates", "mirror-descent", "beyond")
TYPED = {query: pages.split(", ") for query, pages in yaml_of(Path(__file__).with_name("searches.yml")).items()}
ASK = """
(queries) => queries.map((query) => Search._performSearch(query).reverse().map(([page]) => page.replace("book/", "")))
"""
SPHINX = """
const document = { getElementById: () => null, querySelectorAll: () => [] };
const splitQuery = (query) => query.split(/[^\\p{Letter}\\p{Number}_]+/gu).filter((term) => term);
const Search = { setIndex: (index) => (Search._index = index) };
"""


@pytest.fixture(scope="module")
def ranked(built):
    """Function of queries: the pages that search shows for each, in their order."""
    site = built / "build/html"
    parts = ("_static/language_data.js", "_static/search.js", "searchindex.js")
    program = SPHINX + ";\n".join((site / part).read_text("utf-8") for part in parts)
    return lambda queries: javascript.call(program, ASK, queries)


@pytest.fixture(scope="module")
def places(ranked):
    """Place of the first right page of each query, from 0."""
    shown = dict(zip(TYPED, ranked(list(TYPED)), strict=True))
    return {
        query: min((shown[query].index(page) for page in pages if page in shown[query]), default=99)
        for query, pages in TYPED.items()
    }


def test_the_right_page_comes_first_for_four_of_five_and_in_the_first_three_for_nearly_all(places):
    missed = {query: place for query, place in places.items() if place}
    assert sum(place == 0 for place in places.values()) >= 0.8 * len(places), missed
    assert sum(place < 3 for place in places.values()) >= 0.95 * len(places), missed


def test_every_row_comes_behind_the_chapters(ranked):
    for query, pages in zip(TYPED, ranked(list(TYPED)), strict=True):
        first = next((k for k, page in enumerate(pages[:10]) if page.split("/")[0] in PARTS), 0)
        assert "rows" not in pages[:first], query


@pytest.mark.parametrize(("typed", "meant"), [("Bregmann", "Bregman"), ("polyka", "polyak")])
def test_a_slip_finds_what_was_meant(ranked, typed, meant):
    slipped, right = ranked([typed, meant])
    assert slipped[0] == right[0]


def test_words_that_no_page_has_find_nothing(ranked):
    assert ranked(["xqzvwkj", ""]) == [[], []]
