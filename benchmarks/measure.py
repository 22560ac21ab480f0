"""Time cases one after the other in this process, and say what machine this is."""

import os
import platform
import resource
import statistics
import sys
import time
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version

import torch

from .floor import Count
from .works import ALL

PACKAGES = ("torch", "numpy", "scipy", "numba", "cvxpy", "clarabel")


def cores():
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def seconds_of(function, runs, limit):
    """Run a function several times; return the seconds of each run, of one at least.

    The first run also pays for imports and compiled code: where there is time for more it does not count.

    Parameters
    ----------
    function : callable
    runs : int
    limit : float
        Seconds after which no further run is begun.
    """
    taken = [_seconds(function)]
    if taken[0] < limit / 3:
        taken = []
    while len(taken) < runs and sum(taken) < limit:
        taken.append(_seconds(function))
    return taken


def _seconds(function):
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def row(case, speed, runs, limit, earlier):
    """Measure a case; return its row of the results, with times of one unit.

    Parameters
    ----------
    case : benchmarks.works.Case
    speed : benchmarks.floor.Speed
    earlier : list of dict
        Rows before this one.
    """
    about = {"work": case.work, "part": case.part, "style": case.style}
    if isinstance(case.function, Count):
        taken = [speed.seconds(case.function)]
        return about | _summary(taken)
    if reason := _too_long(case, limit, earlier):
        return about | {"left_out": reason}
    torch.set_num_threads(cores() if case.style == ALL else 1)
    try:
        taken = [seconds / case.units for seconds in seconds_of(case.function, runs, limit)]
    except TimeoutError as error:
        return about | {"left_out": str(error)}
    except Exception as error:  # a case that fails says so in its place, and the others go on
        return about | {"left_out": f"{type(error).__name__}: {error}".splitlines()[0], "failed": True}
    finally:
        torch.set_num_threads(1)
    return about | {"units": case.units} | _summary(taken) | {"peak_memory": peak_memory()}


def _summary(taken):
    return {
        "runs": len(taken),
        "seconds": {"minimum": min(taken), "median": statistics.median(taken), "maximum": max(taken)},
    }


def _too_long(case, limit, earlier):
    """Why a case is not tried, from the time of the smaller one, or None."""
    if case.grown is None:
        return None
    part, factor = case.grown
    smaller = next(one for one in earlier if (one["work"], one["part"], one["style"]) == (case.work, part, case.style))
    expected = factor * smaller["seconds"]["median"] if "seconds" in smaller else float("inf")
    return f"would take about {expected:.0f} s" if expected > 4 * limit else None


def peak_memory():
    """Return the largest memory that this process has had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def about(commit, cpu, quick, speed):
    """Return where the numbers come from."""
    return {
        "quick": quick,
        "date": datetime.now(UTC).date().isoformat(),
        "commit": commit,
        "machine": {"cpu": cpu, "cores": cores(), "threads": {"one core": 1, "all cores": cores()}},
        "speed": {"multiply_adds": speed.multiply_adds, "exponentials": speed.exponentials},
        "versions": {"python": platform.python_version()} | {name: _version(name) for name in PACKAGES},
    }


def _version(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None
