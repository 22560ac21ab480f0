"""Collect the ledger of a build, compare it with the accepted values, or accept new ones."""

import sys

from workflow.book.ledger import collect
from workflow.book.lock import accept, compare
from workflow.commands import call

if __name__ == "__main__":
    call({"collect": collect, "compare": compare, "accept": accept}[sys.argv[1]], *sys.argv[2:])
