"""What the pages show of the ledger: totals, scoreboard and runs, as MyST that they include from ``_generated/``."""

import json
import math
import re
import sys
import tomllib
from collections import Counter
from functools import cache
from importlib.metadata import version
from pathlib import Path
from platform import python_version
from statistics import NormalDist

import corrections as corrected
import downloads
import drawings
import front
import parameters
import record
from chapters import BookError, chapters, json_of, lines_of, pages, read, recorded_hash, source, text_of, title, yaml_of
from claims import (
    HELD,
    LEDGER,
    PLURAL,
    commit,
    direct_dependencies,
    finished,
    is_noise,
    register,
    reports,
    rows_of,
    tally,
)

SIGNS = {  # those of lib/ledger.py
    "reproduced": "✓",
    "corrected": "✎",
    "holds": "✓",
    "fails as it must": "✓",
    "effect found": "✓",
    "undecided": "?",
    "not reproduced": "✗",
    "fails": "✗",
    "did not fail": "✗",
    "effect missed": "✗",
}
RELATIONS = {"<=": "≤", ">=": "≥", "==": "="}
ROBUSTNESS, MUTANTS = Path("book/robustness.json"), Path("book/mutants.json")
REASONS = Path("book/roundings.yml")  # why rounding moves some numbers, where neither size nor interval tells


def styled(text, verdict):
    """Return text in the style of a verdict."""
    return f"[{text}]{{.verdict .{verdict.replace(' ', '-')}}}"


def bar(rows):
    """Return a block for each row in the colour of its verdict, best first, and how many have which sign."""
    counts = Counter(row["verdict"] for row in rows if row["verdict"])
    found = [verdict for verdict in PLURAL if counts[verdict]]
    blocks = "".join(styled("▮" * counts[verdict], verdict) for verdict in found)
    return f"{blocks} {' '.join(f'{counts[verdict]}&nbsp;{SIGNS[verdict]}' for verdict in found)}" if found else "–"


def escaped(text):
    """Return plain text as Markdown that reads the same."""
    return "".join("\\" + letter if letter in "\\`*_{}[]<>#$|~@" else letter for letter in text)


def table(head, rows, name=""):
    """Return a Markdown table with a CSS class."""
    lines = [" | ".join(str(cell).replace("\n", " ") for cell in row) for row in [head, ["---"] * len(head), *rows]]
    return "\n".join([f"{{.{name}}}"] * bool(name) + [f"| {line} |" for line in lines]) + "\n"


def link(chapter, text=None):
    """Return a link to a chapter, from a page that stands in ``book/``."""
    return f"{{doc}}`{text or title(source(chapter))} <{chapter}>`"


def ledger():
    """Return the rows of the ledger."""
    return json_of(LEDGER)["claims"]


class Item:
    """A statement or figure of a paper with its rows: the paper's own, and what the book finds about it."""

    def __init__(self, arxiv, entry, rows):
        self.name, self.called, self.title = entry["item"], entry.get("called", entry["item"]), entry["title"]
        self.rows = [row for row in rows if (row["paper"], row["item"]) == (arxiv, entry["item"])]
        printed = [row for row in self.rows if row["of"] == "paper"]
        self.claims = [row for row in printed if row["kind"] == "claim"]
        self.controls = [row for row in printed if row["kind"] == "control"]
        self.sources = sorted({row["source"] for row in self.claims})

    def standing(self):
        """Return what its claims say together; no claim of the paper, no standing."""
        if not self.claims:
            return "not tested"
        verdicts = {row["verdict"] for row in self.claims}
        if verdicts <= set(HELD):
            return "corrected" if "corrected" in verdicts else "reproduced"
        if verdicts & set(HELD):
            return "in part"
        return "not reproduced" if "not reproduced" in verdicts else "undecided"

    def row(self):
        """Return the item's row of the scoreboard: its name links to its chapter, others have their short names."""
        first, *further = dict.fromkeys(row["chapter"] for row in self.rows) or [None]
        name = ", ".join(
            [link(first, self.called) if first else self.called, *(f"{{doc}}`{chapter}`" for chapter in further)]
        )
        said = "; ".join(self.sources)
        text = f"{name}: {escaped(self.title)}" + f" ({said})" * bool(said) + "".join(map(remark, self.claims))
        claims = bar(self.claims) if self.claims else styled("○ not tested", "open")
        return text, claims, bar(self.controls), seeds_of(self.claims), mutants_of(self.claims)


