"""Find where a chapter departs from its anatomy: the answer first, the code last (CONTRIBUTING.md has the rules)."""

import ast
import re

from workflow.book.catalogue import count_lines, text_of

SECTIONS = [
    "Statement", "Why it is true", "Evidence", "What breaks it", "Experiment", "Against the paper", "Turn the knobs",
]  # fmt: skip
CELL = re.compile(r"^```\{code-cell\}.*\n(?P<options>(?::.*\n)*)\n*(?P<code>(?:.*\n)*?)```$", re.M)
BLOCK = re.compile(r"^(?P<fence>[`:]{3,})\{glue:(?P<kind>\w*)\} (?P<key>\S+)\n(?P<body>(?:.*\n)*?)(?P=fence)$", re.M)
BOX = re.compile(r"^`+\{prf:\w+\} (?P<title>.+?)(?: \((?P<whose>.+)\))?\n(?P<options>(?::.*\n)*)", re.M)


def faults(path):
    """Faults of the chapter in this file, a line `file:line: what is wrong` each."""
    text = text_of(path)
    cells = list(CELL.finditer(text))
    prose = CELL.sub(_blank, re.sub(r"\A---\n.*?\n---\n", _blank, text, flags=re.S))
    checks = _opening(prose), _sections(prose), _boxes(prose, cells), _blocks(prose, cells), _cells(cells)
    lines = [fault for check in (*checks, _length(text, prose, cells)) for fault in check]
    return [f"{path}:{text.count(chr(10), 0, place) + 1}: {words}" for place, words in sorted(lines)]


def _blank(match):
    """Spaces in place of a match, so that places in a text stay what they are."""
    return re.sub(r"[^\n]", " ", match[0])


def _opening(prose):
    """Check that the key figure stands under the lead, and one to four findings under the figure."""
    figure = next((block for block in BLOCK.finditer(prose) if block["kind"] == "figure"), None)
    if figure is None or "\n## " in prose[: figure.start()]:
        return [(0, "no {glue:figure} between the lead and the first section")]
    title, _, lead = prose[: figure.start()].strip().rpartition("\n# ")[2].partition("\n")
    lacks = [] if len(lead.split()) > 20 else [(prose.index(title), "no lead of more than 20 words under the title")]
    findings = re.match(r"\n\n:::\{findings\}\n(.*?)\n:::\n", prose[figure.end() :], re.S)
    count = len(re.findall(r"^- ", findings[1], re.M)) if findings else 0
    return lacks + [(figure.end(), f"{count} findings under the key figure: write 1 to 4")] * (not 1 <= count <= 4)


def _sections(prose):
    """Check the order of the sections, and that the statement is in a box and cited."""
    headings = list(re.finditer(r"^## (.+)$", re.sub(r"^```.*?^```", _blank, prose, flags=re.M | re.S), re.M))
    if [heading[1] for heading in headings] != SECTIONS:
        odd = [heading.start() for heading, name in zip(headings, SECTIONS, strict=False) if heading[1] != name]
        return [(odd[0] if odd else len(prose), f"sections out of order: write {', '.join(SECTIONS)}")]
    statement = prose[: headings[1].start()]
    lacks = [role for role in ("prf", "cite") if f"{{{role}:" not in statement]
    return [(headings[0].start(), f"the statement has no {{{role}:…}}") for role in lacks]


def _boxes(prose, cells):
    """Check that a box says where its words come from, and the same as the rows about it."""
    said = dict(re.findall(r'source\(\s*"[\d.]+", "([^"]+)", "(\w+)"', "\n".join(cell["code"] for cell in cells)))
    for box in BOX.finditer(prose):
        badge = re.search(r"^:class: (\w+)$", box["options"], re.M)
        if box["title"] in said and (not badge or badge[1] != said[box["title"]]):
            yield box.start(), f"{box['title']} is {said[box['title']]!r} for its rows: write that as its :class:"
        if badge and badge[1] not in ("printed", "restored", "recalled"):
            yield box.start(), f":class: of {box['title']} is {badge[1]!r}: write printed, restored or recalled"
        if badge and not box["whose"]:
            yield box.start(), f"{box['title']} has no authors in parentheses"


def _blocks(prose, cells):
    """Check that each thing shown has a place, and each figure its name, alt text and a caption with its finding."""
    shown = {key: (place, maker) for cell in cells for key, place, maker in _shown(cell)}
    blocks = {block["key"]: block for block in BLOCK.finditer(prose)}
    yield from ((place, f"{key} is shown, but has no block") for key, (place, _) in shown.items() if key not in blocks)
    for key, block in blocks.items():
        kind, place = block["kind"], block.start()
        if kind == "figure" and key in shown and shown[key][1].startswith("verdict("):
            yield place, f"{key} is a table of rows in a block of a figure"
        if kind == "figure":
            alt = re.search(r"^:alt: (.+)$", block["body"], re.M)
            if f":name: {key}\n" not in block["body"] or not alt or len(alt[1]) <= 40:
                yield place, f"{key} lacks its :name: or an :alt: of more than 40 characters"
            if not re.match(r"(:.*\n)+\n\*\*.+?[.!?]\*\*", block["body"]):
                yield place, f"the caption of {key} does not open with its finding in bold"


def _shown(cell):
    """Yield key, place and maker of what a cell shows."""
    for node in ast.walk(ast.parse(cell["code"])):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "show":
            yield node.args[0].value, cell.start(), ast.unparse(node.args[1])


def _cells(cells):
    """Check the cells: parameters, imports and their size."""
    for number, cell in enumerate(cells):
        place, code, lines = cell.start(), cell["code"], cell["code"].strip().splitlines()
        if not re.fullmatch(r"(:tags: .*\n)?", cell["options"]):
            yield place, "a cell has other options than :tags:"
        if max(map(len, lines)) > 79 or sum(map(bool, lines)) > 25:
            yield place, "a cell has a line of more than 79 characters, or more than 25 lines"
        if "verdict(" in code and not re.match(r"show\('[^']*', verdict\(", ast.unparse(ast.parse(code).body[-1])):
            yield place, "a cell with verdict(…) does not end in show(…, verdict(…))"
        if number == 0 and "parameters" not in cell["options"]:
            yield place, "the first cell is not tagged as parameters"
        if ("lib.notebook()" in lines) != (number == 1):
            yield place, "lib.notebook() is called once, in the second cell, which imports"


def _length(text, prose, cells):
    """Check that the chapter is read in five minutes: words without opening a fold, and lines of code a statement."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    text = re.sub(r"^(## Experiment\n.*?)^```\{code-cell\}.*?(?=^## )", r"\1", text, flags=re.M | re.S)
    text = re.sub(r"^:::\{dropdown\}.*?^:::$|^```\{(?:math|code-cell)\}.*?^```$", "", text, flags=re.M | re.S)
    text = re.sub(r"^(:\w+: .*|[`:]{3,}.*)$|</?div[^<>]*>", "", text, flags=re.M)  # nobody reads tags
    words = len(re.sub(r"\$\$?[^$]+\$\$?", "x", text).split())  # a formula counts as one
    statements = len(re.findall(r"^:label: (?:thm|obs)-", prose, re.M))
    lines = count_lines(cell["code"] for cell in cells)
    yield from [(0, f"{words} words are read without opening a fold: at most 1100")] * (words > 1100)
    yield from [(0, f"{lines} lines of code for {statements} statements: at most 150 each")] * (
        lines > 150 * statements
    )
