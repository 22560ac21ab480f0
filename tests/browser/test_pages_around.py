"""The pages around the chapters as a reader has them: picture, map, scoreboard at every width, search."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WIDTHS = [320, 768]  # the other ones are in test_site
CUT = """() => [...document.querySelectorAll("article :is(td, th, figure, figcaption, svg)")].filter(e => {
  const box = e.getBoundingClientRect();
  const wide = !["svg", "FIGURE"].includes(e.tagName) && e.scrollWidth > e.clientWidth + 2;
  return box.width > 1 && !e.closest("thead") && (box.right > innerWidth + 1 || box.left < -1 || wide);
}).map(e => e.tagName + ": " + e.textContent.trim().slice(0, 40))"""


AROUND = ("intro", "in-ten-minutes", "beliefs", "which-theorem", "scoreboard", "corrections", "sources", "library")


@pytest.mark.parametrize("name", AROUND)
def test_nothing_is_cut_off(visit, name):
    seen = visit(f"book/{name}")
    for width in WIDTHS:
        assert seen.at(width, "document.documentElement.scrollWidth") <= width
        assert seen.at(width, CUT) == [], width


@pytest.mark.parametrize(("width", "height"), [(1280, 720), (1920, 1080), (390, 844)])
def test_the_first_page_begins_with_one_screen(visit, width, height):
    page = visit("book/intro", width=width).page
    page.set_viewport_size({"width": width, "height": height})
    ways = page.locator(".ways a")
    assert ways.count() == 2
    assert all(box["y"] + box["height"] <= height for box in (way.bounding_box() for way in ways.all()))
    assert page.locator(".landing-words").bounding_box()["y"] < height / 2


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


class TestWhichTheorem:
    """What one has, and which statements apply."""

    def statement(self, page, name):
        return page.locator("table.which tbody tr", has=page.get_by_role("link", name=name, exact=True)).first

    def test_the_page_has_no_verdict_on_a_case_before_one_chooses(self, visit):
        page = visit("book/which-theorem").page
        assert page.locator(".which-said").count() == 0
        assert page.locator("table.which tbody tr").count() > 30

    def test_a_hypothesis_that_fails_is_told_with_what_then_happens(self, visit):
        page = visit("book/which-theorem").page
        for question, option in {"inputs": "several", "step": "gd", "train": "p"}.items():
            page.locator(f"select[name={question}]").select_option(option)
        said = self.statement(page, "Theorem 2").locator(".which-said")
        assert "There is one input" in said.inner_text()
        assert "breaks the claim" in said.inner_text()
        assert said.get_by_role("link", name="theorem-2/two-inputs").get_attribute("href").startswith("rows.html#")
        assert "May apply" in self.statement(page, "Theorem 3").inner_text()
        page.get_by_label("hide statements").check()
        assert not self.statement(page, "Theorem 2").is_visible()
        page.get_by_role("button", name="Begin again").click()
        page.wait_for_function("!document.querySelector('.which-said')")
        assert self.statement(page, "Theorem 2").is_visible()

    def test_a_statement_applies_once_all_its_hypotheses_are_chosen(self, visit):
        page = visit("book/which-theorem").page
        chosen = {"train": "w", "head": "linear", "step": "ngd", "batch": "full"}
        chosen |= {"scores": "distinct", "tokens": "orthogonal", "loss": "logistic"}
        for question, option in chosen.items():
            page.locator(f"select[name={question}]").select_option(option)
        assert "Applies." in self.statement(page, "Global convergence").inner_text()
        assert "1 of" not in self.statement(page, "Global convergence").inner_text()


def test_a_number_belongs_to_its_word_and_the_first_page_leads_to_the_field(visit):
    page = visit("book/intro").page
    page.get_by_role("link", name="Find a statement").click()
    page.wait_for_load_state("load")
    page.wait_for_function("document.activeElement.name === 'words'")
    page.keyboard.type("Theorem 4")
    found = page.locator("table.scoreboard tbody tr:visible").all_inner_texts()
    assert found
    assert all("Theorem 4" in text or "Theorems 4" in text for text in found)


def test_the_list_of_pages_shows_where_one_is_after_next(visit):
    page = visit("book/known-since").page
    page.set_viewport_size({"width": 1280, "height": 720})
    for _ in range(12):
        with page.expect_navigation(wait_until="load"):
            page.locator("a.right-next").click()
        here = page.locator(".bd-sidebar-primary li.current > a").last
        page.wait_for_function("node => node.getBoundingClientRect().bottom <= innerHeight", arg=here.element_handle())
        assert here.bounding_box()["y"] >= 0


def test_a_row_has_a_line_and_bibtex_to_cite(visit):
    page = visit("book/rows").page
    address = page.locator('[id="theorem-2/unequal-scores"]')
    assert not address.is_visible()
    page.evaluate("location.hash = 'theorem-2/unequal-scores'")
    address.wait_for()
    address.click()
    line, entry = (shown.inner_text() for shown in page.locator("tr.row-cited pre").all())
    assert "$1 - \\cos$" in line
    assert line.endswith("/book/rows.html#theorem-2/unequal-scores")
    assert entry.startswith("@misc{theorem_2_unequal_scores,")
    assert entry.count("{") == entry.count("}")
    address.click()
    assert page.locator("tr.row-cited").count() == 0


def test_rows_are_found_by_words_verdict_and_paper(visit):
    page = visit("book/rows").page
    page.get_by_label("Find").fill("theorem-2 flow")
    page.get_by_label("Paper").select_option("first")
    page.get_by_label("Verdict").select_option("reproduced")
    found = [row for row in page.locator("table.ledger tbody tr").all() if row.is_visible()]
    assert found
    for row in found:
        text = row.inner_text().lower()
        assert "reproduced" in text
        assert "flow" in text
    assert page.get_by_role("status").inner_text().startswith(f"{len(found)} of ")
    page.get_by_label("Find").fill("")
    page.get_by_label("Paper").select_option("")
    page.get_by_label("Verdict").select_option("")
    assert not any(row.is_visible() for row in page.locator("table.ledger tbody tr").all()[:5])


STATEMENTS = {"Theorem 2": "theorem-2", "Lemma 11": "lemma-2", "Assumption A": "notation"}
WORDS = {"Muon": "optimiser-margins", "weigth decay": "weight-decay", "softmax": "notation"}  # more: test_search


@pytest.mark.parametrize(("words", "chapter"), (STATEMENTS | WORDS).items())
def test_a_search_for_a_statement_or_a_word_lists_its_page_first(visit, address, words, chapter):
    page = visit("search").page
    page.goto(f"{address}/search.html?q={words.replace(' ', '+')}")
    page.locator("#search-results p.search-summary").wait_for()
    first = page.locator("#search-results ul.search li a").first
    first.wait_for()
    assert re.search(rf"{chapter}\.html(\?[^#]*)?#", first.get_attribute("href"))
