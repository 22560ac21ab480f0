"""Bad parameters, files and make variables: each is one line that names what is wrong, and status 1."""

import os
import runpy
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.small_book import Book
from workflow import commands
from workflow.book import parameters
from workflow.book.catalogue import BookError
from workflow.commands import build

ROOT = Path(__file__).parents[1]
PAGE = "book/part/good.md"
ANOTHER = "format: jb-book\nroot: book/intro\nchapters:\n  - file: book/part/good\n  - file: book/other/good\n"
HALF_NOTEBOOK = nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]))[:100]


def line_of(name, *arguments):
    """Run a command of the workflow in this process, as make does in another; the line that it ends with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *arguments])
        with pytest.raises(SystemExit) as end:
            runpy.run_module(f"workflow.commands.{name}", run_name="__main__")
    return end.value.code


def refused(line, named):
    assert named in line
    assert "\n" not in line
    assert ": " in line  # and then the remedy


VALUES = {
    "sed=7": "unknown parameter sed", "seed=1.5": "seed=1.5", "seed=1e3": "seed=1000.0", "seed=True": "seed=True",
    "seed=seven": "seed='seven'", "seed=[1]": "seed=[1]", "seed=": "seed=''", "step=fast": "step='fast'",
    "step=1e999": "step=inf", "step=nan": "step='nan'", f"step=1{'0' * 400}": "step=inf", "exact=1": "exact=1",
    "exact=yes": "exact='yes'", f"exact={'[' * 9999}": "(10001 characters)", "seed": "'seed' has no value",
    "=7": "'=7' has no name", "seed=1 seed=2": "seed is given twice", "loss='a": "\"loss='a\"",
    f"seed={2**63}": f"seed={2**63}",
}  # fmt: skip


@pytest.mark.parametrize(("asked", "named"), VALUES.items(), ids=[asked[:20] for asked in VALUES])
def test_bad_value_of_a_parameter_is_named(inside, asked, named):
    refused(line_of("chapter", "good", "--params", asked), named)


LIST = ("exact: bool = False", "exact: list = [1]  # each whole, 1 to 9,\n# 1 to 2 of them")
CELL_OF_PARAMETERS = {
    "outside of a range": ("# how far", "# how far, 0.1 to seed * 2", "step=7", "step=7.0"),
    "at a bound that is not meant": ("# how far", "# how far, above 0", "step=0", "step=0.0"),
    "default that another value puts outside": ("# of nothing", "# at most step * 6", "step=.4", "seed=3"),
    "word that is no choice": ('"logistic"', '"logistic"  # or flat: of the loss', "loss=hinge", "loss='hinge'"),
    "entry of a list": (*LIST, "exact=[1,2.5]", "exact=[1, 2.5]"),
    "length of a list": (*LIST, "exact=[]", "exact=[]"),
    "bound that is no number": ("# of nothing", "# at least n", "", "seed has the bound 'n'"),
    "no type": ("seed: int = 3", "seed = 3", "", "'seed = 3'"),
    "default that is computed": ("seed: int = 3", "seed: int = 3 * 7", "", "seed is declared as int = 3 * 7"),
    "cell that does not parse": ("seed: int = 3", "seed: int = = 3", "", "line 1"),
    "no cell of parameters": (":tags: [parameters]\n", "", "seed=7", "unknown parameter seed"),
}


@pytest.mark.parametrize(("old", "new", "asked", "named"), CELL_OF_PARAMETERS.values(), ids=CELL_OF_PARAMETERS)
def test_bad_source_of_a_chapter_is_named(inside, old, new, asked, named):
    text = Path(PAGE).read_text()
    assert old in text
    Path(PAGE).write_text(text.replace(old, new))
    refused(line_of("chapter", "good", "--params", asked), named)


def test_a_chapter_that_quick_would_run_and_is_gone_is_named(inside):
    with pytest.raises(BookError, match=r"^QUICK=1 would run max-margin/lemma-1, which is not in _toc"):
        build.lay_out_part()


LEDGER, LOCK = "build/ledger.json", "book/ledger.lock.json"
STATEMENTS, NO_ROWS = "book/statements.yml", '{"claims": [], "environment": {"kinds": {}}}'
FILES = {
    "unknown chapter": ("chapter bad", {}, "'bad'"),
    "unknown page": ("page bad", {}, "'bad'"),
    "no claims of a run": ("ledger collect", {}, "build/claims/part/good.json"),
    "no ledger": ("ledger accept", {}, LEDGER),
    "chapter that the contents lack": ("chapter new", {"book/part/new.md": PAGE}, "new.md is not in _toc.yml: add"),
    "chapter that is not text": ("chapter good", {PAGE: b"\xff\xfe"}, f"{PAGE} cannot be read as text in UTF-8"),
    "two chapters": ("chapter good", {"book/other/good.md": PAGE, "_toc.yml": ANOTHER}, "part/good, other/good"),
    "no contents": ("chapter good", {"_toc.yml": None}, "_toc.yml cannot be read"),
    "empty contents": ("chapter good", {"_toc.yml": ""}, "_toc.yml cannot be read: toc is not"),
    "page that is not there": ("chapter good", {"_toc.yml": "root: book/lost\n"}, "there is no book/lost.md"),
    "no statements": ("list", {STATEMENTS: None}, f"{STATEMENTS} cannot be read"),
    "statements twice": ("list", {STATEMENTS: "papers: []\npapers: []\n"}, "'papers' stands there twice"),
    "statements that are a list": ("list", {STATEMENTS: "- papers\n"}, f"{STATEMENTS} lacks papers"),
    "item without a title": (
        "list",
        {STATEMENTS: "papers:\n  - {arxiv: 1, title: A, short: B, items: [{item: C}]}"},
        f"item 1 of paper 1 in {STATEMENTS} lacks title",
    ),
    "half a notebook": ("site", {"build/executed/part/good.ipynb": HALF_NOTEBOOK}, "part/good.ipynb is half written"),
    "half a ledger": ("ledger compare", {LEDGER: '{"cl'}, f"{LEDGER} is half written"),
    "lock in conflict": ("ledger compare", {LEDGER: NO_ROWS, LOCK: "<<<<<<< HEAD\n"}, f"{LOCK} is not JSON"),
}  # fmt: skip


@pytest.mark.parametrize(("command", "files", "named"), FILES.values(), ids=FILES)
def test_bad_file_is_named(inside, command, files, named):
    for path, text in files.items():
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if text is None:
            path.unlink()
        elif text == PAGE:
            path.write_bytes(Path(PAGE).read_bytes())
        else:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
    refused(line_of(*command.split()), named)


@pytest.mark.parametrize(
    ("name", "text"),
    [("RECORD", "yes"),
     *(("THREADS", text) for text in ("two", "0", "-2", "٣", "100000", "9" * 5000)),
     *(("TIMEOUT", text) for text in ("soon", "-1", "0", "nan", "inf"))],
)  # fmt: skip
def test_a_variable_of_make_without_sense_is_named_with_a_remedy(monkeypatch, name, text):
    monkeypatch.setenv(name, text)
    with pytest.raises(SystemExit, match=f"^{name} is '{text}': (give|use) "):
        commands.check_variables()


VARIABLES = {
    "PARAMS of a chapter": ("chapter", {"NAME": "good", "PARAMS": "sed=7"}, "part/good: unknown parameter sed"),
    "QUICK": ("book", {"QUICK": "yes"}, "QUICK is 'yes'"),
    "PORT": ("serve", {"PORT": "70000"}, "PORT is '70000'"),
}  # fmt: skip


@pytest.mark.parametrize("text", ["- good", "good: fast"])
def test_parameters_of_chapters_are_blocks_of_values(inside, text):
    Path("list.yml").write_text(text)
    with pytest.raises(BookError, match=r"^list\.yml: write one block a chapter"):
        parameters.read("list.yml")


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The small book with the Makefile, scripts and environment of the project."""
    folder = tmp_path_factory.mktemp("made")
    Book(folder).add("good")
    for name in ("workflow", ".venv"):
        (folder / name).symlink_to(ROOT / name)
    return folder


@pytest.mark.parametrize(("target", "variables", "named"), VARIABLES.values(), ids=VARIABLES)
def test_bad_make_variable_is_one_line(made, target, variables, named):
    assigned = [f"{name}={value}" for name, value in variables.items()]
    command = ["make", "-f", ROOT / "Makefile", "-o", ".venv/.installed", target, *assigned]
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(command, cwd=made, env=env, capture_output=True, text=True, timeout=120, check=False)
    (line,) = (line for line in done.stderr.splitlines() if not line.startswith("make: ***"))
    assert done.returncode
    refused(line, named)
    assert "Traceback" not in done.stdout
    assert not list((made / "build").rglob("*.ipynb"))
