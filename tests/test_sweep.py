"""Sweeps over small books: what they leave, what they run again, and what they refuse."""

import json
import os
import re
import shlex
import sys
from pathlib import Path

import pytest

from tests.problems import refuses
from tests.small_book import Book, until
from workflow.commands import ends, sweep
from workflow.run import engine

ROOT = Path(__file__).parents[1]

SEED = "seed: int = 3  # of nothing\n"


def swept(book, name="good", seeds="", **env):
    return book.script("sweep", NAME=name, SEEDS=seeds, **({"JOBS": "4"} | env))


def table(book, name="good"):
    return json.loads((book.folder / f"build/sweep/part/{name}.json").read_text())


def without_chance(book, name):
    """Make a chapter of the book one without a seed."""
    page = book.add(name).folder / f"book/part/{name}.md"
    text = page.read_text()
    assert SEED in text
    page.write_text(text.replace(SEED, "").replace('small", seed,', 'small", 1,'))


@pytest.fixture(scope="module")
def of_two(tmp_path_factory):
    """A sweep of two chapters: one of them fails on one of six seeds, the other has none."""
    book = Book(tmp_path_factory.mktemp("swept")).add("good", 'assert seed != 4, "four"')
    without_chance(book, "plain")
    book.process = swept(book, "good plain", "1:6")
    return book


class TestResults:
    """Of one sweep in which a run fails."""

    def test_one_file_a_run_and_a_notebook_of_the_failed_one_alone(self, of_two):
        runs = of_two.folder / "build/sweep/part"
        left = {str(path.relative_to(runs)) for path in runs.rglob("*") if path.suffix != ".log" and path.is_file()}
        seeds = ["seed=1", "seed=2", "defaults", "seed=5", "seed=6"]  # 3 is the chapter's own seed
        expected = {f"good/{run}.json" for run in seeds} | {"good/seed=4.failed.json", "good/seed=4.failed.ipynb"}
        expected |= {"good.json", "plain/defaults.json", "plain.json"}
        assert left == expected
        assert json.loads((runs / "good/seed=2.json").read_text())["parameters"]["seed"] == 2
        assert of_two.running() == ["good"] * 6 + ["plain"]
        assert not list((of_two.folder / "build/running").iterdir())

    def test_table_counts_and_measures(self, of_two):
        (part,) = table(of_two)["sets"]
        assert part["parameters"] == {"step": 0.5, "loss": "logistic", "exact": False}
        half, seed = part["rows"]["half"], part["rows"]["seed"]
        assert (half["held"], half["of"], half["errors"], half["undecided"]) == (5, 6, 1, 0)
        # the control fails where the seed is above 2; 4 gave nothing, and counts as not held
        assert (seed["held"], seed["of"], seed["errors"]) == (3, 6, 1)
        assert (seed["median"], seed["low"], seed["high"]) == (3, 1, 6)
        assert seed["wilson_low"] == pytest.approx(0.1876, abs=1e-4)  # of 3 in 6, from a table
        assert seed["wilson_high"] == pytest.approx(0.8124, abs=1e-4)
        assert list(part["errors"]) == ["seed=4"]

    def test_terminal_shows_the_table_and_last_of_all_what_failed(self, of_two):
        out, errors = of_two.process.stdout, of_two.process.stderr
        assert of_two.process.returncode == 1
        assert "7 of 7 runs are to be done" in out
        assert "(7 of 7)" not in out  # one of them failed
        assert "(6 of 7)" in out
        assert "part/good, defaults: 6 runs, 1 failed" in out
        assert "held 3 of 6 [0.19, 0.81]" in out
        *_, head, last = errors.splitlines()
        assert head == "part/good, defaults: 1 of 6 runs failed"
        assert last.startswith("  seed=4: cell 2 (book/part/good.md:")
        assert last.endswith("failed: AssertionError: four; evidence: build/sweep/part/good/seed=4.failed.ipynb")
        assert "Traceback" not in out + errors

    def test_chapter_without_a_seed_runs_once_and_says_so(self, of_two):
        assert "part/plain: it has no parameter seed and nothing random, so it runs once" in of_two.process.stdout
        assert table(of_two, "plain")["sets"][0]["rows"]["half"]["of"] == 1

    def test_again_runs_what_failed_alone_until_it_is_mended(self, of_two):
        of_two.ran()
        again = swept(of_two, "good plain", "1:6")
        assert again.returncode == 1
        assert of_two.ran() == ["good"]
        assert "seed=4: cell 2" in again.stderr
        page = of_two.folder / "book/part/good.md"
        page.write_text(page.read_text().replace("seed != 4", "seed != 7"))
        mended = swept(of_two, "all", "1:6")
        assert mended.returncode == 0, mended.stderr
        assert of_two.ran() == ["good"] * 6  # other code: all its runs are stale, those of the other chapter are not
        assert not list((of_two.folder / "build/sweep").rglob("*.failed.*"))
        assert table(of_two)["sets"][0]["rows"]["half"]["held"] == 6


