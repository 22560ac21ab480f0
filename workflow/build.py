"""Build targets with Snakemake, one build at a time: two would write the same files. Called by make, and by sweep.py.

An interrupted build goes on where it stopped: no lock is left behind, half-written outputs are made again.
"""

import fcntl
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import variables

SENTENCE = re.compile(r"^WorkflowError in file .*, line \d+:\n(.+)$", re.MULTILINE)  # of the Snakefile's own
INTERRUPTED = 130
LOCK = Path(".snakemake/one-at-a-time")


def snakemake(targets, *flags, rules="Snakefile", **config):
    """Return the call of Snakemake, from the variables of make."""
    here, asked = Path(__file__).parent, os.environ.get
    command = [Path(sys.executable).with_name("snakemake"), "--snakefile", here / rules]
    command += ["--keep-going", "--nolock", "--rerun-incomplete", *flags]
    command += ["--profile", here / "profiles" / asked("PROFILE")] if asked("PROFILE") else []
    command += ["--cores", asked("JOBS") or "all"] if asked("JOBS") or not asked("PROFILE") else []
    command += ["--config", *(f"{name}={value}" for name, value in config.items())] if config else []
    return [*command, "--", *targets]


@contextmanager
def alone(path, what):
    """Wait until no other process holds the lock ``path``, and hold it."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another {what} is under way: waiting until it ends", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def carry_out(lock, targets, **options):
    """Run Snakemake; return its status, and whether it came to start scripts. Those report for themselves."""
    # It holds the lock, too, and keeps it should this process be killed alone.
    build = subprocess.Popen(snakemake(targets, "--quiet", "all", **options), pass_fds=[lock.fileno()])
    try:
        status = build.wait()
    except KeyboardInterrupt:
        build.wait()
        return INTERRUPTED, False
    if status:  # a dry run says why Snakemake stopped before it started any script, if it did
        dry = snakemake(targets, "--dry-run", "--quiet", "rules", "progress", "host", "reason", **options)
        why = subprocess.run(dry, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if why.returncode:
            said = SENTENCE.search(why.stdout)
            print(said[1] if said else why.stdout.rstrip(), file=sys.stderr)
            return status, False
    return status, True


def main(targets):
    """Build; return the exit status."""
    variables.check()
    asked = os.environ.get("PARAMETERS")
    with alone(LOCK, "build") as lock:
        return carry_out(lock, targets, **({"parameters": asked} if asked else {}))[0]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
