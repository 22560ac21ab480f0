"""Set formulas while the site is built, as MathML, which browsers draw and screen readers read without a script.

math-core translates TeX; its letters are those of STIX Two Math (``book/_static/stix-two-math.woff2``), so that pages
look the same everywhere. Each formula keeps its TeX in `alttext`, for search and for rows that are cited.
"""

import functools
import html
import re

from docutils import nodes
from math_core import LatexError, LatexToMathML
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number

from lib.ledger import formulas

LOGGER = logging.getLogger(__name__)
OPEN, CLOSE = formulas("$\n$").split("\n")  # around a formula in HTML for notebooks
SMALL = re.compile(r"<(?:msub|msup|msubsup)><mo [^>]*minsize")
UNDERLINE = (
    '<mo stretchy="true">\N{COMBINING LOW LINE}</mo>',
    '<mo stretchy="false">_</mo>',
)  # off its letter, or below it


@functools.cache
def converter(macros):
    """Converter that knows macros, pairs of a name and what it stands for."""
    return LatexToMathML(macros=dict(macros), annotation=False, fancy_error=False)


def mathml(app, formula, where, display=False):
    """A formula of TeX as MathML; a warning, which fails the build, where it cannot be set."""
    macros = ((app.config.mathjax3_config or {}).get("tex") or {}).get("macros", {})  # as notebooks take them
    known = tuple((name, text if isinstance(text, str) else text[0]) for name, text in sorted(macros.items()))
    try:
        made = converter(known).convert_with_local_state(formula, displaystyle=display)
    except LatexError as error:
        LOGGER.warning("formula %r cannot be set: %s", formula, error, location=where)
        return f"<code>{html.escape(formula)}</code>"
    if SMALL.search(made):
        said = "formula %r: Chromium draws a large bracket with an index small: put {} around the pair of brackets"
        LOGGER.warning(said, formula, location=where)
    return made.replace(*UNDERLINE).replace("<math", f'<math alttext="{html.escape(formula)}"', 1)


def put_inline(translator, node):
    """Write a formula of the text."""
    made = mathml(translator.builder.app, node.astext(), node)
    translator.body.append(translator.starttag(node, "span", "", CLASS="math") + made + "</span>")
    raise nodes.SkipNode


def put_displayed(translator, node):
    """Write a formula that stands alone, with its number if it has one."""
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node["number"]:
        translator.body.append(f'<span class="eqno">({get_node_equation_number(translator, node)})')
        translator.add_permalink_ref(node, "Link to this equation")
        translator.body.append("</span>")
    made = mathml(translator.builder.app, node.astext(), node, display=True)
    translator.body.append(f'<div class="formula">{made}</div></div>\n')
    raise nodes.SkipNode


def set_in_html(app, page, template, context, doctree):
    """Set the formulas of tables and chips, which are HTML already: `lib.ledger.formulas` marks them."""
    first, *parts = context.get("body", "").split(OPEN)
    for part in parts:
        formula, _, after = part.partition(CLOSE)
        first += f'<span class="math">{mathml(app, html.unescape(formula), page)}</span>{after}'
    context["body"] = first


def setup(app):
    """Register the extension."""
    app.add_html_math_renderer("mathml", (put_inline, None), (put_displayed, None))
    app.connect("html-page-context", set_in_html)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
