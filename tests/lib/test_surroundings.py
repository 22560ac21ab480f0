"""What the library does to the process that imports it: nothing. What it answers to float32, to grad, on a GPU.

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


# --- dtype, device, grad


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


def near(ours, exact, tolerance):
    """Names of what is not as near to the float64 result as float32 lets it."""
    assert ours.keys() == exact.keys()
    wrong = []
    for name, one in ours.items():
        wanted = exact[name].to("cpu", one.dtype)
        size = wanted.nan_to_num().abs().max() if one.is_floating_point() else 0
        if not torch.allclose(one.cpu(), wanted, rtol=tolerance, atol=tolerance * (1e-9 + float(size)), equal_nan=True):
            wrong.append(name)
    return wrong


def test_float32_gives_float32_near_the_results_of_float64():
    ours = flat(entries(torch.float32))
    assert {one.dtype for one in ours.values()} == {torch.float32, torch.int64, torch.bool}
    assert not near(ours, flat(entries()), 1e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_arrays_that_require_grad_are_detached(dtype):
    plain, tracked = flat(entries(dtype)), flat(entries(dtype, grad=True))
    assert not near(tracked, plain, 0.0)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU here")
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-3), (torch.float64, 1e-9)])
def test_results_are_on_the_device_of_the_inputs(dtype, tolerance):
    ours = flat(entries(dtype, "cuda"))
    assert {one.device.type for one in ours.values()} == {"cuda"}
    assert not near(ours, flat(entries()), tolerance)
