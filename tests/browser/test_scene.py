"""The scene of *In ten minutes*: it follows the text by scrolling, by buttons and keys, and is not needed to read."""

import functools
import html
import json
import re
from pathlib import Path

import pytest

from workflow.sphinx_ext import explore

ROOT = Path(__file__).parents[2]
SOURCE = (ROOT / "book/_static/explore/story.js").read_text("utf-8")
STEPS = re.findall(r"^  (\w+): {$", re.search(r"export const STEPS = {\n(.*?)\n};", SOURCE, re.DOTALL)[1], re.MULTILINE)
SECTION = """<section><span id="story-{name}"></span><h2>{name}</h2><p>Words.</p>
<figure class="story-still"><p>A picture.</p></figure><p class="story-try">Try it.</p></section>"""
DATA = 'data-firm="0.2" data-parked="1" data-kept="1" data-best="0"'
REVIEW = {
    "words": ["thin", "period", "piece", "[CLS]"],
    "before": [0.1, 0.3, 0.4, 0.2],
    "after": [0.3, 0.35, 0.15, 0.2],
}
REVIEW |= {"alone": [1, 0, 0, 0]}
SCENE = f'<div class="explore story" data-explore="story" data-review="{html.escape(json.dumps(REVIEW))}" {DATA}></div>'
PAGE = """<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8"><title>story</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="stylesheet" href="pages.css"><body>
<article><section><h1>Story</h1>{scene}{sections}</section></article><script src="explore.js" defer></script></html>"""


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    folder = tmp_path_factory.mktemp("story")
    (folder / "explore.js").write_text(explore.bundle(ROOT / explore.SOURCES), "utf-8")
    (folder / "pages.css").write_text((ROOT / "book/_static/pages.css").read_text("utf-8"), "utf-8")
    sections = "".join(SECTION.format(name=name) for name in STEPS)
    (folder / "story.html").write_text(PAGE.format(scene=SCENE, sections=sections), "utf-8")
    return (folder / "story.html").as_uri()


@pytest.fixture
def opened(from_disk, address):
    """Open the page: ``opened(width=390, reduced_motion="reduce")``."""
    return functools.partial(from_disk, address)


OVERLAPS = Path(__file__).with_name("overlaps.js").read_text("utf-8")
OVERPRINTED = Path(__file__).with_name("overprinted.js").read_text("utf-8")


def scroll_to(page, name):
    """Show a step of the story, and wait until its scene is set."""
    page.evaluate("id => document.getElementById(id).closest('section').scrollIntoView()", f"story-{name}")
    page.wait_for_function("name => document.querySelector('.story').dataset.step === name", arg=name)


@pytest.mark.parametrize("width", [320, 390, 600, 768, 1024, 1280, 1440, 1920])
def test_controls_of_no_step_overlap(opened, width):
    page = opened(width, reduced_motion="reduce")
    for style in ("", "font-family: serif", "letter-spacing: .08em"):
        page.evaluate("style => { document.querySelector('.explore').style = style }", style)
        for name in STEPS:
            scroll_to(page, name)
            assert page.evaluate(OVERLAPS) == [], (name, width, style)


@pytest.mark.parametrize("width", [1280, 390])
def test_words_of_the_drawing_never_overprint_after_a_drag_and_the_scene_is_whole(opened, width):
    page = opened(width, reduced_motion="reduce")
    for name in STEPS:
        scroll_to(page, name)
        said(page)
        for handle in page.locator(".explore-handle").all()[:2]:
            for press in ["Shift+ArrowRight"] * 4 + ["Shift+ArrowDown"] * 5 + ["Shift+ArrowLeft"] * 8:
                handle.press(press)
                assert page.evaluate(OVERPRINTED) == [], (name, press)
        assert page.evaluate(OUTSIDE) == [], name


@pytest.mark.parametrize("width", [1280, 390])
def test_a_link_to_a_step_opens_its_scene(opened, width):
    page = opened(width, reduced_motion="reduce")
    for name in STEPS:
        page.evaluate("id => { location.hash = id }", f"story-{name}")
        page.wait_for_function("name => document.querySelector('.story').dataset.step === name", arg=name)


def test_of_starts_that_lie_close_together_a_finger_takes_the_one_that_is_next(opened):
    page = opened(390, reduced_motion="reduce")
    page.evaluate("document.getElementById('story-starts').closest('section').scrollIntoView()")
    page.wait_for_function("document.querySelector('.story').dataset.step === 'starts'")
    for chosen in (["start 0"], ["start 1"]):
        page.get_by_role("button", name="Next start").click()
        said(page)
        handles = page.locator(".explore-handle.chosen")
        assert handles.evaluate_all("all => all.map(node => node.dataset.key)") == chosen


def said(page):
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    return page.locator(".explore-said").inner_text()


# phones upright and on their side, the smallest one too; tablets; laptops; desks at the size of 100, 200 and 300 %
SIZES = ["320x360", "320x568", "390x844", "568x320", "640x360", "768x1024", "844x390", "960x540", "1024x768"]
SIZES += ["1280x720", "1366x657", "1920x1080"]
OUTSIDE = """() => {
  const [scene, view] = [document.querySelector('.story').getBoundingClientRect(), document.documentElement];
  const parts = '.explore-stage, .story-words, .explore-controls .explore-row, .explore-said, .story-foot button';
  return [...document.querySelectorAll(parts)].map((one) => [one, one.getBoundingClientRect()]).filter(([, box]) =>
    box.width && (box.top < Math.max(scene.top, 0) - 1 || box.bottom > Math.min(scene.bottom, innerHeight) + 1 ||
      box.left < scene.left - 1 || box.right > Math.min(scene.right, view.clientWidth) + 1)
  ).map(([one]) => one.className || one.textContent);
}"""


