"""Round numbers of the prose outwards: of 4.37 ``{glue:text}`gap:.1f+``` shows 4.4, for "at most", and ``.1f-`` 4.3.

So no sentence is false by its rounding, whichever processor ran. An extension of Sphinx.
"""

import math
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal, localcontext

from docutils import nodes
from myst_nb.ext.glue.roles import PasteTextRole
from myst_nb.ext.glue.utils import retrieve_glue_data

SIDES = {"+": ROUND_CEILING, "-": ROUND_FLOOR}


def rounded(value, form):
    """Value in a format of Python, which may have a sign behind it: rounded up (+) or down (-), not to the nearest."""
    if form[-1:] not in SIDES or not math.isfinite(value):
        return format(value, form.rstrip("+-"))
    with localcontext(rounding=SIDES[form[-1]]):
        text = format(Decimal(f"{value:.12g}"), form[:-1])  # what is closer than that is the number itself
    read = float(text.rstrip("%").replace(",", "")) / (100 if text.endswith("%") else 1)
    return format(read, form[:-1])  # as Python writes a float: 5e-09, and 6 for .2g


class GluedText(PasteTextRole):
    """``{glue:text}`` that rounds to a side."""

    def run(self):
        """Make the text as MyST does, and set it anew where its format has a side."""
        asked, self.text = self.text, self.text.rstrip("+-")
        made, messages = super().run()
        if made and asked != self.text:
            key, _, form = asked.rpartition(":")
            value = float(retrieve_glue_data(self.document, key).data["text/plain"])
            made[0][:] = [nodes.Text(rounded(value, form))]
        return made, messages


def extend_glue(app, _):
    """Put our role in the place of MyST's, where it is loaded."""
    if app.registry.has_domain("glue"):
        app.registry.add_role_to_domain("glue", "text", GluedText(), override=True)


def setup(app):
    """Register the extension."""
    app.connect("config-inited", extend_glue)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
