"""Chapters as notebooks: the way to JupyterLab and back changes nothing but what was edited."""

import os
import shutil
import sys
from pathlib import Path

import jupytext
import nbformat
import pytest
from jupytext.config import load_jupytext_config

from tests.processes import said

ROOT = Path(__file__).parents[1]
CHAPTERS = sorted(path for path in (ROOT / "book").rglob("*.md") if path.read_text("utf-8").startswith("---\njupytext"))


@pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
def test_round_trip_is_the_identity(path):
    text, config = path.read_text("utf-8"), load_jupytext_config(str(path))
    notebook = jupytext.reads(text, "md", config=config)
    assert jupytext.writes(notebook, "md:myst", config=config) == text, f"run jupytext --to md:myst {path}"


@pytest.fixture
def book(tmp_path):
    """A book of one chapter, with the notebook of an earlier build."""
    for name in ("jupytext.toml", "_toc.yml"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/intro\nchapters:\n  - file: book/part/one\n")
    (tmp_path / "book/part").mkdir(parents=True)
    (tmp_path / "book/intro.md").write_text("# Intro\n")
    source = tmp_path / "book/part/one.md"
    head = (ROOT / "book/_template.md").read_text("utf-8").split("(template)=")[0]
    source.write_text(head + "# One\n\n```{code-cell} ipython3\n:tags: [parameters]\n\nseed: int = 0  # of all\n```\n")
    notebook = jupytext.read(source)
    notebook.cells[-1].outputs = [nbformat.v4.new_output("stream", text="kept")]
    (tmp_path / "build/executed/part").mkdir(parents=True)
    nbformat.write(notebook, tmp_path / "build/executed/part/one.ipynb")
    return tmp_path


def pair(book):
    code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from workflow.commands import lab; lab.pair()"
    said(sys.executable, "-c", code, folder=book)
    return book / "book/part/one.md", book / "build/lab/part/one.ipynb"


def test_notebooks_are_made_with_the_outputs_of_the_build_and_leave_the_sources_as_they_are(book):
    before = (book / "book/part/one.md").read_text("utf-8")
    source, paired = pair(book)
    assert source.read_text("utf-8") == before
    assert nbformat.read(paired, 4).cells[-1].outputs[0].text == "kept"
    assert [path for path in (book / "book").rglob("*") if path.suffix == ".ipynb"] == []


def test_an_edited_cell_goes_back_into_the_source_and_nothing_else_does(book):
    source, paired = pair(book)
    before = source.read_text("utf-8")
    notebook = nbformat.read(paired, 4)
    notebook.cells[-1].source = notebook.cells[-1].source.replace("= 0", "= 7")
    notebook.metadata.language_info = {"name": "python"}  # JupyterLab adds it, and marks a folded cell
    notebook.cells[-1].metadata |= {"jupyter": {"source_hidden": True}, "editable": True, "collapsed": True}
    nbformat.write(notebook, paired)
    jupytext_ = Path(sys.executable).with_name("jupytext")
    said(jupytext_, "--quiet", "--sync", "build/lab/part/one.ipynb", folder=book)
    assert source.read_text("utf-8") == before.replace("seed: int = 0", "seed: int = 7")


def test_the_source_wins_over_a_younger_notebook(book):
    source, paired = pair(book)
    edited = source.read_text("utf-8").replace("# One", "# Two")
    source.write_text(edited)
    os.utime(source, (1e9, 1e9))
    pair(book)
    assert source.read_text("utf-8") == edited
    assert nbformat.read(paired, 4).cells[0].source == "# Two"
