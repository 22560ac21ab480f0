"""Figure 9 has the same problems and the same outcomes whatever the chunk and the number of threads."""

import logging
from pathlib import Path

import torch

from workflow.book import catalogue

ROOT = Path(__file__).parents[1]


def studied(monkeypatch, **changed):
    """The chapter's names after its cells up to the outcomes ran with these parameters."""
    monkeypatch.chdir(ROOT)
    few = {"widths": [2, 30], "trials": 1100, "plane": 2300, "iterations": 5, "step_size": 20.0, "saturation": 0.1}
    names = {}
    for cell in catalogue.read("max-margin/figure-9").cells:
        if cell.cell_type == "code":
            exec(cell.source, names)
            names.update(few | changed)
        if "narrow" in names:
            return names
    raise AssertionError("no cell made the outcomes")


def test_neither_chunk_nor_threads_change_an_outcome(monkeypatch, caplog):
    caplog.set_level(logging.INFO, "lib")
    whole = studied(monkeypatch, chunk=10000)
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    parts = studied(monkeypatch, chunk=1)
    assert torch.get_num_threads() == 3
    assert "d = 2: 2000 problems of 2300" in caplog.messages
    studies = [[*names["by_width"], names["narrow"], names["with_confined"]] for names in (whole, parts)]
    assert [len(study.gap) for study in studies[0]] == [1100, 1100, 2300, 1100]
    for first, second in zip(*studies, strict=True):
        for name, value in vars(first).items():
            torch.testing.assert_close(vars(second)[name], value, rtol=1e-9, atol=1e-9, msg=name)
