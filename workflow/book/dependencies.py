"""Find what a run depends on: the chapter's code, the library as a whole, recorded runs, and what runs it.

Prose is no part of it. All paths are relative to the directory that holds ``_toc.yml``, ``book/`` and `PACKAGES`.
Whether a result is current is decided by one hash of the contents of all that it depends on, which the result carries;
file times decide nothing.
"""

import ast
import functools
import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

from workflow.book.catalogue import BookError, chapters, code_of, source

PROJECT = Path(__file__).parents[2]
PACKAGES = ("lib", "heads", "studies")  # packages that a chapter may import from; a small book lacks some
FOLDERS = ("book", *PACKAGES, "workflow")  # a new file in these is a part of the book; one elsewhere is the user's
# What runs a chapter and reads its rows; all else of the workflow decides when, or shows what came out.
RUNNER = ("workflow/run/chapter.py", "workflow/run/notebook.py", "workflow/run/warm.py",
          "workflow/book/catalogue.py", "workflow/book/parameters.py")  # fmt: skip
LEFT = re.compile(r"[.#]|__pycache__$|.*~$")  # names of what editors and Python leave in folders
ARCHIVED = "$Format:%H %cs$"  # a zip of the repository has hash and day of its commit here (.gitattributes)


def hash_of(chapter):
    """Hash of a chapter's code."""
    try:
        code = code_of(chapter)
    except BookError:  # the run will report it
        code = source(chapter).read_text("utf-8", errors="replace")
    return hashlib.sha256(json.dumps([code, {}]).encode()).hexdigest()


def sources_hash(chapter, code):
    """Hash of all that a run depends on beside its values: code, library, recorded runs, lock and runner.

    The library's is ``code``, of `library_hash`.
    """
    files = [*records_of(chapter), "requirements.lock", *RUNNER]
    return hash_together(files, hash_of(chapter), code)


def library_hash(changed=None):
    """Hash of the whole library: a chapter, or a study, may use any of it.

    ``changed`` maps paths to the text that files have in a mutant of it.
    """
    return hash_together(library(), changed=changed)


def hash_together(files, *more, changed=None):
    """Hash of the contents of files, those of modules without comments and docstrings, and of more texts."""
    hashes = [(str(path), content_hash(path, changed)) for path in files]
    return hashlib.sha256(json.dumps([hashes, more]).encode()).hexdigest()


def content_hash(path, changed=None):
    """Hash of a file's contents; None where there is no file."""
    if not _locate(path).exists():
        return None
    if Path(path).suffix == ".py":
        return code_hash(_text(path, changed))
    text = (changed or {}).get(str(path))
    return hashlib.sha256(_locate(path).read_bytes() if text is None else text.encode()).hexdigest()


@functools.cache
def code_hash(code):
    """Hash of a module without its comments, layout and docstrings, unless the code reads these."""
    try:
        tree = ast.parse(code)
    except (SyntaxError, ValueError):
        return hashlib.sha256(code.encode()).hexdigest()
    for node in ast.walk(tree) if "__doc__" not in code else ():
        if isinstance(statements := getattr(node, "body", None), list):
            node.body = [statement for statement in statements if not _is_text(statement)]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()


def _is_text(statement):
    """Tell a docstring, or another text that stands alone."""
    value = getattr(statement, "value", None)
    return isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str)


def results():
    """Results of a build: path -> hash of all that it is made of and shows.

    The ledger and the site depend on every file of the folders book and workflow, so that nothing is left out.
    """
    code = library_hash()
    runs = {f"build/claims/{chapter}.json": sources_hash(chapter, code) for chapter in chapters()}
    commit = mark_commit().read_text("utf-8")
    tools = ["book/statements.yml", "pyproject.toml", *workflow_files()]
    ledger = hash_together(tools, commit, list(runs.items()))
    prose = [path for path in files_of("book") if path.name != "ledger.lock.json"]
    shown = [path.read_text("utf-8", errors="replace") for path in library()]  # with docstrings: readers download it
    site = hash_together(["_config.yml", "_toc.yml", "requirements.lock", "CITATION.cff", *prose], shown, ledger)
    accepted = hash_together(["book/ledger.lock.json"], site)
    return runs | {"build/ledger.json": ledger, "build/html/.sources": site, "build/accepted": accepted}


def discard_stale(made):
    """Delete each result that does not carry its hash, path -> hash, so that nothing stale is left to be read."""
    for path, sources in made.items():
        if Path(path).exists() and sources not in Path(path).read_text("utf-8", errors="replace"):
            Path(path).unlink()


def mark_commit():
    """Write the commit of the sources to ``build/commit``, only where it differs, and return the path.

    Its hash and day, and whether the sources differ from it. Without git this is what an archive of the repository
    says, which nothing can compare with the sources, or "unknown".
    """
    path, (commit, changed) = Path("build/commit"), sources()
    archived = "unknown" if ARCHIVED.startswith("$") else f"{_short(ARCHIVED)} from an archive"
    text = (commit + " with changes" * bool(changed) if commit else archived) + "\n"
    if not path.exists() or path.read_text("utf-8") != text:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return path


def sources():
    """Hash and day of this folder's commit, "" without one, and the files of the book that differ from it."""
    shown = _git("show", "-s", "--format=%H %cs")
    if not shown or not _git("ls-files", "lib"):  # no git, or the repository is that of a folder around this one
        return "", []
    new = _git("ls-files", "--others", "--exclude-standard", *FOLDERS)
    new = [path for path in new if not any(part.startswith(".") for part in Path(path).parts)]
    return _short(shown[-1]), _git("diff", "--name-only", "--relative", "HEAD") + new


def _short(commit):
    """Hash and day of a commit with as many digits in every clone; git abbreviates by the number of its objects."""
    name, day = commit.split()
    return f"{name[:10]} {day}"


def _git(*words):
    """Lines that git prints in the folder that holds the library; none where it fails or is not there."""
    folder = Path("lib").resolve().parent  # a part of the book links to the library of the whole book
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # set in hooks
    # Whoever builds a folder of another owner runs its code already.
    command = ["git", "-C", folder, "-c", "safe.directory=*", "-c", "core.quotepath=off", *words]
    try:
        done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.splitlines()


def files_of(folder, pattern="*"):
    """Files of a folder and those below it, without bytecode and what editors leave there, dangling links included."""
    paths = (path for path in Path(folder).rglob(pattern) if path.is_file())
    return sorted(path for path in paths if not any(map(LEFT.match, path.relative_to(folder).parts)))


def library():
    """Modules of `PACKAGES`, which have no other files; a data file that a module reads would have to be added here."""
    return [path for package in PACKAGES for path in files_of(package, "*.py")]


def records_of(chapter):
    """Recorded runs of the studies that a chapter names; of all of them where its code cannot be read."""
    records = files_of("book/recorded", "*/*.json")
    try:
        code = "\n".join(text for text, _ in code_of(chapter))
    except BookError:
        return [path.as_posix() for path in records]
    return [path.as_posix() for path in records if f'"{path.parent.name}"' in code]


def workflow_files():
    """All files of the workflow: any of them may change the ledger or the site."""
    return [str(path.relative_to(PROJECT)) for path in files_of(PROJECT / "workflow")]


def _locate(path):
    """Path of a file, in the project where a small book lacks it: the workflow and pyproject.toml."""
    return PROJECT / path if str(path).startswith(("workflow/", "pyproject.toml")) else Path(path)


def _text(path, changed=None):
    return (changed or {}).get(str(path)) or _locate(path).read_text("utf-8", errors="replace")
