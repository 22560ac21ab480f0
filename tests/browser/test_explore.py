"""The interactive figures as a reader has them: pointer, touch and keys, on a desk and on a phone, from disk."""

import re
from pathlib import Path

import pytest
import torch

from lib.descent import normalised, run
from lib.flow import log_time_flow
from lib.geometry import one_minus_cosine
from lib.losses import by_name
from lib.problem import Problem
from lib.selection import optimal_tokens, selected_tokens
from workflow.sphinx_ext import explore

ROOT = Path(__file__).parents[2]

NAMES = ("playground", "road", "dial", "ball", "cone")
WIDTHS = (390, 1280)
PAGE = """<!doctype html><html lang="en" data-theme="light"><meta charset="utf-8"><title>explore</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><body>
<div class="explore" data-explore="{name}" data-preset="{preset}"><p id="fallback">A figure that stands still.</p></div>
<p style="height: 2000px">More of the page.</p><script src="explore.js" defer></script></body></html>"""


OVERPRINTED = Path(__file__).with_name("overprinted.js").read_text("utf-8")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """A page from disk for each figure, and nothing but the script beside them."""
    made = tmp_path_factory.mktemp("explore")
    (made / "explore.js").write_text(explore.bundle(ROOT / explore.SOURCES), "utf-8")
    for name in NAMES:
        (made / f"{name}.html").write_text(PAGE.format(name=name, preset="1(b)"), "utf-8")
    return made


class Figure:
    """One figure in a page of its own."""

    def __init__(self, page):
        self.page = page
        self.rest()

    def rest(self):
        """Wait until a frame has been drawn."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    @property
    def said(self):
        self.rest()
        return self.page.locator(".explore-said").inner_text()

    def handle(self, key):
        return self.page.locator(f'.explore-handle[data-key="{key}"]')

    def place(self, key):
        self.rest()
        box = self.handle(key).locator("circle").bounding_box()
        return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2

    def drag(self, key, by):
        """Drag by mouse, in pixels."""
        self.handle(key).scroll_into_view_if_needed()
        x, y = self.place(key)
        mouse = self.page.mouse
        mouse.move(x, y)
        mouse.down()
        mouse.move(x + by[0] / 2, y + by[1] / 2)
        mouse.move(x + by[0], y + by[1])
        mouse.up()
        self.rest()

    def touch(self, key, by):
        """Drag by finger, in pixels."""
        self.handle(key).scroll_into_view_if_needed()
        self.swipe(self.place(key), by)

    def swipe(self, at, by):
        """Draw a finger over the screen."""
        device = self.page.context.new_cdp_session(self.page)
        for kind, share in (("touchStart", 0), ("touchMove", 0.4), ("touchMove", 1), ("touchEnd", None)):
            points = [] if share is None else [{"x": at[0] + share * by[0], "y": at[1] + share * by[1]}]
            device.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        self.page.wait_for_timeout(150)

    def press(self, name):
        self.page.get_by_role("button", name=name, exact=True).click()
        self.rest()

    def more(self):
        """Open the controls that are folded."""
        self.page.locator(".explore-more > summary").click()
        self.rest()

    def slide(self, label, value):
        """Set a slider as a reader's arrow keys do."""
        field = self.page.locator(".explore-controls label", has_text=label).locator("input").first
        field.evaluate(
            "(node, value) => { node.value = value; node.dispatchEvent(new Event('input', { bubbles: true }));"
            " node.dispatchEvent(new Event('change', { bubbles: true })); }",
            str(value),
        )
        self.rest()

    def tip_is_at(self, end):
        """A run of Figure 1(b) has its arrowhead there; its last two tokens are at the origin and at (1, 0)."""
        drawn = self.page.locator("path.path").first.get_attribute("d")
        tips = re.findall(r"M-?\d+ -?\d+L(-?\d+) (-?\d+)L-?\d+ -?\d+(?=M|$)", drawn)
        dots = [(int(x) / 10, int(y) / 10) for x, y in tips]
        (x0, y0), (x1, _) = self.place("token 0 2"), self.place("token 0 1")
        box = self.page.locator(".explore-plane").first.bounding_box()
        places = torch.tensor([[box["x"] + x - x0, y0 - box["y"] - y] for x, y in dots]).double() / (x1 - x0)
        nearest = places[(places - end).norm(dim=1).argmin()]
        assert one_minus_cosine(nearest, end) < 1e-4
        torch.testing.assert_close(nearest, end, rtol=0, atol=0.01)

    @property
    def spot(self):
        """What the figure holds, as the address has it."""
        return self.page.evaluate("location.hash")


