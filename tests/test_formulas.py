"""Formulas become MathML while the site is built."""

import pytest
from bs4 import BeautifulSoup
from sphinx.testing.util import SphinxTestApp

from lib.ledger import formulas

SETTINGS = {
    "extensions": ["myst_parser", "workflow.sphinx_ext.formulas"],
    "myst_enable_extensions": ["dollarmath"],
    "html_math_renderer": "mathml",
    "mathjax3_config": {"tex": {"macros": {"norm": ["\\lVert #1 \\rVert", 1]}}},
    "html_theme": "basic",
}


@pytest.fixture
def page(tmp_path):
    """Function that lets Sphinx make a page: the page taken apart, and warnings."""

    def make(source):
        (tmp_path / "index.md").write_text(f"# Page\n\n{source}\n", "utf-8")
        (tmp_path / "conf.py").touch()
        app = SphinxTestApp("html", tmp_path, confoverrides=SETTINGS)
        app.build()
        app.cleanup()
        made = BeautifulSoup((tmp_path / "_build/html/index.html").read_text("utf-8"), "html.parser")
        return made.select_one("div.body"), app.warning.getvalue()

    return make


def test_formulas_of_text_of_blocks_and_of_tables_are_set_and_keep_their_tex(page):
    table = f"```{{raw}} html\n<table><tr><td>{formulas('Gap $a < b$')}</td></tr></table>\n```"
    body, warnings = page(f"The length $\\norm{{w}}$.\n\n```{{math}}\n:label: one\n\\frac{{1}}{{x}}\n```\n\n{table}")
    inline, block, cell = body.select("math")
    assert not warnings
    assert inline.get_text().count("‖") == 2
    assert block.select("mfrac")
    assert "(1)" in block.find_parent("div", class_="math").select_one(".eqno").get_text()
    assert cell.get_text() == "a<b"
    assert [one["alttext"] for one in (inline, block, cell)] == [
        "\\norm{w}", "\\frac{1}{x}", "a < b"
    ]  # fmt: skip
    assert "\\(" not in body.get_text()


@pytest.mark.parametrize(
    ("formula", "said"),
    [("\\frobnicate{x}", "cannot be set"), ("x^{", "cannot be set"), ("\\bigl( x \\bigr)^2", "put {} around")],
)
def test_a_formula_that_cannot_be_drawn_is_a_warning_that_names_it(page, formula, said):
    _, warnings = page(f"Here ${formula}$.")
    assert said in warnings
    assert formula.replace("\\", "\\\\") in warnings


def test_brackets_with_an_index_are_large_where_braces_hold_the_pair(page):
    body, warnings = page("Here ${\\bigl( x \\bigr)}^2$.")
    assert not warnings
    assert body.select_one("msup > mrow > mo")
