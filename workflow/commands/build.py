"""Build the book, or with QUICK=1 a part of it in a separate folder."""

import shutil
import sys
import time
from contextlib import chdir
from pathlib import Path

import yaml

from workflow.book import catalogue
from workflow.book.dependencies import PACKAGES
from workflow.commands import call
from workflow.run.snakemake import hold_lock, run_snakemake

# Chapters of QUICK=1: one of each part, among the fastest.
QUICK = ("max-margin/lemma-1", "rates/sparsification", "mirror-descent/lp-separator", "beyond/adam-clocks")
PAGES = ("notation", "rows", "bibliography")  # pages that these chapters refer to
PART = Path("build/quick")  # the folder of this book, with a separate build
LINKED = (*PACKAGES, "requirements.lock", "_config.yml", "CITATION.cff", "pyproject.toml")
FIRST_PAGE = """# A part of the book

`make book QUICK=1` has run one chapter of each part, to show that everything works on this machine. `make book` runs
all chapters and builds the whole site. Links to pages that are not in this part are plain words.
"""


def quick():
    """Build the site of the chapters of `QUICK`, apart from the whole book; return the exit status."""
    started = time.monotonic()
    lay_out_part()
    with chdir(PART):
        status = main(["site"])
    if not status:
        took = f"{len(QUICK)} of {len(catalogue.chapters())} chapters in {time.monotonic() - started:.0f} s"
        print(f"This is a part of the book, {took}: {PART}/build/html/index.html\nmake book builds all of it")
    return status


def lay_out_part():
    """Write the book of the chapters of `QUICK`; a file that is there with the same content keeps its time."""
    toc, parts = catalogue.yaml_of("_toc.yml") | {"root": catalogue.PART_PAGE}, []
    for part in toc["parts"]:
        if listed := [page for page in part["chapters"] if page["file"].removeprefix("book/") in QUICK + PAGES]:
            parts.append(part | {"chapters": listed})
    toc["parts"] = parts
    written = {"_toc.yml": yaml.safe_dump(toc), f"{toc['root']}.md": FIRST_PAGE}
    shutil.copytree("book", PART / "book", dirs_exist_ok=True)
    for name in LINKED:
        if Path(name).exists() and not (PART / name).is_symlink():
            (PART / name).symlink_to(Path(name).absolute())
    for name, text in written.items():
        if not (PART / name).exists() or (PART / name).read_text("utf-8") != text:
            catalogue.write_atomic(PART / name, text)


def main(targets):
    """Build; return the exit status."""
    catalogue.chapters()  # refuse here in one line what cannot be read; Snakemake reads it again
    with hold_lock() as lock:
        return run_snakemake(lock, targets)


if __name__ == "__main__":
    call(quick) if sys.argv[1:] == ["quick"] else call(main, sys.argv[1:])
