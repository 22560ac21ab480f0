"""Check what Sphinx does not: figures without words, anything loaded from another machine."""

import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from bs4 import BeautifulSoup

EXTERNAL = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
CSS_EXTERNAL = re.compile(r"""(?:url\(|@import)\s*['"]?\s*((?:https?:)?//[^'")\s;]+)""", re.IGNORECASE)
FILE_NAME = re.compile(r"\S+\.(png|svg|jpe?g|gif|webp)", re.IGNORECASE)
DRAWING = re.compile(r'(<svg [^>]*class="drawing"[^>]*>)(.*?)</svg>', re.DOTALL)
ADDRESS = re.compile(r"""\s(?:href|src)="\s*((?:https?:)?//[^"]*)""", re.IGNORECASE)
# What a browser fetches by itself. A link that a reader may follow is not among these.
LOADED = {
    "script": ("src",), "img": ("src", "srcset"), "iframe": ("src",), "source": ("src", "srcset"), "link": ("href",),
    "video": ("src", "poster"), "audio": ("src",), "embed": ("src",), "object": ("data",), "image": ("href",),
    "use": ("href",),
}  # fmt: skip
NOT_LOADED = {"canonical", "author", "license", "next", "prev", "search", "index", "help", "alternate"}


def faults(html):
    """Return one line for each fault of a built site."""
    found, paths = [], sorted(html.rglob("*.html"))
    with ProcessPoolExecutor() as pool:
        for path, of_page in zip(paths, pool.map(faults_of, paths), strict=True):
            found += [f"{path.relative_to(html)}: {fault}" for fault in of_page]
    for path in sorted(html.rglob("*.css")):
        addresses = CSS_EXTERNAL.findall(path.read_text("utf-8", errors="replace"))
        found += [f"{path.relative_to(html)}: loads {address}" for address in addresses]
    return found


def faults_of(path):
    """Return what is wrong on the page in this file."""
    return page_faults(path.read_text("utf-8"))


def page_faults(text):
    """Return what is wrong on one page."""
    inside = " ".join(match[2] for match in DRAWING.finditer(text))  # most of a page, and nothing to take apart
    found = [f"a drawing loads {address}" for one in (ADDRESS, CSS_EXTERNAL) for address in one.findall(inside)]
    soup = BeautifulSoup(DRAWING.sub(r"\1</svg>", text), "html.parser")
    return found + loaded(soup) + faults_of_figures(soup)


def loaded(soup):
    """Return a line for each thing that a browser would fetch from another machine."""
    found = []
    for tag in soup.find_all(list(LOADED)):
        if tag.name == "link" and NOT_LOADED.intersection(tag.get("rel", [])):
            continue
        for attribute in LOADED[tag.name]:
            address = tag.get(attribute, "")
            addresses = address.split(",") if attribute == "srcset" else [address]
            found += [f"<{tag.name}> loads {address.strip()}" for address in addresses if EXTERNAL.match(address)]
    styles = [tag.get_text() for tag in soup.find_all("style")] + [tag["style"] for tag in soup.find_all(style=True)]
    return found + [f"a style loads {address}" for style in styles for address in CSS_EXTERNAL.findall(style)]


def faults_of_figures(soup):
    """Return a line for each image or drawing without alt text, and each figure of a cell without a caption."""
    found = []
    images = [image for image in soup.find_all("img") if image.find_parent(["article", "main"])]
    drawings = soup.find_all("svg", class_="drawing")
    for image in images:
        alt = image.get("alt", "").strip()
        if not alt or FILE_NAME.fullmatch(alt) or Path(alt).name == Path(image.get("src", "")).name:
            found.append(f"image {image.get('src', '')[-60:]} has no alt text (alt={alt[-60:]!r})")
    for drawing in drawings:
        if len(drawing.get("aria-label", "").strip()) < 2:
            found.append(f"drawing {drawing['id']} has no alt text")
    for image in [*images, *drawings]:
        figure = image.find_parent("figure")
        caption = figure and figure.find("figcaption")
        if image.find_parent("div", class_="cell_output") and not (caption and caption.get_text(strip=True).strip("#")):
            found.append(f"image {(image.get('src') or image.get('id', ''))[-60:]} of a cell has no caption")
    return found
