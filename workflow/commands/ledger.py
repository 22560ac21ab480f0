"""Collect the ledger of a build, compare it with the accepted verdicts, or accept new ones."""

import os
import sys

from workflow.book import lock
from workflow.book.catalogue import find_all
from workflow.book.ledger import collect
from workflow.commands import call


def accept():
    """Accept the rows of the chapters in NAME, all without one, for the reason in WHY."""
    lock.accept(set(find_all(os.environ.get("NAME") or "all")), os.environ.get("WHY", ""))


if __name__ == "__main__":
    call({"collect": collect, "compare": lock.compare, "accept": accept}[sys.argv[1]], *sys.argv[2:])
