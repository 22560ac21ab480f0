"""Runs of chapters in changed libraries, in processes of their own; what ended stands in ``build/mutants/runs``.

A run that ended is not made again while its chapter, the library and its mutant are the same; one that was stopped is.
"""

import hashlib
import json
import math
import resource
import signal
import sys
import time
from multiprocessing import get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple

from workflow.book.catalogue import BookError, code_of, json_of, write_whole
from workflow.book.dependencies import library_of, recorded_hash
from workflow.run import headless
from workflow.run.libraries import lay_out

FOLDER = Path("build/mutants")
WAITING = 4  # times as long by the clock, on a machine that does other things, too


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
    """What one process does: a chapter at these parameters, in a library of its own, for so many seconds."""

    chapter: str
    values: dict
    mutant: Mutant | None
    limit: float


def _place(run):
    return Path(FOLDER, "runs", run.mutant.name if run.mutant else "unchanged", f"{run.chapter}.json").absolute()


def _stamp(run):
    """Return a hash of all that a run depends on: chapter, parameters, the library that it imports, and its change."""
    files = [Path(path).read_bytes() for path in [*library_of(run.chapter), "requirements.lock"]]
    changed = (run.mutant.file, run.mutant.text) if run.mutant else None
    return hashlib.sha256(repr([recorded_hash(run.chapter), run.values, files, changed]).encode()).hexdigest()


def _ended(run):
    """Return the outcome of a run that ended, in this call or an earlier one, or None."""
    found = json_of(_place(run)) if _place(run).exists() else {}
    return found if found.get("of") == _stamp(run) else None


def _child(run, library):
    """Run a chapter in this process, a fork, and write what became of it."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_DFL)
    signal.alarm(math.ceil(WAITING * run.limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(run.limit), resource.RLIM_INFINITY))
    sys.dont_write_bytecode = True  # it is found again by whole seconds and size, which two mutants may share
    place, outcome = _place(run), {"of": _stamp(run)}
    try:
        outcome |= {
            "rows": headless.rows(code_of(run.chapter), run.values, library),
            "seconds": time.process_time(),
        }
    except BookError as error:
        outcome["crashed"] = str(error)
    write_whole(place, json.dumps(outcome))


def outcomes(groups, jobs):
    """Yield (run, outcome): first of runs that ended in an earlier call, then as they end, ``jobs`` at a time.

    Those of a group run one after the other in one library, because what is compiled there serves them all. An outcome
    has ``rows``, or ``crashed`` with a sentence, or ``endless`` with the seconds that it was given.
    """
    known = [[(run, _ended(run)) for run in group] for group in groups]
    yield from ((run, outcome) for group in known for run, outcome in group if outcome)
    waiting = [[run for run, outcome in group if not outcome] for group in reversed(known)]
    waiting, free, running = [group for group in waiting if group], list(range(jobs)), {}
    try:
        while waiting or running:
            while waiting and free:
                (run, *rest), slot = waiting.pop(), free.pop()
                changed = (run.mutant.file, run.mutant.text) if run.mutant else ()
                library = lay_out(FOLDER / str(slot), *changed).absolute()
                process = get_context("fork").Process(target=_child, args=(run, library))
                process.start()
                running[process.sentinel] = (process, slot, run, rest)
            for sentinel in wait(running):
                process, slot, run, rest = running.pop(sentinel)
                process.join()
                yield run, _ended(run) or _stopped(process.exitcode, run)
                free.append(slot)  # the next to be taken, as is the rest of the group
                waiting += [rest] if rest else []
    finally:
        for process, *_ in running.values():
            process.kill()
            process.join()


def _stopped(status, run):
    if status in (-signal.SIGXCPU, -signal.SIGALRM):
        return {"endless": run.limit}
    return {"crashed": f"the process died ({status}: killed, or out of memory)"}
