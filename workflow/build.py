"""Build targets with Snakemake, one build at a time: two would write the same files. Called by make.

An interrupted build goes on where it stopped: no lock is left behind, half-written outputs are made again.
"""

import fcntl
import os
import re
import subprocess
import sys
from pathlib import Path

import variables

SENTENCE = re.compile(r"^WorkflowError in file .*, line \d+:\n(.+)$", re.MULTILINE)  # of the Snakefile's own
LOCK = Path(".snakemake/one-at-a-time")


def snakemake(targets, *flags):
    """Return the call of Snakemake, from the variables of make."""
    here, asked = Path(__file__).parent, os.environ.get
    command = [Path(sys.executable).with_name("snakemake"), "--snakefile", here / "Snakefile"]
    command += ["--keep-going", "--nolock", "--rerun-incomplete", *flags]
    command += ["--profile", here / "profiles" / asked("PROFILE")] if asked("PROFILE") else []
    command += ["--cores", asked("JOBS") or "all"] if asked("JOBS") or not asked("PROFILE") else []
    command += ["--config", f"parameters={asked('PARAMETERS')}"] if asked("PARAMETERS") else []
    return [*command, "--", *targets]


def main(targets):
    """Build; return the exit status. The scripts of the rules report for themselves."""
    variables.check()
    LOCK.parent.mkdir(exist_ok=True)
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("another build is under way: waiting until it ends", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        # Snakemake holds the lock, too, and keeps it should this process be killed alone.
        build = subprocess.Popen(snakemake(targets, "--quiet", "all"), pass_fds=[lock.fileno()])
        try:
            status = build.wait()
        except KeyboardInterrupt:
            return build.wait() or 130
        if status:  # a dry run says why Snakemake stopped before it started any script, if it did
            dry = snakemake(targets, "--dry-run", "--quiet", "rules", "progress", "host", "reason")
            why = subprocess.run(dry, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
            if why.returncode:
                said = SENTENCE.search(why.stdout)
                print(said[1] if said else why.stdout.rstrip(), file=sys.stderr)
        return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
