"""What our Sphinx extensions make of chapters, on the pages of the built book; what is seen of it is in browser/."""

import functools
import json
import re

import pytest
from bs4 import BeautifulSoup

DRAWN = re.compile(r'(<svg [^>]*class="drawing"[^>]*>).*?</svg>', re.DOTALL)  # most of a page, and no text
FOLDED, OPEN = "max-margin/theorem-2", "max-margin/figure-1"


@pytest.fixture(scope="module")
def pages(built):
    """Function that gives a chapter's page, taken apart."""

    @functools.cache
    def page(chapter):
        text = (built / f"build/html/book/{chapter}.html").read_text("utf-8")
        return BeautifulSoup(DRAWN.sub(r"\1</svg>", text), "html.parser")

    return page


def words(node):
    return node.get_text(" ", strip=True)


@pytest.mark.parametrize("chapter", [FOLDED, OPEN])
def test_figures_and_formulas_are_numbered_on_each_page(pages, chapter):
    for kind, form in ((".caption-number", "Figure {}"), (".eqno", "({}) #")):
        numbers = [words(number) for number in pages(chapter).select(f"article {kind}")]
        assert numbers == [form.format(k) for k in range(1, len(numbers) + 1)] != []


def test_a_reference_has_the_number_or_the_name_of_what_it_leads_to(pages):
    def links(chapter):
        return {(words(link), link["href"]) for link in pages(chapter).select("article a.reference")}

    assert links(FOLDED) >= {
        ("Figure 3", "#fig-theorem-2-two-inputs"), ("(3)", "#equation-eq-theorem-2-least"),
        ("Lemmas 4 and 5: downhill", "lemma-4.html#lemma-4"),
    }  # fmt: skip
    assert ("Log time", "../notation.html#def-log-time") in links("mirror-descent/local-convergence")


def test_small_numbers_in_the_prose_have_raised_powers(pages):
    shown = (
        number
        for chapter in ("joint-rates", "normalised-sgd")
        for number in pages(f"rates/{chapter}").select("article .pasted-text")
    )
    numbers = [number.get_text() for number in shown]
    powers = [text for text in numbers if "10⁻" in text]
    assert powers
    assert not [text for text in numbers if re.search(r"\de[-+]\d", text)]
    for text in powers:
        assert re.fullmatch("([\\d.]+\N{NO-BREAK SPACE}×\N{NO-BREAK SPACE})?10⁻[⁰¹²³⁴⁵⁶⁷⁸⁹]+", text)


def test_box_has_its_own_title_and_says_whence_its_words_come(pages):
    title = pages(FOLDED).select_one("#thm-theorem-2 > .admonition-title")
    assert words(title) == "Theorem 2 (Ataee Tarzanagh et al.) restored"
    assert title.select_one("a.badge.restored")["href"] == "../sources.html"


def test_chips_open_what_they_mean_and_lead_to_the_rows(pages, built):
    noted = json.loads((built / f"build/staged/book/_generated/about/{FOLDED}.json").read_text("utf-8"))
    assert words(pages(FOLDED).select_one("h1 + div.verdict-chips > span")) == noted["of"]
    for chip, about in zip(pages(FOLDED).select("h1 + div.verdict-chips > details.chip"), noted["chips"], strict=True):
        assert (words(chip.summary), chip["class"]) == (about["text"], ["chip", about["verdict"]])
        assert words(chip).startswith(f"{about['text']} {about['means']}")
        assert [link["href"] for link in chip.select("a")] == ["#" + about["place"], "../rows.html#rows-theorem-2"]
    code = {words(link): link["href"] for link in pages(FOLDED).select(".findings ul.chips a")}
    notebook = "../../_sources/book/max-margin/theorem-2.ipynb"
    assert code == {noted["runs"]: "#experiment", "notebook": notebook, "slides": "theorem-2-slides.html"}


def test_experiment_is_folded_as_a_whole_behind_what_it_costs(pages):
    section = pages(FOLDED).select_one("#experiment")
    fold = section.select_one("details.fold")
    assert re.fullmatch(r"Show the experiment: \d+ lines of code, runs in \d+ s", words(fold.select_one("summary")))
    assert not fold.has_attr("open")
    assert len(fold.select("div.cell")) == len(section.select("div.cell")) > 10
    assert pages(FOLDED).select_one("#against-the-paper").find_parent("details") is None
    assert not pages(OPEN).select("#experiment details.fold")


def test_code_that_shows_has_a_bar_with_its_name_and_code_that_tells_is_away(pages):
    bars = [words(bar) for bar in pages(FOLDED).select("#experiment details.hide p.collapsed")]
    assert {"Code of Figure 1", "Code of Figure 2", "Code of the table"} <= set(bars)
    assert "tell(" not in words(pages(FOLDED).select_one("#experiment"))


def test_what_is_shown_stands_once_where_its_block_is(pages):
    page = pages(FOLDED)
    assert len(page.select("article svg.drawing")) == len(page.select("article figure"))
    assert not page.select("#experiment svg, #experiment img, #experiment table")
    assert page.select_one("#evidence table.verdicts")
