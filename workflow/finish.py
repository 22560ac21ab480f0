"""Finish a built site: what a page says of itself to others, an index of statements, sizes of pictures, less weight.

Sphinx and its theme put on every page what none of ours needs: two thousand icons, an engine for live code, the index
of the search, MathJax in all its forms. There is no setting for that, so it is taken out here.
"""

import html
import itertools
import re
import shutil
import struct
import unicodedata
from base64 import b64decode
from pathlib import Path

import nbformat
from bs4 import BeautifulSoup
from downloads import reduced
from fontTools import subset, ttLib

NEVER = re.compile(
    r"<script>const THEBE_JS_URL.*?</script>|<script[^>]*/sphinx-thebe\.js[^>]*></script>"
    r'|<script type="text/x-thebe-config">.*?</script>\s*<script>kernelName = .*?</script>'
    r"|<link[^>]*/sphinx-thebe\.css[^>]*>|<script[^>]*/fontawesome\.js[^>]*></script>",
    re.DOTALL,
)
SEARCH = re.compile(r"<script[^>]*/(?:searchtools|language_data|searchindex)\.js[^>]*></script>")
TITLE = re.compile(r"<title>(?:[\d.]+ )?(.*?)(?: (?:—|&#8212;) (.*?))?</title>", re.DOTALL)
FORMULA = re.compile(r'(<span class="math notranslate nohighlight")>\\\((.*?)\\\)</span>', re.DOTALL)
# A short formula and the sign before or after it: between the two a browser would end the line. A long one may need to.
SHORT = r'<span class="math notranslate nohighlight" data-words="[^"]{1,30}">[^<]*</span>'
TIED = re.compile(rf"[(\[“‘]{SHORT}[-).,:;!?\]’”%°]*|{SHORT}[-).,:;!?\]’”%°]+")
BOX = re.compile(
    r'<div class="proof [\w ]*admonition" id="([^"]+)">\s*<p class="admonition-title">(.*?)</p>', re.DOTALL
)
PLAIN = re.compile(r'<span class="[pw]">([^<]*)</span>')  # of code: punctuation and spaces have the colour of the text
BADGE = re.compile(r'<span class="badge.*?</span>')
IMAGE = re.compile(r'<img\s((?:[\w-]+="[^"]*"\s*)+)/?>')
# Files of _static/ that no page asks for; of MathJax the fonts, what a formula may load and speech in English stay.
UNUSED = (
    *("**/*.map", "locales", "*macros.html", "images/logo_*", "sphinx-thebe*", "scripts/fontawesome.js*"),
    *("file.png", "minus.png", "plus.png", "play-solid.svg", "vendor/**/*.woff2", "mathjax/**/*.js*"),
)
MATHJAX = ("tex-chtml.js", "input/tex/extensions/*", "a11y/*", "sre/mathmaps/base.json", "sre/mathmaps/en.json")
ICON_NAME = re.compile(r"\bfa-([\w-]+)")
ICON = re.compile(r'((?:\.fa-[\w-]+::?before,?)+)\{content:"[^"]*"\}')
FONT = re.compile(r'(url\([^)]*)\.woff2\) format\("woff2"\),url\([^)]*\.ttf\) format\("truetype"\)')
SIGNS = {"to": "→", "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "neq": "≠", "approx": "≈", "in": "∈", "subset": "⊂"}
SIGNS = {name: f" {letter} " for name, letter in SIGNS.items()}  # as relations stand in a formula
SIGNS |= {
    "infty": "∞",
    "cdot": "·",
    "times": "×",
    "ell": "ℓ",
    "nabla": "∇",
    "pm": "±",
    "sum": "Σ",
    "top": "T",
    "mid": "|",
}
SIGNS |= {
    "lVert": "‖",
    "rVert": "‖",
    "ldots": "…",
    "dots": "…",
    "sqrt": "√",
    "propto": "∝",
    "varepsilon": "ε",
    "lambda": "λ",
    "Lambda": "Λ",
    "langle": "⟨",
    "rangle": "⟩",
    "otimes": " ⊗ ",
    "perp": "⊥",
    "sim": " ~ ",
    "ne": " ≠ ",
}


def write(site, order, title, address):
    """Finish all pages and files of a site, given its pages in their order; its address is None while it has none."""
    paths = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.relative_to(site).parts]
    pages = {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in paths}
    redirect = pages.pop("index.html")
    pages = {name: lighter(text, site / name) for name, text in pages.items()}
    heads = {name: head(text, name, title, address, site) for name, text in pages.items()}
    pages = {name: text.replace("</head>", f"{heads[name]}</head>", 1) for name, text in pages.items()}
    if "prf-prf.html" in pages:
        pages = {name: footed(text, name) for name, text in pages.items()}
        pages["prf-prf.html"] = index(pages, order)
    # What people share is the address without a page: it says of itself what the page says to which it leads.
    first = re.search(r'url=([^"]+)"', redirect)[1]
    start = f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"/><title>{html.escape(title)}</title>'
    pages["index.html"] = f"{start}{heads[first]}{redirect.strip()}</head></html>\n"
    for name, text in pages.items():
        (site / name).write_text(text, "utf-8")
    thin(site / "_static", "".join(pages.values()))


