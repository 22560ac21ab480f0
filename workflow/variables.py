"""The variables of make that are numbers or names of files here: one line for each that does not fit."""

import math
import os
import sys
from pathlib import Path

PROFILES = Path(__file__).parent / "profiles"


def check():
    """Exit with one line if a variable that the workflow reads has no sense; an empty one counts as not given."""
    given = {name: value for name, value in os.environ.items() if value}
    for name in {"JOBS", "THREADS", "OMP_NUM_THREADS"} & given.keys():
        if not given[name].isdecimal() or not int(given[name]):
            sys.exit(f"{name} is {given[name]!r}: give a whole number of at least 1")
    if not is_time(given.get("TIMEOUT", 1)):
        sys.exit(f"TIMEOUT is {given['TIMEOUT']!r}: give a number of seconds above 0")
    profiles = sorted(path.name for path in PROFILES.iterdir())
    if given.get("PROFILE", profiles[0]) not in profiles:
        sys.exit(f"PROFILE is {given['PROFILE']!r}: use one of {', '.join(profiles)}")


def is_time(value):
    """Tell a number of seconds from anything else."""
    try:
        return 0 < float(value) < math.inf
    except (TypeError, ValueError):
        return False
