"""Machines that are set up in other ways: a user's settings change no run, and what cannot be is refused in a line."""

import errno
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nbformat
import pytest

from tests.processes import git, said
from tests.small_book import Book
from workflow import commands
from workflow.book import dependencies
from workflow.book.catalogue import BookError
from workflow.run import notebook
from workflow.run.engine import wait_for_turn
from workflow.site import downloads

ROOT = Path(__file__).parents[1]
FACTS = """import importlib.util, json, sys
facts = {"python": sys.executable, "started": "started" in globals(), "encoding": open(os.devnull).encoding,
         "foreign": importlib.util.find_spec("foreign") is not None, "threads": os.environ["OMP_NUM_THREADS"]}
json.dump(facts, open("facts.json", "w"))"""


def test_a_chapter_runs_in_this_interpreter_and_without_the_settings_of_its_user(book, tmp_path):
    kernel = tmp_path / "other/kernels/python3/kernel.json"
    kernel.parent.mkdir(parents=True)
    kernel.write_text(json.dumps({"argv": ["false", "{connection_file}"], "display_name": "", "language": "python"}))
    (tmp_path / "other/start.py").write_text("started = True\n")
    (tmp_path / "other/foreign.py").touch()
    long = tmp_path / ("long" * 25)
    long.mkdir()
    book.add("good", FACTS)
    path = os.pathsep.join([book.env()["PYTHONPATH"], str(tmp_path / "other")])
    given = {"JUPYTER_PATH": kernel.parents[2], "PYTHONSTARTUP": tmp_path / "other/start.py", "PYTHONPATH": path}
    given |= {"TMPDIR": long, "OMP_NUM_THREADS": "2,1", "PYTHONIOENCODING": "latin-1", "LC_ALL": "C", "THREADS": ""}
    done = book.script("chapter", "good", **{name: str(value) for name, value in given.items()})
    assert done.returncode == 0, done.stderr
    facts = json.loads((book.folder / "facts.json").read_text())
    assert facts.pop("encoding").lower() == "utf-8"
    assert facts == {"python": sys.executable, "started": False, "foreign": False, "threads": "2"}


def test_what_ipython_reads_for_the_whole_machine_is_refused(tmp_path, monkeypatch):
    (tmp_path / "etc/startup").mkdir(parents=True)
    (tmp_path / "etc/startup/README").touch()
    monkeypatch.setattr(notebook, "MACHINE_FOLDERS", (str(tmp_path / "etc"),))
    monkeypatch.setattr(os, "environ", dict(os.environ))
    (tmp_path / "a").mkdir()
    notebook.environment(str(tmp_path / "a"), "part/good")
    (tmp_path / "etc/startup/00.py").touch()
    with pytest.raises(BookError, match=r"00\.py would change [^\n]+: move it away"):
        notebook.environment(str(tmp_path / "b"), "part/good")


def test_sockets_lie_in_a_folder_with_a_short_path(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "gettempdir", lambda: "/" + "x" * 200)
    assert len(notebook.short_folder()) <= notebook.MAX_FOLDER
    monkeypatch.setattr(os, "access", lambda *_: False)
    with pytest.raises(BookError, match=r"^TMPDIR is '/x+', too long for a socket: [^\n]+$"):
        notebook.short_folder()


