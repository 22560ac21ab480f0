"""The README: its example prints what stands below it, and its numbers are those of the ledger."""

import json
import re
from pathlib import Path

from workflow.book.catalogue import chapters

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "README.md").read_text("utf-8")


def test_the_example_prints_what_stands_below_it(capsys):
    code, printed = re.search(r"```python\n(.*?)```\s+```text\n(.*?)```", TEXT, re.DOTALL).groups()
    exec(code, {})
    assert capsys.readouterr().out == printed


def test_chapters_and_rows_are_as_many_as_it_says(built, monkeypatch):
    monkeypatch.chdir(ROOT)
    rows = json.loads((built / "build/ledger.json").read_text("utf-8"))["claims"]
    assert re.search(r"(\d+) chapters make (\d+) checked rows", TEXT).groups() == (f"{len(chapters())}", f"{len(rows)}")
