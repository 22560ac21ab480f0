"""Lay out the page of a chapter: verdicts under its title, its code folded, numbers by page. An extension of Sphinx.

CONTRIBUTING.md, *Add a chapter*, says what a source contains. This extension makes chips of verdicts under the title,
one fold around the experiment, named bars over the code of figures and tables, numbers that begin anew on each page,
boxes that carry the paper's title, and the badge that says where a statement's text comes from. Sphinx has one count
of figures for a book, and sphinx_proof one of boxes.
"""

import html
import json
import re
from pathlib import Path

from docutils import nodes
from docutils.statemachine import StringList
from sphinx.util.docutils import SphinxDirective
from sphinx_proof.nodes import NODE_TYPES

from lib.ledger import formulas
from workflow.book.catalogue import cell_role

EXPERIMENT, OPEN = "experiment", "tag_open"  # the section that is folded, and the tag that keeps it open
ABOUT = "book/_generated/about"  # notes of the build, a file for each chapter
SOURCES = {
    "printed": "The words of the paper.",
    "restored": "Words or formulas are missing; we rebuilt them from proofs (papers 2 and 3: abstract, summary, code).",
    "recalled": "The paper's own words were not at hand; this is what it is known to say.",
}
FIGURE = re.compile(r"^[`:]{3,}\{(?:glue:)?figure\} *(\S+)", re.MULTILINE)


def about(env):
    """Notes of the build on this page's chapter: statements, verdicts, seeds, seconds, lines of code."""
    path = Path(env.srcdir, ABOUT, env.docname.removeprefix("book/") + ".json")
    if not path.exists():  # a page that is no chapter; Sphinx reads a page again whose file is missing
        return {}
    env.note_dependency(str(path))
    return json.loads(path.read_text("utf-8"))


class Findings(SphinxDirective):
    """At most four sentences that say what was found; under them rows that seeds turn, and chips that lead to code."""

    has_content = True

    def run(self):
        """Make the list with its chips."""
        block = nodes.container(classes=["findings"])
        self.state.nested_parse(self.content, self.content_offset, block)
        if noted := about(self.env):
            if turn := noted["turn"].splitlines():
                self.state.nested_parse(StringList(turn, self.env.docname), self.content_offset, block)
            notebook = f"{'../' * self.env.docname.count('/')}_sources/{self.env.docname}.ipynb"
            slides = f"{self.env.docname.rpartition('/')[2]}-slides.html"
            made = (
                _chip("#experiment", noted["runs"]),
                _chip(notebook, "notebook", more=" download"),
                _chip(slides, "slides"),
            )
            block += nodes.raw("", f'<ul class="chips" aria-label="Code">{"".join(made)}</ul>', format="html")
        return [block]


def put_verdicts(doctree, noted, page):
    """Put under the title which statements the chapter is about, and two chips that open what they mean."""
    rows = f"{'../' * (page.count('/') - 1)}rows.html"
    made = "".join(_verdict_chip(chip, f"{rows}#rows-{page.rpartition('/')[2]}") for chip in noted["chips"])
    legend = f'<a href="{rows}">legend</a>'
    said = f'<div class="verdict-chips"><span>{html.escape(noted["of"])}</span>{made}{legend}</div>'
    title = next(doctree.findall(nodes.title))
    title.parent.insert(title.parent.index(title) + 1, nodes.raw("", said, format="html"))


def _verdict_chip(chip, every):
    """A chip that opens what it means, with links to the rows on this page and to all rows."""
    links = f'<a href="#{chip["place"]}">The rows on this page</a>, <a href="{every}">all about each of them</a>'
    return (
        f'<details class="chip {chip["verdict"].replace(" ", "-")}"><summary>{html.escape(chip["text"])}</summary>'
        f"<div>{formulas(chip['means'])} {links}.</div></details>"
    )


def _chip(address, text, more=""):
    return f'<li><a href="{address}"{more}>{html.escape(text)}</a></li>'


def tag_cells(app, page, text):
    """Tag cells by what they do: code that draws gets a bar with a name, code that only glues is hidden."""
    if not app.env.doc2path(page).endswith(".ipynb"):
        return
    notebook = json.loads(text[0])
    figures = numbered_figures(notebook["cells"])
    for cell in notebook["cells"]:
        if cell["cell_type"] == "code":
            _tag(cell, figures)
    text[0] = json.dumps(notebook)


