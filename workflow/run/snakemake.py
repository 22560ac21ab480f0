"""Call Snakemake, one call at a time: two would write the same files. The variables of make say how.

An interrupted call goes on where it stopped: no lock is left behind, half-written outputs are made again.
"""

import fcntl
import os
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path

INTERRUPTED = 130
LOCK = Path(".snakemake/one-at-a-time")
RULES = Path(__file__).parents[1] / "Snakefile"


def snakemake(targets, *flags, rules=RULES):
    """Command that calls Snakemake, from the variables of make."""
    command = [Path(sys.executable).with_name("snakemake"), "--snakefile", rules]
    command += ["--keep-going", "--nolock", "--rerun-incomplete", "--cores", os.environ.get("JOBS") or "all", *flags]
    return [*command, "--", *targets]


@contextmanager
def hold_lock():
    """Wait until no other build is under way, and hold the lock that says so."""
    for folder in (LOCK.parent, Path("build")):  # a folder that cannot be written is refused before Snakemake crashes
        folder.mkdir(parents=True, exist_ok=True)
        tempfile.TemporaryFile(dir=folder).close()
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another build is under way: waiting until it ends", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def run_snakemake(lock, targets):
    """Run Snakemake and return its status; the scripts that it starts print for themselves."""
    # Snakemake holds the lock, too, and keeps it should this process be killed alone.
    with subprocess.Popen(snakemake(targets, "--quiet", "all"), pass_fds=[lock.fileno()]) as build:
        try:
            status = build.wait()
        except KeyboardInterrupt:
            build.wait()
            return INTERRUPTED
    if not status:
        return status
    # A dry run says why Snakemake stopped before it started any script, if it did.
    dry = snakemake(targets, "--dry-run", "--quiet", "rules", "progress", "host", "reason")
    why = subprocess.run(dry, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    if why.returncode:
        print(why.stdout.rstrip(), file=sys.stderr)
    return status