def remark(row):
    """Return the sentence of a claim that did not simply hold, on a line of its own; nothing for one that did."""
    if row["verdict"] in ("reproduced", "holds"):
        return ""
    said = f"“{row['quote']}” {row['note']}" if row["verdict"] == "corrected" else f"{row['statement']}: {numbers(row)}"
    return f"<br>{styled(SIGNS[row['verdict']], row['verdict'])} {escaped(said)}"


def numbers(row):
    """Return what was measured, its interval, and the bound."""
    between = " ({:.3g} to {:.3g})".format(*row["interval"]) if row["interval"] else ""
    bound = "" if row["bound"] is None else f", asked {RELATIONS[row['relation']]}&nbsp;{row['bound']:.3g}"
    return f"{row['measured']:.3g}{between}{bound}"


def called(row):
    """Return the name that readers know of the item of a row."""
    entries = (entry for paper in register() if paper["arxiv"] == row["paper"] for entry in paper["items"])
    return next((entry.get("called", row["item"]) for entry in entries if entry["item"] == row["item"]), row["item"])


def optional(path):
    """Return what a file holds that other commands make, and nothing where it is not there."""
    return _held(path, path.stat().st_mtime_ns) if path.exists() else {}


@cache
def _held(path, _):
    return json_of(path)


def same_code(chapter, entry):
    """Tell whether a sweep or a mutant ran the code that this build ran."""
    mark = Path("build/code", chapter)
    return mark.exists() and entry.get("code") == mark.read_text("utf-8").split()[-1]


def seeds(row):
    """Return on how many fresh seeds a row held: held, of how many, what to say of it."""
    chapter, _, name = row["id"].rpartition("/")
    swept = optional(ROBUSTNESS).get(chapter)
    if not swept or name not in swept["rows"]:
        return None, None, "not yet swept"
    if not same_code(chapter, swept):
        return None, None, "older code"
    found = swept["rows"][name]
    held, of = found["held"], found["of"]
    if not swept["block"]:
        return held, of, f"{'held' if held else 'did not hold'}; nothing is drawn, so it runs once"
    first, last = swept["block"]
    details = [f"{low_high(held, of)}, seeds {first} to {last}"]
    details += [f"{what}: {found[what]}" for what in ("undecided", "errors") if found.get(what)]
    return held, of, f"{held} of {of} ({'; '.join(details)})"


def low_high(held, of):
    """Return Wilson's 95 % interval of a share."""
    squared = NormalDist().inv_cdf(0.975) ** 2
    middle, half = held + squared / 2, math.sqrt(squared * (held * (of - held) / of + squared / 4))
    return f"{(middle - half) / (of + squared):.2f} to {(middle + half) / (of + squared):.2f}"


def seeds_of(rows):
    """Return for an item the row that held on the smallest share of fresh seeds."""
    found = [seeds(row) for row in rows]
    counted = [one for one in found if one[0] is not None]
    if counted:
        worst = min(counted, key=lambda one: one[0] / one[1])
        return f"least: {worst[2]}" + f"; {len(found) - len(counted)} not" * (len(counted) < len(found))
    return "older code" if any(one[2] == "older code" for one in found) else "not yet swept" if found else "–"


def mutants(row):
    """Return how many near mutants of the library turn a row's verdict, and what to say of it."""
    chapter, _, name = row["id"].rpartition("/")
    tried = {key: one for key, one in optional(MUTANTS).get("mutants", {}).items() if chapter in one["chapters"]}
    if not tried:
        return None, "not yet tried"
    if not all(same_code(chapter, one["chapters"][chapter]) for one in tried.values()):
        return None, "older code"
    turned = [key for key, one in tried.items() if name in one["chapters"][chapter]["turned"]]
    near = sum(tried[key]["near"] for key in turned)
    return near, f"{near} near, {len(turned) - near} gross" if turned else "none of those tried"


def mutants_of(rows):
    """Return for an item how many of its claims a near mutant turns."""
    found = [mutants(row) for row in rows]
    counted = [near for near, _ in found if near is not None]
    if counted:
        return f"{sum(near > 0 for near in counted)} of {len(found)} claims"
    return "older code" if any(text == "older code" for _, text in found) else "not yet tried" if found else "–"


