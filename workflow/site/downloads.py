"""Write what a reader downloads from the site: the library, notebooks that run on their own, and slides."""

import base64
import hashlib
import re
import tomllib
import zipfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from itertools import repeat
from pathlib import Path

import jupytext
import nbformat
from packaging.requirements import Requirement
from pybtex.database import parse_file

from workflow.book.catalogue import chapters
from workflow.book.dependencies import PROJECT, library
from workflow.site import rows, slides
from workflow.site.plain_markdown import LABEL, LITERAL, TARGET, linked, parts, plain
from workflow.site.settings import settings, site_of
from workflow.sphinx_ext.sharing import small

OWN_MODEL, CLAIM = "book/beyond/use-it-on-your-model", "book/check-your-claim"
POST_BUILD = """#!/usr/bin/env bash
uv pip install --python "$(command -v python)" --torch-backend cpu "{torch}" || python -m pip install "{torch}"
"""
# What the theme ships and no page asks for: icons have a font of our own, pages are English.
UNUSED = ("_static/**/*.map", "_static/locales/**/*", "_static/vendor/**/*", "_static/scripts/fontawesome.js*")
GLUE = "application/papermill.record/"
GLUED = f"{GLUE}text/plain"
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
    sys.path.insert(0, str(Path("what-attention-selects").resolve()))"""


def write(built):
    """Put the library into a built site, replace the notebooks that its pages offer, lead old addresses on."""
    config, sources = settings(Path("_config.yml").read_text("utf-8")), built / "_sources"
    pages = {path.relative_to(sources).with_suffix("").as_posix(): read(path) for path in sorted(sources.rglob("*.*"))}
    macros = config.get("sphinx", {}).get("config", {}).get("mathjax3_config", {}).get("tex", {}).get("macros", {})
    book = {"title": config["title"], "site": site_of(config), "labels": labels(pages), "macros": macros}
    book |= {"works": parse_file("book/references.bib").entries, "digest": library_zip(built / "_static/lib.zip")}
    if OWN_MODEL in pages:  # a part of the book lacks this page
        own_model(built / "_static/use-it-on-your-model.zip", book)
    if CLAIM in pages:
        nbformat.write(templated(CLAIM, "check-your-claim", book), built / "_static/check-your-claim.ipynb")
    run = {page: notebook for page, notebook in pages.items() if "kernelspec" in notebook.metadata}
    shown = [page for page in (built / f"book/{chapter}.html" for chapter in chapters()) if page.is_file()]
    with ProcessPoolExecutor() as pool:
        list(pool.map(write_notebook, run, run.values(), repeat(book), repeat(sources)))
        list(pool.map(slides.write, shown))
    binder(built / "binder")
    rows.forward(built)
    for path in {path for pattern in UNUSED for path in built.glob(pattern) if path.is_file()}:
        path.unlink()


def write_notebook(page, notebook, book, sources):
    """Write the notebook that a page offers."""
    nbformat.write(downloadable(page, notebook, book), sources / (page + ".ipynb"))


def binder(folder):
    """Write what Binder makes an environment of: the lock, and torch apart, since pip would install its GPU build."""
    folder.mkdir()
    lines = Path("requirements.lock").read_text("utf-8").splitlines()
    torch = next((line for line in lines if line.startswith("torch==")), "torch")
    (folder / "requirements.txt").write_text("\n".join([line for line in lines if line != torch] + [""]), "utf-8")
    (folder / "runtime.txt").write_text("python-3.11\n", "utf-8")
    (folder / "postBuild").write_text(POST_BUILD.format(torch=torch), "utf-8")
    (folder / "postBuild").chmod(0o755)


def own_model(path, book):
    """Write an archive that runs where it is unpacked: notebook for a reader's model, one of the book, the library."""
    notebook = templated(OWN_MODEL, "your-model", book)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(zipfile.ZipInfo("use-it-on-your-model.ipynb"), nbformat.writes(notebook))
        for file in (path.with_name("lib.zip"), *sorted(Path("book/recorded/film-reader").glob("*.npz"))):
            archive.writestr(zipfile.ZipInfo(file.name), file.read_bytes())


