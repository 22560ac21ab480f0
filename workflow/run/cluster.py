"""Send runs of chapters to a cluster, where PROFILE is slurm: a job makes a share of them, as this machine would."""

import math
import os
import shutil
import sys

from workflow.book.catalogue import BookError
from workflow.run.engine import count_jobs, here

CLUSTER = {"mem": "3GB", "nodes": 1, "ntasks_per_node": 1, "job_name": "chapters"}
MAX_JOBS = 1000  # jobs that a cluster takes at once; with more runs a job makes several


def cluster(groups):
    """Make groups of runs as jobs of SLURM, on a file system that all machines share; yield each as it ends.

    Without SLURM's accounts nobody learns that a job was killed, and the command waits for it until it is stopped.
    """
    import submitit

    from workflow.run.notebook import time_limit

    if not groups:
        return
    executor, jobs = submitit.SlurmExecutor("build/cluster"), []
    shares = [groups[k::MAX_JOBS] for k in range(min(MAX_JOBS, len(groups)))]
    seconds = max(sum(run.limit or time_limit() for group in share for run in group) for share in shares)
    threads = int(os.environ.get("THREADS") or 1)
    limits = {"time": math.ceil(seconds / 60) + 5, "cpus_per_task": threads, "array_parallelism": count_jobs()}
    executor.update_parameters(**CLUSTER, **limits)
    try:
        jobs.extend(executor.map_array(make_share, shares))
        for job in submitit.helpers.as_completed(jobs, poll_frequency=1):
            if job.exception():
                print(f"job {job.job_id} of the cluster did not end: {job.paths.stderr}", file=sys.stderr, flush=True)
            yield from shares[jobs.index(job)]
    finally:
        for job in jobs:
            if not job.done():
                job.cancel(check=False)


def make_share(groups):
    """Make groups of runs, one after the other: the job of a cluster."""
    for _ in here(groups, 1):
        pass


def place_of_runs():
    """Function that makes groups of runs: on this machine, or on a cluster where PROFILE is slurm."""
    profile = os.environ.get("PROFILE", "")
    if profile not in ("", "slurm"):
        raise BookError(f"PROFILE is {profile!r}: give slurm, or leave it out to run here")
    if profile and not shutil.which("srun"):
        raise BookError("PROFILE is 'slurm', but there is no srun here: use a machine from which jobs are sent")
    return cluster if profile else here
