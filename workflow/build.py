"""Build targets with Snakemake, one build at a time: two would write the same files. Called by make, and by sweep.py.

An interrupted build goes on where it stopped: no lock is left behind, half-written outputs are made again.
"""

import fcntl
import os
import re
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from pathlib import Path

import variables
from warm import warm_kernels

SENTENCE = re.compile(r"^WorkflowError in file .*, line \d+:\n(.+)$", re.MULTILINE)  # of the Snakefile's own
INTERRUPTED = 130
LOCK = Path(".snakemake/one-at-a-time")
RULES = "Snakefile"


def snakemake(targets, *flags, rules=RULES, **config):
    """Return the call of Snakemake, from the variables of make."""
    here, asked = Path(__file__).parent, os.environ.get
    command = [Path(sys.executable).with_name("snakemake"), "--snakefile", here / rules]
    command += ["--keep-going", "--nolock", "--rerun-incomplete", *flags]
    if asked("PROFILE"):
        command += ["--profile", here / "profiles" / asked("PROFILE"), "--slurm-jobname-prefix", Path(rules).stem]
        command += ["--jobs", asked("JOBS")] if asked("JOBS") else []
    else:
        command += ["--cores", asked("JOBS") or "all"]
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
    build = None
    try:
        if os.environ.get("PROFILE"):
            import cluster  # slow to import

            cluster.ready(Path(options.get("rules", RULES)).stem)
            earlier = cluster.logs()
        with nullcontext() if os.environ.get("PROFILE") else warm_kernels():
            # It holds the lock, too, and keeps it should this process be killed alone.
            build = subprocess.Popen(snakemake(targets, "--quiet", "all", **options), pass_fds=[lock.fileno()])
            status = build.wait()
    except KeyboardInterrupt:
        if build:
            build.wait()
        return INTERRUPTED, False
    if status and os.environ.get("PROFILE"):  # scripts that ran elsewhere reported there
        for log in sorted(cluster.logs() - earlier):
            print(cluster.last_words(log), file=sys.stderr)
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
