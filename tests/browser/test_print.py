"""Pages on paper: A4, by day, nothing cut off, folds open but for the experiment."""

import re

import pytest

WIDTH = 703  # of A4, 210 mm at 96 pixels an inch, between margins of 12 mm
PAPER = """() => {
  const cut = [...document.querySelectorAll("article *")].filter(one => {
    const formula = one.closest("math") ?? one;
    if (formula !== one || one.ownerSVGElement || one.closest("thead") || !one.checkVisibility()) return false;
    const box = one.getBoundingClientRect(), style = getComputedStyle(one);
    const hides = style.overflowX !== "visible" && one.scrollWidth > one.clientWidth + 2;
    const formulas = one.matches("span.math, span.math > *");  // with words for screen readers outside of them
    return box.width > 1 && (box.right > innerWidth + 1 || (hides && !formulas) || style.maskImage !== "none");
  });
  const shown = (what) => [...document.querySelectorAll(what)].filter(one => one.checkVisibility()).length;
  return {
    cut: cut.map(one => one.localName + " " + (one.textContent || "").trim().slice(0, 50)),
    ground: getComputedStyle(document.body).backgroundColor,
    ink: getComputedStyle(document.querySelector("article p")).color,
    rows: [shown("table.verdicts tbody tr"), document.querySelectorAll("table.verdicts tbody tr").length],
    notes: [shown("details.sd-dropdown > :not(summary)"),
            document.querySelectorAll("details.sd-dropdown:not(#turn-the-knobs *)").length],
    code: shown("#experiment details.fold div.cell"), titles: shown("article h1"),
    buttons: shown("details.fold > summary"), cited: shown("section.cited li"),
    clipped: [...document.querySelectorAll("span.math")].some(one => getComputedStyle(one).overflow !== "visible"),
    around: shown("nav.bd-docs-nav, .bd-sidebar-secondary, button.copybtn, .header-article-items, .prev-next-footer"),
  };
}"""


def light(colour):
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


@pytest.fixture
def paper(visit):
    """Page as it is printed by a reader who has it in the dark on a phone."""

    def printed(name, width=390):
        page = visit(name, width=width, scheme="dark").page
        page.wait_for_timeout(300)
        page.emulate_media(media="print")
        page.set_viewport_size({"width": WIDTH, "height": 1000})
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        page.wait_for_timeout(300)
        return page

    return printed


@pytest.mark.parametrize(
    ("name", "width"), [("max-margin/theorem-3", 390), ("max-margin/figure-1", 1280), ("notation", 390), ("rows", 1280)]
)
def test_nothing_is_cut_off_and_the_night_is_over(paper, name, width):
    printed = paper(f"book/{name}", width).evaluate(PAPER)
    assert printed["cut"] == []
    assert light(printed["ink"]) + 100 < 255 <= light(printed["ground"])
    assert printed["titles"] == 1
    assert printed["around"] == 0


def test_folded_rows_and_notes_are_printed_and_the_experiment_is_not(paper):
    printed = paper("book/rates/step-rules").evaluate(PAPER)
    shown, rows = printed["rows"]
    assert shown == rows > 10
    assert printed["notes"][0] >= printed["notes"][1] > 1
    assert printed["code"] == printed["buttons"] == 0
    assert not printed["clipped"]
    assert printed["cited"] > 1


def test_the_note_on_weight_decay_is_short_with_its_proofs_figures_and_references(paper):
    page = paper("book/beyond/weight-decay")
    note = page.pdf(format="A4", margin=dict.fromkeys(("top", "bottom", "left", "right"), "10mm"))
    assert len(re.findall(rb"/Type /Page\b", note)) in range(2, 10)  # eight with our fonts; others may need a line more
    printed = page.evaluate(PAPER)
    assert printed["notes"][0] >= printed["notes"][1] > 8
    assert page.locator("article figure:visible").count() == 3
    assert printed["cited"] > 10
    assert not printed["clipped"]


def test_browser_prints_by_day_and_leaves_the_page_as_it_was(visit):
    page = visit("book/rates/step-rules", scheme="dark").page
    page.evaluate("addEventListener('beforeprint', () => { window.seen = document.documentElement.dataset.theme })")
    assert page.pdf(format="A4").startswith(b"%PDF")
    assert page.evaluate("window.seen") == "light"
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert not page.locator("#evidence details[open]").count()
