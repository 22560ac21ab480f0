"""Say what a run asks of a cluster: minutes and GPUs."""

import math

from workflow.book.catalogue import BookError
from workflow.run.notebook import TIMEOUT, time_limit

START = 10  # minutes that a run may take beside its time limit, for a busy file system


def minutes(chapter):
    """Return how long a run may hold its machine: the chapter's own limit and some more."""
    try:
        limit = time_limit(chapter)
    except BookError:  # which the run will report
        limit = TIMEOUT
    return START + math.ceil(limit / 60)


def gpus(values):
    """Return how many GPUs a run with these values asks for: the trained networks take one as ``device=cuda``."""
    return int(str(values.get("device", "")).startswith("cuda"))
