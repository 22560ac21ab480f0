"""Run chapters with a library of which one file is changed; what ended stays in ``build/mutants/runs``.

A run that ended is not made again while its chapter, the library and the change are the same; one that was stopped is.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path
from typing import NamedTuple

from workflow.book.catalogue import code_of, json_of, write_whole
from workflow.book.dependencies import library_of
from workflow.run.chapter import label, places_of

FOLDER = Path("build/mutants")
LINKED = ("book", "_toc.yml", "requirements.lock", "pyproject.toml", "data")  # beside the library, in a run's folder
MEMORY = 8 * 2**20  # KiB that a run may take: a wrong library may ask for any number
ENDLESS = "was still running after"
NEVER = "it left no result: killed, or out of memory"


class Mutant(NamedTuple):
    """A changed library: what is wrong with it, which file, its new text, and the chapters that should see it."""

    name: str
    kind: str
    what: str
    file: str
    text: str
    chapters: tuple
    survives: str = ""


class Run(NamedTuple):
    """A chapter at these parameters, with a changed library or the library as it is, for so many seconds at most."""

    chapter: str
    values: dict
    mutant: Mutant | None
    limit: float


def outcomes(groups, jobs):
    """Yield (run, outcome) as runs end, ``jobs`` at a time; those of an earlier call at once.

    Those of a group run one after the other in one library, because what is compiled there serves them all. An outcome
    has ``rows`` and ``seconds``, or ``crashed`` with the sentence of a run that failed or did not end in time.
    """
    started, pool = [], ThreadPoolExecutor(jobs)
    futures = [pool.submit(_run_group, group, started) for group in groups]
    try:
        for future in as_completed(futures):
            yield from future.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)
        for process in started:
            process.terminate()
        for process in started:
            process.wait()


def _run_group(group, started):
    """Return the outcomes of runs with one library: a copy, compiled code included, with the change."""
    found = [(run, _ended(run)) for run in group]
    if all(outcome for _, outcome in found):
        return found
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        folder, mutant = Path(name), group[0].mutant
        shutil.copytree("lib", folder / "lib")
        if mutant:
            Path(folder, "lib", mutant.file).write_text(mutant.text, "utf-8")
        for one in filter(os.path.exists, LINKED):
            (folder / one).symlink_to(Path(one).absolute())
        return [(run, outcome or _run_one(run, folder, started)) for run, outcome in found]


def _run_one(run, folder, started):
    """Run a chapter in that folder as its command does, and keep what became of it."""
    places = {kind: folder / place for kind, place in places_of(run.chapter, label(run.values), "sweep").items()}
    command = [sys.executable, "-m", "workflow.commands.chapter", run.chapter, "--values", json.dumps(run.values)]
    env = os.environ | {"TIMEOUT": str(run.limit)}
    limited = ["sh", "-c", f'ulimit -v {MEMORY}; exec "$@"', "sh", *command, "--into", "sweep"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(limited, cwd=folder, env=env, **quiet)
    started.append(process)
    process.wait()
    if places["claims"].exists():
        left = json_of(places["claims"])
        outcome = {"rows": {row["name"]: row for row in left["rows"]}, "seconds": left["seconds"]}
    else:
        sentence = json_of(places["failure"])["sentence"] if places["failure"].exists() else NEVER
        outcome = {"crashed": sentence.partition("; evidence")[0]}
        if sentence == NEVER or ENDLESS in sentence:  # stopped, or more time may end it: it is not kept
            return outcome
    write_whole(_place(run), json.dumps(outcome | {"of": _stamp(run)}))
    return outcome


def _place(run):
    return FOLDER / "runs" / (run.mutant.name if run.mutant else "unchanged") / f"{run.chapter}.json"


def _ended(run):
    """Return the outcome of a run that ended in an earlier call, or None."""
    found = json_of(_place(run)) if _place(run).exists() else {}
    return found if found.get("of") == _stamp(run) else None


def _stamp(run):
    """Return a hash of all that a run depends on: chapter, parameters, the library that it imports, and the change."""
    files = [Path(path).read_bytes() for path in [*library_of(run.chapter), "requirements.lock"]]
    change = (run.mutant.file, run.mutant.text) if run.mutant else None
    return hashlib.sha256(repr([code_of(run.chapter), run.values, files, change]).encode()).hexdigest()
