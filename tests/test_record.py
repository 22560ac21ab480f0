"""Recorded runs: what a record holds, and that an edited one is refused."""

import json
from pathlib import Path

import pytest
from test_sweep import SEED, git

from tests.small_book import Book
from workflow.book import recorded
from workflow.book.catalogue import BookError, source
from workflow.site import markup, runs

ROOT = Path(__file__).parents[1]


@pytest.fixture
def committed(tmp_path):
    book = Book(tmp_path).add("good", extra=SEED)
    (book.folder / ".gitignore").write_text("build/\n.snakemake/\n__pycache__/\nruns.txt\n")
    git(book, "init", "-q")
    git(book, "add", "-A")
    git(book, "commit", "-qm", "all")
    return book


def test_a_record_holds_rows_and_what_they_came_from(committed):
    done = committed.script("record", NAME="good", PARAMS="seed=5")
    assert done.returncode == 0, done.stderr
    path = committed.folder / "book/recorded/good.json"
    found = recorded.read(path)
    assert found["parameters"]["seed"] == 5
    assert found["rows"]
    assert all(row["recorded"] for row in found["rows"])
    assert {"commit", "code", "date", "cpu", "gpu", "seconds", "threads"} <= found.keys()
    found["rows"][0]["measured"] += 1
    path.write_text(json.dumps(found))
    with pytest.raises(BookError, match="was edited"):
        recorded.read(path)


def test_a_page_shows_a_record_as_one(committed, monkeypatch):
    assert committed.script("record", NAME="good", PARAMS="seed=5").returncode == 0
    monkeypatch.chdir(committed.folder)
    shown = runs.records()["recorded/good.md"]
    row = next(row for row in recorded.read(recorded.FOLDER / "good.json")["rows"] if row["verdict"])
    assert "*Recorded*, not computed in this build: `seed=5`" in shown
    assert markup.escaped(row["statement"]) in shown
    assert "has changed since" not in shown
    path = source("part/good")
    path.write_text(path.read_text() + "\n```{code-cell} ipython3\nmore = 1\n```\n")
    assert "has changed since" in runs.records()["recorded/good.md"]


def test_a_parameter_that_is_not_there_is_refused(committed):
    done = committed.script("record", NAME="good", PARAMS="speed=5")
    assert done.returncode == 1
    assert "speed" in done.stderr
    assert not committed.has("book/recorded")
