"""Verdicts that pages quote are those of the ledger: beside a row or a chapter, and on the front of a chapter."""

import json
import re
from pathlib import Path

import pytest

from lib.ledger import HELD, VERDICTS
from workflow.book.anatomy import CELL
from workflow.book.catalogue import chapters
from workflow.book.ledger import by_place

ROOT = Path(__file__).parents[1]
LEDGER = by_place(json.loads((ROOT / "book/ledger.lock.json").read_text("utf-8"))["rows"].values())
PAGES = [path for path in (*ROOT.glob("book/*.md"), *ROOT.glob("book/*/*.md")) if not path.name.startswith("_")]
PAGES += [ROOT / "README.md", ROOT / "book/story.yml"]
QUOTED = re.compile(r"\{measured\}`([^`:]+):verdict`")
TYPED = re.compile(rf"(?<![\w-])({'|'.join(sorted(VERDICTS, key=len, reverse=True))})\b(?!\*? means)", re.I)
LINKED = re.compile(r"\{(?:doc|ref)\}`(?:[^`<]*<)?/?([^`>]+)>?`|\]\(([^)\s]+?)(?:\.md|\.html)?(?:#[^)]*)?\)")
FRONT = re.compile(r"\n# .*?(?=\n## )", re.S)
BELIEVED = re.compile(r"^:::+\{believed\} ([^\n]+)\n(?::verdict: (.+)$)?", re.M)


def parts(text):
    """Sentences and table cells of a page, without its code and the options of its blocks; one sentence is a line."""
    for line in re.sub(r"^:\w[\w-]*:.*$", "", CELL.sub("", text), flags=re.M).splitlines():
        yield from (
            line.strip("| ").split("|") if line.startswith("|") else re.split(r"(?<=[.?!])\s+(?=\W*[A-Z]|\{)", line)
        )


def names_a_row_or_chapter(part, known):
    """Tell whether a sentence names a row by its id, or a chapter by a link to its page or label."""
    linked = {target.rpartition("/")[2] for pair in LINKED.findall(part) for target in pair}
    return bool(linked & {name.rpartition("/")[2] for name in known}) or any(
        f"{row[0]}/{row[1]}" in known for row in re.findall(r"([\w-]+)/([\w-]+)/[\w-]+", part)
    )


def typed_verdicts(text, known, front=False):
    """Sentences that type a verdict of a row or chapter that they name; of a chapter's ``front`` all that type one."""
    plain = {part.strip(): re.sub(rf"\{{glue:\w+\}}`[^`]*`|{QUOTED.pattern}", "", part) for part in parts(text)}
    return [part for part in plain if TYPED.search(plain[part]) and (front or names_a_row_or_chapter(part, known))]


@pytest.fixture
def known(monkeypatch):
    monkeypatch.chdir(ROOT)
    return set(chapters())


def test_no_page_types_a_verdict_that_the_ledger_has(known):
    found = {path: typed_verdicts(path.read_text("utf-8"), known) for path in PAGES}
    assert {path: parts for path, parts in found.items() if parts} == {}
    fronts = {name: FRONT.search((ROOT / f"book/{name}.md").read_text("utf-8"))[0] for name in known}
    assert {name: parts for name, front in fronts.items() if (parts := typed_verdicts(front, known, front=True))} == {}


def test_each_row_that_supports_a_sentence_has_its_verdict():
    texts = [path.read_text("utf-8") for path in PAGES]
    asked = {(row, word) for text in texts for rows, word in BELIEVED.findall(text) for row in rows.split(", ")}
    assert {row for row, word in asked if LEDGER[row]["verdict"] not in ([word] if word else HELD)} == set()
    assert {"", "corrected"} <= {word for _, word in asked}
    assert {row for text in texts for row in QUOTED.findall(text)} <= set(LEDGER)


@pytest.mark.parametrize(
    ("said", "typed"),
    [
        ("The growth is undecided ({doc}`rates/step-rules`).", True),
        ("Of {doc}`Theorem 2 <max-margin/theorem-2>` {verdict}`corrected` is said.", True),
        ("| {ref}`lemma-4`: not seen in miniature |", True),
        ("`rates/step-rules/exponent` is *refuted*.", True),
        ("It is {measured}`rates/step-rules/exponent:verdict` ({doc}`rates/step-rules`).", False),
        ("A claim may be refuted. {doc}`rates/step-rules` has it.", False),
        ("| undecided | {doc}`rates/step-rules` |", False),
    ],
)
def test_a_typed_verdict_beside_a_row_or_chapter_is_found(known, said, typed):
    assert bool(typed_verdicts(f"# One\n\n{said}\n", known)) == typed
