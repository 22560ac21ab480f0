"""Lay out what Jupyter Book reads: prose as it is now, the outputs of the chapters' runs, and generated pages."""

import json
from pathlib import Path

import nbformat
import yaml

from lib.ledger import MIME
from workflow.book.catalogue import BookError, chapters, is_chapter, json_of, read
from workflow.book.dependencies import files_of
from workflow.site import chips, generated_pages, reviews, settings
from workflow.sphinx_ext import explore


def stage(folder, notebook_of):
    """Assemble what Jupyter Book reads: a chapter's source beside its notebook would be two pages of one name.

    A file that is there already with the same content keeps its time, so that Sphinx reads only what changed.
    """
    for path in files_of("book"):
        if not (path.suffix == ".md" and is_chapter(path)):
            in_one_line = path.suffix == ".json"  # a download: indents would make it a third larger
            content = json.dumps(json_of(path), ensure_ascii=False).encode() if in_one_line else path.read_bytes()
            put(folder / path, content)
    for chapter in chapters():
        notebook = notebook_of(chapter)
        noted = chips.about(chapter, notebook)
        put(folder / "book/_generated/about" / (chapter + ".json"), json.dumps(noted).encode())
        drop_rows(notebook)
        put(folder / "book" / (chapter + ".ipynb"), nbformat.writes(notebook).encode() + b"\n")
    if explore.SOURCES.exists():
        put(folder / "book/_static/explore.js", explore.bundle().encode())
    for name, script in reviews.scripts().items():
        put(folder / "book/_static/heads" / name, script.encode())
    put(folder / "_toc.yml", Path("_toc.yml").read_bytes())
    put(folder / "_config.yml", yaml.safe_dump(settings.settings(Path("_config.yml").read_text("utf-8"))).encode())
    for name, text in generated_pages.texts().items():
        put(folder / "book/_generated" / name, text.encode())


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
    """Prose of a chapter as it is now with the outputs of its run."""
    return merged(chapter, outcome(Path("build/executed", chapter + ".ipynb")))


def outcome(path):
    """An executed notebook; BookError where it is half written, or not there."""
    json_of(path)
    return nbformat.read(path, as_version=4)


def merged(chapter, run):
    """A chapter's source with the outputs of its run; BookError if they are not of this code."""
    notebook = read(chapter)
    ran = {cell["id"]: cell for cell in run.cells if cell.cell_type == "code"}
    for cell in notebook.cells:
        if cell.cell_type == "code":
            outcome = ran.pop(cell["id"], {"source": None})
            if outcome["source"] != cell.source:
                raise BookError(f"{chapter}: its code is not the code that ran; run it again: make book")
            cell.execution_count, cell.outputs = outcome.execution_count, outcome.outputs
    notebook.metadata = run.metadata
    return notebook
