"""pyproject.toml, requirements.lock, environment.yml and what is installed name the same versions."""

import tomllib
from importlib.metadata import distributions
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
GROUPS = PROJECT["optional-dependencies"]
DIRECT = [Requirement(line) for line in sum(GROUPS.values(), PROJECT["dependencies"])]
LOCK = [
    Requirement(line)
    for line in (ROOT / "requirements.lock").read_text("utf-8").splitlines()
    if not line.startswith("#")
]


def pins(requirements):
    """Return canonical name -> version of requirements that are all of the form ``name==version``."""
    found = {}
    for requirement in requirements:
        (specifier,) = requirement.specifier
        assert specifier.operator == "==", f"{requirement} is not pinned"
        found[canonicalize_name(requirement.name)] = specifier.version
    return found


def test_lock_pins_every_package_once():
    assert len(pins(LOCK)) == len(LOCK)


@pytest.mark.parametrize("requirement", DIRECT, ids=lambda requirement: requirement.name)
def test_direct_dependency_is_locked_at_a_version_that_pyproject_allows(requirement):
    locked = pins(LOCK)[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(locked), f"{requirement} against the lock's {locked}"


def test_environment_yml_names_the_same_versions():
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    (lines,) = (entry["pip"] for entry in dependencies if isinstance(entry, dict))
    assert lines[:2] == ["-c requirements.lock", f"-e .[{','.join(GROUPS)}]"]
    named = pins(Requirement(line) for line in lines[2:])
    locked = pins(LOCK)
    assert named == {name: locked[name] for name in (canonicalize_name(direct.name) for direct in DIRECT)}


def test_environment_yml_takes_a_python_that_pyproject_allows():
    dependencies = yaml.safe_load((ROOT / "environment.yml").read_text("utf-8"))["dependencies"]
    (python,) = (entry.partition("=")[2] for entry in dependencies if str(entry).startswith("python="))
    assert Requirement(f"python{PROJECT['requires-python']}").specifier.contains(python)


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
