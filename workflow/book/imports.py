"""Find the modules that code reaches by its imports, names that packages pass on included."""

import ast
import functools
import itertools


def is_text(statement):
    """Tell a docstring, or another text that stands alone."""
    value = getattr(statement, "value", None)
    return isinstance(statement, ast.Expr) and isinstance(value, ast.Constant) and isinstance(value.value, str)


def modules_of(texts):
    """Path and text of modules, from a text by path, by dotted names as tuples; a package has that of its __init__."""
    named = ((path.parent if path.stem == "__init__" else path.with_suffix(""), path) for path in texts)
    modules = {name.parts: (str(path), texts[path]) for name, path in named}
    # a folder without an ``__init__`` is a package, too
    return {name[:end]: ("", "") for name in modules for end in range(1, len(name))} | modules


def _imports_of(name, modules):
    path, text = modules[name]
    return imports(text, name if path.endswith("__init__.py") else name[:-1])


def reached(queue, modules):
    """Modules in ``queue`` and those among ``modules`` that they import, directly or through others."""
    needed = set()
    while queue:
        needed.add(name := queue.pop())
        queue |= imported(_imports_of(name, modules), modules) - needed
    return needed


def imported(by_name, modules):
    """Modules that imports, by their name in the code, refer to."""
    targets = itertools.chain.from_iterable(by_name.values())
    return set().union(*(_meant(name, used, modules) for name, used in targets if name[:1] in modules))


def _meant(name, used, modules):
    """Modules that a dotted name refers to, of which code uses the names ``used``; all of them for None.

    Importing a.b.c also runs a and a.b. A package that only passes on names counts as the modules that they are from.
    """
    end = 1
    while name[: end + 1] in modules and end < len(name):
        end += 1
    passing = [part for k in range(1, end + 1) if _only_passes_on(*modules[part := name[:k]])]
    meant = {name[:k] for k in range(1, end + 1)}.difference(passing)
    last, rest = name[:end], name[end:]
    exports = _imports_of(last, modules)
    inner = {part: [((*last, part), None)] for part in rest[:1] or used or () if (*last, part) in modules}
    wanted = set(rest[:1] or used or exports)
    if last in passing and not wanted <= exports.keys() | inner.keys():
        wanted = exports.keys()
    for passed, _ in itertools.chain.from_iterable((exports | inner).get(part, ()) for part in wanted):
        if passed != name and passed[:1] in modules:
            meant |= _meant(passed, used if rest else None, modules)
    return meant


@functools.cache
def _only_passes_on(path, code):
    """Tell a package that only imports names and lists them in ``__all__``."""
    return path.endswith("__init__.py") and all(
        isinstance(statement, ast.Import | ast.ImportFrom)
        or is_text(statement)
        or (isinstance(statement, ast.Assign) and ast.unparse(statement.targets) == "__all__")
        for statement in ast.parse(code).body
    )


@functools.cache
def imports(code, package):
    """Imports of code by the name in the code: dotted name, and which names of it are used, None for all."""
    nodes, bound = list(ast.walk(ast.parse(code))), {}
    for node in nodes:
        if isinstance(node, ast.Import):
            for alias in node.names:
                path = tuple(alias.name.split("."))
                bound.setdefault(alias.asname or alias.name, []).append(path)
                bound.setdefault(alias.asname or path[0], []).append(path if alias.asname else path[:1])
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else ()
            base += tuple(node.module.split(".")) if node.module else ()
            for alias in node.names:
                bound.setdefault(alias.asname or alias.name, []).append((*base, alias.name))
    attributes = [node for node in nodes if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
    owners, used = {id(node.value) for node in attributes}, {}
    for node in attributes:
        used.setdefault(node.value.id, set()).add(node.attr)
    whole = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in owners}
    return {
        name: [(path, None if name in whole else used.get(name)) for path in paths] for name, paths in bound.items()
    }
