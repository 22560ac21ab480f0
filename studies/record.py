"""Make the runs of a study, on published data or with other packages, that no build makes.

They go to ``book/recorded/<study>/``, one file each with what it came from: settings, data, commit, a hash of the
code, day, processor and seconds; arrays go to an npz beside it. Runs that are there are not made again. Older
ones have no hash of the code; their commit says which code made them.

With AGAIN=1 the recorded runs of a study are made a second time, with the step sizes that were recorded, by the code as
it is now, and with the branches of torch, MKL and OpenBLAS for a processor without wide vectors. They go to
``build/recorded/<study>/``, from which ``workflow/commands/roundings.py`` measures how far the rows move.
"""

import fnmatch
import hashlib
import os
import sys
from pathlib import Path

import numpy as np

from studies import (
    archives,
    fine_tuning,
    full_size_rules,
    language_model,
    optimisers,
    provenance,
    random_heads,
    recorded,
    speed,
)
from studies.provenance import FOLDER
from workflow.book.catalogue import BookError
from workflow.commands import call, roundings

# Each with its studies, and how a run of them is made.
MODULES = (recorded, speed, full_size_rules, optimisers, language_model, random_heads)


def make_runs(name, only="*", again=False):
    """Make the runs of a study whose names fit ``only`` and that are not there yet.

    With ``again`` only those that have a record and tune nothing, into the folder of runs that are made again.
    """
    module = next(module for module in MODULES if name in module.STUDIES)
    folder, runs = (roundings.AGAIN if again else FOLDER) / name, module.STUDIES[name]()
    code = provenance.code_now()
    folder.mkdir(parents=True, exist_ok=True)
    wanted = [run for run in runs if any(fnmatch.fnmatchcase(run, pattern) for pattern in only.split())]
    if again:
        wanted = [run for run in wanted if Path(FOLDER, name, f"{run}.json").exists() and not run.startswith("tuning-")]
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
        if again and settings != known[run]["settings"]:
            raise BookError(f"{name}, {run}: its record has other settings, so this is another run: record it first")
        arrays = {name: save_arrays(folder / name, value) for name, value in results.items() if name.endswith(".npz")}
        found = results | arrays  # of arrays the hash alone
        seconds = provenance.write_run(path, settings, found, began, module.data_of(runs[run]), code)
        print(f"{path}, {seconds} s" + ": commit it" * (not again), flush=True)


def save_arrays(path, arrays):
    """Write arrays as an npz, and return its SHA-256."""
    np.savez_compressed(path, **arrays)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main():
    """Make the runs that the variables of make name."""
    name, again = os.environ.get("NAME", ""), os.environ.get("AGAIN") == "1"
    if name == fine_tuning.STUDY:
        return fine_tuning.make_all(os.environ.get("ONLY") or "")
    studies = [study for module in MODULES for study in module.STUDIES] + [fine_tuning.STUDY]
    if name not in studies:
        raise BookError(f"NAME is {name!r}: use one of {', '.join(studies)}")
    if again:
        round_otherwise()
        archives.RECORDED = str(roundings.AGAIN)  # runs that read other runs read those that were made again
    return make_runs(name, os.environ.get("ONLY") or "*", again)


def round_otherwise():
    """Start this command anew with the variables that libraries read on import, unless they are set."""
    if why := roundings.lacking(roundings.NARROW):
        raise BookError(f"no runs can be made again: {why}")
    variables = roundings.SETTINGS[roundings.NARROW][0]
    if not variables.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, "-m", "studies.record"], os.environ | variables)


if __name__ == "__main__":
    call(main)
