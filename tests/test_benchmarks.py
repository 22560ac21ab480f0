"""The benchmarks: the others compute what the library computes, the page shows the record. No time is asserted."""

from pathlib import Path

import pytest
import torch

import benchmarks.__main__ as command
from benchmarks import published, solvers
from lib.descent import normalised, run
from lib.losses import logistic
from lib.problem import from_tokens
from lib.separators import hard_margin
from workflow.site import runs

ROOT = Path(__file__).parents[1]


def apart(first, second):
    """Largest distance as a part of the length."""
    return ((first - second).norm(dim=-1) / second.norm(dim=-1)).max().item()


def test_descent_in_the_published_style_ends_where_that_of_the_library_ends():
    data = command.spheres(3)
    ours = run(from_tokens(*data[:3]), logistic, torch.zeros_like(data.head), normalised(1.0), 5, [5]).theta[-1]
    ends = [published.descend(data.tokens[k], data.head[k], data.labels[k], 5) for k in range(3)]
    assert apart(torch.stack(ends), ours) < 1e-4  # single precision


@pytest.mark.parametrize(("name", "accuracy"), [("daqp", 1e-12), ("quadprog", 1e-12), ("piqp", 1e-7), ("cvxpy", 1e-5)])
def test_others_find_the_svm_of_the_library(name, accuracy):
    pytest.importorskip(name)
    for rows in (command.sphere_rows()[0], command.gaussian_rows(60, 20, 1)[0]):
        found = published.svm(rows) if name == "cvxpy" else solvers.SOLVERS[name](rows.numpy())()
        assert apart(torch.tensor(found), hard_margin(rows).theta) < accuracy


def test_every_case_does_its_units_and_a_solver_that_is_not_installed_is_left_out(monkeypatch):
    monkeypatch.setattr(command, "find_spec", lambda name: None)
    monkeypatch.setattr(command, "FEW", 1)
    figure_9 = command.figure_9
    monkeypatch.setattr(command, "figure_9", lambda: figure_9(trials=8, steps=5))
    cases = [*command.cases()]
    assert [(style, units) for _, style, units, _ in cases[-2:]] == [("lib", 8), ("published style", 1)]
    assert [style for _, style, *_ in cases[:-2]] == ["lib"] * 4
    for _, _, units, function in cases:
        if units < 100:
            function()


def test_what_is_recorded_is_what_the_page_reads(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    command.TIMED.parent.mkdir(parents=True)
    monkeypatch.setenv("RECORD", "1")
    monkeypatch.setattr(command.fresh_seeds, "commit", lambda: "a1b2c3d 2026-01-31")
    monkeypatch.setattr(command, "milliseconds", lambda function, units: 0.0123456)
    monkeypatch.setattr(command, "cases", lambda: [("SVM, small", "lib", 2, None), ("Figure 9", "daqp", 1, None)])
    command.main()
    assert "0.01235 ms" in capsys.readouterr().out
    page = runs.times()
    assert "| SVM, small | 0.0123 | – |\n| Figure 9 | – | 0.0123 |" in page
    assert "- SVM and Figure 9: " in page
    assert "commit a1b2c3d 2026-01-31, python 3." in page
