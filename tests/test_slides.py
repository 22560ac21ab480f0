"""Slides of a chapter: what is on them, in which order, and that nothing folded or far away is."""

import pytest

from workflow.book.catalogue import BookError
from workflow.site import slides

PAGE = """<html><head><link rel="stylesheet" href="../_static/book.css"><script src="../_static/doctools.js"></script>
</head><article>
<section><h1>A finding</h1><p>The lead.</p><figure><svg class="drawing"></svg></figure>
<div class="findings">Found.</div>
<p>Later.</p><section id="statement"><h2>Statement</h2><div>Claimed.</div></section>
<section id="why-it-is-true"><h2>Why</h2><p>An idea.</p><details>A long proof.</details></section>
<section id="evidence"><h2>Evidence</h2>{evidence}</section><section id="experiment"><pre>code</pre></section>
</section></article></html>"""


def test_slides_have_the_parts_of_a_chapter_in_order_and_no_code_and_nothing_folded():
    title, head, made = slides.slides(PAGE.format(evidence="<p>Measured.</p>"))
    assert title == "A finding"
    assert [slide["heading"] for slide in made] == ["", "", "Findings", "Statement", "Idea of the proof", "Evidence"]
    text = "".join(slide["body"] for slide in made)
    places = [text.index(word) for word in ("A finding", "<svg", "Found", "Claimed", "An idea", "Measured")]
    assert places == sorted(places)
    assert not any(word in text for word in ("long proof", "code", "Later"))
    assert head == '<link href="../_static/book.css" rel="stylesheet"/>'


@pytest.mark.parametrize(
    ("block", "count"),
    [
        ("<p>few</p>", 1),
        (f"<p>{'many ' * 200}</p>", 3),
        ("<svg class='drawing'></svg>", 1),
        ("<div class='math'><div class='formula'></div></div>" * 2, 2),
    ],
)
def test_blocks_share_a_slide_while_they_have_room(block, count):
    evidence = block if "svg" in block else 3 * block
    made = slides.slides(PAGE.format(evidence=evidence))[2]
    assert sum(slide["heading"] == "Evidence" for slide in made) == count


def test_links_to_places_of_the_page_lead_to_the_page():
    made = slides.slides(PAGE.format(evidence='<a href="#experiment">code</a><a href="x.html#y">x</a>'), "good.html")[2]
    text = "".join(slide["body"] for slide in made)
    assert 'href="good.html#experiment"' in text
    assert 'href="x.html#y"' in text


def test_a_page_that_is_no_chapter_is_refused():
    with pytest.raises(BookError, match="no title"):
        slides.slides("<article><section>Prose</section></article>")


def test_slides_stand_beside_their_page(tmp_path):
    page = tmp_path / "good.html"
    page.write_text(PAGE.format(evidence="<p>Measured.</p>"))
    slides.write(page)
    made = page.with_name("good-slides.html").read_text("utf-8")
    assert made.count('class="slide"') == 6
    assert "http" not in made