@pytest.fixture
def figure(from_disk, folder):
    """Open a figure: ``figure("playground", width=390)``."""
    return lambda name, state="", **options: Figure(from_disk((folder / f"{name}.html").as_uri() + state, **options))


def coordinates(figure, key):
    """Where a handle says that it is."""
    words = figure.handle(key).get_attribute("aria-valuetext")
    return [float(number) for number in re.findall(r"-?[\d.]+", words)]


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_figure_takes_the_place_of_its_fallback(figure, name, width):
    shown = figure(name, width=width)
    assert len(shown.said) > 40
    assert not shown.page.locator("#fallback").is_visible()
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= (390 if width == 390 else 1280)
    shown.page.emulate_media(media="print")
    assert shown.page.locator("#fallback").is_visible()
    assert not shown.page.locator(".explore-box").is_visible()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_figure_stands_alone_where_two_files_are(from_disk, folder, name, width):
    (folder / "embed.html").write_text((ROOT / "book/_static/embed.html").read_text("utf-8"), "utf-8")
    address = f"{(folder / 'embed.html').as_uri()}?preset=1(b)&figure={name}"
    shown = Figure(from_disk(address, width=width))
    assert len(shown.said) > 40
    assert shown.page.locator(".explore-quiz").count() == 1
    assert shown.page.evaluate("document.documentElement.scrollWidth") <= width
    small = from_disk(f"{address}&ask=", width=640, color_scheme="dark")
    small.set_viewport_size({"width": 640, "height": 480})
    assert small.locator(".explore-quiz").count() == 0
    assert small.evaluate("document.documentElement.scrollHeight") <= 480
    assert small.evaluate("(box => box.scrollHeight <= box.clientHeight)(document.querySelector('.explore-box'))")
    assert small.evaluate("document.documentElement.dataset.theme") == "dark"
    page = from_disk(address.replace(name, "another"))
    assert all(known in page.locator(".explore").inner_text() for known in NAMES)


def test_figure_alone_begins_with_its_preset_and_with_what_a_copied_link_holds(from_disk, folder):
    (folder / "embed.html").write_text((ROOT / "book/_static/embed.html").read_text("utf-8"), "utf-8")
    address = f"{(folder / 'embed.html').as_uri()}?figure=playground&preset=5"
    shown = Figure(from_disk(address))
    assert shown.page.get_by_text("C, score of the upper token", exact=True).is_visible()
    shown.slide("C, score of the upper token", 7)
    again = Figure(from_disk(address + shown.spot))
    assert again.said == shown.said


def test_page_without_scripts_has_the_static_figure(from_disk, folder):
    page = from_disk((folder / "playground.html").as_uri(), java_script_enabled=False)
    assert page.locator("#fallback").is_visible()
    assert page.locator(".explore-box").count() == 0


def test_tokens_are_dragged_by_mouse(figure):
    shown = figure("playground")
    assert shown.said.startswith("6 starts → 4 to the best tokens (global), 2 to another")
    before = coordinates(shown, "token 0 0")
    shown.drag("token 0 1", (0, -60))
    x, y = coordinates(shown, "token 0 1")
    assert x == 1
    assert y > 0.3
    assert coordinates(shown, "token 0 0") == before
    assert "keys=" in shown.spot
    shown.press("Undo")
    assert coordinates(shown, "token 0 1") == [1, 0]
    assert shown.said.startswith("6 starts → 4 to the best tokens (global), 2 to another")


def test_tokens_are_dragged_by_finger_and_the_page_by_the_plane(figure):
    shown = figure("playground", width=390)
    shown.handle("token 0 1").scroll_into_view_if_needed()
    before = shown.page.evaluate("scrollY")
    shown.touch("token 0 1", (10, -40))
    x, y = coordinates(shown, "token 0 1")
    assert x > 1
    assert y > 0.3
    assert shown.page.evaluate("scrollY") == before
    box = shown.page.locator(".explore-plane").first.bounding_box()
    shown.swipe((box["x"] + 20, box["y"] + box["height"] - 20), (0, -200))
    assert shown.page.evaluate("scrollY") > before + 50


