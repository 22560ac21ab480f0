"""Parameters of a chapter: what there is, and whether what was asked for fits. Everything else is refused in one line.

papermill only warns of an unknown name and never looks at the type, so that a typing error would run the defaults.
"""

import ast
import math
import shlex
import tempfile

import nbformat
import papermill
from chapters import BookError, find, yaml_of

TYPES = {"int": int, "float": float, "bool": bool, "str": str, "list": list, "dict": dict}


def declared(notebook):
    """Read the cell tagged ``parameters`` of a notebook: name -> (type, default, comment)."""
    assigned = _assigned(notebook)
    with tempfile.NamedTemporaryFile("w", suffix=".ipynb", encoding="utf-8") as file:  # papermill reads files only
        nbformat.write(notebook, file)
        file.flush()
        inspected = papermill.inspect_notebook(file.name)
    found = {}
    for name, parameter in inspected.items():
        default = _literal(parameter["default"])
        kind = parameter["inferred_type_name"].split("[")[0].strip()
        kind = type(default).__name__ if kind == "None" else kind
        if kind == "float" and type(default) is int:
            default = float(default)
        if kind not in TYPES or type(default) is not TYPES[kind]:
            raise BookError(
                f"its parameter {name} is declared as {kind} = {parameter['default']}: "
                f"write a literal of one of the types {', '.join(TYPES)}"
            )
        found[name] = (kind, default, parameter["help"])
    if missed := assigned - set(found):
        raise BookError(
            f"its parameter {', '.join(sorted(missed))} could not be read: "
            "write `name: type = literal  # comment`, with no equals sign in the comment"
        )
    return found


def _assigned(notebook):
    """Names that the cell tagged ``parameters`` sets; papermill passes over a line that it cannot parse."""
    tagged = (cell for cell in notebook.cells if "parameters" in cell.metadata.get("tags", []))
    try:
        body = [statement for cell in tagged for statement in ast.parse(cell.source).body]
    except SyntaxError as error:
        raise BookError(
            f"its cell of parameters does not parse ({error.msg}, line {error.lineno}): "
            "write `name: type = literal  # comment`"
        ) from None
    targets = [target for line in body for target in getattr(line, "targets", [getattr(line, "target", None)])]
    return {target.id for target in targets if isinstance(target, ast.Name)}


def parse(text):
    """Read ``seed=7 iterations=5000 loss=logistic step=1e-3``; the values stay words until their type is known."""
    values = {}
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise BookError(f"parameters {text!r} cannot be read ({error}): write name=value, quotes in pairs") from None
    for word in words:
        name, equals, value = word.partition("=")
        if not equals or not name:
            raise BookError(f"parameter {word!r} has no {'name' if equals else 'value'}: write name=value")
        if name in values:
            raise BookError(f"parameter {name} is given twice: give it once")
        values[name] = value
    return values


def read(path):
    """Read a YAML file with one block of values a chapter, which may be named by the last part of its path."""
    blocks = yaml_of(path) or {}
    if not isinstance(blocks, dict) or not all(isinstance(block, dict) for block in blocks.values()):
        raise BookError(f"{path}: write one block a chapter, and in it lines of the form 'name: value'")
    try:
        return {find(str(name)): block for name, block in blocks.items()}
    except BookError as error:
        raise BookError(f"{path}: {error}") from None


def check(values, known):
    """Return ``values`` as their declared types, or say what does not fit and what there is."""
    there_is = "; ".join(describe(known)) or "it takes none"
    if unknown := sorted(set(values) - set(known)):
        raise BookError(f"unknown parameter {', '.join(unknown)}; parameters: {there_is}")
    checked = {}
    for name, value in values.items():
        kind = known[name][0]
        if isinstance(value, str) and kind != "str":
            value = _literal(value)  # from the command line, or 1e-3 in YAML, which PyYAML reads as a word
        if kind == "float" and type(value) is int:
            value = float(value)
        if type(value) is not TYPES[kind] or (kind == "float" and not math.isfinite(value)):
            wanted = "a finite float" if kind == "float" else f"of type {kind}"
            raise BookError(f"parameter {name}={value!r} is not {wanted}; parameters: {there_is}")
        checked[name] = value
    return checked


def describe(known):
    """Return one phrase a parameter: ``seed: int = 0 (of the random instances)``."""
    return [
        f"{name}: {kind} = {default!r}" + f" ({help})" * bool(help) for name, (kind, default, help) in known.items()
    ]


def _literal(text):
    """Return the Python value that ``text`` writes, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