def numbered_figures(cells):
    """Number that each figure has on its page, by the key that is glued."""
    names = []
    for cell in cells:
        if cell["cell_type"] == "markdown":
            names += FIGURE.findall("".join(cell["source"]))
    return {name: number for number, name in enumerate(names, 1)}


def _tag(cell, figures):
    made = cell_role("".join(cell["source"]))
    tags, options = cell["metadata"].setdefault("tags", []), cell["metadata"].setdefault("mystnb", {})
    if made == "tell":
        tags.append("remove-cell")
    outputs = [output["metadata"].get("scrapbook", {}).get("name") for output in cell["outputs"] if "data" in output]
    drawn = [name for name in outputs if name in figures]
    if made == "show":
        tags.append("remove-output")
    if made == "show" or drawn:
        tags.append("hide-input")
        shown = f"Code of Figure {figures[drawn[0]]}" if drawn else "Code of the table"
        options |= {"code_prompt_show": shown, "code_prompt_hide": shown}


def lay_out(app, doctree):
    """Put verdicts under the title, fold the experiment, and give boxes their own titles."""
    if noted := about(app.env):
        put_verdicts(doctree, noted, app.env.docname)
    for section in doctree.findall(nodes.section):
        if EXPERIMENT in section["ids"]:
            fold_experiment(section, noted)
    boxes = tuple(NODE_TYPES.values())
    for box in list(doctree.findall(lambda node: isinstance(node, boxes))):
        retitle(box, app)


def fold_experiment(section, noted):
    """Fold the section from its first cell on, unless that cell is tagged ``open``."""
    cells = [child for child in section if "cell" in child.get("classes", [])]
    if not cells or OPEN in cells[0]["classes"]:
        return
    first = section.index(cells[0])
    inside = section.children[first:]
    del section[first:]
    cost = f": {noted['lines']} lines of code, {noted['runs']}" if noted else ""
    opening = f'<details class="fold"><summary>Show the experiment{html.escape(cost)}</summary>\n'
    section += [nodes.raw("", opening, format="html"), *inside, nodes.raw("", "</details>\n", format="html")]


def retitle(box, app):
    """Give a numbered box the title of its source in place of a number, and the badge of its class."""
    title, badge = box[0], next((name for name in SOURCES if name in box["classes"]), None)
    if not title.astext():
        title += nodes.Text(box["realtype"].title())
    app.env.proof_list[box["label"]] |= {"nonumber": True, "title": re.sub(r" *\(.*\)$", "", title.astext())}
    plain = nodes.admonition(classes=box["classes"], ids=box["ids"])
    if badge:
        title += nodes.raw("", _badge(badge, app), format="html")
    plain += box.children
    box.replace_self(plain)


def _badge(name, app):
    """Badge that says where a statement's text comes from, with a link to the page that explains it."""
    said = f'class="badge {name}" title="{html.escape(SOURCES[name])}"'
    if "book/sources" not in app.env.found_docs:
        return f"<span {said}>{name}</span>"
    return f'<a {said} href="{app.builder.get_relative_uri(app.env.docname, "book/sources")}">{name}</a>'


def drop_thebe(app, page, template, context, doctree):
    """Drop the scripts that would run code in the page, which Jupyter Book always adds, twice where a page has code."""
    context["script_files"] = [file for file in context.get("script_files", ()) if "thebe" not in str(file).lower()]


def number_by_page(numbers):
    """Sphinx's table of the numbers of figures and formulas, counted anew on each page."""
    return {
        page: {kind: {name: (k,) for k, name in enumerate(names, 1)} for kind, names in kinds.items()}
        for page, kinds in numbers.items()
    }


def put_back_numbers(app, env):
    """Restore Sphinx's numbers, with which it compares the new ones to find pages to write again."""
    env.toc_fignumbers = getattr(env, "numbers_of_sphinx", env.toc_fignumbers)
    return ()


def renumber(app, env):
    """Number by page, after Sphinx has numbered."""
    env.numbers_of_sphinx = env.toc_fignumbers
    env.toc_fignumbers = number_by_page(env.toc_fignumbers)
    return ()


def setup(app):
    """Register the extension."""
    app.add_directive("findings", Findings)
    app.connect("source-read", tag_cells)
    app.connect("doctree-read", lay_out)
    app.connect("html-page-context", drop_thebe, priority=900)
    app.connect("env-get-updated", put_back_numbers, priority=100)
    app.connect("env-get-updated", renumber, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
