"""Show one page as it is now: its sentences, and its numbers where its code has run. `make page NAME=`.

Sphinx reads again only what changed, in a separate tree, so no build is disturbed. It may miss that another page uses a
label that has changed: `make book` builds from an empty tree and finds it.
"""

import sys
import time
from pathlib import Path

from workflow.book.catalogue import BookError, chapters, find, pages, read
from workflow.commands import call
from workflow.commands.chapter import look
from workflow.run import engine
from workflow.site.jupyter_book import jupyter_book
from workflow.site.stage import merged, outcome, stage

FOLDER = Path("build/page")


def find_page(name):
    """Find the page called ``name``, a chapter by its short name or any page of the book."""
    others = [page for page in pages() if page.removeprefix("book/") not in chapters()]
    return f"book/{name}" if f"book/{name}" in others else f"book/{find(name)}"


def as_it_is(chapter):
    """A chapter with the outputs of its last run, for the book or a look; None if its code has changed."""
    for folder in ("", engine.LOOKS):
        try:
            return merged(chapter, outcome(engine.places(engine.Run(chapter, folder))["notebook"]))
        except BookError:
            continue
    return None


def main(name):
    """Build the page and say where it is."""
    started, page = time.monotonic(), find_page(name)
    if (wanted := page.removeprefix("book/")) in chapters() and as_it_is(wanted) is None:
        look(wanted, {})
    staged, output = FOLDER / "staged", FOLDER / "sphinx"
    stage(staged, lambda chapter: as_it_is(chapter) or read(chapter))
    lines = jupyter_book(staged, output, FOLDER / "page.log", "-n", "--keep-going")
    built = output / "_build/html" / f"{page}.html"
    if not built.exists():
        sys.exit("\n".join([*lines, f"{name}: no page was built, see {FOLDER}/page.log"]))
    print(f"{name}: {time.monotonic() - started:.1f} s, {built}")


if __name__ == "__main__":
    call(main, sys.argv[1])
