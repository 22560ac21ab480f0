"""Compiled code is kept from one process to the next wherever a folder can be written, and works where none can."""

import json
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MAKE = ["make", "-f", ROOT / "Makefile", "-o", ".venv/.installed", "lib/__pycache__/compiled"]
HELPER = """
from ._compiled import compiled

@compiled()
def half(x):
    return x / 2
"""
KERNELS = """
from ._compiled import compiled
from .helper import half

@compiled("float64(float64[::1])")
def sum_of_halves(values):
    total = 0.0
    for value in values:
        total += half(value)
    return total
"""
CALL = """
import json, numpy
from lib import kernels
total = kernels.sum_of_halves(numpy.ones(4))
stats = kernels.sum_of_halves.__wrapped__.stats
print(json.dumps([total, sum(stats.cache_hits.values()), sum(stats.cache_misses.values()), stats.cache_path]))
"""


@pytest.fixture
def folder(tmp_path):
    """A folder with a library of compiled functions, and nothing but it that a cache could be written to."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/__init__.py").touch()
    (tmp_path / "lib/kernels.py").write_text(KERNELS)
    (tmp_path / "lib/helper.py").write_text(HELPER)
    shutil.copy(ROOT / "lib/_compiled.py", tmp_path / "lib")
    return tmp_path


def surroundings(folder, **variables):
    """Surroundings of a process that imports the folder's library, without a home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_", "MAKE"))}
    return kept | {"PYTHONPATH": str(folder), "HOME": os.devnull} | variables


def run(folder, code, stream="stdout", **variables):
    """What code prints, or logs, in such a process."""
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=folder, env=surroundings(folder, **variables), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return getattr(done, stream)


def cache_of(folder, expected=2.0, **variables):
    """How often a process of its own loaded and compiled the sum, and where from, once its result is right."""
    total, hits, misses, place = json.loads(run(folder, CALL, **variables))
    assert total == expected
    return hits, misses, place


def lock(folder):
    """Keep everyone, the administrator too, from writing a cache beside the module."""
    (folder / "lib/__pycache__").write_text("a file, where a folder would have to be")


def test_what_is_compiled_is_loaded_until_a_compiled_file_changes(folder):
    place = str(folder / "lib/__pycache__")
    assert cache_of(folder) == (0, 1, place)
    (folder / "lib/other.py").write_text("x = 1")
    assert cache_of(folder) == (1, 0, place)
    helper = folder / "lib/helper.py"
    helper.write_text(helper.read_text().replace("x / 2", "x / 4"))
    assert cache_of(folder, 1.0) == (0, 1, place)


@pytest.mark.skipif(shutil.which("make") is None, reason="no make on this machine")
def test_make_compiles_once_also_where_two_do_and_again_when_it_has_changed(folder):
    for name in ("workflow", ".venv"):
        (folder / name).symlink_to(ROOT / name)

    def make(count):
        pipes = {"cwd": folder, "env": surroundings(folder), "stdout": subprocess.PIPE, "text": True}
        processes = [subprocess.Popen(MAKE, **pipes) for _ in range(count)]
        return [
            process.communicate(timeout=300)[0].startswith("compiling the kernels, once: ") for process in processes
        ]

    assert make(2) == [True, True]
    assert cache_of(folder)[:2] == (1, 0)
    assert make(1) == [False]
    helper, stamp = folder / "lib/helper.py", folder / "lib/__pycache__/compiled"
    helper.write_text(HELPER.replace("x / 2", "x / 4"))
    os.utime(helper, times=(stamp.stat().st_mtime + 1,) * 2)
    assert make(1) == [True]
    assert cache_of(folder, 1.0)[:2] == (1, 0)


def test_code_whose_argument_was_a_class_of_another_name_is_compiled_anew(folder):
    kernels = """
from typing import NamedTuple
from numba import float64
from ._compiled import compiled

class Pair(NamedTuple):
    left: float64
    right: float64

@compiled(Pair)
def total(pair):
    return pair.left + pair.right
"""
    for name in ("Pair", "Couple"):
        (folder / "lib/kernels.py").write_text(kernels.replace("Pair", name))
        assert run(folder, f"from lib.kernels import *; print(total({name}(1.0, 2.0)))") == "3.0\n"


def test_damaged_files_of_the_cache_are_made_again(folder):
    place = str(folder / "lib/__pycache__")
    cache_of(folder)
    for kind in ("nbi", "nbc"):
        for path in Path(place).glob(f"*.{kind}"):
            path.write_bytes(path.read_bytes()[:50])
        assert cache_of(folder) == (0, 1, place)
        assert cache_of(folder) == (1, 0, place)


def test_it_compiles_whatever_numba_is_told_and_whatever_an_editor_leaves(folder):
    (folder / "lib/.#kernels.py").symlink_to("user@machine.123")
    assert cache_of(folder, NUMBA_DISABLE_JIT="1")[:2] == (0, 1)
    assert cache_of(folder)[:2] == (1, 0)


@pytest.mark.parametrize("name", ["NUMBA_CACHE_DIR", "HOME"])
def test_where_the_folder_cannot_be_written_another_keeps_it(folder, name):
    lock(folder)
    other = {name: str(folder / "other")}
    assert cache_of(folder, **other)[:2] == (0, 1)
    hits, _, place = cache_of(folder, **other)
    assert hits == 1
    assert Path(place).is_relative_to(folder / "other")


def test_where_none_can_be_written_it_compiles_without(folder):
    lock(folder)
    assert cache_of(folder) == (0, 1, None)


def test_a_warning_before_the_first_compilation(folder):
    again = KERNELS.partition("\n\n")[2].replace("sum_of_halves", "again")
    (folder / "lib/kernels.py").write_text(KERNELS + again)
    assert run(folder, "from lib import kernels", "stderr") == ""
    everything = "from lib import kernels; from lib._compiled import compile_all; compile_all()"
    assert run(folder, everything, "stderr").count("compiling the loops of the library") == 1
    assert run(folder, everything, "stderr") == ""


COMPILE = """
import importlib, pathlib
from lib import _compiled
root = pathlib.Path(_compiled.__file__).parents[1]
for path in root.glob("lib/**/*.py"):
    if "\\n@compiled(" in path.read_text("utf-8"):
        importlib.import_module(".".join(path.relative_to(root).with_suffix("").parts))
_compiled.compile_all()
"""
ROUNDING = """
import hashlib, sys, numpy
from ._compiled import compiled

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
    (folder / "lib/kernels.py").write_text(ROUNDING)
    seen = {run(folder, "from lib import kernels", NUMBA_CPU_NAME=name) for name in ("nehalem", "skylake-avx512")}
    assert len(seen) == 1


def test_nothing_is_left_to_compile_when_the_library_is_used():
    known = os.environ | {
        "NUMBA_DEBUG_CACHE": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests/lib")]),
    }
    for code in (COMPILE, "import entries; entries.entries()"):
        command = [sys.executable, "-c", code]
        said = subprocess.run(command, env=known, capture_output=True, text=True, check=True).stdout
    assert "data loaded" in said
    assert "data saved" not in said
