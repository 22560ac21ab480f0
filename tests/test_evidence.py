"""The evidence on a small book: made once, kept while numbers stay, made anew where one moves."""

import json

import pytest

from tests.processes import git
from tests.small_book import Book
from workflow.book import fresh_seeds

LIBRARY = "def half(step, seed):\n    return step * 1.0\n\n\ndef unused(step):\n    return step\n"
NEAR = """
doubled: {what: twice the step, "lib/alpha.py::half": step * 1.0 -> step * 2.0, chapters: [good]}
same: {what: nothing, "lib/alpha.py::half": step * 1.0 -> step + 0.0, chapters: [good]}
"""


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A book in a repository: a chapter that fails at one seed, with mutants, whose evidence was made."""
    made = Book(tmp_path_factory.mktemp("evidence"))
    made.add("good", 'from lib.alpha import half\nstep = half(step, seed)\nassert seed != 7001, "no"')
    (made.folder / "lib/alpha.py").write_text(LIBRARY)
    (made.folder / "tests/mutants").mkdir(parents=True)
    (made.folder / "tests/mutants/near.yml").write_text(NEAR)
    (made.folder / "README.md").write_text("Is it right?\n<!-- evidence -->\nnothing\n\n## Contribute\n")
    (made.folder / ".gitignore").write_text("build/\n__pycache__/\nruns.txt\n")
    git(made.folder, "init", "-q")
    made.process = evidence(made)
    return made


def evidence(book):
    """Commit what there is, and do what `make evidence` does."""
    git(book.folder, "add", "-A")
    git(book.folder, "commit", "-qm", "all")
    assert book.build("ledger").returncode == 0
    book.ran()
    return book.script("evidence", JOBS="2")


def record(book, name="robustness"):
    return json.loads((book.folder / f"book/{name}.json").read_text())


def changed(book, old, new):
    path = book.folder / "lib/alpha.py"
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new))
    return evidence(book)


def test_what_it_keeps_and_that_it_comes_to_an_end(book):
    assert book.process.returncode == 0, book.process.stderr
    good = record(book)["part/good"]
    assert good["block"] == [7000, 7019]
    half = good["rows"]["half"]
    assert [half[key] for key in ("held", "errors", "of", "measured", "near")] == [19, 1, 20, 0.5, [0.5, 0.5]]
    assert good["near"] == [7000, 7002], "of seeds that are as near as others the first"
    assert "AssertionError: no" in good["errors"]["seed=7001"]
    tried = record(book, "mutants")["mutants"]
    assert {name: entry["chapters"]["part/good"]["turned"] for name, entry in tried.items()} == {
        "doubled": ["half"], "same": []
    }  # fmt: skip
    sentence = (book.folder / "README.md").read_text().splitlines()[2]
    assert sentence.startswith("2 rows that hold here"), sentence
    assert "0 hold at every seed, 2 others at nine in ten or more, 0 at fewer" in sentence
    assert sentence.endswith("for 1 claims: 1 change their verdict under at least one.")
    again = evidence(book)
    assert book.ran() == []
    assert "0 chapters need fresh seeds" in again.stdout
    assert "0 runs with mutants are to be made" in again.stdout


def test_other_code_with_the_same_numbers_costs_two_seeds_and_the_changed_function_its_mutants(book):
    before = record(book)["part/good"]
    assert changed(book, "return step\n", "return step + 0\n").returncode == 0
    assert book.ran() == ["good"] * 2
    assert record(book)["part/good"] == before | {"code": record(book)["part/good"]["code"]}
    done = changed(book, "step * 1.0", "1 * step * 1.0")
    assert book.ran() == ["good"] * 3, "two seeds and the chapter without a mutant"
    assert "2 runs with mutants are to be made" in done.stdout


def test_other_numbers_take_the_next_block(book):
    done = changed(book, "1 * step * 1.0", "step * 1.0 + (seed == 7002)")
    assert "the numbers at seeds [7000, 7002] are the same, but of half" in done.stdout
    assert record(book)["part/good"]["block"] == [7020, 7039]
    assert record(book)["part/good"]["rows"]["half"]["held"] == 20


def test_what_accepting_a_chapter_wrote_may_be_uncommitted(monkeypatch):
    monkeypatch.setattr(fresh_seeds, "sources", lambda: ("abc", ["book/ledger.lock.json", "README.md"]))
    assert fresh_seeds.commit() == "abc"


def test_what_is_not_committed_is_refused(book):
    (book.folder / "lib/beta.py").write_text("more = 1\n")
    refused = book.script("evidence")
    assert refused.stderr == "lib/beta.py differs from the last commit: commit first\n"
