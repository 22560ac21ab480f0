"""Show in prose what the build measured, and withdraw sentences whose rows turn: no package knows the ledger.

``{measured}`rates/step-rules/exponent:.2f``` is the number of a row of the ledger, or of a drawing; with ``verdict`` as
its format it is the row's verdict. ``:::{believed}`` holds sentences that stand as long as the rows of its argument do.
An extension of Sphinx.
"""

import json
import math
import re
from pathlib import Path
from typing import ClassVar

from docutils import nodes
from docutils.parsers.rst.directives import flag, unchanged
from docutils.statemachine import StringList
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import docname_join, logging
from sphinx.util.docutils import ReferenceRole, SphinxDirective, SphinxRole

from lib.ledger import HELD, number
from workflow.book.catalogue import chapters
from workflow.book.ledger import by_place
from workflow.book.verdicts import SIGNS
from workflow.site.evidence import seeds
from workflow.site.markup import escaped, link, numbers
from workflow.sphinx_ext.bounds import rounded

LOGGER = logging.getLogger(__name__)
LEDGER, DRAWN = "book/_generated/ledger.json", "book/_generated/drawings.json"
STANDINGS = {
    "proved": "Proved here",
    "papers": "Proved in the papers as we know them, checked here",
    "measured": "Measured here",
    "miniature": "Seen in miniature",
    "guess": "A guess",
}
FORM = re.compile(r"(size|angle)?(.*)")
SENSES = {"size": abs, "angle": lambda away: math.degrees(2 * math.asin(math.sqrt(away / 2)))}  # from 1 - cos


def staged(env, name):
    """Contents of a file of the staged tree; the page that is being read depends on it."""
    if name not in env.temp_data:
        path = Path(env.srcdir, name)
        env.note_dependency(str(path))
        env.temp_data[name] = json.loads(path.read_text("utf-8")) if path.exists() else {}
    return env.temp_data[name]


def rows_of(env, names, where):
    """Rows of the ledger with these names; a warning, which fails the build, where there is none."""
    known = by_place(staged(env, LEDGER).get("claims", ()))
    for name in names:
        if name not in known:
            LOGGER.warning("%s is no row of the ledger: name one that is", name, location=where)
    return [known[name] for name in names if name in known]


class Measured(SphinxRole):
    """The number of a row, ``id:format``, or of a drawing, ``drawing/name:format``; or a row's verdict, ``id:verdict``.

    A format is Python's, or one with a side (``bounds``); before it stands ``size`` for the number without its sign,
    ``angle`` for degrees where the number is 1 - cos of an angle. Without one it is written as tables write numbers.
    """

    def run(self):
        """Make the text, of the class that glued numbers have."""
        name, _, form = self.text.partition(":")
        if form == "verdict":
            words = [row["verdict"] or "baseline" for row in rows_of(self.env, [name], self.get_location())]
            return [nodes.inline(self.rawtext, "".join(words), classes=["pasted-text"])], []
        drawing, _, part = name.rpartition("/")
        value = staged(self.env, DRAWN).get(drawing, {}).get(part)
        if value is None:
            value = next((row["measured"] for row in rows_of(self.env, [name], self.get_location())), math.nan)
        sense, form = FORM.fullmatch(form).groups()
        value = SENSES[sense](value) if sense else value
        text = rounded(value, form) if form else number(value)
        return [nodes.inline(self.rawtext, text, classes=["pasted-text"])], []


class Verdict(ReferenceRole):
    """A verdict or a standing with its sign, in its colour: ``corrected``, or other words, ``mended <corrected>``."""

    def run(self):
        """Make the text in its style."""
        if self.target not in SIGNS:
            said = "%r is no verdict: write one of %s"
            LOGGER.warning(said, self.target, ", ".join(SIGNS), location=self.get_location())
        text = f"{SIGNS.get(self.target, '')} {self.title}".strip()
        return [nodes.inline(self.rawtext, text, classes=["verdict", self.target.replace(" ", "-")])], []


class RowsDirective(SphinxDirective):
    """A directive about rows, whose names are its argument."""

    optional_arguments, final_argument_whitespace = 1, True

    def rows(self):
        """Rows that the argument names."""
        names = re.split(r"[,\s]+", self.arguments[0].strip()) if self.arguments else []
        return rows_of(self.env, names, self.get_location())

    def parsed(self, text):
        """Parse a text in MyST into nodes."""
        block = nodes.Element()
        self.state.nested_parse(StringList(text.splitlines(), self.env.docname), self.content_offset, block)
        return block.children


class Printed(RowsDirective):
    """The sentence that a row corrects, as it was printed."""

    def run(self):
        """Make a quotation."""
        return self.parsed("\n".join(f"> {escaped(row['quote'])}" for row in self.rows()[:1]))


