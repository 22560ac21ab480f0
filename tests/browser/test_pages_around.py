"""The pages around the chapters as a reader has them: picture, map, scoreboard at every width, search."""

import re

import pytest

WIDTHS = [320, 768]  # the other ones are in test_site
CUT = """() => [...document.querySelectorAll("article :is(td, th, figure, figcaption, svg)")].filter(e => {
  const box = e.getBoundingClientRect();
  const wide = !["svg", "FIGURE"].includes(e.tagName) && e.scrollWidth > e.clientWidth + 2;
  return box.width > 1 && !e.closest("thead") && (box.right > innerWidth + 1 || box.left < -1 || wide);
}).map(e => e.tagName + ": " + e.textContent.trim().slice(0, 40))"""


AROUND = ("intro", "in-ten-minutes", "beliefs", "scoreboard", "corrections", "sources", "library")


@pytest.mark.parametrize("name", AROUND)
def test_nothing_is_cut_off(visit, name):
    seen = visit(f"book/{name}")
    for width in WIDTHS:
        assert seen.at(width, "document.documentElement.scrollWidth") <= width
        assert seen.at(width, CUT) == [], width


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_picture_is_on_the_first_screen_and_has_the_colours_of_the_page(visit, scheme):
    page = visit("book/intro", scheme=scheme).page
    page.evaluate("theme => { document.documentElement.dataset.theme = theme }", scheme)
    picture = page.locator("#fig-intro svg")
    box = picture.bounding_box()
    assert box["y"] + box["height"] <= 900
    ink, ground = (
        page.evaluate("([e, what]) => getComputedStyle(document.querySelector(e))[what]", [where, what])
        for where, what in (("#fig-intro svg", "fill"), ("body", "backgroundColor"))
    )
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, ground)]
    assert (light[0] < light[1]) == (scheme == "light")
    assert abs(light[0] - light[1]) > 300


class TestScoreboard:
    """Find and filter."""

    def shown(self, page):
        rows = page.locator("table.scoreboard tbody tr")
        return [row for row in rows.all() if row.is_visible()]

    def test_words_find_an_item(self, visit):
        page = visit("book/scoreboard").page
        page.get_by_label("Find").fill("theorem 2 diverges")
        (row,) = self.shown(page)
        assert row.inner_text().startswith("Theorem 2:")
        assert page.get_by_role("status").inner_text().startswith("1 of ")

    def test_a_standing_is_chosen(self, visit):
        page = visit("book/scoreboard").page
        everything = len(self.shown(page))
        page.get_by_label("Standing").select_option("✎ made explicit")
        chosen = self.shown(page)
        assert 0 < len(chosen) < everything
        for row in chosen:
            assert row.locator("td:nth-child(2) .made-explicit").count() == 1
        page.get_by_label("Standing").select_option("any")
        assert len(self.shown(page)) == everything


@pytest.mark.parametrize(
    ("words", "chapter"), [("Theorem 2", "theorem-2"), ("Lemma 11", "lemma-2"), ("Assumption A", "notation")]
)
def test_a_search_for_a_statement_lists_it_first(visit, address, words, chapter):
    page = visit("search").page
    page.goto(f"{address}/search.html?q={words.replace(' ', '+')}")
    page.locator("#search-results p.search-summary").wait_for()
    first = page.locator("#search-results ul.search li a").first
    first.wait_for()
    assert re.search(rf"{chapter}\.html(\?[^#]*)?#", first.get_attribute("href"))
