"""Build the book, or with QUICK=1 a part of it in a separate folder.

Chapters -> executed notebooks and rows -> ledger -> site -> comparison with the accepted ledger. Every result carries
one hash of all that it depends on. One with another hash than that of the present sources is deleted, and what is
missing is made. A chapter that fails stops no other.
"""

import shutil
import sys
import time
from contextlib import chdir
from pathlib import Path

import yaml

from workflow.book import catalogue, dependencies, ledger, lock
from workflow.book.catalogue import BookError
from workflow.commands import call
from workflow.run import engine

# Chapters of QUICK=1: one of each part, among the fastest.
QUICK = ("max-margin/lemma-1", "rates/sparsification", "mirror-descent/lp-separator", "beyond/adam-clocks")
PAGES = ("notation", "rows", "bibliography")  # pages that these chapters refer to
PART = Path("build/quick")  # the folder of this book, with a separate build
LINKED = (*dependencies.PACKAGES, "requirements.lock", "_config.yml", "CITATION.cff", "pyproject.toml")
TYPICAL = 20  # seconds of a chapter of which none are accepted
FIRST_PAGE = """# A part of the book

`make book QUICK=1` has run one chapter of each part, to show that everything works on this machine. `make book` runs
all chapters and builds the whole site. Links to pages that are not in this part are plain words.
"""


def quick():
    """Build the site of the chapters of `QUICK`, apart from the whole book; return the exit status."""
    started = time.monotonic()
    lay_out_part()
    with chdir(PART):
        status = main("site")
    if not status:
        took = f"{len(QUICK)} of {len(catalogue.chapters())} chapters in {time.monotonic() - started:.0f} s"
        print(f"This is a part of the book, {took}: {PART}/build/html/index.html\nmake book builds all of it")
    return status


def lay_out_part():
    """Write the book of the chapters of `QUICK`; a file that is there with the same content keeps its time."""
    if lost := [chapter for chapter in QUICK if chapter not in catalogue.chapters()]:
        raise BookError(f"QUICK=1 would run {lost[0]}, which is not in _toc.yml: name another one in {__file__}")
    toc, parts = catalogue.yaml_of("_toc.yml") | {"root": catalogue.PART_PAGE}, []
    for part in toc["parts"]:
        pages = [page for entry in part["chapters"] for page in [{"file": entry["file"]}, *entry.get("sections", ())]]
        if listed := [page for page in pages if page["file"].removeprefix("book/") in QUICK + PAGES]:
            parts.append(part | {"chapters": listed})
    toc["parts"] = parts
    written = {"_toc.yml": yaml.safe_dump(toc), f"{toc['root']}.md": FIRST_PAGE}
    for path in dependencies.files_of("book"):
        (PART / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(path, PART / path)
    for name in LINKED:
        if Path(name).exists() and not (PART / name).is_symlink():
            (PART / name).symlink_to(Path(name).absolute())
    for name, text in written.items():
        if not (PART / name).exists() or (PART / name).read_text("utf-8") != text:
            catalogue.write_atomic(PART / name, text)


def run_chapters(made):
    """Run the chapters that are not up to date, the longest first; return whether all of them are then."""
    chapters = catalogue.chapters()
    runs = [engine.Run(chapter, sources=made[f"build/claims/{chapter}.json"]) for chapter in chapters]
    left = [run for run in runs if not engine.is_whole(run)]
    seconds = {run.chapter: TYPICAL for run in left} | lock.read_lock()["seconds"]
    left.sort(key=lambda run: -seconds[run.chapter])
    if left:
        print(f"the book is not up to date: {len(left)} of {len(chapters)} chapters are to run", flush=True)
    started, work, done, good = time.monotonic(), sum(seconds[run.chapter] for run in left), 0, 0
    for number, (run, outcome) in enumerate(engine.outcomes([[run] for run in left], engine.here), 1):
        done += seconds[run.chapter]
        if "rows" not in outcome:
            print(f"{run.chapter}: {outcome['sentence']}", file=sys.stderr, flush=True)
            continue
        good += 1
        minutes = (time.monotonic() - started) * (work - done) / done / 60
        time_left = f", {f'{minutes:.0f} min' if minutes > 1 else 'less than a minute'} left" * (number < len(left))
        said = f"{outcome['seconds']:.1f} s, {ledger.tally(outcome['rows'])} ({number} of {len(left)}{time_left})"
        print(f"{run.chapter}: {said}", flush=True)
    return good == len(left)


def main(goal):
    """Build all, or as far as the site or the ledger; return the exit status."""
    catalogue.chapters()  # refuse what cannot be read before a folder is made
    engine.wait_for_turn()
    made = dependencies.results()
    dependencies.discard_stale(made)
    if not run_chapters(made):
        return 1
    if not ledger.LEDGER.exists():
        ledger.collect(made[str(ledger.LEDGER)])
    if goal != "ledger" and not Path("build/html/.sources").exists():
        from workflow.commands import site  # slow to import

        site.main(made["build/html/.sources"])
    if goal == "all" and not Path("build/accepted").exists():  # after the site, which shows what changed
        lock.compare()
        Path("build/accepted").write_text(made["build/accepted"], "utf-8")
    return 0


if __name__ == "__main__":
    call(quick) if sys.argv[1:] == ["quick"] else call(main, *sys.argv[1:])
