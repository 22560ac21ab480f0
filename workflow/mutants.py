"""Mutants: small faults put into the library, one at a time, and which verdicts of the finished chapters see them.

A row that no near mutant turns holds, or fails, by construction. Near and gross mutants are written by hand in
``tests/mutants``, each with the chapters whose verdicts it should turn; a third kind is drawn by a seed from all
changes of operators and constants, and only reported. A crash, or a run that does not end, turns no verdict: they are
apart. Unless it is told which, a call takes those of a quarter of an hour, other ones for each commit, and holds them
against the record of all.
"""

import ast
import fcntl
import fnmatch
import json
import math
import os
import random
import resource
import signal
import sys
import time
from collections import deque
from contextlib import contextmanager
from multiprocessing import Pipe, get_context
from multiprocessing.connection import wait
from pathlib import Path
from typing import NamedTuple

import alterations
import bare
import parameters
import variables
from chapters import BookError, code_of, find, json_of, mark_commit, read, recorded_hash, write_whole, yaml_of
from claims import LOCK, commit
from libraries import COMPILED, lay_out

LISTS = Path("tests/mutants")
FINISHED = LISTS / "finished.yml"
FOLDER, REPORT, RECORD = Path("build/mutants"), Path("build/mutants.json"), Path("book/mutants.json")
KINDS = ("near", "gross", "random")
DRAWN, SEED = 60, 0
PART = {"near": 200, "random": 0}  # how many are tried unless it is said which; all of the gross ones
APART = ("figures.py", "_compiled.py")  # not drawn from: pictures have no verdict, and the cache sees no such change
MOST_CHAPTERS = 3
ENOUGH = 0.95  # part of the near mutants that turn a verdict, and of the claims that one of them turns
SLOWER, LONGER, COMPILING = 3, 10, 30  # a run may compute so many times as long, so many seconds more, if it compiles
LONGEST = 1800.0  # seconds without a mutant
WAITING = 4  # times as long by the clock, on a machine that does other things, too


class Mutant(NamedTuple):
    """A changed library: what is wrong with it, which file, its new text, and the chapters that should see it."""

    name: str
    kind: str
    what: str
    file: str
    text: str
    chapters: tuple
    survives: str = ""


class Run(NamedTuple):
    """What one process does: a chapter with its code and parameters, in a library of its own, for so many seconds.

    A run that is watched, for the functions of the library that it calls, takes up to twice as long.
    """

    chapter: str
    code: list
    values: dict
    mutant: Mutant | None
    limit: float
    watched: bool = False


def finished():
    """Return the finished chapters and the parameters at which they meet the mutants."""
    found = parameters.read(FINISHED)
    return {name: parameters.check(asked, parameters.declared(read(name))) for name, asked in found.items()}


def written(kind):
    """Return the mutants of one list; whatever of it does not fit the library is refused."""
    path = LISTS / f"{kind}.yml"
    entries = yaml_of(path) or {}
    if not isinstance(entries, dict):
        raise BookError(f"{path} is {str(entries)[:60]}: write a name, and below it what, file, old, new, chapters")
    return [_mutant(kind, name, entry, f"{name} of {path}") for name, entry in entries.items()]


def recorded():
    """Return what became of the mutants by hand, by the book's record."""
    return json_of(RECORD)["mutants"] if RECORD.exists() else {}


def _mutant(kind, name, entry, where):
    fields = {"what", "file", "old", "new", "chapters"}
    if not isinstance(entry, dict) or not fields <= entry.keys() <= fields | {"survives"}:
        raise BookError(f"{where} is {str(entry)[:60]}: write {', '.join(sorted(fields))} and, if need be, survives")
    path = Path("lib", entry["file"])
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        raise BookError(f"{where} changes {path}, which is not there: the library has changed, renew it") from None
    count = text.count(entry["old"])
    if count != 1:
        raise BookError(f"the text of {where} stands in {path} {count} times: the library has changed, renew it")
    new = text.replace(entry["old"], entry["new"])
    try:
        ast.parse(new)
    except SyntaxError as error:
        raise BookError(f"{where} makes {path} unreadable ({error.msg}, line {error.lineno}): mend it") from None
    named = entry["chapters"]
    if not isinstance(named, list) or not 0 < len(named) <= MOST_CHAPTERS:
        raise BookError(f"the chapters of {where} are {named!r}: name one to {MOST_CHAPTERS}, as a list")
    try:
        known = tuple(find(str(one)) for one in named)
    except BookError as error:
        raise BookError(f"{where}: {error}") from None
    return Mutant(name, kind, entry["what"], entry["file"], new, known, entry.get("survives", ""))


