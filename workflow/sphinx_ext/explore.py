"""Bundle the interactive figures, ``book/_static/explore/*.js``, into the one classic script that pages load.

The sources are modules. A page that is opened from disk may load neither modules nor a worker's file, so each module
becomes a function that is called at once; the text of the engine's is the worker's program, too. Two modules have no
file: ``scene.js`` is what ``book/story.yml`` says of the scene, ``looks.js`` the code of colours of ``lib.figures``.
"""

import json
import re
from pathlib import Path

import numpy as np
import yaml
from matplotlib.colors import to_hex, to_rgb

SOURCES = Path("book/_static/explore")
ENGINE, STYLE, SCENE, LOOKS = "engine.js", "explore.css", "scene.js", "looks.js"
FIGURES = ("entries.js", "ball.js", "cone.js", "dial.js", "heads.js", "playground.js", "road.js")
PARTS = (LOOKS, "view.js", "plane.js", "frame.js", "guide.js")
ORDER = (ENGINE, *PARTS, *FIGURES, "questions.js", SCENE, "story.js", "main.js")
EXPORTED = re.compile(r"^export (?:const|let|function|class) (\w+)", re.MULTILINE)
IMPORT = re.compile(r'^import (?:\* as )?(.+?) from "\./(\w+)\.js";$', re.MULTILINE)


def source_of(name, folder=SOURCES):
    """Text of a module."""
    if name == LOOKS:
        return f"export const LOOKS = {json.dumps(looks())};\n"
    if name != SCENE:
        return (folder / name).read_text("utf-8")
    story = folder.parents[1] / "story.yml"
    scene = yaml.safe_load(story.read_text("utf-8"))["scene"] if story.exists() else {"keys": []}
    return f"export const SCENE = {json.dumps(scene)};\n"


def hues():
    """Classes of colours; i0 to i2 are those of inputs, too."""
    from lib.figures import BLUE, BROWN, GREEN, PINK, TEAL, VERMILION, VIOLET  # a book without figures lacks them

    return {"c0": GREEN, "c1": VERMILION, "c2": VIOLET, "c3": PINK, "i0": BLUE, "i1": BROWN, "i2": TEAL}


def looks():
    """Classes of tokens, paths and methods, by name: the colour and, of rounding, the style of the line."""
    from lib.figures.style import KINDS, METHODS, ROUNDED

    classes = {colour: name for name, colour in hues().items()}
    styles = {":": " dotted", "-.": " dashed", "-": ""}
    known = {name: colour for name, colour in (KINDS | METHODS).items() if colour in classes}
    return {name: classes[colour] + styles[ROUNDED.get(name, "-")] for name, colour in known.items()}


def shades():
    """Style of the classes by day, and by night: inverted, hues kept, as drawings are (book.css)."""
    day = "".join(f"--x-{name}: {colour};" for name, colour in hues().items())
    night = "".join(f"--x-{name}: {by_night(colour)};" for name, colour in hues().items())
    classes = "".join(f".explore .{name} {{ --x: var(--x-{name}) }}\n" for name in hues())
    return f'.explore {{ {day} }}\nhtml[data-theme="dark"] .explore {{ {night} }}\n{classes}'


def by_night(colour):
    """The colour that the filter ``invert(1) hue-rotate(180deg)`` makes (Filter Effects, W3C)."""
    inverse = 1 - np.array(to_rgb(colour))
    return to_hex(np.clip(2 * inverse @ [0.213, 0.715, 0.072] - inverse, 0, 1))


def module(name, source):
    """A module as a function that makes its exports, which are then in a constant called like its file."""
    text = IMPORT.sub(r"const \1 = \2Module;", source).replace("\nexport ", "\n").removeprefix("export ")
    make = f"make{Path(name).stem.title()}"
    exports = ", ".join(EXPORTED.findall(source))
    return f"function {make}() {{\n{text}\nreturn {{ {exports} }};\n}}\nconst {Path(name).stem}Module = {make}();\n"


def bundle(folder=SOURCES):
    """Text of the script."""
    style = json.dumps(shades() + (folder / STYLE).read_text("utf-8"))
    modules = "".join(module(name, source_of(name, folder)) for name in ORDER)
    return f'(() => {{\n"use strict";\nconst STYLE = {style};\n{modules}}})();\n'


def setup(app):
    """Let Sphinx load a script where a page has an interactive figure, and only there."""
    app.connect("html-page-context", _load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _load(app, page, template, context, doctree):
    if "data-explore=" in context.get("body", ""):
        app.add_js_file("explore.js", loading_method="defer")
    if 'class="landing"' in context.get("body", ""):
        app.add_js_file("landing.js", loading_method="defer")
