"""Rows that can be cited: each has an address, which outlives the row."""

import re
from pathlib import Path

import pytest
from small_book import Book, collected, left, row
from test_links import broken

from workflow.book import ledger, lock
from workflow.book.catalogue import BookError
from workflow.site import rows


def addresses():
    return re.findall(r'<a class="row-address" id="([^"]+)" href="#\1">\1</a>', rows.rows())


def test_each_row_has_one_address_and_it_does_not_change_when_rows_are_added(inside):
    collected(row("last"))
    assert addresses() == ["good/last"]
    collected(row("first"), row("lemma-4.1"), row("last"))
    assert addresses() == ["good/first", "good/lemma-4.1", "good/last"]


def test_two_chapters_of_one_last_name_are_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    book = Book(tmp_path).add("good")
    (tmp_path / "book/other").mkdir()
    (tmp_path / "book/other/good.md").write_text((tmp_path / "book/part/good.md").read_text())
    (tmp_path / "_toc.yml").write_text((tmp_path / "_toc.yml").read_text() + "  - file: book/other/good\n")
    left(row())
    left(row(), chapter="other/good")
    with pytest.raises(BookError, match="other/good/half: has the address of part/good/half"):
        ledger.collect()
    assert book.names == ["good"]


def test_a_row_that_goes_leaves_its_reason_at_its_address(inside):
    collected(row(), row("other"))
    lock.accept({"part/good"}, "")
    collected(row())
    lock.accept({"part/good"}, "it repeated half")
    assert addresses() == ["good/half", "good/other"]
    assert "was reproduced; It is so: 0.001, at most 0.01. it repeated half" in rows.rows()
    collected(row(), row("other"))
    lock.accept({"part/good"}, "")
    assert addresses() == ["good/half", "good/other"], "a row that comes back takes its address back"


def test_a_row_keeps_its_address_where_it_moves(inside):
    collected(row())
    lock.accept({"part/good"}, "")
    inside.add("twin")
    Path("book/part/good.md").unlink()
    Path("_toc.yml").write_text(Path("_toc.yml").read_text().replace("  - file: book/part/good\n", ""))
    collected(row("good/half"), chapter="part/twin")
    lock.compare()
    assert addresses() == ["good/half"]


def test_verdicts_that_changed_are_a_page_with_changed_tests_first(inside):
    collected(row(), row("other"))
    lock.accept({"part/good"}, "")
    collected(row(measured=2e-2), row("other", bound=2e-2))
    lock.accept({"part/good"}, "a better median")
    tests, others = rows.changed().split("## ")[1:]
    assert "good/other" in tests
    assert "good/half" in others
    assert "a better median" in tests
    assert '<a id="was-good/half" href="rows.html#good/half">good/half</a>' in others
    assert rows.rows().count('href="verdict-changes.html#was-good/half"') == 1


@pytest.mark.parametrize(
    ("about", "drawn"),
    [
        ({"measured": 1e-2, "bound": 1e-2}, [30]),
        ({"measured": 1e-3, "bound": 1e-2}, [21]),
        ({"measured": 1e-9, "bound": 1e-2}, [2]),
        ({"measured": -1e-3, "bound": -1e-2}, [39]),
        ({"measured": 0.5, "bound": 0, "interval": [-1, 0.75]}, [44, 2, 51]),
        ({"measured": 7.0, "bound": None}, []),
        ({"measured": 0, "bound": 0}, [30]),
    ],
)
def test_a_number_stands_on_its_side_of_the_bound(about, drawn):
    made = rows.strip({"interval": None} | about)
    dot, line = re.findall(r'cx="(\d+)"', made), re.findall(r"M(\d+) 5H(\d+)", made)
    assert [int(place) for place in (*dot, *(line[0] if line else ()))] == drawn


def test_a_row_of_a_merged_chapter_keeps_its_id_and_the_page_leads_on(inside, tmp_path):
    collected(row("third"))
    Path("book/moved.yml").write_text("other/far: {to: part/good, rows: {half: third}}\n")
    collected(row())
    (entry,) = ledger.ledger()
    assert (entry["id"], entry["chapter"], entry["name"]) == ("other/far/third", "part/good", "half")
    assert addresses() == ["far/third"]
    (tmp_path / "site/book/other").mkdir(parents=True)
    rows.forward(tmp_path / "site")
    assert broken(tmp_path / "site") == ["book/other/far.html: ../part/good.html"]
    assert 'content="0; url=../part/good.html"' in (tmp_path / "site/book/other/far.html").read_text("utf-8")
