"""Write a recorded run with what a rerun needs: settings, data, commit, code, processor, date and time."""

import json
import time
from datetime import UTC, datetime
from pathlib import Path

from workflow.book import dependencies, fresh_seeds
from workflow.book.catalogue import json_of, write_atomic
from workflow.run.chapter import cpu

FOLDER = Path("book/recorded")


def runs_of(study, folder=FOLDER):
    """Records of a study by name; none where it has none yet."""
    return {path.stem: json_of(path) for path in sorted(Path(folder, study).glob("*.json"))}


def code_now():
    """Commit and hash of the library as it is now; BookError where the sources differ from the commit."""
    return {"commit": fresh_seeds.commit(), "cpu": cpu(), "code": dependencies.library_hash()}


def clocks():
    """Both clocks now, of time that passes and of the processor's."""
    return time.monotonic(), time.process_time()


def write_run(path, settings, found, began, data, code):
    """Write a run of a study into ``<study>/<run>.json``.

    Parameters
    ----------
    path : Path
    settings, found, data : dict
        How it was made, its results, and the files that it read with their hashes.
    began : tuple
        Of :func:`clocks`, when it began.
    code : dict
        Of :func:`code_now`, when its code was imported.
    """
    passed, worked = (round(now - then) for now, then in zip(clocks(), began, strict=True))
    entry = {"study": path.parent.name, "run": path.stem, "settings": settings} | code
    entry |= {"date": datetime.now(UTC).date().isoformat(), "seconds": passed, "processor_seconds": worked}
    entry |= {"data": data, "found": found}
    write_atomic(path, json.dumps(entry, allow_nan=False).replace(', "', ',\n"') + "\n")
    return passed