@pytest.mark.parametrize("width", WIDTHS)
def test_handles_obey_the_keys(figure, width):
    shown = figure("playground", width=width)
    shown.handle("token 0 2").focus()
    shown.page.keyboard.press("ArrowRight")
    shown.page.keyboard.press("Shift+ArrowUp")
    shown.rest()
    assert coordinates(shown, "token 0 2") == [0.05, 0.25]
    for _ in range(18):
        shown.page.keyboard.press("+")
    shown.rest()
    assert "score 0.9" in shown.handle("token 0 2").get_attribute("aria-label")
    assert shown.said.startswith("6 starts → 6 to the best tokens (global).")
    shown.handle("start 5").focus()
    shown.page.keyboard.press("Delete")
    assert shown.said.startswith("5 starts")
    shown.page.wait_for_timeout(800)
    assert shown.page.locator("[role=status]").inner_text() == shown.said


def test_a_click_into_the_plane_adds_a_start(figure):
    shown = figure("playground")
    box = shown.page.locator(".explore-plane").first.bounding_box()
    shown.page.mouse.click(box["x"] + 40, box["y"] + 40)
    assert shown.said.startswith("7 starts")
    shown.drag("start 6", (30, 30))
    assert shown.said.startswith("7 starts")  # the end of a drag is no click


def test_of_two_handles_on_one_spot_the_chosen_one_goes_first_and_a_second_click_takes_the_other(figure):
    shown = figure("playground")
    x, y = shown.place("start 2")
    for expected in ("token 0 2", "start 2", "token 0 2"):
        shown.page.mouse.click(x, y)
        assert shown.page.evaluate("document.activeElement.dataset.key") == expected
    shown.drag("token 0 2", (40, 0))
    assert shown.place("token 0 2")[0] == pytest.approx(x + 40, abs=2)
    assert shown.place("start 2") == pytest.approx((x, y), abs=2)


@pytest.mark.parametrize("width", WIDTHS)
def test_presets(figure, width):
    shown = figure("playground", width=width)
    shown.press("8")
    assert shown.said.startswith("2 starts → 1 to")
    shown.press("5")
    shown.slide("C, score", 100)
    assert "score 100, best" in shown.handle("token 0 1").get_attribute("aria-label")
    assert "still turning" in shown.said


def test_loss_step_and_numbers_of_things(figure):
    shown = figure("playground")
    assert not shown.page.get_by_role("button", name="− token").is_visible(), "first one thing to do"
    shown.more()
    for label, value in (("Loss", "correlation"), ("Step", "constant")):
        shown.page.locator(".explore-controls label", has_text=label).locator("select").select_option(value)
    assert "loss=correlation" in shown.spot
    assert "step=constant" in shown.spot
    assert shown.said.startswith("6 starts")
    shown.press("− token")
    shown.press("− token")
    assert "one token left" in shown.said
    assert shown.page.get_by_role("button", name="− token").is_disabled()
    shown.press("+ token")
    shown.press("+ input")
    assert shown.page.locator(".explore-handle.token").count() == 4


def test_flow_in_log_time(figure):
    shown = figure("playground")
    shown.more()
    shown.page.locator(".explore-controls label", has_text="Step").locator("select").select_option("flow")
    assert shown.said.startswith("6 starts → 4 to the best tokens (global), 2 to another")
    assert not shown.page.locator(".explore-controls label", has_text="Step size").is_visible()
    assert "log_time_flow" in shown.page.locator("pre code").text_content()
    shown.slide("Time", 50)
    assert "log t = 50" in shown.page.locator(".explore-bars").inner_text()
    problem = Problem(keys=[[[-0.1, 1], [1, 0], [0, 0]]], scores=[[1, 0.9, 0]])
    shown.slide("Time", 3)
    end = log_time_flow(problem, by_name("logistic"), torch.tensor([0.0, 0.0]), [3]).theta[-1]
    shown.tip_is_at(end)


