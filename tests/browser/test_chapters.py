"""A chapter as a reader meets it: the answer on the first screens, on a desk and on a phone; code that fits its box."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FINISHED = [f"book/{name}" for name in yaml.safe_load((ROOT / "book/statements.yml").read_text())["finished"]]
OPEN_ALL = "document.querySelectorAll('article details').forEach(fold => { fold.open = true })"
TOP = "(element => element.getBoundingClientRect().top / innerHeight)"
WIDE = "box => box.scrollWidth > box.clientWidth + 2"


@pytest.mark.parametrize("page", FINISHED)
@pytest.mark.parametrize(("width", "screens"), [(1280, 1.0), (390, 1.3)])
def test_key_figure_and_verdict_stand_on_the_first_screens(visit, page, width, screens):
    seen = visit(page, width=width).page
    assert seen.locator("article figure").first.evaluate(TOP) < screens
    assert seen.locator("article ul.chips a").first.evaluate(TOP) < 2


@pytest.mark.parametrize("page", FINISHED)
def test_code_fits_its_box_once_it_is_opened(visit, page):
    seen = visit(page).page
    seen.evaluate(OPEN_ALL)
    boxes = seen.locator("article div.cell div.highlight pre")
    assert boxes.count() > 5
    assert [box for box in boxes.all() if box.is_visible() and box.evaluate(WIDE)] == []


@pytest.mark.parametrize("page", FINISHED)
def test_no_formula_is_cut_on_a_phone(visit, page):
    seen = visit(page, width=390).page
    seen.evaluate(OPEN_ALL)
    formulas = seen.locator("article div.math mjx-container")
    assert formulas.count() > 0
    assert [formula.inner_text() for formula in formulas.all() if formula.evaluate(WIDE)] == []


@pytest.mark.parametrize("page", FINISHED)
def test_chips_lead_to_places_that_are_there(visit, built, page):
    for link in visit(page).page.locator("article ul.chips a").all():
        address = link.get_attribute("href")
        if address.startswith("#"):
            assert link.page.locator(address).count() == 1
        else:
            assert (built / "build/html" / page).parent.joinpath(address).resolve().is_file(), address


def test_experiment_opens_by_keyboard(visit):
    seen = visit(FINISHED[0]).page
    line = seen.locator("#experiment details.fold > summary").first
    cell = seen.locator("#experiment div.cell").first
    assert not cell.is_visible()
    line.focus()
    seen.keyboard.press("Enter")
    assert cell.is_visible()
