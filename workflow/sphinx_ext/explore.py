"""Bundle the interactive figures, ``book/_static/explore/*.js``, into the one classic script that pages load.

The sources are modules. A page that is opened from disk may load neither modules nor a worker's file, so each module
becomes a function that is called at once; the text of the engine's is the worker's program, too. ``scene.js`` has no
file: it is what ``book/story.yml`` says of the scene.
"""

import json
import re
from pathlib import Path

import yaml

SOURCES = Path("book/_static/explore")
ENGINE, STYLE, SCENE = "engine.js", "explore.css", "scene.js"
FIGURES = ("entries.js", "ball.js", "cone.js", "dial.js", "playground.js", "rounding.js", "road.js")
ORDER = (ENGINE, "view.js", "plane.js", "frame.js", "guide.js", *FIGURES, "questions.js", SCENE, "story.js", "main.js")
EXPORTED = re.compile(r"^export (?:const|let|function|class) (\w+)", re.MULTILINE)
IMPORT = re.compile(r'^import (?:\* as )?(.+?) from "\./(\w+)\.js";$', re.MULTILINE)


def source_of(name, folder=SOURCES):
    """Text of a module."""
    if name != SCENE:
        return (folder / name).read_text("utf-8")
    story = folder.parents[1] / "story.yml"
    scene = yaml.safe_load(story.read_text("utf-8"))["scene"] if story.exists() else {"keys": []}
    return f"export const SCENE = {json.dumps(scene)};\n"


def module(name, source):
    """A module as a function that makes its exports, which are then in a constant called like its file."""
    text = IMPORT.sub(r"const \1 = \2Module;", source).replace("\nexport ", "\n").removeprefix("export ")
    make = f"make{Path(name).stem.title()}"
    exports = ", ".join(EXPORTED.findall(source))
    return f"function {make}() {{\n{text}\nreturn {{ {exports} }};\n}}\nconst {Path(name).stem}Module = {make}();\n"


def bundle(folder=SOURCES):
    """Text of the script."""
    style = json.dumps((folder / STYLE).read_text("utf-8"))
    modules = "".join(module(name, source_of(name, folder)) for name in ORDER)
    return f'(() => {{\n"use strict";\nconst STYLE = {style};\n{modules}}})();\n'


def setup(app):
    """Let Sphinx load the script where a page has an interactive figure, and only there."""
    app.connect("html-page-context", _load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _load(app, page, template, context, doctree):
    if "data-explore=" in context.get("body", ""):
        app.add_js_file("explore.js", loading_method="defer")
