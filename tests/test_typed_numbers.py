"""No number that a run measures is typed by hand into what every reader reads: title, lead, captions and findings."""

import ast
import re
from pathlib import Path

import pytest

from workflow.book.anatomy import BLOCK, CELL
from workflow.book.catalogue import chapters, source

ROOT = Path(__file__).parents[1]
CONSTANTS = {  # of statements, settings, number formats and the papers, which no run of the page can change
    "beyond/adam-clocks": {"0.1", "0.3", "3"},  # lengths of steps
    "beyond/optimiser-rates": {"2000"},  # log 1 / .999 / 2
    "beyond/language-model": {"256"},  # the square of a sixteenth of the decay
    "mirror-descent/bregman-divergence": {"2.2", "1e-16"},  # float64 next to 1
    "beyond/real-transformer": {"1.1"},  # a p of mirror descent
    "mirror-descent/mirror-networks": {"0.866", "0.80", "10,000"},  # two distributions; photographs of the test set
    "mirror-descent/mirror-rates": {"0.5"},  # a power in the theorem
    "mirror-descent/sentiment": {"1.1", "1.5", "3", "1.6", "2.3"},  # p and leads as the authors print them
}
EVERYWHERE = {"0%", "95%", "100%", "32", "64", "45", "90"}  # intervals, bits, degrees
FINDINGS = re.compile(r":::\{findings\}\n(.*?)\n:::\n", re.S)
NAMES = re.compile(r"(?:Figure|Lemma|Theorem|Step)s? [\d()a-z]+(?:(?:, | and | to )[\d()a-z]+)*")
SKIPPED = re.compile(rf"\{{[\w:]+\}}`[^`]*`|`[^`]*`|\]\([^)]*\)|[_^](?:\{{[^{{}}]*\}}|\w)|\\frac\d\d|{NAMES.pattern}")
NUMBER = re.compile(r"(?<![\w.-])(\d+(?:,\d{3})*(?:\.\d+)?(?:e-?\d+)?)(?!\w)(?: ?\\?(%))?")


def front(text):
    """What every reader of a chapter reads."""
    body = re.sub(r"\A---\n(?s:.*?)\n---\n|^% .*$", "", text, flags=re.M)
    captions = [block["body"] for block in BLOCK.finditer(body) if block["kind"] == "figure"]
    lead = body.partition("\n# ")[2].partition("\n```")[0]
    parts = [lead, *(re.sub(r"^:.*$", "", part, flags=re.M) for part in captions), *FINDINGS.findall(body)]
    return "\n\n".join(parts)


def typed(text):
    """Numbers that are written in a text, and not quoted from a run."""
    text = re.sub(r"10\^\{?(-?\d+)\}?", r" 1e\1 ", text)
    return ["".join(found) for found in NUMBER.findall(SKIPPED.sub(" ", text))]


def unexplained(text, constants=frozenset()):
    """Numbers of the front of a chapter that are neither settings in its code, nor small counts, nor constants."""
    cells = ast.walk(ast.parse("\n".join(cell["code"] for cell in CELL.finditer(text))))
    known = {
        abs(float(node.value)) for node in cells if isinstance(node, ast.Constant) and type(node.value) in (int, float)
    }

    def explained(number):
        value = float(number.rstrip("%").replace(",", ""))
        values = {round(value / 100, 9), round(1 - value / 100, 9)} if "%" in number else {value}
        return number in constants | EVERYWHERE or values & known or (value in (1, 2) and "%" not in number)

    return [number for number in typed(front(text)) if not explained(number)]


def test_no_chapter_types_a_number_that_its_run_measures(monkeypatch):
    monkeypatch.chdir(ROOT)
    texts = {chapter: source(chapter).read_text("utf-8") for chapter in chapters()}
    found = {name: unexplained(text, CONSTANTS.get(name, frozenset())) for name, text in texts.items()}
    assert {name: numbers for name, numbers in found.items() if numbers} == {}


@pytest.mark.parametrize(
    ("place", "typed"),
    [("- Write at most", "3.7%"), ("A caption opens", "0.037"), ("This is the lead", "$4 \\times 10^{-9}$")],
    ids=["finding", "caption", "lead"],
)
def test_a_measured_number_that_is_typed_is_found(place, typed):
    template = (ROOT / "book/_template.md").read_text("utf-8")
    assert not unexplained(template)
    assert place in template
    assert unexplained(template.replace(place, f"It ends within {typed}. {place}"))
