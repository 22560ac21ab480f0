"""What there is: the pages of the table of contents, which of them are chapters, and what code a chapter depends on.

All paths are relative to the directory that holds ``_toc.yml``, ``book/`` and ``lib/``, so that the same code runs over
the book and over the small books of the tests. A chapter is known by its path below ``book/``: ``max-margin/lemma-1``.
"""

import ast
import copy
import functools
import hashlib
import io
import json
import os
import pickle
import re
import subprocess
import tempfile
import tokenize
from pathlib import Path

import jupytext
import yaml

PART_PAGE = "book/part"  # the first page of what `make book QUICK=1` builds


class BookError(Exception):
    """Something in the book's sources is wrong; the message says what and where, in one line."""


def text_of(path):
    """Return the text of a source of the book."""
    try:
        return Path(path).read_text("utf-8")
    except FileNotFoundError:
        raise BookError(f"there is no {path} here: run make from the folder that has it") from None
    except UnicodeDecodeError as error:
        raise BookError(f"{path} is not text in UTF-8 (byte {error.start}): save it so") from None
    except OSError as error:
        raise BookError(f"{path} cannot be read: {error.strerror.lower()}") from None


class Once(yaml.SafeLoader):
    """YAML in which no key stands twice: the first would be lost."""


def _once(loader, node):
    names = [loader.construct_object(key) for key, _ in node.value]
    if twice := [name for name in names if names.count(name) > 1]:
        raise yaml.constructor.ConstructorError(None, None, f"{twice[0]!r} stands there twice", node.start_mark)
    return loader.construct_mapping(node, deep=True)


Once.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _once)


def yaml_of(path, text=None):
    """Return what a YAML file of the book holds, or the text of one; BookError also where a key stands twice."""
    try:
        return pickle.loads(_pickled(text_of(path) if text is None else text))
    except yaml.YAMLError as error:
        raise BookError(f"{path} is not YAML: {' '.join(str(error).split())}") from None


@functools.cache
def _pickled(text):
    """Return what a text in YAML holds, to be unpickled: reading it again takes a hundred times as long as that."""
    return pickle.dumps(yaml.load(text, Once))


def json_of(path):
    """Return the object that a run left in a file."""
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise BookError(f"there is no {path}: run make book") from None
    except ValueError:
        raise BookError(f"{path} is half written: delete it and run it again") from None


def pages():
    """Return every page of ``_toc.yml``, in reading order, as a path below the project without suffix."""
    toc = yaml_of("_toc.yml")
    found = []

    def walk(node):
        if isinstance(node, list):
            for child in node:
                walk(child)
        elif isinstance(node, dict):
            found.extend(node[key] for key in ("root", "file") if key in node)
            for key in ("parts", "chapters", "sections", "subtrees", "entries"):
                walk(node.get(key))

    walk(toc)
    found = [str(page).removesuffix(".md") for page in found]
    for page in found:
        if not Path(page + ".md").is_file():
            raise BookError(f"_toc.yml names {page}, but there is no {page}.md: write it, or take it out")
    return found


def header(path):
    """Return the YAML front matter of a page; empty when it has none."""
    parts = re.split(r"^---\s*$", text_of(path), maxsplit=2, flags=re.MULTILINE)
    if len(parts) < 3 or parts[0].strip():
        return {}
    found = yaml_of(f"{path}: the header", parts[1]) or {}
    if not isinstance(found, dict):
        raise BookError(f"{path}: the header is {found!r}: write lines of the form 'name: value'")
    return found


def is_chapter(path):
    """Tell a page with code to run (its jupytext header names a kernel) from prose."""
    return "kernelspec" in header(path)


def chapters():
    """Return the chapters, in reading order."""
    return [page.removeprefix("book/") for page in pages() if is_chapter(page + ".md")]


def source(chapter):
    """Return the path of a chapter's source."""
    return Path("book", chapter + ".md")


def find(name):
    """Return the chapter called ``name``: its whole id, or the last part of it where only one chapter has that."""
    known = chapters()
    matches = [chapter for chapter in known if name == chapter] or [
        chapter for chapter in known if name == chapter.rpartition("/")[2]
    ]
    if len(matches) == 1:
        return matches[0]
    problem = f"{name!r} may be any of {', '.join(matches)}" if matches else f"there is no chapter {name!r}"
    raise BookError(f"{problem}; chapters: {', '.join(known)}")


def title(page):
    """Return the first heading of a page."""
    heading = re.search(r"^# +(.+?) *$", Path(page).read_text("utf-8"), re.MULTILINE)
    return heading[1] if heading else Path(page).stem


def read(chapter):
    """Return a chapter as a notebook; a code cell's id counts code cells only, so that prose does not change it."""
    try:
        notebook = copy.deepcopy(_parsed(source(chapter).read_text("utf-8")))
    except Exception as error:  # jupytext passes on whatever its YAML and Markdown parsers raise
        raise BookError(f"{source(chapter)} cannot be read: {' '.join(str(error).split())[:300]}") from None
    stem, counts = source(chapter).stem, {}
    for cell in notebook.cells:
        number = counts[cell.cell_type] = counts.get(cell.cell_type, 0) + 1
        cell["id"] = f"{stem}-{number}" if cell.cell_type == "code" else f"{stem}-text-{number}"
    return notebook