def test_predicted_border_of_figure_8_and_the_shared_direction_that_makes_it(figure):
    shown = figure("playground")
    assert shown.page.locator("text", has_text="predicted border").count() == 0
    shown.press("8")
    assert shown.page.locator("text", has_text="predicted border").count() == 1
    line = shown.page.locator(".explore-plane line.dashed").last
    ends = [[float(line.get_attribute(f"{axis}{k}")) for axis in "xy"] for k in (1, 2)]
    (x0, y0), (x1, _) = shown.place("token 0 1"), shown.place("token 0 0")
    box, scale = shown.page.locator(".explore-plane").first.bounding_box(), x1 - x0
    for x, y in ends:  # y = x - z*
        assert (y0 - box["y"] - y) / scale - (box["x"] + x - x0) / scale == pytest.approx(-1.7187, abs=0.05)
    shown.slide("Shared direction", 0)
    assert shown.said.startswith("2 starts → 2 to the best tokens (global).")
    assert shown.page.locator("text", has_text="predicted border").count() == 0
    assert coordinates(shown, "token 1 0") == [0, 1]


def test_each_input_has_its_separating_line(figure):
    shown = figure("playground")
    for name, count in {"1(a)": 1, "1(b)": 2, "1(c)": 3, "8": 4}.items():
        shown.press(name)
        assert shown.page.locator(".explore-plane").first.locator("line.thin").count() == count


def test_the_score_of_the_token_that_was_chosen_is_lowered_and_a_second_limit_is_announced(figure):
    shown = figure("playground", width=390)
    shown.press("1(a)")
    assert shown.page.locator("text", has_text="local").count() == 0
    assert "limit exists" not in shown.said
    shown.slide("Score of token 3", 0.85)
    assert shown.page.locator("text", has_text="local").count() == 1
    assert "A second limit exists" in shown.said
    assert "score 0.85" in shown.handle("token 0 2").get_attribute("aria-label")


def test_marks_say_what_to_do_first_and_next_and_go_away(figure):
    shown = figure("playground", width=390)
    shown.press("1(a)")
    mark = shown.page.locator(".explore-coach")
    assert "second limit appears" in mark.inner_text()
    assert shown.page.locator("label.explore-pointed").inner_text().startswith("Score of token 3")
    top = shown.page.locator(".explore-plane").first.bounding_box()["y"]
    shown.slide("Score of token 3", 0.85)
    assert mark.inner_text().startswith("2")
    shown.slide("Score of token 3", 0)
    assert not mark.is_visible()
    assert shown.page.locator(".explore-pointed").count() == 0
    assert shown.page.locator(".explore-plane").first.bounding_box()["y"] == pytest.approx(top, abs=30)
    shown.press("1(b)")
    assert not mark.is_visible(), "those who have done them see them no more"


def test_marks_speak_of_no_limit_and_no_token_that_is_gone(figure):
    shown = figure("playground")
    mark = shown.page.locator(".explore-coach")
    shown.slide("Score of token 3", 0.9)  # which takes the second limit away
    assert mark.inner_text().splitlines()[-2].endswith("To which limit does its path turn?")
    shown.press("Reset")
    shown.press("1(a)")
    shown.more()
    shown.press("− token")
    assert not mark.is_visible()


def test_of_starts_that_lie_close_together_a_finger_takes_the_chosen_one(figure):
    shown = figure("playground", width=390)
    shown.press("Next start")
    before = [coordinates(shown, f"start {k}") for k in range(6)]
    shown.page.locator(".explore-plane").first.scroll_into_view_if_needed()
    assert shown.place("start 0")[1] - shown.place("start 1")[1] > -44  # narrower than a finger
    for place, moved in (("start 0", "start 1"), ("start 4", "start 4")):  # it is chosen for one drag
        shown.swipe(shown.place(place), (60, 0))
        now = [coordinates(shown, f"start {k}") for k in range(6)]
        assert [f"start {k}" for k in range(6) if now[k] != before[k]] == [moved]
        before = now


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_labels_never_overprint_after_a_drag(figure, name, width):
    shown = figure(name, width=width, reduced_motion="reduce")
    keys = shown.page.locator(".explore-handle").evaluate_all("all => all.map(node => node.dataset.key)")
    for key in keys[:4]:
        for press in ["Shift+ArrowRight"] * 4 + ["Shift+ArrowDown"] * 5 + ["Shift+ArrowLeft"] * 3:
            if shown.handle(key).count():
                shown.handle(key).press(press)
                assert shown.page.evaluate(OVERPRINTED) == [], (key, press)


