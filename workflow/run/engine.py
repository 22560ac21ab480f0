"""Make runs of chapters, for the book, looks, sweeps and mutants: each in a process of its own, here or on a cluster.

A run is a chapter with values, and the library as it is or with one file changed. It works in a folder of its own, and
only what it left there at its end is moved into place, together with a hash of all that it depended on; a run that was
stopped at any moment leaves nothing. While the sources have that hash, a run that ended is not made again.
"""

import fcntl
import json
import multiprocessing
import os
import shutil
import signal
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager, nullcontext, suppress
from itertools import count
from multiprocessing import forkserver
from pathlib import Path
from threading import Event, Thread
from typing import NamedTuple

from workflow.book.catalogue import BookError, json_of, write_atomic
from workflow.book.dependencies import PACKAGES, content_hash, files_of, library_hash, sources_hash
from workflow.book.mutants import Mutant
from workflow.run import chapter
from workflow.run.chapter import label

METHOD = "forkserver" if sys.platform == "linux" else "spawn"  # a fork is not safe on macOS: there each run starts cold
RUNNING, LOOKS = Path("build/running"), "runs"
LINKED = ("build", "workflow", "_toc.yml", "requirements.lock", "pyproject.toml", "data")  # from a changed library
MEMORY = 8 * 2**30  # bytes that a run with a mutant may take: a fault may ask for any amount
LOST = {"sentence": "it left no result, killed or out of memory: run the same command again", "cut_off": True}
CHANGED = "its code, the library or the workflow has changed since the command began: run it again"
NUMBERS = count()  # of the runs of this process
PAUSE_S = 10  # between two signals to a run that is to end


class Run(NamedTuple):
    """A run of a chapter: where its results go, the hash of its sources, and what differs from a run of the book."""

    chapter: str
    folder: str = ""  # below build; "" for the book
    values: dict | None = None  # parameters that differ from the chapter's
    limit: float = 0  # seconds; 0 for the limit of every chapter
    mutant: Mutant | None = None
    sources: str = ""


def plan(*fields):
    """A run, from its first fields, with the hash of what it depends on beside its values."""
    run = Run(*fields)
    return run._replace(sources=_sources(run))


def _sources(run):
    return sources_hash(run.chapter, library_hash({run.mutant.file: run.mutant.text} if run.mutant else None))


def places(run):
    """Paths of a run's rows and notebook, and of the sentence and the notebook with which it failed.

    Where there are many runs, only failed ones leave a notebook.
    """
    if not run.folder:
        folders = {"claims": "claims/{}.json", "notebook": "executed/{}.ipynb"}
        folders |= {"failure": "evidence/{}.json", "evidence": "evidence/{}.ipynb"}
        return {kind: Path("build", path.format(run.chapter)) for kind, path in folders.items()}
    ends = {"claims": ".json", "failure": ".failed.json", "evidence": ".failed.ipynb"}
    ends |= {"notebook": ".ipynb"} if run.folder == LOOKS else {}
    folder = Path("build", run.folder, run.chapter)
    return {kind: folder / (label(run.values or {}) + end) for kind, end in ends.items()}


def outcome(run):
    """Result of a run: a chapter's summary with its ``rows``, or the ``sentence`` with which it failed."""
    for path in (places(run)["claims"], places(run)["failure"]):
        with suppress(BookError):  # not there, or damaged
            if (left := json_of(path)).get("sources") == run.sources:
                return left
    return LOST


def has_ended(run):
    """Tell whether a run came to its end; more time may end one that was cut off."""
    return not outcome(run).get("cut_off")


def is_whole(run):
    """Tell whether the rows and the notebook of a run are there as it left them."""
    notebook = content_hash(places(run)["notebook"])
    return notebook is not None and outcome(run).get("notebook") == notebook