@functools.cache
def _parsed(text):
    return jupytext.reads(text, "md")


def code_of(chapter):
    """Return what a run of a chapter depends on in its source: the code of its cells, and which one has parameters."""
    cells = (cell for cell in read(chapter).cells if cell.cell_type == "code")
    return [(cell.source, "parameters" in cell.metadata.get("tags", [])) for cell in cells]


def presents(code):
    """Return "tell" for a cell that only gives numbers to the prose, "show" for one that shows, lists or names rows."""
    values = [getattr(node, "value", None) for node in ast.parse(code).body]
    names = [getattr(getattr(value, "func", None), "id", "") for value in values]
    if names and set(names) == {"tell"}:
        return "tell"
    named = zip(values, names, strict=True)
    words = "source" in names and all(isinstance(v, ast.Constant | ast.JoinedStr) or n == "source" for v, n in named)
    listed = len(values) == 1 and isinstance(values[0], ast.List) and re.search(r"\.(claim|control|baseline)\b", code)
    return "show" if names[-1:] == ["show"] or listed or words else ""


def lines_of(notebook):
    """Return how many lines of code an experiment has, without the cells that show what it gave."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return sum(bool(line.strip()) for text in code if not presents(text) for line in text.splitlines())


def hash_of(chapter, values, comments=True):
    """Return a hash of a chapter's code, which has comments on its page, and of values that differ from its own."""
    try:
        code = [(text if comments else without_comments(text), marked) for text, marked in code_of(chapter)]
    except BookError:  # which the run will report
        code = source(chapter).read_text("utf-8", errors="replace")
    return hashlib.sha256(json.dumps([code, values], sort_keys=True).encode()).hexdigest()


def recorded_hash(chapter):
    """Return what a record notes of the code that ran: a comment that was changed since leaves it as it is."""
    return hash_of(chapter, {}, comments=False)


def without_comments(code):
    """Return code without its comments, the blanks before them, and lines that have nothing else."""
    lines = code.split("\n")
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(code).readline))
    except (tokenize.TokenError, SyntaxError):  # a command of IPython, or code that will not run
        return code
    found = [token.start for token in tokens if token.type == tokenize.COMMENT]
    for row, column in found:
        lines[row - 1] = lines[row - 1][:column].rstrip()
    alone = {row - 1 for row, _ in found if not lines[row - 1]}
    return "\n".join(line for number, line in enumerate(lines) if number not in alone)


def mark_code(chapter, values, folder="code"):
    """Write that hash to a folder of ``build/``, only where it differs, and below it the one without comments.

    As the input of a rule it makes a run depend on the code and not on the prose, also where Snakemake's own records
    are gone: then the file's time decides.
    """
    return _mark(f"{folder}/{chapter}", "\n".join(hash_of(chapter, values, comments) for comments in (True, False)))


def mark_commit():
    """Write the commit of the sources to ``build/commit``, only where it differs, and return the path.

    Its hash and day, and whether anything else than it is built; "unknown" where there is no git.
    """
    git = ["git", "-c", "core.quotepath=off"]
    shown = subprocess.run([*git, "show", "-s", "--format=%h %cs"], capture_output=True, text=True, check=False)
    status = subprocess.run([*git, "status", "--porcelain", "."], capture_output=True, text=True, check=False)
    changed = " with changes" if status.stdout.strip() else ""
    return _mark("commit", "unknown" if shown.returncode else shown.stdout.strip() + changed)


def write_whole(path, text):
    """Write a file whole or not at all: a disk may be full, a process may be killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=".", encoding="utf-8", delete=False) as file:
        try:
            file.write(text)
            file.flush()
            os.chmod(file.name, 0o644)
            os.replace(file.name, path)
        except BaseException:
            os.unlink(file.name)
            raise


def _mark(name, text):
    path = Path("build", name)
    if not path.exists() or path.read_text("utf-8") != text + "\n":
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text + "\n", "utf-8")
    return str(path)


def library():
    """Return the files of ``lib/``: its modules, and what one of them names in quotes, since it may read that file.

    Any other file there is nobody's: a note, or what an editor leaves.
    """
    files = [path for path in sorted(Path("lib").rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    code = "".join(path.read_text("utf-8") for path in files if path.suffix == ".py")
    return [path for path in files if path.suffix == ".py" or f'{path.name}"' in code]


def library_of(chapter):
    """Return the files of ``lib/`` that a chapter's result can depend on.

    These are the modules that it imports, those that they import, and every file that is not Python, since any module
    may read it. Code that cannot be parsed is taken to depend on everything: better one run too many than an old number
    published.
    """
    files = set(library())
    modules = {path for path in files if path.suffix == ".py"}
    try:
        lines = (line for code, _ in code_of(chapter) for line in code.splitlines())
        code = "\n".join(line for line in lines if not line.startswith(("%", "!")))
        needed = _reached(_imports(code, (), modules), modules)
    except (BookError, SyntaxError):
        needed = modules
    return sorted(map(str, needed | (files - modules)))


def script(name):
    """Return the files of a script of the workflow: its own first, then those that it imports, also at one remove."""
    folder, first = Path(__file__).parent, Path(f"{name}.py")
    reached = _reached({first}, {Path(path.name) for path in folder.glob("*.py")}, folder)
    return [str(folder / path) for path in [first, *sorted(reached - {first})]]


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
