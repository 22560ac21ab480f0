"""Drawings in a page: legible by night, ids of their own, and as small as they can be."""

import io
import re
import xml.etree.ElementTree as ET
from itertools import combinations
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
from matplotlib.colors import to_rgb
from sphinx.testing.util import SphinxTestApp

from lib import figures
from workflow.sphinx_ext import inline_svg

ROOT = Path(__file__).parents[1]
FILTER = re.search(r"svg\.drawing { filter: (.*?); }", (ROOT / "book/_static/book.css").read_text("utf-8"))[1]


def light(colour):
    """Amounts of red, green and blue light of parts between 0 and 1."""
    return np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)


def contrast(colour, ground):
    low, high = sorted(light(np.array(each)) @ [0.2126, 0.7152, 0.0722] + 0.05 for each in (colour, ground))
    return high / low


def by_night(colour):
    """A colour inverted, its hue turned by half a circle: the filter of the style sheet (Filter Effects, W3C)."""
    assert FILTER == "invert(1) hue-rotate(180deg)"
    inverse = 1 - np.array(colour)
    return np.clip(2 * inverse @ [0.213, 0.715, 0.072] - inverse, 0, 1)


def test_colours_of_the_palette_can_be_read_and_stay_apart_by_night():
    palette = [to_rgb(colour) for colour in (*figures.PALETTE, figures.INK, figures.MUTED)]
    assert min(contrast(colour, (1, 1, 1)) for colour in palette) >= 4.5
    nights = np.array([by_night(colour) for colour in palette])
    assert min(abs(one - other).sum() for one, other in combinations(nights, 2)) > 0.2


def drawing(**colours):
    """A figure as the notebook has it."""
    fig, ax = plt.subplots()
    for name, colour in colours.items():
        ax.plot([0, 1 / 3], [0, 2 / 7], color=colour, marker="o", label=name)
    ax.legend()
    file = io.StringIO()
    fig.savefig(file, format="svg")
    plt.close(fig)
    return file.getvalue()


@pytest.fixture(autouse=True)
def house_style():
    with plt.rc_context():
        figures.theme()
        yield


def test_a_drawing_is_a_picture_with_its_words_and_no_ground():
    root = ET.fromstring(inline_svg.inlined(drawing(GD=figures.BLUE), 'Two "lines" & more.', "drawing-a"))
    assert (root.get("role"), root.get("aria-label"), root.get("class")) == ("img", 'Two "lines" & more.', "drawing")
    assert "patch_1" not in ET.tostring(root, "unicode")


def test_two_drawings_on_a_page_share_no_id_and_miss_none():
    text = drawing(GD=figures.BLUE)
    made = [ET.fromstring(inline_svg.inlined(text, "A line.", name)) for name in ("drawing-a", "drawing-b")]
    ids = [{element.get("id") for element in root.iter()} - {None} for root in made]
    assert not ids[0] & ids[1]
    for root, names in zip(made, ids, strict=True):
        asked = {element.get("href")[1:] for element in root.iter() if "href" in element.attrib}
        asked |= set(re.findall(r"url\(#([^)]+)\)", ET.tostring(root, "unicode")))
        assert asked
        assert asked <= names


def test_a_drawing_is_smaller_and_looks_the_same():
    text = drawing(GD=figures.BLUE, flow=figures.VIOLET)
    made = inline_svg.inlined(text, "Lines.", "drawing-a")
    assert len(made) < 0.85 * len(text)
    numbers = [
        [float(k) for path in re.findall(r' d="([^"]*)"', part) for k in re.findall(r"-?\d+\.?\d*", path)]
        for part in (text[text.index('<g id="axes_1"') :], made)
    ]
    np.testing.assert_allclose(numbers[1], numbers[0], atol=0.0051)


def test_only_drawings_of_matplotlib_are_put_into_the_page(tmp_path):
    source = tmp_path / "source"
    source.mkdir()
    (source / "conf.py").write_text("extensions = ['workflow.sphinx_ext.inline_svg', 'myst_parser']\n")
    (source / "ours.svg").write_text(drawing(GD=figures.BLUE))
    (source / "other.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg"/>')
    (source / "index.md").write_text(
        "# Page\n\n![A blue line](ours.svg)\n\n![A blue line](ours.svg)\n\n![Nothing](other.svg)\n"
    )
    out = source / "_build/html"
    app = SphinxTestApp("html", source, warningiserror=True)
    app.build()
    app.cleanup()
    page = (out / "index.html").read_text()
    assert page.count('class="drawing"') == 2
    assert page.count('aria-label="A blue line"') == 2
    assert len(set(re.findall(r'<svg id="([\w-]+)"', page))) == 2
    assert "other.svg" in page
    assert not (out / "_images/ours.svg").exists()
