"""The workflow over small books: what runs, what does not run again, and what a failure looks like."""

import errno
import json
import os
import re
import runpy
import shutil
import signal
import time
from pathlib import Path

import nbformat
import pytest

from tests.small_book import HEADER, ROOT, Book, collected, row, until
from workflow.book import catalogue, dependencies, ledger, mutants, records, verdicts
from workflow.run import engine
from workflow.site import chips, landing_page, rows, runs, scoreboard, stage
from workflow.site.markup import numbers


# pytest-xdist gives each class below to one worker, and the rest to another.
class TestWholeBook:
    """Once, with its site."""

    def test_book_gives_site_ledger_and_comparison(self, book):
        shutil.copy(ROOT / "_config.yml", book.folder)
        without = shutil.ignore_patterns("explore")  # interactive figures take their colours from lib.figures
        shutil.copytree(ROOT / "book/_static", book.folder / "book/_static", ignore=without)
        shutil.copy(ROOT / "book/references.bib", book.folder / "book")
        (book.folder / "book/part/_draft.md").write_text(HEADER.format(name="draft", code="1/0"))
        book.add("good", 'print("seen")').add("twin")

        first = book.build("all")
        assert first.returncode == 1
        assert "part/good/half: new, reproduced; The step is a half" in first.stderr
        assert "part/good: running" in first.stdout
        assert re.search(r"\(1 of 2, (less than a minute|\d+ min) left\)", first.stdout)
        assert "(2 of 2)" in first.stdout
        assert book.has("build/html/book/part/good.html"), "the site is there to show what changed"
        assert book.ran() == ["good", "twin"]

        rows = json.loads((book.folder / "build/ledger.json").read_text())
        assert rows["environment"].keys() >= {"python", "torch", "papermill", "date", "cpu"}
        threads = int(os.environ.get("THREADS") or 1)  # more where THREADS says so
        assert (rows["environment"]["commit"], rows["environment"]["threads"]) == ("unknown", threads)
        assert [row["id"] for row in rows["claims"]] == [
            f"part/{name}/{row}" for name in ("good", "twin") for row in ("half", "seed")
        ]
        half = rows["claims"][0]
        assert half["parameters"] == {"seed": 3, "step": 0.5, "loss": "logistic", "exact": False}
        assert (half["measured"], half["verdict"], half["chapter"]) == (0.5, "reproduced", "part/good")
        assert rows["claims"][1]["verdict"] == "breaks the claim"

        page = (book.folder / "build/html/book/intro.html").read_text()
        assert "statements" in page
        published = (book.folder / "build/html/_sources/book/part/good.ipynb").read_text()
        assert "seen" in published, "readers download the executed notebook"
        for path in (book.folder / "build/html").rglob("*.*"):
            assert str(book.folder).encode() not in path.read_bytes(), f"{path} names this machine"

        assert book.script("ledger", "accept").returncode == 0
        second = book.build("all")
        assert second.returncode == 0, second.stderr
        assert "site:" not in second.stdout, "the site is not built again to compare"
        assert book.build("all").stdout == ""
        self.check_what_a_changed_lock_leads_to(book)
        assert book.ran() == []

        site = book.folder / "build/html/book/part/good.html"
        before, page = site.read_bytes(), book.folder / "book/part/good.md"
        page.write_text(page.read_text() + "\nA new sentence.\n")
        look = book.script("page", "good")
        assert look.returncode == 0, look.stderr
        shown = (book.folder / "build/page/sphinx/_build/html/book/part/good.html").read_text()
        assert "A new sentence." in shown
        assert "seen" in shown
        assert book.ran() == []
        assert site.read_bytes() == before

    def check_what_a_changed_lock_leads_to(self, book):
        """A number doubled by hand is listed, another verdict fails the build."""
        path = book.folder / "book/ledger.lock.json"
        accepted = path.read_text()

        def change_lock(**changed):
            lock = json.loads(accepted)
            lock["rows"]["part/good/half"] |= changed
            path.write_text(json.dumps(lock))

        change_lock(verdict="not reproduced")
        turned = book.build("all")
        assert turned.returncode == 1
        assert "part/good/half: not reproduced; The step is a half: 0.5, exactly 0.5 -> reproduced" in turned.stderr
        change_lock(measured=1.0)
        moved = book.build("all")
        assert (moved.returncode, moved.stderr) == (0, "")
        assert "part/good/half: 1 -> 0.5" in moved.stdout
        (entry,) = json.loads((book.folder / "build/differences.json").read_text())
        assert entry["id"] == "part/good/half"
        path.write_text(accepted)


