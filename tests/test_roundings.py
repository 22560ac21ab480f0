"""How far numbers move under other roundings: the settings, the last bits, and the reasons that a page gives."""

import sys

import pytest
import torch

from workflow.book import records
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
