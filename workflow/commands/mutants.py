"""Put small faults into the library, one at a time, and count the verdicts that they turn.

A row that no mutant turns holds, or fails, by construction. Mutants are written by hand (book/mutants.py reads them),
each with the chapters whose verdicts it should turn. A crash, or a run that does not end, turns no verdict. A run that
ended is not made again while its chapter, the library and its mutant are the same.
"""

import fnmatch
import itertools
import os
import time
from pathlib import Path

from workflow.book import catalogue, dependencies, parameters
from workflow.book.catalogue import BookError, write_record
from workflow.book.ledger import by_place, commit
from workflow.book.lock import LOCK, read_lock
from workflow.book.mutants import LIST, written
from workflow.commands import call
from workflow.run import engine
from workflow.run.chapter import values_of
from workflow.run.cluster import place_of_runs

SIZES = Path("tests/mutants/sizes.yml")
REPORT, FOLDER = Path("build/mutants.json"), "mutants/runs"  # the folder is below build
MIN_SHARE = 0.95  # of the mutants must turn a verdict, and of the claims must be turned
MAX_SLOWDOWN, STARTUP_S = 4, 90  # a run may take so many times as long as without a mutant, and so many seconds more
MAX_SECONDS = 1800.0  # of a run without a mutant


def unchanged(chosen, place):
    """Run the chapters with the library as it is; return their rows and seconds.

    BookError where a chapter fails, or has other verdicts than those that are accepted.
    """
    runs = [[engine.plan(name, f"{FOLDER}/unchanged", values, MAX_SECONDS)] for name, values in chosen.items()]
    base, known = {}, by_place(read_lock()["rows"].values())
    for run, outcome in outcomes(runs, place):
        if "rows" not in outcome:
            raise BookError(f"{run.chapter} fails without any mutant ({outcome['sentence']}): mend it first")
        rows = {row["name"]: row for row in outcome["rows"]}
        accepted = {name: known.get(f"{run.chapter}/{name}", row)["verdict"] for name, row in rows.items()}
        if other := [name for name, row in rows.items() if row["verdict"] != accepted[name]]:
            raise BookError(
                f"at the size in {SIZES} {run.chapter} has not the verdict in {LOCK} of {', '.join(other)}:"
                " take another size, or make accept"
            )
        base[run.chapter] = {"rows": rows, "seconds": outcome["seconds"]}
        print(f"{run.chapter}: {len(rows)} rows in {outcome['seconds']:.1f} s", flush=True)
    return base


def outcomes(groups, place):
    """Yield each run with what it left; those that ended before are not made again."""
    for run in filter(engine.has_ended, itertools.chain(*groups)):
        yield run, engine.outcome(run)
    left = [[run for run in group if not engine.has_ended(run)] for group in groups]
    yield from engine.outcomes(list(filter(None, left)), place)


def compare(outcome, rows):
    """Entry of one chapter under one mutant: rows turned, and why a run left none."""
    if "rows" not in outcome:
        return {"turned": [], "crashed": outcome["sentence"].partition("; evidence")[0]}
    verdicts = {row["name"]: row["verdict"] for row in outcome["rows"]}
    turned = [name for name, row in rows.items() if verdicts.get(name, row["verdict"]) != row["verdict"]]
    lost = ", ".join(name for name in rows if name not in verdicts)
    return {"turned": turned, "crashed": f"it leaves no row {lost}" if lost else None}


def run_all(mutants, chosen, base, place):
    """Run mutants against those of the chosen chapters that they name; {name: {what, chapters}}, in order."""
    seconds = {name: MAX_SLOWDOWN * base[name]["seconds"] + STARTUP_S for name in base}
    limits = {name: float(os.environ.get("TIMEOUT") or limit) for name, limit in seconds.items()}
    groups, entries = [], {}
    for mutant in mutants:
        survives = {"survives": mutant.survives} if mutant.survives else {}
        entries[mutant.name] = {"what": mutant.what, "chapters": {}} | survives
        folder, asked = f"{FOLDER}/{mutant.name}", [name for name in mutant.chapters if name in chosen]
        if group := [engine.plan(name, folder, chosen[name], limits[name], mutant) for name in asked]:
            groups.append(group)
    left = sum(map(len, groups))
    for run, outcome in outcomes(groups, place):
        name, left = run.mutant.name, left - 1
        entry = compare(outcome, base[run.chapter]["rows"])
        entries[name]["chapters"][run.chapter] = entry
        said = ", ".join(entry["turned"]) or entry["crashed"] or "survived"
        print(f"{name}: {run.chapter}: {said[:150]}  ({left} to go)", flush=True)
    return entries


