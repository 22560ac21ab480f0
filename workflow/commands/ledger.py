"""Collect the ledger of a build, compare it with the accepted values, or accept new ones."""

import sys

from workflow.book.catalogue import BookError
from workflow.book.ledger import accept, collect, compare

if __name__ == "__main__":
    try:
        {"collect": collect, "compare": compare, "accept": accept}[sys.argv[1]]()
    except BookError as error:
        sys.exit(str(error))
