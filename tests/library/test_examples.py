"""The examples in docstrings: what they show is what comes out, whatever the default type of numbers is."""

import doctest
import importlib
from pathlib import Path

import pytest
import torch

LIBRARY = Path(__file__).parents[2] / "lib"
MODULES = sorted(
    ".".join(path.relative_to(LIBRARY.parent).with_suffix("").parts) for path in LIBRARY.rglob("*.py")
    if path.stem != "__init__"
)  # fmt: skip
ENTRY_POINTS = [
    "datasets.figure_1", "datasets.on_sphere", "descent.run", "flow.log_time_flow", "geometry.bregman_divergence",
    "geometry.mirror_map", "joint.JointProblem", "joint.run", "ledger.source", "logspace.gradient", "losses.by_name",
    "paths.regularization_path", "problem.Problem", "problem.from_tokens", "selection.locally_optimal_selections",
    "selection.optimal_tokens", "selection.selected_tokens", "separators.att_svm", "separators.hard_margin",
    "separators.label_svm",
]  # fmt: skip


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("name", MODULES)
def test_examples_come_out_as_shown(name, dtype):
    module, before = importlib.import_module(name), torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        assert doctest.testmod(module).failed == 0
    finally:
        torch.set_default_dtype(before)


@pytest.mark.parametrize("path", ENTRY_POINTS)
def test_entry_point_has_an_example(path):
    module, _, name = path.partition(".")
    assert ">>> " in getattr(importlib.import_module(f"lib.{module}"), name).__doc__
