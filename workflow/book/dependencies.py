"""Find what a run depends on: the chapter's code and its parameters, the library that it imports, our own modules.

Prose is no part of it. All paths are relative to the directory that holds ``_toc.yml``, ``book/`` and `PACKAGES`.
"""

import ast
import functools
import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

from workflow.book.catalogue import BookError, code_of, source

PROJECT = Path(__file__).parents[2]
PACKAGES = ("lib", "heads", "studies")  # that a chapter may import from, as far as they are there
STUDY = re.compile(r"recorded\(\"([\w-]+)\"")  # what a chapter reads by studies.archives.recorded
FOLDERS = ("book", *PACKAGES, "workflow")  # a new file there is a part of the book; one elsewhere is the user's


def hash_of(chapter, values, words=True):
    """Return a hash of a chapter's code, with the words that its page shows, and of values that differ from its own."""
    try:
        code = [(text if words else without_words(text), marked) for text, marked in code_of(chapter)]
    except BookError:  # which the run will report
        code = source(chapter).read_text("utf-8", errors="replace")
    return hashlib.sha256(json.dumps([code, values], sort_keys=True).encode()).hexdigest()


def recorded_hash(chapter):
    """Return what a record notes of the code that ran: no comment, layout or sentence changes what is measured.

    Nor does the module of ours that a name comes from: records outlive its move to another folder.
    """
    return hash_of(chapter, {}, words=False)


def without_words(code):
    """Return code in one layout, without comments, texts of more than one word, and the modules that names are from."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # a command of IPython, or code that will not run
        return code
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            node.value = ""
    return "\n".join([*_names_taken(tree), ast.unparse(tree)])


def _names_taken(tree):
    """Take the imports of names from `PACKAGES` out of a tree; return a line for each name, sorted.

    ``import lib.x`` stays, since the code then says ``lib.x``, and ``from lib.x import *``, which says no name.
    """
    taken = set()
    for node in ast.walk(tree):
        for field in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, field, None), list):
                bound = [_names_bound(statement) for statement in statements]
                taken.update(*bound)
                setattr(node, field, [one for one, names in zip(statements, bound, strict=True) if not names])
    return [f"import {name} as {alias}" for name, alias in sorted(taken)]


def _names_bound(statement):
    """Return (name, name in the code) of what a statement imports from `PACKAGES`; nothing for any other statement."""
    pairs = [(alias.name, alias.asname) for alias in getattr(statement, "names", ()) if isinstance(alias, ast.alias)]
    if isinstance(statement, ast.ImportFrom) and (statement.module or "").partition(".")[0] in PACKAGES:
        return [(name, alias or name) for name, alias in pairs if name != "*"]
    if isinstance(statement, ast.Import) and all(alias and name.partition(".")[0] in PACKAGES for name, alias in pairs):
        return [(name.rpartition(".")[2], alias) for name, alias in pairs]
    return []


def mark_code(chapter, values):
    """Write that hash to ``build/code``, only where it differs, and below it the one without words.

    As the input of a rule it makes a run depend on the code and not on the prose, also where Snakemake's own records
    are gone: then the file's time decides.
    """
    return _mark(f"code/{chapter}", "\n".join(hash_of(chapter, values, words) for words in (True, False)))


def mark_commit():
    """Write the commit of the sources to ``build/commit``, only where it differs, and return the path.

    Its hash and day, and whether anything else than it is built; "unknown" where there is no git.
    """
    commit, changed = sources()
    return _mark("commit", commit + " with changes" * bool(changed) if commit else "unknown")


def sources():
    """Return hash and day of this folder's commit, "" without one, and the files of the book that differ from it."""
    shown = _git("show", "-s", "--format=%h %cs")
    if not shown or not _git("ls-files", "lib"):  # no git, or the repository is that of a folder around this one
        return "", []
    new = [path for path in _git("ls-files", "--others", "--exclude-standard", *FOLDERS) if not _hidden(path)]
    return shown[-1], _git("diff", "--name-only", "--relative", "HEAD") + new


def _git(*words):
    """Return the lines that git prints in the folder that holds the library; none where it fails or is not there."""
    folder = Path("lib").resolve().parent  # of a part of the book: the whole
    env = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}  # set inside its hooks
    command = ["git", "-C", folder, "-c", "core.quotepath=off", *words]
    try:
        done = subprocess.run(command, env=env, capture_output=True, encoding="utf-8", check=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return done.stdout.splitlines()


def _hidden(path):
    return any(part.startswith(".") for part in Path(path).parts)


def _mark(name, text):
    path = Path("build", name)
    if not path.exists() or path.read_text("utf-8") != text + "\n":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", "utf-8")
    return str(path)


def library():
    """Return all modules of `PACKAGES`, which have no other files; one that a module reads would have to stand here."""
    return sorted(path for package in PACKAGES for path in Path(package).rglob("*.py"))


def library_of(chapter):
    """Return the files that a chapter's result can depend on beside its own code.

    These are the modules of `PACKAGES` that it imports, those that they import, and the recorded runs that it names.
    Code that cannot be parsed is taken to depend on everything: better one run too many than an old number
    published.
    """
    modules = set(library())
    try:
        lines = (line for code, _ in code_of(chapter) for line in code.splitlines())
        code = "\n".join(line for line in lines if not line.startswith(("%", "!")))
        needed = _reached(_imports(code, (), modules), modules)
    except (BookError, SyntaxError):
        code, needed = "", modules
    records = {path for study in STUDY.findall(code) for path in Path("book/recorded", study).glob("*.json")}
    return sorted(map(str, needed | records))


def workflow_of(command):
    """Return the files of the workflow that a command consists of: its module, and all that it imports."""
    modules = {path.relative_to(PROJECT) for path in Path(PROJECT, "workflow").rglob("*.py")}
    reached = _reached({Path("workflow/commands", f"{command}.py")}, modules, PROJECT)
    return sorted(str(PROJECT / path) for path in reached)


def workflow_files():
    """Return all files of the workflow: any of them may change the ledger or the site."""
    folder = PROJECT / "workflow"
    return sorted(str(path) for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)


def _reached(queue, modules, folder="."):
    """Return the files in ``queue`` and those among ``modules`` that they import, also at one remove."""
    needed = set()
    while queue:
        path = queue.pop()
        needed.add(path)
        queue |= _imports(Path(folder, path).read_text("utf-8"), path.parts[:-1], modules) - needed
    return needed


def _imports(code, package, modules):
    """Return the files among ``modules`` that ``code``, standing in ``package``, imports."""
    found = set()
    for name in _imported_names(code, package):  # importing a.b.c also runs a and a.b
        for end in range(1, len(name) + 1):
            stem = Path(*name[:end])
            found |= {stem.with_suffix(".py"), stem / "__init__.py"} & modules
    return found


@functools.cache
def _imported_names(code, package):
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {tuple(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            names |= {base} | {(*base, alias.name) for alias in node.names}
    return names
