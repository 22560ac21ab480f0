"""All small changes of the library's operators and constants, and a few of them drawn by a seed.

Nobody chose them, so they say how much of the library the chapters look at, which a list by hand cannot.
"""

import ast
import copy
import random
from itertools import islice
from typing import NamedTuple

SWAPPED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And, ast.Lt: ast.LtE, ast.LtE: ast.Lt,
    ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
}  # fmt: skip
FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
COMPILED = ("compiled", "njit", "jit", "guvectorize", "vectorize")  # in a decorator: no interpreter sees such calls


class Alteration(NamedTuple):
    """One change: which of all of its file, the line and words of it, and the function it stands in.

    The function is its first line, as the interpreter counts it; None outside of all. Calls of compiled functions no
    interpreter counts: 0 in a module that has some.
    """

    file: str
    number: int
    line: int
    words: str
    function: int | None


def drawn(paths, count, seed):
    """Return ``count`` alterations of these files, or all where there are fewer, drawn by a seed; in order."""
    every = [one for path in sorted(paths) for one in alterations(path.name, path.read_text("utf-8"))]
    return sorted(random.Random(seed).sample(every, min(count, len(every))), key=lambda one: one[:2])


def alterations(file, text):
    """List all alterations of a module."""
    tree = ast.parse(text)
    compiled = any(_is_compiled(node) for node in ast.walk(tree))
    return [
        Alteration(
            file, number, node.lineno, f"{ast.unparse(node)} becomes {ast.unparse(new)}", 0 if compiled else line
        )
        for number, (node, new, line) in enumerate(_changes(tree))
    ]


def altered(text, number):
    """Return the module with one alteration made; all else, and the number of its lines, is as it was."""
    old, new, _ = next(islice(_changes(ast.parse(text)), number, None))
    lines = text.encode().splitlines(keepends=True)
    begin = sum(map(len, lines[: old.lineno - 1])) + old.col_offset
    end = sum(map(len, lines[: old.end_lineno - 1])) + old.end_col_offset
    code = ast.unparse(new)
    if isinstance(old, ast.expr):
        code = f"({code}{chr(10) * (old.end_lineno - old.lineno)})"
    whole = b"".join(lines)
    return (whole[:begin] + code.encode() + whole[end:]).decode()


def _changes(node, function=None):
    """Yield (node, what stands in its place, the function's first line) for a tree, in its order."""
    if isinstance(node, ast.JoinedStr):  # a message
        return
    for new in _others(node):
        yield node, new, function
    inside = _first_line(node) if isinstance(node, FUNCTIONS) else function
    for name, part in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list"):
            continue
        for child in part if isinstance(part, list) else [part]:
            if isinstance(child, ast.AST):
                yield from _changes(child, function if name == "args" else inside)


def _first_line(node):
    """First line of a function as the interpreter counts it: its decorator's."""
    return min(one.lineno for one in (node, *getattr(node, "decorator_list", [])))


def _is_compiled(node):
    names = (name for one in getattr(node, "decorator_list", []) for name in ast.walk(one))
    return any(isinstance(name, ast.Name) and name.id in COMPILED for name in names)


def _others(node):
    """What may stand in place of a node."""
    if isinstance(node, ast.BinOp | ast.BoolOp | ast.AugAssign) and type(node.op) in SWAPPED:
        yield _with(node, op=SWAPPED[type(node.op)]())
    elif isinstance(node, ast.Compare) and type(node.ops[0]) in SWAPPED:
        yield _with(node, ops=[SWAPPED[type(node.ops[0])](), *node.ops[1:]])
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Constant):
        value = node.value
        if isinstance(value, bool):
            yield _with(node, value=not value)
        elif isinstance(value, int):
            yield from (_with(node, value=other) for other in (value + 1, value - 1))
        elif isinstance(value, float):
            yield from (_with(node, value=other) for other in ((2 * value, value / 2) if value else (1.0,)))


def _with(node, **changed):
    new = copy.copy(node)
    for name, value in changed.items():
        setattr(new, name, value)
    return new
