"""Read rows of runs that no build makes, in ``book/recorded``; a hash of the rows shows whether a file was edited."""

import hashlib
import json
from pathlib import Path

from workflow.book.catalogue import BookError, json_of

FOLDER = Path("book/recorded")


def hash_of_rows(rows):
    """Return a hash of rows, as they stand in the file."""
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def read(path):
    """Return a record; BookError where its rows are not those that the run left."""
    found = json_of(path)
    if found.get("hash") != hash_of_rows(found.get("rows")):
        raise BookError(f"{path} was edited: its rows are not those of its hash, make it again by make record")
    return found
