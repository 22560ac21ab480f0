"""Run one chapter: MyST Markdown -> notebook with stable cell ids -> papermill -> executed notebook and its rows.

Every run has a separate folder, so that none disturbs another. A failure is one line that names the cell.
"""

import hashlib
import os
import platform
import time
from pathlib import Path

import nbformat

from workflow.book import parameters
from workflow.book.catalogue import BookError, read
from workflow.book.ledger import rows_of


def values_of(chapter, asked):
    """All values in force and those that differ from the chapter's; what does not fit is refused."""
    return fit(parameters.declared(read(chapter)), asked)


def fit(known, asked):
    """All values in force, and those that differ, from the parameters that a chapter declares."""
    defaults = {name: default for name, (_, default, _) in known.items()}
    values = defaults | parameters.check(asked, known)
    return values, {name: value for name, value in values.items() if value != defaults[name]}


def label(changed):
    """Name of a run's results, from the values that differ from the chapter's: ``seed=7+step=0.1``."""
    name = "+".join(f"{key}={changed[key]}" for key in sorted(changed)) or "defaults"
    plain = "".join(letter if letter.isalnum() or letter in "=.+-_" else "_" for letter in name)
    if plain == name and len(name) < 100:
        return name
    return f"{plain[:80]}-{hashlib.sha256(name.encode()).hexdigest()[:8]}"


def run(chapter, asked, folder, private, stderr=None):
    """Run a chapter in ``folder``; return what the ledger needs of it. The notebook is ``folder/executed.ipynb``."""
    from workflow.run.notebook import execute, tidy  # slow to import

    plain, done = folder / "source.ipynb", folder / "executed.ipynb"
    values, changed = values_of(chapter, asked)
    nbformat.write(read(chapter), plain)
    started = time.monotonic()
    execute(chapter, plain, done, changed, private, stderr)
    rows = rows_of(tidy(done, chapter))
    if not rows:
        raise BookError("it leaves no claims: end it with lib.ledger.verdict(...) of a source's claims")
    return {
        "chapter": chapter,
        "seconds": round(time.monotonic() - started, 1),
        "threads": int(os.environ["OMP_NUM_THREADS"]),
        "cpu": cpu(),
        "parameters": values,
        "rows": rows,
    }


def cpu():
    """Name of this machine's processor, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        lines = []
    named = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(named, None) or platform.processor() or platform.machine()
