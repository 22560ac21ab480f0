"""What a change of the real book runs again: asked of Snakemake over the real sources, without running any of it."""
# ruff: noqa: E402 (the scripts of the workflow are no package; they are found by path)

import contextlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

import chapters

import build as builder

SOURCES = ("book", "lib", "workflow", "_toc.yml", "_config.yml", "requirements.lock", "pyproject.toml")
NETWORKS = [
    "beyond/trained-heads", "beyond/your-attention", "max-margin/figure-6", "mirror-descent/mirror-networks",
    "mirror-descent/sentiment", "rates/normalised-sgd",
]  # fmt: skip


@pytest.fixture(scope="module")
def passing(tmp_path_factory):
    """A copy of the book that passes for built: empty outputs, newer than the sources, and no records of Snakemake."""
    folder = tmp_path_factory.mktemp("real")
    for name in SOURCES:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, folder / name)
    with contextlib.chdir(folder):
        listed = chapters.chapters()
        places = [Path(chapters.mark_code(chapter, {})) for chapter in listed]
        for chapter in listed:
            places += [Path(f"build/executed/{chapter}.ipynb"), Path(f"build/claims/{chapter}.json")]
        for place in places:
            place.parent.mkdir(parents=True, exist_ok=True)
            place.touch()
    return folder


@pytest.fixture
def book(passing, tmp_path, monkeypatch):
    """The same, to be changed; copies keep the times of files."""
    shutil.copytree(passing, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    time.sleep(0.01)  # file times have a grain


def stale():
    """Return the chapters that a build would run, sorted."""
    command = builder.snakemake(["build/ledger.json"], "--dry-run")
    plan = subprocess.run(command, env=os.environ | {"JOBS": "1"}, capture_output=True, text=True, check=False)
    assert plan.returncode == 0, plan.stderr
    return sorted(set(re.findall(r"wildcards: chapter=(\S+)", plan.stdout + plan.stderr)))


def test_nothing_is_stale_at_first(book):
    assert stale() == []


def test_module_reruns_the_chapters_that_import_it(book):
    assert len(chapters.chapters()) > 30
    Path("lib/networks.py").touch()
    assert stale() == NETWORKS


def test_no_chapter_depends_on_all_modules(book):
    modules = {str(path) for path in Path("lib").glob("*.py")}
    for chapter in chapters.chapters():
        assert set(chapters.library_of(chapter)) < modules, chapter


def test_sentence_caption_or_tag_reruns_no_chapter(book):
    for chapter in chapters.chapters():
        path = chapters.source(chapter)
        text = path.read_text("utf-8").replace("\n## Why it is true\n", "\n## Why it is true\n\nA new sentence.\n")
        text = text.replace("    caption: |\n", "    caption: |\n      A new opening. ").replace(
            "hide-input", "hide-cell"
        )
        assert "A new" in text
        path.write_text("\n".join([text, "And a last one.\n"]), "utf-8")
    assert stale() == []


def test_changed_cell_reruns_its_chapter(book):
    path = chapters.source("max-margin/theorem-2")
    path.write_text(path.read_text("utf-8").replace("seed: int = 0", "seed: int = 1"), "utf-8")
    assert stale() == ["max-margin/theorem-2"]