def templated(page, name, book):
    """A notebook of a template, as it goes with a page."""
    return downloadable(page, jupytext.read(Path(__file__).with_name("templates") / f"{name}.md"), book)


def library_zip(path):
    """Write the packages that chapters import as an archive, the same bytes for the same files, and return its hash."""
    with zipfile.ZipFile(path, "w") as archive:
        for file in library():
            archive.writestr(zipfile.ZipInfo(file.as_posix()), file.read_bytes(), zipfile.ZIP_DEFLATED)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def read(path):
    """Read a page as a notebook, a page of prose as one of a single cell."""
    if path.suffix == ".ipynb":
        return nbformat.read(path, 4)
    return nbformat.v4.new_notebook(cells=[nbformat.v4.new_markdown_cell(path.read_text("utf-8"))])


def labels(pages):
    """Targets of references by page and label: the page, the anchor there, and what a reference to it reads."""
    targets = {}
    for page, notebook in pages.items():
        text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
        title = next(iter(re.findall(r"^# +(.+)$", text, re.MULTILINE)), page)
        targets[page] = (page, "", title)
        targets |= {match["label"]: (page, match["label"], match["title"] or title) for match in TARGET.finditer(text)}
        counts = Counter()
        for kind, label, name in (thing for cell in notebook.cells for thing in labelled(cell)):
            counts[kind] += 1
            numbered = {"math": f"({counts[kind]})", "figure": f"Figure {counts[kind]}"}
            anchor = "equation-" * (kind == "math") + label
            short = re.sub(r" *\(.*\)$", "", name)  # the title of a box without its authors
            targets[label] = (page, anchor, numbered.get(kind) or short or kind.capitalize())
    return targets


def labelled(cell, text=None):
    """Yield kind, label and title of what has a label in a cell, or in the text of a box there."""
    if cell.cell_type == "markdown":
        for fence, options, body in parts(cell.source if text is None else text):
            if label := LABEL.search(options):
                yield fence["kind"].rpartition(":")[2], label[1], fence["title"]
            if fence and fence["kind"] not in LITERAL:
                yield from labelled(cell, body)


def downloadable(page, notebook, book):
    """A page's notebook in plain Markdown, with its figures' captions and a first cell that finds ``lib``."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    glued = [output for output in outputs if GLUED in output.get("data", {})]
    numbers = {output.metadata.scrapbook.name: output.data[GLUED] for output in glued}
    here = book | {"page": page, "numbers": numbers}
    folded = {"jupyter": {"source_hidden": True}}
    start = nbformat.v4.new_code_cell(START.format(**book), id="library", metadata=folded)
    about = (
        f"This notebook belongs to *{book['title']}*: {linked(*book['labels'][page], book)}. It needs Python 3.11 or "
        f"later, and of these packages those that it imports: `pip install {packages()}`. The next cell finds the "
        "library of the book: in this environment, in `lib.zip` beside this notebook, which is under `_static/` on the "
        "site, or on the site where that has an address."
    )
    cells = [nbformat.v4.new_markdown_cell(about, id="about"), start]
    for output in outputs:
        if "data" in output:
            output.data = pictured(output.data)
    for cell in notebook.cells:
        cells.append(cell)
        if cell.cell_type == "markdown":
            cell.source = plain(cell.source, here)
    notebook.cells = cells
    return notebook


def pictured(data):
    """An output with its picture once, as the file that every viewer shows, also where a page places it."""
    picture = next((value for kind, value in data.items() if kind.endswith("image/png")), None)
    shown = {"image/png": base64.b64encode(small(base64.b64decode(picture))).decode()} if picture else {}
    return {kind: value for kind, value in data.items() if "image/" not in kind} | shown


def packages():
    """Distributions that notebooks of the book may need: of library, figures and data, and what chapters import."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = [line for name in ("figures", "data") for line in project["optional-dependencies"][name]]
    return " ".join([*(Requirement(line).name for line in project["dependencies"] + extras), "pandas", "mpmath"])
