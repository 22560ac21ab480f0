"""Time the library beside the published style, textbook tensors, the floor and other solvers: ``make bench``.

``QUICK=1`` takes fewer trials and runs, and leaves the largest out: about a minute instead of ten. ``RECORD=1`` writes
the numbers into ``book/recorded/benchmarks.json`` and ``book/recorded/solvers.json`` too, which the page on speed
shows. ``python -m benchmarks solvers`` makes the second alone.
"""

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, "workflow")

from workflow.book import dependencies
from workflow.commands import call
from workflow.run.chapter import cpu
from workflow.site import speed

REPORTS = {"benchmarks": speed.RECORDED, "solvers": speed.RECORDED_SOLVERS}
RUNS, LIMIT = {True: 3, False: 5}, {True: 0.6, False: 12.0}  # runs of a case, and seconds that they may take


def line(row):
    """Return a row as one line of the terminal."""
    name = f"  {row['part']:34} {row['style']:10}"
    if "seconds" not in row:
        return f"{name} left out: {row['left_out']}"
    least, median, most = (speed.shown(row["seconds"][part]) for part in ("minimum", "median", "maximum"))
    return f"{name} {median:>9}" + f" ({least} to {most}, {row['runs']} runs)" * (row["runs"] > 1)


def main(names=()):
    """Measure everything, print it as it goes, write it; exit with one line if a case failed."""
    quick, names = bool(os.environ.get("QUICK")), names or list(REPORTS)
    if unknown := [name for name in names if name not in REPORTS]:
        sys.exit(f"{unknown[0]} is not timed: give {' or '.join(REPORTS)}")
    paths = {
        name: [Path(f"build/{name}.json"), REPORTS[name]][: 2 if os.environ.get("RECORD") else 1] for name in names
    }
    for path in [path for both in paths.values() for path in both]:  # tried before ten minutes are spent
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("a").close()
        except OSError as error:
            sys.exit(f"{path} cannot be written: {error.strerror.lower()}")
    failed = [row for name in names for row in report(name, quick, paths[name])]
    if failed:
        sys.exit(f"{len(failed)} cases failed, the first:{line(failed[0])}")


def report(name, quick, paths):
    """Measure the works of one report and write it; the rows that failed."""
    from . import floor, measure, solvers, works  # after what can be refused: torch and cvxpy take seconds to import

    timed = {"benchmarks": works, "solvers": solvers}[name]
    packages = {"benchmarks": ("scipy", "cvxpy", "clarabel"), "solvers": tuple(solvers.OTHERS)}[name]
    reached, rows = floor.measured_speed(), []
    commit = Path(dependencies.mark_commit()).read_text("utf-8").strip()
    found = measure.about(commit, cpu(), quick, reached, packages) | {"works": timed.WORKS, "rows": rows}
    for case in timed.cases(quick):
        if not rows or rows[-1]["work"] != case.work:
            print("{title}: time of one {unit}".format(**timed.WORKS[case.work]), flush=True)
        rows.append(measure.row(case, reached, RUNS[quick], LIMIT[quick]))
        print(line(rows[-1]), flush=True)
    for path in paths:
        path.write_text(json.dumps(found, indent=1, allow_nan=False) + "\n", "utf-8")
        print(f"written: {path}")
    return [row for row in rows if "failed" in row]


if __name__ == "__main__":
    one_thread = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM")}
    os.environ |= one_thread | {"OMP_WAIT_POLICY": "PASSIVE"}  # threads that spin while they wait take cores away
    call(main, sys.argv[1:])
