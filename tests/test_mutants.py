"""Mutants over a small book: what turns, survives, crashes or never ends, what is refused; the lists of the book."""

import contextlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.problems import refuses
from tests.small_book import Book, until
from workflow.book import mutants
from workflow.commands import mutants as commands

ROOT = Path(__file__).parents[1]

LIBRARY = """
import os, time

def half(step):
    return step * 1.0

def unused(step):
    return step - 7

def twin(step):
    return step

def shown(step):
    return f"{step - 1:.3f}"
"""
CODE = "from lib.alpha import half, shown\nstep = half(step)\nshown(step)"
NEAR = """
doubled: {what: twice the step, "lib/alpha.py::half": step * 1.0 -> step * 2.0, chapters: [good]}
another: {what: nobody calls it, "lib/alpha.py::unused": step - 7 -> step + 7, chapters: [good], survives: not called}
crash: {what: it fails, "lib/alpha.py::half": step * 1.0 -> step / 0, chapters: [good]}
death: {what: it dies, "lib/alpha.py::half": step * 1.0 -> os._exit(9), chapters: [good]}
asleep: {what: it waits, "lib/alpha.py::half": return step * 1.0 -> time.sleep(9e9), chapters: [good]}
"""


@pytest.fixture(scope="module")
def book(tmp_path_factory):
    """A book of two chapters, one of them finished, with lists of mutants."""
    made = Book(tmp_path_factory.mktemp("book")).add("good", CODE).add("other")
    (made.folder / "lib/alpha.py").write_text(LIBRARY)
    (made.folder / "lib/gamma.py").write_text("def twin(step):\n    return step\n")
    lists = made.folder / "tests/mutants"
    lists.mkdir(parents=True)
    (lists / "near.yml").write_text(NEAR)
    return made


@pytest.fixture(scope="module")
def tried(book):
    """The finished command over all mutants of that book, and its report."""
    done = book.script("mutants", JOBS="2", TIMEOUT="10")
    return done, json.loads((book.folder / "build/mutants.json").read_text())


def entry(report, name):
    return report["mutants"][name]["chapters"]["part/good"]


def test_verdicts_that_turn_survivors_and_crashes_are_told_apart(tried):
    done, report = tried
    assert {name: entry(report, name)["turned"] for name in report["mutants"]} == {
        "doubled": ["half"], "another": [], "crash": [], "death": [], "asleep": []
    }  # fmt: skip
    assert entry(report, "crash")["crashed"].endswith("division by zero")
    assert entry(report, "death")["crashed"].endswith("failed: the kernel died (killed, or out of memory)")
    assert entry(report, "asleep")["crashed"].endswith("the chapter was still running after 10 s")
    assert "doubled: part/good: half" in done.stdout
    assert "survived: another: nobody calls it, in part/good (not called)" in done.stdout
    assert "claims that no mutant turns: 0 of 1" in done.stdout
    assert done.returncode == 1
    assert done.stderr.strip() == "1 of 5 mutants turn a verdict, and 95% must: see the survivors above"


def test_chapters_that_no_asked_mutant_names_are_not_run(book):
    done = book.script("mutants", ONLY="doubled")
    assert "part/good: 2 rows" in done.stdout
    assert "part/other" not in done.stdout


def test_runs_that_ended_are_not_made_again_until_what_they_ran_changes(book, tried):
    near, library = book.folder / "tests/mutants/near.yml", book.folder / "lib/alpha.py"

    def made():
        """Try some mutants again; return whose runs were made."""
        before = {path: path.stat().st_mtime_ns for path in (book.folder / "build/mutants/runs").rglob("*.json")}
        done = book.script("mutants", JOBS="1", ONLY="doubled another crash")
        assert "doubled: part/good: half" in done.stdout
        return sorted(path.parts[-4] for path, time in before.items() if path.stat().st_mtime_ns != time)

    assert made() == []
    near.write_text(NEAR.replace("step * 2.0", "step * 3.0"))
    try:
        assert made() == ["doubled"]
        library.write_text(LIBRARY + "more = 1\n")
        assert made() == ["another", "crash", "doubled", "unchanged"]
    finally:
        near.write_text(NEAR)
        library.write_text(LIBRARY)


REFUSED = {
    "NAME of no mutant": ({"NAME": "other"}, "NAME is 'other'"),
    "unknown ONLY": ({"ONLY": "tripled"}, "ONLY is 'tripled'"),
}


@pytest.mark.parametrize(("variables", "words"), REFUSED.values(), ids=REFUSED)
def test_bad_variables_are_one_line(book, monkeypatch, variables, words):
    monkeypatch.chdir(book.folder)
    for name in ("NAME", "ONLY"):
        monkeypatch.setenv(name, variables.get(name, ""))
    refuses(commands.main, words)


