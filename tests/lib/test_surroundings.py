"""What the library does to the process that imports it: nothing. What it makes of arrays of any kind: float64.

The other tests have the defaults of a chapter, which hide a tensor whose dtype nobody said; here torch has its
own.
"""

import os
import re
import sys
from pathlib import Path

import pytest
import torch
from entries import data_sets, entries, flat

import lib
from lib import geometry, losses
from lib.descent import constant, normalised, run
from lib.joint import JointProblem
from lib.logspace import LogScaled, gradient
from lib.paths import regularization_path
from lib.problem import Problem, from_tokens
from lib.separators import att_svm, hard_margin
from tests.processes import said

ROOT = Path(__file__).parents[2]
MODULES = sorted(path.stem for path in (ROOT / "lib").glob("*.py") if path.stem != "__init__")
OTHERS = ["heads", "studies.archives", "studies.networks", "studies.datasets"]


def alone(code, **variables):
    """Run code in a fresh process; AssertionError with what it said if it fails."""
    path = os.pathsep.join([str(ROOT), str(Path(__file__).parent)])
    return said(sys.executable, "-c", code, env=os.environ | {"PYTHONPATH": path} | variables)


# --- the process


def test_importing_every_module_changes_nothing():
    alone(
        f"""
import importlib, random
import matplotlib, numpy, torch

def state():
    return (torch.get_default_dtype(), torch.get_num_threads(), torch.get_rng_state().tolist(), random.getstate(),
            str(numpy.random.get_state()), dict(matplotlib.rcParams), torch.is_grad_enabled())

before = state()
for name in {[f"lib.{name}" for name in MODULES] + OTHERS}:
    importlib.import_module(name)
assert state() == before
assert torch.get_default_dtype() == torch.float32
""",
        OMP_NUM_THREADS="2",
    )


def test_no_module_brings_what_only_a_call_may_use():
    slow = {"cvxpy", "sklearn", "pandas", "scipy.stats", "scipy.optimize", "scipy.integrate", "IPython", "numba"}
    compiled = re.compile(r"^from (numba|\._compiled) import", re.MULTILINE)
    sources = {name: (ROOT / f"lib/{name}.py").read_text("utf-8") for name in MODULES if name != "figures"}
    lazy = [name for name, source in sources.items() if not compiled.search(source)]
    loaded = alone(
        f"import importlib, sys\nfor name in {lazy}: importlib.import_module('lib.' + name)\nprint(*sys.modules)"
    )
    assert {"lib.separators", "lib.descent", "lib.flow", "lib.joint"} <= set(loaded.split())
    assert (slow | {"matplotlib", "seaborn"}).isdisjoint(loaded.split())  # figures alone draw


def test_figures_need_no_theme_and_lines_and_dots_no_more_than_matplotlib():
    loaded = alone(
        """
import sys, matplotlib
matplotlib.use("Agg")
from lib import figures
figures.curves([1, 2, 3], {"one": [1, 2, 3]}, "x", "y").canvas.draw()
figures.theme()
figures.dots(["a", "b"], {"one": [1, 2], "two": [2, 3]}, "x").canvas.draw()
figures.agreement([1, 2], [1.1, 2.1], "predicted", "missed").canvas.draw()
print(*sys.modules)
matplotlib.rcdefaults()
figures.heatmap([0, 1], [0, 1], [[0, 1], [1, 0]], "x", "y", "value").canvas.draw()
import lib, torch
lib.notebook()
assert torch.get_default_dtype() == torch.float64
assert matplotlib.rcParams["figure.dpi"] == 200
"""
    )
    assert {"seaborn", "pandas", "scipy", "numba", "sklearn"}.isdisjoint(loaded.split())


@pytest.mark.parametrize(("asked", "threads"), [("2", 2), ("", 1), ("many", 1), ("0", 1), ("-3", 1)])
def test_a_chapter_has_as_many_threads_as_it_is_given(monkeypatch, asked, threads):
    monkeypatch.setenv("OMP_NUM_THREADS", asked)
    lib.notebook()
    assert torch.get_num_threads() == threads


# --- arrays


def test_no_result_depends_on_torchs_default_dtype(tmp_path):
    alone(
        f"""
import torch
torch.set_num_threads({torch.get_num_threads()})
from entries import data_sets, entries, flat
torch.save(flat([entries(), data_sets()]), {str(tmp_path / "there")!r})
"""
    )
    here, there = flat([entries(), data_sets()]), torch.load(tmp_path / "there")
    assert here.keys() == there.keys()
    different = [name for name, one in here.items() if not torch.equal(one.nan_to_num(), there[name].nan_to_num())]
    assert not different
    assert {one.dtype for one in there.values()} == {torch.float64, torch.int64, torch.bool}


GIVEN = {
    "lists": lambda array: array.tolist(),
    "NumPy": lambda array: array.numpy(),
    "float32": lambda array: array.float(),
    "bfloat16": lambda array: array.bfloat16(),
    "integers": lambda array: array.to(torch.int16),
    "flags": lambda array: array > 0,
    "reversed": lambda array: array.flip(-1).numpy()[..., ::-1],
    "big-endian": lambda array: array.numpy().astype(">f8"),
    "grad": lambda array: array.clone().requires_grad_(),
    "CUDA": lambda array: array.cuda(),
}


@pytest.mark.parametrize("kind", GIVEN)
def test_whatever_is_given_becomes_float64_on_the_cpu_at_the_door(kind):
    if kind == "CUDA" and not torch.cuda.is_available():
        pytest.skip("no GPU here")
    keys, scores, theta = torch.eye(2)[None], torch.tensor([[1.0, 0.0]]), torch.tensor([1.0, 0.0])
    given = GIVEN[kind]
    problem, one = Problem(given(keys), given(scores)), given(theta)
    answers = [
        *gradient(problem, losses.logistic, one),
        run(problem, losses.logistic, one, constant(0.1), 2).theta,
        hard_margin(given(torch.eye(2))).theta,
        att_svm(problem, [0]).theta,
        from_tokens(given(keys), [1], given(theta)).scores,
        JointProblem(given(keys), [1]).fixed_head(one).scores,
        regularization_path(problem, losses.logistic, given(torch.ones(1, 1))[0], angles=8).theta,
    ]
    assert {(answer.dtype, answer.device.type, answer.requires_grad) for answer in answers} == {
        (torch.float64, "cpu", False)
    }
    assert answers[3].tolist() == pytest.approx([1.0, 1.0])
    assert problem.keys.tolist() == keys.tolist()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_what_networks_use_too_keeps_their_floats(dtype):
    weights, step = torch.randn(3, 4, generator=torch.Generator().manual_seed(0)).to(dtype), normalised(0.1, 1.5)
    moved = [geometry.norm(weights, 1.5), geometry.mirror_map(weights, 1.5), geometry.inverse_mirror_map(weights, 1.5)]
    moved.append(step(LogScaled(weights, torch.zeros_like(weights[:, 0])), weights, 0))
    assert {one.dtype for one in moved} == {dtype}
