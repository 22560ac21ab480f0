"""What a reader takes away from the site: the library, and notebooks that run on their own and read as plain Markdown.

Jupyter and Colab know no directive and no role of MyST: these become prose, numbers, plain formulas and links.
"""

import ast
import base64
import hashlib
import io
import posixpath
import re
import shutil
import sys
import zipfile
from collections import Counter
from functools import cache, partial
from pathlib import Path

import nbformat
import yaml
from abreast import each
from chapters import library
from PIL import Image
from pybtex.database import parse_file

FENCE = re.compile(r"(?P<indent> *)(?P<fence>`{3,}(?!.*`)|~{3,}|:{3,}(?=\{))(?:\{(?P<kind>[\w:-]+)\})? *(?P<title>.*)")
OPTIONS = re.compile(r"(?: *:[\w-]+:.*\n)*\n*")
LITERAL = (None, "code", "code-block", "math")  # what holds no other block; None is code without a directive
LABEL = re.compile(r"^ *:(?:label|name): *(\S+)", re.MULTILINE)
TARGET = re.compile(r"^\((?P<label>[\w-]+)\)= *\n+(?=(?:#+ +(?P<title>.+))?)", re.MULTILINE)
ROLE = re.compile(r"\{(?P<kind>[a-z][\w:-]*)\}`(?P<text>[^`]+)`|`[^`]+`")
ARGUMENT = r"(?:\{((?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*)\}| *(\\[a-zA-Z]+|[^\s{\\]))"  # of a macro in a formula
FORMULA = re.compile(r"(\${1,2})[^$]+\1")
RECORD = "application/papermill.record/"
GLUED = f"{RECORD}text/plain"
START = """\
# Not for reading: finds the library of the book, in this environment, in lib.zip near this notebook, or on the site.
import hashlib, importlib.util, io, sys, urllib.request, zipfile
from pathlib import Path

SITE, SHA256 = {site!r}, {digest!r}
try:
    missing = importlib.util.find_spec("lib.ledger") is None
except ModuleNotFoundError:
    missing = True
if missing:
    near = [folder / name for folder in (Path.cwd(), *Path.cwd().parents) for name in ("lib.zip", "_static/lib.zip")]
    found = [path.read_bytes() for path in near if path.is_file()]
    if not found and SITE:
        found = [urllib.request.urlopen(SITE + "/_static/lib.zip").read()]
    found = [archive for archive in found if hashlib.sha256(archive).hexdigest() == SHA256]
    if not found:
        raise FileNotFoundError("put lib.zip beside this notebook: it is under _static/ on the site that this is from")
    zipfile.ZipFile(io.BytesIO(found[0])).extractall("what-attention-selects")
    sys.modules.pop("lib", None)
    sys.path.insert(0, str(Path("what-attention-selects").resolve()))"""


def settings(text):
    """Return ``_config.yml`` as it is in force: links that need an address only where there is one."""
    config = yaml.safe_load(text)
    page = config.setdefault("html", {})
    page["use_repository_button"] = page["use_issues_button"] = bool(config.get("repository", {}).get("url"))
    if not page["use_repository_button"]:
        config.pop("repository", None)
        config.pop("launch_buttons", None)
    if site := site_of(config):
        page["baseurl"] = site
    return config


def site_of(config):
    """Return the address of the published site, GitHub's own for the repository unless another is set; or None."""
    url = config.get("repository", {}).get("url", "")
    github = re.fullmatch(r"https://github\.com/([\w.-]+)/([\w.-]+?)(\.git)?/?", url)
    return config.get("html", {}).get("baseurl") or (github and f"https://{github[1]}.github.io/{github[2]}")


def write(built):
    """Put the library into a built site, and replace the notebooks that its pages offer."""
    config, sources = settings(Path("_config.yml").read_text("utf-8")), built / "_sources"
    pages = {path.relative_to(sources).with_suffix("").as_posix(): read(path) for path in sorted(sources.rglob("*.*"))}
    macros = config.get("sphinx", {}).get("config", {}).get("mathjax3_config", {}).get("tex", {}).get("macros", {})
    book = {"title": config["title"], "site": site_of(config), "labels": labels(pages), "macros": macros}
    book |= {"works": parse_file("book/references.bib").entries, "digest": library_zip(built / "_static/lib.zip")}
    offered = {page: notebook for page, notebook in pages.items() if "kernelspec" in notebook.metadata}
    each(partial(replace, sources, book), offered.items())
    (built / "binder").mkdir()
    shutil.copyfile("requirements.lock", built / "binder/requirements.txt")
    (built / "binder/runtime.txt").write_text("python-3.11\n")