def test_marks_can_be_sent_away(figure):
    shown = figure("playground")
    for _ in range(2):
        shown.press("Got it")
    assert not shown.page.locator(".explore-coach").is_visible()


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", NAMES)
def test_questions_are_answered_after_a_choice_and_by_turning_the_figure(figure, name, width):
    shown = figure(name, reduced_motion="reduce", width=width)
    groups = shown.page.locator(".explore-quiz [role=group]")
    assert groups.count() == (1 if name == "cone" else 2)
    for group in groups.all():
        answer = group.locator(".explore-answer")
        assert answer.inner_text() == ""
        options = group.locator("button:visible")
        assert 2 <= options.count() <= 3
        options.first.focus()
        shown.page.keyboard.press("Enter")
        shown.rest()
        show = group.get_by_role("button", name="Show me")
        if show.is_visible():
            assert answer.inner_text().startswith("Now try it")
            show.click()
            shown.rest()
            shown.page.wait_for_timeout(50)  # it does not scroll smoothly for those who ask
            assert shown.said.startswith(answer.inner_text()), "the answer is under the drawing, too"
            place = shown.page.locator(".explore-said").bounding_box()
            assert place["y"] + place["height"] <= shown.page.viewport_size["height"]
            box = shown.page.locator(".explore-plane").first.bounding_box()
            assert box["y"] > -box["height"] / 3
        assert answer.inner_text().startswith(("Right.", "It is “"))
        assert group.locator("button.right").count() == 1


def test_a_slider_that_comes_back_lets_the_controls_go(figure):
    shown = figure("playground")
    slider = shown.page.locator(".explore-controls input[type=range]:visible").first
    slider.scroll_into_view_if_needed()
    box, mouse = slider.bounding_box(), shown.page.mouse
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    mouse.click(x, y)
    first = slider.input_value()
    mouse.down()
    mouse.move(x + 40, y)
    assert "height" in shown.page.locator(".explore-controls").first.get_attribute("style")
    mouse.move(x, y)
    assert slider.input_value() == first, "so that no event says that it has changed"
    mouse.up()
    assert "height" not in (shown.page.locator(".explore-controls").first.get_attribute("style") or "")


SAME = """() => { window.same = []; new MutationObserver((all) => same.push(...all
    .filter((one) => one.type === "attributes" && one.oldValue === one.target.getAttribute(one.attributeName))
    .map((one) => `${one.target.tagName} ${one.attributeName}`)))
    .observe(document.querySelector(".explore-box"), { subtree: true, attributes: true, attributeOldValue: true }); }"""


@pytest.mark.parametrize(("name", "part"), [("playground", "start 1"), ("ball", "row 0"), ("dial", "third")])
def test_a_drag_writes_what_has_changed_and_no_more(figure, name, part):
    # a browser styles a node, and lays out the page, for an attribute that is set to what it was
    shown = figure(name)
    shown.drag(part, (20, -10))
    shown.page.evaluate(SAME)
    shown.drag(part, (-20, 10))
    assert shown.page.evaluate("same") == []


def test_the_sentence_has_room_for_more_while_something_moves(figure):
    shown = figure("playground", width=600)
    token, mouse = shown.handle("token 0 2"), shown.page.mouse
    token.scroll_into_view_if_needed()
    x, y = shown.place("token 0 2")
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + 4, y - 4)
    sentence = shown.page.locator(".explore-said")
    # as if it had been short before
    assert sentence.evaluate("node => { node.style.height = '1px'; return node.scrollHeight > node.clientHeight; }")
    mouse.move(x + 8, y - 8)
    shown.page.wait_for_function("node => node.scrollHeight <= node.clientHeight", arg=sentence.element_handle())
    mouse.up()
    shown.rest()
    assert not sentence.evaluate("node => node.style.height")


OVERLAPS = Path(__file__).with_name("overlaps.js").read_text("utf-8")


