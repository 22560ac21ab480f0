"""Make the runs of a study, on published data or with other packages, that no build makes.

They go to ``book/recorded/<study>/``, one file each with what it came from: settings, data, commit, a hash of the
code, day, processor and seconds; arrays go to an npz beside it. Runs that are there are not made again. Older
ones have no hash of the code; their commit says which code made them.
"""

import fnmatch
import hashlib
import json
import os
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from studies import language_model, optimisers, random_heads, recorded
from workflow.book import dependencies, fresh_seeds
from workflow.book.catalogue import BookError, json_of, write_atomic
from workflow.commands import call
from workflow.run.chapter import cpu

FOLDER = Path("book/recorded")
MODULES = (recorded, optimisers, language_model, random_heads)  # each with its studies, and how a run of them is made


def make_runs(name, only="*"):
    """Make the runs of a study whose names fit ``only`` and that are not there yet."""
    module = next(module for module in MODULES if name in module.STUDIES)
    folder, runs = FOLDER / name, module.STUDIES[name]()
    noted, code = fresh_seeds.commit(), dependencies.module_hash(module.__name__)
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [run for run in runs if any(fnmatch.fnmatchcase(run, pattern) for pattern in only.split())]
    for k, run in enumerate(wanted, 1):
        path = folder / f"{run}.json"
        if path.exists():
            continue
        print(f"{name}, {run}, {k} of {len(wanted)}", flush=True)
        began, clock = time.monotonic(), time.process_time()
        known = {file.stem: json_of(file) for file in folder.glob("*.json")}
        try:
            settings, results = module.make(name, runs[run], known)
        except (OSError, ValueError, KeyError) as error:
            raise BookError(f"{name}, {run}: {error}") from None
        entry = {"study": name, "run": run, "settings": settings, "commit": noted, "cpu": cpu()}
        entry["code"] = code
        entry |= {"date": datetime.now(UTC).date().isoformat(), "seconds": round(time.monotonic() - began)}
        entry |= {"processor_seconds": round(time.process_time() - clock), "data": module.data_of(runs[run])}
        arrays = {name: save_arrays(folder / name, value) for name, value in results.items() if name.endswith(".npz")}
        entry["found"] = results | arrays  # of arrays the hash alone
        write_atomic(path, json.dumps(entry, allow_nan=False).replace(', "', ',\n"') + "\n")
        print(f"{path}, {entry['seconds']} s: commit it", flush=True)


def save_arrays(path, arrays):
    """Write arrays as an npz, and return its SHA-256."""
    np.savez_compressed(path, **arrays)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main():
    """Make the runs that the variables of make name."""
    name = os.environ.get("NAME", "")
    studies = [study for module in MODULES for study in module.STUDIES]
    if name not in studies:
        raise BookError(f"NAME is {name!r}: use one of {', '.join(studies)}")
    make_runs(name, os.environ.get("ONLY") or "*")


if __name__ == "__main__":
    call(main)
