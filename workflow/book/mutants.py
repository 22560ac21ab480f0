"""Read the mutants of the library: a fault each, put into one function, and the chapters whose verdicts it should turn.

A fault stands in the list as ``lib/rules.py::polyak: math.log(2) -> math.log(3)``: the text before the arrow stands
once in that function, method (``Class.method``) or assignment at the top of the module. A function that has moved to
another module is found there.
"""

import ast
import functools
import textwrap
from pathlib import Path
from typing import NamedTuple

from workflow.book.catalogue import BookError, code_of, find, text_of, yaml_of
from workflow.book.dependencies import code_hash, library, library_hash

LIST = Path("tests/mutants/near.yml")
FIELDS = {"what", "chapters"}
MAX_CHAPTERS = 3


class Mutant(NamedTuple):
    """A changed library: what is wrong with it, which file, its new text, and the chapters that should see it."""

    name: str
    what: str
    file: str
    text: str
    chapters: tuple
    survives: str = ""
    function: str = ""  # its name, or that of the method or assignment that is changed
    code: str = ""  # hash of that with its fault


class Change(NamedTuple):
    """A file with a fault in it: its path, its new text, and the hash of the function that has the fault."""

    file: str
    text: str
    code: str


def written():
    """Mutants of the list; whatever of it does not fit the library is refused."""
    once = functools.cache(find)
    return [_mutant(name, entry, once) for name, entry in (yaml_of(LIST) or {}).items()]


def _mutant(name, entry, chapter_of):
    where, fields = f"{name} of {LIST}", entry if isinstance(entry, dict) else {}
    addresses = [field for field in fields if "::" in field]
    if len(addresses) != 1 or not FIELDS <= fields.keys() - addresses <= FIELDS | {"survives"}:
        wanted = "what, chapters, file::function and, if need be, survives"
        raise BookError(f"{where} is {str(entry)[:60]}: write {wanted}")
    try:
        if not 0 < len(named := entry["chapters"]) <= MAX_CHAPTERS:
            raise BookError(f"its chapters are {named!r}: name one to {MAX_CHAPTERS}")
        made = change(addresses[0], entry[addresses[0]])
        chapters = tuple(map(chapter_of, named))
    except BookError as error:
        raise BookError(f"{where}, {addresses[0]}, does not fit the book and its library, renew it: {error}") from None
    of = addresses[0].partition("::")[2].rpartition(".")[2]
    return Mutant(name, entry["what"], made.file, made.text, chapters, entry.get("survives", ""), of, made.code)


def change(address, fault):
    """File of the function at an address with the fault ``old -> new`` put into that function."""
    old, arrow, new = str(fault).partition(" -> ")
    if not arrow or " -> " in new:
        raise BookError(f"its fault is {fault!r}: write old -> new")
    file, (first, last) = locate(address)
    lines = text_of(file).split("\n")
    part = "\n".join(lines[first:last])
    if (count := part.count(old)) != 1:
        raise BookError(f"its old text stands there {count} times")
    changed = part.replace(old, new)
    try:
        ast.parse(textwrap.dedent(changed))
    except SyntaxError as error:
        raise BookError(f"with the new text it is no Python, {error.msg}") from None
    text = "\n".join([*lines[:first], changed, *lines[last:]])
    return Change(file, text, code_hash(textwrap.dedent(changed)))


def locate(address):
    """File and lines of the function at an address; if it has moved, in the only module that has it now."""
    file, _, name = address.partition("::")
    if Path(file).exists() and name in (here := parts(text_of(file))):
        return file, here[name]
    spans = {path.as_posix(): parts(text_of(path)).get(name) for path in library()}
    files = [path for path, span in spans.items() if span]
    if len(files) != 1:
        raise BookError(f"{name} is not there, but in {' and '.join(files) or 'no other module either'}")
    return files[0], spans[files[0]]


@functools.cache
def parts(code):
    """Functions, classes, methods and assignments of a module, by name; of each its first line and the next one."""
    return dict(_parts(ast.parse(code).body, ""))


def _parts(body, prefix):
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            first = min(line.lineno for line in (node, *node.decorator_list))
            yield prefix + node.name, (first - 1, node.end_lineno)
        if isinstance(node, ast.ClassDef):
            yield from _parts(node.body, f"{node.name}.")
        if isinstance(node, ast.Assign):
            yield prefix + ast.unparse(node.targets[0]), (node.lineno - 1, node.end_lineno)


def reached(chapter):
    """Names to which a chapter's code leads, by what it calls and what the library's functions of these names call."""
    return _reached("\n".join(text for text, _ in code_of(chapter)), library_hash())


@functools.cache
def _reached(code, _):
    known = {}
    for path in library():
        text = text_of(path)
        lines = text.split("\n")
        for name, (first, last) in parts(text).items():
            uses = _names(textwrap.dedent("\n".join(lines[first:last])))
            known.setdefault(name.rpartition(".")[2], set()).update(uses)
    found, new = set(), _names(code)
    while new:
        found |= new
        new = set().union(*(known.get(name, ()) for name in new)) - found
    return found


def _names(code):
    """Names in a piece of code, with those behind a dot; commands of IPython are left out."""
    plain = "\n".join(line for line in code.split("\n") if not line.startswith(("%", "!")))
    nodes = list(ast.walk(ast.parse(plain)))
    imported = {alias.name for node in nodes for alias in getattr(node, "names", ()) if isinstance(alias, ast.alias)}
    named = {node.id for node in nodes if isinstance(node, ast.Name)}
    return imported | named | {node.attr for node in nodes if isinstance(node, ast.Attribute)}