def papers():
    """Return the papers of the register, each with its items."""
    rows = ledger()
    return [(paper, [Item(paper["arxiv"], entry, rows) for entry in paper["items"]]) for paper in register()]


STANDINGS = ("reproduced", "corrected", "in part", "not reproduced", "undecided", "not tested")


def totals():
    """Return the numbers of the first page: statements of the papers, each once; the book's own findings apart."""
    every = papers()
    listed = [(paper["short"], items) for paper, items in every]
    listed.append(("**All**", [item for _, items in every for item in items]))
    head = ("", *(name for name, _ in listed))
    counts = [Counter(item.standing() for item in items) for _, items in listed]
    rows = [(standing, *(count[standing] for count in counts)) for standing in STANDINGS]
    rows.append(("**statements**", *(len(items) for _, items in listed)))
    return "\n".join([table(head, rows, "totals"), own(), provisional()])


def own():
    """Return a sentence on the book's own findings and on the controls."""
    rows = ledger()
    findings = [row for row in rows if row["kind"] == "claim" and row["of"] == "book"]
    controls = [row for row in rows if row["kind"] == "control"]
    baselines = sum(row["kind"] == "baseline" for row in rows)
    return (
        f"Of the book's own findings, which no paper states, {tally(findings)}. Of all controls: {tally(controls)}. "
        f"Another {baselines} numbers are baselines, which nothing counts.\n"
    )


def provisional():
    """Return a sentence that says how much of this was read row by row."""
    done, all_of_them = finished(), chapters()
    before = sum(row["set"] == "before" for row in ledger())
    return (
        f"In {len(done)} of {len(all_of_them)} chapters every row was read anew, one by one; in the others whose "
        "statement a row is, and where it comes from, is provisional, and every bound counts as set after a look at "
        f"the numbers. {before} bounds were set before.\n"
    )


def scoreboard():
    """Return one table a paper, one row a statement or figure; then what the book finds; then files."""
    head = ("what it says", "claims", "controls", "seeds", "mutants")
    blocks = [provisional()]
    for paper, items in papers():
        blocks.append(f"## {paper['title']}\n\n" + table(head, [item.row() for item in items], "scoreboard"))
    blocks.append("## What the book finds\n\nRows that no paper states, by chapter.\n")
    blocks.append(table(("chapter", *head[1:]), list(findings()), "scoreboard"))
    blocks.append(files())
    return "\n".join(blocks)


def findings():
    """Yield for each chapter the row of what the book finds there."""
    rows = [row for row in ledger() if row["of"] == "book" and row["kind"] != "baseline"]
    for chapter in chapters():
        here = [row for row in rows if row["chapter"] == chapter]
        claims, controls = ([row for row in here if row["kind"] == kind] for kind in ("claim", "control"))
        if here:
            text = link(chapter) + "".join(map(remark, claims))
            yield text, bar(claims), bar(controls), seeds_of(claims), mutants_of(claims)


def files():
    """Return links to the files behind the numbers."""
    known = {"_generated/ledger.json": "every row of this build"}
    known |= {path.name: what for path, what in ((ROBUSTNESS, "fresh seeds"), (MUTANTS, "mutants")) if path.exists()}
    links = [f"{{download}}`{Path(name).name} <{name}>` ({what})" for name, what in known.items()]
    return f"## Files\n\n{', '.join(links)}.\n"


def rows():
    """Return a table for each chapter with all its rows."""
    head = ("verdict", "what was checked", "measured", "seeds", "mutants")
    blocks, found, done = [], ledger(), finished()
    for chapter in chapters():
        here = [row for row in found if row["chapter"] == chapter]
        mark = "" if chapter in done else "Provisional: not yet read row by row.\n\n"
        blocks.append(f"## {link(chapter)}\n\n{mark}" + table(head, map(_row, here), "ledger"))
    return "\n".join(blocks)


def rounded():
    """Return a list of the numbers that another rounding moves by more than a tenth of their size, and why it does."""
    moved = [row for row in ledger() if row["spread"] is not None and is_noise(row["measured"], row["spread"])]
    noise = [escaped(row["id"]) for row in moved if is_rounding_error(row)]
    others = [row for row in moved if not is_rounding_error(row)]
    said = "- {}: {:.2g} by {:.2g}, {}."
    lines = [said.format(escaped(row["id"]), row["measured"], row["spread"], why_moved(row)) for row in others]
    many = f"{len(noise)} more are themselves rounding error, below their bounds: {', '.join(noise)}." if noise else ""
    return "\n".join([*lines, "", many]) if moved else "Rounding moves none so far.\n"


