"""Build targets with Snakemake, one build at a time: two would write the same files. Called by make, and by sweep.py.

An interrupted build goes on where it stopped: no lock is left behind, half-written outputs are made again.
"""

import fcntl
import os
import re
import shutil
import subprocess
import sys
import time
from contextlib import chdir, contextmanager, nullcontext
from pathlib import Path

import chapters
import variables
import yaml
from warm import warm_kernels

SENTENCE = re.compile(r"^WorkflowError in file .*, line \d+:\n(.+)$", re.MULTILINE)  # of the Snakefile's own
INTERRUPTED = 130
LOCK = Path(".snakemake/one-at-a-time")
RULES = "Snakefile"
# What `make book QUICK=1` runs: one chapter of each part, of those that take seconds.
QUICK = ("max-margin/figure-8", "rates/sparsification", "mirror-descent/lp-separator", "beyond/adam-epsilon")
PAGES = ("notation", "rows", "bibliography")  # that chapters refer to
PART = Path("build/quick")  # a book of these, with a build of its own
LINKED = ("lib", "requirements.lock", "_config.yml", "CITATION.cff", "pyproject.toml")
FIRST_PAGE = """# A part of the book

`make book QUICK=1` has run one chapter of each part, to show that everything works on this machine. `make book` runs
all chapters and builds the whole site. Links to pages that are not in this part are plain words.
"""


def snakemake(targets, *flags, rules=RULES, **config):
    """Return the call of Snakemake, from the variables of make."""
    here, asked = Path(__file__).parent, os.environ.get
    command = [Path(sys.executable).with_name("snakemake"), "--snakefile", here / rules]
    command += ["--keep-going", "--nolock", "--rerun-incomplete", *flags]
    if asked("PROFILE"):
        command += ["--profile", here / "profiles" / asked("PROFILE"), "--slurm-jobname-prefix", Path(rules).stem]
        command += ["--jobs", asked("JOBS")] if asked("JOBS") else []
    else:
        command += ["--cores", asked("JOBS") or "all"]
    command += ["--config", *(f"{name}={value}" for name, value in config.items())] if config else []
    return [*command, "--", *targets]


@contextmanager
def alone(path, what):
    """Wait until no other process holds the lock ``path``, and hold it."""
    path.parent.mkdir(exist_ok=True)
    with path.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print(f"another {what} is under way: waiting until it ends", flush=True)
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield lock


def carry_out(lock, targets, **options):
    """Run Snakemake; return its status, and whether it came to start scripts. Those report for themselves."""
    build = None
    try:
        if os.environ.get("PROFILE"):
            import cluster  # slow to import

            cluster.ready(Path(options.get("rules", RULES)).stem)
            earlier = cluster.logs()
        with nullcontext() if os.environ.get("PROFILE") else warm_kernels():
            # It holds the lock, too, and keeps it should this process be killed alone.
            build = subprocess.Popen(snakemake(targets, "--quiet", "all", **options), pass_fds=[lock.fileno()])
            status = build.wait()
    except KeyboardInterrupt:
        if build:
            build.wait()
        return INTERRUPTED, False
    if status and os.environ.get("PROFILE"):  # scripts that ran elsewhere reported there
        for log in sorted(cluster.logs() - earlier):
            print(cluster.last_words(log), file=sys.stderr)
    if status:  # a dry run says why Snakemake stopped before it started any script, if it did
        dry = snakemake(targets, "--dry-run", "--quiet", "rules", "progress", "host", "reason", **options)
        why = subprocess.run(dry, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        if why.returncode:
            said = SENTENCE.search(why.stdout)
            print(said[1] if said else why.stdout.rstrip(), file=sys.stderr)
            return status, False
    return status, True


def quick():
    """Build the site of the chapters of `QUICK`, which touches nothing of the whole book; return the exit status."""
    if os.environ.get("QUICK") != "1":
        sys.exit(f"QUICK is {os.environ.get('QUICK')!r}: give QUICK=1, or leave it out")
    if os.environ.get("PARAMETERS"):
        os.environ["PARAMETERS"] = os.path.abspath(os.environ["PARAMETERS"])
    started = time.monotonic()
    try:
        lay_out_part()
    except chapters.BookError as error:
        sys.exit(str(error))
    with chdir(PART):
        status = main(["build/html/index.html"])
    if not status:
        took = f"{len(QUICK)} of {len(chapters.chapters())} chapters in {time.monotonic() - started:.0f} s"
        print(f"This is a part of the book, {took}: {PART}/build/html/index.html\nmake book builds all of it")
    return status


def lay_out_part():
    """Write the book of the chapters of `QUICK`; a file that is there with the same content keeps its time."""
    toc, statements = chapters.yaml_of("_toc.yml"), chapters.yaml_of("book/statements.yml")
    toc["root"], parts = chapters.PART_PAGE, []
    for part in toc["parts"]:
        if kept := [page for page in part["chapters"] if page["file"].removeprefix("book/") in QUICK + PAGES]:
            parts.append(part | {"chapters": kept})
    toc["parts"] = parts
    statements["finished"] = [name for name in statements["finished"] if name in QUICK]
    written = {"_toc.yml": yaml.safe_dump(toc), f"{toc['root']}.md": FIRST_PAGE}
    written["book/statements.yml"] = yaml.safe_dump(statements)
    shutil.copytree("book", PART / "book", dirs_exist_ok=True, ignore=shutil.ignore_patterns("statements.yml"))
    for name in LINKED:
        if Path(name).exists() and not (PART / name).is_symlink():
            (PART / name).symlink_to(Path(name).absolute())
    for name, text in written.items():
        if not (PART / name).exists() or (PART / name).read_text("utf-8") != text:
            chapters.write_whole(PART / name, text)


def main(targets):
    """Build; return the exit status."""
    variables.check()
    asked = os.environ.get("PARAMETERS")
    with alone(LOCK, "build") as lock:
        return carry_out(lock, targets, **({"parameters": asked} if asked else {}))[0]


if __name__ == "__main__":
    sys.exit(quick() if sys.argv[1:] == ["quick"] else main(sys.argv[1:]))
