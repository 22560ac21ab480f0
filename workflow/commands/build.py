"""Build the book, or with QUICK=1 run one chapter of each part, to see that everything works on this machine."""

import os
import sys

from workflow.book import parameters
from workflow.book.catalogue import chapters
from workflow.commands import call
from workflow.run.snakemake import hold_lock, run_snakemake

# What QUICK=1 runs: one chapter of each part, of those that take seconds.
QUICK = ("max-margin/figure-8", "rates/sparsification", "mirror-descent/lp-separator", "beyond/adam-epsilon")


def main(targets):
    """Build; return the exit status."""
    if targets == ["quick"]:
        targets = [f"build/claims/{chapter}.json" for chapter in QUICK]
    asked = os.environ.get("PARAMETERS")
    chapters()  # what cannot be read is said here, in one line; Snakemake reads it again
    if asked:
        parameters.read(asked)
    with hold_lock() as lock:
        return run_snakemake(lock, targets, **({"parameters": asked} if asked else {}))


if __name__ == "__main__":
    call(main, sys.argv[1:])
