"""Recorded runs: what a record holds, and that an edited one is refused."""

import json
from pathlib import Path

import pytest
from test_sweep import SEED, git

from tests.small_book import Book
from workflow.book import recorded
from workflow.book.catalogue import BookError, json_of, source
from workflow.commands import record
from workflow.run import studies
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


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study of two runs, of which the first chooses the second's step size; how often each was made."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(record.fresh_seeds, "commit", lambda: "a1b2c3d 2026-01-31")
    made = []

    def runner(step_size, seeds):
        made.append(step_size)
        return {"held": [[0.5, 0.7, 0.6]]} if isinstance(step_size, list) else {"right": [0.75]}

    plan = {
        "tuning-l2": studies.Run({"step_size": [0.1, 0.2, 0.4], "seeds": [0, 0, 0]}),
        "l2": studies.Run({"seeds": [6000]}, "tuning-l2"),
    }
    monkeypatch.setitem(studies.STUDIES, "film-reviews", lambda: plan)
    monkeypatch.setattr(studies, "_read_reviews", runner)
    return made


def test_a_study_resumes_and_takes_the_tuned_step(study):
    record.study("film-reviews", "tuning-*")
    record.study("film-reviews")
    record.study("film-reviews")
    assert study == [[0.1, 0.2, 0.4], 0.2]
    found = json_of(recorded.FOLDER / "film-reviews" / "l2.json")
    assert found["settings"] == {"seeds": [6000], "step_size": 0.2}
    assert found["found"] == {"right": [0.75]}
    assert {"commit", "cpu", "date", "seconds", "data"} <= found.keys()


def test_a_best_step_at_an_end_of_its_list_is_refused(study, monkeypatch):
    monkeypatch.setattr(studies, "_read_reviews", lambda **settings: {"held": [[0.7, 0.6, 0.5]]})
    with pytest.raises(BookError, match=r"the best step size, 0\.1, is at an end of its list"):
        record.study("film-reviews")


def test_every_method_has_the_same_number_of_trials_on_one_seed():
    for plan in studies.STUDIES.values():
        tuned = {name: run for name, run in plan().items() if name.startswith("tuning-")}
        assert {len(run.settings["step_size"]) for run in tuned.values()} <= {studies.TRIALS}
        assert all(set(run.settings["seeds"]) == {0} for run in tuned.values())
        assert all(
            run.tuned_by in tuned and min(run.settings["seeds"]) > 1000 for run in plan().values() if run.tuned_by
        )
