"""How far numbers move under other roundings: the settings, the last bits, and the reasons that a page gives."""

import json
import sys
from pathlib import Path

import pytest
import torch

from tests.small_book import collected, row
from workflow.book import ledger, lock, records
from workflow.book.catalogue import BookError
from workflow.commands import roundings
from workflow.run.last_bit import UlpNoise
from workflow.site import rows


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_a_changed_last_bit_is_a_neighbour_of_the_number_that_was_drawn(dtype):
    def draws():
        generator = torch.Generator().manual_seed(0)
        return (
            torch.randn(1000, dtype=dtype, generator=generator),
            torch.empty(1000, dtype=dtype).uniform_(generator=generator),
            torch.randint(9, (1000,), generator=generator),
        )

    plain = draws()
    with UlpNoise():
        changed = draws()
    for before, after in zip(plain[:2], changed[:2], strict=True):
        up, down = (torch.nextafter(before, torch.full_like(before, end)) for end in (torch.inf, -torch.inf))
        assert ((after == before) | (after == up) | (after == down)).all()
        assert all((after == neighbour).any() for neighbour in (before, up, down))
    assert torch.equal(plain[2], changed[2])
    assert all(map(torch.equal, plain, draws())), "nothing is left behind"


def test_a_setting_that_the_processor_lacks_is_named(monkeypatch):
    monkeypatch.setitem(roundings.SETTINGS, "wide vectors", ({}, "no_such_flag"))
    assert roundings.lacking("wide vectors") == "the processor has no no_such_flag"
    assert roundings.lacking("two threads") == roundings.lacking("last bit") == ""


def test_settings_under_which_tests_fail_are_counted(monkeypatch, capsys):
    monkeypatch.setattr(roundings, "lacking", lambda name: "")
    monkeypatch.delenv("MKL_CBWR", raising=False)  # of the setting under which this test itself may run
    code = "import os, sys; sys.exit(os.environ.get('MKL_CBWR') == 'COMPATIBLE')"
    assert roundings.run_tests([sys.executable, "-c", code]) == 1
    assert "narrow vectors: the tests fail" in capsys.readouterr().out


def moved(**about):
    return {"id": "part/good/half", "measured": 1e-9, "spread": 1e-9, "bound": 1e-6, "interval": None} | about


@pytest.mark.parametrize(
    ("row", "words"),
    [
        (moved(measured=-0.1, spread=0.05, bound=0.0, interval=[-0.3, 0.1]), "known to ± 0.2"),
        (moved(measured=0.1, spread=0.05, bound=None), "somebody found out"),
    ],
)
def test_a_page_says_why_rounding_moves_a_number(row, words, tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "REASONS", tmp_path / "reasons.yml")
    rows.REASONS.write_text("part/good/half: somebody found out\n")
    assert words in rows.why_moved(row)


def test_a_number_that_moves_for_no_reason_that_is_known_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(rows, "REASONS", tmp_path / "reasons.yml")
    with pytest.raises(BookError, match=r"rounding moves part/good/half from 0\.1 by 0\.05: say why in"):
        rows.why_moved(moved(measured=0.1, spread=0.05, bound=1.0))


def test_of_two_machines_the_larger_spread_is_kept_while_the_code_is_the_same(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def found(code, cpu, spread, **more):
        rows = {"half": {"spread": spread, "most": cpu} | more}
        return {"code": code, "cpu": cpu, "settings": [cpu], "rows": rows}

    both = records.larger(found("a", "one", 2.0), found("a", "other", 1.0, turned=["other"]))
    assert both["rows"]["half"] == {"spread": 2.0, "most": "one", "turned": ["other"]}
    assert (both["cpu"], both["settings"]) == ("one, other", ["one", "other"])
    for code, spread_left in (("a", 2.0), ("b", 1.0)):
        records.keep_spreads("part/good", found("a", "one", 2.0))
        records.keep_spreads("part/good", found(code, "other", 1.0))
        assert records.entries(records.ROUNDINGS)["part/good"]["rows"]["half"]["spread"] == spread_left
        records.ROUNDINGS.unlink()


# Runs of a study that were made again.

STUDY = """
import json
from pathlib import Path
read = json.loads(Path("book/recorded", "study", "one.json").read_text())["found"]["right"]
verdict(source(None, "A study", set="after").claim("right", "It is right", read, ">=", 0.5, recorded=True))
"""


def recorded(folder, right, seed=1):
    path = Path(folder, "study", "one.json")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"settings": {"seed": seed}, "found": {"right": right}}))