def test_a_cell_may_leave_so_many_pieces_and_so_much_output():
    piece = nbformat.v4.new_output("stream", text="x")
    assert notebook.too_much([piece] * notebook.MAX_PIECES) == ""
    assert "some may be lost" in notebook.too_much([piece] * (notebook.MAX_PIECES + 1))
    large = nbformat.v4.new_output("stream", text="x" * notebook.MAX_OUTPUT)
    assert "10 MB of output" in notebook.too_much([large])


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A small book that is a repository, in a folder that another repository ignores; the test stands there."""
    if not shutil.which("git"):
        pytest.skip("no git on this machine")
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    Book(tmp_path / "outer/book").add("good")
    (tmp_path / "outer/.gitignore").write_text("book\n")
    committed(tmp_path / "outer", ".gitignore")
    monkeypatch.chdir(tmp_path / "outer/book")
    return Path()


def committed(folder, path):
    git(folder, "init", "--quiet")
    git(folder, "add", path)
    git(folder, "commit", "--quiet", "-m", "All")


def test_a_commit_is_that_of_this_folder_or_unknown(repository, monkeypatch):
    assert dependencies.sources() == ("", [])
    committed(repository, ".")
    commit, changed = dependencies.sources()
    assert re.fullmatch(r"[0-9a-f]+ \d{4}-\d\d-\d\d", commit)
    assert changed == []
    monkeypatch.setenv("GIT_DIR", str(Path("../.git").resolve()))
    assert dependencies.sources() == (commit, [])
    if os.geteuid() == 0:  # as where a container mounts the folder of another user
        os.chown(".", 12345, -1)
        assert dependencies.sources() == (commit, [])
    monkeypatch.setenv("PATH", "")
    assert dependencies.sources() == ("", [])


def test_a_zip_says_which_commit_it_holds(repository, monkeypatch):
    Path("workflow/book").mkdir(parents=True, exist_ok=True)
    for name in (".gitattributes", "workflow/book/dependencies.py"):
        shutil.copy(ROOT / name, name)
    committed(repository, ".")
    commit = git(repository, "show", "-s", "--format=%H %cs").strip()
    assert f'ARCHIVED = "{commit}"' in git(repository, "archive", "HEAD", "workflow")
    monkeypatch.chdir("..")
    monkeypatch.setattr(dependencies, "ARCHIVED", commit)
    assert dependencies.mark_commit().read_text("utf-8") == f"{commit[:10]} {commit[-10:]} from an archive\n"


def test_only_what_the_book_is_made_of_marks_it_with_changes(repository):
    committed(repository, ".")
    for name in ("results.csv", "lib/.DS_Store"):
        Path(name).touch()
    Path(".venv").symlink_to("/")
    assert dependencies.sources()[1] == []
    Path("lib/new.py").touch()
    Path("_toc.yml").write_text("root: book/intro\n")
    assert dependencies.sources()[1] == ["_toc.yml", "lib/new.py"]


@pytest.mark.parametrize("number", commands.REMEDIES)
def test_what_the_system_refuses_is_one_line_with_a_remedy(number, monkeypatch):
    def main():
        raise OSError(number, os.strerror(number), "build/x")

    monkeypatch.setattr(sys, "argv", ["chapter"])
    with pytest.raises(SystemExit, match=r"^chapter: build/x: [^:\n]+: [^:\n]+$"):
        commands.call(main)


def test_a_sign_that_a_terminal_lacks_is_replaced(book):
    code = "from workflow.commands import call; call(lambda: print('\\u2713 reproduced'))"
    env = book.env(PYTHONIOENCODING="latin-1")
    done = subprocess.run([sys.executable, "-c", code], cwd=book.folder, env=env, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"? reproduced\n")


def test_a_build_that_cannot_write_ends_before_anything_runs(inside, monkeypatch):
    def refuse(dir):
        raise OSError(errno.EROFS, "Read-only file system", str(dir))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    with pytest.raises(OSError, match="Read-only"):
        wait_for_turn()


@pytest.mark.skipif(not shutil.which("make") or not (ROOT / ".venv").exists(), reason="no make, or no environment")
def test_a_path_of_other_modules_does_not_reach_what_make_calls(inside, tmp_path):
    for name in ("workflow", ".venv"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "other").mkdir()
    (tmp_path / "other/yaml.py").write_text("raise SystemError\n")
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    command = ["make", "-f", ROOT / "Makefile", "-o", ".venv/.installed", "list"]
    env |= {"PYTHONPATH": str(tmp_path / "other"), "PYTHONHOME": "/nowhere"}
    assert said(*command, folder=tmp_path, env=env).startswith("part/good: ")


def test_binder_installs_the_lock_with_torch_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    downloads.binder(tmp_path / "binder")
    lines = (tmp_path / "binder/requirements.txt").read_text().splitlines()
    (torch,) = {*Path("requirements.lock").read_text().splitlines()} - {*lines}
    assert torch.startswith("torch==")
    assert f'--torch-backend cpu "{torch}"' in (tmp_path / "binder/postBuild").read_text()
    assert any(line.startswith("uv==") for line in lines)
