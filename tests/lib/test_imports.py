"""The layers of the library: a module imports those above it in `LAYERS`, and none below."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("lib", "heads", "studies", "workflow")
LAYERS = [
    "_dtypes", "checks", "_signs", "_compiled", "losses", "geometry", "_rows", "_batch", "problem", "span", "logspace",
    "rules", "kernels", "svm", "_scale", "_hard_margin", "separators", "selection", "descent", "steepest", "flow",
    "_circles", "paths", "joint", "joint_paths", "published", "datasets", "intervals", "_glue", "_verdicts",
    "_row_checks", "ledger", "figures",
]  # fmt: skip
FILES = sorted(
    path.relative_to(ROOT / "lib") for path in (ROOT / "lib").rglob("*.py") if path != ROOT / "lib/__init__.py"
)
MODULES = sorted({path.with_suffix("").parts[0] for path in FILES})  # a package is one


def imported(source, dots=1):
    """Modules that a source imports with so many dots; AssertionError where it names a product."""
    modules = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            assert all(alias.name.split(".")[0] not in PACKAGES for alias in node.names), ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and not node.level:
            assert node.module.split(".")[0] not in PACKAGES, ast.unparse(node)
        if isinstance(node, ast.ImportFrom) and node.level == dots:
            modules |= {node.module.split(".")[0]} if node.module else {alias.name for alias in node.names}
    return modules


@pytest.mark.parametrize("file", FILES, ids=str)
def test_a_module_imports_only_layers_above_it(file):
    below = LAYERS[LAYERS.index(file.with_suffix("").parts[0]) :]
    assert imported((ROOT / "lib" / file).read_text("utf-8"), dots=len(file.parts)).isdisjoint(below)


def test_every_module_has_a_layer():
    assert sorted(LAYERS) == MODULES


@pytest.mark.parametrize(("package", "others"), [("lib", PACKAGES), ("heads", ("studies", "workflow"))])
def test_a_product_imports_no_product_that_rests_on_it(package, others):
    for path in (ROOT / package).rglob("*.py"):
        imports = [node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.ImportFrom)]
        assert not {node.module.partition(".")[0] for node in imports if not node.level} & {*others}, path
