"""What a change of the real book makes stale: the hashes that its results carry."""

import contextlib
import os
import shutil
from pathlib import Path

import pytest

from workflow.book import catalogue, dependencies

ROOT = Path(__file__).parents[1]
SOURCES = (
    "book", *dependencies.PACKAGES, "workflow", "_toc.yml", "_config.yml", "requirements.lock", "pyproject.toml",
    "CITATION.cff",
)  # fmt: skip
PAGES = {"build/ledger.json", "build/html/.sources", "build/accepted"}


@pytest.fixture(scope="module")
def passing(tmp_path_factory):
    """A copy of the book that passes for built: results that hold nothing but the hash of their sources."""
    folder = tmp_path_factory.mktemp("real")
    for name in filter(os.path.exists, SOURCES):
        if (ROOT / name).is_dir():  # bytecode comes and goes while other tests run
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(ROOT / name, folder)
    with contextlib.chdir(folder):
        for path, text in dependencies.results().items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text)
    return folder


@pytest.fixture
def book(passing, tmp_path, monkeypatch):
    """The same, to be changed."""
    shutil.copytree(passing, tmp_path, dirs_exist_ok=True)
    monkeypatch.setattr(dependencies, "PROJECT", tmp_path)
    monkeypatch.chdir(tmp_path)


def stale():
    """Chapters and the pages whose hash has changed."""
    changed = {path for path, sources in dependencies.results().items() if Path(path).read_text() != sources}
    runs = {path.removeprefix("build/claims/").removesuffix(".json") for path in changed - PAGES}
    return sorted(runs), changed & PAGES


def test_nothing_is_stale_for_a_moved_folder_file_times_or_what_is_no_source(book, tmp_path, monkeypatch):
    for path in ("workflow/run/notebook.py", "requirements.lock", "build/claims/max-margin/theorem-2.json"):
        os.utime(path, (2e9, 2e9))
    moved = tmp_path.with_name(tmp_path.name + " moved")
    tmp_path.rename(moved)
    monkeypatch.chdir(moved)
    monkeypatch.setattr(dependencies, "PROJECT", moved)
    for name in ("notes.txt", ".problem.py.swp"):
        Path("lib", name).write_text("a thought\n")
    assert stale() == ([], set())
    with Path("lib/checks.py").open("a", encoding="utf-8") as module:
        module.write("# A comment.\n")
    assert stale() == ([], {"build/html/.sources", "build/accepted"}), "readers download the library"


def test_a_sentence_makes_no_run_stale_but_the_site(book):
    before = dependencies.sources_hash("max-margin/theorem-2", "")
    for chapter in catalogue.chapters():
        path = catalogue.source(chapter)
        text = path.read_text("utf-8").replace("\n## Why it is true\n", "\n## Why it is true\n\nA new sentence.\n")
        text = text.replace("hide-input", "hide-cell")
        assert "A new" in text
        path.write_text("\n".join([text, "And a last one.\n"]), "utf-8")
    assert stale() == ([], {"build/html/.sources", "build/accepted"})
    assert dependencies.sources_hash("max-margin/theorem-2", "") == before


def test_words_in_the_library_make_no_run_stale_and_code_makes_all(book):
    for path in [path for folder in dependencies.PACKAGES for path in Path(folder).rglob("*.py")]:
        text = path.read_text("utf-8")
        more = text if "__doc__" in text else text.replace('"""', '"""Really: ', 1)  # which the code reads
        path.write_text(more + "\n# And a comment.\n", "utf-8")
    assert stale()[0] == []
    with Path("studies/networks/kernel.py").open("a", encoding="utf-8") as module:
        module.write("MORE = 1\n")
    assert stale()[0] == sorted(catalogue.chapters())


@pytest.mark.parametrize(
    ("path", "pages"),
    [
        ("workflow/site/landing_page.py", PAGES),
        ("workflow/sphinx_ext/new.py", PAGES),
        ("pyproject.toml", PAGES),
        ("book/statements.yml", PAGES),
        ("CITATION.cff", PAGES - {"build/ledger.json"}),
        ("book/robustness.json", PAGES - {"build/ledger.json"}),
        ("book/ledger.lock.json", {"build/accepted"}),
    ],
)
def test_what_pages_show_makes_them_stale_and_no_chapter(book, path, pages):
    with Path(path).open("a") as file:
        file.write("\nmore = 1\n")
    os.utime(path, (0, 0))
    assert stale() == ([], pages)


@pytest.mark.parametrize("path", ["workflow/run/warm.py", "workflow/book/parameters.py", "requirements.lock"])
def test_what_runs_chapters_makes_them_all_stale(book, path):
    with Path(path).open("a") as file:
        file.write("more = 1\n")
    os.utime(path, (0, 0))
    assert stale() == (sorted(catalogue.chapters()), PAGES)


def test_a_cell_and_a_recorded_run_make_their_chapters_stale(book):
    page = catalogue.source("max-margin/theorem-2")
    page.write_text(page.read_text("utf-8").replace("seed: int = 0", "seed: int = 1"), "utf-8")
    assert stale()[0] == ["max-margin/theorem-2"]
    Path("book/recorded/film-reviews/l2.json").write_text("{}")
    assert stale()[0] == ["max-margin/theorem-2", "mirror-descent/sentiment"]
