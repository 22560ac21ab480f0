"""Run chapters with a library of which one file is changed; what ended stays in ``build/mutants/runs``.

A run that ended is not made again while its chapter, the library and the change are the same; one that was stopped is.
"""

import json
import os
import shutil
import subprocess
import tempfile
from concurrent.futures import as_completed
from pathlib import Path
from typing import NamedTuple

from workflow.book.catalogue import json_of, write_whole
from workflow.book.dependencies import PACKAGES, sources_hash
from workflow.book.mutants import Mutant
from workflow.run.chapter import CHANGED, label, places_of
from workflow.run.side_by_side import chapter_command, read_result, side_by_side

FOLDER = Path("build/mutants")
LINKED = ("book", "_toc.yml", "requirements.lock", "pyproject.toml", "data")  # beside the library, in a run's folder
MEMORY = 8 * 2**20  # KiB that a run may take: a wrong library may ask for any number
ENDLESS = "was still running after"
NEVER = "it left no result: killed, or out of memory"


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
    FOLDER.mkdir(parents=True, exist_ok=True)
    with side_by_side(jobs) as (pool, run):
        for future in as_completed([pool.submit(_run_group, group, run) for group in groups]):
            yield from future.result()


def _run_group(group, start):
    """Return the outcomes of runs with one library: a copy, compiled code included, with the change."""
    found = [(run, read_result(_place(run), _sources(run))) for run in group]
    if all(outcome for _, outcome in found):
        return found
    with tempfile.TemporaryDirectory(dir=FOLDER) as name:
        folder, mutant = Path(name), group[0].mutant
        for package in filter(os.path.exists, PACKAGES):
            shutil.copytree(package, folder / package)
        if mutant:
            Path(folder, mutant.file).write_text(mutant.text, "utf-8")
        for one in filter(os.path.exists, LINKED):
            (folder / one).symlink_to(Path(one).absolute())
        return [(run, outcome or _run_one(run, folder, start)) for run, outcome in found]


def _run_one(run, folder, start):
    """Run a chapter in that folder as its command does, and keep what became of it."""
    places = {kind: folder / place for kind, place in places_of(run.chapter, label(run.values), "sweep").items()}
    command = chapter_command(run.chapter, run.values, "sweep", _sources(run))
    env, quiet = os.environ | {"TIMEOUT": str(run.limit)}, {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    start(["sh", "-c", f'ulimit -v {MEMORY}; exec "$@"', "sh", *command], cwd=folder, env=env, **quiet)
    if places["claims"].exists():
        left = json_of(places["claims"])
        outcome = {"rows": {row["name"]: row for row in left["rows"]}, "seconds": left["seconds"]}
    else:
        sentence = json_of(places["failure"])["sentence"] if places["failure"].exists() else NEVER
        outcome = {"crashed": sentence.partition("; evidence")[0]}
        if any(part in sentence for part in (NEVER, ENDLESS, CHANGED)):  # another run may end: it is not kept
            return outcome
    write_whole(_place(run), json.dumps(outcome | {"sources": _sources(run)}))
    return outcome


def _place(run):
    name = run.mutant.name if run.mutant else "unchanged"
    return FOLDER / "runs" / name / run.chapter / f"{label(run.values)}.json"


def _sources(run):
    return sources_hash(run.chapter, changed={run.mutant.file: run.mutant.text} if run.mutant else {})
