"""Make a release of this commit in ``build/release``, and tag it; refuse one that is not what it says. Called by make.

A release is refused where files name another version, where something is not committed, where accepted verdicts are not
those that this commit gives, and where evidence on a row is missing or void. Nothing is published.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from workflow.book import lock
from workflow.book.catalogue import BookError, chapters, text_of
from workflow.commands import call, evidence, wheel

FOLDER = Path("build/release")
SAID = {  # where a version stands; a release has a day in the changelog and in what is cited
    "pyproject.toml": '^version = "{}"$',
    "CITATION.cff": r"^version: {}$(?:.*\n)*^date-released: \d{{4}}-\d\d-\d\d$",
    "CHANGELOG.md": r"^## \[{}\] - \d{{4}}-\d\d-\d\d$",
}


def git(*command):
    """What git prints."""
    return subprocess.run(["git", *command], check=True, stdout=subprocess.PIPE, text=True).stdout.rstrip()


def unlike_version(version):
    """Yield where sources do not say that they are of this version, or are not committed."""
    for file, line in SAID.items():
        if not re.search(line.format(re.escape(version)), text_of(Path(file)), re.MULTILINE):
            yield f"{file} is not of version {version}: give it the version, and the day where it has one"
    if changed := git("status", "--porcelain"):
        yield f"not committed: {', '.join(line[3:] for line in changed.splitlines()[:3])}: commit it, or take it out"
    if git("tag", "--list", f"v{version}"):
        yield f"the tag v{version} is there already: take the next version"


def unlike_build():
    """Yield where accepted verdicts or the evidence are not those of this build."""
    entries = lock.differences(lock.built(), lock.read_lock()["rows"])
    if turned := [entry["id"] for entry in entries if entry["change"] != "moved"]:
        yield f"{len(turned)} rows are not as accepted, {turned[0]} first: make accept WHY='the reason'"
        return
    rows = evidence.rows_by_chapter(chapters())
    if other := list(evidence.of_other_code(rows)):
        yield f"seeds of {len(other)} chapters were run with other code, {other[0]} first: make evidence"
    if void := evidence.without_seeds(rows):
        yield f"{len(void)} chapters lack fresh seeds, {void[0]} first: make evidence"
    if void := evidence.void_mutants(rows):
        yield f"{len(void)} runs with mutants are missing, the first in {void[0][0]}: make evidence"


def refuse(faults):
    """Refuse with all that is wrong, if something is."""
    if lines := list(faults):
        raise BookError("\n".join(lines))


def make(version):
    """Write wheel, source distribution, archive of the commit and site, and their hashes; return their paths."""
    shutil.rmtree(FOLDER, ignore_errors=True)
    name = f"what-attention-selects-{version}"
    wheel.lay_out(FOLDER / "source")
    files = [wheel.build(kind, FOLDER) for kind in ("wheel", "sdist")]
    shutil.rmtree(FOLDER / "source")
    git("archive", f"--prefix={name}/", f"--output={FOLDER / name}-book.tar.gz", "HEAD")
    shutil.make_archive(str(FOLDER / f"{name}-site"), "zip", "build/html")
    files += [FOLDER / f"{name}-book.tar.gz", FOLDER / f"{name}-site.zip"]
    sums = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (FOLDER / "SHA256SUMS").write_text("".join(sums), "utf-8")
    return files


def main():
    """Release VERSION, or say all that it lacks."""
    version = os.environ.get("VERSION", "")
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise BookError(f"VERSION is {version!r}: give three numbers, as in make release VERSION=0.2.0")
    refuse(unlike_version(version))
    if subprocess.run([sys.executable, "-m", "workflow.commands.build", "all"], check=False).returncode:
        raise BookError("this commit does not build: no release of it")
    refuse(unlike_build())
    files = make(version)
    git("tag", "--annotate", f"v{version}", "--message", f"What Attention Selects {version}")
    print("".join(f"{file}\n" for file in files) + f"Tagged v{version}. To publish it: git push origin v{version}")


if __name__ == "__main__":
    call(main)
