"""The built site as a reader has it: alone on the machine, by day and by night, on a desk, a tablet and a phone.

Each page is loaded once, all folds are opened, and everything is measured there. On a phone a table may go on beside
the screen, where the page says so; on anything wider nothing may.
"""

import functools
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
import yaml
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont
from PIL import Image

from lib.ledger import VERDICTS
from workflow.book.catalogue import pages

ROOT = Path(__file__).parents[2]
TOC = yaml.safe_load((ROOT / "_toc.yml").read_text())
PAGES = pages()
CHAPTERS = [page for page in PAGES if "kernelspec:" in (ROOT / f"{page}.md").read_text()]
REGISTER = yaml.safe_load((ROOT / "book/statements.yml").read_text())
DRAWN = re.compile(r'(<svg [^>]*class="drawing"[^>]*>).*?</svg>', re.DOTALL)  # most of a page, and no text
CALLIGRAPHIC = "\N{VARIATION SELECTOR-1}"  # after a script letter
every_page = pytest.mark.parametrize("page", PAGES)
every_chapter = pytest.mark.parametrize("page", CHAPTERS)
WIDTHS = {"desk": 1280, "tablet": 768, "phone": 390}


@functools.cache
def read(path):
    """Built page, taken apart."""
    return BeautifulSoup(DRAWN.sub(r"\1</svg>", path.read_text("utf-8")), "html.parser")


@every_page
def test_page_needs_no_other_machine_has_no_error_and_is_light(seen, page):
    measured = seen(page)
    assert measured["foreign"] == []
    assert measured["errors"] == []
    assert measured["weight"] < 400e3


@every_page
def test_page_says_what_it_is(seen, page):
    desk = seen(page)["desk"]
    about = desk["about"]
    assert 50 <= len(about["description"]) <= 300
    assert about["og:description"] == about["description"]
    assert about["og:title"] in desk["title"]
    assert desk["headings"] == 1
    assert all(len(picture["alt"]) > 40 for picture in desk["pictures"])
    assert desk["nameless"] == []
    assert desk["jumps"] == 0


@every_page
def test_formulas_are_typeset(seen, page):
    done, formulas = seen(page)["desk"]["formulas_set"]
    assert done == formulas >= (page in CHAPTERS)


def test_fonts_have_every_letter_of_formulas_and_every_icon(site):
    static = site / "_static"
    has, icons = (set(TTFont(static / f"{name}.woff2").getBestCmap()) for name in ("stix-two-math", "icons"))
    texts = [math.get_text() for page in PAGES for math in read(site / f"{page}.html").select("math")]
    assert set(map(ord, "".join(texts).replace(CALLIGRAPHIC, ""))) <= has
    theme = (static / "styles/pydata-sphinx-theme.css").read_text("utf-8")
    drawn = re.findall(r'((?:\.fa-[\w-]+:before,?)+)\{content:"\\(\w+)"', theme)
    known = {name: int(code, 16) for names, code in drawn for name in re.findall(r"fa-[\w-]+", names)}
    shown = {
        name for page in PAGES for icon in read(site / f"{page}.html").select("[class*=fa-]") for name in icon["class"]
    }
    assert len(shown & {*known}) > 10
    assert {known[name] for name in shown & {*known}} <= icons


@every_page
def test_nothing_is_cut_off_without_a_sign(seen, page):
    for name, width in WIDTHS.items():
        measured = seen(page)[name]
        assert measured["width"] <= width, name
        assert measured["unmarked"] == [], name
        assert name == "phone" or measured["formulas"] + measured["tables"] == [], name


@every_chapter
def test_formulas_fit_a_phone_and_code_its_box(seen, page):
    phone = seen(page)["phone"]
    assert phone["formulas"] + phone["inline"] == []
    assert seen(page)["desk"]["code"] == []


