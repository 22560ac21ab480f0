"""Compiled code is kept from one process to the next wherever a folder can be written, and works where none can."""

import json
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
KERNELS = """
from lib._compiled import compiled

@compiled("float64(float64)")
def half(x):
    return x / 2

@compiled()
def sum_of_halves(values):
    total = 0.0
    for value in values:
        total += half(value)
    return total
"""
CALL = """
import json, numpy, kernels
total = kernels.sum_of_halves(numpy.ones(4))
caches = [(sum(one.stats.cache_hits.values()), sum(one.stats.cache_misses.values()), one.stats.cache_path)
          for one in (kernels.half, kernels.sum_of_halves)]
print(json.dumps([total, caches]))
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with compiled functions, and nothing but it that a cache could be written to."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package/kernels.py").write_text(KERNELS)
    return tmp_path


def run(folder, code, stream="stdout", **variables):
    """What code prints, or logs, in a process of its own that can import from the folder's package."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_"))}
    kept |= {"PYTHONPATH": f"{ROOT}{os.pathsep}{folder / 'package'}", "HOME": os.devnull} | variables
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=folder, env=kept, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return getattr(done, stream)


def caches_of(folder, **variables):
    """How often a process of its own loaded and compiled each function, and where from, once its result is right."""
    total, caches = json.loads(run(folder, CALL, **variables))
    assert total == 2.0
    return caches


def lock(folder):
    """Keep everyone, the administrator too, from writing a cache beside the module."""
    (folder / "package/__pycache__").write_text("a file, where a folder would have to be")


def test_the_second_process_loads_what_the_first_compiled(folder):
    place = str(folder / "package/__pycache__")
    assert caches_of(folder) == [[0, 1, place]] * 2
    assert caches_of(folder) == [[1, 0, place]] * 2


@pytest.mark.parametrize("variable", ["NUMBA_CACHE_DIR", "HOME"])
def test_where_the_folder_cannot_be_written_another_keeps_it(folder, variable):
    lock(folder)
    other = {variable: str(folder / "other")}
    assert [missed for _, missed, _ in caches_of(folder, **other)] == [1, 1]
    again = caches_of(folder, **other)
    assert [hits for hits, _, _ in again] == [1, 1]
    assert all(Path(place).is_relative_to(folder / "other") for _, _, place in again)


def test_where_none_can_be_written_it_compiles_without(folder):
    lock(folder)
    assert caches_of(folder) == caches_of(folder) == [[0, 1, None]] * 2


def test_who_waits_for_the_compiler_is_told_once(folder):
    more = KERNELS + KERNELS.partition("\n\n")[2].replace("half", "again")
    (folder / "package/kernels.py").write_text(more)
    assert run(folder, "import kernels", "stderr").count("compiling the loops of the library") == 1
    assert run(folder, "import kernels", "stderr") == ""


def test_an_error_of_the_code_itself_is_shown(folder):
    (folder / "package/kernels.py").write_text(KERNELS.replace("x / 2", "x / undefined"))
    with pytest.raises(AssertionError, match="undefined"):
        caches_of(folder)


COMPILE = """
import importlib, lib, pathlib
for path in pathlib.Path(lib.__file__).parent.glob("*.py"):
    if "def compile_all(" in path.read_text():
        importlib.import_module(f"lib.{path.stem}").compile_all()
"""
ROUNDING = """
import hashlib, sys, numpy
from lib._compiled import compiled

@compiled("float64(float64[::1], float64[::1])")
def product(one, other):
    total = 0.0
    for i in range(len(one)):
        total += one[i] * other[i]
    return total

print(product(*numpy.random.default_rng(0).standard_normal((2, 10007))).hex())
"""


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="no x86 processor")
def test_the_rounding_is_that_of_every_processor(folder):
    (folder / "package/kernels.py").write_text(ROUNDING)
    seen = {run(folder, "import kernels", NUMBA_CPU_NAME=name) for name in ("nehalem", "haswell", "skylake-avx512")}
    assert len(seen) == 1


def test_nothing_is_left_to_compile_when_the_library_is_used():
    known = os.environ | {
        "NUMBA_DEBUG_CACHE": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests/library")]),
    }
    for code in (COMPILE, "import entries; entries.entries()"):
        command = [sys.executable, "-c", code]
        said = subprocess.run(command, env=known, capture_output=True, text=True, check=True).stdout
    assert "data loaded" in said
    assert "data saved" not in said
