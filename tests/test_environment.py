"""The lock, pyproject.toml and what is installed belong together."""

import re
import sys
import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.processes import said
from workflow.setup import install

ROOT = Path(__file__).parents[1]

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
GROUPS = PROJECT["optional-dependencies"]
DIRECT = [Requirement(line) for line in sum(GROUPS.values(), PROJECT["dependencies"])]
LOCK = [
    Requirement(line)
    for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
PYTHONS = [f"3.{minor}" for minor in range(install.OLDEST[1], install.NEWEST[1] + 1)]
ASKED = {
    canonicalize_name(distribution.name): [Requirement(line) for line in distribution.requires or []]
    for distribution in distributions()
}


def pins(requirements):
    """Canonical name -> version of requirements that are all of the form ``name==version``."""
    versions = {}
    for requirement in requirements:
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", f"{requirement} is not pinned"
        versions[canonicalize_name(requirement.name)] = specifier.version
    return versions


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda requirement: requirement.name)
def test_direct_dependency_is_locked_at_a_version_that_pyproject_allows(requirement):
    locked = pins(LOCK)[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(locked), f"{requirement} against the lock's {locked}"


@pytest.mark.parametrize("python", PYTHONS)
@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_lock_has_what_its_packages_ask_for(python, system):
    """Requirements of what is installed here, evaluated for another Python and system, are pinned there too."""
    place = {"python_version": python, "python_full_version": f"{python}.9", "sys_platform": system, "extra": ""}
    place |= {"platform_system": system.capitalize(), "os_name": "posix", "implementation_name": "cpython"}
    locked = {canonicalize_name(pin.name) for pin in LOCK if not pin.marker or pin.marker.evaluate(place)}
    missing = [
        f"{requirement} of {name}"
        for name, asked in ASKED.items()
        for requirement in asked
        if name in locked and (not requirement.marker or requirement.marker.evaluate(place))
        if canonicalize_name(requirement.name) not in locked
    ]
    gpu = ("nvidia", "cuda", "triton")
    assert not [line for line in missing if not line.startswith(gpu)], "run make lock"


def test_lock_names_no_gpu_package_and_no_build_of_one_machine():
    for name, version in pins(LOCK).items():
        assert not name.startswith(("nvidia", "cuda", "triton", "pytorch-triton")), f"{name} is for GPUs"
        assert Version(version).local is None, f"{name}=={version} is a build that only some indexes offer"


def test_installed_versions_are_those_of_the_lock():
    locked, wrong = pins(LOCK), []
    for distribution in distributions():
        name = canonicalize_name(distribution.name)
        if name in locked and Version(distribution.version).public != Version(locked[name]).public:
            wrong.append(f"{name} {distribution.version}, lock {locked[name]}")
    assert not wrong, f"run make again, or install anew: {'; '.join(wrong)}"


def test_python_finds_lib_from_any_folder_once_it_was_told_of_it(tmp_path):
    said(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    said(python, "-m", "workflow.setup.install", folder=ROOT)
    code = "import importlib.util as u; print(u.find_spec('lib').origin)"
    assert said(python, "-c", code, folder=tmp_path) == f"{ROOT / 'lib/__init__.py'}\n"


def test_python_finds_the_lib_of_its_folder_under_a_new_name(tmp_path):
    for name in ("workflow", "lib"):
        Path(tmp_path / "old").mkdir(exist_ok=True)
        (tmp_path / "old" / name).symlink_to(ROOT / name)
    said(sys.executable, "-m", "venv", "--without-pip", tmp_path / "old/.venv")
    said(tmp_path / "old/.venv/bin/python", "-m", "workflow.setup.install", folder=tmp_path / "old")
    (tmp_path / "old").rename(tmp_path / "new")
    python, code = tmp_path / "new/.venv/bin/python", "import importlib.util as u; print(u.find_spec('lib').origin)"
    said(python, "-m", "workflow.setup.install", "--moved", folder=tmp_path / "new")
    assert said(python, "-c", code, folder="/") == f"{tmp_path / 'new/lib/__init__.py'}\n"
    (tmp_path / "other").mkdir()
    (tmp_path / "other/workflow").symlink_to(ROOT / "workflow")
    said(python, "-m", "workflow.setup.install", "--moved", folder=tmp_path / "other")  # which is not its folder
    assert said(python, "-c", code, folder="/") == f"{tmp_path / 'new/lib/__init__.py'}\n"


def test_an_extra_is_left_alone_where_it_is_installed_and_one_line_where_it_cannot_be(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    install.install_extra("lab", "json")
    (tmp_path / "pyproject.toml").write_text('project.optional-dependencies.lab = ["./nowhere"]\n')
    (tmp_path / "requirements.lock").touch()
    with pytest.raises(SystemExit, match=r"^environment: no_such_module was not installed, pip ended with status 1$"):
        install.install_extra("lab", "no_such_module")


@pytest.mark.parametrize("version", [(3, 9, 18), (3, install.NEWEST[1] + 1, 0)])
def test_python_that_is_too_old_or_too_new_is_refused_with_a_remedy(version, monkeypatch):
    monkeypatch.setattr(sys, "version_info", version)
    said = f"Python {PYTHONS[0]} to {PYTHONS[-1]} is needed; {sys.executable} is 3.{version[1]}: name another one"
    with pytest.raises(SystemExit, match=f"^{re.escape(said)}"):
        install.main("nowhere", "nowhere/stamp")
