"""Sweeps and builds of a small book on a SLURM of its own: whole when called again, and nothing twice.

Each run of the book leaves its word when it begins. One with a seed of 2 waits for the file ``go``.
"""

import json
import os
import signal
import subprocess
import sys
import time

import pytest
from test_workflow import ROOT, Book

WAITS = 'while seed == 2 and not os.path.exists("go"): time.sleep(0.1)'
NOTES = 'open(f"began-{seed}", "a").write("x")'
ALL = {"1": 1, "2": 1, "3": 1}


class Driver:
    """One call of `make sweep NAME=good SEEDS=1:3 PROFILE=slurm`, or of another script."""

    def __init__(self, book, script="sweep", *arguments, **env):
        env = os.environ | {"NAME": "good", "SEEDS": "1:3", "PROFILE": "slurm"} | env
        self.process = subprocess.Popen(
            [sys.executable, ROOT / f"workflow/{script}.py", *arguments],
            cwd=book.folder,
            env=env,
            start_new_session=True,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    def end(self):
        """Return the status and what it said."""
        said = self.process.communicate(timeout=240)[0]
        return self.process.returncode, said

    def kill(self, number):
        """Send a signal to all of the driver, as a terminal does, and none to the jobs."""
        os.killpg(self.process.pid, number)
        return self.end()


@pytest.fixture
def book(tmp_path):
    yield Book(tmp_path).add("good", f"{NOTES}\n{WAITS}")
    slurm("scontrol", "update", f"NodeName={node()}", "State=RESUME")
    if jobs := [job for job, *_ in queue()]:
        slurm("scancel", *jobs)
        until(lambda: not queue())


def slurm(*command):
    """Return what a program of SLURM prints."""
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout


def queue():
    """Return number, state and comment of each job that has not ended."""
    return [line.split("|") for line in slurm("squeue", "--noheader", "--format=%i|%T|%k").splitlines()]


def node():
    return slurm("sinfo", "--noheader", "--format=%n").strip()


def until(condition, seconds=150):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, slurm("squeue", "--states=all")
        time.sleep(0.2)


def begun(book):
    """Return how often the run at each seed began."""
    return {path.name.partition("-")[2]: path.stat().st_size for path in sorted(book.folder.glob("began-*"))}


def ended(book):
    """Return how many runs left their result."""
    return len([path for path in book.folder.glob("build/sweep/part/good/*.json") if "failed" not in path.name])


def go(book):
    (book.folder / "go").touch()


def waits_alone(book):
    """Tell whether the runs of other seeds are done, and that of seed 2 is in the middle."""
    return ended(book) == 2 and begun(book) == ALL and len(queue()) == 1


def assert_whole(book, again, counts=ALL):
    """The sweep is done, each run began as often as it had to, and a third call finds nothing to do."""
    status, said = again.end()
    assert status == 0, said
    assert "3 runs, 0 failed" in said
    table = json.loads((book.folder / "build/sweep/part/good.json").read_text())
    assert table["sets"][0]["rows"]["half"]["held"] == 3
    assert begun(book) == counts
    assert queue() == []
    status, said = Driver(book).end()
    assert (status, begun(book)) == (0, counts), said
    assert not list((book.folder / "build/running").iterdir())


def test_whole_with_no_more_jobs_than_runs_each_with_what_it_asks_for(book):
    first = Driver(book, THREADS="2", TIMEOUT="61")
    until(lambda: begun(book) == ALL)
    ((job, _, _),) = [one for one in queue() if one[2].endswith("seed=2")]
    asked = slurm("scontrol", "show", "job", job)
    for words in ("NumCPUs=2", "mem=3000M", "TimeLimit=00:12:00", f"WorkDir={book.folder}"):
        assert words in asked
    assert "gpu" not in asked
    go(book)
    assert_whole(book, first)


def test_job_that_was_cancelled_stops_no_other_and_runs_again_alone(book):
    first = Driver(book)
    until(lambda: waits_alone(book))
    slurm("scancel", queue()[0][0])
    status, said = first.end()
    assert status == 1
    assert "3 runs, 1 failed" in said
    assert "seed=2: it was stopped before it could say why: run the same command again" in said
    go(book)
    assert_whole(book, Driver(book), ALL | {"2": 2})


def test_drained_node_ends_what_runs_and_the_sweep_waits_for_it(book):
    drain = ("scontrol", "update", f"NodeName={node()}", "State=DRAIN", "Reason=test")
    first = Driver(book, JOBS="1", SEEDS="2:3")
    until(lambda: begun(book) or (len(queue()) == 1 and queue()[0][1] == "RUNNING"))
    slurm(*drain)
    go(book)
    until(lambda: [state for _, state, _ in queue()] == ["PENDING"])
    assert ended(book) == 1
    slurm("scontrol", "update", f"NodeName={node()}", "State=RESUME")
    status, said = first.end()
    assert status == 0, said
    assert_whole(book, Driver(book))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL], ids=["interrupted", "killed"])
def test_driver_that_stops_is_called_again(book, number):
    first = Driver(book)
    until(lambda: waits_alone(book))
    status, said = first.kill(number)
    if number == signal.SIGINT:  # it takes its jobs back
        assert status == 130
        assert "interrupted: the same command goes on where it stopped" in said
        until(lambda: not queue(), 30)
        go(book)
        assert_whole(book, Driver(book), ALL | {"2": 2})
    else:  # its jobs go on, and the next driver waits for them
        again = Driver(book)
        until(lambda: "still running, 1 of them" in again.process.stdout.readline())
        go(book)
        assert_whole(book, again)


def test_killed_driver_leaves_jobs_that_have_not_begun_to_the_next(book):
    slurm("scontrol", "update", f"NodeName={node()}", "State=DRAIN", "Reason=test")
    first = Driver(book)
    until(lambda: [state for _, state, _ in queue()] == ["PENDING"] * 3)
    first.kill(signal.SIGKILL)
    old = {job for job, *_ in queue()}
    go(book)
    again = Driver(book)
    until(lambda: len(queue()) == 3 and not old & {job for job, *_ in queue()})
    slurm("scontrol", "update", f"NodeName={node()}", "State=RESUME")
    assert_whole(book, again)


def test_network_on_a_gpu_asks_for_one(book):
    page = book.folder / "book/part/good.md"
    page.write_text(page.read_text().replace('loss: str = "logistic"', 'loss: str = "logistic"\ndevice: str = "cpu"'))
    (book.folder / "values.yml").write_text("device: [cuda]\n")
    first = Driver(book, SEEDS="2", PARAMETERS="values.yml")
    until(queue)
    assert "gpu:1" in slurm("scontrol", "show", "job", queue()[0][0])
    go(book)
    status, said = first.end()
    assert status == 0, said
    assert book.has("build/sweep/part/good/device=cuda+seed=2.json")


def test_book_says_on_the_terminal_why_a_chapter_failed_elsewhere(book):
    go(book)
    book.add("bad", "1 / 0").add("lost", "os.kill(os.getppid(), 9), time.sleep(60)")
    status, said = Driver(book, "build", "build/ledger.json").end()
    assert status == 1
    assert "part/bad: cell 2 (book/part/bad.md:" in said
    assert "failed: ZeroDivisionError: division by zero; evidence: build/evidence/part/bad.ipynb" in said
    assert "part/lost: its job was stopped before it could say why, see build/slurm/" in said
    assert book.has("build/claims/part/good.json")
