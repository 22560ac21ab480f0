"""Keep the rows of one run that no build makes: on a GPU, or on published data.

They go to ``book/recorded/<chapter>.json`` with what they came from: parameters, commit, hash of the chapter's code,
day, processor, GPU, seconds, and a hash of the rows, which shows whether the file was edited later.
"""

import json
import os
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path

from workflow.book import fresh_seeds, make_env, parameters
from workflow.book.catalogue import BookError, find, source, write_whole
from workflow.book.dependencies import recorded_hash
from workflow.book.recorded import FOLDER, hash_of_rows
from workflow.run import chapter as runner


def gpu():
    """Return the name of the GPU that torch sees, or None."""
    import torch  # slow

    return torch.cuda.get_device_name(0) if torch.cuda.is_available() else None


def record(chapter, asked):
    """Run a chapter, write its record, and return where."""
    commit = fresh_seeds.commit()
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


def main():
    """Record the run that the variables of make name."""
    make_env.check()
    chapter = find(os.environ.get("NAME", ""))
    print(f"{record(chapter, parameters.parse(os.environ.get('PARAMS', '')))}: commit it")


if __name__ == "__main__":
    try:
        main()
    except BookError as error:
        sys.exit(str(error))
