"""The page on speed: what ``make bench RECORD=1`` wrote, as MyST and as a picture."""

from pathlib import Path

from workflow.book.catalogue import BookError, json_of, pages
from workflow.site.markup import table

PAGE, RECORDED = "book/speed", Path("book/recorded/benchmarks.json")
FIELDS = ("quick", "date", "commit", "machine", "speed", "versions", "works", "rows")
STYLES = {  # in the order of the table; the head of the column
    "published": "published style",
    "textbook": "textbook tensors",
    "tensors": "`lib`, tensors by hand",
    "one core": "`lib`, one core",
    "all cores": "`lib`, all cores",
    "floor": "floor",
}
GAINS = {  # columns that divide one style's time by another's
    "published / one core": ("published", "one core"),
    "tensors / one core": ("tensors", "one core"),
    "one core / all": ("one core", "all cores"),
}
UNITS = ((1, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
APART = ("separators", "growth")  # works whose parts are not parts of one whole
ALT = (
    "Dots on horizontal lines, one line a work, over a logarithmic axis of seconds. Each has a mark for each style:"
    " published, textbook tensors, tensors of the library, the library on one core, and the floor."
)


def stage(folder):
    """Write ``speed.md`` and ``speed.svg`` into a folder, if the book has the page; a picture that is new stays."""
    if PAGE not in pages():
        return
    found, picture = recorded(), folder / "speed.svg"
    folder.mkdir(parents=True, exist_ok=True)
    text = folder / "speed.md"
    if not text.exists() or text.read_text("utf-8") != page(found):
        text.write_text(page(found), "utf-8")
    sources = max(path.stat().st_mtime for path in (RECORDED, Path(__file__)))
    if not picture.exists() or picture.stat().st_mtime < sources:
        draw(found, picture)


def recorded():
    """Return what was recorded; BookError where it is not there, or not whole."""
    remedy = "run make bench RECORD=1"
    if not RECORDED.exists():
        raise BookError(f"there is no {RECORDED}, which {PAGE}.md shows: {remedy}")
    found = json_of(RECORDED)
    missing = [field for field in FIELDS if not isinstance(found, dict) or field not in found]
    if missing:
        raise BookError(f"{RECORDED} lacks {' and '.join(missing)}: {remedy}")
    return found


def shown(seconds):
    """Return a time with two digits: ``97 ms``."""
    rounded = float(f"{seconds:.2g}")
    size, unit = next((pair for pair in UNITS if rounded >= pair[0]), UNITS[-1])
    number = rounded / size
    return f"{number:,.0f}\N{NO-BREAK SPACE}{unit}" if number >= 10 else f"{number:.1f}\N{NO-BREAK SPACE}{unit}"


def times(ratio):
    """Return a ratio with two digits, three from 100 on: ``3.4``, ``171``, ``82,300``."""
    rounded = float(f"{ratio:.{3 if ratio >= 100 else 2}g}")
    return f"{rounded:,.0f}" if rounded >= 10 else f"{rounded:.1f}"


def lines(found, growth=False, parts=False):
    """Return the works as (title, {style: median seconds of a unit}); those whose parts make a whole added up.

    A style that left a part out has no time of the whole. With ``parts`` they follow their whole.
    """
    works = {}
    for row in found["rows"]:
        if (row["work"] == "growth") == growth:
            of_part = works.setdefault(row["work"], {}).setdefault(row["part"], {})
            of_part[row["style"]] = row.get("seconds", {}).get("median")
    listed = []
    for work, of_parts in works.items():
        title, each = found["works"][work]["title"], [(name, _added([one])) for name, one in of_parts.items()]
        if work in APART:
            listed += [(name if growth else f"{title}, {name}", medians) for name, medians in each]
        else:
            listed.append((title, _added(of_parts.values())))
            listed += [(f"– {name}", medians) for name, medians in each] if parts and len(each) > 1 else []
    return listed


def _added(several):
    known = [style for style in STYLES if all(one.get(style) is not None for one in several)]
    return {style: sum(one[style] for one in several) for style in known}


def ratio(medians, upper, lower):
    """Return how many times as long one style takes as another, or None where a time is missing."""
    return medians[upper] / medians[lower] if medians.keys() >= {upper, lower} else None


def comparison(found, growth=False):
    """Return the table of works by style, with what is gained: over others, and by more cores."""
    head = ["size" if growth else "work", *GAINS, *STYLES.values()]
    rows = []
    for name, medians in lines(found, growth, parts=True):
        gained = [ratio(medians, *pair) for pair in GAINS.values()]
        rows.append(
            [name]
            + [times(one) if one else "–" for one in gained]
            + [shown(medians[style]) if style in medians else "–" for style in STYLES]
        )
    used = [k for k in range(len(head)) if any(row[k] != "–" for row in rows)]
    return table([head[k] for k in used], [[row[k] for k in used] for row in rows], "speed")


def finding(found):
    """Return the sentence with which the caption opens: the range of what is gained."""
    sentences = []
    for style, words in (("published", "the published style"), ("tensors", "its own tensors driven by hand")):
        gains = sorted(filter(None, (ratio(medians, style, "one core") for _, medians in lines(found))))
        if gains:
            ends = dict.fromkeys([times(gains[0]), times(gains[-1])])
            sentences.append(f"{' to '.join(ends)} times as fast as {words}")
    return f"On one core `lib` is {', and '.join(sentences)}." if sentences else "Nothing was compared."


def left(found):
    """Return how far the library is from the floor, in a sentence."""
    ratios = sorted(filter(None, (ratio(medians, "one core", "floor") for _, medians in lines(found))))
    return f"It stays {times(ratios[0])} to {times(ratios[-1])} times above the floor." if ratios else ""


def provenance(found):
    """Return machine, date, commit and versions in sentences."""
    machine, rate = found["machine"], found["speed"]
    versions = ", ".join(f"{name} {number}" for name, number in found["versions"].items() if number)
    memory = max(row.get("peak_memory", 0) for row in found["rows"])
    return (
        f"Recorded on {found['date']} at commit {found['commit']}, on a machine with {machine['cores']} cores"
        f" ({machine['cpu']}), in one run of one process. It had at most {memory / 1e9:.1f} GB of memory."
        f" Versions: {versions}. A core reached {rate['multiply_adds'] / 1e9:.1f} thousand million multiply-adds and"
        f" {rate['exponentials'] / 1e9:.2f} thousand million exponentials a second in float64.\n"
    )


def details(found):
    """Return every measurement with its spread."""
    rows = []
    for row in found["rows"]:
        name = [found["works"][row["work"]]["title"], row["part"], STYLES[row["style"]].replace("`", "")]
        if "seconds" in row:
            seconds = [shown(row["seconds"][part]) for part in ("minimum", "median", "maximum")]
            rows.append([*name, f"{row['units']:g}" if "units" in row else "–", str(row["runs"]), *seconds])
        else:
            rows.append([*name, "–", "–", f"left out: {row['left_out']}", "–", "–"])
    head = ["work", "part", "style", "units a run", "runs", "minimum", "median", "maximum"]
    return f":::{{dropdown}} All {len(rows)} measurements\n{table(head, rows, 'speed')}:::\n"


def page(found):
    """Return what the page shows of the numbers."""
    quick = (
        ":::{note}\nThese numbers are of a quick run (`QUICK=1`): fewer trials, fewer runs, and the largest works left"
        " out.\n:::\n"
    )
    caption = (
        f"**{finding(found)}** {left(found)} Median time of a unit of each work; the axis is logarithmic, and left is"
        " fast."
    )
    figure = f"```{{figure}} _generated/speed.svg\n:name: fig-speed\n:alt: {ALT}\n\n{caption}\n```\n"
    blocks = [
        quick if found["quick"] else "",
        figure,
        provenance(found),
        "## By work\n",
        comparison(found),
        "## As the sizes grow\n",
        f"Time of one {found['works']['growth']['unit']}, as one of the sizes differs from those of the first line.\n",
        comparison(found, growth=True),
        details(found),
    ]
    return "\n".join(block for block in blocks if block)


MARKS = {  # of each style: marker, colour of the palette or grey, name in the legend
    "published": ("o", 3, "published style"),
    "textbook": ("s", 1, "textbook tensors"),
    "tensors": ("^", 2, "lib, tensors"),
    "one core": ("D", 0, "lib, one core"),
    "floor": ("|", None, "floor"),
}


def draw(found, path):
    """Draw the works of the page, one line each, a mark for each style."""
    import matplotlib
    import matplotlib.pyplot as plt

    from lib import figures  # with torch and seaborn: seconds that only a new picture is worth

    matplotlib.use("Agg")
    figures.theme()
    works = lines(found)
    fig, ax = plt.subplots(figsize=(figures.WIDTH, 0.6 * len(works) + 1.6))
    for style, (marker, colour, label) in MARKS.items():
        points = [(one[style], place) for place, (_, one) in enumerate(works) if style in one]
        colour = figures.MUTED if colour is None else figures.PALETTE[colour]
        width = 2.5 if marker == "|" else 0
        ax.scatter(*zip(*points, strict=True) if points else ([], []), marker=marker, s=60, lw=width, color=colour,
                   label=label, zorder=3)  # fmt: skip
    for place, (name, _) in enumerate(works):
        ax.axhline(place, color=figures.FAINT, lw=0.8, zorder=0)
        ax.annotate(name.replace("`", ""), (0, place), xycoords=("axes fraction", "data"), xytext=(0, 8),
                    textcoords="offset points", fontsize=figures.SIZE)  # fmt: skip
    ax.set(xscale="log", xlabel="seconds of a unit", yticks=[], ylim=(len(works) - 0.6, -0.9))
    ax.spines["left"].set_visible(False)
    fig.legend(loc="outside upper center", ncol=2, handletextpad=0.1, columnspacing=1)
    fig.savefig(path, metadata={"Date": None})
    plt.close(fig)
