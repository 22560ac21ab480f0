"""The floors of the library: each module stands on those above it, and knows nothing of those below."""

import ast
import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FLOORS = [
    "checks", "_compiled", "losses", "geometry", "problem", "span", "logspace", "kernels", "_least_distance",
    "_interior_point", "_least_norm", "_matrix_norms", "separators", "factored", "selection", "descent", "steepest",
    "flow", "paths", "joint", "joint_paths", "published", "datasets", "archives", "networks", "weights", "layers",
    "files",
    "intervals", "ledger", "figures", "examination",
]  # fmt: skip
KERNELS = [
    "llvm",
    "elementary",
    "losses",
    "arrays",
    "trial",
    "lanes",
    "descent",
    "joint",
    "plane",
    "reader",
]  # likewise
MODULES = sorted(path.stem for path in (ROOT / "lib").glob("*.py") if path.stem != "__init__")


def imported(source, level=1):
    """Modules that a source imports from its package, or one above; AssertionError where it names the library."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] != "lib" for alias in node.names), ast.unparse(node)
        if isinstance(node, ast.ImportFrom):
            assert node.level or (node.module.split(".")[0] != "lib" and not node.level), ast.unparse(node)
            if node.level == level:
                found |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return found


@pytest.mark.parametrize("module", MODULES)
def test_a_module_stands_on_those_above_it(module):
    below = FLOORS[FLOORS.index(module) :]
    assert imported((ROOT / f"lib/{module}.py").read_text("utf-8")).isdisjoint(below)


@pytest.mark.parametrize("module", KERNELS)
def test_a_module_of_the_kernels_stands_on_those_above_it(module):
    source = (ROOT / f"lib/kernels/{module}.py").read_text("utf-8")
    of_package, of_library = imported(source), imported(source, 2)
    assert of_package.isdisjoint(KERNELS[KERNELS.index(module) :])
    assert of_library.isdisjoint(FLOORS[FLOORS.index("kernels") :])


@pytest.mark.parametrize("line", ["import lib.problem", "from lib import checks", "from lib.problem import Problem"])
def test_an_absolute_import_is_seen(line):
    with pytest.raises(AssertionError):
        imported(f"def late():\n    {line}\n")


def test_the_library_pages_have_the_public_modules_in_that_order():
    toc = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))["parts"]
    pages = next(page["sections"] for part in toc for page in part["chapters"] if page["file"] == "book/library")
    texts = [(ROOT / f"{page['file']}.md").read_text("utf-8") for page in pages]
    listed = [name for text in texts for name in re.findall(r"automodule:: lib\.(\w+)", text)]
    assert listed == [floor for floor in FLOORS if floor != "checks" and not floor.startswith("_")]
    overview = re.findall(r"\{doc\}`library/([\w-]+)`", (ROOT / "book/library.md").read_text("utf-8"))
    assert [name.replace("-", "_") for name in overview] == listed


def test_every_module_has_its_floor():
    assert sorted(FLOORS) == sorted([*MODULES, "kernels"])
    assert sorted(KERNELS) == sorted(path.stem for path in (ROOT / "lib/kernels").glob("[!_]*.py"))
