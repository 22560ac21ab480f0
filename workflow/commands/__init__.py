"""What make calls, a module for each command: python -m workflow.commands.build."""

import sys
from pathlib import Path

from workflow.book import make_env
from workflow.book.catalogue import BookError


def call(main, *arguments):
    """Call a command; the process ends with its status, or with the one line that says what is wrong."""
    make_env.check()
    try:
        sys.exit(main(*arguments))
    except BookError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit(f"{Path(sys.argv[0]).stem}: interrupted")