def alive(process):
    """Say whether a process runs."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    return True


FAILING = {
    "raises": ("1\nfigure = 2\n1 / 0  # here", "ZeroDivisionError: division by zero"),
    "dies": ("os.kill(os.getpid(), 9)", "the kernel died (killed, or out of memory)"),
}


@pytest.fixture(scope="module")
def failed(tmp_path_factory):
    """A book of one good chapter and many that fail, built once."""
    book = Book(tmp_path_factory.mktemp("failed")).add("good")
    for name, (code, _) in FAILING.items():
        book.add(name, code)
    book.add("leaves", "import sys; sys.exit(0)")
    silent = book.add("silent").folder / "book/part/silent.md"
    silent.write_text(silent.read_text().replace("verdict(theorem_1.claim", "(theorem_1.claim"))
    book.process = book.build()
    return book


class TestFailures:
    """Of a chapter: one line, evidence, and nothing of it in the book."""

    @pytest.mark.parametrize("name", FAILING)
    def test_failure_is_one_line_with_chapter_cell_and_evidence(self, failed, name):
        _, why = FAILING[name]
        (line,) = (line for line in failed.process.stderr.splitlines() if line.startswith(f"part/{name}:"))
        source = (failed.folder / f"book/part/{name}.md").read_text().splitlines()
        shown = "1 / 0  # here" if name == "raises" else "import os, time"
        number = source.index(shown) + 1
        evidence = f"build/evidence/part/{name}.ipynb"
        assert line == (
            f'part/{name}: cell 2 (book/part/{name}.md:{number}, "{shown}") failed: {why}; evidence: {evidence}'
        )
        assert "import os, time" in str(nbformat.read(failed.folder / evidence, as_version=4).cells)

    def test_failure_publishes_nothing_and_the_others_go_on(self, failed):
        assert failed.process.returncode != 0
        assert "Traceback" not in failed.process.stdout + failed.process.stderr
        assert len(failed.process.stderr.splitlines()) == len(FAILING) + 2
        assert [str(path.relative_to(failed.folder)) for path in failed.folder.rglob("build/executed/**/*.ipynb")] == [
            "build/executed/part/good.ipynb"
        ]
        assert not failed.has("build/ledger.json")
        assert not failed.has("build/html")
        assert not list((failed.folder / "build/running").rglob("*.ipynb"))

    def test_chapter_that_leaves_early_or_claims_nothing_fails(self, failed):
        assert "part/leaves: cell 3 (book/part/leaves.md:" in failed.process.stderr
        assert "did not run: a cell before it left the kernel" in failed.process.stderr
        assert "part/silent: it leaves no claims" in failed.process.stderr

    def test_mended_chapter_and_those_that_failed_run_again_and_its_evidence_goes(self, failed):
        failed.ran()
        failed.add("raises")
        assert failed.build().returncode == 1
        assert failed.ran() == ["dies", "leaves", "raises", "silent"]
        assert failed.has("build/executed/part/raises.ipynb")
        assert not list((failed.folder / "build/evidence/part").glob("raises.*"))


def test_a_chapter_that_does_not_end_is_stopped(book):
    # ten seconds, since the kernel has to start within them on a busy machine
    process = book.add("good", "time.sleep(100)").script("chapter", "good", TIMEOUT="10")
    assert '"import os, time") failed: the chapter was still running after 10 s' in process.stderr


INTERRUPTIONS = {
    "from a key": lambda process: os.killpg(process.pid, signal.SIGINT),
    "of all processes": lambda process: os.killpg(process.pid, signal.SIGKILL),
    "of the command alone": lambda process: process.kill(),
    "politely": lambda process: process.terminate(),
}


@pytest.mark.parametrize("how", INTERRUPTIONS.values(), ids=INTERRUPTIONS)
def test_a_build_that_was_stopped_leaves_no_process_and_resumes_where_it_stopped(book, how):
    note_kernel = 'open("kernel", "w").write(str(os.getpid()))\n'
    book.add("slow", note_kernel + 'time.sleep(60 if os.path.exists("wait") else 0)').add("quick")
    (book.folder / "wait").touch()
    process = book.begin(book.command("ledger"), JOBS="2")
    until(lambda: book.has("build/claims/part/quick.json") and book.has("kernel"))
    assert book.running() == ["quick", "slow"]
    how(process)
    process.communicate()
    kernel = int((book.folder / "kernel").read_text())
    until(lambda: not alive(kernel), 10)  # it would sleep for longer
    (book.folder / "wait").unlink()
    book.ran()
    resumed = book.build()
    assert resumed.returncode == 0, resumed.stderr
    assert book.ran() == ["slow"]
    assert not list((book.folder / "build/running").iterdir())


def write_old(path, text):
    """Write a file with a time before every build, as an archive unpacks it or ``cp -p`` copies it."""
    Path(path).write_text(text)
    os.utime(path, (1e9, 1e9))


def test_a_build_publishes_the_new_number_whatever_the_file_times(book):
    write_old(book.folder / "lib/alpha.py", "step = 0.25\n")
    book.add("good", "from lib.alpha import step")
    for step in (0.25, 0.5):
        write_old(book.folder / "lib/alpha.py", f"step = {step}\n")
        process = book.build()
        assert process.returncode == 0, process.stderr
        assert json.loads((book.folder / "build/ledger.json").read_text())["claims"][0]["measured"] == step
        for path in (book.folder / "build").rglob("*"):
            os.utime(path, (time.time() + 86400,) * 2)


@pytest.mark.parametrize("begun", [False, True])
def test_a_run_during_which_the_library_changed_is_not_published(book, begun):
    change = 'open("lib/alpha.py", "w").write("step = 0.5")'
    book.add("good", f"if not os.path.exists('settled'): {change}" if begun else "pass").add("late")
    (book.folder / "lib/alpha.py").write_text("step = 0.25\n")
    process = book.build(JOBS="1")
    if begun:
        assert process.stderr.count("the library or the workflow has changed since the command began") == 2
        assert book.ran() == ["good"]
        assert not book.has("build/claims")
        (book.folder / "settled").touch()
        assert book.build().returncode == 0
    assert book.ran() == ["good", "late"]


def test_a_damaged_notebook_is_made_again(book):
    book.add("good").add("other").build()
    book.ran()
    (book.folder / "build/executed/part/good.ipynb").write_text("{")
    assert book.build().returncode == 0
    assert book.ran() == ["good"]


LEAK = """import random, numpy, torch, warnings, matplotlib, numba, sys, lib
if {changes}:
    random.seed(1), numpy.random.seed(1), torch.manual_seed(1), torch.set_default_dtype(torch.float64)
    torch.set_num_threads(2), setattr(numba.config, "BOUNDSCHECK", 1), matplotlib.rcParams.update({{"font.size": 99}})
    os.environ["LEFT"], lib.left = "1", 1
    sys.path.insert(0, "/left"), warnings.simplefilter("error")
