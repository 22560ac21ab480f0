"""Time cases one after the other in this process, and say what machine this is."""

import os
import platform
import resource
import statistics
import sys
import time
import timeit
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.util import find_spec

import torch

from .floor import Count
from .works import ALL, ONE

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def seconds_of(function, runs, limit, timer):
    """Return the seconds of each run, of one at least; none is begun after so many seconds."""
    function()  # pays for imports and compiled code
    taken = []
    while not taken or (len(taken) < runs and sum(taken) < limit):
        taken.append(timeit.timeit(function, timer=timer, number=1))
    return taken


def row(case, speed, runs, limit):
    """Measure a case; return its row of the results, with times of one unit."""
    found = {"work": case.work, "part": case.part, "style": case.style}
    if isinstance(case.function, Count):
        taken = [case.function.seconds(speed)]
    else:
        torch.set_num_threads(CORES if case.style == ALL else 1)
        timer = time.perf_counter if case.style == ALL else time.process_time  # of one core, whoever else uses it
        try:
            taken = [seconds / case.units for seconds in seconds_of(case.function, runs, limit, timer)]
        except (TimeoutError, ModuleNotFoundError) as error:
            return found | {"left_out": str(error)}
        except Exception as error:  # a case that fails says so in its place, and the others go on
            return found | {"left_out": f"{type(error).__name__}: {error}".splitlines()[0], "failed": True}
        found |= {"units": case.units, "peak_memory": peak_memory()}
    spread = {"minimum": min(taken), "median": statistics.median(taken), "maximum": max(taken)}
    return found | {"runs": len(taken), "seconds": spread}


def peak_memory():
    """Return the largest memory that this process has had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def about(commit, cpu, quick, speed, packages):
    """Return where the numbers come from, with the versions of those packages that are installed."""
    packages = ["torch", "numpy", "numba", *(name for name in packages if find_spec(name))]
    return {
        "quick": quick,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit,
        "machine": {"cpu": cpu, "cores": CORES, "threads": {ONE: 1, ALL: CORES}},
        "speed": speed._asdict(),
        "versions": {"python": platform.python_version()} | {name: version(name) for name in packages},
    }
