"""The anatomy of chapters: the book has no fault, and a fault of each kind is found, with its line."""

from pathlib import Path

import pytest

from workflow.book.anatomy import faults
from workflow.commands import anatomy

ROOT = Path(__file__).parents[1]
TEMPLATE = (ROOT / "book/_template.md").read_text("utf-8")
PLANTED = {
    "no lead": ("Copy this file to", "Copy.\n\n## Too early", "no {glue:figure} between the lead"),
    "short lead": (
        TEMPLATE.split("seconds\n")[0].split("fast\n")[1].split("```")[0],
        "\n\nIt is.\n\n",
        "no lead of more",
    ),
    "findings elsewhere": (":::{findings}", "Words.\n\n:::{findings}", "0 findings"),
    "five findings": ("- The build", "- a\n- b\n- c\n- The build", "5 findings"),
    "section out of order": ("## Evidence", "## Proof", "sections out of order"),
    "no citation": ("{cite:t}", "{ref}", "the statement has no {cite:…}"),
    "box against its rows": ('"Definition 2", "printed"', '"Proposition 0", "printed"', "is 'printed' for its rows"),
    "unknown badge": (":class: restored", ":class: heard", ":class: of Proposition 0 is 'heard'"),
    "box of nobody": (" (Authors et al.)", "", "Proposition 0 has no authors"),
    "no block": ("```{glue:} tab-template-controls\n```\n", "", "tab-template-controls is shown, but"),
    "rows as a figure": ("{glue:} tab-template-controls", "{glue:figure} tab-template-controls", "a table of rows in"),
    "no alt text": (":alt: Two falling curves", ":alt: Curves\n:width: 9", "lacks its :name: or an :alt:"),
    "caption without a finding": ("**Along the", "Along the", "does not open with its finding in bold"),
    "caption in a cell": (":tags: [parameters]", ":tags: [parameters]\n:alt: Curves", "other options than :tags:"),
    "wide line": ("import torch\n", f"import torch  # {'x' * 70}\n", "more than 79 characters"),
    "long cell": ("import torch\n", "import torch\n" * 20, "more than 25 lines"),
    "verdict that is not shown": ('show("tab-template-evidence", verdict(', "dict(a=verdict(", "does not end in show"),
    "no parameters": (":tags: [parameters]\n\n", "", "the first cell is not tagged"),
    "no surroundings": ("lib.notebook()\n", "", "lib.notebook() is called once"),
    "too many words": ("Describe in two", "word " * 1100, "words are read without opening a fold"),
    "too much code": ("draw = torch", "x = 0\n" * 150 + "draw = torch", "lines of code for 1 statements"),
}


def test_book_has_no_fault(monkeypatch):
    monkeypatch.chdir(ROOT)
    anatomy.main()


@pytest.mark.parametrize(("old", "new", "words"), PLANTED.values(), ids=PLANTED)
def test_planted_fault_is_found(tmp_path, old, new, words):
    assert old in TEMPLATE
    path = tmp_path / "template.md"
    path.write_text(TEMPLATE.replace(old, new), "utf-8")
    assert any(words in fault for fault in faults(path)), faults(path)


def test_fault_names_its_line_and_ends_the_command(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "book").mkdir()
    (tmp_path / "book/_template.md").write_text(TEMPLATE.replace("## Evidence", "## Proof"), "utf-8")
    (tmp_path / "_toc.yml").write_text("root: book/_template\n")
    line = TEMPLATE[: TEMPLATE.index("## Evidence")].count("\n") + 1
    with pytest.raises(SystemExit, match=rf"^book/_template\.md:{line}: sections out of order"):
        anatomy.main()
