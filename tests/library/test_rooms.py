"""The floors of the library: each module stands on those above it, and knows nothing of those below."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOORS = [
    "checks", "_signs", "_compiled", "losses", "geometry", "_rows", "problem", "span", "logspace", "kernels",
    "svm", "separators", "factored", "selection", "descent", "steepest",
    "flow", "paths", "joint", "joint_paths", "published", "_sentences", "datasets", "archives", "networks",
    "intervals", "_glue", "_verdicts", "ledger", "figures", "models",
]  # fmt: skip
KERNELS = [
    "llvm", "elementary", "losses", "arrays", "trial", "lanes", "descent", "joint", "plane", "reader",
]  # fmt: skip
PRIVATE = ("checks", "_signs", "_compiled", "_rows", "kernels", "svm", "_sentences", "_glue", "_verdicts")  # no page
FILES = sorted(
    path.relative_to(ROOT / "lib") for path in (ROOT / "lib").rglob("*.py") if path != ROOT / "lib/__init__.py"
)
MODULES = sorted({path.with_suffix("").parts[0] for path in FILES})  # a package is one


def imported(source, dots=1):
    """Modules that a source imports with so many dots; AssertionError where it names the library itself."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] != "lib" for alias in node.names), ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module.split(".")[0] != "lib", ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and node.level == dots:
            found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_module_stands_on_those_above_it(file):
    below = FLOORS[FLOORS.index(file.with_suffix("").parts[0]) :]
    assert imported((ROOT / "lib" / file).read_text("utf-8"), dots=len(file.parts)).isdisjoint(below)


@pytest.mark.parametrize("module", KERNELS)
def test_a_module_of_the_kernels_stands_on_those_above_it(module):
    source = (ROOT / f"lib/kernels/{module}.py").read_text("utf-8")
    assert imported(source).isdisjoint(KERNELS[KERNELS.index(module) :])


@pytest.mark.parametrize("line", ["import lib.problem", "from lib import checks", "from lib.problem import Problem"])
def test_an_absolute_import_is_seen(line):
    with pytest.raises(AssertionError):
        imported(f"def late():\n    {line}\n")


def test_overview_and_pages_have_the_public_modules_in_that_order():
    overview = (ROOT / "book/library.md").read_text("utf-8")
    pages = [(ROOT / f"book/{page}.md").read_text("utf-8") for page in re.findall(r"\{doc\}`(library/.+?)`", overview)]
    listed = [name for text in pages for name in re.findall(r"automodule:: lib\.(\w+)", text)]
    assert listed == [floor for floor in FLOORS if floor not in PRIVATE]
    assert re.findall(r"\{py:mod\}`~lib\.(\w+)`", overview) == listed


def test_every_module_has_its_floor():
    assert sorted(FLOORS) == MODULES
    assert sorted(KERNELS) == sorted(path.stem for path in (ROOT / "lib/kernels").glob("[!_]*.py"))