def replace(sources, book, offered):
    """Write the notebook that a page offers."""
    page, notebook = offered
    nbformat.write(downloadable(page, notebook, book), sources / (page + ".ipynb"))


def library_zip(path):
    """Write ``lib/`` as an archive, the same bytes for the same files, and return its hash."""
    with zipfile.ZipFile(path, "w") as archive:
        for file in library():
            archive.writestr(zipfile.ZipInfo(file.as_posix()), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(path):
    """Return a page as a notebook, a page of prose as one of a single cell."""
    if path.suffix == ".ipynb":
        return nbformat.read(path, 4)
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(path.read_text("utf-8"))])


def labels(pages):
    """Return for each page and label: the page, the anchor there, and what a reference to it reads."""
    found = {}
    for page, notebook in pages.items():
        text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        title = next(iter(re.findall(r"^# +(.+)$", text, re.MULTILINE)), page)
        found[page] = (page, "", title)
        found |= {match["label"]: (page, match["label"], match["title"] or title) for match in TARGET.finditer(text)}
        counts = Counter()
        for kind, label, name in (thing for cell in notebook.cells for thing in labelled(cell)):
            counts[kind] += 1
            numbered = {"math": f"({counts[kind]})", "figure": f"Figure {counts[kind]}"}
            anchor = "equation-" * (kind == "math") + label
            own = re.sub(r" *\(.*\)$", "", name)  # of a box, less whose it is
            found[label] = (page, anchor, numbered.get(kind) or own or kind.capitalize())
    return found


def labelled(cell, text=None):
    """Yield kind, label and title of what has a label in a cell, or in the text of a box there."""
    if cell.cell_type == "markdown":
        for fence, options, body in parts(cell.source if text is None else text):
            if label := LABEL.search(options):
                yield fence["kind"].rpartition(":")[2], label[1], fence["title"]
            if fence and fence["kind"] not in LITERAL:
                yield from labelled(cell, body)
    elif "figure" in (options := cell.metadata.get("mystnb", {})):
        yield "figure", options["figure"]["name"], ""