def test_killed_run_leaves_nothing_half_and_stops_no_other(book):
    book.add("good", 'if os.path.exists("kill") and seed == 2: os.kill(os.getppid(), 9), time.sleep(60)')
    (book.folder / "kill").touch()
    first = swept(book, seeds="1:2")
    assert first.returncode == 1
    assert f"seed=2: {engine.LOST['sentence']}" in first.stderr
    assert not book.has("build/sweep/part/good/seed=2.json")
    assert table(book)["sets"][0]["rows"]["half"]["errors"] == 1
    (book.folder / "kill").unlink()
    assert book.ran() == ["good", "good"]
    assert swept(book, seeds="1:2").returncode == 0
    assert book.ran() == ["good"]


def test_sweeps_and_a_build_leave_each_other_alone_and_what_one_did_the_next_does_not(book):
    book.add("good", 'while not os.path.exists("go") and seed in (1, 3): time.sleep(0.05)')
    two = {"JOBS": "2", "THREADS": "1"}
    build = book.begin(book.command("ledger"), **two)
    until(lambda: len(book.running()) == 1)
    command = [sys.executable, "-m", "workflow.commands.sweep"]
    sweeps = [book.begin(command, NAME="good", SEEDS=seeds, **two) for seeds in ("1", "2")]
    until(lambda: len(book.running()) == 3)
    (book.folder / "go").touch()
    for process in (build, *sweeps):
        said = process.communicate(timeout=300)
        assert process.returncode == 0, said
    assert len(book.ran()) == 3
    assert "0 of 2 runs are to be done" in swept(book, seeds="1:2").stdout
    assert table(book)["sets"][0]["rows"]["half"]["held"] == 2
    assert book.build().returncode == 0
    assert book.ran() == []


def test_values_of_a_file_are_combined_with_the_seeds_and_told_apart(book):
    (book.folder / "grid.yml").write_text("step: [0.5, 1e-1]\n")
    process = swept(book.add("good"), seeds="1:2", PARAMETERS="grid.yml")
    assert process.returncode == 0, process.stderr
    sets = {part["set"]: part["rows"] for part in table(book)["sets"]}
    assert sets.keys() == {"defaults", "step=0.1"}
    assert [sets[name]["half"]["held"] for name in ("defaults", "step=0.1")] == [2, 0]
    assert [sets[name]["half"]["median"] for name in ("defaults", "step=0.1")] == [0.5, 0.1]


def test_ends_run_each_parameter_alone_and_tell_which_verdict_turned(book):
    page = book.add("good").folder / "book/part/good.md"
    page.write_text(page.read_text().replace("# how far", "# how far, 0.1 to 0.5"))
    process = swept(book, PARAMETERS="ends")
    assert process.returncode == 0, process.stderr
    assert len(book.ran()) == 3  # the defaults, step=0.1 and exact; 0.5 is the default
    said = {words[1]: words[3] for line in process.stdout.splitlines() if len(words := line.split(" | ")) == 4}
    assert said == {"step=0.1": "half not reproduced", "exact=True": "as at the defaults"}
    assert "0 of 3 runs are to be done" in swept(book, PARAMETERS="ends").stdout


RANGES = {
    "seed": ("int", 3, "0 to 9"), "inputs": ("int", 3, "1 to 5"), "tokens": ("int", 2, "at least 2, below 9"),
    "dimension": ("int", 10, "at least inputs * tokens, at most 20"), "few": ("int", 2, "of inputs, 1 to inputs"),
    "step": ("float", 0.5, "1e-3 to 1"), "loss": ("str", "logistic", "or hinge, square"),
    "widths": ("list", [2, 5], "each whole, 1 to 9, 1 to 3 of them"), "many": ("int", 4, ""),
}  # fmt: skip


def test_ends_of_ranges():
    sets = ends.sets_of(RANGES)
    assert sets[0] == {}
    assert sets[1:] == [
        {"inputs": 1, "few": 1}, {"inputs": 5}, {"dimension": 6}, {"dimension": 20}, {"few": 1}, {"few": 3},
        {"step": 0.001}, {"step": 1.0}, {"loss": "hinge"}, {"loss": "square"},
        {"widths": [1, 5]}, {"widths": [2, 9]}, {"widths": [2]}, {"widths": [2, 3, 5]},
    ]  # fmt: skip
    assert all(ends.refused(RANGES, values) is None for values in sets)
    crowded = RANGES | {"inputs": ("int", 3, "1 to 11")}
    assert "dimension" in ends.refused(crowded, {"inputs": 11, "dimension": 20})


