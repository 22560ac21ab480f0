"""Check the anatomy of every chapter and of the template: one line for each fault, and status 1."""

import sys
from pathlib import Path

from workflow.book.anatomy import faults
from workflow.book.catalogue import BookError, chapters, source


def main():
    """Print the faults."""
    if found := [line for path in [Path("book/_template.md"), *map(source, chapters())] for line in faults(path)]:
        sys.exit("\n".join(found))


if __name__ == "__main__":
    try:
        main()
    except BookError as error:
        sys.exit(str(error))
