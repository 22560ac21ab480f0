"""Fetch a published data set into the folder ``data``, where chapters look for it: `make data NAME=cifar10`."""

import sys

from lib import archives

SETS = {
    "mnist": lambda: archives.images("mnist", fetch=True),
    "cifar10": lambda: archives.images("cifar10", fetch=True),
    "imdb": lambda: archives.reviews(fetch=True),
}


def main(name):
    """Fetch what is not there, read it, and say what there is."""
    if name not in SETS:
        sys.exit(f"NAME is {name!r}: use one of {', '.join(SETS)}")
    try:
        train, _, test, *_ = SETS[name]()
    except (ValueError, OSError) as error:
        sys.exit(f"{name}: {error}")
    print(f"{name}: {len(train)} to train on, {len(test)} to test on, in {archives.FOLDER}/")


if __name__ == "__main__":
    main(sys.argv[1])
