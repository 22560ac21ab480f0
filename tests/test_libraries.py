"""Libraries with one changed file: what of them is compiled anew, and that the change is what runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workflow.run.libraries import affected, lay_out

ROOT = Path(__file__).parents[1]

TEXT = """
from ._compiled import compiled


@compiled("f8(f8)")
def least(x):
    return x + 1.0


@compiled("f8(f8)")
def other(x):
    return x * 2.0


@compiled("f8(f8)")
def most(x):
    return 10.0 * least(x)


def show(x):
    return [least(x), other(x), most(x)]
"""
SHOW = """
import sys
sys.path.insert(0, sys.argv[1])
sys.dont_write_bytecode = True
from lib import numbers
shown = numbers.show(1.0)
found = [sum(getattr(numbers, name).stats.cache_hits.values()) > 0 for name in ("least", "other", "most")]
print(shown, found)
"""


@pytest.fixture
def project(tmp_path, monkeypatch):
    """A project whose library has one compiled module, compiled."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    Path("lib").mkdir()
    Path("lib/__init__.py").touch()
    shutil.copy(ROOT / "lib/_compiled.py", "lib")
    Path("lib/numbers.py").write_text(TEXT)
    assert show(tmp_path).startswith("[2.0, 2.0, 20.0]")
    assert show(tmp_path) == "[2.0, 2.0, 20.0] [True, True, True]"
    subprocess.run([sys.executable, "-m", "compileall", "-q", "lib"], check=True)
    return tmp_path


def show(folder):
    done = subprocess.run([sys.executable, "-c", SHOW, folder], capture_output=True, text=True, env=os.environ)
    return done.stdout.strip() or done.stderr


@pytest.mark.parametrize(
    ("old", "new", "shown"),
    [
        ("x + 1.0", "x - 1.0", "[0.0, 2.0, 0.0] [False, True, False]"),
        ("x + 1.0", "x + 1.0 + 1.0", "[3.0, 2.0, 30.0] [False, True, False]"),
        ("return x + 1.0", "y = x\n    return y", "[1.0, 2.0, 10.0] [False, False, False]"),
        ("10.0 *", "20.0 *", "[2.0, 2.0, 40.0] [True, True, False]"),
        ("def show", "x = 1\n\n\ndef show", "[2.0, 2.0, 20.0] [False, False, False]"),
    ],
)
def test_what_changes_is_compiled_and_nothing_else(project, old, new, shown):
    place = lay_out(project / "slot", "numbers.py", TEXT.replace(old, new))
    assert show(place) == shown
    assert lay_out(project / "slot", "numbers.py", TEXT.replace(old, new)) == place
    assert show(place) == shown.partition("]")[0] + "] [True, True, True]"  # kept for the mutant's next chapter
    assert show(lay_out(project / "slot")) == "[2.0, 2.0, 20.0] [True, True, True]"
    assert show(project) == "[2.0, 2.0, 20.0] [True, True, True]"


def test_a_file_that_was_changed_before_is_the_projects_again(project):
    shutil.copy("lib/numbers.py", "lib/more.py")
    changed = TEXT.replace("x + 1.0", "x - 1.0")
    assert show(lay_out(project / "slot", "numbers.py", changed)).startswith("[0.0, 2.0, 0.0]")
    assert show(lay_out(project / "slot", "more.py", changed)) == "[2.0, 2.0, 20.0] [True, True, True]"


def test_callers_of_callers_are_affected():
    text = "def a():\n    pass\ndef b():\n    a()\ndef c():\n    b()\ndef d():\n    pass\n"
    assert affected(text, text) == set()
    assert affected(text, text.replace("pass\ndef b", "return 1\ndef b")) == {"a", "b", "c"}
    assert affected(text, f"{text}x = 1\n") == {"a", "b", "c", "d"}
    assert affected(text, f"{text}def e():\n    c()\n") == {"e"}