def is_rounding_error(row):
    """Tell a number that is no more than the rounding of the run, and well below its bound."""
    most = max(abs(row["measured"]), row["spread"])
    return bool(row["bound"]) and most <= min(1e-6, abs(row["bound"]) / 10)


def why_moved(row):
    """Return why rounding moves a number so far: what its interval tells, or what somebody found out."""
    width = (row["interval"][1] - row["interval"][0]) / 2 if row["interval"] else 0
    if row["spread"] <= width:
        return f"a mean over few runs, known to ± {width:.2g}"
    found = yaml_of(REASONS) if REASONS.exists() else {}
    if row["id"] not in found:
        raise BookError(
            f"rounding moves {row['id']} from {row['measured']:.3g} by {row['spread']:.3g}: say why in {REASONS}"
        )
    return found[row["id"]]


PLACES = {"claim": "evidence", "control": "what-breaks-it"}


def about(chapter, notebook):
    """Return what a chapter's page says of its run: verdicts and where they stand, seeds, time, lines of code."""
    claims = Path("build/claims", chapter + ".json")
    seconds = json_of(claims)["seconds"] if claims.exists() else None
    rows_here = [row | {"id": f"{chapter}/{row['name']}"} for row in rows_of(notebook)]
    return {
        "of": items_of(chapter),
        "verdicts": list(_counted(rows_here)),
        "seeds": seeds_in_short(chapter, rows_here),
        "runs": "not yet run" if seconds is None else f"runs in {max(1, round(seconds))} s",
        "lines": lines_of(notebook),
    }


def items_of(chapter):
    """Return in a few words which statements a chapter is about, and whose they are."""
    for paper in register():
        if here := [entry.get("called", entry["item"]) for entry in paper["items"] if entry.get("chapter") == chapter]:
            return f"{', '.join(here)} · {paper.get('by', paper['short'])}"
    return "the book's own question"


def _counted(rows):
    """Yield for each verdict of a chapter: its name, how many rows have it, and the section where they stand."""
    for verdict, (one, several) in PLURAL.items():
        found = [row for row in rows if row["verdict"] == verdict]
        if found:
            words = several if len(found) > 1 else one
            yield verdict, f"{SIGNS[verdict]} {len(found)} {words}", PLACES[found[0]["kind"]]


def seeds_in_short(chapter, rows):
    """Return in a few words on how many fresh seeds a chapter's rows held."""
    judged = [row for row in rows if row["verdict"]]
    if not judged:
        return "no verdict yet"
    found = [seeds(row) for row in judged]
    if words := next((text for held, _, text in found if held is None), None):
        return {"not yet swept": "not yet run on fresh seeds", "older code": "fresh seeds: older code"}[words]
    if not judged or not optional(ROBUSTNESS)[chapter]["block"]:
        return "nothing is drawn"
    held = sum(held >= 0.9 * of for held, of, _ in found)
    return f"on {max(of for _, of, _ in found)} fresh seeds {held} of {len(judged)} held"


def _row(row):
    verdict = styled(f"{SIGNS[row['verdict']]} {row['verdict']}", row["verdict"]) if row["verdict"] else "baseline"
    words = (called(row), row["source"], "of the book" if row["of"] == "book" and row["kind"] != "baseline" else "")
    about = "; ".join(filter(None, (*words, row["breaks"] and f"broken: {row['breaks']}", row["plants"])))
    name = row["id"].rpartition("/")[2]
    counted = (seeds(row)[2], mutants(row)[1]) if row["verdict"] else ("–", "–")
    text = f"`{name}` {escaped(row['statement'])} ({escaped(about)})"
    return verdict, text, numbers(row) + " †" * (row["set"] == "after"), *counted


def corrections():
    """Return each printed sentence that the book changes, and what it needs."""
    return corrected.sections(ledger())


def findings_told():
    """Return the findings of the first page."""
    return front.findings(ledger())


def book_map():
    """Return the map of the book."""
    return front.book_map(ledger())


