"""Write what the pages say about running: times, cost, versions, and rows of recorded runs."""

import tomllib
from importlib.metadata import version
from pathlib import Path
from platform import python_version

from workflow.book import parameters, recorded
from workflow.book.catalogue import chapters, read, source
from workflow.book.dependencies import PROJECT, recorded_hash
from workflow.book.ledger import commit, direct_dependencies, reports
from workflow.site import settings
from workflow.site.markup import escaped, link, numbers, signed, table


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
    url = settings.settings(Path("_config.yml").read_text("utf-8")).get("repository", {}).get("url")
    name = url and url.rstrip("/").rpartition("/")[2].removesuffix(".git")
    return f"```bash\ngit clone {url}\ncd {name}\n```\n\nThere," if url else "In a clone of the repository,"


def edition():
    """Return which version of the sources this site shows."""
    numbered = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    return f"Version {numbered}, commit {commit()}.\n"


def recorded_rows(path):
    """Return the rows of a recorded run that have a verdict as a table, and where the numbers are from."""
    run = recorded.read(path)
    said = [row for row in run["rows"] if row["verdict"]]
    lines = [(signed(row["verdict"]), escaped(row["statement"]), numbers(row)) for row in said]
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
    paths = [recorded.FOLDER / f"{source(chapter).stem}.json" for chapter in chapters()]
    return {f"recorded/{path.stem}.md": recorded_rows(path) for path in paths if path.exists()}
