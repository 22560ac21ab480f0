"""The lock: verdicts and tests are compared on every processor, a change has its reason, numbers fail nothing."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.small_book import ROOT, collected, left, row
from workflow.book import ledger, lock
from workflow.book.catalogue import BookError
from workflow.book.ledger import GONE, address, changes, room

ALL = {"part/good"}


def differing():
    """Changes that a build lists, by the name of the row."""
    return {entry["id"].rpartition("/")[2]: entry["change"] for entry in json.loads(lock.DIFFERENCES.read_text())}


FAILS = {
    "a number past its bound": ([row(measured=2e-2)], "turned"),
    "an interval": ([row(interval=(0, 0.1))], "turned"),
    "a claim that is none any more": ([row(kind="baseline")], "turned"),
    "another bound": ([row(bound=2e-2)], "test"),
    "another statistic": ([row(statement="Something else", measured=3e-3)], "test"),
}


@pytest.mark.parametrize(("rows", "change"), FAILS.values(), ids=FAILS)
def test_a_change_fails_the_build_until_it_is_accepted_with_its_reason(inside, rows, change):
    collected(row())
    lock.accept(ALL, "")
    collected(*rows)
    with pytest.raises(BookError, match=r"part/good/half: reproduced.* -> (.|\n)*make accept WHY="):
        lock.compare()
    assert differing() == {"half": change}
    with pytest.raises(BookError, match="Say why"):
        lock.accept(ALL, "")
    lock.accept(ALL, "a better test")
    lock.compare()
    (noted,) = changes()
    assert (noted["rows"], noted["why"]) == (["part/good/half"], "a better test")
    assert noted["was"] == "reproduced; It is so: 0.001, at most 0.01"
    assert ("test" in noted) == (change == "test" or rows[0]["kind"] == "baseline")


def test_a_row_that_appears_or_vanishes_fails_the_build_and_only_one_that_vanishes_needs_a_reason(inside):
    collected(row())
    lock.accept(ALL, "")
    collected(row(), row("other"))
    with pytest.raises(BookError, match="other: new, reproduced"):
        lock.compare()
    lock.accept(ALL, "")
    collected(row())
    with pytest.raises(BookError, match="other: vanished; was reproduced"):
        lock.compare()
    with pytest.raises(BookError, match="Say why"):
        lock.accept(ALL, "")
    lock.accept(ALL, "it repeated half")
    lock.compare()
    assert changes()[0]["now"] == GONE


def test_a_number_that_moved_far_is_listed_and_fails_nothing(inside, capsys):
    names = [f"row-{k}" for k in range(5)]
    collected(*map(row, names))
    lock.accept(ALL, "")
    collected(*(row(name, measured=1e-3 + k * 5e-4) for k, name in enumerate(names)))
    capsys.readouterr()
    lock.compare()
    said = capsys.readouterr().out
    assert "3 numbers are far" in said
    assert differing() == dict.fromkeys(names[2:], "moved")
    collected(*map(row, names))
    lock.compare()
    assert capsys.readouterr().out == ""


def test_words_and_bounds_that_only_rounding_moves_change_nothing(inside):
    collected(row())
    lock.accept(ALL, "")
    collected(row(statement="The same, in other words", bound=1.00001e-2))
    lock.compare()


def test_a_bound_that_moved_when_its_number_was_known_counts_as_set_after(inside):
    collected(row(set="before"))
    assert ledger.ledger()[0]["set"] == "before"
    lock.accept(ALL, "")
    collected(row(set="before", bound=2e-2))
    lock.accept(ALL, "it fits better")
    collected(row(set="before", bound=2e-2))
    assert ledger.ledger()[0]["set"] == "after"


def test_a_chapter_is_accepted_alone_and_the_readme_counts_all(inside):
    inside.add("twin")
    left(row())
    collected(row(), chapter="part/twin")
    lock.README.write_text("0 chapters make 0 checked rows\n")
    lock.accept({"part/good", "part/twin"}, "")
    assert lock.README.read_text() == "2 chapters make 2 checked rows\n"
    assert lock.read_lock()["seconds"] == {"part/good": 1, "part/twin": 1}
    left(row(measured=2e-2), seconds=99.0)
    collected(row(measured=2e-2), chapter="part/twin")
    lock.accept({"part/twin"}, "why not")
    assert lock.read_lock()["seconds"]["part/good"] == 1
    with pytest.raises(BookError) as failure:
        lock.compare()
    assert "part/good/half" in str(failure.value)
    assert "part/twin/half" not in str(failure.value)


@pytest.mark.parametrize(
    ("measured", "bound", "most"), [(0.9, 1.0, 0.01), (2.0, 1.0, 0.1), (3.0, 3.0, 0.0), (-0.2, None, 0.01)]
)
def test_room_of_a_number(measured, bound, most):
    assert room(measured, bound) == pytest.approx(most)


FIRST = "fbab017"  # from which on each change of a verdict has its reason


@pytest.mark.skipif(shutil.which("git") is None, reason="reads the history")
def test_every_verdict_that_changed_in_the_history_has_its_reason(monkeypatch):
    monkeypatch.chdir(ROOT)
    shown = subprocess.run(
        ["git", "show", f"{FIRST}:{lock.LOCK}"], cwd=ROOT, capture_output=True, encoding="utf-8", check=False
    )
    if shown.returncode:
        pytest.skip("the history is not here")
    old = {address(name): entry["verdict"] for name, entry in json.loads(shown.stdout).items()}
    rows = json.loads((ROOT / lock.LOCK).read_text())["rows"]
    new = {address(name): entry["verdict"] for name, entry in rows.items()}
    noted = {address(name) for change in changes() for name in change["rows"]}
    changed = {name for name, verdict in old.items() if name not in new or new[name] != verdict}
    assert changed - noted == set()
    assert Path(ROOT / "book/verdict-changes.md").exists()
