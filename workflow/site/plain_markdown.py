"""Turn MyST into plain Markdown: Jupyter and Colab know no directives and no roles.

Directives become quotations, roles become numbers, citations, formulas and links.
"""

import posixpath
import re

from workflow.sphinx_ext.bounds import rounded

FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}(?!.*`)|:{3,}(?=\{))(?:\{(?P<kind>[\w:-]+)\})? *(?P<title>.*)")
OPTIONS = re.compile(r"(?: *:[\w-]+:.*\n)*\n*")
LITERAL = (None, "math")  # blocks that contain no other block; None is code
LABEL = re.compile(r"^ *:(?:label|name): *(\S+)", re.MULTILINE)
TARGET = re.compile(r"^\((?P<label>[\w-]+)\)= *\n+(?=(?:#+ +(?P<title>.+))?)", re.MULTILINE)
ROLE = re.compile(r"\{(?P<kind>[a-z][\w:-]*)\}`(?P<text>[^`]+)`|`[^`]+`")
ARGUMENT = r"(?:\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}| *(\\[a-zA-Z]+|[^\s{\\]))"  # argument of a macro
FORMULA = re.compile(r"(\${1,2})[^$]+\1")


def parts(text):
    """Yield prose, after None and no options, and blocks: the match of the first line, the options and the rest."""
    lines, prose = iter(text.split("\n")), ""
    for line in lines:
        if fence := FENCE.fullmatch(line):
            yield None, "", prose
            body, prose = "".join(inside(fence, lines)), ""
            options = OPTIONS.match(body)[0] if fence["kind"] else ""
            yield fence, options, body.removeprefix(options)
        else:
            prose += line + "\n"
    yield None, "", prose


def inside(first, lines):
    """Yield the lines of a block up to the one that closes it."""
    end = re.compile(f" *{first['fence']}{first['fence'][0]}* *")
    for line in lines:
        if end.fullmatch(line):
            return
        yield line.removeprefix(first["indent"]) + "\n"


def plain(text, here):
    """Markdown that says the same without directives, roles, labels and macros."""
    return "".join(block(*part, here) if part[0] else inline(part[2], here) for part in parts(text)).strip("\n")


def inline(text, here):
    """Prose or a formula without roles, labels and macros; in a quotation each formula is on one line."""
    text = ROLE.sub(lambda match: role(match, here) if match["kind"] else match[0], TARGET.sub("", text))
    for name, (meaning, _) in here["macros"].items():
        macro = re.compile(rf"\\{name}(?![a-zA-Z]){ARGUMENT}")
        while macro.search(text):
            text = macro.sub(lambda match, meaning=meaning: meaning.replace("#1", match[1] or match[2]), text)
    # because Jupyter takes a > at the start of the next line for part of the formula
    return FORMULA.sub(lambda match: " ".join(match[0].split()), text) if here.get("quoted") else text


def block(fence, options, body, here):
    """Code as it is, a formula with its number, and any other directive as a quotation under its title."""
    kind, title, label = fence["kind"], fence["title"].strip(), LABEL.search(options)
    name = here["labels"][label[1]][2] if label else ""
    if kind == "math":
        tag = f" \\tag{{{name.strip('()')}}}" if name else ""
        shown = inline(f"$$\n{body.strip()}{tag}\n$$", here)
    elif kind in LITERAL:
        ticks = max(["``", *re.findall("`{3,}", body)], key=len) + "`"
        shown = f"{ticks}{title}\n{body.rstrip()}\n{ticks}"
    elif kind == "glue:":
        shown = "*The table is shown by one of the last cells.*"
    else:
        name = name or "Figure" if kind.endswith("figure") else title or kind.rpartition(":")[2].capitalize()
        quoted = plain(body, here | {"quoted": True}).splitlines()
        shown = "\n".join(f"> {line}".rstrip() for line in [f"**{inline(name, here)}**", "", *quoted])
    return "".join(f"{fence['indent']}{line}\n" for line in shown.split("\n"))


def role(match, here):
    """Number, citation, formula or link that a role stands for, and of an unknown one its text."""
    kind, text = match["kind"], " ".join(match["text"].split())
    if kind.startswith("glue"):
        key, _, form = text.partition(":")
        number = here["numbers"][key]
        return rounded((int if form.endswith("d") else float)(number), form) if form else number.strip("'\"")
    if kind.startswith("cite"):
        works = [here["works"][key.strip()] for key in text.split(",")]
        cited = "; ".join(f"{authors(work)}, {work.fields['year']}" for work in works)
        return f"({cited})" if kind == "cite:p" else cited
    explicit = re.fullmatch(r"(.+?) *<(.+)>", text)
    shown, target = explicit.groups() if explicit else ("", text)
    if kind == "math":
        return f"${text}$"
    if kind == "doc":
        target = posixpath.normpath(posixpath.join(posixpath.dirname(here["page"]), target))
    if target not in here["labels"]:
        return shown or text
    page, anchor, name = here["labels"][target]
    if page == here["page"]:
        return shown or name
    if kind in ("eq", "numref"):
        name += f" of *{here['labels'][page][2]}*"
    return linked(page, anchor, shown or name, here)


def linked(page, anchor, name, book):
    """A link to a place in the published site; the name alone while there is none."""
    return f"[{name}]({book['site']}/{page}.html{'#' * bool(anchor)}{anchor})" if book["site"] else name


def authors(work):
    """Authors as a citation has them, with a link to the paper where it is on arXiv."""
    names = [" ".join(person.last_names) for person in work.persons["author"]]
    name = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
    return f"[{name}](https://arxiv.org/abs/{work.fields['eprint']})" if "eprint" in work.fields else name
