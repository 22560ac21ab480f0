"""Run one chapter: MyST Markdown -> notebook with stable cell ids -> papermill -> executed notebook and its claims.

Either everything of a chapter is published or nothing: files move into place only after the last cell has run. A
failure is one line that names the cell, and the notebook up to there is kept under ``build/evidence/``.
"""

import argparse
import json
import logging
import os
import shutil
import sys
import time
from pathlib import Path

import nbformat
import parameters
from chapters import BookError, find, source, title
from claims import rows_of, tally
from execution import execute, load, tidy


def run(chapter, values, progress=None):
    """Run a chapter; return the path of its notebook, still in ``build/running/``, and what the ledger needs of it."""
    folder = Path("build/running", chapter)
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    plain, done = folder / "source.ipynb", folder / "executed.ipynb"
    notebook = load(chapter)
    nbformat.write(notebook, plain)
    known = parameters.declared(plain)
    values = parameters.check(values, known)
    evidence = Path("build/evidence", chapter + ".ipynb")
    evidence.unlink(missing_ok=True)  # that of an earlier run: no longer true
    print(f"{chapter}: running", flush=True)
    started = time.monotonic()
    try:
        execute(chapter, plain, done, values, progress)
        notebook = tidy(done, chapter)
        rows = rows_of(notebook)
        if not rows:
            raise BookError("it leaves no claims: end it with lib.ledger.verdict(claim(...), control(...))")
    except BookError as error:
        if not done.exists():
            raise
        move(done, evidence)
        raise BookError(f"{error}; evidence: {evidence}") from None
    in_force = {name: default for name, (_, default, _) in known.items()} | values
    changed = {name: value for name, value in values.items() if value != known[name][1]}
    summary = {"chapter": chapter, "seconds": round(time.monotonic() - started, 1), "parameters": in_force}
    return done, summary | {"changed": changed, "rows": rows}


def move(path, to):
    """Put a finished file into place, whole or not at all."""
    to.parent.mkdir(parents=True, exist_ok=True)
    os.replace(path, to)


def publish(chapter, done, summary):
    """Move a chapter's notebook and its claims to where the book is built from."""
    rows = done.with_name("claims.json")
    rows.write_text(json.dumps(summary, indent=1, allow_nan=False) + "\n", "utf-8")
    move(rows, Path("build/claims", chapter + ".json"))
    move(done, Path("build/executed", chapter + ".ipynb"))


def main():
    """Run the chapter that the command line names."""
    cli = argparse.ArgumentParser(description=__doc__)
    cli.add_argument("name", help="a chapter: max-margin/lemma-1, or lemma-1")
    cli.add_argument("--params", default="", help='"seed=7 iterations=5000"')
    cli.add_argument("--values", type=json.loads, default={}, help="the same as JSON, from the workflow")
    cli.add_argument("--publish", action="store_true", help="for the book, not for a look")
    arguments = cli.parse_args()
    try:
        chapter = find(arguments.name)
    except BookError as error:
        sys.exit(str(error))
    try:
        logs = Path("build/logs", chapter + ".log")
        logs.parent.mkdir(parents=True, exist_ok=True)
        logging.basicConfig(filename=logs, filemode="w", level=logging.INFO, format="%(asctime)s %(message)s")
        values = arguments.values | parameters.parse(arguments.params)
        done, summary = run(chapter, values, None if arguments.publish else sys.stderr)
        if arguments.publish:
            publish(chapter, done, summary)
        else:
            show(chapter, done, summary)
        print(f"{chapter}: {summary['seconds']:.1f} s, {tally(summary['rows'])}", flush=True)
    except BookError as error:
        sys.exit(f"{chapter}: {error}")
    except KeyboardInterrupt:
        sys.exit(f"{chapter}: interrupted")
    finally:
        shutil.rmtree(Path("build/running", chapter), ignore_errors=True)


def show(chapter, done, summary):
    """Print the rows of a single run and keep its notebook."""
    kept = Path("build/runs", chapter + ".ipynb")
    move(done, kept)
    print(f"\n{title(source(chapter))}")
    print(", ".join(f"{name}={value!r}" for name, value in summary["parameters"].items()) or "no parameters")
    for row in summary["rows"]:
        numbers = f"{row['measured']:10.3g} {row['relation']} {row['bound']:<8.3g}"
        print(f"  {row['verdict']:<24} {numbers} {row['item']}: {row['statement']}")
    print(f"notebook: {kept}\n")


if __name__ == "__main__":
    main()
