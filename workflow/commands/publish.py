"""Publish a chapter: say what is missing, else write all that is made by machine.

A person writes the chapter, its line in ``_toc.yml``, its items in ``book/statements.yml``, and mutants that its rows
should see. This command accepts the chapter's values, runs it at fresh seeds and with the mutants, and shows its page;
it writes nothing of other chapters.
"""

import os
import subprocess
import sys

from workflow.book.anatomy import faults
from workflow.book.catalogue import BookError, find, source
from workflow.book.ledger import register
from workflow.book.mutants import LIST, written
from workflow.commands import call


def missing(chapter):
    """Things that a person has to write before the chapter can be published, a line each."""
    lines = faults(source(chapter))
    papers = [paper for paper in register() if paper.get("folder") == chapter.partition("/")[0]]
    if papers and not any(item.get("chapter") == chapter for paper in papers for item in paper["items"]):
        lines.append(f"book/statements.yml: no item has `chapter: {chapter}`")
    if not any(chapter in mutant.chapters for mutant in written()):
        lines.append(f"{LIST}: no mutant names {chapter}: write one for each of its claims")
    return lines


def make(*words):
    """Call make; end with its status where it fails."""
    print(f"make {' '.join(words)}", flush=True)
    if status := subprocess.run(["make", *words], check=False).returncode:
        sys.exit(status)


def main():
    """Publish the chapter that NAME names."""
    chapter = find(os.environ.pop("NAME", ""))
    if lines := missing(chapter):
        raise BookError("\n".join(lines))
    make("accept", f"NAME={chapter}")  # without it mutants refuse its verdicts
    make("evidence", f"NAME={chapter}")
    make("page", f"NAME={chapter}")
    print(f"{chapter} is published: look at its page, then commit what changed")


if __name__ == "__main__":
    call(main)
