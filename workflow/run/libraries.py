"""Libraries of which one file is changed, side by side; what is compiled in them and did not change is not made again.

numba compiles a module's functions again when its file changes. In a changed library it is told to look at the file
that is changed, and of what is compiled there only functions that change, or call one that does, are left out: then
6 to 12 seconds are spent in place of 35.
"""

import ast
import shutil
from pathlib import Path

COMPILED = "@compiled"  # what compiled modules have
SIGNATURES = "njit(*signatures, "  # in their decorator
CACHE = "__pycache__"
STAMP = """

import copy, pathlib
from numba.core import caching

def _stamp(self, stamp=caching._SourceFileBackedLocatorMixin.get_source_stamp):
    original = copy.copy(self)
    original._py_file = str(pathlib.Path({library!r}, pathlib.Path(self._py_file).name))
    return stamp(original)

caching._SourceFileBackedLocatorMixin.get_source_stamp = _stamp
"""


def lay_out(folder, file=None, text=None):
    """Make the library in a folder the project's, but for the text of one file; return the folder that it lies in.

    Files that are right are left alone, with their times. So that those of the unchanged library stay compiled, changed
    compiled modules have a folder of their own; there, to save time, a function that changes is compiled when it is
    called and not as its module is imported.
    """
    compiled = bool(file) and COMPILED in text
    folder = folder.with_name(f"{folder.name}-compiled") if compiled else folder
    if not folder.exists():
        shutil.copytree("lib", folder / "lib")
    changed = {Path(file): text} if file else {}
    if compiled:
        gone = affected(Path("lib", file).read_text("utf-8"), text)
        if (decorator := Path("lib", "_compiled.py")).exists():
            is_gone = f"function.__module__ == 'lib.{Path(file).stem}' and function.__name__ in {sorted(gone)}"
            late = f"njit(*(() if {is_gone} else signatures), "
            original = decorator.read_text("utf-8").replace(SIGNATURES, late)
            changed[Path(decorator.name)] = original + STAMP.format(library=str(Path("lib").absolute()))
    sources = {path.relative_to("lib"): path for path in Path("lib").rglob("*") if path.is_file()}
    sources = {name: path for name, path in sources.items() if CACHE not in name.parts}
    for path in [path for path in (folder / "lib").rglob("*") if path.is_file()]:
        if CACHE not in path.parts and path.relative_to(folder / "lib") not in sources:
            path.unlink()
    for name, path in sources.items():
        place = folder / "lib" / name
        if name not in changed:
            if not place.exists() or _stamp(place) != _stamp(path):
                place.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(path, place)
                _keep_compiled(path, place)
        elif not place.exists() or place.read_text("utf-8") != changed[name]:
            place.write_text(changed[name], "utf-8")
            if compiled and name == Path(file):
                _keep_compiled(path, place, gone)
    return folder


def _stamp(path):
    return path.stat().st_mtime_ns, path.stat().st_size


def _keep_compiled(source, place, gone=()):
    """Give a file what is compiled of the project's, but for some functions."""
    for path in (place.parent / CACHE).glob(f"{place.stem}.*"):
        path.unlink()
    for path in (source.parent / CACHE).glob(f"{source.stem}.*.nb[ic]"):
        if path.name.removeprefix(f"{source.stem}.").partition("-")[0] not in gone:
            shutil.copy2(path, place.parent / CACHE / path.name)


def affected(old, new):
    """Return the names of a module's functions that change, or call one that does; all where anything else changes."""
    bodies = [ast.parse(one).body for one in (old, new)]
    before, after = ({one.name: one for one in body if isinstance(one, ast.FunctionDef)} for body in bodies)
    rest = [[ast.dump(one) for one in body if not isinstance(one, ast.FunctionDef)] for body in bodies]
    if rest[0] != rest[1]:
        return before.keys() | after.keys()
    found = {
        name
        for name in before.keys() | after.keys()
        if name not in before or name not in after or ast.dump(before[name]) != ast.dump(after[name])
    }
    uses = {name: {node.id for node in ast.walk(one) if isinstance(node, ast.Name)} for name, one in after.items()}
    while more := {name for name, used in uses.items() if used & found} - found:
        found |= more
    return found
