"""Bundle the interactive figures, ``book/_static/explore/*.js``, into the one classic script that pages load.

The sources are modules. A page that is opened from disk may load neither modules nor a worker's file, so each module
becomes a function that is called at once; the text of the engine's is the worker's program, too.
"""

import json
import re
from pathlib import Path

SOURCES = Path("book/_static/explore")
ENGINE, STYLE = "engine.js", "explore.css"
FIGURES = ("entries.js", "ball.js", "dial.js", "playground.js", "rounding.js", "road.js")  # so it packs best
ORDER = (ENGINE, "view.js", *FIGURES, "main.js")
EXPORTED = re.compile(r"^export (?:const|let|function|class) (\w+)", re.MULTILINE)
IMPORT = re.compile(r'^import (?:\* as )?(.+?) from "\./(\w+)\.js";$', re.MULTILINE)
COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


def module(name, source):
    """Return a module as a function that makes its exports, which are then in a constant called like its file."""
    text = IMPORT.sub(r"const \1 = \2Module;", source).replace("\nexport ", "\n").removeprefix("export ")
    body = "".join(part if fixed else tight(part) for fixed, part in parts(text))
    make = f"make{Path(name).stem.title()}"
    exports = ",".join(EXPORTED.findall(source))
    return f"function {make}() {{\n{body}\nreturn {{{exports}}};\n}}\nlet {Path(name).stem}Module = {make}();\n"


def tight(code):
    """Return code without what it does not need: spaces, commas and semicolons before a bracket, a second let."""
    code = re.sub(r"[^\S\n]*\n\s*", "\n", code)
    code = re.sub(r"[^\S\n]*([=*?:<>&|{}(),;\[\]%])[^\S\n]*", r"\1", code)
    code = re.sub(r"(?<=[\w)\]]) ?([-+/]=?|!==?) ?(?=[\w(\[.])", r"\1", code)
    code = re.sub(r"(?<![\w.])0\.(?=\d)", ".", re.sub(r"\bconst\b", "let", code))
    lets = re.compile(r"^let [^;\n]*;(?:\nlet [^;\n]*;)+$", re.MULTILINE)
    code = lets.sub(lambda lines: lines[0].replace(";\nlet ", ","), code)
    return re.sub(r"[,;]?\n?(?=[\]}])|(?<=[{(\[,;])\n", "", code)


def parts(text):
    """Yield pieces of a program without its comments: whether it is in quotes, and the piece.

    What a template has in braces is a piece of its own. No regular expression of the sources has quotes or two slashes.
    """
    code, place = "", 0
    while place < len(text):
        if text[place] in "\"'`":
            end = closed(text, place)
            yield False, code
            yield from quoted(text[place:end])
            code, place = "", end
        elif comment := COMMENT.match(text, place):
            place = comment.end()
        else:
            code, place = code + text[place], place + 1
    yield False, code


def quoted(text):
    """Yield the pieces of a string or template."""
    place = 0
    while text[0] == "`" and (begin := text.find("${", place) + 2) > 1:
        end = behind(text, begin) - 1
        yield True, text[place:begin]
        yield from parts(text[begin:end])
        place = end
    yield True, text[place:]


def closed(text, place):
    """Return the place behind the string or template that begins at a place."""
    quote, place = text[place], place + 1
    while text[place] != quote:
        if text[place] == "\\":
            place += 1
        elif quote == "`" and text.startswith("${", place):
            place = behind(text, place + 2)
            continue
        place += 1
    return place + 1


def behind(text, place):
    """Return the place behind the brace that closes what begins at a place."""
    while text[place] != "}":
        if text[place] in "\"'`":
            place = closed(text, place)
        else:
            place = behind(text, place + 1) if text[place] == "{" else place + 1
    return place + 1


def bundle(folder=SOURCES):
    """Return the script."""
    style = re.sub(r"\s*([{};:,>])\s+", r"\1", (folder / STYLE).read_text("utf-8")).replace(";}", "}").replace('"', "'")
    modules = "".join(module(name, (folder / name).read_text("utf-8")) for name in ORDER)
    return f'(() => {{\n"use strict";\nconst STYLE = {json.dumps(style)};\n{modules}}})();\n'


def setup(app):
    """Let Sphinx load the script where a page has an interactive figure, and only there."""
    app.connect("html-page-context", _load)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def _load(app, page, template, context, doctree):
    if "data-explore=" in context.get("body", ""):
        app.add_js_file("explore.js", loading_method="defer")
