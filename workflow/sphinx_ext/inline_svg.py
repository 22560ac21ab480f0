"""Put drawings of matplotlib into the page itself: labels of a picture behind ``<img>`` could not be selected or found.

By night CSS inverts them. A notebook elsewhere shows the same drawing as a file. An extension of Sphinx.
"""

import html
import re
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

# Also the ground, which is that of the page, and names of groups, to which nothing refers.
LEFT_OUT = re.compile(
    r'<metadata>.*?</metadata>|<!--.*?-->|xlink:|<g id="patch_1">.*?</g>|(?<=<g) id="[^"]*"|(?<=>)\s+(?=<)', re.DOTALL
)
ID, PATH, NUMBER = (
    re.compile(r'( id="|href="#|url\(#)'),
    re.compile(r' (?:d|x|y)="[^"]*"'),
    re.compile(r"-?\d+\.\d{3,}"),
)


def inlined(text, alt, name):
    """A drawing of matplotlib as HTML, its ids those of the drawing ``name``, its paths to hundredths of a point."""
    opening, _, inside = text[text.index("<svg ") :].partition(">")
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', opening).groups()
    inside = ID.sub(rf"\g<1>{name}-", LEFT_OUT.sub("", inside))
    inside = PATH.sub(lambda path: NUMBER.sub(_rounded, path[0].replace("\n", "")), inside)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
    return f'<svg id="{name}" class="drawing" {size} role="img" aria-label="{html.escape(alt)}">{inside}'


def _rounded(number):
    return f"{float(number[0]):.2f}".rstrip("0").rstrip(".")


class Inline(SphinxPostTransform):
    """Put the drawings of a page into its HTML."""

    default_priority, formats = 5, ("html",)  # before Sphinx copies the remaining images

    def run(self):
        """Replace each image that is a drawing of matplotlib, where its chapter has run, by the drawing."""
        for k, image in enumerate(list(self.document.findall(nodes.image)), 1):
            path = Path(self.app.srcdir, image["uri"])
            if path.suffix == ".svg" and path.exists() and "matplotlib" in (text := path.read_text("utf-8"))[:2000]:
                made = inlined(text, image.get("alt", ""), f"drawing-{k}")
                image.replace_self(nodes.raw("", made, format="html"))


def setup(app):
    """Register the extension."""
    app.add_post_transform(Inline)
    return {"version": "3", "parallel_read_safe": True, "parallel_write_safe": True}
