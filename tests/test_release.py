"""`make release` refuses what is not as it says, and packs what is."""

import json
import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.processes import git
from tests.small_book import Book
from workflow.book import records
from workflow.commands import release, wheel

ROOT = Path(__file__).parents[1]
PROJECT = """[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "what-attention-selects"
version = "0.2.0"
readme = "README.md"

[project.scripts]
told = "attention_selects.alpha:told"

[project.optional-dependencies]
data = ["pooch"]
book = [
    "sphinx",  # [of a bracket]
]
lab = ["jupyterlab"] # notebooks

[tool.setuptools]
packages = ["attention_selects", "attention_heads"]
package-dir = {attention_selects = "lib", attention_heads = "heads"}
"""
SOURCES = {
    "pyproject.toml": PROJECT,
    "CITATION.cff": "title: Book\nversion: 0.2.0\ndate-released: 2026-12-01\n",
    "CHANGELOG.md": "# Changelog\n\n## [0.2.0] - 2026-12-01\n",
    "README.md": "[![Face](book/face.png)](book/intro.md) and [theirs](https://example.org)\n",
    "LICENSE": "MIT\n", "LICENSE-TEXT": "CC\n", ".gitignore": "build/\n__pycache__/\nruns.txt\n",
    "_config.yml": "title: Book\nrepository: {url: 'https://github.com/some/book'}\n",
    "tests/mutants/near.yml": "{}\n", "heads/__init__.py": "", "build/html/index.html": "<p>Book\n",
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A small book of version 0.2.0 in a repository, built, accepted, and with what is counted of its rows."""
    book = Book(tmp_path_factory.mktemp("release")).add("good")
    for name, text in SOURCES.items():
        (book.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (book.folder / name).write_text(text)
    git(book.folder, "init", "-q")
    committed(book.folder)
    assert book.build("ledger").returncode == 0
    assert book.script("ledger", "accept", WHY="first").returncode == 0
    rows = json.loads((book.folder / "build/ledger.json").read_text())["claims"]
    counted = {row["name"]: records.noted(row) for row in rows if row["verdict"]}
    code = json.loads((book.folder / "build/claims/part/good.json").read_text())["sources"]
    entry = {"block": [7000, 7019], "code": code, "rows": counted}
    (book.folder / records.SEEDS).write_text(json.dumps({"part/good": entry}))
    committed(book.folder)
    return book.folder


def committed(folder):
    git(folder, "add", "-A")
    git(folder, "commit", "-qm", "all")


@pytest.fixture
def folder(finished, tmp_path, monkeypatch):
    shutil.copytree(finished, tmp_path / "book", symlinks=True)
    monkeypatch.chdir(tmp_path / "book")
    return tmp_path / "book"


def faults():
    return [*release.unlike_version("0.2.0"), *release.unlike_build()]


def test_a_finished_tree_lacks_nothing_and_is_packed(folder):
    assert faults() == []
    files = {path.name: path for path in release.make("0.2.0")}
    sums = dict(line.split()[::-1] for line in (folder / "build/release/SHA256SUMS").read_text().splitlines())
    assert sums.keys() == files.keys()
    assert len(files) == 4
    with zipfile.ZipFile(next(path for name, path in files.items() if name.endswith(".whl"))) as archive:
        (about,) = (archive.read(name).decode() for name in archive.namelist() if name.endswith("METADATA"))
    assert "Project-URL: Repository, https://github.com/some/book" in about
    assert [line for line in about.splitlines() if line.startswith("Provides-Extra")] == ["Provides-Extra: data"]
    with tarfile.open(files["what-attention-selects-0.2.0-book.tar.gz"]) as archive:
        assert "what-attention-selects-0.2.0/book/part/good.md" in archive.getnames()


def test_links_of_the_readme_lead_to_the_repository():
    given, address = SOURCES["README.md"], "https://example.org/it"
    there = f"[![Face]({address}/raw/HEAD/book/face.png)]({address}/blob/HEAD/book/intro.md)"
    assert wheel.absolute(given, address) == f"{there} and [theirs](https://example.org)\n"


@pytest.mark.parametrize("file", release.SAID)
def test_another_version_is_refused(folder, file):
    path = folder / file
    path.write_text(path.read_text().replace("0.2.0", "0.3.0"))
    committed(folder)
    assert faults() == [f"{file} is not of version 0.2.0: give it the version, and the day where it has one"]


def test_what_is_not_committed_and_a_version_that_was_released_are_refused(folder):
    (folder / "note.txt").write_text("later\n")
    git(folder, "tag", "v0.2.0")
    assert [fault.split(":")[0] for fault in faults()] == ["not committed", "the tag v0.2.0 is there already"]


def test_verdicts_that_are_not_the_accepted_ones_are_refused(folder):
    path = folder / "book/ledger.lock.json"
    path.write_text(path.read_text().replace('"reproduced"', '"not reproduced"'))
    assert "1 rows are not as accepted, part/good/half first" in "".join(release.unlike_build())


def test_void_evidence_is_refused(folder):
    path = folder / "book/robustness.json"
    record = json.loads(path.read_text())
    record["part/good"]["rows"]["half"]["measured"] += 1
    path.write_text(json.dumps(record))
    assert list(release.unlike_build()) == ["1 chapters lack fresh seeds, part/good first: make evidence"]


def test_seeds_of_other_code_are_refused(folder):
    path = folder / "book/part/good.md"
    path.write_text(path.read_text().replace("import os, time", "import os, time, sys"))
    assert list(release.unlike_build()) == [
        "seeds of 1 chapters were run with other code, part/good first: make evidence"
    ]
