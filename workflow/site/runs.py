"""Write what the pages say about running: times, cost and versions."""

import tomllib
from importlib.metadata import version
from pathlib import Path
from platform import python_version

from workflow.book.catalogue import json_of
from workflow.book.dependencies import PROJECT
from workflow.book.ledger import commit, direct_dependencies, reports
from workflow.site import settings
from workflow.site.markup import link, table

TIMED = Path("book/recorded/benchmarks.json")  # what make bench RECORD=1 measured


def runs():
    """How long each chapter of this site ran, with which parameters, on which versions."""
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
    """Cost of many seeds of all chapters, by the times of this build."""
    seconds = {run["chapter"]: run["seconds"] for run in reports()}
    longest = max(seconds, key=seconds.get)
    return (
        f"The chapters of this site took {sum(seconds.values()) / 60:.1f} minutes of one core together, the longest "
        f"({link(longest)}) {seconds[longest] / 60:.1f}. Twenty seeds of all of them are at most "
        f"{20 * sum(seconds.values()) / 3600:.1f} core hours.\n"
    )


def clone():
    """How to get the sources: from the repository's address, where there is one."""
    url = settings.settings(Path("_config.yml").read_text("utf-8")).get("repository", {}).get("url")
    name = url and url.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return f"```bash\ngit clone {url}\ncd {name}\n```\n\nThere," if url else "In a clone of the repository,"


def recorded():
    """Runs in the book's records: of each study how many, and which commits made them, when and on what."""
    rows = []
    for folder in sorted(Path("book/recorded").glob("*/")):
        made = [json_of(path) for path in sorted(folder.glob("*.json"))]
        listed = [dict.fromkeys(run[field] for run in made) for field in ("commit", "cpu")]
        commits, processors = (", ".join(sorted(map(str, values))) for values in listed)
        rows.append((f"`{folder.name}`", str(len(made)), commits, processors))
    return table(("study", "runs", "commit and day", "processor"), rows, "totals")


def times():
    """Milliseconds that the library, other solvers and the published style take, and what they were measured on."""
    records = json_of(TIMED)
    tasks = {task: taken for record in records for task, taken in record["milliseconds"].items()}
    styles = list(dict.fromkeys(style for taken in tasks.values() for style in taken))
    rows = [(task, *(f"{taken[style]:.3g}" if style in taken else "–" for style in styles))
            for task, taken in tasks.items()]  # fmt: skip
    machines = [
        f"- {' and '.join(dict.fromkeys(task.split(',')[0] for task in record['milliseconds']))}: {record['cpu']}, "
        f"commit {record['commit']}, {', '.join(map(' '.join, record['versions'].items()))}"
        for record in records
    ]
    return "\n".join([table(("milliseconds", *styles), rows, "totals"), "Measured on:\n", *machines, ""])


def edition():
    """Version of the sources that this site shows."""
    numbered = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return f"Version {numbered}, commit {commit()}.\n"
