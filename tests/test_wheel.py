"""`make wheel` gives a package that changes nothing for those who install it."""

import os
import shutil
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.processes import said

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
PACKAGES = {"attention_selects": "lib", "attention_heads": "heads"}
# What the extras bring, by the names of their modules where those differ.
MODULES = {"scikit-learn": "sklearn"}
EXTRAS = [
    Requirement(line).name
    for group in ("figures", "data", "models")
    for line in PROJECT["optional-dependencies"][group]
]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Wheel, made by the Makefile's own recipe in a copy of the files that it needs."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("Makefile", "pyproject.toml", "README.md", "LICENSE", "LICENSE-TEXT", "_config.yml"):
        shutil.copy(ROOT / name, folder)
    for name in (*PACKAGES.values(), "workflow"):
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    # As if the environment were there: this one is.
    command = ["make", "--old-file", ".venv/.installed", f"BIN={Path(sys.executable).parent}", "wheel"]
    said(*command, folder=folder)
    (path,) = (folder / "build/wheel").glob("*.whl")
    return path


@pytest.fixture(scope="module")
def project(wheel, tmp_path_factory):
    """Folder of a project that has a ``lib`` of its own, with the wheel unpacked beside it."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "lib").mkdir()
    (folder / "lib/__init__.py").write_text("whose = 'theirs'\n")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", "site"]
    said(*pip, wheel, folder=folder)
    return folder


def run(folder, code):
    """Run code in the folder, with ``site`` before this environment's packages; return what it prints."""
    return said(sys.executable, "-c", code, folder=folder, env=os.environ | {"PYTHONPATH": "site"}).split()


def test_wheel_names_nothing_but_its_packages_and_their_command(wheel):
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (scripts,) = (name for name in names if name.endswith("entry_points.txt"))
        (about,) = (name for name in names if name.endswith("METADATA"))
        assert "\nfrom attention_selects.problem import" in archive.read(about).decode(), "the README's example"
        assert "attention-selects = attention_heads.command:main" in archive.read(scripts).decode()
    assert {name.partition("/")[0].partition("-")[0] for name in names} == {*PACKAGES, "what_attention_selects"}
    for package, folder in PACKAGES.items():
        files = (path.relative_to(ROOT / folder) for path in (ROOT / folder).rglob("*.py"))
        modules = {name for name in names if name.startswith(f"{package}/")}
        assert modules == {f"{package}/{path.as_posix()}" for path in files}
    assert {Path(name).name for name in names} >= {"LICENSE", "LICENSE-TEXT"}


def test_wheel_needs_only_what_it_requires(project):
    """No module but that of figures needs an extra before it is used."""
    blocked = [MODULES.get(name, name) for name in EXTRAS]
    modules = [
        f"{package}.{path.stem}"
        for package, folder in PACKAGES.items()
        for path in [*(ROOT / folder).glob("*.py"), *(path.parent for path in (ROOT / folder).glob("*/__init__.py"))]
        if path.stem not in ("__init__", "figures")
    ]
    run(
        project,
        f"""
import importlib, sys
sys.modules |= dict.fromkeys({blocked})
for name in {modules}:
    importlib.import_module(name)
""",
    )


def test_examples_of_the_docstrings_name_the_packages(project):
    names = ["attention_heads.flips", "attention_heads.layers", "attention_selects.problem"]
    code = f"""
import doctest, importlib, torch
torch.set_default_dtype(torch.float64)
for name in {names}:
    print(*doctest.testmod(importlib.import_module(name)))
"""
    counts = [*map(int, run(project, code))]
    assert counts[::2] == [0, 0, 0]  # that failed
    assert min(counts[1::2]) > 0
