"""The lock, pyproject.toml and what is installed belong together."""

import os
import re
import shutil
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
ENTRIES = [
    entry
    for entry in re.split(r"\n(?=\S)", (ROOT / "requirements.lock").read_text("utf-8"))
    if not entry.startswith("#")
]
LOCK = [Requirement(entry.splitlines()[0].removesuffix("\\")) for entry in ENTRIES]
PYTHONS = [f"3.{minor}" for minor in range(install.OLDEST[1], install.NEWEST[1] + 1)]


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


def test_lock_has_what_its_packages_ask_for():
    """Installed is nothing else; that it is so for other Pythons and systems is seen by CI, which runs this there."""
    said(sys.executable, "-m", "pip", "check")


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


def test_all_but_torch_is_locked_with_hashes():
    """Of torch each index has builds of its own."""
    assert [entry.partition("==")[0] for entry in ENTRIES if "--hash=sha256:" not in entry] == ["torch"]


def test_python_finds_lib_from_any_folder_once_it_was_told_of_it(tmp_path):
    said(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv")
    python = tmp_path / "venv/bin/python"
    said(python, "-c", "from workflow.setup.install import link; link()", folder=ROOT)
    code = "import importlib.util as u; print(u.find_spec('lib').origin)"
    assert said(python, "-c", code, folder=tmp_path) == f"{ROOT / 'lib/__init__.py'}\n"


def test_an_environment_that_was_moved_or_has_no_pip_is_made_anew(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    said(sys.executable, "-m", "venv", "--without-pip", "made")
    assert not install.works("made")
    next(Path("made").glob("lib/*/site-packages")).joinpath("pip.py").touch()
    assert install.works("made")
    assert not install.works(Path("made").rename("moved"))


def test_of_a_users_settings_for_pip_those_count_that_say_how_packages_are_reached(tmp_path, monkeypatch):
    text = "[global]\nindex-url = file:///a\nfind-links =\n  /b\n  /c\n[install]\nuser = true\nindex-url = file:///d\n"
    (tmp_path / "pip.conf").write_text(text)
    given = {
        "CONFIG_FILE": tmp_path / "pip.conf",
        "USER": 1,
        "TARGET": "x",
        "REQUIRE_HASHES": 1,
        "QUIET": 1,
        "RETRIES": 5,
    }
    for name, value in given.items():
        monkeypatch.setenv(f"PIP_{name}", str(value))
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    kept = {name: " ".join(value.split()) for name, value in install.settings(sys.executable).items()}
    wanted = {"INDEX_URL": "file:///d", "FIND_LINKS": "/b /c", "RETRIES": "5", "CONFIG_FILE": os.devnull}
    assert kept.items() >= {f"PIP_{name}": value for name, value in wanted.items()}.items()
    assert not kept.keys() & {"PIP_USER", "PIP_TARGET", "PIP_REQUIRE_HASHES"}


def test_what_cannot_be_imported_is_named_with_a_remedy(monkeypatch):
    monkeypatch.setattr(install, "IMPORTED", ["re", "no_such_module"])
    with pytest.raises(SystemExit, match=r"^environment: no_such_module cannot be imported \(.*\): delete "):
        install.imports()


@pytest.mark.parametrize(("gpu", "fails"), [(True, False), (True, True), (False, False)])
def test_torch_comes_as_a_cpu_build_where_pip_would_bring_the_other(monkeypatch, gpu, fails):
    called = []
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(install, "asks_for_gpu", lambda pip: gpu)
    monkeypatch.setattr(install, "follow", lambda command, log: called.append(command) or fails * ("cpu" in command))
    assert install.install_torch(["bin/python"], "torch==2", None) == 0
    assert [command[0] for command in called] == ["bin/uv"] * gpu + ["bin/python"] * (fails or not gpu)


@pytest.fixture
def make(tmp_path):
    """A function that calls make in a folder with the Makefile and a lock, with variables in its surroundings."""
    if not shutil.which("make"):
        pytest.skip("no make on this machine")
    (tmp_path / "Makefile").write_text(
        f"include {ROOT / 'Makefile'}\nshow:\n\t@echo '$(NAME)'$$NAME $(PORT)\nall:\n\t@env\n"
    )
    (tmp_path / "requirements.lock").write_text("a==1\n")
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    return lambda *words, folder=tmp_path, **variables: said("make", *words, folder=folder, env=env | variables)


def test_make_installs_where_lock_place_or_python_changed_whatever_the_dates(make, tmp_path):
    python, lock, moved = tmp_path / ".venv/bin/python", tmp_path / "requirements.lock", tmp_path.with_name("moved")

    def installs(folder=tmp_path):
        return "workflow.setup.install" in make("PYTHON=echo", ".venv/.installed", folder=folder)

    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    assert [installs(), installs()] == [True, False]
    lock.write_text("a==2\n")
    os.utime(lock, (0, 0))
    assert [installs(), installs()] == [True, False]
    shutil.copytree(tmp_path, moved, symlinks=True)
    assert [installs(moved), installs(moved)] == [True, False]
    python.unlink()
    assert installs()


def test_variables_of_make_come_from_its_command_line_alone(make):
    assert make("show", NAME="DESKTOP-7Q2", PORT="5432") == " 8000\n"
    assert make("show", "NAME=one", "PORT=1") == "oneone 1\n"


def test_what_make_starts_keeps_bytecode_whatever_the_user_says(make):
    assert "PYTHONDONTWRITEBYTECODE" not in make("all", PYTHONDONTWRITEBYTECODE="1")


@pytest.mark.parametrize("version", [(3, 9, 18), (3, install.NEWEST[1] + 1, 0)])
def test_python_that_is_too_old_or_too_new_is_refused_with_a_remedy(version, monkeypatch):
    monkeypatch.setattr(sys, "version_info", version)
    said = f"Python {PYTHONS[0]} to {PYTHONS[-1]} is needed; {sys.executable} is 3.{version[1]}: name another one"
    with pytest.raises(SystemExit, match=f"^{re.escape(said)}"):
        install.main("nowhere")
