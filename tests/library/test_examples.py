"""Examples in docstrings come out as shown, whatever the default type of numbers is; those of the pages in float32."""

import doctest
import importlib
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in (ROOT / "lib").glob("*.py") if path.stem != "__init__")
ENTRY_POINTS = [
    "datasets.figure_1", "datasets.on_sphere", "descent.run", "flow.log_time_flow", "geometry.bregman_divergence",
    "geometry.mirror_map", "joint.JointProblem", "joint.run", "ledger.source", "logspace.gradient", "losses.by_name",
    "paths.regularization_path", "problem.Problem", "problem.from_tokens", "selection.locally_optimal_selections",
    "selection.optimal_tokens", "selection.selected_tokens", "separators.att_svm", "separators.hard_margin",
    "separators.label_svm",
]  # fmt: skip


@pytest.fixture(params=[torch.float64, torch.float32], ids=str)
def dtype(request):
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield request.param
    torch.set_default_dtype(before)


@pytest.mark.parametrize("name", MODULES)
def test_examples_come_out_as_shown(name, dtype):
    assert doctest.testmod(importlib.import_module(f"lib.{name}")).failed == 0


@pytest.mark.parametrize("dtype", [torch.float32], indirect=True)
@pytest.mark.parametrize("path", sorted((ROOT / "book/library").glob("*.md")), ids=lambda path: path.stem)
def test_examples_of_pages_come_out_as_shown(path, dtype):
    text = path.read_text("utf-8").replace("```", "")  # the end of a block is not a part of what is printed
    example = doctest.DocTestParser().get_doctest(text, {}, path.stem, str(path), 0)
    assert doctest.DocTestRunner().run(example).failed == 0


@pytest.mark.parametrize("path", ENTRY_POINTS)
def test_entry_point_has_an_example(path):
    module, _, name = path.partition(".")
    assert ">>> " in getattr(importlib.import_module(f"lib.{module}"), name).__doc__