# What submitit calls of SLURM, for this machine alone: `sbatch` begins all jobs of an array and comes back.
SLURM = {
    "sbatch": r"""#!{python}
import os, re, shutil, subprocess, sys
shutil.copy(sys.argv[1], "sent.sh")
for index in range(int(re.search(r"--array=0-(\d+)%", open(sys.argv[1]).read())[1]) + 1):
    job = {{"SLURM_JOB_ID": str(8 + index), "SLURM_ARRAY_JOB_ID": "7", "SLURM_ARRAY_TASK_ID": str(index)}}
    quiet = {{"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}}
    subprocess.Popen(["sh", "sent.sh"], env=os.environ | job | {{"SLURM_PROCID": "0"}}, **quiet)
print("Submitted batch job 7")
""",
    "srun": '#!/bin/sh\nshift 5\nexec "$@"\n',  # without --unbuffered, --output and --error
    "sacct": "#!/bin/sh\n",
}


def test_with_a_profile_each_run_is_a_job_of_a_cluster(book):
    pytest.importorskip("submitit", reason="installed by PROFILE=slurm alone")
    book.add("good", 'assert seed != 2, "two"')
    for name, text in SLURM.items():
        (book.folder / name).write_text(text.format(python=sys.executable) if name == "sbatch" else text)
        (book.folder / name).chmod(0o755)
    path = f"{book.folder}{os.pathsep}{os.environ['PATH']}"
    process = swept(book, seeds="1:3", PROFILE="slurm", THREADS="2", PATH=path)
    assert process.returncode == 1, process.stderr
    assert process.stderr.splitlines()[-1].startswith("  seed=2: cell 2 (book/part/good.md:")
    sent = (book.folder / "sent.sh").read_text()
    assert "--array=0-2%2\n" in sent, "a job for each run, of which JOBS=4 over two threads run at a time"
    assert "--cpus-per-task=2\n" in sent
    assert (table(book)["sets"][0]["rows"]["half"]["held"], book.ran()) == (2, ["good"] * 3)


def test_undecided_counts_apart_and_a_baseline_not_at_all():
    verdicts = ["confirmed", "undecided", "refuted", None]
    rows = [[{"name": "row" if word else "null", "verdict": word, "measured": 1.0}] for word in verdicts]
    table = sweep.table_of([{"rows": run} for run in rows])
    assert list(table) == ["row"]
    assert [table["row"][key] for key in ("held", "undecided", "errors", "of")] == [1, 1, 0, 4]


# Refusals: one sentence, before anything runs.

FILES = {
    "good.yml": "step: [0.1]", "lacks.yml": "sedd: [1, 2]", "type.yml": "step: [0.1, fast]", "scalar.yml": "step: 0.1",
    "empty.yml": "step: []", "words.yml": "- fast", "seed.yml": "seed: [1, 2]", "open.yml": "step: [",
}  # fmt: skip
REFUSED = [
    ({"NAME": "good bad"}, "'bad'"),
    ({"SEEDS": ""}, "nothing varies"),
    *(({"SEEDS": seeds}, repr(seeds)) for seeds in ("9:3", "one:two", "1.5:3", "-3:2", "5:", "1:2:3", "٣:٤", "9" * 23)),
    ({"SEEDS": "0:999999999"}, "1000000000 runs"),
    ({"PARAMETERS": "ends"}, "leave SEEDS out"),
    ({"PARAMETERS": "lacks.yml"}, "sedd"),
    ({"PARAMETERS": "type.yml"}, "step='fast'"),
    *(({"PARAMETERS": name}, name) for name in ("scalar.yml", "empty.yml", "words.yml", "open.yml", "lost.yml")),
    ({"PARAMETERS": "seed.yml"}, "seed is given twice"),
    ({"PROFILE": "grid"}, "PROFILE is 'grid'"),
    ({"PROFILE": "slurm", "PATH": ""}, "no srun here"),
]


@pytest.mark.parametrize(("variables", "named"), REFUSED)
def test_bad_input_is_one_sentence_and_nothing_runs(inside, monkeypatch, variables, named):
    for name, text in FILES.items():
        Path(name).write_text(text)
    for name, value in ({"NAME": "good", "SEEDS": "1:2", "PARAMETERS": ""} | variables).items():
        monkeypatch.setenv(name, value)
    refuses(sweep.main, named)
    assert not Path("build").exists()
    assert not Path("runs.txt").exists()


def test_every_sweep_that_a_page_prints_is_one_that_the_workflow_takes(monkeypatch):
    monkeypatch.chdir(ROOT)
    pages = [*Path("book").rglob("*.md"), Path("README.md"), Path("CONTRIBUTING.md")]
    lines = [line for page in pages for line in re.findall(r"make sweep ([^#`'\n]+)", page.read_text("utf-8"))]
    for line in lines:
        words = dict(word.split("=", 1) for word in shlex.split(line))
        words["NAME"] = words["NAME"].replace("<name>", "theorem-2")
        sets = sweep.sets_of("") if "SEEDS" in words else [{"iterations": 1000, "loss": "logistic"}]  # as the page's
        assert sweep.plan(words["NAME"], sweep.seeds_of(words.get("SEEDS")), sets)
    assert len(lines) > 5
