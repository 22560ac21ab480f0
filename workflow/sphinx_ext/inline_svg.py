"""Put figures into the page as SVG, in the colours of its theme, light and dark. An extension of Sphinx.

A drawing of matplotlib is put into the HTML itself, not behind an ``<img>``: only there does it follow the theme's
switch in every browser and in print, and only there does its ink have the colour of the text around it. A notebook
elsewhere shows the same drawing in the light colours that it was drawn in.
"""

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
from docutils import nodes
from sphinx.transforms.post_transforms import SphinxPostTransform

SVG, LINK = "{http://www.w3.org/2000/svg}", "{http://www.w3.org/1999/xlink}href"
# Colours of lib/figures that follow the page (ink, paper), and the light colour on images, which stays as it is.
PAGE = {"#1c1c1c": "currentColor", "#ffffff": "var(--pst-color-background, #fff)", "#fefefe": "#fefefe"}
COLOUR, NUMBER = re.compile(r"#[0-9a-f]{6}\b"), re.compile(r"-?\d+\.\d{3,}")
MOVE = re.compile(r"(?<=translate\()[^)]*")
REFERENCE = re.compile(r"url\(#([^)]+)\)")
# Björn Ottosson's OKLab: from linear RGB to the cones, and from their cube roots to lightness and two hues
CONES = [[0.4122214708, 0.5363325363, 0.0514459929], [0.2119034982, 0.6806995451, 0.1073969566],
         [0.0883024619, 0.2817188376, 0.6299787005]]  # fmt: skip
LAB = [[0.2104542553, 0.7936177850, -0.0040720468], [1.9779984951, -2.4285922050, 0.4505937099],
       [0.0259040371, 0.7827717662, -0.8086757660]]  # fmt: skip


def dark(colour):
    """Colour of the same hue that stands out from a dark ground as this one does from a white one."""
    lightness, *hue = np.cbrt(linear(colour) @ np.transpose(CONES)) @ np.transpose(LAB)
    for chroma in np.linspace(1, 0, 41):  # the first that a screen can show
        cones = np.linalg.solve(LAB, [1.18 - 0.9 * lightness, chroma * hue[0], chroma * hue[1]]) ** 3
        light = np.linalg.solve(CONES, cones)
        if (light > -1e-6).all() and (light < 1 + 1e-6).all():
            break
    light = light.clip(0, 1)
    shown = np.where(light <= 0.0031308, 12.92 * light, 1.055 * light ** (1 / 2.4) - 0.055)
    return "#" + "".join(f"{round(255 * part):02x}" for part in shown)


def linear(colour):
    """Red, green and blue of ``#rrggbb`` as amounts of light between 0 and 1."""
    parts = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def inlined(text, alt, name):
    """A drawing of matplotlib as HTML: its colours as variables, no more digits than are seen, and unique ids.

    These begin with ``name``, which no other drawing of the page has and which starts with a letter.
    """
    root = ET.fromstring(text)
    for child in root.findall(f"{SVG}metadata"):
        root.remove(child)
    ground = root.find(f".//{SVG}g[@id='patch_1']")
    if ground is not None:
        ground.clear()  # the page is the background
    _rename(root, name)
    colours = {}
    for element in root.iter():
        _slim(element)
        if "style" in element.attrib:
            element.set("style", COLOUR.sub(lambda match: _variable(match[0], colours), element.get("style")))
    size = root.get("viewBox").split()[2:]
    root.attrib.clear()
    root.attrib |= {"id": name, "class": "drawing", "viewBox": " ".join(["0", "0", *size]), "role": "img"}
    root.attrib |= {"width": size[0], "height": size[1], "fill": "currentColor", "aria-label": alt}
    style = ET.Element(f"{SVG}style")
    style.text = _rules(name, colours)
    root.insert(0, style)
    for element in root.iter():
        element.tag = element.tag.removeprefix(SVG)
        element.tail = None
        if element.text and not element.text.strip():
            element.text = None
    return ET.tostring(root, "unicode")


