"""Run one chapter and print its verdicts. Snakemake also calls it, for the book and for sweeps."""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

from lib.ledger import bound, number, plain, signed
from workflow.book import parameters
from workflow.book.catalogue import BookError, find, source, title, write_atomic
from workflow.book.ledger import tally
from workflow.book.lock import read_lock
from workflow.commands import call
from workflow.run.chapter import attempt, label, places_of, values_of
from workflow.run.notebook import CutOff

RUNNING = Path("build/running")
TYPICAL = 20  # seconds of a chapter of which none are accepted


def show(chapter, notebook, summary):
    """Print the rows of a single run."""
    print(f"\n{title(source(chapter))}")
    print(", ".join(f"{name}={value!r}" for name, value in summary["parameters"].items()) or "no parameters")
    for row in summary["rows"]:
        asked, said = bound(row["relation"], row["bound"]), signed(row["verdict"])
        print(f"  {said:<24} {number(row['measured']):>12}  {asked:<20} {row['item']}: {plain(row['statement'])}")
    print(f"notebook: {notebook}\n")


def progress(chapter):
    """Chapters that have run and the time left, ``" (7 of 34, 5 min left)"``, where the build has said which it runs.

    The time is that of this build so far, times the accepted seconds of what is left by those of what has run.
    """
    if not (planned := os.environ.get("CHAPTERS_TO_RUN", "").split()):
        return ""
    with open(os.environ["CHAPTERS_FINISHED"], "a+", encoding="utf-8") as file:  # appending a line is atomic
        file.write(chapter + "\n")
        file.seek(0)
        finished = file.read().split()
    seconds = read_lock()["seconds"]
    work, done = (sum(seconds.get(name, TYPICAL) for name in names) for names in (planned, finished))
    left = (time.time() - float(os.environ["BUILD_STARTED"])) * (work - done) / done / 60
    said = f"{left:.0f} min" if left > 1 else "less than a minute"
    return f" ({len(finished)} of {len(planned)}" + f", {said} left" * (work > done) + ")"


def main():
    """Run the chapter that the command line names."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("name", help="a chapter: max-margin/lemma-1, or lemma-1")
    cli.add_argument("--params", default="", help='"seed=7 iterations=5000"')
    cli.add_argument("--values", type=json.loads, default={}, help="the same as JSON, from the workflow")
    kinds = cli.add_mutually_exclusive_group()
    kinds.add_argument("--publish", action="store_true", help="for the book, not for a look")
    kinds.add_argument("--into", default="", help="one run of many, whose results go into this folder of build")
    cli.add_argument("--sources", help="hash of the sources of a run, which its results carry")
    arguments = cli.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(f"{arguments.name}: stopped"))
    chapter = name = find(arguments.name)
    places, quiet = {}, arguments.publish or arguments.into
    noted = {"sources": arguments.sources} if arguments.sources else {}
    try:
        asked = arguments.values | parameters.parse(arguments.params)
        changed = values_of(chapter, asked)[1]
        places = places_of(chapter, None if arguments.publish else label(changed), arguments.into)
        name += f" {label(changed)}" * bool(arguments.into)
        RUNNING.mkdir(parents=True, exist_ok=True)
        print(f"{name}: running", flush=True)
        with tempfile.TemporaryDirectory(dir=RUNNING, ignore_cleanup_errors=True) as folder:
            stderr = None if quiet else sys.stderr
            summary = attempt(chapter, asked, Path(folder), places, stderr, noted)
        if not quiet:
            show(chapter, places["notebook"], summary)
        print(f"{name}: {summary['seconds']:.1f} s, {tally(summary['rows'])}{progress(chapter)}", flush=True)
    except BookError as error:
        if "failure" in places:  # beside the results of the other runs of a sweep
            failure = {"sentence": str(error), "cut_off": isinstance(error, CutOff)}
            write_atomic(places["failure"], json.dumps(failure | noted))
        raise BookError(f"{name}: {error}") from None


if __name__ == "__main__":
    call(main)
