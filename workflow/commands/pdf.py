"""Print the built book into one PDF, its pages in order, in the browser that the tests use. `make pdf`.

Each page is printed from its file, by day and unfolded, with a bookmark; scripts of interactive figures do not run from
a file, so their pictures are printed.
"""

import io
import os
import time
from pathlib import Path

from pypdf import PdfReader, PdfWriter

from workflow.book.catalogue import BookError, pages, yaml_of
from workflow.commands import call
from workflow.site.browser import SEEN, SET, chromium

SITE, BOOK = Path("build/html"), Path("build/book.pdf")
PAPER = """@page { size: A4; margin: 17mm 17mm 19mm; @bottom-center { content: counter(page); font: 11px sans-serif; } }
:root { counter-reset: page %d; }"""
# Links to files would lead into the folder of who printed.
UNLINK = "() => document.querySelectorAll('a').forEach((a) => a.protocol === 'file:' && a.removeAttribute('href'))"


def printed(page, name, before):
    """PDF of a page of the site, numbered from the page after ``before``."""
    page.goto((SITE / f"{name}.html").resolve().as_uri())
    page.wait_for_function(SET)
    page.evaluate(SEEN)
    page.evaluate(UNLINK)
    page.add_style_tag(content=PAPER % before)
    return PdfReader(io.BytesIO(page.pdf(prefer_css_page_size=True, print_background=True, scale=0.85)))


def main():
    """Print every page and join them."""
    if not (SITE / "index.html").exists():
        raise BookError(f"there is no {SITE}/index.html: run make book")
    began, about, writer = time.monotonic(), yaml_of("_config.yml"), PdfWriter()
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        for name in pages():
            sheets = printed(page, name, len(writer.pages))
            writer.append(sheets, outline_item=page.locator("h1").first.inner_text().rstrip("#"), import_outline=False)
    writer.add_metadata({"/Title": about["title"], "/Author": about["author"]})
    writer.compress_identical_objects()
    with open(half := BOOK.with_suffix(".part"), "wb") as file:
        writer.write(file)
    os.replace(half, BOOK)
    size = BOOK.stat().st_size / 1e6
    print(f"{BOOK}: {len(writer.pages)} pages, {size:.1f} MB, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    call(main)
