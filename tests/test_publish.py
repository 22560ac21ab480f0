"""Publishing a chapter: what a person has yet to write is said first; then one command does the rest, in order."""

from pathlib import Path

import pytest

from workflow.book.catalogue import BookError
from workflow.commands import publish


@pytest.fixture
def made(inside, monkeypatch):
    """The calls of make that publishing a small book with one chapter leads to."""
    Path("tests/mutants").mkdir(parents=True)
    Path("tests/mutants/near.yml").write_text("{}\n")
    calls = []
    monkeypatch.setattr(publish, "make", lambda *words: calls.append(words))
    monkeypatch.setenv("NAME", "good")
    return calls


def test_what_is_missing_is_said_and_nothing_runs(made):
    with pytest.raises(BookError) as error:
        publish.main()
    lines = str(error.value).splitlines()
    assert any(line.startswith("book/part/good.md:1: ") for line in lines)
    assert "tests/mutants/near.yml: no mutant names part/good: write one for each of its claims" in lines
    assert made == []


def test_what_a_machine_writes_comes_in_its_order(made, monkeypatch):
    monkeypatch.setattr(publish, "missing", lambda name: [])
    publish.main()
    assert [words[0] for words in made] == ["accept", "evidence", "page"]
