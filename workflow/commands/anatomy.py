"""Check the anatomy of every chapter and of the template: one line for each fault, and status 1."""

import sys
from pathlib import Path

from workflow.book.anatomy import faults
from workflow.book.catalogue import chapters, source
from workflow.commands import call


def main():
    """Print the faults."""
    if lines := [line for path in [Path("book/_template.md"), *map(source, chapters())] for line in faults(path)]:
        sys.exit("\n".join(lines))


if __name__ == "__main__":
    call(main)
