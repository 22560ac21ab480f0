"""Keep the rows of one run that no build can make, of a GPU or of published data. `make record NAME= PARAMS=`.

They go to ``book/recorded/<chapter>.json`` with what they came from: parameters, commit, hash of the chapter's code,
day, processor, GPU, seconds, and a hash of the rows themselves, by which :func:`read` knows a file that was edited.
"""

import hashlib
import json
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

import chapter as runner
import parameters
import robustness
import variables
from chapters import BookError, find, json_of, recorded_hash, source, write_whole

FOLDER = Path("book/recorded")


def hash_of_rows(rows):
    """Return a hash of rows, as they stand in the file."""
    return hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()


def gpu():
    """Return the name of the GPU that torch sees, or None."""
    import torch  # slow

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def record(chapter, asked):
    """Run a chapter, write its record, and return where."""
    commit = robustness.commit()
    with tempfile.TemporaryDirectory() as folder:
        summary = runner.run(chapter, asked, Path(folder), sys.stderr)
    rows = [row | {"recorded": True} for row in summary["rows"]]
    entry = {key: summary[key] for key in ("chapter", "parameters", "seconds", "cpu", "threads")}
    entry |= {"gpu": gpu() if summary["parameters"].get("device") == "cuda" else None}
    entry |= {"commit": commit, "code": recorded_hash(chapter), "date": datetime.now(UTC).date().isoformat()}
    path = FOLDER / f"{source(chapter).stem}.json"
    text = json.dumps(entry | {"hash": hash_of_rows(rows), "rows": rows}, indent=1, ensure_ascii=False, allow_nan=False)
    write_whole(path, text + "\n")
    return path


def read(path):
    """Return a record; BookError where its rows are not those that the run left."""
    found = json_of(path)
    if found.get("hash") != hash_of_rows(found.get("rows")):
        raise BookError(f"{path} was edited: its rows are not those of its hash, make it again by make record")
    return found


def main():
    """Record the run that the variables of make name."""
    variables.check()
    chapter = find(os.environ.get("NAME", ""))
    print(f"{record(chapter, parameters.parse(os.environ.get('PARAMS', '')))}: commit it")


if __name__ == "__main__":
    try:
        main()
    except BookError as error:
        sys.exit(str(error))
