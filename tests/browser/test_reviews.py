"""Reviews in a browser, from disk: MiniLM's heads in the figure, and one layer that trains on the first page."""

import functools
import re
from pathlib import Path

import pytest

from workflow.site import reviews
from workflow.site.markup import filled
from workflow.sphinx_ext import explore

ROOT = Path(__file__).parents[2]
PAGE = """<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8"><title>reviews</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="pages.css"><body>
<article>{body}</article><script src="{script}" defer></script></html>"""
WIDTHS = (320, 390, 768, 1280, 1920)
SHARES = "() => [...document.querySelectorAll('.landing-words small')].map((one) => one.textContent)"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("reviews")
    (made / "heads").mkdir()
    for name, script in reviews.scripts().items():
        (made / "heads" / name).write_text(script, "utf-8")
    (made / "explore.js").write_text(explore.bundle(ROOT / explore.SOURCES), "utf-8")
    for name in ("pages.css", "landing.js"):
        (made / name).write_text((ROOT / "book/_static" / name).read_text("utf-8"), "utf-8")
    bodies = {
        "heads.html": (filled("heads", **reviews.shown()), "explore.js"),
        "landing.html": (filled("landing", counts="", **reviews.trained()), "landing.js"),
    }
    for name, (body, script) in bodies.items():
        (made / name).write_text(PAGE.format(body=body, script=script), "utf-8")
    return made


@pytest.fixture
def heads(from_disk, folder):
    """Open the figure: ``heads(width=390)``."""
    return functools.partial(from_disk, (folder / "heads.html").as_uri())


@pytest.fixture
def landing(from_disk, folder):
    """Open the first page's figure: ``landing(width=390)``."""
    return functools.partial(from_disk, (folder / "landing.html").as_uri())


def said(page, words):
    """The sentence under the figure, once it has these words."""
    page.wait_for_function("words => document.querySelector('.explore-said').textContent.includes(words)", arg=words)
    return page.locator(".explore-said").inner_text()


def counted(page, words):
    """Arrows that turn, by the sentence."""
    return int(re.search(r"turn: (\d+)", said(page, words))[1])


@pytest.mark.parametrize("width", WIDTHS)
def test_figure_fits_and_its_words_are_in_the_drawing(heads, width):
    page = heads(width)
    said(page, "In all 72 heads")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    drawing = page.locator(".explore-stage svg").bounding_box()
    for word in page.locator(".explore-stage text").all():
        box = word.bounding_box()
        assert box["x"] >= drawing["x"] - 1
        assert box["x"] + box["width"] <= drawing["x"] + drawing["width"] + 1, word.text_content()


def test_another_review_comes_when_it_is_chosen_and_not_before(heads):
    page = heads()
    said(page, "of 9")
    assert page.evaluate("Object.keys(HEADS)") == ["37"]
    field = page.get_by_label("Review")
    field.select_option(index=2)
    count = len(reviews.texts()[6])
    said(page, f"of {count}")
    assert page.locator(".explore-stage svg path.thin").count() == count
    assert page.evaluate("Object.keys(HEADS)") == ["6", "37"]


def test_fewer_bits_by_key_turn_arrows_that_light_up(heads):
    page = heads()
    slider = page.get_by_label("Bits")
    for _ in range(5):
        slider.press("ArrowRight")
    assert counted(page, "At 8 bits") == page.locator("path.wide").count() == 0
    for _ in range(6):
        slider.press("ArrowLeft")
    assert counted(page, "At 2 bits") == page.locator("path.wide").count() == page.locator("path.dotted").count() > 0


def test_a_token_is_asked_by_click_and_by_key(heads):
    page = heads()
    page.get_by_role("button", name="next token").press("Enter")
    assert "“[CLS]” gives" in said(page, "gives")
    page.locator(".explore-stage text", has_text="dream").first.click()
    said(page, "“dream” gives")
    page.get_by_role("button", name="all tokens").click()
    page.wait_for_function("!document.querySelector('.explore-said').textContent.includes('gives')")


def test_without_scripts_the_figure_is_a_sentence(heads):
    page = heads(java_script_enabled=False)
    assert page.get_by_text("This needs JavaScript").is_visible()


def test_address_with_a_setting_opens_it(from_disk, folder):
    page = from_disk((folder / "heads.html").as_uri() + "#explore=heads&layer=2&head=9&bits=2&token=0")
    assert counted(page, "At 2 bits") == 3
    page = from_disk((folder / "heads.html").as_uri() + "#explore=heads&layer=7")
    said(page, "The address holds no configuration")


@pytest.mark.parametrize("width", WIDTHS)
def test_attention_moves_within_two_seconds_and_picks_the_word(landing, width):
    page = landing(width)
    first = page.evaluate(SHARES)
    page.wait_for_function(f"first => String(({SHARES})()) !== String(first)", arg=first, timeout=2000)
    page.wait_for_function("document.querySelector('.landing-said').textContent.startsWith('After')")
    assert "“dazzling”" in page.locator(".landing-said").inner_text()
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_word_that_is_pressed_wins_by_key_too_and_nothing_moves_for_those_who_ask(landing):
    page = landing(reduced_motion="reduce")
    for word in page.locator(".landing-words button").all():
        word.press("Enter")
        assert f"“{word.locator('span').inner_text()}”" in page.locator(".landing-said").inner_text()
        assert page.locator(".landing-said").inner_text().startswith("After")
        assert word.get_attribute("aria-pressed") == "true"


def test_without_scripts_the_words_show_what_they_have_at_the_end(landing):
    page = landing(java_script_enabled=False)
    assert page.locator(".landing-words small").all_inner_texts().count(reviews.percent(0.999)) == 1
    assert page.get_by_role("button", name="Train").count() == 0
