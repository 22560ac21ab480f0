"""What the site does once instead of on every page: pages come out as Sphinx and its extensions make them."""

from types import SimpleNamespace

import pytest
from sphinx.testing.util import SphinxTestApp

from workflow.sphinx_ext import once

PAGES = {
    "index": "Title\n=====\n\n.. toctree::\n   :caption: One\n\n   part/first\n   deep/er/second\n\n"
    ".. toctree::\n   :caption: Two\n\n   third\n   part/fourth\n"
    "   Elsewhere <https://example.org/third.html>\n   last\n",
    "part/first": "First\n=====\n",
    "deep/er/second": "Second\n======\n",
    "third": "Third\n=====\n\n.. toctree::\n\n   part/inner\n",
    "part/inner": "Inner\n=====\n",
    "part/fourth": "Fourth\n======\n",
    "last": "Last\n====\n",
}
OPTIONS = {"collapse": False, "includehidden": True, "titles_only": True, "maxdepth": 4}
CODE = '<div class="highlight-ipython3 notranslate"><div class="highlight"><pre><span>{}</span>\n</pre></div>\n</div>'


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """A small site that is built."""
    source = tmp_path_factory.mktemp("site")
    (source / "conf.py").write_text("")
    for name, text in PAGES.items():
        (source / f"{name}.rst").parent.mkdir(parents=True, exist_ok=True)
        (source / f"{name}.rst").write_text(text)
    app = SphinxTestApp("html", srcdir=source)
    app.build()
    yield app
    app.cleanup()


@pytest.mark.parametrize("page", [*PAGES, "search", "_modules/lib/new"])
def test_the_list_of_pages_is_that_of_sphinx_for_each_page(app, page):
    shared = once.list_of_pages(app, tuple(OPTIONS.items()))
    listed = once.own(shared, app.builder.get_target_uri(page))
    if page == "part/inner":  # its list is in another one
        assert listed is None
    else:
        assert listed == app.builder._get_local_toctree(page, **OPTIONS)


def test_code_comes_back_changed_and_all_else_as_it_was(tmp_path):
    page, plain = tmp_path / "page.html", tmp_path / "plain.html"
    around = "<p>before</p>\n{}\n<p class='x' id=y>&nbsp;between<br></p>{}<details>\n{}</details>\n"
    page.write_text(around.format(*map(CODE.format, ("one", "two", "&lt;/pre&gt;"))))
    plain.write_text("<p>no code</p>")
    app = SimpleNamespace(
        env=SimpleNamespace(found_docs=["page", "plain"]), around_code={},
        builder=SimpleNamespace(get_outfilename=lambda name: tmp_path / f"{name}.html"),
    )  # fmt: skip
    once.take_out_code(app, None)
    assert "before" not in page.read_text()
    assert page.read_text().count("<pre>") == 3
    page.write_text(page.read_text().replace("two", '<a href="two.html">two</a>'))
    once.put_back_code(app, None)
    blocks = "one", '<a href="two.html">two</a>', "&lt;/pre&gt;"
    assert page.read_text() == around.format(*map(CODE.format, blocks))
    assert plain.read_text() == "<p>no code</p>"
