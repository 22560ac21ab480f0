"""What there is: the pages of the table of contents, which of them are chapters, and what code a chapter depends on.

All paths are relative to the directory that holds ``_toc.yml``, ``book/`` and ``lib/``, so that the same code runs over
the book and over the small books of the tests. A chapter is known by its path below ``book/``: ``max-margin/lemma-1``.
"""

import ast
import re
from pathlib import Path

import yaml

FENCE = re.compile(r"^(?P<fence>`{3,})\{code-cell\}.*?\n(?P<code>.*?)^(?P=fence)`*\s*$", re.MULTILINE | re.DOTALL)


class BookError(Exception):
    """Something in the book's sources is wrong; the message says what and where, in one line."""


def pages():
    """Return every page of ``_toc.yml``, in reading order, as a path below the project without suffix."""
    toc = yaml.safe_load(Path("_toc.yml").read_text("utf-8"))
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
            raise BookError(f"_toc.yml names {page}, but there is no {page}.md")
    return found


def header(path):
    """Return the YAML front matter of a page; empty when it has none."""
    parts = re.split(r"^---\s*$", Path(path).read_text("utf-8"), maxsplit=2, flags=re.MULTILINE)
    if len(parts) < 3 or parts[0].strip():
        return {}
    try:
        return yaml.safe_load(parts[1]) or {}
    except yaml.YAMLError as error:
        raise BookError(f"{path}: the header is not YAML: {' '.join(str(error).split())}") from None


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


def library_of(chapter):
    """Return the files of ``lib/`` that a chapter's result can depend on.

    These are the modules that it imports, those that they import, and every file in ``lib/`` that is not Python, since
    such a file may be read by any module. Code that cannot be parsed is taken to depend on everything: better one run
    too many than an old number published.
    """
    text = source(chapter).read_text("utf-8")
    code = "\n".join(match["code"] for match in FENCE.finditer(text))
    lines = (line for line in code.splitlines() if not line.startswith((":", "%", "!", "---")))
    files = {path for path in Path("lib").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    modules = {path for path in files if path.suffix == ".py"}
    try:
        queue, needed = _imports("\n".join(lines), (), modules), set()
        while queue:
            path = queue.pop()
            needed.add(path)
            queue |= _imports(path.read_text("utf-8"), path.parts[:-1], modules) - needed
    except SyntaxError:
        needed = modules
    return sorted(map(str, needed | (files - modules)))


def _imports(code, package, modules):
    """Return the files among ``modules`` that ``code``, standing in ``package``, imports."""
    names = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {tuple(alias.name.split(".")) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            names |= {base} | {(*base, alias.name) for alias in node.names}
    found = set()
    for name in names:  # importing a.b.c also runs a and a.b
        for end in range(1, len(name) + 1):
            stem = Path(*name[:end])
            found |= {stem.with_suffix(".py"), stem / "__init__.py"} & modules
    return found
