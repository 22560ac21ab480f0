"""Set short names of chapters, numbers, and signs beside formulas. An extension of Sphinx.

No theme shortens titles, and a browser breaks a line between a formula and its comma, with a word joiner as well.
"""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms.post_transforms import SphinxPostTransform
from sphinx.util import docname_join

from lib.ledger import typeset

NUMBER = re.compile(r"-?[\d.,]+(e[+-]\d+)?%?")
SHORT = 30  # letters of the longest formula that is kept on one line


class ShortNames(SphinxPostTransform):
    """Let references read as what they lead to is called: a chapter as in the sidebar, a box by its title."""

    default_priority = 9  # references are resolved at 10

    def run(self, **_):
        """Give this name to each reference without a text."""
        for reference in self.document.findall(addnodes.pending_xref):
            if not reference.get("refexplicit") and (name := self.name(reference)):
                reference.children = [nodes.inline(name, name)]
                reference["refexplicit"] = True

    def name(self, reference):
        """Name of the box, or of the chapter that a reference names, itself or by the label of its title."""
        kind, target = reference.get("reftype"), reference["reftarget"]
        if reference.get("refdomain") == "prf":
            box = getattr(self.env, "proof_list", {}).get(target)
            return box and reference.astext() == target and box["title"]
        page, _, said = self.env.get_domain("std").labels.get(target, ("", "", "")) if kind == "ref" else ("", "", "")
        if kind == "doc":
            page = docname_join(reference["refdoc"], target)
        elif not page or said != self.env.titles[page].astext():
            return None
        listed = getattr(self.env, "external_site_map", {})
        return page in listed and listed[page].title


class Numbers(SphinxPostTransform):
    """Write numbers in the prose as tables have them: −2 × 10⁻⁴ for -2e-04."""

    default_priority = 800  # after glued values are in place

    def run(self, **_):
        """Set each number without breaks."""
        for shown in self.document.findall(nodes.inline):
            if "pasted-text" in shown["classes"] and NUMBER.fullmatch(text := shown.astext()):
                shown.children = [nodes.Text(typeset(text).replace(" ", "\N{NO-BREAK SPACE}"))]


class TieSigns(SphinxPostTransform):
    """Keep a short formula and the sign right before or after it on one line, where a browser would break it."""

    default_priority = 850

    def run(self, **_):
        """Put the formula and its signs into one element."""
        for formula in list(self.document.findall(nodes.math)):
            place, parent = formula.parent.index(formula), formula.parent
            before, after = parent.children[max(place - 1, 0)], parent.children[min(place + 1, len(parent) - 1)]
            opening = re.search(r"[(\[“‘]$", before) if isinstance(before, nodes.Text) else None
            closing = re.match(r"[-).,:;!?\]’”%°]+", after) if isinstance(after, nodes.Text) else None
            if len(formula.astext()) > SHORT or not (opening or closing):
                continue
            parts = [nodes.Text(opening[0])] if opening else []
            parts += [formula.deepcopy()] + ([nodes.Text(closing[0])] if closing else [])
            tied = nodes.inline("", "", *parts, classes=["tied"])
            if closing:  # by place: texts that read alike are equal
                parent[place + 1] = nodes.Text(after[closing.end() :])
            if opening:
                parent[place - 1] = nodes.Text(before[: opening.start()])
            parent[place] = tied


def setup(app):
    """Register the extension."""
    for transform in (ShortNames, Numbers, TieSigns):
        app.add_post_transform(transform)
