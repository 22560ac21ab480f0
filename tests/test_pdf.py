"""The whole book as one PDF: its pages in order, numbered through, with contents, bookmarks and links that hold."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workflow.book.catalogue import BookError
from workflow.site import browser

ROOT = Path(__file__).parents[1]
LIST = """<nav class="bd-links"><ul><li><a href="#">Start</a></li></ul><p class="caption">Part</p>
<ul><li><a href="{up}part/one.html">One</a><ul><li><a href="{up}part/below.html">Below</a></li></ul></li></ul></nav>"""
PAGE = """<html data-theme="dark"><head><title>{title} — Small</title><script src="{up}book.js" defer></script>
<style>nav {{ display: none; }}</style></head><body>{list}<article><h1>{title}</h1>{body}</article></body></html>"""
BODIES = {
    "intro": ("Start", "", '<a href="part/below.html#far">there</a> <a href="other.html">away</a>'),
    "part/one": ("First", "../", "<details>Unfolded</details>" + '<p style="break-after: page">long</p>' * 3),
    "part/below": ("Second", "../", '<p style="break-after: page">near</p><p id="far">Far</p><a href="#far">x</a>'),
}


@pytest.fixture
def site(tmp_path):
    """A project with a built site of three pages, of one, three and two sheets and the script of the book's pages."""
    (tmp_path / "_config.yml").write_text("title: Small\nauthor: Somebody\n")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/intro\n")
    for name, (title, up, body) in BODIES.items():
        path = tmp_path / f"build/html/book/{name}.html"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(PAGE.format(title=title, up=up, list=LIST.format(up=up), body=body))
    (tmp_path / "build/html/index.html").touch()
    (tmp_path / "book").mkdir()
    (tmp_path / "book/intro.md").touch()
    shutil.copy(ROOT / "book/_static/book.js", tmp_path / "build/html/book")
    return tmp_path


def test_other_names_of_the_browser_are_known(tmp_path, monkeypatch):
    chrome = tmp_path / "google-chrome"
    chrome.write_text("#!/bin/sh\n")
    chrome.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert browser.browser_path() == str(chrome)


def make(folder, **given):
    command = [sys.executable, "-m", "workflow.commands.pdf"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)} | given
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


def test_pages_are_joined_in_order_with_contents_bookmarks_and_links(site):
    pypdf = pytest.importorskip("pypdf")
    if not browser.browser_path():
        pytest.skip("no chromium on this machine")
    done = make(site)
    assert done.returncode == 0, done.stderr
    book = pypdf.PdfReader(site / "build/book.pdf")
    texts = [page.extract_text().split() for page in book.pages]
    assert [words[1] for words in texts] == [str(number) for number in range(1, 8)]  # after what runs above
    assert [n for n, words in enumerate(texts) if {"First", "Second"} & {*words}] == [2, 5]
    assert " ".join(texts[0]).endswith("Start 2 Part One 3 Below 6")
    assert "Unfolded" in texts[2]
    start, part, (one, (below,)) = book.outline
    assert [mark.title for mark in (start, part, one, below)] == ["Start", "Part", "One", "Below"]
    assert [book.get_destination_page_number(mark) for mark in (start, part, one, below)] == [1, 2, 2, 5]
    (link,) = [note.get_object() for note in book.pages[1]["/Annots"]]  # the one to a file outside the book is gone
    assert link["/Dest"][0].get_object() == book.pages[6]


def test_a_missing_site_or_browser_is_one_sentence(site, monkeypatch):
    pytest.importorskip("pypdf")
    monkeypatch.setattr(browser, "BROWSERS", ("chromium-of-nobody",))
    with pytest.raises(BookError, match=r"^no chromium on this machine: [^\n]+$"), browser.chromium():
        pass
    shutil.rmtree(site / "build")
    done = make(site)
    assert done.returncode == 1
    assert done.stderr == "there is no build/html/index.html: run make book\n"
