"""Build the site: stage prose, notebooks and generated fragments, run Jupyter Book on them, check, put into place.

Always from an empty tree: Sphinx repeats no warning about a page that it does not read again, so that a second build
would pass where the first one failed. A build that fails leaves no site, not half of one.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import check_site
import downloads
import fragments
import nbformat
import yaml
from chapters import chapters, is_chapter, pages
from claims import MIME

STAGED, OUTPUT, HTML, LOG = (Path("build", name) for name in ("staged", "sphinx", "html", "logs/site.log"))


def stage():
    """Assemble what Jupyter Book reads: a chapter's source beside its notebook would be two pages of one name."""
    for path in Path("book").rglob("*"):
        if path.is_file() and not (path.suffix == ".md" and is_chapter(path)):
            copy(path, STAGED / path)
    for chapter in chapters():
        stage_notebook(Path("build/executed", chapter + ".ipynb"), STAGED / "book" / (chapter + ".ipynb"))
    copy(Path("_toc.yml"), STAGED / "_toc.yml")
    config = downloads.settings(Path("_config.yml").read_text("utf-8"))
    (STAGED / "_config.yml").write_text(yaml.safe_dump(config), "utf-8")
    fragments.write(STAGED / "book/_generated")


def stage_notebook(path, to):
    """Copy a notebook without the rows for the ledger: data, which Sphinx cannot show and warns of."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(MIME, None)
    to.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(notebook, to)


def copy(path, to):
    """Copy a file and make its folder."""
    to.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, to)


def jupyter_book():
    """Build the staged tree; return the lines to show if that fails."""
    LOG.parent.mkdir(parents=True, exist_ok=True)
    tool = Path(sys.executable).with_name("jupyter-book")
    command = [tool, "build", STAGED, "--path-output", OUTPUT, "-W", "-n", "--keep-going"]
    with LOG.open("w", encoding="utf-8") as log:
        status = subprocess.run(command, stdout=log, stderr=subprocess.STDOUT, check=False).returncode
    if status == 0:
        return []
    here = re.compile(rf"\x1b\[[0-9;]*m|{re.escape(str(STAGED.resolve()))}/?|{re.escape(str(Path.cwd()))}/")
    lines = [here.sub("", line) for line in LOG.read_text("utf-8").splitlines()]
    return [line for line in lines if re.search(r"WARNING|ERROR|CRITICAL|[Ee]rror:", line)] or lines[-20:]


def main():
    """Build the site into ``build/html``."""
    started = time.monotonic()
    for folder in (STAGED, OUTPUT, HTML):
        shutil.rmtree(folder, ignore_errors=True)
    stage()
    print(f"site: building {len(pages())} pages", flush=True)
    if lines := jupyter_book():
        sys.exit("\n".join([*lines, f"site: jupyter-book failed, see {LOG}"]))
    built = OUTPUT / "_build/html"
    downloads.write(built)
    if faults := check_site.faults(built, STAGED, pages()):
        sys.exit("\n".join([*faults, f"site: {len(faults)} faults"]))
    os.replace(built, HTML)
    print(f"site: {time.monotonic() - started:.1f} s, {HTML}/index.html", flush=True)


if __name__ == "__main__":
    main()
