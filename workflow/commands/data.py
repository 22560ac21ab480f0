"""Fetch a published data set into the folder ``data``, where chapters look for it."""

import sys

SETS = ("mnist", "cifar10")


def main(name):
    """Fetch what is not there, read it, and say what there is."""
    if name not in SETS:
        sys.exit(f"NAME is {name!r}: use {' or '.join(SETS)}")
    from lib import archives  # slow

    try:
        data = archives.images(name, fetch=True)
    except (ValueError, OSError) as error:
        sys.exit(f"{name}: {error}")
    train, test = len(data.train_labels), len(data.test_labels)
    print(f"{name}: {train} to train on, {test} to test on, in {archives.FOLDER}/")


if __name__ == "__main__":
    main(sys.argv[1])
