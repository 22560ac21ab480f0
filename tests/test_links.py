"""Every link of the built site leads to a file that is there, downloads included, and to a place that is there."""

from html.parser import HTMLParser
from urllib.parse import unquote, urlsplit

import pytest


class Reader(HTMLParser):
    """Names of the places of a page, and the addresses that it links to or loads."""

    def __init__(self, text):
        super().__init__()
        self.places, self.addresses, self.base = {"", "top"}, set(), ""
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        """Keep what a tag names and where it leads."""
        known = dict(attributes)
        if tag == "base":
            self.base = known["href"]
            return
        self.places |= {known[name] for name in ("id", "name") if known.get(name)}
        self.addresses |= {known[name] for name in ("href", "src", "data-src") if known.get(name)}


def broken(site):
    """Links of a site that lead nowhere: the page and the address."""
    files = (path.resolve() for path in site.rglob("*.html") if not path.name.endswith("macros.html"))  # of the theme
    pages = {path: Reader(path.read_text("utf-8")) for path in files}
    lost = []
    for path, page in pages.items():
        for address in page.addresses:
            parts = urlsplit(address)
            if parts.scheme or parts.netloc:
                continue
            here = (path.parent / page.base) if page.base else path
            target = (here.parent / unquote(parts.path)).resolve() if parts.path else here.resolve()
            target = target / "index.html" if target.is_dir() else target
            place = unquote(parts.fragment)
            if not target.exists() or (target in pages and place not in pages[target].places):
                lost.append(f"{path.relative_to(site.resolve())}: {address}")
    return sorted(lost)


@pytest.mark.parametrize("address", ["gone.html", "../a.html", "#gone", "b.html#gone", "_static/gone.zip"])
def test_a_link_that_leads_nowhere_is_found(tmp_path, address):
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static/x.zip").write_text("")
    good = "".join(f'<a href="{known}">x</a>' for known in ("b.html#here", "#top", "_static/x.zip", "https://x.org/y"))
    (tmp_path / "a.html").write_text(good)
    (tmp_path / "b.html").write_text('<p id="here">')
    assert broken(tmp_path) == []
    (tmp_path / "a.html").write_text(f'{good}<a href="{address}">x</a>')
    assert broken(tmp_path) == [f"a.html: {address}"]


def test_links_of_a_page_with_a_base_start_there(tmp_path):
    (tmp_path / "book").mkdir()
    (tmp_path / "book/a.html").write_text('<a id="here" href="b.html">x</a>')
    (tmp_path / "book/b.html").write_text("")
    (tmp_path / "index.html").write_text('<base href="book/a.html"><a href="b.html">x</a><a href="#here">x</a>')
    assert broken(tmp_path) == []
    (tmp_path / "index.html").write_text('<base href="book/a.html"><a href="book/b.html">x</a>')
    assert broken(tmp_path) == ["index.html: book/b.html"]


def test_all_links_of_the_site_lead_somewhere(built):
    site = built / "build/html"
    assert broken(site) == []
