"""Runs on a cluster: what each asks for, what an earlier call may have left there, and what a failed one said.

Everything that names a job is its name, ``sweep_…`` or ``Snakefile_…``, and the folder that it works in.
"""

import importlib.util
import math
import shutil
import subprocess
import sys
import time
import tomllib
from pathlib import Path

from chapters import BookError, chapters

START = 10  # minutes that a run may take beside its time limit, for a busy file system
LOGS = Path("build/slurm")  # as profiles/slurm says
PAUSE = 5  # seconds between two looks at the queue


def minutes(chapter):
    """Return how long a run may hold its machine: somewhat more than the chapter's own limit, which tells more."""
    from execution import TIMEOUT, time_limit  # slow to import

    try:
        limit = time_limit(chapter)
    except BookError:  # which the run will report
        limit = TIMEOUT
    return START + math.ceil(limit / 60)


def gpus(values):
    """Return how many GPUs a run with these values asks for: the trained networks take one as ``device=cuda``."""
    return int(str(values.get("device", "")).startswith("cuda"))


def install():
    """Install the executor, which nothing else here needs, if this is the first call."""
    if not importlib.util.find_spec("snakemake_executor_plugin_slurm"):
        print("environment: installing the executor for SLURM", flush=True)
        root = Path(__file__).parents[1]
        groups = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--constraint", root / "requirements.lock"]
        if subprocess.run([*pip, *groups["cluster"]], check=False).returncode:
            sys.exit("the executor for SLURM was not installed: see above what pip says")


def ready(name):
    """See to it that jobs can be sent from here, and that no earlier call's jobs called ``name`` are left."""
    if missing := [tool for tool in ("sbatch", "squeue", "scancel") if not shutil.which(tool)]:
        sys.exit(f"there is no {missing[0]} on this machine: run make where the cluster takes jobs, or without PROFILE")
    install()
    if jobs := left(name):  # a killed driver takes back nothing
        subprocess.run(["scancel", "--state=PENDING", *jobs], check=False)
    told = False
    while jobs := left(name):
        if not told:
            print(f"jobs of an earlier call are still running, {len(jobs)} of them: waiting until they end", flush=True)
        told = True
        time.sleep(PAUSE)


def left(name):
    """Return the jobs of this folder that wait, run or end."""
    call = ["squeue", "--me", "--noheader", "--format=%i|%j|%Z"]
    asked = subprocess.run(call, capture_output=True, text=True, check=False)
    if asked.returncode:
        sys.exit(f"the cluster does not answer ({asked.stderr.strip()}): try again later")
    jobs = (line.split("|", 2) for line in asked.stdout.splitlines())
    return [job for job, called, folder in jobs if called.startswith(f"{name}_") and folder == str(Path.cwd())]


def logs():
    """Return what jobs left that were not done."""
    return set(LOGS.rglob("*.log"))


def last_words(log):
    """Return the line by which a chapter said why it failed, or that it said nothing."""
    named = tuple(f"{chapter}: " for chapter in chapters())
    said = [line for line in log.read_text("utf-8", "replace").splitlines() if line.startswith(named)]
    if not said:
        return f"a job ended before its chapter began, see {log}"
    if said[-1].endswith((": running", ": stopped")):
        return f"{said[-1].rpartition(':')[0]}: its job was stopped before it could say why, see {log}"
    return said[-1]
