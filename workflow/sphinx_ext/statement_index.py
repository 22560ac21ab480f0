"""Index boxes, the papers' figures and the words of ``book/search.yml``; the page of results reads these first.

Sphinx's ``index`` directive would have to stand before each box, and to repeat its title.
"""

import re
from pathlib import Path

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

from workflow.book.catalogue import yaml_of

WORDS, STATEMENTS = "book/search.yml", "book/statements.yml"
KINDS = r"(Theorem|Lemma|Figure|Definition|Assumption|Proposition)"


def names(title):
    """Statements that the title of a box names: Lemma 8 and Lemma 9 for ``Lemmas 8 and 9 (Authors)``."""
    title = re.sub(r"^\s*\((.*)\)$", r"\1", title)  # sphinx_proof puts a title after a number in parentheses
    title = re.sub(r"\s*\([A-Z][^()]*\)$", "", title)
    listed = re.split(rf"\b{KINDS}s?\b", title)
    statements = [
        f"{kind} {number}"
        for kind, numbers in zip(listed[1::2], listed[2::2], strict=True)
        for number in re.findall(r"(?<![\w(])(?:\d+(?:\([a-z]\))?|[A-Z]\b)", numbers)
    ]
    return statements or [title.replace(";", ",")]


def figures(register, page):
    """Names of the papers' figures that a page reproduces, for which no box stands."""
    papers = yaml_of(register)["papers"] if register.exists() else []
    here = [item["item"] for paper in papers for item in paper["items"] if item.get("chapter") == page]
    return [name for name in here if re.match(r"Figure \d", name)]


class IndexEntries(SphinxTransform):
    """Put an index entry before each box, in time for Sphinx to collect it."""

    default_priority = 300

    def apply(self, **_):
        """Insert the entries, of boxes and of the page."""
        for box in list(self.document.findall(lambda node: isinstance(node, nodes.Element) and "realtype" in node)):
            entries = [("single", name, box["ids"][0], "main", None) for name in names(box["title"])]
            box.parent.insert(box.parent.index(box), addnodes.index(entries=entries))
        env = self.document.settings.env
        page, listed = env.docname.removeprefix("book/"), Path(env.srcdir, WORDS)
        for read in (listed, Path(env.srcdir, STATEMENTS)):
            env.note_dependency(str(read))
        words = (yaml_of(listed) if listed.exists() else {}).get(page, []) + figures(Path(env.srcdir, STATEMENTS), page)
        if words:
            section = next(self.document.findall(nodes.section))
            entries = [("single", word, section["ids"][0], "main", None) for word in words]
            section.insert(1, addnodes.index(entries=entries))


def load(app, page, template, context, doctree):
    """Load our order of results where Sphinx shows them."""
    if page == "search":
        app.add_js_file("search.js", loading_method="defer")


def setup(app):
    """Register the extension."""
    app.add_transform(IndexEntries)
    app.connect("html-page-context", load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
