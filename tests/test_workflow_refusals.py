"""Bad parameters, files and make variables: each is one line that names the value and the remedy, and status 1."""

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from test_workflow import Book

ROOT = Path(__file__).parents[1]
PAGE = "book/part/good.md"
ANOTHER = "format: jb-book\nroot: book/intro\nchapters:\n  - file: book/part/good\n  - file: book/other/good\n"


@pytest.fixture
def book(tmp_path, monkeypatch):
    """A small book of one chapter, in which the test stands."""
    monkeypatch.chdir(tmp_path)
    return Book(tmp_path).add("good")


def write(path, text):
    """Return what makes this file of a book."""

    def change(book):
        (book.folder / path).parent.mkdir(parents=True, exist_ok=True)
        (book.folder / path).write_bytes(text if isinstance(text, bytes) else text.encode())

    return change


def swap(old, new, path=PAGE):
    """Return what replaces words of a file of a book, by default of its chapter."""

    def change(book):
        text = (book.folder / path).read_text()
        assert old in text
        (book.folder / path).write_text(text.replace(old, new))

    return change


def both(*changes):
    return lambda book: [change(book) for change in changes]


def nothing(book):
    pass


def without(path):
    return lambda book: (book.folder / path).unlink()


def params(asked):
    return ["chapter", "good", "--params", asked]


def half_written(book):
    """The notebook of a run, as a machine that lost its power left it."""
    path = book.folder / "build/executed/part/good.ipynb"
    path.parent.mkdir(parents=True)
    path.write_text(nbformat.writes(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("1")]))[:100])


def claims_of(text):
    return write("build/claims/part/good.json", text)