settings = [torch.get_default_dtype(), torch.get_num_threads(), numba.config.BOUNDSCHECK]
settings += [matplotlib.rcParams["font.size"], matplotlib.get_backend(), os.getcwd(), sys.path, warnings.filters]
settings += ["LEFT" in os.environ, hasattr(lib, "left"), hash("text"), "workflow" in sys.modules]
drawn = random.random(), numpy.random.rand(), torch.rand(1).item()
open(f"drawn-{{os.getpid()}}", "w").write(" ".join(map(str, drawn)))
if not {changes}: open("settings-{name}", "w").write("\\n".join(map(str, settings)))"""


def test_no_chapter_leaves_anything_for_the_next(book):
    for name in ("first", "second"):
        book.add(name, LEAK.format(changes=False, name=name))
    book.add("changing", LEAK.format(changes=True, name="changing"))
    first, second = (book.folder / f"settings-{name}" for name in ("first", "second"))
    orders = [{"first": 3, "changing": 2, "second": 1}, {"second": 3, "changing": 2, "first": 1}]
    seen, rows = set(), set()
    for seconds in orders:
        lock = {"seconds": {f"part/{name}": value for name, value in seconds.items()}}
        (book.folder / "book/ledger.lock.json").write_text(json.dumps(lock))
        shutil.rmtree(book.folder / "build", ignore_errors=True)
        assert book.build(JOBS="1").returncode == 0
        assert (book.folder / "runs.txt").read_text().split() == list(seconds)
        book.ran()
        seen |= {first.read_text(), second.read_text()}
        rows.add(json.dumps(json.loads((book.folder / "build/ledger.json").read_text())["claims"]))
    assert len(seen) == len(rows) == 1
    drawn = [path.read_text().split() for path in book.folder.glob("drawn-*")]
    assert all(len(set(numbers)) == 4 + 1 for numbers in zip(*drawn, strict=True)), "without a seed always others"


@pytest.mark.parametrize("method", ["forkserver", "spawn"])
def test_a_chapter_runs_in_a_warm_kernel_and_in_a_cold_one(inside, monkeypatch, method):
    monkeypatch.setattr(engine, "METHOD", method)
    monkeypatch.setenv("PYTHONPATH", f".{os.pathsep}{ROOT}")
    runs = [engine.plan("part/good"), engine.plan("part/good", "sweep", {"seed": 1})]
    left = {run.folder: outcome for run, outcome in engine.outcomes([[run] for run in runs], engine.here)}
    assert [left[""]["parameters"]["seed"], left["sweep"]["parameters"]["seed"]] == [3, 1]
    assert [row["verdict"] for row in left["sweep"]["rows"]] == ["reproduced", "does not break the claim"]


def test_what_an_editor_leaves_beside_sources_has_no_effect(inside):
    before = dependencies.results()
    for folder in ("lib", "book/part", "book"):
        for name in (".problem.py.swp", ".DS_Store", "#alpha.py#", "alpha.py~"):
            Path(folder, name).write_text("a thought\n")
        Path(folder, ".#alpha.py").symlink_to("user@machine.123")
    assert dependencies.results() == before
    shutil.copy(ROOT / "_config.yml", ".")
    collected(row())
    stage.stage(Path("staged"), catalogue.read)
    assert not list(Path("staged").rglob(".*")) + list(Path("staged").rglob("*~"))


def test_a_file_system_without_locks_has_no_effect(inside, monkeypatch):
    def refuse(*_):
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(engine.fcntl, "flock", refuse)
    engine.wait_for_turn()
    with engine.workplace() as (place, _), engine.workplace():
        assert place.is_dir()


class TestSeveralAtOnce:
    """A look disturbs no build, no look another, and no build another."""

    @pytest.fixture
    def waiting(self, book):
        """A build of a chapter that waits until the file ``go`` is there."""
        book.add("good", 'while not os.path.exists("go") and seed == 3: time.sleep(0.05)')
        return book

    def test_mistyped_and_good_look_leave_a_build_alone(self, waiting):
        build = waiting.begin(waiting.command("ledger"))
        until(lambda: waiting.running() == ["good"])
        assert "unknown parameter sed" in waiting.script("chapter", "good", "--params", "sed=7").stderr
        look = waiting.script("chapter", "good", "--params", "seed=7")
        assert look.returncode == 0, look.stderr
        (waiting.folder / "go").touch()
        out, errors = build.communicate(timeout=300)
        assert build.returncode == 0, errors
        assert "part/good:" in out
        assert json.loads((waiting.folder / "build/claims/part/good.json").read_text())["parameters"]["seed"] == 3
        assert waiting.has("build/runs/part/good/seed=7.json")
        assert not list((waiting.folder / "build/running").iterdir())

    def test_the_second_of_two_builds_waits_and_runs_nothing_again(self, waiting):
        builds = [waiting.begin(waiting.command("ledger")) for _ in range(2)]
        until(lambda: waiting.running())
        time.sleep(2)
        (waiting.folder / "go").touch()
        ends = [build.communicate(timeout=300) for build in builds]
        assert [build.returncode for build in builds] == [0, 0], ends
        assert sum("another build is under way" in out for out, _ in ends) == 1
        assert waiting.ran() == ["good"]


def test_two_runs_give_the_same_bytes(book):
    place, seen = book.add("good").folder / "build/executed/part/good.ipynb", set()
    for _ in range(2):
        assert book.build().returncode == 0
        seen.add(place.read_bytes())
        place.unlink()
    assert len(seen) == 1


SAYS = """import logging, lib, warnings
print("threads:", os.environ["OMP_NUM_THREADS"])
logging.getLogger("studies.networks").info("adam epoch %d of 9", 1)
warnings.warn("odd")"""


def test_one_chapter_with_parameters_prints_its_rows_and_keeps_out_of_the_book(book):
    process = book.add("good", SAYS).script("chapter", "good", "--params", "seed=1 step=1 loss=4", THREADS="3")
    assert process.returncode == 0, process.stderr
    assert "seed=1, step=1.0, loss='4', exact=False" in process.stdout
    assert "not reproduced" in process.stdout
    assert "does not break the claim" in process.stdout
    name = "build/runs/part/good/loss=4+seed=1+step=1.0.ipynb"
    assert name in process.stdout
    assert not book.has("build/claims")

    assert "part/good: adam epoch 1 of 9" in process.stdout.splitlines(), "what the library logs is shown"
    assert "odd" in process.stderr
    text = (book.folder / name).read_text()
    outputs = str([cell.get("outputs") for cell in nbformat.reads(text, 4).cells])
    assert "epoch" not in outputs
    assert "UserWarning: odd" in outputs
    assert "threads: 3" in outputs


def test_list_says_what_a_chapter_reproduces_and_takes(inside, capsys):
    page = Path("book/part/good.md")
    page.write_text(page.read_text().replace("# how far", "# how far, above 0, at most seed"))
    runpy.run_module("workflow.commands.list")["main"]()
    assert capsys.readouterr().out.splitlines() == [
        "part/good: Chapter good [Theorem 1]",
        "    seed: int = 3, step: float = 0.5 (above 0, at most seed), loss: str = 'logistic', exact: bool = False",
    ]


# The ledger.


@pytest.mark.parametrize(
    ("rows", "named"),
    [
        ([row(), row()], "part/good/half: two rows"),
        ([row(item="Theorem 9")], "part/good/half: 'Theorem 9' of 2306.13596"),
        ([row(), row("broken", kind="ablation", item="Theorem 2")], "part/good/broken: checks a claim about"),
    ],
)
def test_rows_that_make_no_ledger_are_refused(inside, rows, named):
    with pytest.raises(ledger.BookError, match=named):
        collected(*rows)
    collected(row(item="Theorem 9", of="book") | {"paper": None})


def line_of(item, text):
    (line,) = (line for line in text.splitlines() if f"`{item} <" in line or f"| {item}: " in line)
    return line


QUOTED = {"source": "printed", "corrects": "Needs B.", "quote": "It *always* holds.", "certified": True}
STANDING = {
    "reproduced": [row(), row("more"), row("small", measured=1, scale="stand-in")],
    "corrected": [row(), row("changed", **QUOTED)],
    "in part": [row(), row("changed", **QUOTED), row("worse", measured=1)],
    "not reproduced": [row(measured=1), row("open", interval=(0, 1))],
    "made explicit": [row(), row("written", explicit="Feasible.")],
    "in miniature": [row(), row("small", scale="stand-in")],
    "undecided": [row(interval=(0, 1))],
    "not tested": [row(of="book"), row("null", kind="baseline")],
}


@pytest.mark.parametrize("standing", STANDING)
def test_an_item_stands_where_its_rows_put_it_on_scoreboard_map_and_chip(inside, standing):
    collected(*STANDING[standing])
    (_, (first, second)) = scoreboard.papers()[0]
    assert (first.standing, second.standing) == (standing, "not tested")
    totals = scoreboard.totals()
    assert f"{verdicts.SIGNS[standing]} {standing}]" in totals
    assert "not tested]" in totals
    assert "| **statements** | 2 | 2 |" in totals
    sign = f"- [{verdicts.SIGNS[standing]}]{{.verdict .{standing.replace(' ', '-')}}} "
    assert sign in landing_page.book_map(ledger.ledger())
    chip, *_ = noted(*STANDING[standing])["chips"]
    assert chip["text"].startswith("our checks") if standing == "not tested" else chip["verdict"] == standing


def test_scoreboard_says_what_it_rests_on_and_what_did_not_hold(inside):
    collected(
        row(set="before"), row("worse", measured=1), row("changed", **QUOTED), row("small", scale="stand-in"),
        row("kept", kind="ablation"), row("broken", measured=1, kind="ablation"),
        row("ours", of="book", measured=2), row("null", kind="baseline"),
    )  # fmt: skip
    text, basis = scoreboard.scoreboard(), scoreboard.basis(ledger.ledger())
    counts = {name: basis[name] for name in ("claims", "small", "before", "bounded", "ablations", "baselines")}
    assert counts == {"claims": 4, "small": 1, "before": 1, "bounded": 7, "ablations": "1 of 2", "baselines": 1}
    assert "Of 4 claims of the papers, 1 rest on printed text, 3 rest on text restored" in text
    line = line_of("Theorem 1", text)
    assert line.startswith("| {doc}`Theorem 1 <part/good>`: A \\| b (")
    assert (
        "| [◑ in part]{.verdict .in-part} | [1&nbsp;✓]{.verdict .reproduced} [1&nbsp;✎]{.verdict .corrected} " in line
    )
    assert line.endswith("[1&nbsp;✗]{.verdict .not-reproduced} | 1/3 | not yet run |")
    worse, refuted = (text.index(f"**✗ {word}**") for word in ("not reproduced", "refuted"))
    assert "- {doc}`part/good`: It is so: 1; bound: at most 0.01." in text[worse:refuted]
    assert "- {doc}`part/good`: It is so: 2; bound: at most 0.01." in text[refuted:]
    assert rows.rows().count("<tr data-of=") == 8
    assert [line.count("●") for line in rows.rows().splitlines() if "It is so" in line] == [1] + 7 * [0]
    assert "{doc}`Chapter good <part/good>` | Theorem 1 | 1.0 s |" in runs.runs()


def test_recorded_runs_are_listed_by_study_with_their_commits(inside):
    folder = Path("book/recorded/speed")
    folder.mkdir(parents=True)
    for name, commit in {"sgd": "b1", "adam": "a1", "again": "b1"}.items():
        (folder / f"{name}.json").write_text(json.dumps({"commit": commit, "cpu": "Z80"}))
    assert "| `speed` | 3 | a1, b1 | Z80 |" in runs.recorded()


def swept(held=19, of=20, name="half", block=(7000, 7019), noted=None, **more):
    """Write book/robustness.json as `make evidence` does, of the row of this build or of another one."""
    counts = {"held": held, "undecided": 0, "errors": 0, "of": of, "median": 1.0, "low": 0.0, "high": 2.0} | more
    entry = {"block": block, "rows": {name: counts | records.noted(noted or row())}}
    Path("book/robustness.json").write_text(json.dumps({"part/good": entry}))


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"held": 20}, "20/20"),
        ({}, "19/20 (0.76 to 0.99)"),
        ({"held": 18, "errors": 1, "undecided": 1}, "18/20 (0.70 to 0.97, 1 undecided, 1 errors)"),
        ({"noted": row(measured=1.8e-3)}, "19/20 (0.76 to 0.99)"),
        ({"noted": row(measured=3e-3)}, "not yet run"),
        ({"noted": row(bound=2e-2)}, "not yet run"),
        ({"noted": row(kind="ablation")}, "not yet run"),
        ({"noted": row(statement="It is not so")}, "not yet run"),
        ({"name": "other"}, "not yet run"),
        ({"held": 20, "median": 0.3, "low": 0.3, "high": 0.3}, "nothing random"),
        ({"held": 20, "median": 1.0, "low": 1.0, "high": 1.0}, "20/20"),
        ({"held": 19, "errors": 1, "median": 0.3, "low": 0.3, "high": 0.3}, "19/20 (0.76 to 0.99, 1 errors)"),
        ({"held": 3}, "3/20 (0.05 to 0.36)"),
    ],
)
def test_fresh_seeds_are_shown_of_the_same_row_and_number_and_the_least_certain_on_the_scoreboard(inside, given, text):
    collected(row(), *([row("other")] if given.get("held") == 3 else []))
    assert ">not yet run</td>" in rows.rows()
    swept(**given)
    assert f">{text}</td>" in rows.rows()
    assert text in line_of("Theorem 1", scoreboard.scoreboard())
    assert "{download}`robustness.json <robustness.json>` (fresh seeds)" in scoreboard.scoreboard()


def test_a_row_that_no_seed_changes_says_so_and_counts_nowhere(inside):
    collected(row(), row("read", recorded=True), row("given"))
    swept(held=20)
    Path("book/nothing-random.yml").write_text("- part/good/given\n")
    shown = rows.rows()
    assert [shown.count(f">{text}</td>") for text in ("20/20", "recorded", "nothing random")] == [1, 1, 1]
    assert "1 rows that hold here and depend on a seed were run again" in scoreboard.scoreboard()
    means = noted(row(), row("read", recorded=True), row("given"))["chips"][0]["means"]
    assert means.endswith("Every row that held here and depends on a seed held at all fresh seeds.")
    assert "seed" not in noted(row("read", recorded=True))["chips"][0]["means"]


@pytest.mark.parametrize(
    ("given", "end"),
    [
        ({"held": 20}, None),
        ({"held": 18}, None),
        ({"held": 17}, "the same at 17 of 20 seeds, the opposite at 3."),
        ({"held": 10, "undecided": 3}, "the same at 10 of 20 seeds, the opposite at 7, undecided at 3."),
        ({"held": 17, "errors": 3}, "the same at 17 of 20 seeds, an error at 3."),
        ({"held": 9}, "the opposite at 11, so this run is the exception."),
    ],
)
def test_a_page_says_in_front_which_rows_few_seeds_repeat(inside, given, end):
    collected(row())
    swept(**given)
    said = noted(row())["turn"]
    assert said.endswith(end) if end else not said
    assert f"” ({row()['verdict']}: {numbers(row())}), the same at" in said or not end
    assert noted(row(), row())["turn"].count("\n- ") == 2 * bool(end)


def noted(*rows, code="computed = 1\n\nmore = 2"):
    """Notes for the page of the chapter on a run with these rows."""
    shown = nbformat.v4.new_output("display_data", {ledger.MIME: list(rows)})
    cells = [nbformat.v4.new_code_cell(text) for text in (code, "tell('good', n=1)", "show('tab-good', verdict())")]
    cells[-1].outputs = [shown]
    return chips.about("part/good", nbformat.v4.new_notebook(cells=cells))


def test_a_page_is_told_its_claims_and_checks_and_what_the_run_costs(inside):
    rows = [row(), row("more"), row("worse", measured=1), row("broken", measured=1, kind="ablation")]
    rows += [row("ours", of="book"), row("kept", kind="ablation"), row("open", of="book", interval=(-1, 1))]
    collected(*rows)
    about = noted(*rows)
    assert (about["of"], about["runs"], about["lines"]) == ("Theorem 1 · Paper", "runs in 1 s", 2)
    paper, checks = about["chips"]
    assert (paper["text"], paper["verdict"]) == ("claims as restored: 2 of 3 hold", "in part")
    assert "2 reproduced, 1 not reproduced" in paper["means"]
    assert (checks["text"], checks["verdict"]) == (
        "our checks: 2 of 4 as expected, 1 undecided",
        "does not break the claim",
    )
    assert "1 of 2 of our own findings are confirmed; 1 of 2 ablations break the claim" in checks["means"]


def test_a_row_that_corrects_is_no_claim_that_holds(inside):
    fixed = row("fixed", **QUOTED)
    collected(row(), fixed)
    assert noted(row(), fixed)["chips"][0]["text"] == "claims as restored: 1 of 2 hold, 1 corrected"
    small = [row(name, scale="stand-in") for name in ("small", "smaller")]
    collected(*small)
    assert "in part" not in line_of("Theorem 1", scoreboard.scoreboard())
    collected(fixed, *small)
    assert "in miniature, in part" in line_of("Theorem 1", scoreboard.scoreboard())


def test_a_chapter_without_claims_of_a_paper_has_one_chip_and_without_a_run_none(inside):
    assert (noted()["chips"], noted()["runs"]) == ([], "not yet run")
    collected(row(of="book"))
    assert [chip["text"] for chip in noted(row(of="book"))["chips"]] == ["our checks: 1 of 1 as expected"]
    assert noted(row(of="book"), row("small", scale="stand-in"))["chips"][0]["text"] == "in miniature: 1 of 1 hold"


@pytest.mark.parametrize("sources", [["printed"], ["printed", "restored"], ["restored", "recalled"]])
def test_a_chip_says_if_the_text_of_its_claims_is_not_the_papers(inside, sources):
    rows = [row(f"from-{source}", source=source) for source in sources]
    collected(*rows)
    (chip,) = noted(*rows)["chips"]
    for source in ("restored", "recalled"):
        assert (source in chip["text"]) == (source in sources)
    assert ("the paper's" in chip["text"]) == (sources == ["printed"])


@pytest.mark.parametrize(
    ("code", "does"),
    [
        ("tell('x', a=1)\ntell('x', b=2)", "tell"), ("a = 1\ntell('x', a=a)", ""), ("a = 1", ""), ("", ""),
        ("a = 1\nshow('fig-x', a)", "show"), ("show('fig-x', a)\na = 1", ""),
        ("rows = [theorem.claim('a', b)]", "show"), ("rows = [1, 2]", ""),
        ("text = f'{a}'\ntheorem = source('1', 'Theorem 1', 'printed')", "show"), ("text = 'a'", ""),
    ],
)  # fmt: skip
def test_cells_that_show_what_came_out_are_known(code, does):
    assert catalogue.cell_role(code) == does


def test_a_row_that_fails_on_every_seed_as_in_this_build_is_stable(inside):
    collected(row(measured=1))
    swept(held=0, noted=row(measured=1))
    assert ">fails 20/20, as here</td>" in rows.rows()


@pytest.mark.parametrize(
    ("noted", "function", "turned", "text"),
    [
        (row(), "", ["half"], "1"), (row(), "", ["other"], "none"), (row(), "another", ["half"], "none"),
        (row(measured=5e-3), "", ["half"], "not yet run"),
    ],
)  # fmt: skip
def test_mutants_are_shown_where_the_row_and_the_faulty_function_are_the_same(inside, noted, function, turned, text):
    collected(row())
    swept()
    Path("lib/alpha.py").write_text("def f():\n    return 1\n")
    Path("tests/mutants").mkdir(parents=True)
    Path("tests/mutants/near.yml").write_text("sign: {what: a sign, 'lib/alpha.py::f': 1 -> 2, chapters: [good]}\n")
    chapters = {"part/good": {"turned": turned, "crashed": None}}
    mutant = {"what": "a sign", "chapters": chapters, "function": function or mutants.written()[0].code}
    tables = {"part/good": {"half": records.noted(noted)}}
    Path("book/mutants.json").write_text(json.dumps({"commit": "c", "rows": tables, "mutants": {"sign": mutant}}))
    assert f">{text}</td>" in rows.rows()
    assert "{download}`mutants.json <mutants.json>`" in scoreboard.scoreboard()