def _variable(colour, colours):
    """Style of a colour: that of the page's text or ground, or a variable of this drawing."""
    return PAGE.get(colour) or f"var({colours.setdefault(colour, f'--c{len(colours)}')})"


def _rules(name, colours):
    """Style of a drawing: the colours of its variables in the light, and in the dark on a screen."""
    light = ";".join(f"{variable}:{colour}" for colour, variable in colours.items())
    night = ";".join(f"{variable}:{dark(colour)}" for colour, variable in colours.items())
    return f"#{name}{{{light}}}@media screen{{html[data-theme=dark] #{name}{{{night}}}}}"


def _rename(root, name):
    """Give each id that is referred to a name unique on the page, and drop the other ids."""
    used = {element.get(LINK, "").removeprefix("#") for element in root.iter()}
    for element in root.iter():
        used |= {match for value in element.attrib.values() for match in REFERENCE.findall(value)}
    names = {old: f"{name}-{k}" for k, old in enumerate(sorted(used - {""}))}
    for element in root.iter():
        old = element.attrib.pop("id", None)
        if old in names:
            element.set("id", names[old])
        if (target := element.attrib.pop(LINK, None)) is not None:
            element.set("href", "#" + names[target[1:]] if target.startswith("#") else target)
        for key, value in element.attrib.items():
            element.set(key, REFERENCE.sub(lambda match: f"url(#{names[match[1]]})", value))


def _slim(element):
    """Round coordinates and sizes of an element to hundredths of a point."""
    for key in ("d", "x", "y", "width", "height", "points"):
        if key in element.attrib and not element.attrib[key].startswith("data:"):
            rounded = _round(element.attrib[key])
            element.set(key, shortened(rounded) if key == "d" else " ".join(rounded.split()))
    if "transform" in element.attrib:
        element.set("transform", MOVE.sub(lambda match: _round(match[0]), element.get("transform")))


def _round(numbers):
    return NUMBER.sub(lambda match: f"{float(match[0]):.2f}".rstrip("0").rstrip("."), numbers)


def shortened(path):
    """A path of SVG without the spaces around its commands, and without a command that repeats the one before it."""
    text, command = "", ""
    for token in path.split():
        if not token.isalpha():
            text += token if text[-1:].isalpha() else f" {token}"
        elif token != command or token in "Mm":
            text += token
            command = token
    return text


class Inline(SphinxPostTransform):
    """Put the drawings of a page into its HTML."""

    default_priority, formats = 5, ("html",)  # before Sphinx copies the remaining images

    def run(self):
        """Replace each image that is a drawing of matplotlib by a mark, and keep the drawing."""
        for k, image in enumerate(list(self.document.findall(nodes.image))):
            path = Path(self.app.srcdir, image["uri"])
            if path.suffix != ".svg" or not path.exists():  # a chapter that has not run has no figure yet
                continue
            if "matplotlib" not in (text := path.read_text("utf-8"))[:2000]:
                continue
            made = inlined(text, image.get("alt", ""), f"drawing-{k + 1}")
            drawings = self.app.drawings.setdefault(self.env.docname, {})
            drawings[mark := f"<!--drawing {k + 1}-->"] = made
            image.replace_self(nodes.raw("", mark, format="html"))


def put_in(app, exception):
    """Put the drawings in place of their marks at the end: extensions that parse pages would parse them, too."""
    for name, drawings in app.drawings.items() if exception is None else ():
        page = Path(app.builder.get_outfilename(name))
        text = page.read_text("utf-8")
        for mark, made in drawings.items():
            text = text.replace(mark, made)
        page.write_text(text, "utf-8")


def setup(app):
    """Register what finds the drawings, and what puts them in."""
    app.drawings = {}
    app.add_post_transform(Inline)
    app.connect("build-finished", put_in, priority=999)
    return {"version": "2", "parallel_read_safe": True, "parallel_write_safe": False}
