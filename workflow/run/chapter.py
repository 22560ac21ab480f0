"""Run one chapter: MyST Markdown -> notebook with stable cell ids -> papermill -> executed notebook and its claims.

Every run has a separate folder, so that none disturbs another. Either all files of a run are published or none: they
move into place after the last cell. A failure is one line that names the cell, and the notebook up to there stays.
"""

import hashlib
import json
import os
import platform
import time
from pathlib import Path

import nbformat

from workflow.book import parameters
from workflow.book.catalogue import BookError, read, write_atomic
from workflow.book.dependencies import sources_hash
from workflow.book.ledger import rows_of
from workflow.run.notebook import CutOff, execute, tidy

CHANGED = "its code, the library or the workflow has changed since the command began: run it again"


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


def run(chapter, asked, folder, stderr=None):
    """Run a chapter in ``folder``; return what the ledger needs of it. The notebook is ``folder/executed.ipynb``."""
    plain, done = folder / "source.ipynb", folder / "executed.ipynb"
    values, changed = values_of(chapter, asked)
    nbformat.write(read(chapter), plain)
    started = time.monotonic()
    execute(chapter, plain, done, changed, stderr)
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


def move(path, to):
    """Put a finished file into place, whole or not at all."""
    to.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, to)


def check_sources(chapter, sources):
    """Refuse a run whose sources have another hash than ``sources``, in which variables may follow the hash."""
    if sources and sources.split()[0] != sources_hash(chapter):
        raise CutOff(CHANGED)


def attempt(chapter, asked, folder, places, stderr, noted=None):
    """Run a chapter; move its notebook, and its claims with what is noted of them, to ``places``.

    A failed run leaves its notebook as evidence, and so does one whose sources are no longer those that are noted.
    """
    places["evidence"].unlink(missing_ok=True)  # of an earlier run
    noted = noted or {}
    sources = noted.get("sources")
    try:
        check_sources(chapter, sources)
        summary = run(chapter, asked, folder, stderr) | noted
        check_sources(chapter, sources)
    except BookError as error:
        if not (folder / "executed.ipynb").exists():
            raise
        move(folder / "executed.ipynb", places["evidence"])
        raise type(error)(f"{error}; evidence: {places['evidence']}") from None
    write_atomic(places["claims"], json.dumps(summary, indent=1, allow_nan=False) + "\n")
    if "notebook" in places:
        move(folder / "executed.ipynb", places["notebook"])
    return summary


def places_of(chapter, name, into=""):
    """Paths of the parts of a run: in the book, or under ``build/runs/`` by a ``name``.

    With ``into`` they go into that folder of ``build``, and only failed runs leave a notebook.
    """
    if into:
        chapter = f"{into}/{chapter}/{name}"
        kinds = {"claims": "{}.json", "evidence": "{}.failed.ipynb", "failure": "{}.failed.json"}
    elif not name:
        kinds = {"notebook": "executed/{}.ipynb", "claims": "claims/{}.json", "evidence": "evidence/{}.ipynb"}
    else:
        chapter = f"runs/{chapter}/{name}"
        kinds = {"notebook": "{}.ipynb", "claims": "{}.json", "evidence": "{}.failed.ipynb"}
    return {kind: Path("build", place.format(chapter)) for kind, place in kinds.items()}