def downloadable(page, notebook, book):
    """Return a page's notebook in plain Markdown, with its figures' captions and a first cell that finds ``lib``."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    glued = [output for output in outputs if GLUED in output.get("data", {})]
    numbers = {output.metadata.scrapbook.name: output.data[GLUED] for output in glued}
    here = book | {"page": page, "numbers": numbers}
    folded = {"jupyter": {"source_hidden": True}}
    start = nbformat.v4.new_code_cell(START.format(**book), id="library", metadata=folded)
    about = (
        f"This notebook is a chapter of *{book['title']}*: {linked(*book['labels'][page], book)}. It needs Python 3.11 "
        f"or later and a few packages: `pip install {' '.join(needed(notebook))}`. The next cell finds the library of "
        f"the book: {origin(book)}."
    )
    cells = [nbformat.v4.new_markdown_cell(about, id="about"), start]
    for output in outputs:
        if "data" in output:
            output.data = pictured(output.data)
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source, here)
        elif figure := cell.metadata.pop("mystnb", {}).get("figure"):
            text = f"**{book['labels'][figure['name']][2]}.** {plain(figure.get('caption', ''), here)}"
            cells.append(nbformat.v4.new_markdown_cell(text, id=figure["name"]))
    notebook.cells = cells
    return notebook


def origin(book):
    """Return where a notebook gets the library from."""
    if book["site"]:
        return f"in this environment, beside this notebook, or on the site ([lib.zip]({book['site']}/_static/lib.zip))"
    return "in this environment, or in `lib.zip`, which is under `_static/` on the site; put it beside this notebook"


def pictured(data):
    """Return an output with its picture once, as the file that every viewer shows, also where a page places it."""
    picture = next((value for kind, value in data.items() if kind.endswith("image/png")), None)
    shown = {"image/png": base64.b64encode(reduced(base64.b64decode(picture))).decode()} if picture else {}
    return {kind: value for kind, value in data.items() if "image/" not in kind} | shown


def reduced(picture):
    """Return a picture in 64 colours, rare ones kept, which is all that a drawing has and a quarter of the bytes."""
    file = io.BytesIO()
    with Image.open(io.BytesIO(picture)) as image:
        image.convert("RGB").quantize(64, method=Image.Quantize.MAXCOVERAGE).save(file, "PNG", optimize=True)
    return file.getvalue()


def needed(notebook):
    """Return what has to be installed: the packages that the library and these cells import."""
    code = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    code += [path.read_text("utf-8") for path in Path("lib").rglob("*.py")]
    names = {name.partition(".")[0] for text in code for name in imported(text)}
    names -= {*sys.stdlib_module_names, "lib", "myst_nb", "IPython"}
    return sorted({"sklearn": "scikit-learn"}.get(name, name) for name in names)


@cache
def imported(text):
    """Return the modules that code imports by their whole names."""
    nodes = list(ast.walk(ast.parse(text)))
    names = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    return names | {node.module for node in nodes if isinstance(node, ast.ImportFrom) and not node.level}


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
    """Yield the lines of a block up to the one that closes it, also where a block in it has as long a fence."""
    fences = [first]
    for line in lines:
        mark = fences[-1]["fence"]
        if re.fullmatch(f" *{mark}{mark[0]}* *", line):
            fences.pop()
            if not fences:
                return
        elif fences[-1]["kind"] not in LITERAL and (fence := FENCE.fullmatch(line)):
            fences.append(fence)
        yield line.removeprefix(first["indent"]) + "\n"


def plain(text, here):
    """Return Markdown that says the same without directives, roles, labels and macros."""
    return "".join(block(*part, here) if part[0] else inline(part[2], here) for part in parts(text)).strip("\n")


def inline(text, here):
    """Return prose or a formula without roles, labels and macros; in a quotation each formula is on one line."""
    text = ROLE.sub(lambda match: role(match, here) if match["kind"] else match[0], TARGET.sub("", text))
    for name, (meaning, _) in here["macros"].items():
        macro = re.compile(rf"\\{name}(?![a-zA-Z]){ARGUMENT}")
        while macro.search(text):
            text = macro.sub(lambda match, meaning=meaning: meaning.replace("#1", match[1] or match[2]), text)
    # because Jupyter takes a > at the start of the next line for part of the formula
    return FORMULA.sub(lambda match: " ".join(match[0].split()), text) if here.get("quoted") else text


def block(fence, options, body, here):
    """Return code as it is, a formula with its number, and any other directive as a quotation under its title."""
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
    elif kind == "include":
        shown = f"*The site shows a table here: {linked(*here['labels'][here['page']], here)}.*"
    else:
        name = name or "Figure" if kind.endswith("figure") else title or kind.rpartition(":")[2].capitalize()
        quoted = plain(body, here | {"quoted": True}).splitlines()
        shown = "\n".join(f"> {line}".rstrip() for line in [f"**{inline(name, here)}**", "", *quoted])
    return "".join(f"{fence['indent']}{line}\n" for line in shown.split("\n"))


def role(match, here):
    """Return the number, citation, formula or link that a role stands for, and of an unknown one its text."""
    kind, text = match["kind"], " ".join(match["text"].split())
    if kind.startswith("glue"):
        key, _, form = text.partition(":")
        number = here["numbers"][key]
        return format((int if form.endswith("d") else float)(number), form) if form else number.strip("'\"")
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
    """Return a link to a place in the published site; the name alone while there is none."""
    return f"[{name}]({book['site']}/{page}.html{'#' * bool(anchor)}{anchor})" if book["site"] else name


def authors(work):
    """Return the authors as a citation has them, with a link to the paper where it is on arXiv."""
    names = [" ".join(person.last_names) for person in work.persons["author"]]
    name = f"{names[0]} et al." if len(names) > 2 else " and ".join(names)
    return f"[{name}](https://arxiv.org/abs/{work.fields['eprint']})" if "eprint" in work.fields else name
