"""What is compiled is compiled once, before the work of make begins, and again when its source has changed."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
STAMP = "lib/__pycache__/compiled"
KERNELS = """
from . import _compiled
from ._compiled import compiled

@compiled("float64(float64)")
def half(x):
    return x / 2

def compile_all():
    _compiled.compile_all()
"""
CALL = """
from lib.kernels import half
stats = half.__wrapped__.stats
print(half(3.0), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


@pytest.fixture
def folder(tmp_path):
    """A project with a library of one compiled function, in the environment of this one; nothing is kept elsewhere."""
    for name in ("workflow", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib/kernels.py").write_text(KERNELS)
    (tmp_path / "lib/__init__.py").write_text("")
    shutil.copy(ROOT / "lib/_compiled.py", tmp_path / "lib")
    return tmp_path


def run(folder, *command):
    """Start a command in the folder."""
    env = {name: value for name, value in os.environ.items() if not name.startswith(("NUMBA_", "XDG_", "MAKE"))}
    return subprocess.Popen(
        command, cwd=folder, env=env | {"HOME": os.devnull}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def said(process):
    """What a process wrote, once it has ended well."""
    out, error = process.communicate(timeout=300)
    assert process.returncode == 0, out + error
    return out


def make(folder, *arguments):
    return run(folder, "make", "-f", ROOT / "Makefile", "-o", ".venv/.installed", *arguments)


def answer(folder):
    """What the function says, and how often it was loaded and compiled for that."""
    return said(run(folder, sys.executable, "-c", CALL)).split()


def test_it_is_compiled_once_also_by_two_at_once_and_again_when_it_has_changed(folder):
    for process in [make(folder, STAMP), make(folder, STAMP)]:
        assert said(process).startswith("compiling the kernels, once: ")
    assert answer(folder) == ["1.5", "1", "0"]
    assert "compiling" not in said(make(folder, STAMP))
    source, stamp = folder / "lib/kernels.py", folder / STAMP
    source.write_text(KERNELS.replace("x / 2", "x / 4"))
    os.utime(source, times=(stamp.stat().st_mtime + 1,) * 2)
    assert said(make(folder, STAMP)).startswith("compiling the kernels, once: ")
    assert answer(folder) == ["0.75", "1", "0"]


def test_what_make_starts_keeps_bytecode_whatever_the_user_says(tmp_path):
    (tmp_path / "makefile").write_text(f"include {ROOT}/Makefile\nshow:\n\t@env\n")
    environment = said(run(tmp_path, "env", "PYTHONDONTWRITEBYTECODE=1", "QUICK=", "make", "show"))
    assert "QUICK=\n" in environment
    assert "PYTHONDONTWRITEBYTECODE" not in environment
