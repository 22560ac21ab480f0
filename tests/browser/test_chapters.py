"""A chapter as a reader uses it: code that fits once it is opened, chips that lead on, a fold that a key opens."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FINISHED = [f"book/{name}.html" for name in yaml.safe_load((ROOT / "book/statements.yml").read_text())["finished"]]
OPEN_ALL = "document.querySelectorAll('article details').forEach(fold => { fold.open = true })"
WIDE = """boxes => boxes.filter(box => box.offsetParent && box.scrollWidth > box.clientWidth + 1)
               .map(box => box.innerText.slice(0, 80))"""


@pytest.mark.parametrize("page", FINISHED)
def test_code_fits_its_box_once_it_is_opened(visit, page):
    seen = visit(page)
    seen.evaluate(OPEN_ALL)
    boxes = seen.locator("article div.cell div.highlight pre")
    assert boxes.count() > 5
    assert boxes.evaluate_all(WIDE) == []


@pytest.mark.parametrize("page", FINISHED)
def test_chips_lead_to_places_that_are_there(visit, built, page):
    seen = visit(page)
    links = seen.locator("article ul.chips a").evaluate_all("links => links.map(link => link.getAttribute('href'))")
    assert len(links) >= 5
    for address in links:
        if address.startswith("#"):
            assert seen.locator(address).count() == 1, address
        else:
            assert (built / "build/html" / page).parent.joinpath(address).resolve().is_file(), address


def test_experiment_opens_by_keyboard(visit):
    seen = visit("book/max-margin/theorem-2.html")
    cell = seen.locator("#experiment div.cell").first
    assert not cell.is_visible()
    seen.locator("#experiment details.fold > summary").first.focus()
    seen.keyboard.press("Enter")
    assert cell.is_visible()


def test_experiment_that_teaches_is_open_from_the_start(visit):
    assert visit("book/max-margin/figure-1.html").locator("#experiment div.cell").first.is_visible()
