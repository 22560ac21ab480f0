"""Explain terms of ``book/glossary.yml`` where a chapter first uses them. An extension of Sphinx.

A meaning opens by hovering, by tapping and by keyboard; on paper the terms of a page stand at its end. Sphinx's
``:term:`` would lead away from the sentence, and would have to be written at each first use.
"""

import html
import re
from pathlib import Path

import yaml
from docutils import nodes

from lib.ledger import formulas

LIST = "book/glossary.yml"
# No term is marked in titles, code, links, formulas, captions, tables, and boxes with a paper's statement.
ELSEWHERE = (
    nodes.title, nodes.literal, nodes.literal_block, nodes.reference, nodes.math, nodes.math_block, nodes.caption,
    nodes.raw, nodes.Admonition, nodes.comment, nodes.table,
)  # fmt: skip


class Term(nodes.Inline, nodes.TextElement):
    """A term as it stands in the text, with its meaning."""


def open_term(translator, node):
    """Open an element that can be focused."""
    translator.body.append(f'<span class="term" tabindex="0" aria-describedby="{node["place"]}">')


def close_term(translator, node):
    """Add the meaning and close the element."""
    said = f'<span class="meaning" role="tooltip" id="{node["place"]}">{formulas(node["means"])}</span>'
    translator.body.append(f"{said}</span>")


def entries(srcdir):
    """Terms, each with what it means, the words and the formula that stand for it."""
    path = Path(srcdir, LIST)
    return yaml.safe_load(path.read_text("utf-8")) if path.exists() else []


def mark(app, doctree):
    """Mark the first use of each term on a page that has verdicts, and list the terms for paper."""
    page = app.env.docname
    if not Path(app.srcdir, "book/_generated/about", page.removeprefix("book/") + ".json").exists():
        return
    app.env.note_dependency(str(Path(app.srcdir, LIST)))
    used = [entry for entry in entries(app.srcdir) if mark_first(doctree, entry)]
    if used:
        said = "".join(f"<dt>{html.escape(entry['term'])}</dt><dd>{formulas(entry['means'])}</dd>" for entry in used)
        doctree += nodes.raw("", f'<dl class="terms" aria-hidden="true">{said}</dl>', format="html")


def mark_first(doctree, entry):
    """Mark a term's first use; tell whether there is one."""
    words = "|".join(re.escape(word) for word in (entry["term"], *entry.get("also", ())))
    pattern, formula = re.compile(rf"\b(?:{words})\b"), entry.get("formula")
    for node in doctree.findall(lambda node: isinstance(node, nodes.Text | nodes.math)):
        if isinstance(node, nodes.math):
            if node.astext() == formula and not inside(node, ELSEWHERE):
                node.replace_self(made(entry, node.deepcopy()))
                return True
        elif (match := pattern.search(node)) and not inside(node, (*ELSEWHERE, Term)):
            parts = node[: match.start()], made(entry, nodes.Text(match[0])), node[match.end() :]
            # by identity: texts that read alike are equal
            at = next(place for place, sibling in enumerate(node.parent.children) if sibling is node)
            node.parent[at : at + 1] = [nodes.Text(part) if isinstance(part, str) else part for part in parts if part]
            return True
    return False


def inside(node, kinds):
    """Tell whether a node is inside a node of these kinds."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, kinds):
            return True
    return False


def made(entry, content):
    """A term with its meaning."""
    place = "term-" + nodes.make_id(entry["term"])
    return Term("", "", content, means=entry["means"], place=place)


def setup(app):
    """Register the extension."""
    app.add_node(Term, html=(open_term, close_term))
    app.connect("doctree-read", mark, priority=600)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
