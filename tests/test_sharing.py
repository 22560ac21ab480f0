"""What pages tell those who link to them: with an address of the site, and without one."""

import base64
import io
import json
import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import nbformat
import pytest
from bs4 import BeautifulSoup
from PIL import Image

from workflow.sphinx_ext import sharing

ROOT = Path(__file__).parents[1]
SITE = "https://example.org/selects"
CHAPTER = """# Where *descent* goes

First words.

```{glue:figure} fig-path
:name: fig-path
:alt: A path bends to a ray.

A path.
```
"""


def drawing(width=2000):
    """A transparent PNG with a black square."""
    image = Image.new("RGBA", (width, width // 2), (0, 0, 0, 0))
    image.paste((0, 0, 0, 255), (0, 0, 10, 10))
    image.save(file := io.BytesIO(), "PNG")
    return base64.b64encode(file.getvalue()).decode()


def built(folder, site):
    """A site of two pages, one of them with a figure."""
    source, out = folder / "source", folder / "html"
    (source / "book").mkdir(parents=True)
    (source / "book/intro.md").write_text("# Front\n\nIt begins. [There](path).\n\n```{toctree}\npath\n```\n")
    glued = {"application/papermill.record/image/png": drawing(), "application/papermill.record/text/plain": "''"}
    output = nbformat.v4.new_output("display_data", glued, metadata={"scrapbook": {"name": "fig-path"}})
    cells = [nbformat.v4.new_markdown_cell(CHAPTER), nbformat.v4.new_code_cell("", outputs=[output])]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), source / "book/path.ipynb")
    extensions = ["myst_nb", "sphinx_proof", "workflow.sphinx_ext.chapter_layout", "workflow.sphinx_ext.sharing"]
    settings = {
        "extensions": [*extensions, "sphinxext.opengraph"],
        "root_doc": "book/intro",
        "html_baseurl": site,
        "ogp_site_url": f"{site}/",
    }
    settings |= {"project": "Selects", "nb_execution_mode": "off", "ogp_social_cards": {"enable": False}}
    (source / "conf.py").write_text("".join(f"{name} = {value!r}\n" for name, value in settings.items()))
    (folder / "CITATION.cff").write_text("version: 0.2.0\nauthors: [{name: Some & One}]\n")
    (folder / "CHANGELOG.md").write_text("# Log\n\n## [Unreleased]\n\n- no\n\n## [0.2.0] - 2027-01-02\n\n- a < b\n")
    command = [sys.executable, "-m", "sphinx", "-q", "-b", "html", str(source), str(out)]
    subprocess.run(command, cwd=folder, env=os.environ | {"PYTHONPATH": str(ROOT)}, check=True)
    return out


def head(page):
    """Tags of a page's head by name or property."""
    tags = BeautifulSoup(page.read_text("utf-8"), "html.parser").select("meta[content]")
    return {tag.get("name") or tag.get("property"): tag["content"] for tag in tags}


@pytest.mark.parametrize("site", ["", SITE])
def test_a_page_says_what_it_is_and_where_if_that_is_known(tmp_path, site):
    out = built(tmp_path, site)
    page = out / "book/path.html"
    said, text = head(page), BeautifulSoup(page.read_text("utf-8"), "html.parser")
    assert (said["citation_title"], said["citation_author"]) == ("Where descent goes", "Some & One")
    data = json.loads(text.select_one('script[type="application/ld+json"]').string)
    assert data["headline"] == "Where descent goes"
    assert data["author"] == [{"@type": "Organization", "name": "Some & One"}]
    made = {path.name for path in out.rglob("*") if path.suffix in (".xml", ".png")} | {
        path.name for path in out.glob("404.html")
    }
    if not site:
        assert not made & {"book-path.png", "sitemap.xml", "feed.xml", "404.html"}
        assert not {"og:image", "og:url", "citation_public_url"} & said.keys()
        assert said["og:title"] == "Where descent goes"
        assert "url" not in data
        return
    address = said["og:url"]
    assert address == f"{SITE}/book/path.html"
    assert said["og:image"] == data["image"] == f"{SITE}/_images/shared/book-path.png"
    assert said["og:image:alt"] == "A path bends to a ray."
    assert said["citation_public_url"] == data["url"] == address
    with Image.open(out / "_images/shared/book-path.png") as shown:
        assert shown.width <= sharing.WIDEST
        colours = shown.convert("RGB")
        assert colours.getpixel((shown.width - 1, shown.height - 1)) == (255, 255, 255)
        assert colours.getpixel((1, 1)) < (9, 9, 9)
    places = [found.text for found in ElementTree.parse(out / "sitemap.xml").iter() if found.tag.endswith("loc")]
    assert places == [f"{SITE}/book/intro.html", address]
    feed = "".join(ElementTree.parse(out / "feed.xml").getroot().itertext())
    assert "a < b" in feed
    assert "Selects 0.2.0" in feed
    assert "Unreleased" not in feed
    lost = BeautifulSoup((out / "404.html").read_text("utf-8"), "html.parser")
    assert lost.base["href"] == f"{SITE}/"
    assert lost.select_one("h1").text.startswith("No page is here")


def test_the_first_page_stands_at_the_address_of_the_site_with_its_links(tmp_path):
    out = built(tmp_path, "")
    front, page = (
        BeautifulSoup((out / name).read_text("utf-8"), "html.parser") for name in ("index.html", "book/intro.html")
    )
    assert front.base["href"] == "book/intro.html"
    assert front.select_one("h1").text == page.select_one("h1").text
    links = [[link.get("href") for link in one.select("a, link[rel=stylesheet]")] for one in (front, page)]
    assert links[0] == links[1]
    assert str(front).find("<base") < min(str(front).find(tag) for tag in ("<link", "<script src", "<a "))