def lighter(text, path):
    """Return the text of a page without what it does not need, with sizes of pictures and formulas in words."""
    text = PLAIN.sub(r"\1", NEVER.sub("", text))
    if path.name != "search.html":
        text = SEARCH.sub("", text)
    text = text.replace(
        '<summary><span class="toctree-toggle"', '<summary aria-label="More pages"><span class="toctree-toggle"'
    )
    text = re.sub(r"<title>(.*?) (?:—|&#8212;) \1</title>", r"<title>\1</title>", text)
    text = FORMULA.sub(lambda found: f'{found[1]} data-words="{words(found[2])}">\\({found[2]}\\)</span>', text)
    text = TIED.sub(r'<span class="tied">\g<0></span>', text)
    before, opening, article = text.partition("<article")
    number = itertools.count()
    return before + opening + IMAGE.sub(lambda found: sized(found, path.parent, next(number)), article)


def footed(text, name):
    """Return a page with links to the indices at its foot."""
    root, foot = "../" * name.count("/"), '<div class="bd-footer-content__inner container">'
    links = f'<a href="{root}prf-prf.html">All statements</a> · <a href="{root}genindex.html">Index</a>'
    return text.replace(foot, f'{foot}<div class="footer-item"><p class="indices">{links}</p></div>', 1)


def sized(match, folder, number):
    """Return the tag of a picture with its size, so that nothing moves when it comes; all but the first come late."""
    source = folder / re.search(r'\bsrc="([^"]*)"', match[0])[1].partition("?")[0]
    if " width=" in match[0] or source.suffix != ".png" or not source.is_file():
        return match[0]
    with source.open("rb") as file:
        width, height = struct.unpack(">II", file.read(24)[16:])
    late = ' loading="lazy"' * bool(number)
    return f'<img {match[1].strip()} width="{width}" height="{height}"{late}/>'


def words(formula):
    """Return a formula of TeX as one line of plain text, for where formulas cannot be set."""
    text = re.sub(r"\\(?:left|right|[bB]igg?[lr]?|displaystyle|[,;:! ])(?![a-zA-Z])", " ", html.unescape(formula))
    text = re.sub(r"\\(?:math\w+|text\w*|operatorname|bar|hat|tilde|widehat)\b *", "", text)
    while (fewer := re.sub(r"\{(\{[^{}]*\})\}", r"\1", text)) != text:
        text = fewer
    norms = re.compile(r"\\norm(?:\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}| *(\\[a-zA-Z]+|\w))")
    text = norms.sub(lambda found: f"‖{found[1] or found[2]}‖", text)
    text = re.sub(r"\{(\w+)\}", r"\1", text)
    text = re.sub(r"\\[dt]?frac *(?:\{([^{}]*)\} *\{([^{}]*)\}|(\w)(\w))", r"\1\3/\2\4", text)
    text = re.sub(r"\\([a-zA-Z]+) *", lambda found: sign(found[1]), text)
    return html.escape(" ".join(re.sub(r"[{}\\]", "", text).split()))


def sign(name):
    """Return the letter or word that a command of TeX stands for."""
    if name in SIGNS:
        return SIGNS[name]
    try:
        return unicodedata.lookup(f"Greek {'capital' if name[0].isupper() else 'small'} letter {name}")
    except KeyError:
        return f"{name} "


def head(text, name, title, address, site):
    """Return what a page says of itself where people share it: its lead, and, given an address, that and a picture."""
    about, page = lead(text), html.escape(html.unescape(TITLE.search(text)[1]))
    said = {"og:type": "article", "og:site_name": html.escape(title), "og:title": page, "og:description": about}
    if address:
        said |= {"og:url": f"{address}/{name}", "og:image": f"{address}/{picture(site, name)}"}
    tags = [f'<meta property="{key}" content="{value}"/>' for key, value in said.items() if value]
    tags += [f'<meta name="description" content="{about}"/>'] * bool(about)
    return "".join(tags + ['<meta name="twitter:card" content="summary_large_image"/>'] * bool(address))