@pytest.fixture
def reader(inside, monkeypatch):
    """A book of one chapter that reads a recorded run, and has run; the second run turns its verdict."""
    monkeypatch.setenv("PYTHONPATH", inside.env()["PYTHONPATH"])
    recorded("book/recorded", 0.6)
    Path("book/recorded/study/tuning-one.json").write_text("{}")  # never made again
    recorded("build/recorded", 0.4)
    return inside.add("good", STUDY)


def test_a_recorded_row_is_measured_with_runs_made_again(reader):
    assert reader.build("build/claims/part/good.json").returncode == 0
    ((_, results),) = roundings.measure(["part/good"], ["two threads"])
    entry = roundings.spreads("part/good", results)
    assert entry["rows"]["right"] == {
        "spread": 0, "most": "two threads", "again": {"spread": pytest.approx(0.2), "verdict": "refuted"}
    }  # fmt: skip
    assert "again" not in entry["rows"]["half"], "it reads no record"
    assert entry["settings"] == ["two threads"]
    assert "0.6" in Path("book/recorded/study/one.json").read_text()


def test_a_chapter_is_measured_so_only_if_all_its_runs_were_made_again_with_their_settings(reader, capsys):
    def settings():
        return list(roundings.plans("part/good", ["two threads"]))

    assert settings() == ["two threads", roundings.MADE_AGAIN]
    recorded("build/recorded", 0.4, seed=2)
    assert settings() == ["two threads"]
    recorded("build/recorded", 0.4)
    Path("book/recorded/study/other.json").write_text(json.dumps({"settings": {}, "found": {}}))
    assert settings() == ["two threads"]
    assert capsys.readouterr().out.count("make record NAME=study AGAIN=1") == 2
    reader.add("good")
    assert settings() == ["two threads"]
    assert not capsys.readouterr().out, "nothing is missing where no record is read"


def test_another_run_made_again_is_another_run(reader):
    def sources():
        return roundings.plans("part/good", [])[roundings.MADE_AGAIN].sources

    before = sources()
    recorded("build/recorded", 0.3)
    assert sources() != before


def noted(**again):
    """Write that runs made again moved a row so far, with the records as they are."""
    entry = {"code": records.recorded_hash("part/good"), "records": records.hash_of_records("part/good")}
    entry["rows"] = {"half": {"spread": 0.0, "most": "two threads", "again": again}}
    records.ROUNDINGS.write_text(json.dumps({"part/good": entry}))


def test_a_page_says_how_far_a_recorded_row_moved_until_its_record_is_another(reader):
    words = "| recorded; again ±0.02; then undecided |"
    noted(spread=0.02, verdict="undecided")
    collected(row(recorded=True))
    assert words in rows.rows()
    recorded("book/recorded", 0.7)
    collected(row(recorded=True))
    assert "| recorded |" in rows.rows()


def test_runs_made_again_widen_no_tolerance_and_excuse_no_verdict(inside):
    noted(spread=1.0, verdict="undecided")
    collected(row(recorded=True))
    (entry,) = ledger.ledger()
    assert entry["again"] == {"spread": 1.0, "verdict": "undecided"}
    assert entry["tolerance"] == pytest.approx(ledger.tolerance(entry))
    lock.accept()
    collected(row(measured=0.02, recorded=True))
    with pytest.raises(BookError, match="part/good/half: "):
        lock.compare()


def test_of_runs_made_again_twice_the_larger_move_is_kept_while_the_records_are_the_same():
    def found(spread, files, **verdict):
        move = {"spread": 0.0, "most": "a", "again": {"spread": spread} | verdict}
        return {"cpu": "one", "settings": ["a"], "records": files, "rows": {"half": move}}

    for files, spread in (("x", 2.0), ("y", 1.0)):
        both = records.larger(found(2.0, "x"), found(1.0, files))
        assert both["rows"]["half"]["again"]["spread"] == spread
    for first, second in (
        (found(2.0, "x"), found(1.0, "x", verdict="a")),
        (found(1.0, "x", verdict="a"), found(2.0, "x")),
    ):
        assert records.larger(first, second)["rows"]["half"]["again"] == {"spread": 2.0, "verdict": "a"}
    without = found(1.0, "x")
    del without["rows"]["half"]["again"]
    assert records.larger(found(2.0, "x"), without)["rows"]["half"]["again"]["spread"] == 2.0
