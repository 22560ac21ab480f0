"""Write the page on speed from what ``make bench RECORD=1`` measured."""

from pathlib import Path

from workflow.book.catalogue import BookError, json_of
from workflow.site.markup import filled, table

RECORDED, RECORDED_SOLVERS = Path("book/recorded/benchmarks.json"), Path("book/recorded/solvers.json")
STYLES = {  # heads of the columns, in their order
    "published": "published style",
    "textbook": "textbook tensors",
    "tensors": "lib, tensors by hand",
    "one core": "lib, one core",
    "all cores": "lib, all cores",
    "floor": "floor",
}
SOLVERS = {"one core": "lib", "daqp": "daqp", "quadprog": "quadprog", "piqp": "piqp"}  # heads of the second table
GAINS = {  # columns that divide one style's time by another's
    "published / one core": ("published", "one core"),
    "tensors / one core": ("tensors", "one core"),
    "one core / all": ("one core", "all cores"),
}
UNITS = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
APART = "separators"  # the work whose parts are separate tasks


def recorded(path=RECORDED):
    """Measurements that were recorded; BookError where there are none."""
    if not path.exists():
        raise BookError(f"there is no {path}, which book/speed.md shows: run make bench RECORD=1")
    return json_of(path)


def shown(seconds):
    """A time with two digits: ``97 ms``."""
    rounded = float(f"{seconds:.2g}")
    size, unit = next((pair for pair in UNITS if rounded >= pair[0]), UNITS[-1])
    number = rounded / size
    return f"{number:,.0f}\N{NO-BREAK SPACE}{unit}" if number >= 10 else f"{number:.1f}\N{NO-BREAK SPACE}{unit}"


def times(ratio):
    """A ratio with two digits, three from 100 on: ``3.4``, ``171``, ``82,300``."""
    rounded = float(f"{ratio:.{3 if ratio >= 100 else 2}g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:.1f}"


def works(report):
    """Median seconds of a unit, title -> {style: seconds}, the parts of a whole added up.

    A style that left a part out has no time of the whole.
    """
    medians = {}
    for row in report["rows"]:
        title = report["works"][row["work"]]["title"] + (f", {row['part']}" if row["work"] == APART else "")
        if row["work"] != "growth":
            parts = medians.setdefault(title, {}).setdefault(row["part"], {})
            parts[row["style"]] = row.get("seconds", {}).get("median")
    return {
        title: {style: sum(part[style] for part in parts.values())
                for style in STYLES if all(part.get(style) for part in parts.values())}
        for title, parts in medians.items()
    }  # fmt: skip


def solver_times(report):
    """Median seconds of an SVM, part -> {solver: seconds}; a solver that was not installed has none."""
    medians = {}
    for row in report["rows"]:
        part = medians.setdefault(row["part"], {})
        if "seconds" in row:
            part[row["style"]] = row["seconds"]["median"]
    return medians


def gains(medians, upper, lower):
    """How many times as long one style takes as another, by title; a title that lacks a time is left out."""
    return {title: of[upper] / of[lower] for title, of in medians.items() if of.keys() >= {upper, lower}}


def page(report):
    """Text of the page from the numbers."""
    medians = works(report)
    gained = {name: gains(medians, *pair) for name, pair in GAINS.items()}
    rows = [
        [title, *(times(ratios[title]) if title in ratios else "–" for ratios in gained.values()),
         *(shown(of[style]) if style in of else "–" for style in STYLES)]
        for title, of in medians.items()
    ]  # fmt: skip
    ranges = {
        name: [times(extreme(of.values())) for extreme in (min, max)] if of else None
        for name, of in (gained | {"floor": gains(medians, "one core", "floor")}).items()
    }
    memory = max(row.get("peak_memory", 0) for row in report["rows"])
    return filled("speed", found=report, ranges=ranges, memory=memory / 1e9, every=every(report),
                  table=table(["work", *GAINS, *STYLES.values()], rows, "speed"))  # fmt: skip


def solvers(report):
    """Text on the SVMs of the library beside other solvers."""
    medians, rows, ratios = solver_times(report), [], []
    for part, of in medians.items():
        others = [seconds for style, seconds in of.items() if style != "one core"]
        ratios += [min(others) / of["one core"]] if others else []
        rows.append([part, times(ratios[-1]) if others else "–", *(shown(of[name]) if name in of else "–"
                                                                   for name in SOLVERS)])  # fmt: skip
    head = ["rows x width", "fastest other / lib", *SOLVERS.values()]
    fastest = [part for part, ratio in zip(medians, ratios, strict=False) if ratio > 1]
    return filled("solvers", found=report, count=len(medians), fastest=len(fastest),
                  range=[times(extreme(ratios)) for extreme in (min, max)] if ratios else None,
                  table=table(head, rows, "speed"))  # fmt: skip


def every(report):
    """A table of all measurements with their spreads."""
    rows = []
    for row in report["rows"]:
        seconds = [shown(row["seconds"][part]) for part in ("minimum", "median", "maximum")] if "seconds" in row else \
                  [f"left out: {row['left_out']}", "–", "–"]  # fmt: skip
        named = [report["works"][row["work"]]["title"], row["part"], STYLES[row["style"]]]
        rows.append([*named, f"{row['units']:g}" if "units" in row else "–", row.get("runs", "–"), *seconds])
    return table(["work", "part", "style", "units a run", "runs", "minimum", "median", "maximum"], rows, "speed")
