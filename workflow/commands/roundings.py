"""Measure how far each number of a chapter moves when its arithmetic rounds otherwise, and record it.

A chapter runs as in a build, then under each of ``SETTINGS``: other instruction sets of torch, MKL, OpenBLAS and numba,
two threads, and random data perturbed in the last bit. The largest move of a row is its spread; it is recorded in
``book/roundings.json``, and ``workflow/book/ledger.py`` makes the row's tolerance of it. A run is not repeated while
the chapter's code and the library that it imports stay the same.

None of this moves a row that reads a recorded run. So a chapter also runs with the runs that `make record AGAIN=1` made
a second time, if it made all that the chapter reads. How far recorded rows move then is recorded beside their spread,
and widens no tolerance: a build reads the same records.
"""

import os
import subprocess
import sys
from pathlib import Path

from workflow.book import records
from workflow.book.catalogue import BookError, find_all, json_of
from workflow.book.dependencies import recorded_hash, records_of
from workflow.commands import call
from workflow.run.chapter import cpu
from workflow.run.notebook import time_limit

# Variables that libraries read on import, and the flag that the processor needs for a setting. With each of the first
# three, torch, MKL, OpenBLAS and compiled loops take another branch than in a build. The first stands for a processor
# without vectors wider than two numbers.
CHOICES = ("ATEN_CPU_CAPABILITY", "MKL_CBWR", "OPENBLAS_CORETYPE", "NUMBA_CPU_NAME")
THREADS = ("THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
NARROW = "narrow vectors"
SETTINGS = {
    NARROW: (dict(zip(CHOICES, ("default", "COMPATIBLE", "Prescott", "generic"), strict=True)), "sse2"),
    # torch knows no branch between the narrowest vectors and AVX2
    "no fused products": (dict(zip(CHOICES, ("default", "AVX", "Sandybridge", "haswell"), strict=True)), "avx2"),
    "wide vectors": (dict(zip(CHOICES, ("avx512", "AVX512", "SkylakeX", "skylake-avx512"), strict=True)), "avx512f"),
    "two threads": (dict.fromkeys(THREADS, "2"), None),
    "last bit": ({"LAST_BIT": "1"}, None),  # of the data that a chapter draws, run/last_bit.py
}
AGAIN, RECORDS = Path("build/recorded"), Path("book/recorded")  # runs of studies made a second time, and the first
MADE_AGAIN = "runs made again"  # the setting of a chapter that reads those


def lacking(name):
    """Why this processor cannot take a setting, "" where it can; only Linux tells what it has."""
    flag, cpuinfo = SETTINGS[name][1], Path("/proc/cpuinfo")
    known = cpuinfo.read_text("utf-8").split() if cpuinfo.exists() else ()
    return "" if flag is None or flag in known else f"the processor has no {flag}"


def made_again(chapter):
    """Files of the recorded runs that a chapter reads, with the files of those that were made again.

    Those that chose a step size are not made again. None at all, and a line that says so, where another run is missing,
    or has other settings than its record.
    """
    files, left = {}, set()
    for path in map(Path, records_of(chapter)):
        other = AGAIN / path.relative_to(RECORDS)
        if path.name.startswith("tuning-"):
            continue
        if not other.exists() or json_of(other)["settings"] != json_of(path)["settings"]:
            left.add(path.parent.name)
            continue
        arrays = [name for name in json_of(other)["found"] if name.endswith(".npz")]
        files |= {path.with_name(name).as_posix(): str(other.with_name(name)) for name in (path.name, *arrays)}
    for study in sorted(left):
        print(f"{chapter}: its recorded rows stay as they are; make record NAME={study} AGAIN=1 makes the runs again")
    return {} if left else files


def plans(chapter, settings):
    """Runs of a chapter by setting; with runs of studies made again, too, where there are any."""
    limit, folder = 10 * time_limit(), "roundings/{}".format
    runs = {
        setting: many_runs.plan(chapter, folder(setting.replace(" ", "-")), {}, SETTINGS[setting][0], limit)
        for setting in settings
    }
    if files := made_again(chapter):
        runs[MADE_AGAIN] = many_runs.plan(chapter, folder("made-again"), {}, limit=limit, records=files)
    return runs


def measure(chapters, settings):
    """Yield each chapter with what its rows measure under each setting, when it has run under all of them."""
    runs = {chapter: plans(chapter, settings) for chapter in chapters}
    setting_of = {run.folder: setting for planned in runs.values() for setting, run in planned.items()}
    results = {chapter: {} for chapter in chapters}
    for run, outcome in many_runs.outcomes(
        [[run] for planned in runs.values() for run in planned.values()], many_runs.here
    ):
        chapter, setting = run.chapter, setting_of[run.folder]
        if "rows" not in outcome:
            raise BookError(f"{chapter} fails with {setting}: {outcome['sentence']}")
        print(f"{chapter}: measured with {setting}", flush=True)
        results[chapter][setting] = {row["name"]: row for row in outcome["rows"]}
        if len(results[chapter]) == len(runs[chapter]):
            yield chapter, {setting: results[chapter][setting] for setting in runs[chapter]}


def spreads(chapter, results):
    """Record of a chapter: settings, and of each row its largest move and other verdicts, if any.

    Of a recorded row also how far it moved with runs made again, "again", and its verdict then, if it is another.
    """
    again = results.get(MADE_AGAIN, {})
    results = {setting: run for setting, run in results.items() if setting != MADE_AGAIN}
    built = {row["name"]: row for row in json_of(Path("build/claims", chapter + ".json"))["rows"]}
    rows = {}
    for name, row in built.items():
        others = {setting: run[name] for setting, run in results.items() if name in run}
        moves = {setting: abs(other["measured"] - row["measured"]) for setting, other in others.items()}
        turned = [setting for setting, other in others.items() if other["verdict"] != row["verdict"]]
        rows[name] = {"spread": max(moves.values()), "most": max(moves, key=moves.get)}
        rows[name] |= {"turned": turned} if turned else {}
        if row["recorded"] and name in again:
            other = again[name]
            rows[name]["again"] = {"spread": abs(other["measured"] - row["measured"])}
            rows[name]["again"] |= {"verdict": other["verdict"]} if other["verdict"] != row["verdict"] else {}
    about = {"code": recorded_hash(chapter), "records": records.hash_of_records(chapter), "cpu": cpu()}
    return about | {"settings": list(results), "rows": rows}


def show(chapter, entry):
    """Print how far the rows of a chapter moved, relative to what they measure."""
    built = {row["name"]: row["measured"] for row in json_of(Path("build/claims", chapter + ".json"))["rows"]}
    print(f"\n{chapter}, {len(entry['settings'])} settings")
    for name, row in entry["rows"].items():
        turned = f"; another verdict with {', '.join(row['turned'])}" if "turned" in row else ""
        print(f"  {name:<24} {built[name]:12.5g} moves by {row['spread']:.2g} ({row['most']}){turned}")
        if again := row.get("again"):
            turned = f"; then {again['verdict']}" if "verdict" in again else ""
            print(f"  {'':<24} {'':12} moves by {again['spread']:.2g} ({MADE_AGAIN}){turned}")


def run_tests(command):
    """Run the tests under each setting that this processor can take; return how many settings fail."""
    failed = 0
    for name, (variables_of_it, _) in SETTINGS.items():
        if "LAST_BIT" in variables_of_it:  # it is for chapters
            continue
        if why := lacking(name):
            print(f"{name}: passed over, {why}", flush=True)
            continue
        print(f"{name}: {' '.join(f'{key}={value}' for key, value in variables_of_it.items())}", flush=True)
        status = subprocess.run(command, env=os.environ | variables_of_it, check=False).returncode
        print(f"{name}: {'the tests fail' if status else 'the tests pass'}", flush=True)
        failed += bool(status)
    return failed


def main():
    """Measure the chapters that NAME means, as the variables of make say; return the exit status."""
    wanted = find_all(os.environ.get("NAME", ""))
    missing = {name: why for name in SETTINGS if (why := lacking(name))}
    for name, why in missing.items():
        print(f"{name}: passed over, {why}", flush=True)
    settings = [name for name in SETTINGS if name not in missing]
    with hold_lock() as lock:
        status = run_snakemake(lock, [f"build/claims/{chapter}.json" for chapter in wanted])
    if status:
        return status
    for chapter, results in measure(wanted, settings):
        entry = spreads(chapter, results)
        show(chapter, entry)
        if os.environ.get("RECORD"):
            records.keep_spreads(chapter, entry)
    return 0


if __name__ == "__main__":
    call(run_tests, sys.argv[2:]) if sys.argv[1:2] == ["--tests"] else call(main)