def test_experiment_opens_by_keyboard(visit):
    page = visit("book/max-margin/theorem-2").page
    cell = page.locator("#experiment div.cell").first
    assert not cell.is_visible()
    page.locator("#experiment details.fold > summary").first.focus()
    page.keyboard.press("Enter")
    assert cell.is_visible()


def test_what_opens_over_the_text_is_not_covered_by_it(visit):
    page = visit("book/max-margin/theorem-2").page  # which has a figure to drag: the page around it is painted in parts
    seen = """box => { const {left, right, bottom} = box.getBoundingClientRect();
        return box.contains(document.elementFromPoint((left + right) / 2, bottom - 5)); }"""
    page.locator(".term").first.hover()
    assert page.locator(".term .meaning").first.evaluate(seen)
    page.locator("details.chip > summary").first.click()
    page.mouse.move(5, 5)
    assert page.locator("details.chip > div").first.evaluate(seen)


def test_experiment_that_teaches_is_open_from_the_start(visit):
    assert visit("book/max-margin/figure-1").page.locator("#experiment div.cell").first.is_visible()


@every_chapter
def test_answer_comes_first(seen, page):
    for (figure, findings), screens in zip(seen(page)["first"], (1, 1.6), strict=True):
        assert figure < 1
        assert findings < screens


@every_chapter
def test_figures_are_seen_and_told(seen, page):
    desk, phone = seen(page)["desk"]["pictures"], seen(page)["phone"]["pictures"]
    assert desk
    for picture in desk:
        assert picture["drawn"]
        assert picture["sized"]
    for picture in phone:
        assert picture["x"] >= 0
        assert picture["right"] <= 390
        assert picture["width"] >= 250


def test_a_picture_is_downloaded_by_day_and_whole(visit, tmp_path):
    page = visit("book/max-margin/theorem-2").page
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    figure = page.locator("#fig-theorem-2-direction")
    for kind in ("svg", "png"):
        with page.expect_download() as saved:
            figure.get_by_role("button", name=f"as {kind.upper()}").click()
        assert saved.value.suggested_filename == f"fig-theorem-2-direction.{kind}"
        saved.value.save_as(tmp_path / f"figure.{kind}")
    drawing = ElementTree.parse(tmp_path / "figure.svg").getroot()
    width, height = (float(drawing.get(side)) for side in ("width", "height"))
    with Image.open(tmp_path / "figure.png") as picture:
        assert picture.size == (int(3 * width), int(3 * height))
        colours = picture.convert("RGB").getcolors(2**24)
    assert max(colours)[1] == (255, 255, 255)
    assert min(sum(colour) for _, colour in colours) < 150  # ink is dark, not that of the night


@every_chapter
def test_text_of_figures_can_be_read_and_no_line_crosses_it(seen, page):
    for name in WIDTHS:
        measured = seen(page)[name]
        assert measured["letters"] >= 10.9, name
        assert measured["indices"] >= 7.4, name
        assert measured["struck"] == [], name


def test_formulas_are_copied_as_tex_and_labels_of_drawings_are_text(visit):
    page = visit("book/max-margin/theorem-1").page
    page.evaluate("""() => {
        addEventListener("copy", (event) => { window.copied = event.clipboardData.getData("text/plain"); });
        getSelection().selectAllChildren(document.querySelector(".findings li"));
        document.execCommand("copy");
    }""")
    assert r"$p_{\mathrm{mm}}$" in page.evaluate("window.copied")
    assert page.locator("svg.drawing text", has_text="max-margin").count() > 0


@every_page
def test_text_stands_out_by_day_and_by_night(seen, page):
    for theme in ("desk", "dark"):
        measured = seen(page)[theme]
        assert measured["pale"] == [], theme
        grounds = [picture["ground"] for picture in measured["pictures"] if picture["bitmap"]]
        assert all(min(ground) >= 150 for ground in grounds), theme


