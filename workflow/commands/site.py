"""Build the site: lay out the pages, run Jupyter Book on them, put what it made into place.

Always from an empty tree: Sphinx repeats no warning about a page that it does not read again, so that a second build
would pass where the first one failed. A build that fails leaves no site, not half of one.
"""

import os
import shutil
import sys
import time
from pathlib import Path

from workflow.book.catalogue import PART_PAGE, pages
from workflow.commands import call
from workflow.site import downloads
from workflow.site.jupyter_book import jupyter_book
from workflow.site.stage import executed, stage

STAGED, OUTPUT, HTML, LOG = (Path("build", name) for name in ("staged", "sphinx", "html", "logs/site.log"))


def main(sources=""):
    """Build the site into ``build/html``; in its file ``.sources`` it carries the hash of its sources."""
    started = time.monotonic()
    for folder in (STAGED, OUTPUT, HTML):
        shutil.rmtree(folder, ignore_errors=True)
    stage(STAGED, executed)
    print(f"site: building {len(pages())} pages", flush=True)
    part = pages()[0] == PART_PAGE  # its references to missing pages are no fault
    if lines := jupyter_book(STAGED, OUTPUT, LOG, *() if part else ("-W", "-n", "--keep-going")):
        sys.exit("\n".join([*lines, f"site: jupyter-book failed, see {LOG}"]))
    built = OUTPUT / "_build/html"
    downloads.write(built)
    (built / ".sources").write_text(sources, "utf-8")
    os.replace(built, HTML)
    print(f"site: {time.monotonic() - started:.1f} s" + f", {HTML}/index.html" * (not part), flush=True)


if __name__ == "__main__":
    call(main, *sys.argv[1:])