@pytest.mark.parametrize("widths", [(390, 320), (1280, 600, 768, 1024, 1440, 1920)])
@pytest.mark.parametrize("name", NAMES)
def test_controls_never_overlap(figure, name, widths):
    shown = figure(name, width=widths[0], reduced_motion="reduce")
    page = shown.page
    page.evaluate("for (const one of document.querySelectorAll('.explore-more')) one.open = true")
    for group in page.locator(".explore-quiz [role=group]").all():
        group.locator("button").first.click()
        if group.get_by_role("button", name="Show me").is_visible():
            group.get_by_role("button", name="Show me").click()
    for preset in ("1(b)", "1(c)", "5", "8") if name == "playground" else (None,):
        if preset:
            shown.press(preset)
        for width in widths:
            page.set_viewport_size({"width": width, "height": 900})
            for style in ("", "font-family: serif", "letter-spacing: .08em"):  # the last is 15 % wider
                page.evaluate("style => { document.querySelector('.explore').style = style }", style)
                shown.rest()
                assert page.evaluate(OVERLAPS) == [], (preset, width, style)
                assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_ball_shows_entries_and_plateaus(figure):
    ball = figure("ball")
    assert ball.page.locator(".explore-bars i").count() == 16
    ball.press("p = 1.05")
    low = ball.page.locator(".explore-bars i").evaluate_all("nodes => nodes.map(node => node.offsetHeight)")
    ball.press("p = 10")
    high = ball.page.locator(".explore-bars i").evaluate_all("nodes => nodes.map(node => node.offsetHeight)")
    assert low == sorted(low, reverse=True)
    assert sum(low) < 0.5 * sum(high)
    assert ball.page.locator(".explore-count b").count() == 0
    ball.page.get_by_label("Measure it").check()
    ball.press("p = 3")
    said = ball.page.locator(".explore-count b").all_inner_texts()
    assert [text.split(",")[0] for text in said] == ["levels off at 0.0047", "levels off at 0.0047", "levels off at 0"]


def test_tokens_of_the_cone_that_are_let_go_near_each_other_share_a_spot(figure):
    shown = figure("cone")
    shown.slide("Score of token B", 0.7)
    for key, down in (("other 0", -1), ("other 1", 1)):
        shown.handle(key).focus()
        for _ in range(12):
            shown.page.keyboard.press("ArrowDown" if down < 0 else "ArrowUp")
    pixels = shown.place("other 0")[1] - shown.place("other 1")[1]
    shown.drag("other 1", (0, 0.6 * pixels))
    assert "not in general position" in shown.said


@pytest.mark.parametrize("width", [600, 800, 1440])
def test_path_of_lowest_risk_is_shown_on_demand(figure, width):
    shown = figure("ball", width=width)
    charts = shown.page.locator(".explore-plane")
    assert not charts.nth(1).is_visible()
    shown.page.get_by_role("checkbox", name="The path of lowest risk").check()
    shown.rest()
    curve = charts.nth(1).locator("path.path").get_attribute("d")
    points = [tuple(map(int, pair)) for pair in re.findall(r"[ML](-?\d+) (-?\d+)", curve)]
    assert len(points) == 41, "also those along the border of the drawing, where the angle is below 0.01 degrees"
    assert sum(y == max(y for _, y in points) for _, y in points) > 10
    shown.page.get_by_role("checkbox", name="The path of lowest risk").uncheck()
    shown.rest()
    assert not charts.nth(1).is_visible()


def test_map_is_the_library_s(figure):
    shown = figure("playground")
    shown.press("8")
    shown.more()
    shown.page.get_by_label("Colour every start").check()
    shown.page.wait_for_function("document.querySelector('canvas').dataset.level == 4", timeout=60_000)
    share = int(re.search(r"starts all over the view (\d+) %", shown.said)[1])
    box = shown.page.locator(".explore-plane").first.bounding_box()
    scale, rows = min(box["width"] / 7.4, box["height"] / 6.6), round(96 * box["height"] / box["width"])
    across, up = ((torch.arange(count) + 0.5) / count - 0.5 for count in (96, rows))
    side = 0.9 + box["width"] / scale * across, 1.1 - box["height"] / scale * up
    problem = Problem(keys=[[[1, 0], [0, 0]], [[-2, 1], [0, 0]]], scores=[[1, 0], [1, 0]])
    grid = torch.stack(torch.meshgrid(*side, indexing="xy"), dim=-1)
    ends = run(problem, by_name("logistic"), grid, normalised(0.1), 1000, [1000]).theta[-1]
    best = (selected_tokens(problem, ends) == optimal_tokens(problem)).all(-1).double().mean().item()
    assert abs(share - 100 * best) <= 1