@pytest.mark.parametrize("size", SIZES)
def test_scrolling_to_a_step_changes_the_scene_which_stays_in_view(opened, size):
    width, height = map(int, size.split("x"))
    page = opened(width, reduced_motion="reduce")
    page.set_viewport_size({"width": width, "height": height})
    sentences = set()
    for name in STEPS:
        scroll_to(page, name)
        sentences.add(said(page))
        assert page.evaluate(OUTSIDE) == [], name
        box, scene = (page.locator(part).bounding_box() for part in (".explore-stage .explore-plane", ".story"))
        assert box["height"] >= 60, name
        beside = scene["width"] < 0.7 * width
        assert beside or scene["height"] <= 0.6 * height, "and there is room for the words"
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert len(sentences) == len(STEPS)


def test_where_a_screen_has_no_room_for_both_each_step_has_its_picture(opened):
    page = opened(320, reduced_motion="reduce")
    page.set_viewport_size({"width": 320, "height": 256})
    assert all(picture.is_visible() for picture in page.locator(".story-still").all())
    assert page.evaluate("getComputedStyle(document.querySelector('.story')).position") == "relative"


def test_next_and_back_lead_through_the_steps_by_keyboard(opened):
    page = opened(reduced_motion="reduce")
    following = page.get_by_role("button", name="Next ›")
    following.focus()
    for name in STEPS[1:]:
        page.keyboard.press("Enter")
        page.wait_for_function("name => document.querySelector('.story').dataset.step === name", arg=name)
    assert following.is_disabled()
    page.get_by_role("button", name="‹ Back").press("Enter")
    page.wait_for_function("name => document.querySelector('.story').dataset.step === name", arg=STEPS[-2])


def test_without_scripts_each_step_has_its_picture_and_nothing_to_try(opened):
    page = opened(java_script_enabled=False)
    assert page.locator(".story-still").count() == len(STEPS)
    assert all(picture.is_visible() for picture in page.locator(".story-still").all())
    assert not any(part.is_visible() for part in page.locator(".story-try").all())


def test_on_paper_each_step_has_its_picture_and_the_scene_is_gone(opened):
    page = opened()
    assert not page.locator(".story-still").first.is_visible()
    page.emulate_media(media="print")
    assert all(picture.is_visible() for picture in page.locator(".story-still").all())
    assert not page.locator(".story").is_visible()


def test_nothing_moves_for_those_who_ask(opened):
    page = opened(reduced_motion="reduce")
    page.get_by_role("button", name="Next ›").click()
    assert said(page) == "After 1000 steps “thin” has over 99 % of the attention."


def test_time_runs_by_itself_until_the_reader_takes_it(opened):
    page = opened()
    page.get_by_role("button", name="Next ›").click()
    page.wait_for_function("document.querySelector('.story').dataset.step === 'sharpens'")
    page.wait_for_timeout(1500)
    slider = page.locator(".explore-row:not([hidden]) input[type=range]")
    slider.press("Home")
    assert said(page) == "After 0 steps “thin” has 33 % of the attention."
    page.wait_for_timeout(500)
    assert said(page) == "After 0 steps “thin” has 33 % of the attention."


@pytest.mark.parametrize(
    ("name", "key", "presses", "words"),
    [
        ("averages", "tip", ["Shift+ArrowUp"] * 15, "“thin” has 9"),
        ("direction", "key 0", ["Shift+ArrowRight"] * 4, "from max-margin"),
        ("starts", "start 2", ["Shift+ArrowDown"] * 4, "From 3 of 6 starts “thin”, the best word, wins"),
    ],
)
def test_what_is_dragged_changes_what_is_said(opened, name, key, presses, words):
    page = opened(reduced_motion="reduce")
    page.evaluate("id => document.getElementById(id).closest('section').scrollIntoView()", f"story-{name}")
    page.wait_for_function("name => document.querySelector('.story').dataset.step === name", arg=name)
    before = said(page)
    handle = page.locator(f'.explore-handle[data-key="{key}"]')
    for each in presses:
        handle.press(each)
    assert said(page) != before
    assert words in said(page)


def test_choices_answer_and_the_guess_is_judged_by_the_number_of_the_page(opened):
    page = opened(reduced_motion="reduce")
    page.evaluate("document.getElementById('story-picks').closest('section').scrollIntoView()")
    page.get_by_role("button", name="piece", exact=True).click()
    assert said(page).startswith("“piece” scores best")
    page.evaluate("document.getElementById('story-networks').closest('section').scrollIntoView()")
    page.get_by_text(re.compile(r"(^|, )\?$")).wait_for()  # drawn once the step has been scrolled to
    page.get_by_role("button", name="most").click()
    assert said(page) == "No. 20 % of the choices are above 0.9."
    page.get_by_role("button", name="few").click()
    assert said(page).startswith("Right.")
