"""Commands of make, a module each: python -m workflow.commands.build."""

import errno
import os
import re
import sys
from pathlib import Path

from workflow.book.catalogue import BookError

THREADS = max(256, 4 * os.cpu_count())  # with many more libgomp crashes
MAXIMA = {"JOBS": 10_000, "THREADS": THREADS, "OMP_NUM_THREADS": THREADS}
# Remedies for errors of the system.
REMEDIES = {
    errno.EROFS: "copy the folder to where you may write",
    errno.EACCES: "copy the folder to where you may write",
    errno.EPERM: "copy the folder to where you may write",
    errno.ENOSPC: "make room on the disk, then run the same command again",
    errno.EDQUOT: "make room in your quota, then run the same command again",
    errno.ENAMETOOLONG: "move the folder to a shorter path",
    errno.EMFILE: "allow more open files (ulimit -n)",
    errno.ENOMEM: "free some memory, or run fewer at a time (JOBS=1)",
    errno.EAGAIN: "allow more processes (ulimit -u), or run fewer at a time (JOBS=1)",
}


def call(main, *arguments):
    """Call a command; the process ends with its status, or with the one line that says what is wrong."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="replace")  # a terminal may lack the sign of a verdict
    check_variables()
    try:
        sys.exit(main(*arguments))
    except BookError as error:
        sys.exit(str(error))
    except OSError as error:
        if error.errno not in REMEDIES:
            raise
        sys.exit(refusal(error))
    except KeyboardInterrupt:
        sys.exit(f"{Path(sys.argv[0]).stem}: interrupted")


def refusal(error):
    """What a system refused, and what to do, in one line."""
    named = f"{error.filename}: " if error.filename else ""
    return f"{Path(sys.argv[0]).stem}: {named}{error.strerror}: {REMEDIES[error.errno]}"


def check_variables():
    """Exit with one line if a number or a switch of make has no sense; an empty variable counts as not given."""
    given = {name: value for name, value in os.environ.items() if value}
    for name, most in MAXIMA.items():
        numbers = given.get(name, "1").split(",") if name.startswith("OMP") else [given.get(name, "1")]  # one a level
        if not all(is_whole(number) and 1 <= int(number) <= most for number in numbers):
            sys.exit(f"{name} is {given[name]!r}: give a whole number from 1 to {most}")
    for name in ("QUICK", "RECORD"):
        if given.get(name, "1") != "1":
            sys.exit(f"{name} is {given[name]!r}: give 1, or leave it out")
    seconds = given.get("TIMEOUT", "1")
    if not re.fullmatch(r"\d+(\.\d+)?", seconds) or float(seconds) == 0:
        sys.exit(f"TIMEOUT is {seconds!r}: give a number of seconds above 0")


def is_whole(text):
    """Tell a whole number in the digits 0 to 9, of at most twenty digits: Python refuses very long ones."""
    return re.fullmatch(r"[0-9]{1,20}", text) is not None
