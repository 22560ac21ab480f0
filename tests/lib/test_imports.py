"""The library imports no product, and a product none that rests on it; no module of the library imports in a circle."""

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def imported(path):
    """Modules that a file imports, by their whole names."""
    here = ".".join(path.relative_to(ROOT).parts[:-1]).split(".")
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            above = [*here[: len(here) + 1 - node.level], node.module] if node.level else [node.module]
            name = ".".join(filter(None, above))
            yield from [f"{name}.{alias.name}" for alias in node.names] if not node.module else [name]


@pytest.mark.parametrize(("package", "others"), [("lib", ("heads", "studies")), ("heads", ("studies",))])
def test_a_product_imports_no_product_that_rests_on_it(package, others):
    for path in (ROOT / package).rglob("*.py"):
        assert not {name.partition(".")[0] for name in imported(path)} & {*others, "workflow"}, path


def test_no_module_imports_in_a_circle():
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / "lib").rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph = {name: {*imported(path)} & {*modules} for name, path in modules.items() if name != "lib"}
    assert sum(map(len, graph.values())) > 100
    TopologicalSorter(graph).prepare()  # CycleError
