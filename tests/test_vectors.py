"""Drawings in a page: colours that follow it, ids of their own, and as small as they can be."""

import io
import re
import xml.etree.ElementTree as ET

import matplotlib.pyplot as plt
import numpy as np
import pytest
from sphinx.testing.util import SphinxTestApp

from lib import figures
from workflow.sphinx_ext import inline_svg

GROUNDS = {"light": "#ffffff", "dark": "#121212"}


def contrast(colour, ground):
    low, high = sorted(inline_svg.linear(each) @ [0.2126, 0.7152, 0.0722] + 0.05 for each in (colour, ground))
    return high / low


@pytest.mark.parametrize("colour", [*figures.PALETTE, figures.INK, figures.MUTED])
def test_a_name_can_be_read_on_both_grounds(colour):
    assert contrast(colour, GROUNDS["light"]) >= 4.5
    assert contrast(inline_svg.dark(colour), GROUNDS["dark"]) >= 4.5


def test_shades_for_the_dark_stay_apart_and_keep_their_hue():
    shades = [inline_svg.dark(colour) for colour in figures.PALETTE]
    assert len(set(shades)) == len(shades)
    for colour, shade in zip(figures.PALETTE, shades, strict=True):
        light, night = inline_svg.linear(colour), inline_svg.linear(shade)
        assert light.argmax() == night.argmax()
        assert light.argmin() == night.argmin()


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


def test_a_drawing_has_the_colours_of_the_page():
    made = inline_svg.inlined(drawing(GD=figures.BLUE, own="#8855aa"), "Two lines & more.", "drawing-a")
    root = ET.fromstring(made)
    assert (root.get("role"), root.get("aria-label"), root.get("class")) == ("img", "Two lines & more.", "drawing")
    style = root.find("style").text
    body = made.replace(style, "")
    assert not re.search(r"#[0-9a-f]{6}\b", body)
    assert "currentColor" in body
    for colour in (figures.BLUE, "#8855aa"):
        variable = re.search(rf"(--\w+):{colour}", style)[1]
        assert f"{variable}:{inline_svg.dark(colour)}" in style.partition("data-theme=dark")[2]
        assert f"stroke: var({variable})" in body


def test_the_library_and_the_page_agree_on_ink_and_paper():
    assert set(inline_svg.PAGE) == {figures.INK, figures.PAPER, figures.LIGHT}
    assert f"stroke: {figures.LIGHT}" in inline_svg.inlined(drawing(GD=figures.LIGHT), "A line.", "drawing-a")


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
