"""Index the statements in boxes: an entry each in the index, which search finds first, and a page of all."""

import html
import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

KINDS = r"(Theorem|Lemma|Figure|Definition|Assumption|Proposition)"
PAGE, TITLE = "statements", "All statements"


def names(title):
    """Return the statements that the title of a box names: Lemma 8 and Lemma 9 for ``Lemmas 8 and 9 (Authors)``."""
    title = re.sub(r"^\s*\((.*)\)$", r"\1", title)  # as sphinx_proof puts it after a number
    title = re.sub(r"\s*\([A-Z][^()]*\)$", "", title)
    listed = re.split(rf"\b{KINDS}s?\b", title)
    found = [
        f"{kind} {number}"
        for kind, numbers in zip(listed[1::2], listed[2::2], strict=True)
        for number in re.findall(r"(?<![\w(])(?:\d+(?:\([a-z]\))?|[A-Z]\b)", numbers)
    ]
    return found or [title.replace(";", ",")]


class IndexEntries(SphinxTransform):
    """Puts the entries before the boxes, in time for Sphinx to collect them."""

    default_priority = 300

    def apply(self, **_):
        """Put them there."""
        for box in list(self.document.findall(lambda node: isinstance(node, nodes.Element) and "realtype" in node)):
            entries = [("single", name, box["ids"][0], "main", None) for name in names(box["title"])]
            box.parent.insert(box.parent.index(box), addnodes.index(entries=entries))


def list_statements(app):
    """Yield the page that lists the boxes of each page of the book under its title."""
    listed, known = {}, getattr(app.env, "proof_list", {})
    for label, box in known.items():
        listed.setdefault(box["docname"], []).append((label, box["title"]))
    blocks = []
    for page in filter(listed.get, getattr(app.env, "external_site_map", listed)):
        address = app.builder.get_relative_uri(PAGE, page)
        links = "".join(f'<li><a href="{address}#{label}">{html.escape(name)}</a></li>' for label, name in listed[page])
        title = html.escape(app.env.titles[page].astext())
        blocks.append(f'<h2><a href="{address}">{title}</a></h2><ul class="statements">{links}</ul>')
    yield PAGE, {"title": TITLE, "body": f"<h1>{TITLE}</h1>{''.join(blocks)}"}, "page.html"


def setup(app):
    """Register the entries and the page."""
    app.add_transform(IndexEntries)
    app.connect("html-collect-pages", list_statements)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
