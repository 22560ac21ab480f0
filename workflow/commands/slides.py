"""Make slides of a chapter anew from its built page: `make slides NAME=theorem-2`."""

import sys
from pathlib import Path

from workflow.book.catalogue import BookError, find
from workflow.commands import call
from workflow.site.slides import write

SITE = Path("build/html/book")


def main(name):
    """Write the slides beside the page of the chapter."""
    page = SITE / f"{find(name)}.html"
    if not page.is_file():
        raise BookError(f"there is no {page}: run make book")
    out, count = write(page)
    print(f"{out}: {count} slides")


if __name__ == "__main__":
    call(main, sys.argv[1])
