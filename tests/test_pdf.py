"""The whole book as one PDF: its pages in order, numbered through, with bookmarks, and no link to a file."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from workflow.book.catalogue import BookError
from workflow.site import browser

ROOT = Path(__file__).parents[1]
PAGE = """<html data-theme="dark"><head><title>{title} — Small</title><script src="{up}book.js" defer></script>
</head><body><article><h1>{title}<a class="headerlink" href="#x">#</a></h1>{body}</article></body></html>"""
BODIES = {
    "intro": ("Start", "", '<a href="part/below.html#far">there</a> <a href="other.html">away</a>'),
    "part/one": ("First", "../", "<details>Unfolded</details>" + '<p style="break-after: page">long</p>' * 3),
    "part/below": ("Second", "../", '<p style="break-after: page">near</p><p id="far">Far</p><a href="#far">x</a>'),
}


FILES = "".join(f"  - file: book/{name}\n" for name in [*BODIES][1:])


@pytest.fixture
def site(tmp_path):
    """A project with a built site of three pages, of one, three and two sheets and the script of the book's pages."""
    (tmp_path / "_config.yml").write_text("title: Small\nauthor: Somebody\n")
    (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/intro\nchapters:\n" + FILES)
    for name, (title, up, body) in BODIES.items():
        path = tmp_path / f"build/html/book/{name}.html"
        source = tmp_path / f"book/{name}.md"
        for folder in (path.parent, source.parent):
            folder.mkdir(parents=True, exist_ok=True)
        source.touch()
        path.write_text(PAGE.format(title=title, up=up, body=body))
    (tmp_path / "build/html/index.html").touch()
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


def test_pages_are_joined_in_order_with_bookmarks(site):
    pypdf = pytest.importorskip("pypdf")
    if not browser.browser_path():
        pytest.skip("no chromium on this machine")
    done = make(site)
    assert done.returncode == 0, done.stderr
    book = pypdf.PdfReader(site / "build/book.pdf")
    texts = [page.extract_text().split() for page in book.pages]
    assert [words[0] for words in texts] == [str(number) for number in range(1, 7)]
    assert [n for n, words in enumerate(texts) if {"Start#", "First#", "Second#"} & {*words}] == [0, 1, 4]
    assert "Unfolded" in texts[1]
    assert [mark.title for mark in book.outline] == ["Start", "First", "Second"]
    assert [book.get_destination_page_number(mark) for mark in book.outline] == [0, 1, 4]
    assert not [page for page in book.pages if "/Annots" in page]


def test_a_missing_site_or_browser_is_one_sentence(site, monkeypatch):
    pytest.importorskip("pypdf")
    monkeypatch.setattr(browser, "BROWSERS", ("chromium-of-nobody",))
    with pytest.raises(BookError, match=r"^no chromium on this machine: [^\n]+$"), browser.chromium():
        pass
    shutil.rmtree(site / "build")
    done = make(site)
    assert done.returncode == 1
    assert done.stderr == "there is no build/html/index.html: run make book\n"
