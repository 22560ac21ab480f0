"""Finish a built site: what a page says of itself to others, an index of statements, sizes of pictures, less weight.

Sphinx and its theme put on every page what none of ours needs: icons as a script of a megabyte, an engine for live
code, the index of the search, MathJax in all its forms. There is no setting for that, so it is taken out here.
"""

import html
import itertools
import re
import shutil
import struct
import unicodedata

from bs4 import BeautifulSoup

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
BADGE = re.compile(r'<span class="badge.*?</span>')
PICTURE = "_static/figure-1a.png"
IMAGE = re.compile(r'<img\s((?:[\w-]+="[^"]*"\s*)+)/?>')
# Files of _static/ that no page asks for; of MathJax the fonts, what a formula may load and speech in English stay.
UNUSED = (
    *("**/*.map", "locales", "*macros.html", "images/logo_*", "sphinx-thebe*", "scripts/fontawesome.js*"),
    *("file.png", "minus.png", "plus.png", "play-solid.svg", "mathjax/**/*.js*"),
)
MATHJAX = ("tex-chtml.js", "input/tex/extensions/*", "a11y/*", "sre/mathmaps/base.json", "sre/mathmaps/en.json")
SIGNS = {
    "to": "→", "le": "≤", "leq": "≤", "ge": "≥", "geq": "≥", "ne": "≠", "neq": "≠", "approx": "≈", "in": "∈",
    "subset": "⊂", "otimes": "⊗", "sim": "~",
}  # fmt: skip
SIGNS = {name: f" {letter} " for name, letter in SIGNS.items()} | {  # the former have space around them
    "infty": "∞", "cdot": "·", "times": "×", "ell": "ℓ", "nabla": "∇", "pm": "±", "sum": "Σ", "top": "T", "mid": "|",
    "lVert": "‖", "rVert": "‖", "ldots": "…", "dots": "…", "sqrt": "√", "propto": "∝", "perp": "⊥", "varepsilon": "ε",
    "lambda": "λ", "Lambda": "Λ", "langle": "⟨", "rangle": "⟩",
}  # fmt: skip


def write(site, order, title, address):
    """Finish all pages and files of a site, given its pages in their order; its address is None while it has none."""
    paths = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.relative_to(site).parts]
    pages = {path.relative_to(site).as_posix(): path.read_text("utf-8") for path in paths}
    redirect = pages.pop("index.html")
    pages = {name: lighter(text, site / name) for name, text in pages.items()}
    heads = {name: head(text, name, title, address) for name, text in pages.items()}
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
    text = NEVER.sub("", text)
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


def head(text, name, title, address):
    """Return what a page says of itself where people share it: its lead; given an address, that and a picture."""
    about, page = lead(text), html.escape(html.unescape(TITLE.search(text)[1]))
    said = {"og:type": "article", "og:site_name": html.escape(title), "og:title": page, "og:description": about}
    if address:
        said |= {"og:url": f"{address}/{name}", "og:image": f"{address}/{PICTURE}"}
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
    """Delete files that no page asks for."""
    kept = {path for pattern in MATHJAX for path in static.glob(f"mathjax/{pattern}")}
    for path in {path for pattern in UNUSED for path in static.glob(pattern)} - kept:
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name not in text:  # as the logo of a service is, where there is a button for it
            path.unlink()
