"""Rows that can be cited: each has an address, which outlives the row."""

import re
from pathlib import Path

import pytest
import yaml
from small_book import Book, collected, left, row
from test_links import broken

from workflow.book import ledger, lock
from workflow.book.catalogue import BookError
from workflow.site import rows

GONE = Path("book/gone.yml")


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


def test_a_row_that_goes_leaves_a_note_at_its_address(inside, capsys):
    GONE.write_text("# old id -> what became of it\npart/good/older: is now half\n")
    collected(row(), row("other"))
    lock.accept()
    assert yaml.safe_load(GONE.read_text()) == {"part/good/older": "is now half"}
    collected(row())
    lock.accept()
    assert "say there what became of them: part/good/other" in capsys.readouterr().out
    noted = yaml.safe_load(GONE.read_text())
    assert noted.keys() == {"part/good/older", "part/good/other"}
    assert "reproduced (0.001)" in noted["part/good/other"]
    assert GONE.read_text().startswith("# old id")
    assert addresses() == ["good/half", "good/older", "good/other"]


def test_a_row_that_comes_back_takes_its_address_back(inside):
    collected(row(), row("other"))
    lock.accept()
    collected(row())
    lock.accept()
    collected(row(), row("other"))
    lock.accept()
    assert addresses() == ["good/half", "good/other"]
    collected(row())
    lock.accept()  # gone again: noted once
    assert list(yaml.safe_load(GONE.read_text())) == ["part/good/other"]


def test_a_chapter_that_moves_keeps_the_addresses_of_its_rows(inside):
    collected(row())
    lock.accept()
    Path("book/other").mkdir()
    Path("book/part/good.md").rename("book/other/good.md")
    Path("_toc.yml").write_text(Path("_toc.yml").read_text().replace("book/part/good", "book/other/good"))
    collected(row(), chapter="other/good")
    lock.accept()
    assert addresses() == ["good/half"]
    assert not GONE.exists()


def test_the_address_of_a_row_and_of_a_chapter_that_moved_lead_on(inside, tmp_path):
    moved = "{part/old/half: moved to part/good/half, other/far/third: moved to part/good/half, part/good/x: dropped}"
    GONE.write_text(moved)
    collected(row())
    assert addresses() == ["good/half", "old/half", "far/third", "good/x"]
    assert rows.rows().count('moved to <a href="#good/half">good/half</a>') == 2
    for folder in ("part", "other"):
        (tmp_path / "site/book" / folder).mkdir(parents=True)
    rows.forward(tmp_path / "site")
    written = {path.relative_to(tmp_path / "site/book").as_posix() for path in (tmp_path / "site").rglob("*.html")}
    assert written == {"part/old.html", "other/far.html"}
    assert broken(tmp_path / "site") == ["book/other/far.html: ../part/good.html", "book/part/old.html: good.html"]
    assert 'content="0; url=good.html"' in (tmp_path / "site/book/part/old.html").read_text("utf-8")
