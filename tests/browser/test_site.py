"""The built site as a reader has it: alone on the machine, formulas set, figures seen, on a desk and on a phone."""

import json
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
PAGES = [TOC["root"], *(entry["file"] for part in TOC["parts"] for entry in part["chapters"])]
CHAPTERS = [page for page in PAGES if "kernelspec:" in (ROOT / f"{page}.md").read_text()]
# sphinx-thebe declares its address twice on every page; nothing of ours, and nothing follows from it.
NOT_OURS = "THEBE_JS_URL"


@pytest.mark.parametrize("page", PAGES)
def test_page_needs_no_other_machine_and_has_no_error(visit, address, page):
    seen = visit(page)
    assert [url for url in seen.requests if not url.startswith((address, "data:", "blob:"))] == []
    assert [error for error in seen.errors if NOT_OURS not in error] == []


@pytest.mark.parametrize("page", PAGES)
def test_formulas_are_typeset(visit, page):
    article = visit(page).page.locator("article")
    sources = article.locator(".math").count()
    assert article.locator("mjx-container").count() >= sources
    assert article.locator("mjx-merror").count() == 0
    if page in CHAPTERS:
        assert sources > 0


@pytest.mark.parametrize("page", PAGES)
def test_phone_scrolls_down_only(visit, page):
    on_phone = visit(page, width=390).page
    assert on_phone.evaluate("document.documentElement.scrollWidth") <= 390


@pytest.mark.parametrize("page", CHAPTERS)
def test_figures_are_seen_on_a_phone(visit, page):
    images = visit(page, width=390).page.locator("article figure img")
    assert images.count() > 0
    for image in images.all():
        image.scroll_into_view_if_needed()
        box = image.bounding_box()
        assert box["x"] >= 0
        assert 250 <= box["width"] <= 390 - box["x"]
        assert image.evaluate("image => image.complete && image.naturalWidth > 600")
        assert len(image.get_attribute("alt")) > 40


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_figures_stand_on_a_light_ground_in_both_modes(visit, scheme):
    page = visit(CHAPTERS[0], scheme=scheme).page
    ground = "image => { const c = getComputedStyle(image).backgroundColor; return c }"
    colour = page.locator("article figure img").first.evaluate(ground)
    if scheme == "dark":
        red, green, blue = (float(part) for part in colour.strip("rgba()").split(",")[:3])
        assert min(red, green, blue) > 150


@pytest.mark.parametrize("page", CHAPTERS)
def test_verdicts_of_the_ledger_are_on_the_page(visit, built, page):
    ledger = json.loads((built / "build/ledger.json").read_text())["claims"]
    chapter = page.removeprefix("book/")
    expected = sorted(row["verdict"] or row["kind"] for row in ledger if row["chapter"] == chapter)
    cells = visit(page).page.locator("table.verdicts tbody td:first-child").all_text_contents()  # of folded ones, too
    assert sorted(" ".join(cell.split()[1:]) for cell in cells) == expected


def test_scoreboard_has_each_item_once_with_what_its_rows_say(visit, built):
    register = yaml.safe_load((ROOT / "book/statements.yml").read_text())["papers"]
    items = [(paper["arxiv"], entry["item"]) for paper in register for entry in paper["items"]]
    page = visit("book/scoreboard").page
    rows = page.locator("table.scoreboard tbody tr")
    ledger = json.loads((built / "build/ledger.json").read_text())["claims"]
    tested = {(row["paper"], row["item"]) for row in ledger if row["kind"] == "claim" and row["of"] == "paper"}
    ours = {row["chapter"] for row in ledger if row["of"] == "book" and row["kind"] != "baseline"}
    assert rows.count() == len(items) + len(ours)
    assert rows.filter(has_text="not tested").count() == len(set(items) - tested)
    blocks = page.locator("table.scoreboard td:nth-child(2) span.verdict").all_inner_texts()
    claims = sum(row["kind"] == "claim" for row in ledger)
    assert sum(text.count("▮") for text in blocks) == claims


def test_files_behind_the_numbers_can_be_had(visit, built):
    address = visit("book/scoreboard").page.locator("a.download").first.get_attribute("href")
    assert (built / "build/html/book" / address).read_bytes() == (built / "build/ledger.json").read_bytes()


def test_first_page_leads_to_the_book(visit, address):
    page = visit("index").page
    page.wait_for_url(f"{address}/{TOC['root']}.html")
    links = page.locator("nav a[href]").evaluate_all("links => links.map(link => link.href)")
    for listed in PAGES[1:]:
        assert f"{address}/{listed}.html" in links
