"""Figure 9 has the same problems and the same outcomes whatever the chunk and the number of threads."""

import sys
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "workflow"))

import chapters  # noqa: E402 - these stand beside the scripts that the workflow calls


def studied(monkeypatch, **changed):
    """The chapter's names after its cells up to the outcomes ran with these parameters."""
    monkeypatch.chdir(ROOT)
    names = {}
    for cell in chapters.read("max-margin/figure-9").cells:
        if cell.cell_type == "code":
            exec(cell.source, names)
            if "parameters" in cell.metadata.get("tags", []):
                names.update(widths=[2, 30], trials=1100, iterations=4, **changed)
        if "first" in names:
            return names
    raise AssertionError("no cell made the outcomes")


@pytest.fixture(autouse=True)
def _as_it_was():
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    yield
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)


def test_neither_chunk_nor_threads_change_an_outcome(monkeypatch):
    whole = studied(monkeypatch, chunk=10000)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    parts = studied(monkeypatch, chunk=1)
    assert torch.get_num_threads() == 3
    first, second = vars(whole["first"]), vars(parts["first"])
    assert len(first["gap"]) == 2200
    for name, value in first.items():
        torch.testing.assert_close(second[name], value, rtol=1e-9, atol=1e-9, msg=name)


def test_a_problem_can_be_had_again(monkeypatch):
    names = studied(monkeypatch)
    places = torch.tensor([2199, 0, 1050, 1100, 3])
    again, size = names["taken"](places), names["size"]
    end = names["from_zero"](again)[1]
    assert again.keys.shape == (5, 4, 6, size)
    torch.testing.assert_close(end, names["first"].end[places], rtol=1e-9, atol=1e-9)


def test_a_device_that_is_not_there_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ValueError, match=r"device is 'cuda': take cpu, which this machine has"):
        studied(monkeypatch, device="cuda")
