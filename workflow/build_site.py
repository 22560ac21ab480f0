"""Build the site: stage prose, notebooks and generated fragments, run Jupyter Book on them, check, put into place.

Always from an empty tree: Sphinx repeats no warning about a page that it does not read again, so that a second build
would pass where the first one failed. A build that fails leaves no site, not half of one.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import check_site
import downloads
import explore
import finish
import fragments
import nbformat
import speed
import yaml
from chapters import PART_PAGE, BookError, chapters, is_chapter, json_of, pages, read
from claims import MIME

STAGED, OUTPUT, HTML, LOG = (Path("build", name) for name in ("staged", "sphinx", "html", "logs/site.log"))


def stage(folder, notebook_of):
    """Assemble what Jupyter Book reads: a chapter's source beside its notebook would be two pages of one name.

    A file that is there already with the same content keeps its time, so that Sphinx reads only what changed.
    """
    for path in Path("book").rglob("*"):
        if path.is_file() and not (path.suffix == ".md" and is_chapter(path)):
            in_one_line = path.suffix == ".json"  # a download, which its indents would make a third larger
            content = json.dumps(json_of(path), ensure_ascii=False).encode() if in_one_line else path.read_bytes()
            put(folder / path, content)
    for chapter in chapters():
        notebook = notebook_of(chapter)
        noted = fragments.about(chapter, notebook)
        put(folder / "book/_generated/about" / (chapter + ".json"), json.dumps(noted).encode())
        drop_rows(notebook)
        put(folder / "book" / (chapter + ".ipynb"), nbformat.writes(notebook).encode() + b"\n")
    if explore.SOURCES.exists():
        put(folder / "book/_static/explore.js", explore.bundle().encode())
    put(folder / "_toc.yml", Path("_toc.yml").read_bytes())
    put(folder / "_config.yml", yaml.safe_dump(downloads.settings(Path("_config.yml").read_text("utf-8"))).encode())
    for name, text in fragments.texts().items():
        put(folder / "book/_generated" / name, text.encode())
    speed.stage(folder / "book/_generated")


def put(path, content):
    """Write a file and make its folder, unless it has this content already."""
    if not path.exists() or path.read_bytes() != content:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def drop_rows(notebook):
    """Take the rows for the ledger out of a notebook: they are data, which Sphinx cannot show and warns of."""
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(MIME, None)


def executed(chapter):
    """Return the prose of a chapter as it is now with the outputs of its run."""
    return merged(chapter, outcome(Path("build/executed", chapter + ".ipynb")))


def outcome(path):
    """Return an executed notebook; BookError where it is half written, or not there."""
    json_of(path)
    return nbformat.read(path, as_version=4)


def merged(chapter, run):
    """Return a chapter's source with the outputs of its run; BookError if they are not of this code."""
    notebook = read(chapter)
    ran = {cell["id"]: cell for cell in run.cells if cell.cell_type == "code"}
    injected = ran.pop(f"{Path(chapter).name}-parameters", None)
    cells = []
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "code":
            outcome = ran.pop(cell["id"], {"source": None})
            if outcome["source"] != cell.source:
                raise BookError(f"{chapter}: its code is not the code that ran; run it again: make book")
            cell.execution_count, cell.outputs = outcome.execution_count, outcome.outputs
            if injected and "parameters" in cell.metadata.get("tags", []):
                cells.append(injected)
    notebook.cells, notebook.metadata = cells, run.metadata
    return notebook


def jupyter_book(staged, output, log, *flags):
    """Build the staged tree; return the lines to show if that fails."""
    log.parent.mkdir(parents=True, exist_ok=True)
    tool = Path(sys.executable).with_name("jupyter-book")
    command = [tool, "build", staged, "--path-output", output, *flags]
    ours = os.environ | {"PYTHONPATH": str(Path(__file__).parent)}  # where Sphinx finds our extensions
    with log.open("w", encoding="utf-8") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, env=ours, check=False).returncode
    if status == 0:
        return []
    here = re.compile(rf"\x1b\[[0-9;]*m|{re.escape(str(staged.resolve()))}/?|{re.escape(str(Path.cwd()))}/")
    lines = [here.sub("", line) for line in log.read_text("utf-8").splitlines()]
    return [line for line in lines if re.search(r"WARNING|ERROR|CRITICAL|[Ee]rror:", line)] or lines[-20:]


def main():
    """Build the site into ``build/html``."""
    started = time.monotonic()
    for folder in (STAGED, OUTPUT, HTML):
        shutil.rmtree(folder, ignore_errors=True)
    stage(STAGED, executed)
    print(f"site: building {len(pages())} pages", flush=True)
    part = pages()[0] == PART_PAGE  # whose references lead to pages that it lacks
    if lines := jupyter_book(STAGED, OUTPUT, LOG, *() if part else ("-W", "-n", "--keep-going")):
        sys.exit("\n".join([*lines, f"site: jupyter-book failed, see {LOG}"]))
    built = OUTPUT / "_build/html"
    downloads.write(built)
    config = downloads.settings(Path("_config.yml").read_text("utf-8"))
    finish.write(built, pages(), config["title"], downloads.site_of(config))
    if faults := [] if part else check_site.faults(built, STAGED, pages()):
        sys.exit("\n".join([*faults, f"site: {len(faults)} faults"]))
    os.replace(built, HTML)
    print(f"site: {time.monotonic() - started:.1f} s" + f", {HTML}/index.html" * (not part), flush=True)


if __name__ == "__main__":
    try:
        main()
    except BookError as error:
        sys.exit(str(error))
