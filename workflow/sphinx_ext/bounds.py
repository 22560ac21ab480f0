"""Round numbers in prose outwards where the words before them state a bound. An extension of Sphinx.

Of 4.37 "at most" shows 4.4 and "at least" 4.3, so that no sentence is false by its rounding, whichever processor ran.
It is done to the numbers of ``{glue:text}`` and ``{measured}`` that a float format rounds; "about" rounds as ever.
"""

import math
import re

from docutils import nodes
from myst_nb.ext.glue.roles import PasteTextRole
from myst_nb.ext.glue.utils import retrieve_glue_data
from sphinx.transforms import SphinxTransform

UPPER = "at most", "up to", "within", "below", "less than", "smaller than", "lower than", "under", "never exceeds"
LOWER = "at least", "above", "more than", "larger than", "exceeds", "beyond"
TURNED = re.compile(r"\b(not|never|no|nor)\b(?: \w+){0,2} $", re.I)  # "no more than" is "at most"
SPARE = r"a|an|the|only|factors?|of|relative|divergences?|angles?|distances?|and|or|=|,|\$[^$]*\$|\#%?|\#°?"
BOUND = re.compile(rf"\b({'|'.join(UPPER + LOWER)})(?: ?(?:{SPARE})(?!\w)){{0,6}} ?$", re.I)
FORM = re.compile(r"[-+ ,<>=^0-9]*\.(\d+)([efg%]?)")
SAME = 1e-9  # of a number: closer than this, what is shown is the number itself


def side(words):
    """1 where the words before a number say that it bounds from above, -1 from below, and 0 where they do neither."""
    if not (found := BOUND.search(words)):
        return 0
    up = found[1].lower() in UPPER
    if found[1].lower() not in ("at most", "at least", "up to", "within") and TURNED.search(words[: found.start()]):
        up = not up
    return 1 if up else -1


def outward(value, form, to):
    """Value in a format of Python, rounded up if ``to`` is 1, down if it is -1, to the nearest if it is 0."""
    shown = format(value, form)
    parts = FORM.fullmatch(form)
    if not to or not parts or not math.isfinite(value) or not value:
        return shown
    read = float(shown.rstrip("%").replace(",", "")) / (100 if shown.endswith("%") else 1)
    if to * (read - value) >= -SAME * abs(value):
        return shown
    digits, kind = int(parts[1]), parts[2] or "g"
    place = -digits - 2 * (kind == "%") if kind in "f%" else math.floor(math.log10(abs(value))) - digits
    if kind == "g":
        place += 1
    return format(value + to * 0.5 * 10.0**place, form)


class GluedText(PasteTextRole):
    """``{glue:text}`` that keeps the number which it shows."""

    def run(self):
        """Make the text, and remember its number and format."""
        made, messages = super().run()
        key, colon, form = self.text.rpartition(":")
        if made and isinstance(made[0], nodes.inline) and colon and FORM.fullmatch(form):
            remember(made[0], float(retrieve_glue_data(self.document, key).data["text/plain"]), form)
        return made, messages


def remember(shown, value, form):
    """Let a text of the prose know its number and format until it is rounded."""
    shown["number"] = (value, form)


class RoundOutwards(SphinxTransform):
    """Round each number that states a bound to the side on which the sentence stays true."""

    default_priority = 400

    def apply(self, **_):
        """Set the texts anew."""
        for shown in self.document.findall(nodes.inline):
            if "number" in shown:
                value, form = shown["number"]
                del shown["number"]
                shown.children = []
                shown += nodes.Text(outward(value, form, side(before(shown))))


def before(shown):
    """Words of the same paragraph before a number, in one line; other numbers are #, formulas stand in dollars."""
    words = []
    for part in shown.parent.children[: shown.parent.index(shown)]:
        number = isinstance(part, nodes.inline) and "pasted-text" in part["classes"]
        words.append("#" if number else "$x$" if isinstance(part, nodes.math) else part.astext())
    return re.sub(r"\s+", " ", "".join(words))


def keep_numbers(app, _):
    """Put our role in the place of MyST's, where it is loaded."""
    if app.registry.has_domain("glue"):
        app.registry.add_role_to_domain("glue", "text", GluedText(), override=True)


def setup(app):
    """Register the extension."""
    app.connect("config-inited", keep_numbers)
    app.add_transform(RoundOutwards)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