def runs():
    """Return how long each chapter of this site ran, with which parameters, on which versions."""
    rows = []
    for run in reports():
        items = ", ".join(dict.fromkeys(row["item"] for row in run["rows"]))
        values = "<br>".join(f"`{name} = {value!r}`" for name, value in run["parameters"].items())
        rows.append((link(run["chapter"]), items, f"{run['seconds']:.1f} s", values or "–"))
    versions = [(f"`{name}`", version(name)) for name in direct_dependencies()]
    return "\n".join(
        [
            table(("chapter", "reproduces", "time", "parameters"), rows, "runs"),
            f"Python {python_version()}, and of the packages that the book names itself:\n",
            table(("package", "version"), versions, "versions"),
        ]
    )


def cost():
    """Return what many seeds of all chapters cost, by the times of this build."""
    seconds = {run["chapter"]: run["seconds"] for run in reports()}
    longest = max(seconds, key=seconds.get)
    return (
        f"The chapters of this site took {sum(seconds.values()) / 60:.1f} minutes of one core together, the longest "
        f"({link(longest)}) {seconds[longest] / 60:.1f}. Twenty seeds of all of them are at most "
        f"{20 * sum(seconds.values()) / 3600:.1f} core hours; with a core for each run they are over soon after the "
        "longest run.\n"
    )


def clone():
    """Return how to get the sources: from the repository's address, where there is one."""
    url = downloads.settings(Path("_config.yml").read_text("utf-8")).get("repository", {}).get("url")
    name = url and url.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return f"```bash\ngit clone {url}\ncd {name}\n```\n\nThere," if url else "In a clone of the repository,"


def edition():
    """Return which version of the sources this site shows."""
    numbered = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return f"Version {numbered}, commit {commit()}.\n"


def recorded(path):
    """Return the claims and controls of a recorded run as a table, and where the numbers are from."""
    run = record.read(path)
    said = [row for row in run["rows"] if row["verdict"]]
    lines = [(styled(SIGNS[row["verdict"]], row["verdict"]), escaped(row["statement"]), numbers(row)) for row in said]
    usual = {name: default for name, (_, default, _) in parameters.declared(read(run["chapter"])).items()}
    values = " ".join(f"{key}={value}" for key, value in run["parameters"].items() if value != usual.get(key))
    machine = f"{run['gpu'] or run['cpu']}, {run['seconds']:.0f} s, on {run['date']}, commit {run['commit'].split()[0]}"
    changed = "" if run["code"] == recorded_hash(run["chapter"]) else " The chapter's code has changed since."
    return (
        f"*Recorded*, not computed in this build: `{values}`; {escaped(machine)}.{changed}\n\n"
        f"{table(('', 'What was checked', 'Measured'), lines, 'recorded')}"
    )


def records():
    """Return the fragments of all recorded runs: name of the file -> text."""
    paths = [record.FOLDER / f"{source(chapter).stem}.json" for chapter in chapters()]
    return {f"recorded/{path.stem}.md": recorded(path) for path in paths if path.exists()}


MADE = {
    **{
        make.__name__: make
        for make in (totals, scoreboard, rows, rounded, corrections, runs, cost, clone, edition, book_map)
    },
    **{make.__name__: make for make in (front.picture, front.ends, front.cite)},
    "findings": findings_told,
    "tokens": lambda: front.raw(drawings.tokens()),
}


def texts():
    """Return the fragments that some page includes: name of the file -> text."""
    asked = set(re.findall(r"_generated/(\w+)\.md", "".join(text_of(page + ".md") for page in pages())))
    made = {f"{name}.md": make() for name, make in MADE.items() if name in asked}
    return made | records() | {LEDGER.name: json.dumps(json_of(LEDGER), ensure_ascii=False)}


def overview():
    """Print the chapters, what each reproduces, and its parameters with their ranges, from their sources alone."""
    items = {}
    for paper in register():
        for entry in paper["items"]:
            items.setdefault(entry.get("chapter"), []).append(entry["item"])
    for chapter in chapters():
        print(f"{chapter}: {title(source(chapter))} [{', '.join(items.get(chapter, ['-']))}]")
        known = parameters.declared(read(chapter))
        print("    " + ", ".join(parameters.describe(known, parameters.range_of)))


if __name__ == "__main__":
    try:
        overview()
    except BookError as error:
        sys.exit(str(error))