CHAPTER, LIST, COLLECT = ["chapter", "good"], ["list"], ["ledger", "collect"]
LEDGER = write("build/ledger.json", '{"claims": []}')
REFUSED = {
    # parameters of a chapter
    "unknown parameter": (nothing, params("sed=7"), "unknown parameter sed; parameters: seed: int = 3 (of nothing);"),
    "fraction": (nothing, params("seed=1.5"), "parameter seed=1.5 is not of type int; parameters: seed: int = 3"),
    "float for int": (nothing, params("seed=1e3"), "parameter seed=1000.0 is not of type int; parameters: seed"),
    "truth for int": (nothing, params("seed=True"), "parameter seed=True is not of type int; parameters: seed"),
    "word for int": (nothing, params("seed=seven"), "parameter seed='seven' is not of type int; parameters: seed"),
    "list for int": (nothing, params("seed=[1]"), "parameter seed=[1] is not of type int; parameters: seed"),
    "nothing for int": (nothing, params("seed="), "parameter seed='' is not of type int; parameters: seed"),
    "word for float": (nothing, params("step=fast"), "parameter step='fast' is not a finite float; parameters: seed"),
    "infinity": (nothing, params("step=1e999"), "parameter step=inf is not a finite float; parameters: seed"),
    "nan": (nothing, params("step=nan"), "parameter step='nan' is not a finite float; parameters: seed"),
    "int for bool": (nothing, params("exact=1"), "parameter exact=1 is not of type bool; parameters: seed"),
    "word for bool": (nothing, params("exact=yes"), "parameter exact='yes' is not of type bool; parameters: seed"),
    "no value": (nothing, params("seed"), "parameter 'seed' has no value: write name=value"),
    "no name": (nothing, params("=7"), "parameter '=7' has no name: write name=value"),
    "twice": (nothing, params("seed=1 seed=2"), "parameter seed is given twice: give it once"),
    "open quotation": (
        nothing,
        params("loss='a"),
        'parameters "loss=\'a" cannot be read (No closing quotation): write',
    ),
    # ranges, which stand in the comments
    "outside of a range": (
        swap("# how far", "# how far, 0.1 to seed * 2"),
        params("step=7"),
        "parameter step=7.0 is out of range: 0.1 to seed * 2, with seed=3",
    ),
    "at a bound that is not meant": (
        swap("# how far", "# how far, above 0"),
        params("step=0"),
        "parameter step=0.0 is out of range: above 0",
    ),
    "default that another value puts outside": (
        swap("# of nothing", "# at most step * 6"),
        params("step=.4"),
        "parameter seed=3 is out of range: at most step * 6, with step=0.4",
    ),
    "seed that torch does not take": (
        nothing,
        params("seed=12345678901234567890123"),
        "parameter seed=12345678901234567890123 is out of range: 0 to 2^63 - 1",
    ),
    "word that is no choice": (
        swap('loss: str = "logistic"', 'loss: str = "logistic"  # or exponential, flat: of the loss'),
        params("loss=hinge"),
        "parameter loss='hinge' is out of range: logistic or exponential, flat",
    ),
    "entry of a list": (
        swap("exact: bool = False", "exact: list = [1]  # each whole, 1 to 9,\n# 1 to 2 of them"),
        params("exact=[1,2.5]"),
        "parameter exact=[1, 2.5] is out of range: each whole, 1 to 9, 1 to 2 of them",
    ),
    "length of a list": (
        swap("exact: bool = False", "exact: list = [1]  # each whole, 1 to 9,\n# 1 to 2 of them"),
        params("exact=[]"),
        "parameter exact=[] is out of range: each whole, 1 to 9, 1 to 2 of them",
    ),
    "integer that is no float": (
        nothing,
        params(f"step=1{'0' * 400}"),
        "parameter step=inf is not a finite float; parameters: seed",
    ),
    "brackets in brackets": (
        nothing,
        params(f"exact={'[' * 9999}"),
        "... (10001 characters) is not of type bool; parameters: seed",
    ),
    "bound that is no number": (
        swap("# of nothing", "# at least n"),
        CHAPTER,
        "its parameter seed has the bound 'n': write a number, or such a parameter",
    ),
    # the cell of parameters
    "equals sign in a comment": (
        swap("# of nothing", "# as in t = f(x)"),
        CHAPTER,
        "its parameter seed could not be read: write `name: type = literal  # comment`",
    ),
    "default of another type": (
        swap("seed: int = 3", "seed: int = 1.5"),
        CHAPTER,
        "its parameter seed is declared as int = 1.5: write a literal of one of the types",
    ),
    "default that is computed": (
        swap("seed: int = 3", "seed: int = 3 * 7"),
        CHAPTER,
        "its parameter seed is declared as int = 3 * 7: write a literal of one of the types",
    ),
    "unknown type": (
        swap("seed: int = 3", "seed: complex = 3j"),
        CHAPTER,
        "its parameter seed is declared as complex = 3j: write a literal of one of the types",
    ),
    "cell that does not parse": (
        swap("seed: int = 3", "seed: int = = 3"),
        CHAPTER,
        "its cell of parameters does not parse (invalid syntax, line 1): write `name: type = literal  # comment`",
    ),
    "no cell of parameters": (
        swap(":tags: [parameters]\n", ""),
        params("seed=7"),
        "unknown parameter seed; parameters: it takes none",
    ),
    # names of chapters and pages
    "unknown chapter": (nothing, ["chapter", "bad"], "there is no chapter 'bad'; chapters: part/good"),
    "no name of a chapter": (nothing, ["chapter", ""], "there is no chapter ''; chapters: part/good"),
    "path of a chapter": (nothing, ["chapter", "../good"], "there is no chapter '../good'; chapters: part/good"),
    "unknown page": (nothing, ["page", "bad"], "there is no chapter 'bad'; chapters: part/good"),
    "unknown notebook": (nothing, ["lab", "bad"], "there is no chapter 'bad'; chapters: part/good"),
    "unknown data": (nothing, ["data", "svhn"], "NAME is 'svhn': use mnist or cifar10"),
    "no data": (nothing, ["data", ""], "NAME is '': use mnist or cifar10"),
    "name of two chapters": (
        both(write("book/other/good.md", (ROOT / "book/_template.md").read_text()), write("_toc.yml", ANOTHER)),
        CHAPTER,
        "'good' may be any of part/good, other/good; chapters: part/good, other/good",
    ),
    # sources of the book
    "no header of a chapter": (swap("kernelspec:", "kernel:"), CHAPTER, "there is no chapter 'good'; chapters: "),
    "header that is no YAML": (swap("jupytext:", "jupytext: ["), CHAPTER, f"{PAGE}: the header is not YAML: while"),
    "header that is a list": (
        write(PAGE, "---\n- kernelspec\n---\n# Good\n"),
        CHAPTER,
        f"{PAGE}: the header is ['kernelspec']: write lines of the form 'name: value'",
    ),
    "page that is not text": (write(PAGE, b"\xff\xfe"), CHAPTER, f"{PAGE} is not text in UTF-8 (byte 0): save it so"),
    "timeout of a chapter": (
        swap("jupytext:", "timeout: soon\njupytext:"),
        CHAPTER,
        "timeout in the header is 'soon': give a number of seconds above 0",
    ),
    "contents without a page": (
        write("_toc.yml", "root: book/intro\nchapters:\n  - file: book/lost\n"),
        CHAPTER,
        "_toc.yml names book/lost, but there is no book/lost.md: write it, or take it out",
    ),
    "contents that are no YAML": (
        write("_toc.yml", "root: [\n"),
        CHAPTER,
        "_toc.yml is not YAML: while parsing a flow",
    ),
    "no contents": (without("_toc.yml"), CHAPTER, "there is no _toc.yml here: run make from"),
    "empty contents": (write("_toc.yml", ""), CHAPTER, "there is no chapter 'good'; chapters: "),
    "no statements": (without("book/statements.yml"), LIST, "there is no book/statements.yml here: run make from"),
    "statements that are no YAML": (
        write("book/statements.yml", "papers: [\n"),
        LIST,
        "book/statements.yml is not YAML: while parsing a flow",
    ),
    "statements in which a name stands twice": (
        write("book/statements.yml", "papers: []\npapers: []\n"),
        LIST,
        "book/statements.yml is not YAML: 'papers' stands there twice",
    ),
    "statements without papers": (
        write("book/statements.yml", "- papers\n"),
        LIST,
        "book/statements.yml is ['papers']: write `papers:`, a list with arxiv, title, short and items of each",
    ),
    "statements without items": (
        write("book/statements.yml", "papers:\n  - {arxiv: '1', title: A, short: B}\n"),
        LIST,
        "paper 1 of book/statements.yml lacks items: write arxiv and title and short and items",
    ),
    "statement without a title": (
        write("book/statements.yml", "papers:\n  - {arxiv: '1', title: A, short: B, items: [{item: C}]}\n"),
        LIST,
        "item 1 of paper 1 in book/statements.yml lacks title: write item and title",
    ),
    # what earlier runs left
    "half a notebook": (
        half_written,
        ["site"],
        "build/executed/part/good.ipynb is half written: delete it and run",
    ),
    "half the claims of a run": (
        claims_of('{"chapter": "part/good", "ro'),
        COLLECT,
        "build/claims/part/good.json is half written: delete it and run it again",
    ),
    "no claims of a run": (nothing, COLLECT, "there is no build/claims/part/good.json: run make book"),
    "claims of another version": (
        claims_of('{"chapter": "part/good"}'),
        COLLECT,
        "build/claims/part/good.json lacks parameters: delete it and run it again",
    ),
    "half a ledger": (
        write("build/ledger.json", '{"cl'),
        ["ledger", "compare"],
        "build/ledger.json is half written: delete it and run it again",
    ),
    "no ledger": (nothing, ["ledger", "accept"], "there is no build/ledger.json: run make book"),
    "lock with a conflict": (
        both(LEDGER, write("book/ledger.lock.json", "<<<<<<< HEAD\n{}\n")),
        ["ledger", "compare"],
        "book/ledger.lock.json is not JSON (Expecting value: mend it by hand, or take that of git",
    ),
    "lock that is a list": (
        both(LEDGER, write("book/ledger.lock.json", "[]")),
        ["ledger", "compare"],
        "book/ledger.lock.json is not JSON (no object): mend it by hand, or take that of git",
    ),
}


