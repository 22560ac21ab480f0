"""Run chapters over seeds or parameters, and count on how many of them each row holds. Called by make.

A sweep that was interrupted goes on where it stopped, and a run that failed does not stop the others. Several can
share the work, also on machines with one file system. Results are
``build/sweep/<chapter>/<values>.json``, one a run, and a table a chapter, ``build/sweep/<chapter>.json``.
"""

import itertools
import os
import statistics
import sys
from pathlib import Path

from lib.ledger import HELD
from workflow.book import fresh_seeds, parameters
from workflow.book.catalogue import BookError, find_all, read, write_record, yaml_of
from workflow.book.ledger import tally
from workflow.commands import call, ends, is_whole
from workflow.run import engine
from workflow.run.chapter import fit, label
from workflow.run.cluster import place_of_runs

FOLDER = "sweep"  # below build
ENDS = "ends"  # PARAMETERS=ends: each parameter at each end of its range
MAX_RUNS = 100_000  # of a chapter in one sweep
COLUMNS = ("held", "of", "undecided", "errors", "median", "low", "high", "wilson_low", "wilson_high")


def seeds_of(text):
    """Seeds that ``1000:1019`` names, both ends included; None where nothing is asked for."""
    if not text:
        return None
    first, colon, last = text.partition(":")
    numbers = [first, last] if colon else [first]
    if not all(is_whole(number) and int(number) <= parameters.LAST_SEED for number in numbers):
        raise BookError(
            f"SEEDS is {text!r}: give whole numbers from 0 to 2^63 - 1, SEEDS=1000:1019, both ends included"
        )
    seeds = range(int(first), int(last or first) + 1)
    if not seeds:
        raise BookError(f"SEEDS is {text!r}, which is empty: give the smaller seed first, SEEDS={last}:{first}")
    return seeds


def sets_of(path):
    """Sets of values in a file: a list of sets, or a list of values for each parameter, all combined."""
    if path in ("", ENDS):
        return path or [{}]
    contents = yaml_of(path)
    if isinstance(contents, dict) and contents and all(isinstance(row, list) and row for row in contents.values()):
        return [dict(zip(contents, values, strict=True)) for values in itertools.product(*contents.values())]
    if isinstance(contents, list) and contents and all(isinstance(values, dict) and values for values in contents):
        return contents
    raise BookError(f"{path}: write a list of values for each parameter, `step: [0.1, 0.5]`, or a list of sets of them")


def runs_of(chapter, seeds, sets):
    """Runs of one chapter: label, all values in force, and those that differ from the chapter's own."""
    known = parameters.declared(read(chapter))
    if sets == ENDS:
        sets = ends.sets_of(known)
        for values, why in [(values, why) for values in sets if (why := ends.refused(known, values))]:
            print(f"{chapter} {label(values)}: {why.partition(';')[0]}", flush=True)
            sets.remove(values)
    if seeds and any("seed" in values for values in sets):
        raise BookError("seed is given twice: by SEEDS or by PARAMETERS")
    if seeds and "seed" not in known:
        print(f"{chapter}: it has no parameter seed and nothing random, so it runs once", flush=True)
    each = [{"seed": seed} for seed in seeds] if seeds and "seed" in known else [{}]
    runs = {}
    for values, seed in itertools.product(sets, each):
        in_force, changed = fit(known, values | seed)
        runs[label(changed)] = {"label": label(changed), "values": changed, "parameters": in_force}
    return list(runs.values())


def plan(names, seeds, sets):
    """Plan the runs of each chapter; what does not fit is refused before anything runs."""
    if not seeds and sets == [{}]:
        raise BookError("nothing varies: give SEEDS=1000:1019, or PARAMETERS=file.yml")
    if seeds and sets == ENDS:
        raise BookError("PARAMETERS=ends takes the seed of each chapter: leave SEEDS out")
    asked = find_all(names)
    if len(seeds or [0]) * len(sets) > MAX_RUNS:
        raise BookError(f"{len(seeds or [0]) * len(sets)} runs of a chapter: take at most {MAX_RUNS}")
    planned = {}
    for chapter in asked:
        try:
            planned[chapter] = runs_of(chapter, seeds, sets)
        except BookError as error:
            raise BookError(f"{chapter}: {error}") from None
    return planned


def table_of(outcomes):
    """Summary of each row over some runs: name -> held, of, undecided, errors, median, range, interval."""
    by_name = {}
    for outcome in outcomes:
        for row in outcome.get("rows", ()):
            if row["verdict"]:  # a baseline has none
                by_name.setdefault(row["name"], []).append(row)
    errors = sum("rows" not in outcome for outcome in outcomes)
    return {name: _summary(rows, len(outcomes), errors) for name, rows in by_name.items()}