ONE = "one: {what: x, 'lib/alpha.py::half': step * 1.0 -> step * 2.0, chapters: [good]}"
BAD_LISTS = {
    "text gone": (ONE.replace("1.0", "4.0"), "lib/alpha.py::half, does not fit the book"),
    "text twice": (ONE.replace("step * 1.0", "step"), "its old text stands there 2 times"),
    "function gone": (ONE.replace("half", "third"), "third is not there, but in no other module either"),
    "function in two modules": (ONE.replace("alpha.py::half", "beta.py::twin"), "but in lib/alpha.py and lib/gamma.py"),
    "no arrow": (ONE.replace(" -> ", " > "), "write old -> new"),
    "no Python": (ONE.replace("2.0", ")"), "with the new text it is no Python"),
    "unknown chapter": (ONE.replace("good", "bad"), "there is no chapter 'bad'"),
    "field missing": ("one: {what: x}", "one of tests/mutants/near.yml is {'what': 'x'}"),
    "two places": (ONE.replace("{", "{'lib/alpha.py::unused': 7 -> 8, "), "one of tests/mutants/near.yml is {'lib/alp"),
    "no fields": ("one: alpha.py", "one of tests/mutants/near.yml is alpha.py"),
}


@pytest.mark.parametrize(("text", "words"), BAD_LISTS.values(), ids=BAD_LISTS)
def test_a_list_that_does_not_fit_is_one_line(book, monkeypatch, text, words):
    monkeypatch.chdir(book.folder)
    path = Path("tests/mutants/near.yml")
    path.write_text(text)
    try:
        refuses(mutants.written, words)
    finally:
        path.write_text(NEAR)


MOVED = """
from functools import cache

TABLE = {1: "half"}

class Step:
    size = 1.0

    @cache
    def half(self):
        return self.size * 1.0

def half(step):
    return step * 1.0
"""


@pytest.mark.parametrize(
    ("address", "fault", "before", "after"),
    [
        ("lib/alpha.py::half", "step * 1.0 -> step", "step * 1.0\n", "step\n"),
        ("lib/gone.py::Step.half", "cache -> property", "@cache", "@property"),
        ("lib/alpha.py::Step.half", "self.size * 1.0 -> self.size", "self.size * 1.0", "self.size"),
        ("lib/alpha.py::Step.size", "1.0 -> 2.0", "size = 1.0", "size = 2.0"),
        ("lib/alpha.py::TABLE", "half -> whole", '"half"', '"whole"'),
    ],
)
@pytest.mark.parametrize("file", ["lib/alpha.py", "lib/other.py", "heads/deep/other.py"])
def test_a_fault_is_found_by_its_function_in_any_package(tmp_path, monkeypatch, file, address, fault, before, after):
    monkeypatch.chdir(tmp_path)
    path = Path(file)
    path.parent.mkdir(parents=True)
    path.write_text(MOVED)
    assert mutants.change(address, fault)[:2] == (file, MOVED.replace(before, after))


def processes_in(folder):
    """Processes that work in a folder."""
    places = []
    for place in Path("/proc").glob("[0-9]*/cwd"):
        with contextlib.suppress(OSError):  # ended meanwhile
            places.append(place.readlink())
    return [place for place in places if place.is_relative_to(folder)]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_stopped_it_leaves_no_process(book, how):
    script = [sys.executable, "-m", "workflow.commands.mutants"]
    env = book.env(ONLY="asleep", TIMEOUT="600")
    with subprocess.Popen(script, cwd=book.folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as command:
        assert command.stdout.readline().startswith(b"part/good: 2 rows")  # the mutant's run comes next
        until(lambda: processes_in(book.folder / "build/running"))
        command.send_signal(how)
        said = command.communicate(timeout=300)[1].decode()
    assert said in ("mutants: interrupted\n", "mutants: stopped\n")
    until(lambda: not processes_in(book.folder), 10)


def test_a_chapter_whose_verdicts_are_not_the_accepted_ones_is_refused(book):
    lock = book.folder / "book/ledger.lock.json"
    lock.write_text(
        json.dumps({"rows": {"part/good/half": {"chapter": "part/good", "name": "half", "verdict": "another"}}})
    )
    try:
        done = book.script("mutants", ONLY="doubled")
    finally:
        lock.unlink()
    assert "part/good has not the verdict in book/ledger.lock.json of half" in done.stderr


def test_the_lists_of_the_book_fit_its_library(monkeypatch):
    monkeypatch.chdir(ROOT)
    assert commands.chosen_chapters("", mutants.written())


def test_a_chapter_leads_to_the_functions_that_it_calls_and_that_those_call(inside):
    Path("lib/alpha.py").write_text(
        "def one():\n    return two()\n\n\ndef two():\n    return 2\n\n\ndef three():\n    one()\n"
    )
    page = Path("book/part/good.md")
    page.write_text(page.read_text().replace("import os, time", "from lib.alpha import one\nimport os, time"))
    assert {"one", "two"} <= mutants.reached("part/good")
    assert "three" not in mutants.reached("part/good")