@pytest.mark.parametrize("name", NAMES)
def test_a_configuration_can_be_sent(figure, name):
    first = figure(name)
    keys = first.page.locator(".explore-handle")
    if keys.count():
        first.drag(keys.first.get_attribute("data-key"), (25, -30))
    sliders = first.page.locator(".explore-controls label:visible input[type=range]")
    label = sliders.first.evaluate("node => node.closest('label').innerText.split('\\n')[0]")
    first.slide(label, sliders.first.evaluate("node => (Number(node.min) + Number(node.max)) / 2"))
    first.press("Copy link")
    second = figure(name, first.spot)
    assert second.said == first.said
    assert second.page.locator("pre code").text_content() == first.page.locator("pre code").text_content()
    assert second.spot == first.spot
    second.press("Reset")
    assert second.said != first.said or not keys.count()


def test_a_link_pasted_into_an_open_page_moves_the_figure(figure):
    shown = figure("playground")
    shown.page.evaluate("location.hash = 'explore=playground&preset=1(a)&scores=1,0.9,0.9&step=flow'")
    shown.page.wait_for_function("document.querySelector('.explore-said').innerText.startsWith('6 starts → 6')")
    assert "step=flow" in shown.spot


def test_an_answer_goes_with_the_setting_that_it_is_true_of(figure):
    shown = figure("road", reduced_motion="reduce")
    group = shown.page.locator(".explore-quiz [role=group]").first
    group.locator("button").first.click()
    group.get_by_role("button", name="Show me").click()
    shown.rest()
    assert "212 digits" in group.inner_text()
    shown.slide("C, score of one input", 2)
    assert "digits" not in group.inner_text()
    assert group.locator("button.right").count() == 0


@pytest.mark.parametrize(
    "state",
    [
        *("keys=nonsense", "keys=1,2_3,4&scores=1", "scores=1", "starts=_~_", "starts=1", "view=1,0,0,1"),
        *("loss=hinge", "size=1e9", "size=0", "shown=2000", "preset=7"),
    ],
)
def test_an_address_that_is_none_is_named_and_left(figure, state):
    shown = figure("playground", f"#explore=playground&{state}")
    assert shown.said.startswith("The address holds no configuration of this figure")
    assert "6 starts → 4" in shown.said


def test_targets_are_large_enough_for_a_finger(figure):
    for name in NAMES:
        page = figure(name, width=390).page
        for target in page.locator(".explore :is(button, select, summary, input):visible, .explore-hit").all():
            box = target.bounding_box()
            label = target.evaluate("node => node.closest('label') ? node.closest('label').offsetHeight : 0")
            assert max(box["height"], label) >= 43.9, (name, target.evaluate("node => node.outerHTML"))
            assert box["width"] >= 43.9 or label >= 44, (name, target.evaluate("node => node.outerHTML"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_colours_follow_the_theme(figure, scheme):
    shown = figure("playground")
    shown.page.evaluate(f"document.documentElement.dataset.theme = '{scheme}'")
    stroke = shown.page.locator(".explore-plane path.c0").first.evaluate("node => getComputedStyle(node).stroke")
    assert (stroke == "rgb(0, 89, 63)") == (scheme == "light")


@pytest.mark.parametrize("chapter", ["in-ten-minutes", "max-margin/figure-1", "rates/step-rules"])
def test_built_pages_start_their_figure(visit, chapter):
    seen = visit(f"book/{chapter}")
    assert len(seen.page.locator(".explore-said").first.inner_text()) > 40


@pytest.mark.parametrize("chapter", ["figure-1", "theorem-2", "figure-5", "figure-8"])
def test_plane_and_controls_of_the_playground_fit_a_laptop(visit, chapter):
    page = visit(f"book/max-margin/{chapter}").page
    page.set_viewport_size({"width": 1280, "height": 720})
    page.reload()
    top = page.locator(".explore-plane").first.bounding_box()["y"]
    last = page.locator(".explore-controls").first.bounding_box()
    assert last["y"] + last["height"] - top < 720 - 60  # of the theme's header


def test_a_built_page_without_a_figure_does_not_load_the_script(visit):
    assert not any("explore.js" in url for url in visit("book/scoreboard").requests)
