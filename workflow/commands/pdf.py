"""Print the whole built book into one PDF, in the browser that the tests use. `make pdf`.

Pages are those of the site's list of pages, in its order. The browser prints each from its file, by day and unfolded,
numbered on from the page before it; scripts of interactive figures do not run from a file, so their pictures are
printed. Links between pages become links within the PDF.
"""

import html
import io
import json
import os
import time
from pathlib import Path
from urllib.parse import urldefrag

from pypdf import PdfReader, PdfWriter
from pypdf.generic import ArrayObject, NameObject, NumberObject

from workflow.book.catalogue import BookError, pages, yaml_of
from workflow.commands import call
from workflow.site.browser import SEEN, SET, chromium

SITE, BOOK = Path("build/html"), Path("build/book.pdf")
# Entries of the sidebar's list of pages: name, address ("" for a part), depth.
LISTED = """() => [...document.querySelectorAll("nav.bd-links :is(p.caption, li > a)")].map((one) => [
    one.textContent.trim(), one.href?.split("#")[0] ?? "", one.href ? (one.matches("li li > a") ? 2 : 1) : 0])"""
PAPER = """@page { size: A4; margin: 17mm 17mm 19mm; font: 11px sans-serif;
  @top-right { content: %s; color: #555; } @bottom-center { content: counter(page); } }
:root { counter-reset: page %d; }"""
CONTENTS = """<style>body { font: 15px/1.5 sans-serif; } h1 { font-weight: 400; }
a { color: inherit; text-decoration: none; }
p { display: flex; justify-content: space-between; margin: 0 0 0.15em; break-inside: avoid; }
p.part { margin-top: 1em; font-weight: 600; break-after: avoid; } p.page { margin-left: 1.2em; }
p.below { margin-left: 2.4em; }</style>"""


def printed(page, running, before):
    """PDF of what a browser's page shows, numbered from the page after ``before``."""
    page.wait_for_function(SET)
    page.evaluate(SEEN)
    page.add_style_tag(content=PAPER % (json.dumps(running, ensure_ascii=False), before))
    return PdfReader(io.BytesIO(page.pdf(prefer_css_page_size=True, print_background=True, scale=0.85)))


def contents(page, listed, starts):
    """Pages of the table of contents; an address that ``starts`` lacks has the number 0 for now."""
    title = html.escape(yaml_of("_config.yml")["title"])
    rows = [
        f'<p class="{("part", "page", "below")[depth]}"><a href="{html.escape(address)}">{html.escape(name)}</a>'
        + f"<span>{starts.get(address, 0) if address else ''}</span></p>"
        for name, address, depth in listed
    ]
    page.goto("about:blank")
    page.set_content(f"{CONTENTS}<h1>{title}</h1>{''.join(rows)}")
    return printed(page, "Contents", 0)


def places(writer, start, reader):
    """Destinations of links into one printed file, by the names that it gives and "" for its beginning."""
    positions = {"": (0, 10_000)}
    for name, where in reader.named_destinations.items():
        positions[name] = reader.get_destination_page_number(where), where.top
    zero = NumberObject(0)  # zoom: unchanged
    return {
        name: ArrayObject(
            [writer.pages[start - 1 + number].indirect_reference, NameObject("/XYZ"), zero, NumberObject(top), zero]
        )
        for name, (number, top) in positions.items()
    }


def link(writer, parts):
    """Let links lead to pages of this PDF, and take away those to other files of the site."""
    targets = {address: places(writer, *part) for address, part in parts.items()}
    for address, (start, reader) in parts.items():
        for page in writer.pages[start - 1 : start - 1 + len(reader.pages)]:
            notes = ArrayObject()
            for reference in page.get("/Annots", ()):
                note = reference.get_object()
                target, within = urldefrag(note.get("/A", {}).get("/URI", ""))
                inner = targets.get(address if "/Dest" in note else target)
                if inner:
                    name = note.pop("/Dest", f"/{within}")
                    note.pop("/A", None)
                    note[NameObject("/Dest")] = inner.get(name, inner[""])
                if inner or not target.startswith("file:"):
                    notes.append(reference)
            page[NameObject("/Annots")] = notes


def outline(writer, listed, parts):
    """Add the list of pages as bookmarks."""
    above = [None] * 4
    for index, (name, address, depth) in enumerate(listed):
        start = parts[address or listed[index + 1][1]][0]
        mark = writer.add_outline_item(title=name, page_number=start - 1, parent=above[depth])
        above[depth + 1 :] = [mark] * (3 - depth)


def main():
    """Print every page and join them."""
    if not (SITE / "index.html").exists():
        raise BookError(f"there is no {SITE}/index.html: run make book")
    began = time.monotonic()
    with chromium() as browser:
        page = browser.new_page(viewport={"width": 1280, "height": 900}, color_scheme="light")
        page.goto((SITE / f"{pages()[0]}.html").resolve().as_uri())
        listed = page.evaluate(LISTED)
        before = len(contents(page, listed, {}).pages)
        parts = {}
        for name, address, _ in listed:
            if address:
                page.goto(address)
                parts[address] = (before + 1, printed(page, name, before))
                before += len(parts[address][1].pages)
        parts = {"": (1, contents(page, listed, {address: start for address, (start, _) in parts.items()})), **parts}
    writer = PdfWriter()
    for _, reader in parts.values():
        for sheet in reader.pages:
            writer.add_page(sheet)
    link(writer, parts)
    outline(writer, listed, parts)
    writer.add_metadata({"/Title": yaml_of("_config.yml")["title"], "/Author": yaml_of("_config.yml")["author"]})
    writer.compress_identical_objects()
    with open(half := BOOK.with_suffix(".part"), "wb") as file:
        writer.write(file)
    os.replace(half, BOOK)
    size = BOOK.stat().st_size / 1e6
    print(f"{BOOK}: {before} pages, {size:.1f} MB, {time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    call(main)
