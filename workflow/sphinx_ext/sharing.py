"""Tell those who link to a page what it is: citation, picture, address. An extension of Sphinx.

What needs the address of the site (``html_baseurl``) is there only where one is set: canonical links are Sphinx's own,
pictures for sharing, a map of the site, a feed of the changelog and a page for addresses that are none are made here.
"""

import base64
import html
import io
import json
import posixpath
import re
from functools import cache
from pathlib import Path
from xml.sax.saxutils import escape

from workflow.book.catalogue import yaml_of
from workflow.sphinx_ext.chapter_layout import ABOUT, numbered_figures

CHANGES, CITATION = Path("CHANGELOG.md"), Path("CITATION.cff")
RELEASE = re.compile(r"^## \[(?P<version>[\d.]+)\] - (?P<day>\d{4}-\d\d-\d\d)$(?P<text>.*?)(?=^## |\Z)", re.M | re.S)
ALT = r"\{{(?:glue:)?figure\}} *{}\n(?::(?!alt:).*\n)*:alt: *(.+)"
WIDEST, COLOURS = 1200, 128  # pixels of a picture for sharing, colours of pictures outside pages
ATOM = """<?xml version="1.0" encoding="utf-8"?>
<feed xmlns="http://www.w3.org/2005/Atom"><title>{title}</title><id>{site}/</id><link href="{site}/"/>
<link rel="self" href="{site}/feed.xml"/><updated>{updated}T00:00:00Z</updated>{entries}</feed>
"""
ENTRY = """<entry><title>{title} {version}</title><id>{site}/#{version}</id><link href="{site}/"/>
<updated>{day}T00:00:00Z</updated><author><name>{author}</name></author><content type="text">{text}</content></entry>
"""


@cache
def cited():
    """What ``CITATION.cff`` says of the book; nothing without the file."""
    return yaml_of(CITATION) if CITATION.exists() else {}


def authors():
    """Names of the book's authors."""
    listed = cited().get("authors", ())
    return [author.get("name") or f"{author['given-names']} {author['family-names']}" for author in listed]


def sources(app, page):
    """Addresses of the papers that a chapter is about: those of which the words under its title name an author."""
    noted = Path(app.srcdir, ABOUT, page.removeprefix("book/") + ".json")
    says = json.loads(noted.read_text("utf-8"))["of"] if noted.exists() else ""
    for work in cited().get("references", ()):
        for mark in (mark["value"] for mark in work.get("identifiers", ()) if "arXiv:" in mark["value"]):
            if any(author["family-names"].split()[-1] in says for author in work["authors"]):
                yield mark.replace("arXiv:", "https://arxiv.org/abs/")


def describe(app, page, template, context, doctree):
    """Put citation and, where the site has an address, a picture into the head of a page."""
    if doctree is None:
        return
    title = re.sub(r"<[^>]+>", "", context["title"])
    told = {"citation_title": html.unescape(title), "citation_language": "en"}
    if "version" in cited():
        told["citation_inbook_title"] = f"{app.config.project}, version {cited()['version']}"
    lines = [meta(name, value) for name, value in told.items()] + [meta("citation_author", name) for name in authors()]
    data = {
        "@context": "https://schema.org",
        "@type": "TechArticle",
        "headline": html.unescape(title),
        "author": [{"@type": "Organization", "name": name} for name in authors()],
        "isPartOf": {"@type": "Book", "name": app.config.project},
        "isBasedOn": list(sources(app, page)),
        "inLanguage": "en",
    }
    if site := app.config.html_baseurl.rstrip("/"):
        data["url"] = f"{site}/{app.builder.get_target_uri(page)}"
        lines += [meta("citation_public_url", data["url"]), f'<link rel="alternate" href="{site}/feed.xml" ']
        lines[-1] += f'type="application/atom+xml" title="{html.escape(app.config.project)}"/>'
        if (there := picture(app, page)) and context["meta"] is not None:
            context["meta"] |= {"og:image": f"{site}/{there[0]}", "og:image:alt": there[1]}
            data["image"] = f"{site}/{there[0]}"
    text = json.dumps({key: value for key, value in data.items() if value}).replace("</", "<\\/")
    context["metatags"] += "\n".join([*lines, f'<script type="application/ld+json">{text}</script>', ""])


def meta(name, value):
    """A tag of a page's head."""
    return f'<meta name="{name}" content="{html.escape(value)}"/>'