def show(mutants, entries):
    """Print how many turned a verdict, and name the others; return how many did, and of all."""
    tried = [(mutant, chapters) for mutant in mutants if (chapters := entries[mutant.name]["chapters"])]
    left = [(mutant, chapters) for mutant, chapters in tried if not any(entry["turned"] for entry in chapters.values())]
    print(f"\n{len(tried) - len(left)} of {len(tried)} mutants turn a verdict")
    for mutant, chapters in left:
        fate = "crashed" if any(entry["crashed"] for entry in chapters.values()) else "survived"
        reason = f" ({mutant.survives})" * bool(mutant.survives)
        print(f"  {fate}: {mutant.name}: {mutant.what}, in {', '.join(chapters)}{reason}")
    return len(tried) - len(left), len(tried)


def show_claims(entries, base):
    """Print the claims of which no mutant turned the verdict; return how many one turns, and of all.

    Recorded rows are left out: no mutant can turn them.
    """
    tried = [pair for mutant in entries.values() for pair in mutant["chapters"].items()]
    turned = {(chapter, row) for chapter, entry in tried for row in entry["turned"]}
    rows = [(name, row) for name, result in base.items() for row in result["rows"].values()]
    claims = [(name, row["name"]) for name, row in rows if row["kind"] == "claim" and not row["recorded"]]
    missed = [claim for claim in claims if claim not in turned]
    print(f"\nclaims that no mutant turns: {len(missed)} of {len(claims)}")
    print("".join(f"  {chapter}: {name}\n" for chapter, name in missed), end="")
    return len(claims) - len(missed), len(claims)


def chosen_mutants(only):
    """Mutants whose names fit a pattern in ``only``; all for nothing."""
    mutants, patterns = written(), only.split() or ["*"]
    names = {pattern: fnmatch.filter([mutant.name for mutant in mutants], pattern) for pattern in patterns}
    if lost := [pattern for pattern, fitting in names.items() if not fitting]:
        raise BookError(f"ONLY is {lost[0]!r}, which fits no mutant: use names of {LIST}, or 'gradient-*'")
    return [mutant for mutant in mutants if any(mutant.name in fitting for fitting in names.values())]


def chosen_chapters(name, mutants):
    """Chapters that mutants name, or the one called ``name``, with the parameters at which they run."""
    named = {chapter for mutant in mutants for chapter in mutant.chapters}
    if name and (chapter := catalogue.find(name)) not in named:
        raise BookError(f"NAME is {name!r}, which none of these mutants names: write one, or use {', '.join(named)}")
    sizes = parameters.read(SIZES) if SIZES.exists() else {}
    chapters = [chapter] if name else [chapter for chapter in catalogue.chapters() if chapter in named]
    return {chapter: values_of(chapter, sizes.get(chapter, {}))[1] for chapter in chapters}


def main():
    """Run the mutants that the variables of make name, and report."""
    name, only = (os.environ.get(variable, "").strip() for variable in ("NAME", "ONLY"))
    started, mutants = time.monotonic(), chosen_mutants(only)
    chosen = chosen_chapters(name, mutants)
    dependencies.mark_commit()
    place = place_of_runs()
    base = unchanged(chosen, place)
    entries = run_all(mutants, chosen, base, place)
    counts = {"mutants turn a verdict": show(mutants, entries)}
    if not only:
        counts["claims are turned by one"] = show_claims(entries, base)
    report = {"commit": commit(), "mutants": entries}
    write_record(REPORT, report)
    print(f"{time.monotonic() - started:.0f} s; all of it: {REPORT}")
    few = [f"{n} of {of} {what}, and {MIN_SHARE:.0%} must" for what, (n, of) in counts.items() if n < MIN_SHARE * of]
    if few and not only:
        raise BookError(f"{'; '.join(few)}: see the survivors above")


if __name__ == "__main__":
    call(main)
