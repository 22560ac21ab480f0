"""What make calls, a module for each command: python -m workflow.commands.build."""

import os
import re
import sys
from pathlib import Path

from workflow.book.catalogue import BookError

THREADS = max(256, 4 * os.cpu_count())  # libgomp dies of many more
MOST = {"JOBS": 10_000, "THREADS": THREADS, "OMP_NUM_THREADS": THREADS}


def call(main, *arguments):
    """Call a command; the process ends with its status, or with the one line that says what is wrong."""
    check_variables()
    try:
        sys.exit(main(*arguments))
    except BookError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(f"{Path(sys.argv[0]).stem}: interrupted")


def check_variables():
    """Exit with one line if a variable of make has no sense: a number, or a switch; an empty one is not given."""
    given = {name: value for name, value in os.environ.items() if value}
    for name, most in MOST.items():
        if name in given and not (is_whole(given[name]) and 1 <= int(given[name]) <= most):
            sys.exit(f"{name} is {given[name]!r}: give a whole number from 1 to {most}")
    for name in ("QUICK", "RECORD", "STRICT"):
        if given.get(name, "1") != "1":
            sys.exit(f"{name} is {given[name]!r}: give 1, or leave it out")
    seconds = given.get("TIMEOUT", "1")
    if not re.fullmatch(r"\d+(\.\d+)?", seconds) or float(seconds) == 0:
        sys.exit(f"TIMEOUT is {seconds!r}: give a number of seconds above 0")


def is_whole(text):
    """Tell a whole number that is written in the digits 0 to 9, few enough for Python to read."""
    return re.fullmatch(r"[0-9]{1,20}", text) is not None
