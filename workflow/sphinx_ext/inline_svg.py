"""Put drawings of matplotlib into the page itself: labels of a picture behind ``<img>`` could not be selected or found.

By night CSS inverts them; where the page is wide it puts stacked panels side by side. A notebook elsewhere shows the
same drawing as a file. An extension of Sphinx.
"""

import html
import re
from pathlib import Path

from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

# Also the ground, which is that of the page, names of groups, to which nothing refers, and what texts share.
LEFT_OUT = re.compile(
    r'<metadata>.*?</metadata>|<!--.*?-->|xlink:|<g id="patch_1">.*?</g>|(?<=<g) id="[^"]*"|(?<=>)\s+(?=<)'
    r"|font-size: 11px; |font-family: [^;]*; |rotate\(-0 [^)]*\)",
    re.DOTALL,
)
FONT = 'font-size="11" font-family="Arial, DejaVu Sans, Liberation Sans, sans-serif"'
ID, PATH, NUMBER = (
    re.compile(r'( id="|href="#|url\(#)'),
    re.compile(r' (?:d|x|y|transform)="[^"]*"'),
    re.compile(r"-?\d+\.\d{3,}"),
)
PART = re.compile(r'^  <g id="([\w-]+)">\n(.*?)^  </g>\n', re.DOTALL | re.MULTILINE)  # axes, legends
FRAME = re.compile(r'<path d="M (.*?)"', re.DOTALL)
WRITTEN = re.compile(r'<text [^>]* y="(-?[\d.]+)|<g [^>]*transform="translate\(-?[\d.]+ (-?[\d.]+)')
TEXT = re.compile(r"<text>.*?</text>", re.DOTALL)
LETTER = re.compile(r'<tspan x="(-?[\d.]+).*?</tspan>')


def inlined(text, alt, name):
    """A drawing of matplotlib as HTML, its ids those of the drawing ``name``, its paths to hundredths of a point."""
    opening, _, inside = text[text.index("<svg ") :].partition(">")
    width, height = re.search(r'viewBox="0 0 ([\d.]+) ([\d.]+)"', opening).groups()
    inside, look = side_by_side(inside, float(width), f"--high: {height}px")
    inside = TEXT.sub(_in_order, ID.sub(rf"\g<1>{name}-", LEFT_OUT.sub("", inside)))
    inside = PATH.sub(lambda path: NUMBER.sub(_rounded, path[0].replace("\n", "")), inside)
    size = f'viewBox="0 0 {width} {height}" width="{width}" height="{height}" {FONT} {look}'
    return f'<svg id="{name}" class="drawing" {size} role="img" aria-label="{html.escape(alt)}">{inside}'


def side_by_side(inside, width, look):
    """Give each panel of ``lib.figures.panels`` the transform that puts panels in rows of two, which CSS may use."""
    parts = list(PART.finditer(inside))
    panels = [part for part in parts if part[1].startswith("panel-")]
    if len(panels) < 2:
        return inside, f'style="{look}"'
    heights = [_extent(part[2]) for part in panels]
    head = [part for part in parts if part[1] != "patch_1" and part not in panels]
    low = max((_extent(part[2])[1] for part in head if _extent(part[2])[1] < heights[0][1]), default=0.0)
    moves = {part[1]: (width / 2, 0.0) for part in head}
    for row in range(0, len(panels), 2):
        for k, (top, _) in enumerate(heights[row : row + 2]):
            moves[panels[row + k][1]] = (k * width, low - top)
        low += max(bottom - top for top, bottom in heights[row : row + 2])
    for part in head:
        if (top := _extent(part[2])[0]) > heights[-1][0]:
            moves[part[1]] = (width / 2, low - top)
            low += _extent(part[2])[1] - top
    for part in reversed(parts):
        if part[1] in moves:
            x, y = (f"{far / 2:.2f}px" for far in moves[part[1]])
            opened = f'  <g class="panel" style="--wide: translate({x}, {y}) scale(.5)"'
            inside = inside[: part.start()] + part[0].replace(f'  <g id="{part[1]}"', opened, 1) + inside[part.end() :]
    return inside, f'preserveAspectRatio="xMidYMin slice" style="{look}; --wide: {2 * width} / {low:.1f}"'


def _extent(part):
    """Highest and lowest point of axes with their texts."""
    frame = FRAME.search(part)
    texts = [float(y or place) for y, place in WRITTEN.findall(part)]
    heights = [*map(float, re.findall(r"-?[\d.]+", frame[1])[1::2])] if frame else texts
    return min([*heights, *(y - 9 for y in texts)]) - 3, max([*heights, *texts]) + 5


def _in_order(text):
    """The letters of a formula from left to right, in which they are read, copied and found."""
    letters = sorted(LETTER.finditer(text[0]), key=lambda letter: float(letter[1]))
    return f"<text>{''.join(letter[0] for letter in letters)}</text>"


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
    return {"version": "4", "parallel_read_safe": True, "parallel_write_safe": True}
