"""Say what a run asks of a cluster: minutes and GPUs."""

import math

from workflow.run.notebook import time_limit


def minutes():
    """Return how long a run may hold its machine: its time limit, and ten minutes more for a busy file system."""
    return 10 + math.ceil(time_limit() / 60)


def gpus(values):
    """Return how many GPUs a run with these values asks for: the trained networks take one as ``device=cuda``."""
    return int(str(values.get("device", "")).startswith("cuda"))