def picture(app, page):
    """Write the first figure of a chapter as a picture on white; its place on the site, and its words. None without."""
    path = Path(app.env.doc2path(page))
    if path.suffix != ".ipynb":
        return None
    cells = json.loads(path.read_text("utf-8"))["cells"]
    first = next(iter(numbered_figures(cells)), None)
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    drawn = [out["data"] for out in outputs if out.get("metadata", {}).get("scrapbook", {}).get("name") == first]
    found = [text for data in drawn for kind, text in data.items() if kind.endswith("image/png")]
    if not found:
        return None
    place = f"_images/shared/{page.replace('/', '-')}.png"
    path = Path(app.outdir, place)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(small(base64.b64decode("".join(found[0])), WIDEST))
    words = re.search(ALT.format(re.escape(first)), "\n".join("".join(cell["source"]) for cell in cells))
    return place, words[1] if words else ""


def small(data, widest=None):
    """A PNG on white, at most ``widest`` pixels wide, with at most `COLOURS` colours: a third of the bytes."""
    from PIL import Image

    with Image.open(io.BytesIO(data)) as drawn:
        drawn = drawn.convert("RGBA")
        shown = Image.alpha_composite(Image.new("RGBA", drawn.size, "white"), drawn).convert("RGB")
    if widest:
        shown.thumbnail((widest, widest))
    shown.quantize(COLOURS, dither=Image.Dither.NONE).save(file := io.BytesIO(), "PNG", optimize=True)
    return file.getvalue()


def drop_address(app, page, template, context, doctree):
    """Drop the address that opengraph gives a page of a site without one."""
    if not app.config.html_baseurl:
        lines = context.get("metatags", "").splitlines(keepends=True)
        context["metatags"] = "".join(line for line in lines if 'property="og:url"' not in line)


def remember_front(app, page, template, context, doctree):
    """Keep what the first page is made of."""
    if page == app.config.root_doc and doctree is not None and not hasattr(app, "front"):
        app.front = dict(context, doctree=doctree)


def extra_pages(app):
    """Write the first page at ``index.html`` as well, and yield the page for addresses that are none."""
    root = app.config.root_doc
    if hasattr(app, "front") and root != "index":
        front = {key: app.front[key] for key in FRONT if key in app.front}
        front["metatags"] = f'<base href="{html.escape(app.builder.get_target_uri(root))}"/>' + front["metatags"]
        app.builder.handle_page(
            root, front, "page.html", outfilename=str(Path(app.outdir, "index.html")), event_arg=app.front["doctree"]
        )
    if site := app.config.html_baseurl.rstrip("/"):
        base = f'<base href="{site}/"/>'
        said = f'<h1>No page is here</h1><p><a href="{site}/">{html.escape(app.config.project)}</a></p>'
        yield (
            "404",
            {"title": "No page is here", "body": said, "metatags": base, "meta": {}, "parents": []},
            "page.html",
        )


FRONT = (
    "parents", "prev", "next", "title", "meta", "body", "metatags", "rellinks", "toc", "display_toc",
    "page_source_suffix", "sourcename",
)  # fmt: skip


def write_lists(app, error):
    """Write the map of the site and the feed of the changelog, where the site has an address."""
    site = app.config.html_baseurl.rstrip("/")
    if error or not site:
        return
    places = sorted(app.builder.get_target_uri(page) for page in app.env.found_docs)
    listed = "".join(f"<url><loc>{escape(posixpath.join(site, place))}</loc></url>\n" for place in places)
    schema = "http://www.sitemaps.org/schemas/sitemap/0.9"
    Path(app.outdir, "sitemap.xml").write_text(f'<urlset xmlns="{schema}">\n{listed}</urlset>\n', "utf-8")
    releases = [found.groupdict() for found in RELEASE.finditer(CHANGES.read_text("utf-8"))] if CHANGES.exists() else []
    told = {"title": escape(app.config.project), "site": escape(site)}
    author = escape(", ".join(authors()))
    made = [ENTRY.format(**told, **release | {"text": escape(release["text"])}, author=author) for release in releases]
    updated = max((release["day"] for release in releases), default="1970-01-01")
    Path(app.outdir, "feed.xml").write_text(ATOM.format(**told, updated=updated, entries="".join(made)), "utf-8")


def setup(app):
    """Register the extension; opengraph reads what is put into a page's ``meta``, so this comes before it."""
    app.connect("html-page-context", remember_front, priority=1)
    app.connect("html-page-context", describe, priority=400)
    app.connect("html-page-context", drop_address, priority=600)
    app.connect("html-collect-pages", extra_pages)
    app.connect("build-finished", write_lists)
    return {"parallel_read_safe": True, "parallel_write_safe": False}
