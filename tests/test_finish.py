"""What is done to a page after Sphinx: words for formulas, sizes of pictures, what it says of itself, less weight."""

import base64
import io
import struct
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from workflow.site import downloads, postprocess

ROOT = Path(__file__).parents[1]

PAGE = """<html><head><title>{title}</title>
<script defer="" src="../_static/scripts/fontawesome.js?digest=1"></script>
<script>const THEBE_JS_URL = "https://unpkg.com/thebe"; const thebe_selector = ".cell"</script>
<script src="../_static/searchtools.js"></script></head>
<body><h1>Printed</h1><article class="bd-article"><h1>One</h1>
<p>Length <span class="math notranslate nohighlight">\\(\\norm{{p_{{\\mathrm{{mm}}}}}} &lt; 2\\)</span> is "it".</p>
<section><p>Later.</p><img alt="A > B" src="one.png"/><img alt="two" src="one.png"/></section></article>
<footer><div class="bd-footer-content__inner container"></div></footer></body></html>"""


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        (r"\norm{p_{\mathrm{mm}}} \log t", "‖p_mm‖ log t"),
        (r"\frac{p(t)}{\norm{p(t)}} \to 0", "p(t)/‖p(t)‖ → 0"),
        (r"\lambda_t &gt; \frac12", "λ_t &gt; 1/2"),
        (r"\Omega \subset \mathbb{R}^d, \; \ell_p", "Ω ⊂ R^d, ℓ_p"),
        (r"\left( \sum_t a_t \right)", "( Σ_t a_t )"),
        (r"\norm{W}_p^p \ne \norm v_q", "‖W‖_p^p ≠ ‖v‖_q"),
        (r"\langle d_m, W_{\mathrm{mm}} \rangle \sim \Lambda", "⟨d_m, W_mm ⟩ ~ Λ"),
    ],
)
def test_formulas_in_words(formula, said):
    assert postprocess.words(formula) == said


def test_a_sign_does_not_leave_its_formula(tmp_path):
    formula = '<span class="math notranslate nohighlight">\\({}\\)</span>'
    short, long = formula.format("p"), formula.format("p_1 + p_2" * 9)
    text = postprocess.lighter(f"<p>{short}, ({short}) {short} {long}.</p>", tmp_path / "one.html")
    assert text.count('<span class="tied">') == 2
    assert all(tied in text for tied in ("</span>,</span> ", '<span class="tied">(<span', "</span>)</span> "))


@pytest.fixture
def site(tmp_path):
    """A site of one page, its index of statements, and the redirection to the page."""
    (tmp_path / "book").mkdir()
    (tmp_path / "_static/scripts").mkdir(parents=True)
    (tmp_path / "_static/scripts/fontawesome.js").write_text("icons")
    (tmp_path / "index.html").write_text('<meta http-equiv="Refresh" content="0; url=book/one.html" />\n')
    (tmp_path / "book/one.html").write_text(PAGE.format(title="One — The book"))
    (tmp_path / "book/one.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + struct.pack(">II", 640, 480))
    return tmp_path


def test_page_says_what_it_is_and_loads_no_more_than_it_needs(site):
    postprocess.write(site, ["book/one"], "The book", None)
    text = (site / "book/one.html").read_text()
    assert '<meta name="description" content="Length ‖p_mm‖ &lt; 2 is &quot;it&quot;."/>' in text
    assert '<meta property="og:title" content="One"/>' in text
    assert not [
        word for word in ("og:url", "og:image", "canonical", "unpkg", "fontawesome", "searchtools") if word in text
    ]
    assert '<img alt="A > B" src="one.png" width="640" height="480"/><img alt="two"' in text
    assert text.count('loading="lazy"') == 1
    assert '<meta name="description" content="Length' in (site / "index.html").read_text()
    assert not (site / "_static/scripts/fontawesome.js").exists()


def test_page_with_an_address_says_where_it_is(site):
    postprocess.write(site, ["book/one"], "The book", "https://x.org/y")
    text = (site / "book/one.html").read_text()
    assert '<meta property="og:url" content="https://x.org/y/book/one.html"/>' in text
    assert '<meta property="og:image" content="https://x.org/y/_static/figure-1a.png"/>' in text


def test_all_statements_are_listed_by_page(site):
    title = '<p class="admonition-title">Theorem {}{}</p>'
    box = f'<div class="proof theorem restored admonition" id="thm-{{}}">\n{title}</div>'
    boxes = box.format(1, 1, '<span class="badge restored" title="Why">restored</span>') + box.format(2, 2, "")
    page = site / "book/one.html"
    page.write_text(page.read_text().replace("<section>", f"{boxes}<section>"))
    (site / "prf-prf.html").write_text(PAGE.format(title="Proof Index — The book"))
    postprocess.write(site, ["book/one"], "The book", None)
    text = (site / "prf-prf.html").read_text()
    listed = [f'<li><a href="book/one.html#thm-{k}">Theorem {k}</a></li>' for k in (1, 2)]
    assert f'<h2><a href="book/one.html">One</a></h2><ul class="statements">{"".join(listed)}</ul>' in text
    assert '<a href="../prf-prf.html">All statements</a>' in page.read_text()


def test_first_page_has_its_title_once(site):
    (site / "book/one.html").write_text(PAGE.format(title="The book — The book"))
    postprocess.write(site, ["book/one"], "The book", None)
    assert "<title>The book</title>" in (site / "book/one.html").read_text()


def test_long_lead_ends_with_a_sentence():
    page = "<article><h1>One</h1><p>{}</p><h2>Two</h2></article>"
    assert postprocess.lead(page.format("A sentence of some length. " * 20)).endswith("some length.")
    assert len(postprocess.lead(page.format("word " * 200))) <= 300
    assert postprocess.lead(page.format("One.</p><table><tr><td><p>2</p></td></tr></table><p>Three.")) == "One. Three."


def test_picture_of_a_notebook_is_shown_once_and_with_few_colours():
    noise = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(noise).save(file, "PNG")
    record, picture = "application/papermill.record/", base64.b64encode(file.getvalue()).decode()
    data = {f"{record}image/svg+xml": "<svg/>", f"{record}image/png": picture, f"{record}text/plain": "3"}
    shown = downloads.pictured(data)
    assert shown.keys() == {"image/png", f"{record}text/plain"}
    assert len(shown["image/png"]) < len(picture) / 2
    assert Image.open(io.BytesIO(base64.b64decode(shown["image/png"]))).size == (64, 64)
