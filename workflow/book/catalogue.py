"""Read the sources of the book: pages of the table of contents, which of them are chapters, and what their cells hold.

All paths are relative to the directory that holds ``_toc.yml``, ``book/`` and ``lib/``, so that the same code runs over
the book and over the small books of the tests. A chapter is known by its path below ``book/``: ``max-margin/lemma-1``.
"""

import ast
import copy
import functools
import json
import os
import re
from pathlib import Path

import jupytext
import yaml
from sphinx_external_toc.parsing import MalformedError, parse_toc_data

PART_PAGE = "book/part"  # the first page of what `make book QUICK=1` builds


class BookError(Exception):
    """Something in the book's sources is wrong; the message says what and where, in one line."""


def text_of(path):
    """Text of a source of the book."""
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BookError(f"{path} cannot be read as text in UTF-8: {error}") from None


class UniqueKeyLoader(yaml.SafeLoader):
    """A loader of YAML that refuses a key that stands twice: the first value would be lost."""


def _unique_mapping(loader, node):
    names = [loader.construct_object(key) for key, _ in node.value]
    if twice := [name for name in names if names.count(name) > 1]:
        raise yaml.constructor.ConstructorError(None, None, f"{twice[0]!r} stands there twice", node.start_mark)
    return loader.construct_mapping(node, deep=True)


UniqueKeyLoader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_mapping)


def yaml_of(path):
    """Contents of a YAML file of the book; BookError also where a key stands twice."""
    try:
        return copy.deepcopy(_parsed_yaml(text_of(path)))
    except yaml.YAMLError as error:
        raise BookError(f"{path} is not YAML: {' '.join(str(error).split())}") from None


@functools.cache
def _parsed_yaml(text):
    return yaml.load(text, UniqueKeyLoader)


def json_of(path):
    """Object that a run left in a file."""
    try:
        return json.loads(Path(path).read_text("utf-8"))
    except FileNotFoundError:
        raise BookError(f"there is no {path}: run make book") from None
    except ValueError:
        raise BookError(f"{path} is half written: delete it and run it again") from None


def write_record(path, value):
    """Write a value as JSON that git shows line by line."""
    write_atomic(path, json.dumps(value, indent=1, allow_nan=False, ensure_ascii=False) + "\n")


def pages():
    """Every page of ``_toc.yml``, in reading order, as a path below the project without suffix."""
    try:
        paths = [page.removesuffix(".md") for page in parse_toc_data(yaml_of("_toc.yml"))]
    except MalformedError as error:
        raise BookError(f"_toc.yml cannot be read: {error}") from None
    for page in paths:
        if not Path(page + ".md").is_file():
            raise BookError(f"_toc.yml names {page}, but there is no {page}.md: write it, or take it out")
    return paths


def is_chapter(path):
    """Tell a page with code to run (its jupytext header names a kernel) from prose."""
    head = re.match(r"---\n(.*?)^---$", text_of(path), re.MULTILINE | re.DOTALL)
    return bool(head) and "kernelspec:" in head[1]


def chapters():
    """Chapters, in reading order."""
    return [page.removeprefix("book/") for page in pages() if is_chapter(page + ".md")]


def parts():
    """Chapters by part of the table of contents, in reading order; a page with others below it is a part as well."""
    found = {}
    for part in yaml_of("_toc.yml").get("parts", ()):
        for page in part["chapters"]:
            below = page.get("sections")
            name = title(page["file"] + ".md") if below else part["caption"]
            found.setdefault(name, []).extend(entry["file"].removeprefix("book/") for entry in below or [page])
    known = set(chapters())
    return {name: listed for name, files in found.items() if (listed := [file for file in files if file in known])}


def source(chapter):
    """Path of a chapter's source."""
    return Path("book", chapter + ".md")


def find(name):
    """Find the chapter called ``name``: its whole id, or the last part of it where only one chapter has that."""
    known = chapters()
    matches = [chapter for chapter in known if name == chapter] or [
        chapter for chapter in known if name == chapter.rpartition("/")[2]
    ]
    if len(matches) == 1:
        return matches[0]
    problem = f"{name!r} may be any of {', '.join(matches)}" if matches else f"there is no chapter {name!r}"
    if name and not matches and (written := [*Path("book").glob(f"{name}.md"), *Path("book").glob(f"*/{name}.md")]):
        problem = f"{written[0]} is not in _toc.yml: add it there to run it"
    raise BookError(f"{problem}; chapters: {', '.join(known)}")


def find_all(names):
    """Chapters that NAME means: one, several, or all."""
    asked = names.split()
    return list(dict.fromkeys(chapters() if asked == ["all"] else [find(name) for name in asked or [""]]))


def title(page):
    """First heading of a page."""
    heading = re.search(r"^# +(.+?) *$", Path(page).read_text("utf-8"), re.MULTILINE)
    return heading[1] if heading else Path(page).stem


def read(chapter):
    """Read a chapter as a notebook; a code cell's id counts code cells only, so that prose does not change it."""
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
    """Code of a chapter's cells, and which one has parameters: what a run depends on in its source."""
    cells = (cell for cell in read(chapter).cells if cell.cell_type == "code")
    return [(cell.source, "parameters" in cell.metadata.get("tags", [])) for cell in cells]


def cell_role(code):
    """Tell a cell that only gives numbers to the prose ("tell") from one that shows, lists or names rows ("show")."""
    values = [getattr(node, "value", None) for node in ast.parse(code).body]
    names = [getattr(getattr(value, "func", None), "id", "") for value in values]
    if names and set(names) == {"tell"}:
        return "tell"
    named = zip(values, names, strict=True)
    words = "source" in names and all(isinstance(v, ast.Constant | ast.JoinedStr) or n == "source" for v, n in named)
    rows = re.search(r"\.(claim|ablation|baseline)\b", code)
    listed = len(values) == 1 and isinstance(values[0], ast.List) and rows
    return "show" if names[-1:] == ["show"] or listed or words else ""


def count_lines(code):
    """Number of lines of code in the cells of an experiment, without those that show what it gave."""
    return sum(bool(line.strip()) for text in code if not cell_role(text) for line in text.splitlines())


def write_atomic(path, text):
    """Write a file whole or not at all: a disk may be full, a process may be killed."""
    path.parent.mkdir(parents=True, exist_ok=True)
    half = path.with_name(f".{path.name}.{os.getpid()}")
    half.write_text(text, "utf-8")
    os.replace(half, path)
