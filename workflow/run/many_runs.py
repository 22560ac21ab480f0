"""Run chapters many times, for sweeps, roundings and mutants: each run in a separate process, here or on a cluster.

A run is a chapter with values, surroundings, and the library as it is or with one file changed; other recorded runs may
stand in for those that it reads. It leaves its rows, or the sentence with which it failed, in a folder of ``build``,
with a hash of all that it depended on. While the sources have that hash, a run that ended is not made again; one that
was stopped is.
"""

import itertools
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext
from pathlib import Path
from threading import Event
from typing import NamedTuple

from workflow.book.catalogue import BookError, json_of, text_of
from workflow.book.dependencies import PACKAGES, sources_hash
from workflow.book.mutants import Mutant
from workflow.run.chapter import label, places_of
from workflow.run.notebook import time_limit

LINKED = ("build", "workflow", "_toc.yml", "requirements.lock", "pyproject.toml", "data")  # from the folder of a run
MEMORY = 8 * 2**20  # KiB that a run with a mutant may take: a fault may ask for any amount
CLUSTER = {"mem": "3GB", "nodes": 1, "ntasks_per_node": 1, "job_name": "chapters"}
MAX_JOBS = 1000  # jobs that a cluster takes at once; with more runs a job makes several
LOST = {"sentence": "it left no result, killed or out of memory: run the same command again", "cut_off": True}


class Run(NamedTuple):
    """A run of a chapter: where its results go, the hash of its sources, and what differs from a run of the book."""

    chapter: str
    folder: str  # below build
    sources: str
    values: dict  # parameters
    variables: dict  # of the environment
    limit: float  # seconds; 0 for the limit of every chapter
    mutant: Mutant | None
    records: dict  # recorded files, by path, that others stand in for, and the paths of these


def plan(chapter, folder, values, variables=None, limit=0, mutant=None, records=None):
    """A run, with the hash of what it depends on beside its values."""
    changed, variables, records = {mutant.file: mutant.text} if mutant else {}, variables or {}, records or {}
    changed |= {path: text_of(other) for path, other in records.items() if path.endswith(".json")}
    said = [f"{name}={variables[name]}" for name in sorted(variables)]
    sources = " ".join([sources_hash(chapter, changed=changed), *said])
    return Run(chapter, folder, sources, values, variables, limit, mutant, records)


def places(run):
    """Paths of a run's rows, or of the sentence and the notebook with which it failed."""
    return places_of(run.chapter, label(run.values), run.folder)


def outcome(run):
    """Result of a run: a chapter's summary with its ``rows``, or the ``sentence`` with which it failed."""
    for path in (places(run)["claims"], places(run)["failure"]):
        if path.exists() and (left := json_of(path)).get("sources") == run.sources:
            return left
    return LOST


def has_ended(run):
    """Tell whether a run came to its end; more time may end one that was cut off."""
    return not outcome(run).get("cut_off")


def outcomes(groups, place):
    """Yield each run with what it left, as groups of runs with one library end; ``place`` makes them."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{Path(sys.argv[0]).stem}: stopped"))
    ended, left = [], []
    for group in groups:
        (ended if all(map(has_ended, group)) else left).append(group)
    with place() as make:
        for share in itertools.chain([ended], make(left)):
            for run in itertools.chain(*share):
                yield run, outcome(run)


def make_groups(groups, call=subprocess.call):
    """Make the runs of some groups that have not ended, one after the other; return the groups."""
    for group in groups:
        left = [run for run in group if not has_ended(run)]
        changed = left and (group[0].mutant or group[0].records)
        with changed_folder(group[0]) if changed else nullcontext() as folder:
            for run in left:
                places(run)["failure"].unlink(missing_ok=True)
                env = os.environ | run.variables | {"TIMEOUT": str(run.limit or time_limit())}
                quiet = subprocess.DEVNULL if run.mutant else None
                call(command(run), cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=quiet)
    return groups


def command(run):
    """The command that makes a run."""
    words = [sys.executable, "-m", "workflow.commands.chapter", run.chapter, "--values", json.dumps(run.values)]
    words += ["--into", run.folder, "--sources", run.sources]
    return ["sh", "-c", f'ulimit -v {MEMORY}; exec "$@"', "sh", *words] if run.mutant else words


@contextmanager
def changed_folder(run):
    """A folder with a copy of the library, compiled code included, its change, and links to all else."""
    Path("build/mutants").mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir="build/mutants") as name:
        for package in filter(os.path.exists, PACKAGES):
            shutil.copytree(package, Path(name, package))
        if run.mutant:
            Path(name, run.mutant.file).write_text(run.mutant.text, "utf-8")
        for path in filter(Path.is_file, Path("book").rglob("*")):
            Path(name, path.parent).mkdir(parents=True, exist_ok=True)
            Path(name, path).symlink_to(Path(run.records.get(path.as_posix(), path)).absolute())
        for linked in filter(os.path.exists, LINKED):
            Path(name, linked).symlink_to(Path(linked).absolute())
        yield name


def count_jobs():
    """Number of runs at a time: JOBS or the number of cores, over the threads of each."""
    return max(1, int(os.environ.get("JOBS") or os.cpu_count()) // int(os.environ.get("THREADS") or 1))


@contextmanager
def here():
    """Yield a function that makes groups of runs on this machine, side by side; no process outlives the block."""
    started, ended, pool = [], Event(), ThreadPoolExecutor(count_jobs())

    def call(words, **options):
        started.append(process := subprocess.Popen(words, **options))
        if ended.is_set():  # while this process was being started
            process.terminate()
        return process.wait()

    def make(groups):
        for future in as_completed([pool.submit(make_groups, [group], call) for group in groups]):
            yield future.result()

    try:
        yield make
    finally:
        ended.set()
        pool.shutdown(wait=False, cancel_futures=True)
        for process in started:
            process.terminate()
        pool.shutdown()


@contextmanager
def cluster():
    """Yield a function that makes groups of runs as jobs of SLURM, on a file system that all machines share.

    Without SLURM's accounts nobody learns that a job was killed, and the command waits for it until it is stopped.
    """
    import submitit

    executor, jobs = submitit.SlurmExecutor("build/cluster"), []

    def make(groups):
        if not groups:
            return
        shares = [groups[k::MAX_JOBS] for k in range(min(MAX_JOBS, len(groups)))]
        seconds = max(sum(run.limit or time_limit() for group in share for run in group) for share in shares)
        threads = int(os.environ.get("THREADS") or 1)
        limits = {"time": math.ceil(seconds / 60) + 5, "cpus_per_task": threads, "array_parallelism": count_jobs()}
        executor.update_parameters(**CLUSTER, **limits)
        jobs.extend(executor.map_array(make_groups, shares))
        for job in submitit.helpers.as_completed(jobs, poll_frequency=1):
            if job.exception():
                print(f"job {job.job_id} of the cluster did not end: {job.paths.stderr}", file=sys.stderr, flush=True)
            yield shares[jobs.index(job)]

    try:
        yield make
    finally:
        for job in jobs:
            if not job.done():
                job.cancel(check=False)


def place():
    """Context in which runs are made: this machine, or a cluster where PROFILE is slurm."""
    profile = os.environ.get("PROFILE", "")
    if profile not in ("", "slurm"):
        raise BookError(f"PROFILE is {profile!r}: give slurm, or leave it out to run here")
    if profile and not shutil.which("srun"):
        raise BookError("PROFILE is 'slurm', but there is no srun here: use a machine from which jobs are sent")
    return cluster if profile else here