class Rows(RowsDirective):
    """Rows as a list: what was measured, its interval and its bound, and where."""

    def run(self):
        """Make the names of the chapters and the list."""
        rows = self.rows()
        places = " and ".join(map(link, dict.fromkeys(row["chapter"] for row in rows)))
        listed = "\n".join(f"- {escaped(row['statement'])}: {numbers(row)}." for row in rows)
        return self.parsed(f"**Proof and measurements:** {places}.\n\n{listed}")


class Believed(RowsDirective):
    """Sentences that rows support: withdrawn where one of these does not hold, or has not the ``verdict`` asked for.

    The first paragraph is the sentence that is withdrawn, in sight of the reader; the others go. With a ``standing`` it
    is one of the numbered sentences of its page, which says on how many fresh seeds it held and where to ``read`` it;
    those of the ``front`` are shown by ``{sentences}``, too.
    """

    has_content = True
    option_spec: ClassVar = {"verdict": unchanged, "standing": unchanged, "read": unchanged, "front": flag}

    def run(self):
        """Make the sentences, or what contradicts them."""
        rows, asked = self.rows(), self.options.get("verdict")
        against = [row for row in rows if (row["verdict"] != asked if asked else row["verdict"] not in HELD)]
        block = nodes.container(classes=["believed"])
        self.state.nested_parse(self.content, self.content_offset, block)
        if against:
            block[0][:] = withdrawn(block[0])
            said = "; ".join(f"{escaped(row['statement'])}: {numbers(row)}" for row in against)
            block[1:] = self.parsed(f"This build contradicts it: {said}.")
        if "standing" in self.options:
            self.number(block, rows)
        return [block]

    def number(self, block, rows):
        """Number a sentence, and say below it how we know it."""
        if (kind := self.options["standing"]) not in STANDINGS:
            said = "%r is no standing: write one of %s"
            LOGGER.warning(said, kind, ", ".join(STANDINGS), location=self.get_location())
        page, said = self.options["read"], STANDINGS.get(kind, kind)
        place = self.env.new_serialno("believed") + 1
        block["ids"].append(f"belief-{place}")
        if "front" in self.options:
            block["said"], block["read"] = said.lower(), f"/{docname_join(self.env.docname, page)}"
        sentence = nodes.strong("", "", *block[0].children)
        block[0][:] = [nodes.strong("", f"{place}."), nodes.Text(" "), sentence]
        where = link(page) if page in chapters() else f"{{doc}}`{page}`"
        block += self.parsed(f"*{said}{how_often(rows)}*: {where}.")


def withdrawn(sentence):
    """Parts of a sentence that is withdrawn."""
    mark = nodes.inline("", f"{SIGNS['refuted']} Withdrawn:", classes=["verdict", "refuted"])
    return [mark, nodes.Text(" "), nodes.emphasis("", "", *sentence.children)]


def how_often(rows):
    """On how many fresh seeds the rows held, by the one that held least often; nothing where none was swept."""
    counted = [(held, of) for held, of, _ in map(seeds, rows) if of and of > 1]
    held, of = min(counted, key=lambda pair: pair[0] / pair[1], default=(None, None))
    return f", on {held} of {of} fresh seeds" if of else ""


class Sentences(nodes.General, nodes.Element):
    """The place of the sentences of another page."""


class ListSentences(SphinxDirective):
    """The sentences of another page that are for the front page, each with a link to what supports it."""

    required_arguments = 1

    def run(self):
        """Mark their place: the other page may not have been read yet."""
        page = docname_join(self.env.docname, self.arguments[0])
        self.env.note_dependency(self.env.doc2path(page))
        return [Sentences(page=page)]


class PutSentences(SphinxPostTransform):
    """Put the sentences of the other page into their place."""

    default_priority = 4  # references get their names at 9

    def run(self, **_):
        """Put each list into its place."""
        for place in list(self.document.findall(Sentences)):
            page = self.env.get_doctree(place["page"])
            blocks = page.findall(lambda node: isinstance(node, nodes.container) and "said" in node)
            items = [nodes.list_item("", self.sentence(block)) for block in blocks]
            place.replace_self(nodes.enumerated_list("", *items, enumtype="arabic", prefix="", suffix="."))

    def sentence(self, block):
        """Sentence with its link."""
        about = {"refdomain": "std", "reftype": "doc", "refexplicit": True, "refwarn": True}
        read = nodes.inline("", block["said"], classes=["xref", "doc"])
        read = addnodes.pending_xref("", read, reftarget=block["read"], refdoc=self.env.docname, **about)
        _, _, sentence = block[0]
        copied = [part.deepcopy() for part in sentence]
        return nodes.paragraph("", "", *copied, nodes.Text(" ("), read, nodes.Text(")"))


def setup(app):
    """Register the extension."""
    for name, role in (("measured", Measured()), ("verdict", Verdict())):
        app.add_role(name, role)
    directives = {"believed": Believed, "printed": Printed, "rows": Rows, "sentences": ListSentences}
    for name, directive in directives.items():
        app.add_directive(name, directive)
    app.add_node(Sentences)
    app.add_post_transform(PutSentences)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
