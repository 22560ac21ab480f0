"""The chapters: what they cover, and that a second build says the same; their anatomy is in test_anatomy.py."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.processes import said
from workflow.book import catalogue

ROOT = Path(__file__).parents[1]
REGISTER = yaml.safe_load((ROOT / "book/statements.yml").read_text("utf-8"))["papers"]


def test_every_chapter_has_claims_and_something_to_hold_them_against(built):
    rows = json.loads((built / "build/ledger.json").read_text())["claims"]
    assert len(catalogue.chapters()) > 20
    for chapter in catalogue.chapters():
        kinds = {row["kind"] for row in rows if row["chapter"] == chapter}
        assert "claim" in kinds, chapter
        assert kinds & {"ablation", "baseline"}, chapter


def test_chapters_cover_the_items_that_the_register_gives_them(built):
    rows = json.loads((built / "build/ledger.json").read_text())["claims"]
    covered = {(row["paper"], row["item"]) for row in rows if row["kind"] == "claim"}
    for paper in REGISTER:
        for entry in paper["items"]:
            assert ("chapter" in entry) == ((paper["arxiv"], entry["item"]) in covered), entry


def test_a_claim_on_other_data_is_a_miniature_and_no_other_is(built):
    other = {(paper["arxiv"], entry["item"]) for paper in REGISTER for entry in paper["items"] if "data" in entry}
    rows = json.loads((built / "build/ledger.json").read_text())["claims"]
    for row in (row for row in rows if row["of"] == "paper" and row["kind"] != "baseline"):
        if (row["paper"], row["item"]) in other and not row["quote"]:  # a sentence is false wherever it is refuted
            assert row["scale"] != "exact", row["id"]
        if row["kind"] == "claim" and row["verdict"] != "undecided":
            assert (row["scale"] != "exact") == row["verdict"].endswith("in miniature"), row["id"]


POSSIBLE = {  # by what a row measures, unless it is a difference or an error
    r"(share|right|attention)\b": (0, 1),
    r".*1 - (\\)?cos": (0, 2),
    r".*correlation\b": (-1, 1),
}
DIFFERENCE = re.compile(r"\b(less|minus|relative|change|rises?|over|power|growth|lead|distance|error)\b", re.IGNORECASE)


def test_no_interval_leaves_what_is_possible(built):
    rows = json.loads((built / "build/ledger.json").read_text())["claims"]
    rows = [row for row in rows if row["interval"] and not DIFFERENCE.search(row["statement"])]
    for kind, (least, largest) in POSSIBLE.items():
        ends = {row["id"]: row["interval"] for row in rows if re.match(kind, row["statement"], re.IGNORECASE)}
        assert len(ends) > 1  # so the words fit the ledger
        assert {name for name, (low, high) in ends.items() if low < least or high > largest} == set()


AROUND = ("intro", "in-ten-minutes", "beliefs", "corrections", "compare", "which-theorem", "known-since", "how-to-read")
THRESHOLDS = ("99.99%", "5%")  # which the code of a chapter, or what would change our mind, has, not a row


@pytest.mark.parametrize("page", AROUND)
def test_a_page_around_the_chapters_takes_each_share_and_angle_from_the_ledger(page):
    source = (ROOT / f"book/{page}.md").read_text("utf-8")
    prose = re.sub(r"^```.*?^```|\{[a-z:]+\}`[^`]*`|`[^`]*`", "", source, flags=re.MULTILINE | re.DOTALL)
    typed = re.findall(r"\d[\d.,]*\s?(?:\\?%|°)", prose)
    assert [number for number in typed if number not in THRESHOLDS] == []


@pytest.mark.again
def test_second_build_with_four_threads_agrees_within_the_tolerances(built, tmp_path):
    folders = ("book", "lib", "heads", "studies", "workflow")
    for name in (*folders, "_toc.yml", "_config.yml", "requirements.lock", "pyproject.toml"):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, tmp_path / name)
    flags = {"THREADS": "4", "JOBS": str(4 * os.cpu_count())}  # as many chapters at a time as there are cores
    command = [sys.executable, "-m", "workflow.commands.build", "build/ledger.json"]
    done = subprocess.run(command, cwd=tmp_path, env=os.environ | flags, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = (
        {row["id"]: row for row in json.loads((folder / "build/ledger.json").read_text())["claims"]}
        for folder in (built, tmp_path)
    )
    assert first.keys() == second.keys()
    for name, row in first.items():
        assert second[name]["verdict"] == row["verdict"], name
        assert abs(second[name]["measured"] - row["measured"]) <= row["tolerance"], name


def test_template_runs(tmp_path):
    for folder in ("lib", "heads", "studies", "workflow"):
        shutil.copytree(ROOT / folder, tmp_path / folder)
    (tmp_path / "book").mkdir()
    shutil.copy(ROOT / "book/_template.md", tmp_path / "book/template.md")
    shutil.copy(ROOT / "book/statements.yml", tmp_path / "book")
    (tmp_path / "book/intro.md").write_text("# Intro\n")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/intro\nchapters:\n  - file: book/template\n")
    told = said(sys.executable, "-m", "workflow.commands.chapter", "template", folder=tmp_path)
    assert "1 confirmed, 1 breaks the claim" in told