def random_ones():
    """Return the drawn mutants, each with the function that it changes; no chapters yet."""
    paths = [path for path in Path("lib").glob("*.py") if path.name not in APART]
    found = {}
    for number, one in enumerate(alterations.drawn(paths, DRAWN, SEED), 1):
        text = alterations.altered(Path("lib", one.file).read_text("utf-8"), one.number)
        what = f"{one.file}:{one.line}: {one.words}"
        found[Mutant(f"random-{number:02}", "random", what, one.file, text, ())] = one.file, one.function
    return found


def _child(channel, run, folder):
    """Run a chapter in this process, a fork, and send what became of it."""
    for one in (signal.SIGINT, signal.SIGTERM):
        signal.signal(one, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(run.limit), resource.RLIM_INFINITY))
    sys.dont_write_bytecode = True  # it is found again by whole seconds and size, which two mutants may share
    library = folder.absolute()

    def rows():
        return bare.rows(run.code, run.values, library)

    try:
        found, called = bare.reached(library, rows) if run.watched else (rows(), None)
        channel.send({"rows": found, "called": called, "seconds": time.process_time()})
    except BookError as error:
        channel.send({"crashed": str(error)})


def outcomes(groups, jobs, enough=lambda run: False):
    """Yield (run, outcome) as runs end, ``jobs`` at a time; those of a group one after the other, until it is enough.

    An outcome has ``rows``, or ``crashed`` with a sentence, or ``endless`` with the seconds that it was given.
    """
    waiting, free, running = deque(map(deque, groups)), list(range(1, jobs + 1)), {}
    try:
        while waiting or running:
            while waiting and free:
                _start(running, free.pop(), waiting.popleft())
            soonest = min(deadline for *_, deadline in running.values())
            ended = wait(running, max(soonest - time.monotonic(), 0))
            late = [one for one, (*_, deadline) in running.items() if deadline <= time.monotonic()]
            for channel in {*ended, *late}:
                process, run, slot, group, _ = running.pop(channel)
                yield run, _outcome(channel, process, run)
                if group and not enough(run):
                    _start(running, slot, group)
                else:
                    free.append(slot)
    finally:
        for process, *_ in running.values():
            process.kill()
            process.join()


def _start(running, slot, group):
    run = group.popleft()
    ours, theirs = Pipe(duplex=False)
    changed = (run.mutant.file, run.mutant.text) if run.mutant else ()
    process = get_context("fork").Process(target=_child, args=(theirs, run, lay_out(FOLDER / str(slot), *changed)))
    process.start()
    theirs.close()
    running[ours] = (process, run, slot, group, time.monotonic() + WAITING * run.limit)


def _outcome(channel, process, run):
    try:
        found = channel.recv() if channel.poll() else {"endless": run.limit}
    except EOFError:
        process.join()
        if process.exitcode == -signal.SIGXCPU:
            found = {"endless": run.limit}
        else:
            found = {"crashed": f"the process died ({process.exitcode}: killed, or out of memory)"}
    process.kill()
    process.join()
    channel.close()
    return found


