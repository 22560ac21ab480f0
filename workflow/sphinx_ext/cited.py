"""List at the end of a page the works that it cites, for paper, where links lead nowhere. An extension of Sphinx."""

from docutils import nodes

from lib.ledger import formulas


def list_cited(app, page, template, context, doctree):
    """Add the list to a page's body, after search has read its words; ``book.css`` shows it on paper alone."""
    if doctree is None or not any(doctree.findall(is_citation)):
        return
    said = dict.fromkeys(one["reftitle"] for place in doctree.findall(is_citation) for one in place.findall(names))
    items = "".join(f"<li>{formulas(work)}</li>" for work in sorted(said, key=by_family))
    context["body"] += (
        f'<section class="cited" aria-hidden="true"><p class="rubric">References</p><ul>{items}</ul></section>'
    )


def is_citation(node):
    """Whether this is a citation in the text."""
    return isinstance(node, nodes.inline) and "bibtex-citation" in node.get("classes", ())


def names(node):
    """Whether this is a link that says the whole reference."""
    return isinstance(node, nodes.reference) and "reftitle" in node


def by_family(work):
    """Family name of the first author, then all of the reference."""
    return work.partition(",")[0].partition(" and ")[0].split()[-1].casefold(), work


def setup(app):
    """Register the extension; formulas are set after it."""
    app.connect("html-page-context", list_cited, priority=400)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
