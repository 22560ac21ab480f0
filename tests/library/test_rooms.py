"""The floors of the library: each module stands on those above it, and knows nothing of those below."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FLOORS = [
    "checks", "_compiled", "losses", "geometry", "problem", "span", "logspace", "kernels", "_least_distance",
    "_interior_point", "_least_norm", "_matrix_norms", "separators", "factored", "selection", "descent", "steepest",
    "flow", "paths", "joint", "joint_paths", "published", "datasets", "archives", "networks", "intervals", "ledger",
    "figures", "weights", "layers", "files", "examination",
]  # fmt: skip
MODULES = sorted(path.stem for path in (ROOT / "lib").glob("*.py") if path.stem != "__init__")


def imported(source):
    """Modules of the library that a source imports; AssertionError where it names the package itself."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] != "lib" for alias in node.names), ast.unparse(node)
        if isinstance(node, ast.ImportFrom):
            assert node.level == 1 or (node.module.split(".")[0] != "lib" and not node.level), ast.unparse(node)
            if node.level:
                found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("module", MODULES)
def test_a_module_stands_on_those_above_it(module):
    below = FLOORS[FLOORS.index(module) :]
    assert imported((ROOT / f"lib/{module}.py").read_text("utf-8")).isdisjoint(below)


@pytest.mark.parametrize("line", ["import lib.problem", "from lib import checks", "from lib.problem import Problem"])
def test_an_absolute_import_is_seen(line):
    with pytest.raises(AssertionError):
        imported(f"def late():\n    {line}\n")


def test_overview_and_pages_have_the_public_modules_in_that_order():
    overview = (ROOT / "book/library.md").read_text("utf-8")
    pages = [(ROOT / f"book/{page}.md").read_text("utf-8") for page in re.findall(r"\{doc\}`(library/.+?)`", overview)]
    listed = [name for text in pages for name in re.findall(r"automodule:: lib\.(\w+)", text)]
    assert listed == [floor for floor in FLOORS if floor not in ("checks", "kernels") and not floor.startswith("_")]
    assert re.findall(r"\{py:mod\}`~lib\.(\w+)`", overview) == listed


def test_every_module_has_its_floor():
    assert sorted(FLOORS) == MODULES