def unchanged(chosen, jobs, watched):
    """Run the chapters with the library as it is; their rows, seconds and, if they are watched, called functions.

    BookError where a chapter fails, or has other verdicts than those that are accepted.
    """
    runs = [[Run(name, code_of(name), values, None, LONGEST, watched)] for name, values in chosen.items()]
    found, known = {}, json_of(LOCK) if LOCK.exists() else {}
    for run, outcome in outcomes(runs, jobs):
        rows = outcome.get("rows")
        if rows is None:
            why = outcome.get("crashed") or f"it was still running after {run.limit:g} s"
            raise BookError(f"{run.chapter} fails without any mutant ({why}): mend it first")
        accepted = {name: known.get(f"{run.chapter}/{name}", row)["verdict"] for name, row in rows.items()}
        if other := [name for name, row in rows.items() if row["verdict"] != accepted[name]]:
            raise BookError(
                f"at the size in {FINISHED} {run.chapter} has not the verdict in {LOCK} of {', '.join(other)}:"
                " take another size, or make accept"
            )
        found[run.chapter] = outcome
        print(f"{run.chapter}: {len(rows)} rows in {outcome['seconds']:.1f} s", flush=True)
    return found


def limit_of(mutant, seconds):
    """Return how long a run with a mutant may take, from what it takes without."""
    given = float(os.environ.get("TIMEOUT") or SLOWER * seconds + LONGER)
    return given + COMPILING * (COMPILED in mutant.text)


def compare(outcome, rows, code):
    """Return the entry of one chapter under one mutant: rows turned, and what became of a run that left none."""
    entry = {"turned": [], "crashed": outcome.get("crashed"), "endless": outcome.get("endless"), "code": code}
    if "rows" in outcome:
        if lost := rows.keys() - outcome["rows"].keys():
            entry["crashed"] = f"it leaves no row {', '.join(sorted(lost))}"
        both = (name for name in rows if name in outcome["rows"])
        entry["turned"] = [name for name in both if outcome["rows"][name]["verdict"] != rows[name]["verdict"]]
    return entry


def fate(chapters):
    """Return in one word what became of a mutant: turned, survived, crashed or endless."""
    if any(one["turned"] for one in chapters.values()):
        return "turned"
    return next((word for word in ("crashed", "endless") if any(one[word] for one in chapters.values())), "survived")


def run_all(mutants, chosen, base, jobs, whole):
    """Run mutants against the chosen chapters; {name: {near, what, chapters}} in the order of the lists.

    A mutant goes from chapter to chapter until it turns a verdict, first to those where it did in the book's record;
    for the whole result one by hand goes through all of its.
    """
    codes, before = {name: recorded_hash(name) for name in chosen}, recorded()

    def order(one):
        there = [name for name in one.chapters if name in chosen]
        return sorted(there, key=lambda name: (name not in turned_in(before, one), base[name]["seconds"]))

    groups = [
        [Run(name, code_of(name), chosen[name], one, limit_of(one, base[name]["seconds"])) for name in order(one)]
        for one in mutants
    ]
    found = {one.name: {"near": one.kind == "near", "what": one.what, "chapters": {}} for one in mutants}
    for one in mutants:
        found[one.name] |= {"survives": one.survives} if one.survives else {}
    left = {one.name: len(group) for one, group in zip(mutants, groups, strict=True)}

    def enough(run):
        return not left[run.mutant.name]

    for run, outcome in outcomes([group for group in groups if group], jobs, enough):
        name = run.mutant.name
        entry = compare(outcome, base[run.chapter]["rows"], codes[run.chapter])
        found[name]["chapters"][run.chapter] = entry
        through_all = whole and run.mutant.kind != "random"
        left[name] = left[name] - 1 if through_all or not entry["turned"] else 0
        said = ", ".join(entry["turned"]) or entry["crashed"] or (entry["endless"] and "endless") or "survived"
        print(f"{name}: {run.chapter}: {said[:150]}  ({sum(left.values())} to go)", flush=True)
    return found


def unturned(found, base):
    """Return the claims, by chapter, of which no near mutant turned the verdict."""
    turned = {
        (chapter, row)
        for mutant in found.values()
        for chapter, entry in mutant["chapters"].items()
        for row in entry["turned"]
        if mutant["near"]
    }
    return {
        chapter: [name for name, row in one["rows"].items() if row["kind"] == "claim" and (chapter, name) not in turned]
        for chapter, one in base.items()
    }