def _summary(rows, count, errors):
    held = sum(row["verdict"] in HELD for row in rows)  # a claim that is "not reproduced" in the book holds on no seed
    measured = [row["measured"] for row in rows]
    undecided = sum(row["verdict"] == "undecided" for row in rows)
    numbers = (held, count, undecided, errors, statistics.median(measured), min(measured), max(measured))
    return dict(zip(COLUMNS, (*numbers, *fresh_seeds.wilson(held, count)), strict=True))


def tables(chapter, runs):
    """Tables of a chapter's sweep, one for each set of values other than the seed."""
    apart = {}
    for run in runs:
        apart.setdefault(label({name: run["values"][name] for name in run["values"] if name != "seed"}), []).append(run)
    return {
        "chapter": chapter,
        "sets": [_table_of_set(name, part) for name, part in apart.items()],
    }


def _table_of_set(name, runs):
    outcomes = {run["label"]: engine.outcome(run["run"]) for run in runs}
    failed = {run: outcome for run, outcome in outcomes.items() if "rows" not in outcome}
    return {
        "set": name,
        "parameters": {key: value for key, value in runs[0]["parameters"].items() if key != "seed"},
        "runs": list(outcomes),
        "rows": table_of(outcomes.values()),
        "errors": {run: {key: error[key] for key in ("sentence", "cut_off")} for run, error in failed.items()},
    }


def show_ends(runs):
    """Print what each run of a chapter at an end of a range says otherwise than that of its defaults."""
    first, *others = [(run["label"], engine.outcome(run["run"])) for run in runs]
    for name, outcome in others:
        failed = outcome.get("sentence") or first[1].get("sentence")
        seconds = f"{outcome['seconds']:.0f} s" if "rows" in outcome else "-"
        said = failed or ends.turned(outcome, first[1]) or "as at the defaults"
        print(f"{runs[0]['run'].chapter} | {name} | {seconds} | {said}")


def show(table):
    """Print a chapter's tables."""
    for part in table["sets"]:
        print(f"\n{table['chapter']}, {part['set']}: {len(part['runs'])} runs, {len(part['errors'])} failed")
        width = max(map(len, part["rows"]), default=0)
        for name, row in part["rows"].items():
            share = f"{row['held']} of {row['of']} [{row['wilson_low']:.2f}, {row['wilson_high']:.2f}]"
            undecided = f", {row['undecided']} undecided" if row["undecided"] else ""
            numbers = f"median {row['median']:.3g}, {row['low']:.3g} to {row['high']:.3g}"
            print(f"  {name:<{width}}  held {share:<24} {numbers}{undecided}")


def sweep(planned, place):
    """Run what is not up to date; return what is then known of each chapter."""
    for chapter, runs in planned.items():
        first = engine.plan(chapter, FOLDER)
        for run in runs:
            run["run"] = first._replace(values=run["values"])
            engine.places(run["run"])["failure"].unlink(missing_ok=True)
    every = [run["run"] for runs in planned.values() for run in runs]
    left, ended = [run for run in every if not engine.has_ended(run)], 0
    print(f"{len(left)} of {len(every)} runs are to be done", flush=True)
    for run, outcome in engine.outcomes([[run] for run in left], place):
        if "rows" in outcome:
            ended += 1
            name, seconds = f"{run.chapter} {label(run.values)}", outcome["seconds"]
            print(f"{name}: {seconds:.1f} s, {tally(outcome['rows'])} ({ended} of {len(left)})", flush=True)
    by_chapter = [tables(chapter, runs) for chapter, runs in planned.items()]
    for table in by_chapter:
        write_record(Path("build", FOLDER, table["chapter"] + ".json"), table)
    return by_chapter


def report_failures(by_chapter):
    """Print the runs that failed, each with its sentence; return whether there are any."""
    failures = [(table, part) for table in by_chapter for part in table["sets"] if part["errors"]]
    for table, part in failures:
        count = f"{len(part['errors'])} of {len(part['runs'])} runs failed"
        print(f"\n{table['chapter']}, {part['set']}: {count}", file=sys.stderr)
        for name, error in part["errors"].items():
            print(f"  {name}: {error['sentence']}", file=sys.stderr)
    return bool(failures)


def main():
    """Sweep as the variables of make say; return the exit status."""
    asked = {name: os.environ.get(name, "") for name in ("NAME", "SEEDS", "PARAMETERS")}
    place, seeds = place_of_runs(), seeds_of(asked["SEEDS"])
    planned = plan(asked["NAME"], seeds, sets_of(asked["PARAMETERS"]))
    by_chapter = sweep(planned, place)
    for table in by_chapter:
        if asked["PARAMETERS"] == ENDS:
            show_ends(planned[table["chapter"]])
        else:
            show(table)
    return int(report_failures(by_chapter))


if __name__ == "__main__":
    call(main)