def outcomes(groups, place):
    """Yield each run with what it left, as groups of runs with one library end; ``place`` makes them."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{Path(sys.argv[0]).stem}: stopped"))
    for group in place(groups):
        for run in group:
            yield run, outcome(run)


def here(groups, jobs=None):
    """Make groups of runs on this machine, side by side; yield each as it ends. No process outlives this one."""
    if not groups:
        return
    from workflow.run.notebook import settled  # slow to import

    ended, started, jobs = Event(), set(), jobs or count_jobs()
    with workplace() as places, settled(), ThreadPoolExecutor(jobs) as pool:
        warm_up()
        try:
            for future in as_completed([pool.submit(_make_group, group, places, started, ended) for group in groups]):
                yield future.result()
        finally:
            ended.set()
            pool.shutdown(wait=False, cancel_futures=True)
            for process in list(started):
                process.terminate()


def warm_up():
    """Start the server that imports what chapters import, to fork runs from; no interrupt from a key ends it."""
    if METHOD == "forkserver":
        taken = signal.signal(signal.SIGINT, signal.SIG_IGN)
        forkserver.set_forkserver_preload(["workflow.run.warm"])
        forkserver.ensure_running()
        signal.signal(signal.SIGINT, taken)


def _make_group(group, places, started, ended):
    """Make runs with one library, one after the other; return them."""
    with changed_library(group[0].mutant, places[0]) if group[0].mutant else nullcontext() as library:
        for run in group:
            number = str(next(NUMBERS))
            folders = [place / number for place in places]
            for folder in folders:
                folder.mkdir(parents=True)  # somebody may have called `make clean`
            if run.sources == _sources(run):
                if run.folder in ("", LOOKS):
                    print(f"{run.chapter}: running", flush=True)
                process = multiprocessing.get_context(METHOD).Process(target=_work, args=(run, *folders, library))
                process.start()
                started.add(process)
                while process.is_alive():
                    if ended.is_set():  # while it was being started, or where nothing can be raised: told again
                        process.terminate()
                    process.join(PAUSE_S)
                started.discard(process)
            if not ended.is_set():
                _publish(run, folders[0])
            for folder in folders:
                shutil.rmtree(folder, ignore_errors=True)
    return group


def _work(run, folder, private, library):
    """Make a run in this process, which was started for it, and leave its result in a folder."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    Thread(target=_end_with_parent, daemon=True).start()
    if run.folder not in ("", LOOKS):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    if run.limit:
        os.environ["TIMEOUT"] = str(run.limit)
    if library:
        import resource

        os.dup2(1, 2)
        os.chdir(library)
        with suppress(OSError, ValueError):  # of a system without such a limit
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))
    try:
        left = chapter.run(run.chapter, run.values or {}, folder, private, sys.stderr if run.folder == LOOKS else None)
    except BookError as error:
        left = {"sentence": str(error), "cut_off": getattr(error, "cut_off", False)}
    write_atomic(folder / "result.json", json.dumps(left, indent=1, allow_nan=False) + "\n")


def _end_with_parent():
    multiprocessing.parent_process().join()
    os.kill(os.getpid(), signal.SIGTERM)


def _publish(run, folder):
    """Move what a run left into place: its notebook, then its rows; or the sentence and the notebook of a failure."""
    result, notebook, to = folder / "result.json", folder / "executed.ipynb", places(run)
    left = json_of(result) if result.exists() else LOST
    if run.sources != _sources(run):
        left = {"sentence": CHANGED, "cut_off": True}
    good = "rows" in left
    for kind in ("failure", "evidence"):  # of an earlier run
        to[kind].unlink(missing_ok=True)
    if notebook.exists() and (kept := to.get("notebook" if good else "evidence")):
        left |= {"notebook": content_hash(notebook)} if good else {"sentence": f"{left['sentence']}; evidence: {kept}"}
        kept.parent.mkdir(parents=True, exist_ok=True)
        os.replace(notebook, kept)
    left = json.dumps(left | {"sources": run.sources}, indent=1, allow_nan=False)
    write_atomic(to["claims" if good else "failure"], left + "\n")


@contextmanager
def workplace():
    """Folders for what is in progress, and for sockets, whose paths are short. Those of killed commands are removed."""
    from workflow.run.notebook import short_folder

    tempfile.tempdir = short_folder()  # where multiprocessing has sockets, too
    RUNNING.mkdir(parents=True, exist_ok=True)
    for left in filter(is_free, RUNNING.iterdir()):
        shutil.rmtree(left, ignore_errors=True)
    options = {"prefix": "chapters-", "ignore_cleanup_errors": True}
    with tempfile.TemporaryDirectory(dir=RUNNING, **options) as place:
        is_free(place)
        with tempfile.TemporaryDirectory(**options) as sockets:
            yield Path(place).absolute(), Path(sockets)


def is_free(folder):
    """Lock a folder until this process ends, unless one that lives has locked it; None where there are no locks."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(handle)
        return False if isinstance(error, BlockingIOError) else None
    return True


def wait_for_turn():
    """Wait until no other build of this folder is under way, and lock the folder, which `make clean` leaves.

    On a file system without locks two builds at once do the same work twice.
    """
    Path("build").mkdir(exist_ok=True)
    tempfile.TemporaryFile(dir="build").close()  # a folder that cannot be written is refused before anything runs
    if is_free(".") is False:
        print("another build is under way: waiting until it ends", flush=True)
        while is_free(".") is False:
            time.sleep(1)


@contextmanager
def changed_library(mutant, place):
    """A folder with a copy of the library, compiled code included, a mutant of it, and links to all else."""
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as name:
        for package in filter(os.path.exists, PACKAGES):
            left = shutil.ignore_patterns(".*", "#*", "*~")
            shutil.copytree(package, Path(name, package), ignore=left)
        Path(name, mutant.file).write_text(mutant.text, "utf-8")
        for path in files_of("book"):
            Path(name, path.parent).mkdir(parents=True, exist_ok=True)
            Path(name, path).symlink_to(path.absolute())
        for linked in filter(os.path.exists, LINKED):
            Path(name, linked).symlink_to(Path(linked).absolute())
        yield name


def count_jobs():
    """Number of runs at a time: JOBS or the number of cores, over the threads of each."""
    return max(1, int(os.environ.get("JOBS") or os.cpu_count()) // int(os.environ.get("THREADS") or 1))