def line_of(command):
    """Run a script of the workflow in this process, as make does in another; the line that it ends with."""
    name, *arguments = command
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [name, *arguments])
        with pytest.raises(SystemExit) as end:
            runpy.run_module(f"workflow.commands.{name}", run_name="__main__")
    return end.value.code


@pytest.mark.parametrize(("change", "command", "words"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_line_with_value_and_remedy(book, capfd, change, command, words):
    change(book)
    assert_said(line_of(command), words)
    assert capfd.readouterr().err == ""


def assert_said(line, words):
    value, remedy = words.rsplit(": ", 1)
    assert re.fullmatch(f".*{re.escape(value)}.*: .*{re.escape(remedy)}.*", line), line


VARIABLES = {
    "NAME of a chapter": ("chapter", {"NAME": "bad"}, "there is no chapter 'bad'; chapters: part/good"),
    "no NAME": ("chapter", {}, "there is no chapter ''; chapters: part/good"),
    "NAME of a page": ("page", {"NAME": "bad"}, "there is no chapter 'bad'; chapters: part/good"),
    "NAME of a data set": ("data", {"NAME": "svhn"}, "NAME is 'svhn': use mnist or cifar10"),
    "PARAMS": ("chapter", {"NAME": "good", "PARAMS": "sed=7"}, "part/good: unknown parameter sed; parameters: seed"),
    "PARAMETERS that are not there": (
        "book",
        {"PARAMETERS": "lost.yml"},
        "there is no lost.yml here: run make from",
    ),
    "PARAMETERS of an unknown chapter": (
        "book",
        {"PARAMETERS": "unknown.yml"},
        "unknown.yml: there is no chapter 'bad'",
    ),
    "PARAMETERS in a list": ("book", {"PARAMETERS": "list.yml"}, "list.yml: write one block a chapter"),
    "PARAMETERS that are no YAML": ("book", {"PARAMETERS": "open.yml"}, "open.yml is not YAML: while parsing a flow"),
    "JOBS": ("book", {"JOBS": "two"}, "JOBS is 'two': give a whole number from 1 to 10000"),
    "no JOBS at all": ("book", {"JOBS": "0"}, "JOBS is '0': give a whole number from 1 to 10000"),
    "THREADS": ("book", {"THREADS": "x"}, "THREADS is 'x': give a whole number from 1 to"),
    "THREADS of a chapter": ("chapter", {"NAME": "good", "THREADS": "x"}, "THREADS is 'x': give a whole number from 1"),
    "THREADS that end OpenMP": ("book", {"THREADS": "100000"}, "THREADS is '100000': give a whole number from 1"),
    "JOBS in other digits": ("book", {"JOBS": "٣"}, "JOBS is '٣': give a whole number from 1 to 10000"),
    "QUICK": ("book", {"QUICK": "yes"}, "QUICK is 'yes': give QUICK=1, or leave it out"),
    "negative THREADS": ("chapter", {"NAME": "good", "THREADS": "-2"}, "THREADS is '-2': give a whole number from 1"),
    "TIMEOUT": ("book", {"TIMEOUT": "soon"}, "TIMEOUT is 'soon': give a number of seconds above 0"),
    "TIMEOUT of a chapter": ("chapter", {"NAME": "good", "TIMEOUT": "soon"}, "TIMEOUT is 'soon': give a number of"),
    "TIMEOUT below zero": ("chapter", {"NAME": "good", "TIMEOUT": "-1"}, "TIMEOUT is '-1': give a number of seconds"),
    "TIMEOUT that is none": ("chapter", {"NAME": "good", "TIMEOUT": "nan"}, "TIMEOUT is 'nan': give a number of"),
    "PROFILE": ("book", {"PROFILE": "nowhere"}, "PROFILE is 'nowhere': use one of slurm"),
    "PORT": ("serve", {"PORT": "x"}, "PORT is 'x': give a whole number from 1 to 65535"),
    "PORT that is too large": ("serve", {"PORT": "70000"}, "PORT is '70000': give a whole number from 1 to 65535"),
    "serve without a site": ("serve", {"PORT": "8123"}, "there is no build/html/index.html: run make book"),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The small book with the Makefile, scripts and environment of the project, and files of parameters."""
    folder = tmp_path_factory.mktemp("made")
    Book(folder).add("good")
    for name in ("workflow", ".venv"):
        (folder / name).symlink_to(ROOT / name)
    for name, text in {"unknown": "bad: {step: 1}", "list": "- good", "open": "good: {step: ["}.items():
        (folder / f"{name}.yml").write_text(text)
    return folder


@pytest.mark.parametrize(("target", "variables", "words"), VARIABLES.values(), ids=VARIABLES)
def test_bad_make_variable_is_one_line(made, target, variables, words):
    assigned = [f"{name}={value}" for name, value in variables.items()]
    command = ["make", "-f", ROOT / "Makefile", "-o", ".venv/.installed", target, *assigned]
    env = {name: value for name, value in os.environ.items() if name not in ("MAKEFLAGS", "MAKELEVEL")}
    done = subprocess.run(command, cwd=made, env=env, capture_output=True, text=True, timeout=120, check=False)
    (line,) = (line for line in done.stderr.splitlines() if not line.startswith("make: ***"))
    assert done.returncode
    assert_said(line, words)
    assert "Traceback" not in done.stdout
    assert not list((made / "build").rglob("*.ipynb"))
