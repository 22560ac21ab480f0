"""The lock: verdicts are compared everywhere, numbers where the kind of processor is known; what accepting changes."""

import json
import os
import platform
import sys
from pathlib import Path

import pytest

from tests.processes import said
from tests.small_book import ROOT, collected, left, row
from workflow.book import dependencies, ledger, lock, records
from workflow.book.catalogue import BookError
from workflow.run import processor
from workflow.run.notebook import surroundings


def accepted():
    return json.loads(lock.LOCK.read_text())


def test_lock_holds_rows_and_the_kind_of_processor_they_were_measured_on(inside):
    collected(row(), row("null", kind="baseline"))
    lock.accept()
    lock.compare()
    held = accepted()
    assert held["rows"] == {
        "part/good/half": {"verdict": "reproduced", "measured": 1e-3, "tolerance": row()["tolerance"]},
        "part/good/null": {"verdict": None, "measured": 1e-3, "tolerance": row(kind="baseline")["tolerance"]},
    }
    assert held["kinds"] == {"kind A": []}
    assert held["code"].keys() == {"part/good"}


TURNED = {
    "a number past its bound": ([row(measured=2e-2)], "half: reproduced (0.001) -> not reproduced (0.02)"),
    "a row more": ([row(), row("other")], "other: new, reproduced (0.001)"),
    "a baseline more": ([row(), row("null", kind="baseline")], "null: new, baseline (0.001)"),
    "a claim that is none any more": ([row(kind="baseline")], "half: reproduced (0.001) -> baseline (0.001)"),
    "an interval": ([row(interval=(0, 0.1))], "half: reproduced (0.001) -> undecided (0.001)"),
    "a row less": ([], "half: vanished; was reproduced (0.001)"),
}
MOVED = {
    "a number": ([row(measured=2e-3)], "half: 0.001 -> 0.002, tolerance 0.0001"),
    "a bound within the tolerance": (
        [row(bound=1.05e-3)],
        "half: the accepted tolerance 0.0001 reaches past the bound",
    ),
}


@pytest.mark.parametrize(
    ("rows", "line", "kind"),
    [(*case, "kind A") for case in (TURNED | MOVED).values()] + [(*case, "kind B") for case in TURNED.values()],
)
def test_a_difference_fails_until_accepted_and_on_an_unknown_processor_one_of_verdicts_and_rows(
    inside, rows, line, kind
):
    collected(row())
    lock.accept()
    collected(*rows, kind=kind)
    with pytest.raises(BookError) as failure:
        lock.compare()
    for words in (f"part/good/{line}", "make accept", str(lock.DIFFERENCES)):
        assert words in str(failure.value)
    lock.accept()
    lock.compare()


@pytest.mark.parametrize(("rows", "line"), MOVED.values(), ids=MOVED)
def test_a_number_is_only_reported_on_an_unknown_kind_of_processor(inside, capsys, monkeypatch, rows, line):
    collected(row())
    lock.accept()
    collected(*rows, kind="kind B")
    capsys.readouterr()
    lock.compare()
    said = capsys.readouterr().out
    assert "1 of 1 numbers" in said
    assert "kind B" in said
    assert f"part/good/{line}" in said
    assert "make accept" in said
    (entry,) = json.loads(lock.DIFFERENCES.read_text())
    assert (entry["id"], entry["known"]) == ("part/good/half", False)


def test_of_many_numbers_on_an_unknown_kind_the_worst_three_are_shown_and_all_are_written(inside, capsys):
    names = [f"row-{k}" for k in range(6)]
    collected(*map(row, names))
    lock.accept()
    collected(*(row(name, measured=1e-3 + k * 1e-3) for k, name in enumerate(names)), kind="kind B")
    capsys.readouterr()
    lock.compare()
    said = capsys.readouterr().out
    assert [name for name in names if f"part/good/{name}:" in said] == names[3:]
    assert len(json.loads(lock.DIFFERENCES.read_text())) == 5
    collected(*map(row, names), kind="kind A")
    lock.compare()
    assert capsys.readouterr().out == ""
    assert json.loads(lock.DIFFERENCES.read_text()) == []


def test_rows_are_judged_by_the_kind_on_which_their_chapter_ran(inside, capsys):
    inside.add("twin")
    left(row())
    left(row(), chapter="part/twin")
    ledger.collect()
    lock.accept()
    left(row(measured=2e-3))
    left(row(measured=2e-3), chapter="part/twin", kind="kind B")
    ledger.collect()
    with pytest.raises(BookError) as failure:
        lock.compare()
    assert "part/good/half: 0.001" in str(failure.value)
    assert "part/twin/half" not in str(failure.value)
    assert "part/twin/half: 0.001" in capsys.readouterr().out


