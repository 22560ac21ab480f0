"""The arrows that ARCHITECTURE.md lists are those of the sources."""

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("lib", "heads", "studies", "workflow", "benchmarks")


def imported(path):
    """Top-level packages that a module imports, its own by a relative import left out."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.partition(".")[0]


def test_arrows_are_those_of_the_sources():
    listed = re.search(r"```arrows\n(.*?)```", (ROOT / "ARCHITECTURE.md").read_text("utf-8"), re.DOTALL)[1]
    told = dict(line.split(" -> ") for line in listed.splitlines())
    found = {}
    for package in PACKAGES:
        names = {name for path in (ROOT / package).rglob("*.py") for name in imported(path)}
        found[package] = ", ".join(sorted(names & set(PACKAGES) - {package}))
    assert told == {package: names for package, names in found.items() if names}