def show(mutants, found, base, whole, part=False):
    """Print what became of each kind, the survivors, and claims that nothing turned; return what is too few.

    Which claims turn is known where mutants went through all of their chapters. Of a part none may survive that does
    not by the record.
    """
    faults = []
    for kind in KINDS:
        tried = [one for one in mutants if one.kind == kind and found[one.name]["chapters"]]
        fates = {one: fate(found[one.name]["chapters"]) for one in tried}
        words = [f"{list(fates.values()).count(word)} {word}" for word in ("turned", "survived", "crashed", "endless")]
        unreached = sum(one.kind == kind for one in mutants) - len(tried)
        print(f"\n{kind}: {len(tried)} mutants: {', '.join(words)}; {unreached} for no finished chapter")
        for one, word in fates.items():
            if word != "turned":
                reason = f" ({one.survives})" * bool(one.survives)
                print(f"  {word}: {one.name}: {one.what}, in {', '.join(found[one.name]['chapters'])}{reason}")
        turned = list(fates.values()).count("turned")
        if part:
            lost = [one.name for one in tried if fates[one] != "turned" and turned_in(recorded(), one)]
            faults += [f"{', '.join(lost)} turned a verdict by {RECORD}"] * bool(lost)
        elif kind == "near" and turned < ENOUGH * len(tried):
            faults.append(f"{turned} of {len(tried)} near mutants turn a verdict, and {ENOUGH:.0%} must")
    if not whole:
        return faults
    rows = unturned(found, base)
    claims = sum(row["kind"] == "claim" for one in base.values() for row in one["rows"].values())
    missed = sum(map(len, rows.values()))
    print(f"\nclaims that no near mutant turns: {missed} of {claims}")
    print("".join(f"  {chapter}: {', '.join(names)}\n" for chapter, names in rows.items() if names), end="")
    if missed > (1 - ENOUGH) * claims:
        faults.append(f"{claims - missed} of {claims} claims are turned by one, and {ENOUGH:.0%} must")
    return faults


def chosen_chapters(name):
    """Return the finished chapters, or the one called ``name``."""
    every = finished()
    if not name:
        return every
    chapter = find(name)
    if chapter not in every:
        raise BookError(f"NAME is {name!r}, which {FINISHED} does not list: use one of {', '.join(every)}")
    return {chapter: every[chapter]}


def chosen_mutants(only, mutants):
    """Return the mutants whose kind or name is in ``only``, or whose name fits a pattern there; all for nothing."""
    patterns = only.split() or ["*"]
    for pattern in patterns:
        if not any(_fits(one, pattern) for one in mutants):
            raise BookError(
                f"ONLY is {pattern!r}, which fits no mutant: use {', '.join(KINDS)}, names of {LISTS}, or patterns as"
                " 'gradient-*'"
            )
    return [one for one in mutants if any(_fits(one, pattern) for pattern in patterns)]


def _fits(mutant, pattern):
    return pattern == mutant.kind or fnmatch.fnmatchcase(mutant.name, pattern)


def part_of(mutants, before, seed):
    """Return mutants for a quarter of an hour, drawn by the seed, each for a chapter where it is known to turn one."""
    draw, kept = random.Random(seed), []
    for kind in KINDS:
        alike = [one for one in mutants if one.kind == kind]
        kept += draw.sample(alike, min(PART.get(kind, len(alike)), len(alike)))
    known = {one.name: [name for name in one.chapters if name in turned_in(before, one)] for one in kept}
    return [one._replace(chapters=tuple(known[one.name][:1]) or one.chapters) for one in kept]


def turned_in(before, mutant):
    """Return the chapters of which a mutant turned a verdict, by the book's record."""
    tried = before.get(mutant.name, {}).get("chapters", {})
    return {chapter for chapter, entry in tried.items() if entry["turned"]}


