"""Run chapters many times, side by side, each run in a process of its own; one that ended is not made again.

What a run leaves carries a hash of all that it depended on, and counts only as long as that is the hash of the sources.
"""

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Event

from workflow.book.catalogue import json_of


def read_result(place, sources):
    """Return what a run left in a file if it is of these sources, else nothing."""
    found = json_of(place) if place.exists() else {}
    return found if found.get("sources") == sources else {}


def chapter_command(chapter, values, folder, sources):
    """Return the command that runs a chapter with these values and leaves the results in a folder of ``build``."""
    command = [sys.executable, "-m", "workflow.commands.chapter", chapter, "--values", json.dumps(values)]
    return [*command, "--into", folder, "--sources", sources]


def count_jobs():
    """Return how many runs go side by side: JOBS or the number of cores, over the threads of each."""
    return max(1, int(os.environ.get("JOBS") or os.cpu_count()) // int(os.environ.get("THREADS") or 1))


@contextmanager
def side_by_side(jobs):
    """Yield a pool of threads, and a function with which they run a process to its end; none outlives the block."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{Path(sys.argv[0]).stem}: stopped"))
    started, ended, pool = [], Event(), ThreadPoolExecutor(jobs)

    def run(command, **options):
        started.append(process := subprocess.Popen(command, **options))
        if ended.is_set():  # while it was being started
            process.terminate()
        return process.wait()

    try:
        yield pool, run
    finally:
        ended.set()
        pool.shutdown(wait=False, cancel_futures=True)
        for process in started:
            process.terminate()
        pool.shutdown()
