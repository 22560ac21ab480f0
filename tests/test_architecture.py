"""The arrows that ARCHITECTURE.md lists are those of the sources, and no module of the library imports in a circle."""

import ast
import re
from graphlib import TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("lib", "heads", "studies", "workflow", "benchmarks")


def imported(path):
    """Modules that a file imports, by their whole names."""
    here = path.relative_to(ROOT).parts[:-1]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            above = [*here[: len(here) + 1 - node.level], node.module] if node.level else [node.module]
            name = ".".join(filter(None, above))
            yield from [f"{name}.{alias.name}" for alias in node.names] if not node.module else [name]


def test_arrows_are_those_of_the_sources():
    listed = re.search(r"```arrows\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.DOTALL)[1]
    told = dict(line.split(" -> ") for line in listed.splitlines())
    found = {}
    for package in PACKAGES:
        names = {name.partition(".")[0] for path in (ROOT / package).rglob("*.py") for name in imported(path)}
        found[package] = ", ".join(sorted(names & set(PACKAGES) - {package}))
    assert told == {package: names for package, names in found.items() if names}


def test_no_module_imports_in_a_circle():
    paths = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in (ROOT / "lib").rglob("*.py")}
    modules = {name.removesuffix(".__init__"): path for name, path in paths.items()}
    graph = {name: {*imported(path)} & {*modules} for name, path in modules.items() if name != "lib"}
    assert sum(map(len, graph.values())) > 100
    TopologicalSorter(graph).prepare()  # CycleError
