"""Bundle the interactive figures, ``book/_static/explore/*.js``, into the one classic script that pages load.

The sources are modules. A page that is opened from disk may load neither modules nor a worker's file, so all of them go
into one scope, and the engine into a function whose text is the worker's program, too.
"""

import json
import re
from pathlib import Path

SOURCES = Path("book/_static/explore")
ENGINE, STYLE = "engine.js", "explore.css"
ORDER = (ENGINE, "view.js", "playground.js", "rounding.js", "road.js", "dial.js", "ball.js", "main.js")
EXPORTED = re.compile(r"^export (?:const|let|function|class) (\w+)", re.MULTILINE)
IMPORT = re.compile(r"^import [^;]*;\n", re.MULTILINE)
COMMENT = re.compile(r"/\*\*.*?\*/\n|^\s*//[^\n]*\n|\s// [^\n\"'`]*$", re.DOTALL | re.MULTILINE)


def engine(source):
    """Return the engine's module as a function that makes it, ``makeEngine``."""
    return f"function makeEngine() {{\n{plain(source)}return {{ {', '.join(EXPORTED.findall(source))} }};\n}}\n"


def plain(source):
    """Return a module without imports, exports, comments and indentation."""
    text = COMMENT.sub("", IMPORT.sub("", source)).replace("\nexport ", "\n").removeprefix("export ")
    lines = [line.strip() for line in text.splitlines()]
    if torn := [line for line in lines if line.count("`") % 2]:
        raise ValueError(f"a template goes over several lines, which the bundle joins: {torn[0]}")
    return "\n".join(line for line in lines if line) + "\n"


def bundle(folder=SOURCES):
    """Return the script."""
    parts = {name: (folder / name).read_text("utf-8") for name in ORDER}
    rest = "".join(plain(text) for name, text in parts.items() if name != ENGINE)
    style = json.dumps((folder / STYLE).read_text("utf-8"))
    head = f"{engine(parts[ENGINE])}const engine = makeEngine();\nconst STYLE = {style};\n"
    return f'(() => {{\n"use strict";\n{head}{rest}}})();\n'


def setup(app):
    """Let Sphinx load the script where a page has an interactive figure, and only there."""
    app.connect("html-page-context", _load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _load(app, page, template, context, doctree):
    if "data-explore=" in context.get("body", ""):
        app.add_js_file("explore.js", loading_method="defer")
