"""What stands where in a chapter, read from its source: the answer first, the code last."""

import ast
import re
from pathlib import Path

import jupytext
import pytest
import yaml

from workflow.book.catalogue import lines_of

ROOT = Path(__file__).parents[1]

SECTIONS = [
    "Statement", "Why it is true", "Evidence", "What breaks it", "Experiment", "Against the paper", "Turn the knobs",
]  # fmt: skip
SOURCES = {"printed", "restored", "recalled"}
TEMPLATE = ROOT / "book/_template.md"
CHAPTERS = sorted(path for path in (ROOT / "book").rglob("*.md") if path.read_text("utf-8").startswith("---\njupytext"))
LISTED = yaml.safe_load((ROOT / "book/statements.yml").read_text("utf-8"))["finished"]
FINISHED = [TEMPLATE, *(ROOT / f"book/{name}.md" for name in LISTED)]
BLOCK = re.compile(r"^(?P<fence>[`:]{3,})\{glue:(?P<kind>\w*)\} (?P<key>\S+)\n(?P<body>(?:.*\n)*?)(?P=fence)$", re.M)

every = pytest.mark.parametrize("path", CHAPTERS, ids=lambda path: path.stem)
finished = pytest.mark.parametrize("path", FINISHED, ids=lambda path: path.stem)


def prose(path):
    """Return a chapter's text without its header and its code cells."""
    text = re.sub(r"\A---\n.*?\n---\n", "", path.read_text("utf-8"), flags=re.DOTALL)
    return re.sub(r"^```\{code-cell\}.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)


def cells(path):
    return [cell for cell in jupytext.read(path).cells if cell.cell_type == "code"]


def shown(path):
    """Yield the key and the name of the maker of each thing that a cell ends in showing."""
    for cell in cells(path):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "show":
                yield node.args[0].value, ast.unparse(node.args[1])


@every
def test_sections_stand_in_order(path):
    outside = re.sub(r"^```.*?^```", "", prose(path), flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"^## (.+)$", outside, flags=re.MULTILINE) == SECTIONS


@every
def test_key_figure_stands_under_the_lead_and_findings_under_it(path):
    lead, _, findings, *_ = re.split(r"^(```\{glue:figure\}(?:.*\n)*?```)$", prose(path), maxsplit=1, flags=re.M)
    assert "## " not in lead
    assert len(lead.split("\n# ")[1].split()) > 20
    assert findings.startswith("\n\n:::{findings}\n")
    assert len(re.findall(r"^- ", findings.split("\n:::\n")[0], flags=re.M)) <= 4


@every
def test_each_thing_that_is_shown_has_its_place(path):
    blocks = {match["key"]: match["kind"] for match in BLOCK.finditer(prose(path))}
    made = dict(shown(path))
    assert sorted(blocks) == sorted(made)
    for key, kind in blocks.items():
        assert key.startswith(f"{'fig' if kind == 'figure' else 'tab'}-{path.stem.lstrip('_')}"), key
        assert not (kind == "figure" and made[key].startswith("verdict(")), key


@every
def test_captions_and_alt_texts_stand_in_blocks(path):
    assert all(set(cell.metadata) <= {"tags"} for cell in cells(path))
    for match in BLOCK.finditer(prose(path)):
        if match["kind"] == "figure":
            assert f":name: {match['key']}\n" in match["body"]
            assert len(re.search(r"^:alt: (.+)$", match["body"], flags=re.M)[1]) > 40


@every
def test_tables_of_rows_are_the_last_thing_of_their_cell(path):
    for cell in cells(path):
        if "verdict(" in cell.source:
            last = ast.parse(cell.source).body[-1].value
            assert last.func.id == "show"
            assert last.args[1].func.id == "verdict"


@every
def test_code_is_narrow_and_cells_are_short(path):
    for cell in cells(path):
        assert max(map(len, cell.source.splitlines())) <= 79, cell.source
        assert sum(bool(line.strip()) for line in cell.source.splitlines()) <= 25


@every
def test_box_says_whence_its_words_come_as_its_rows_do(path):
    code = "\n".join(cell.source for cell in cells(path))
    said = dict(re.findall(r'source\(\s*"[\d.]+", "([^"]+)", "(\w+)"', code))
    box = r"^`+\{prf:\w+\} (?P<title>.+?)(?: \((?P<whose>.+)\))?\n(?P<options>(?::.*\n)*)"
    for match in re.finditer(box, prose(path), flags=re.M):
        badge = re.search(r"^:class: (\w+)$", match["options"], flags=re.M)
        if match["title"] in said:
            assert badge, match["title"]
            assert badge[1] == said[match["title"]], match["title"]
        if badge:
            assert badge[1] in SOURCES
            assert match["whose"], match["title"]


@finished
def test_captions_open_with_their_finding(path):
    for match in BLOCK.finditer(prose(path)):
        if match["kind"] == "figure":
            assert re.match(r"(:.*\n)+\n\*\*.+?[.!?]\*\*", match["body"]), match["key"]


@finished
def test_findings_are_one_to_four(path):
    inside = prose(path).split(":::{findings}\n")[1].split("\n:::\n")[0]
    assert 1 <= len(re.findall(r"^- ", inside, flags=re.M)) <= 4


def open_words(path):
    """Return how many words are read without opening a fold, a formula counted as one."""
    text = re.sub(r"\A---\n.*?\n---\n", "", path.read_text("utf-8"), flags=re.DOTALL)
    text = re.sub(r"^(## Experiment\n.*?)^```\{code-cell\}.*?(?=^## )", r"\1", text, flags=re.MULTILINE | re.DOTALL)
    for block in (r"^:::\{dropdown\}.*?^:::$", r"^```\{(?:math|code-cell)\}.*?^```$"):
        text = re.sub(block, "", text, flags=re.MULTILINE | re.DOTALL)
    text = re.sub(r"^(:\w+: .*|[`:]{3,}.*)$", "", text, flags=re.MULTILINE)
    return len(re.sub(r"\$\$?[^$]+\$\$?", "x", text).split())


@finished
def test_chapter_is_read_in_five_minutes(path):
    assert open_words(path) <= 1100
    statements = len(re.findall(r"^:label: (?:thm|obs)-", prose(path), flags=re.MULTILINE))
    assert lines_of(jupytext.read(path)) <= 150 * statements
