"""Make the runs of a study, on published data or with other packages, that no build makes.

They go to ``book/recorded/<study>/``, one file each with what it came from: settings, data, commit, a hash of the
code, day, processor and seconds; arrays go to an npz beside it. Runs that are there are not made again. Older
ones have no hash of the code; their commit says which code made them.
"""

import fnmatch
import hashlib
import os

import numpy as np

from studies import (
    fine_tuning,
    frozen_decay,
    language_model,
    optimisers,
    provenance,
    random_heads,
    real_transformer,
    recorded,
    speed,
)
from studies.provenance import FOLDER
from workflow.book.catalogue import BookError
from workflow.commands import call

# Each with its studies, and how a run of them is made.
MODULES = (recorded, speed, optimisers, language_model, random_heads, real_transformer, frozen_decay)


def make_runs(name, only="*"):
    """Make the runs of a study whose names fit ``only`` and that are not there yet."""
    module = next(module for module in MODULES if name in module.STUDIES)
    folder, runs = FOLDER / name, module.STUDIES[name]()
    code = provenance.code_now()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [run for run in runs if any(fnmatch.fnmatchcase(run, pattern) for pattern in only.split())]
    for k, run in enumerate(wanted, 1):
        path = folder / f"{run}.json"
        if path.exists():
            continue
        print(f"{name}, {run}, {k} of {len(wanted)}", flush=True)
        began, known = provenance.clocks(), provenance.runs_of(name, FOLDER)
        try:
            settings, results = module.make(name, runs[run], known)
        except (OSError, ValueError, KeyError) as error:
            raise BookError(f"{name}, {run}: {error}") from None
        arrays = {name: save_arrays(folder / name, value) for name, value in results.items() if name.endswith(".npz")}
        found = results | arrays  # of arrays the hash alone
        seconds = provenance.write_run(path, settings, found, began, module.data_of(runs[run]), code)
        print(f"{path}, {seconds} s: commit it", flush=True)


def save_arrays(path, arrays):
    """Write arrays as an npz, and return its SHA-256."""
    np.savez_compressed(path, **arrays)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main():
    """Make the runs that the variables of make name."""
    name = os.environ.get("NAME", "")
    if name == fine_tuning.STUDY:
        return fine_tuning.make_all(os.environ.get("ONLY") or "")
    studies = [study for module in MODULES for study in module.STUDIES] + [fine_tuning.STUDY]
    if name not in studies:
        raise BookError(f"NAME is {name!r}: use one of {', '.join(studies)}")
    return make_runs(name, os.environ.get("ONLY") or "*")


if __name__ == "__main__":
    call(main)