def write(report, chosen, path):
    """Write a report; in the book's record the entries of chapters that were not run stay."""
    old = json_of(path) if path == RECORD and path.exists() else {"mutants": {}, "random": {}, "unturned": {}}
    for part in ("mutants", "random"):
        for name, entry in report[part].items():
            before = old[part].get(name, {})
            same = before.get("what") == entry["what"]
            kept = (
                {chapter: one for chapter, one in before["chapters"].items() if chapter not in chosen} if same else {}
            )
            report[part][name] = entry | {"chapters": kept | entry["chapters"]}
    kept = {name: rows for name, rows in old["unturned"].items() if name not in chosen}
    report["unturned"] = kept | report["unturned"]
    write_whole(path, json.dumps(report, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


@contextmanager
def alone():
    """Hold the folder of the mutants for this process, or say that another has it: two would mix their libraries."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    with Path(FOLDER, "one-at-a-time").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise BookError(f"another make mutants has {FOLDER}: wait until it ends") from None
        yield


def try_out(chosen, only, jobs, whole):
    """Run the chosen chapters without and with the mutants; print and return a report, and what is too few."""
    by_hand, drawn = [one for kind in ("near", "gross") for one in written(kind)], random_ones()
    if twice := {one.name for one in by_hand if [other.name for other in by_hand].count(one.name) > 1}:
        raise BookError(f"two mutants are called {', '.join(sorted(twice))}: names are unique in {LISTS}")
    mutants, part = chosen_mutants(only, [*by_hand, *drawn]), not (only or whole)
    if part:
        mark_commit()
        mutants = part_of(mutants, recorded(), commit())
    watched = any(one in drawn for one in mutants)
    if not watched and not any(set(one.chapters) & chosen.keys() for one in mutants):
        raise BookError(f"ONLY is {only!r}, of which no mutant names {' or '.join(chosen)}: take others, or no NAME")
    if part or (only and not watched):
        named = {name for one in mutants for name in one.chapters}
        chosen = {name: values for name, values in chosen.items() if name in named}
    bare.warm()
    base = unchanged(chosen, jobs, watched)
    quickest = sorted(base, key=lambda name: base[name]["seconds"])
    reach = {
        one: tuple(name for name in quickest if drawn[one] in base[name]["called"])[: 1 if part else MOST_CHAPTERS]
        for one in mutants
        if one in drawn
    }
    mutants = [one._replace(chapters=reach.get(one, one.chapters)) for one in mutants]
    found = run_all(mutants, chosen, base, jobs, whole)
    faults = show(mutants, found, base, whole, part)
    mark_commit()
    random = {one.name for one in mutants if one.kind == "random"}
    report = {
        "commit": commit(),
        "mutants": {name: entry for name, entry in found.items() if name not in random},
        "random": {name: entry for name, entry in found.items() if name in random},
        "unturned": unturned(found, base) if whole else {},
    }
    return report, faults


def main():
    """Run the mutants that the variables of make name, and report."""
    variables.check()
    name, only, record = (os.environ.get(one, "").strip() for one in ("NAME", "ONLY", "RECORD"))
    if record not in ("", "1"):
        raise BookError(f"RECORD is {record!r}: give 1, or leave it out")
    if record and only:
        raise BookError(f"RECORD is 1 and ONLY is {only!r}: a record is of all mutants of a chapter, leave ONLY out")
    chosen, started = chosen_chapters(name), time.monotonic()
    with alone():
        jobs, whole = int(os.environ.get("JOBS") or os.cpu_count()), bool(name or record)
        report, faults = try_out(chosen, only, jobs, whole)
        for path in (REPORT, RECORD) if record else (REPORT,):
            write(report, chosen, path)
    print(f"{time.monotonic() - started:.0f} s; all of it: {REPORT}")
    if faults and not only:
        raise BookError(f"{'; '.join(faults)}: see the survivors above")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutants: stopped"))
    try:
        main()
    except BookError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("mutants: interrupted")
