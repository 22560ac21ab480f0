"""Read the parameters of a chapter, and refuse in one line what does not fit them.

papermill only warns of an unknown name and never looks at the type, so that a typing error would run the defaults.

The range of a parameter stands in the comment beside it: ``2 to 100``, ``above 0``, ``at most dimension``, ``at least
inputs * tokens``; of a list ``each whole, 2 to 100`` and ``1 to 20 of them``; of a word ``or hinge, square``.
"""

import ast
import io
import math
import operator
import re
import shlex
import tokenize

from workflow.book.catalogue import BookError, find, yaml_of

TYPES = {"int": int, "float": float, "bool": bool, "str": str, "list": list}
RELATIONS = {"at least": operator.ge, "at most": operator.le, "above": operator.gt, "below": operator.lt}
NUMBER = r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?"
BOUND = rf"(?:{NUMBER}|[A-Za-z_]\w*)(?: \* \w+)*"
CLAUSE = re.compile(
    rf"(?:\b(?P<each>each )(?P<whole>whole, )?)?(?:\b(?P<relation>{'|'.join(RELATIONS)}) (?P<bound>{BOUND})"
    rf"|(?<![\w.])(?P<low>{NUMBER}) to (?P<high>{BOUND}))(?: of them)?"
)
CHOICES = re.compile(r"\bor ([\w.-]+(?:, [\w.-]+)*)(?=[;:]|$)")
REMEDY = "write `name: type = literal  # comment`"
LAST_SEED = 2**63 - 1  # the largest that torch takes
SEEDS = f"0 to {LAST_SEED}"  # the range of a seed whose comment gives none


def declared(notebook):
    """Read the cell tagged ``parameters`` of a notebook: name -> (type, default, comment)."""
    known = {}
    for cell in notebook.cells:
        if "parameters" in cell.metadata.get("tags", []):
            known |= _declared(cell.source)
    numbers = {name for name, (kind, _, _) in known.items() if kind in ("int", "float")}
    for name, (kind, _, text) in known.items():
        if unknown := sorted(_named(range_of(kind, text)) - numbers):
            raise BookError(f"its parameter {name} has the bound {unknown[0]!r}: write a number, or such a parameter")
    return known


def _declared(code):
    """Read one cell; the comment of a parameter may go on in lines of its own."""
    try:
        body = ast.parse(code).body
    except SyntaxError as error:
        place = f"{error.msg}, line {error.lineno}"
        raise BookError(f"its cell of parameters does not parse ({place}): {REMEDY}") from None
    tokens = tokenize.generate_tokens(io.StringIO(code).readline)
    comments = {token.start[0]: token.string.lstrip("# ") for token in tokens if token.type == tokenize.COMMENT}
    parameters = {}
    for line, following in zip(body, [*body[1:], None], strict=True):
        if not isinstance(line, ast.AnnAssign) or line.value is None:
            raise BookError(f"its cell of parameters has {ast.unparse(line)!r}: {REMEDY}")
        name, kind = ast.unparse(line.target), ast.unparse(line.annotation).partition("[")[0]
        default = _literal(written := ast.unparse(line.value))
        if kind == "float" and type(default) is int:
            default = float(default)
        if kind not in TYPES or type(default) is not TYPES[kind]:
            known = ", ".join(TYPES)
            raise BookError(
                f"its parameter {name} is declared as {kind} = {written}: write a literal of one of {known}"
            )
        last = following.lineno if following else code.count("\n") + 2
        text = " ".join(comments[k] for k in range(line.lineno, last) if k in comments)
        parameters[name] = (kind, default, text)
    return parameters


def range_of(kind, text):
    """Range of a parameter in the words of its comment; "" where all that have its type will do."""
    if kind == "str":
        choices = CHOICES.search(text)
        return choices[0] if choices else ""
    return ", ".join(clause[0] for clause in CLAUSE.finditer(text))


def _pairs(clause):
    """Relations and bounds of one clause of a range."""
    if clause["relation"]:
        return [(clause["relation"], clause["bound"].split(" * "))]
    return [("at least", [clause["low"]]), ("at most", clause["high"].split(" * "))]


def _named(text):
    """Parameters that a range names."""
    parts = {part for clause in CLAUSE.finditer(text) for _, bound in _pairs(clause) for part in bound}
    return {part for part in parts if not re.fullmatch(NUMBER, part)}


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
    """Convert ``values`` to their declared types, or say what does not fit and what there is."""
    there_is = "; ".join(describe(known)) or "it takes none"
    if unknown := sorted(set(values) - set(known)):
        raise BookError(f"unknown parameter {', '.join(unknown)}; parameters: {there_is}")
    checked = {}
    for name, value in values.items():
        kind = known[name][0]
        if isinstance(value, str) and kind != "str":
            value = _literal(value)  # a word of the command line, or 1e-3, which PyYAML reads as a word
        if kind == "float" and type(value) is int:
            value = float(value) if abs(value) < 2**1000 else math.inf
        if type(value) is not TYPES[kind] or (kind == "float" and not math.isfinite(value)):
            wanted = "a finite float" if kind == "float" else f"of type {kind}"
            raise BookError(f"parameter {name}={_shown(value)} is not {wanted}; parameters: {there_is}")
        checked[name] = value
    in_force = {name: default for name, (_, default, _) in known.items()} | checked
    for name, value in in_force.items():
        kind, default, text = known[name]
        asked = range_of(kind, text) or SEEDS * (name == "seed")
        if not _within(value, default, asked, in_force):
            others = " and ".join(f"{other}={in_force[other]}" for other in sorted(_named(asked)))
            others = f", with {others}" * bool(others)
            said = f"{default} {asked}" if kind == "str" else asked.replace(SEEDS, "0 to 2^63 - 1")
            raise BookError(f"parameter {name}={_shown(value)} is out of range: {said}{others}")
    return checked


def _within(value, default, asked, in_force):
    """Tell whether a value is in the range that its comment asks for."""
    if isinstance(value, str):
        return not asked or value in (default, *asked.removeprefix("or ").split(", "))
    for clause in CLAUSE.finditer(asked):
        entries = [value] if type(value) is not list else value if clause["each"] else [len(value)]
        kinds = (int,) if clause["whole"] else (int, float)
        if not all(type(entry) in kinds and abs(entry) < math.inf for entry in entries):
            return False
        for relation, bound in _pairs(clause):
            limit = math.prod(in_force[part] if part in in_force else ast.literal_eval(part) for part in bound)
            if not all(RELATIONS[relation](entry, limit) for entry in entries):
                return False
    return True


def _shown(value):
    """A value as it is written, of bearable length."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:60]}... ({len(text)} characters)"


def describe(known, words=lambda kind, text: text):
    """One phrase for each parameter: ``seed: int = 0 (of the random instances)``, or with other ``words`` of those."""
    return [
        f"{name}: {kind} = {default!r}" + f" ({words(kind, text)})" * bool(words(kind, text))
        for name, (kind, default, text) in known.items()
    ]


def _literal(text):
    """Python value that ``text`` writes, or the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return text