class TestAccept:
    """On a second kind of processor."""

    @pytest.fixture(autouse=True)
    def _accepted_on_one(self, inside):
        collected(row(), row("other"))
        lock.accept()

    def test_numbers_within_their_tolerance_stay_and_gain_the_kind(self):
        before = accepted()
        collected(row(measured=1.00001e-3), row("other", measured=1.00001e-3), kind="kind B")
        lock.accept()
        assert accepted() == before | {"kinds": {"kind A": [], "kind B": []}}
        lock.compare()

    def test_a_number_that_left_its_tolerance_is_replaced_and_known_there_alone(self, capsys):
        collected(row(measured=2e-3), row("other"), kind="kind B")
        lock.accept()
        assert accepted()["kinds"] == {"kind A": ["part/good/half"], "kind B": []}
        assert accepted()["rows"]["part/good/half"]["measured"] == 2e-3
        lock.compare()
        capsys.readouterr()
        collected(row(), row("other"))
        lock.compare()
        assert "part/good/half: 0.002 -> 0.001" in capsys.readouterr().out
        collected(row(), row("other", measured=2e-3))
        with pytest.raises(BookError, match=r"part/good/other: 0\.001 -> 0\.002"):
            lock.compare()

    def test_a_chapter_whose_code_changed_is_known_on_this_kind_alone(self):
        page = Path("book/part/good.md")
        page.write_text(page.read_text().replace("# Chapter", "# A better chapter"))
        collected(row(), row("other"), kind="kind B")
        lock.accept()
        assert accepted()["kinds"] == {"kind A": [], "kind B": []}
        page.write_text(page.read_text().replace("import os, time", "import os, time, math"))
        lock.accept()
        assert accepted()["kinds"] == {"kind B": []}

    def test_a_tolerance_that_was_measured_anew_is_taken(self):
        rounded(9e-5)
        collected(row(), row("other"))
        lock.accept()
        assert accepted()["rows"]["part/good/half"]["tolerance"] == pytest.approx(ledger.FACTOR * 9e-5)


def test_the_kind_of_processor_is_what_the_libraries_take_in_the_surroundings_of_a_chapter():
    code = """
import llvmlite.binding, numpy, os, threadpoolctl, torch
print(llvmlite.binding.get_host_cpu_name())
for library in threadpoolctl.threadpool_info():
    print(library.get("architecture", ""))
if "ATEN_CPU_CAPABILITY" in os.environ:
    print(torch.backends.cpu.get_cpu_capability().lower())
"""
    variables = os.environ | surroundings()
    words = said(sys.executable, "-c", code, env=variables)
    kind = processor.kind(variables).lower()
    for word in words.lower().split():
        assert word in kind


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="only there the variables choose")
@pytest.mark.parametrize("name", ["ATEN_CPU_CAPABILITY", "MKL_CBWR", "OPENBLAS_CORETYPE", "NUMBA_CPU_NAME"])
def test_other_instructions_are_another_kind(name, monkeypatch):
    monkeypatch.delenv(name, raising=False)
    other = {"ATEN_CPU_CAPABILITY": "default", "MKL_CBWR": "COMPATIBLE", "NUMBA_CPU_NAME": "generic"}
    variables = os.environ | surroundings()
    usual = processor.kind(variables)
    assert processor.kind(variables) == usual
    assert processor.kind(variables | {name: other.get(name, "Prescott")}) != usual


def test_every_row_of_the_lock_is_of_a_chapter_whose_code_it_knows():
    held = json.loads((ROOT / lock.LOCK).read_text())
    assert {name.rpartition("/")[0] for name in held["rows"]} == held["code"].keys()
    assert all(set(lacking) <= held["rows"].keys() for lacking in held["kinds"].values())


# How far a number may move where its kind is known.


def rounded(spread, code=None, **more):
    """Write that other roundings moved a row so far, in the code that runs now or in other code."""
    code = code or dependencies.recorded_hash("part/good")
    entry = {"code": code, "rows": {"half": {"spread": spread} | more}}
    records.ROUNDINGS.write_text(json.dumps({"part/good": entry}))


def test_a_spread_of_other_code_widens_no_tolerance(inside):
    rounded(1e-2, code="other")
    collected(row())
    (entry,) = ledger.ledger()
    assert (entry["spread"], entry["tolerance"]) == (None, pytest.approx(1e-4, rel=1e-4))


@pytest.mark.parametrize(
    ("measured", "spread", "tolerance"),
    [
        (1e-3, 1e-5, 1e-4),  # what the library gives every row
        (1e-3, 9e-5, ledger.FACTOR * 9e-5),
        (1e-3, 1e-2, 9e-3),  # as far as its bound
        (1e-9, 1e-9, 1e-4),  # rounding error, of which the bound is what counts
        (9.9e-3, 1e-2, 1e-4),
    ],
)
def test_a_number_may_move_by_a_multiple_of_its_spread_but_not_past_its_bound(inside, measured, spread, tolerance):
    rounded(spread)
    collected(row(measured=measured))
    lock.accept()
    assert accepted()["rows"]["part/good/half"]["tolerance"] == pytest.approx(tolerance, rel=1e-4)
    for way in (-0.99, 0.99):
        collected(row(measured=measured + way * tolerance))
        lock.compare()
    collected(row(measured=measured - 1.01 * tolerance))
    with pytest.raises(BookError, match="part/good/half: "):
        lock.compare()


def test_a_row_that_a_measured_rounding_turned_may_turn_again(inside):
    rounded(1e-2, turned=["two threads"])
    collected(row())
    lock.accept()
    collected(row(measured=2e-2))
    lock.compare()
    collected(row(measured=1e-1))
    with pytest.raises(BookError, match="part/good/half: "):
        lock.compare()


def test_rows_without_a_measured_spread_are_named(inside, capsys):
    collected(row())
    lock.accept()
    assert 'make roundings RECORD=1 NAME="part/good"' in capsys.readouterr().out