@every_chapter
def test_verdicts_of_the_ledger_are_on_the_page(site, built, page):
    ledger = json.loads((built / "build/ledger.json").read_text())["claims"]
    expected = sorted(row["verdict"] or row["kind"] for row in ledger if f"book/{row['chapter']}" == page)
    soup = read(site / f"{page}.html")
    cells = [cell.get_text() for cell in soup.select("table.verdicts tbody td:first-child")]  # of folded ones, too
    assert sorted(cell.lstrip("".join(VERDICTS.values()) + " ") for cell in cells) == expected


def test_scoreboard_has_each_item_once_with_what_its_rows_say(site, built):
    items = [(paper["arxiv"], entry["item"]) for paper in REGISTER["papers"] for entry in paper["items"]]
    soup = read(site / "book/scoreboard.html")
    rows, findings = (soup.select(f"table.{name} tbody tr") for name in ("scoreboard", "found"))
    ledger = json.loads((built / "build/ledger.json").read_text())["claims"]
    tested = {(row["paper"], row["item"]) for row in ledger if row["kind"] == "claim" and row["of"] == "paper"}
    checked = {row["chapter"] for row in ledger}
    assert (len(rows), len(findings)) == (len(items), len(checked))
    assert sum("not tested" in row.get_text() for row in rows) == len(set(items) - tested)
    counted = [*soup.select("table.scoreboard td:nth-child(3) span"), *soup.select("table.found td:nth-child(2) span")]
    counts = [int(re.match(r"\d+", span.get_text())[0]) for span in counted if re.match(r"\d", span.get_text())]
    assert sum(counts) == sum(row["kind"] == "claim" for row in ledger)
    address = soup.select_one("a.download")["href"]
    assert json.loads((site / "book" / address).read_text()) == json.loads((built / "build/ledger.json").read_text())


def test_first_page_leads_to_the_book_by_mouse_and_by_keyboard(visit, address):
    page = visit("index").page
    links = page.locator("nav a[href]").evaluate_all("links => links.map(link => link.href)")
    for listed in PAGES[1:]:
        assert f"{address}/{listed}.html" in links
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to main content"
    page.keyboard.press("Enter")
    page.wait_for_url(f"{address}/{TOC['root']}.html#main-content")  # the first page stands at two addresses
    page.keyboard.press("Tab")
    assert page.evaluate("document.querySelector('main').contains(document.activeElement)")


# What search shows of each page for words of its prose, of its code and of neither: lines of code, formulas in TeX.
EXCERPTS = """async (pages) => {
    const faults = [];
    for (const page of pages) {
        const text = await (await fetch(`${page}.html`)).text();
        const cells = new DOMParser().parseFromString(text, "text/html").querySelectorAll("article .cell_input pre");
        const lines = [...cells].flatMap((cell) => cell.textContent.split("\\n")).map((line) => line.trim());
        const wrong = [...lines.filter((line) => line.length > 15), "\\\\("];
        for (const word of ["attention", "import", "nowhere"]) {
            const shown = Search.makeSearchSummary(text, new Set([word]), "").textContent;
            const found = wrong.filter((part) => shown.includes(part));
            const fits = lines.length && shown.length > 80 && shown.length < 260;
            if (found.length || !fits) faults.push([page, word, found, shown]);
        }
    }
    return faults;
}"""


def test_search_shows_sentences_of_chapters_and_no_code(visit):
    page = visit("search").page
    page.locator(".bd-search-container input").fill("max-margin")
    page.keyboard.press("Enter")
    page.wait_for_selector("#search-results p.context")
    assert page.evaluate(EXCERPTS, CHAPTERS[::4]) == []


def test_the_index_lists_every_statement(site):
    listed = {link.get_text() for link in read(site / "genindex.html").select("table.indextable li > a")}
    assert {"Theorem 2", "Figure 9(a)", "Global convergence"} <= listed
    assert read(site / f"{TOC['root']}.html").select("footer a[href='../genindex.html']")


def test_site_is_light(site):
    assert sum(path.stat().st_size for path in site.rglob("*") if path.is_file()) < 60e6
