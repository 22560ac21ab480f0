"""Keep the rows of one run that no build makes, or make the runs of a study: on a GPU, or on published data.

Rows go to ``book/recorded/<chapter>.json`` with what they came from: parameters, commit, hash of the chapter's code,
day, processor, GPU, seconds, and a hash of the rows, which shows whether the file was edited later. Runs of a study go
to ``book/recorded/<study>/``, one file each; those that are there are not made again.
"""

import fnmatch
import json
import os
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from workflow.book import fresh_seeds, parameters
from workflow.book.catalogue import BookError, find, json_of, source, write_whole
from workflow.book.dependencies import recorded_hash
from workflow.book.recorded import FOLDER, hash_of_rows
from workflow.commands import call
from workflow.run import chapter as runner
from workflow.run import studies


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


def study(name, only="*"):
    """Make the runs of a study whose names fit ``only`` and that are not there yet."""
    folder, runs = FOLDER / name, studies.STUDIES[name]()
    noted = fresh_seeds.commit()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [run for run in runs if any(fnmatch.fnmatchcase(run, one) for one in only.split())]
    for k, run in enumerate(wanted, 1):
        path = folder / f"{run}.json"
        if path.exists():
            continue
        print(f"{name}, {run}, {k} of {len(wanted)}", flush=True)
        began, clock = time.monotonic(), time.process_time()
        known = {one.stem: json_of(one) for one in folder.glob("*.json")}
        try:
            settings, found = studies.make(name, runs[run], known)
        except (OSError, ValueError, KeyError) as error:
            raise BookError(f"{name}, {run}: {error}") from None
        entry = {"study": name, "run": run, "settings": settings, "commit": noted, "cpu": runner.cpu()}
        entry |= {"date": datetime.now(UTC).date().isoformat(), "seconds": round(time.monotonic() - began)}
        entry |= {"processor_seconds": round(time.process_time() - clock), "data": studies.data_of(runs[run])}
        entry |= {"found": found}
        write_whole(path, json.dumps(entry, allow_nan=False).replace(', "', ',\n"') + "\n")
        print(f"{path}, {entry['seconds']} s: commit it", flush=True)


def main():
    """Record the run or the study that the variables of make name."""
    if os.environ.get("NAME", "") in studies.STUDIES:
        study(os.environ["NAME"], os.environ.get("ONLY") or "*")
        return
    chapter = find(os.environ.get("NAME", ""))
    print(f"{record(chapter, parameters.parse(os.environ.get('PARAMS', '')))}: commit it")


if __name__ == "__main__":
    call(main)
