"""Every `make chapter` that a page prints is one that the workflow takes."""

import re
import shlex
from pathlib import Path

import pytest

from workflow.book import catalogue, parameters
from workflow.commands import build

ROOT = Path(__file__).parents[1]

BOOK = sorted((ROOT / "book").rglob("*.md"))

LINE = re.compile(r"^make chapter (?P<rest>(?:[^\"\n\\]|\\\n)*(?:\"[^\"]*\")?[^\"\n]*)", re.MULTILINE)


def printed():
    """Yield page and words of every line that is shown in a block of its own, some over several lines."""
    for page in [*BOOK, ROOT / "README.md"]:
        for match in LINE.finditer(page.read_text("utf-8")):
            words = dict(word.split("=", 1) for word in shlex.split(match["rest"].replace("\\\n", ""), comments=True))
            name = "_template" if page.stem == "_template" else words.get("NAME", "")
            yield pytest.param(name, words, id=f"{page.stem}: {match[0].splitlines()[0]}")


@pytest.fixture(autouse=True)
def _here(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.parametrize(("name", "words"), list(printed()))
def test_printed_command_fits_its_chapter(name, words):
    assert words.keys() <= {"NAME", "PARAMS", "TIMEOUT", "THREADS"}
    assert float(words.get("TIMEOUT", 1)) > 0
    chapter = name if name == "_template" else catalogue.find(name)
    declared = parameters.declared(catalogue.read(chapter))
    values = parameters.check(parameters.parse(words.get("PARAMS", "")), declared)
    assert not values or any(value != declared[name][1] for name, value in values.items()), "it changes nothing"


def test_every_chapter_prints_one():
    pages = {case.values[0] for case in printed()}
    assert {chapter.rpartition("/")[2] for chapter in catalogue.chapters()} <= pages


FREE = {("max-margin/figure-6", "folder"), ("beyond/your-attention", "file"), ("beyond/your-attention", "tokens")}


@pytest.mark.parametrize("name", [path.stem for path in BOOK if "[parameters" in path.read_text("utf-8")])
def test_every_parameter_has_a_range_and_its_default_is_in_it(name):
    chapter = name if name == "_template" else catalogue.find(name)
    declared = parameters.declared(catalogue.read(chapter))
    parameters.check({}, declared)
    for parameter, (kind, _, text) in declared.items():
        asked = parameters.range_of(kind, text)
        if kind == "str":
            assert asked or (chapter, parameter) in FREE
        elif kind != "bool" and parameter != "seed":
            assert re.search(" to |at least|above", asked), f"{parameter} has no lower bound"
            assert re.search(" to |at most|below|of them", asked), f"{parameter} has no upper bound"


def test_what_make_book_quick_runs_is_one_chapter_of_each_part(tmp_path, monkeypatch):
    (tmp_path / "book").symlink_to(ROOT / "book")
    (tmp_path / "_toc.yml").symlink_to(ROOT / "_toc.yml")
    monkeypatch.chdir(tmp_path)
    parts = list(dict.fromkeys(name.partition("/")[0] for name in catalogue.chapters()))
    build.lay_out_part()
    monkeypatch.chdir(build.PART)
    assert catalogue.chapters() == list(build.QUICK)
    assert [name.partition("/")[0] for name in build.QUICK] == parts