def lead(text):
    """Return the beginning of a page in plain words, up to the end of a sentence where one comes soon enough."""
    article = text.partition("<article")[2].partition("</h1>")[2]
    start = re.split(r'<section|<figure|<h2|<pre|<div class="cell|</article', article, maxsplit=1)[0]
    soup = BeautifulSoup(start, "html.parser")
    for part in soup(["table", "svg"]):
        part.decompose()
    for formula in soup.select("[data-words]"):
        formula.replace_with(formula["data-words"])
    said = " ".join(" ".join(paragraph.get_text() for paragraph in soup.find_all("p")).split())
    if len(said) > 300:
        whole = re.match(r".{80,299}[.?!](?= )", said)
        said = whole[0] if whole else said[:299].rpartition(" ")[0] + "…"
    return html.escape(said)


def picture(site, name):
    """Return the address, in the site, of a picture of a page: its first figure, or the book's."""
    run = Path("build/executed", name.removeprefix("book/")).with_suffix(".ipynb")
    if run.is_file() and (content := first_picture(nbformat.read(run, 4), name)):
        path = site / "_images" / f"{run.stem}.png"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(reduced(content))
        return path.relative_to(site).as_posix()
    return "_static/figure-1a.png"


def first_picture(notebook, name):
    """Return the picture that stands first on a page: what its first figure takes from a cell, or the first made."""
    source = Path(name).with_suffix(".md")
    key = re.search(r"\{glue:figure\} *(\S+)", source.read_text("utf-8")) if source.is_file() else None
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    found = [output for output in outputs if "image/png" in "".join(output.get("data", {}))]
    found.sort(key=lambda output: not key or output.metadata.get("scrapbook", {}).get("name") != key[1])
    return b64decode(next(value for kind, value in found[0].data.items() if "image/png" in kind)) if found else None


def index(pages, order):
    """Return the page of all statements and definitions: by page, each under its own title."""
    lines = []
    for name in (f"{page}.html" for page in order):
        boxes = [
            f'<li><a href="{name}#{label}">{BADGE.sub("", shown)}</a></li>' for label, shown in BOX.findall(pages[name])
        ]
        if boxes:
            title = TITLE.search(pages[name])[1]
            lines.append(f'<h2><a href="{name}">{title}</a></h2><ul class="statements">{"".join(boxes)}</ul>')
    article = re.compile(r'(<article class="bd-article">).*?(</article>)', re.DOTALL)
    text = pages["prf-prf.html"].replace("Proof Index", "All statements")
    return article.sub(lambda found: f"{found[1]}<h1>All statements</h1>{''.join(lines)}{found[2]}", text, count=1)


def thin(static, text):
    """Delete files that no page asks for; keep of fonts and styles for icons what the pages show."""
    kept = {path for pattern in MATHJAX for path in static.glob(f"mathjax/{pattern}")}
    for path in {path for pattern in UNUSED for path in static.glob(pattern)} - kept:
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in text:  # as the logo of a service is, where there is a button for it
            path.unlink()
    used = set(ICON_NAME.findall(text + "".join(map(Path.read_text, static.glob("scripts/*.js")))))
    style = static / "styles/pydata-sphinx-theme.css"
    css = ICON.sub(lambda rule: rule[0] * bool(used & set(ICON_NAME.findall(rule[1]))), style.read_text("utf-8"))
    style.write_text(FONT.sub(r'\1.woff) format("woff")', css), "utf-8")
    styles = css + "".join(path.read_text("utf-8") for path in static.rglob("*.css"))
    shown = {int(code, 16) for code in re.findall(r"\\([ef][0-9a-f]{3})\b", styles)}
    shown |= {ord(letter) for letter in styles if "\ue000" <= letter <= "\uf8ff"}
    for path in static.glob("vendor/fontawesome/webfonts/*.ttf"):
        shorter(path, shown)


def shorter(path, codes):
    """Replace a font by one of these characters alone."""
    with ttLib.TTFont(path, recalcTimestamp=False) as font:
        tool = subset.Subsetter(subset.Options(layout_features=[], notdef_outline=False))
        tool.populate(unicodes=codes)
        tool.subset(font)
        font.flavor = "woff"
        font.save(path.with_suffix(".woff"))
    path.unlink()
