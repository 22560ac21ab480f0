"""Check the variables of make that are numbers; refuse a bad one in one line."""

import os
import re
import sys

THREADS = max(256, 4 * os.cpu_count())  # libgomp dies of many more
MOST = {"JOBS": 10_000, "THREADS": THREADS, "OMP_NUM_THREADS": THREADS}


def check():
    """Exit with one line if a variable that the workflow reads has no sense; an empty one counts as not given."""
    given = {name: value for name, value in os.environ.items() if value}
    for name, most in MOST.items():
        if name in given and not (is_whole(given[name]) and 1 <= int(given[name]) <= most):
            sys.exit(f"{name} is {given[name]!r}: give a whole number from 1 to {most}")
    seconds = given.get("TIMEOUT", "1")
    if not re.fullmatch(r"\d+(\.\d+)?", seconds) or float(seconds) == 0:
        sys.exit(f"TIMEOUT is {seconds!r}: give a number of seconds above 0")


def is_whole(text):
    """Tell a whole number that is written in the digits 0 to 9, few enough for Python to read."""
    return re.fullmatch(r"[0-9]{1,20}", text) is not None
