"""Make the evidence on rows that is missing or void: fresh seeds, and mutants. Called by make, after the ledger.

First the two seeds that came nearest to a bound are run again for each chapter whose code changed since they were
looked at; rows whose numbers differ there lose their evidence. Then chapters with rows without evidence take the next
block of seeds, and the mutants that are void are run. Interrupted, it goes on where it stopped.
"""

import os
import re
from pathlib import Path

from workflow.book import fresh_seeds, parameters, records
from workflow.book.catalogue import BookError, find_all, read, text_of, write_atomic, write_record
from workflow.book.ledger import commit, ledger
from workflow.book.lock import read_lock
from workflow.book.mutants import LIST, reached, written
from workflow.commands import call, mutants
from workflow.commands.sweep import runs_of, sweep
from workflow.run import engine
from workflow.run.cluster import place_of_runs
from workflow.site.evidence import is_given, said

README, SENTENCE = Path("README.md"), re.compile(r"(?<=<!-- evidence -->\n).*")


def rows_by_chapter(asked):
    """Rows of this build that evidence is wanted on: those with a verdict that were not read from a recorded run."""
    rows = {chapter: {} for chapter in asked}
    for row in ledger():
        if row["chapter"] in rows and row["verdict"] and not row["recorded"]:
            rows[row["chapter"]][row["name"]] = row
    return rows


def of_other_code(rows):
    """Records of seeds, by chapter, that were made with code other than today's."""
    known = {chapter: records.entries(records.SEEDS).get(chapter, {}) for chapter in rows}
    counted = {chapter: entry for chapter, entry in known.items() if entry.get("rows")}
    return {chapter: entry for chapter, entry in counted.items() if entry["code"] != engine.plan(chapter).sources}


def look_again(rows, place):
    """Run the near seeds of chapters whose code is another one; strike the rows whose numbers differ there."""
    entries = of_other_code(rows)
    planned = {chapter: runs_of(chapter, entry["near"], [{}]) for chapter, entry in entries.items()}
    sweep(planned, place)
    for chapter, entry in entries.items():
        valid = fresh_seeds.still_valid(entry, _by_seed(planned[chapter]))
        struck = [name for name in entry["rows"] if name not in valid]
        kept = entry | {"rows": valid, "code": engine.plan(chapter).sources}
        records.keep_entry(records.SEEDS, chapter, kept)
        but = f", but of {', '.join(struck)}" * bool(struck)
        print(f"{chapter}: the numbers at seeds {entry['near']} are the same{but}")


def _by_seed(runs):
    """Rows of runs, seed -> name -> row; a run that failed has none."""
    left = {run["values"].get("seed", run["parameters"]["seed"]): engine.outcome(run["run"]) for run in runs}
    kept = {seed: [row for row in outcome.get("rows", ()) if row["verdict"]] for seed, outcome in left.items()}
    return {seed: {row["name"]: row for row in rows} for seed, rows in kept.items()}


def without_seeds(rows):
    """Chapters with rows that depend on a seed and have no valid counts."""
    random = {name: part.values() for name, part in rows.items() if "seed" in parameters.declared(read(name))}
    return [name for name, part in random.items() if any(not is_given(row) and not records.counts(row) for row in part)]


def count(chapter, rows, place):
    """Run a chapter over the next block of seeds, and keep what is counted; tell whether a run was cut off."""
    code = engine.plan(chapter).sources
    block = fresh_seeds.block_for(chapter, read_lock()["seconds"].get(chapter, 0), code)
    runs = runs_of(chapter, range(block[0], block[1] + 1), [{}])
    (table,) = sweep({chapter: runs}, place)
    if cut := [name for name, error in table["sets"][0]["errors"].items() if error["cut_off"]]:
        print(f"{chapter}: not recorded, {', '.join(cut)} did not end: run it again")
        return True
    records.keep_entry(records.SEEDS, chapter, fresh_seeds.entry_of(table, rows, _by_seed(runs), block, code))
    return False


def void_mutants(rows):
    """Pairs of a chapter and a mutant whose result is missing or void."""
    known, pairs = records.entries(records.MUTANTS), []
    tables, results = known.get("rows", {}), known.get("mutants", {})
    same = {chapter: _is_table_of(tables.get(chapter, {}), part) for chapter, part in rows.items()}
    used = {chapter: reached(chapter) for chapter in rows}
    for mutant in written():
        old = results.get(mutant.name, {})
        done = old.get("chapters", {}) if old.get("function") == mutant.code else {}
        for chapter in filter(rows.__contains__, mutant.chapters):
            if mutant.function not in used[chapter]:
                raise BookError(
                    f"{mutant.name} of {LIST}: {chapter} does not use what it changes, name another chapter"
                )
            if not same[chapter] or chapter not in done:
                pairs.append((chapter, mutant))
    return pairs


def _is_table_of(table, rows):
    return table.keys() == rows.keys() and all(records.is_same(row, table[name]) for name, row in rows.items())


def run_mutants(rows, place):
    """Run the void mutants, a chapter at a time, and keep what they turned."""
    pairs = void_mutants(rows)
    for chapter in dict.fromkeys(chapter for chapter, _ in pairs):
        mine = [mutant for name, mutant in pairs if name == chapter]
        chosen = mutants.chosen_chapters(chapter, mine)
        base = mutants.unchanged(chosen, place)
        keep_mutants(mutants.run_all(mine, chosen, base, place), mine, chapter, rows[chapter])


def keep_mutants(results, tried, chapter, rows):
    """Put what mutants did to a chapter into the record, in the order of their list; what is there of others stays."""
    known, order = records.entries(records.MUTANTS), written()
    kept = {name: dict(entry, chapters=dict(entry["chapters"])) for name, entry in known.get("mutants", {}).items()}
    for mutant in tried:
        old = kept.get(mutant.name, {})
        others = old["chapters"] if old.get("function") == mutant.code else {}
        kept[mutant.name] = results[mutant.name] | {"function": mutant.code}
        kept[mutant.name]["chapters"] = others | results[mutant.name]["chapters"]
    tables = known.get("rows", {}) | {chapter: {name: records.noted(row) for name, row in rows.items()}}
    kept = {mutant.name: kept[mutant.name] for mutant in order if mutant.name in kept}
    write_record(records.MUTANTS, {"commit": commit(), "rows": dict(sorted(tables.items())), "mutants": kept})


def main():
    """Bring the evidence on the chapters that NAME means up to date; on all without it."""
    fresh_seeds.commit()  # of sources that are committed
    rows, place = rows_by_chapter(find_all(os.environ.get("NAME") or "all")), place_of_runs()
    look_again(rows, place)
    left = without_seeds(rows)
    print(f"{len(left)} chapters need fresh seeds" + ": " * bool(left) + ", ".join(left), flush=True)
    cut_off = [chapter for chapter in left if count(chapter, rows[chapter], place)]
    print(f"{len(void_mutants(rows))} runs with mutants are to be made", flush=True)
    run_mutants(rows, place)
    if README.exists():
        write_atomic(README, SENTENCE.sub(said(ledger()), text_of(README)))
    if cut_off:
        raise BookError(f"{', '.join(cut_off)}: some runs did not end: run it again, or with a larger TIMEOUT")
    print(f"the evidence is of this book: commit {records.SEEDS}, {records.MUTANTS} and {README}")


if __name__ == "__main__":
    call(main)
