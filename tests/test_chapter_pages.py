"""The Sphinx extension of ours, over a small book of two chapters that Sphinx builds."""

import json
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from bs4 import BeautifulSoup

ROOT = Path(__file__).parents[1]
CONF = """
extensions = ["myst_nb", "sphinx_design", "sphinx_proof"]
extensions += ["workflow.sphinx_ext.chapter_layout", "workflow.sphinx_ext.typography"]
nb_execution_mode, proof_title_format, numfig, root_doc = "off", "%t", True, "book/intro"
myst_enable_extensions = ["colon_fence", "dollarmath"]
numfig_format, suppress_warnings = {"figure": "Figure %s"}, ["config.cache"]


def name_pages(app, env, names):
    from sphinx_external_toc.api import Document
    pages = Document("book/part/a", title="Short a"), Document("book/rows")
    env.external_site_map = {page.docname: page for page in pages}


def setup(app):
    app.connect("env-before-read-docs", name_pages)
"""
TEXT = """\
(page-{name})=
# {title}

Lead.

```{{glue:figure}} fig-{name}-key
:name: fig-{name}-key
:alt: A point.

**It holds.** At {{glue:text}}`{name}-count`.
```

:::{{findings}}
- Found, to {{glue:text}}`{name}-error:.0e`, as {{prf:ref}}`thm-b` says in {{eq}}`eq-{name}`.
:::

## Statement

````{{prf:theorem}} Theorem 2 (Somebody et al.)
:label: thm-{name}
:class: restored

As follows.

```{{math}}
:label: eq-{name}
a = b
```
````

(part-{name})=
## Evidence

See {{numref}}`fig-b-key`.

```{{glue:}} tab-{name}-evidence
```

## What breaks it

Nothing in {{doc}}`a`, {{ref}}`page-a`, {{ref}}`part-a`, {{doc}}`its words <a>` or {{doc}}`../rows`.

## Experiment

What was run.
"""
POINT = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
NOTED = {
    "of": "Theorem 2 · Some paper",
    "chips": [
        {"text": "paper 3 ✓", "verdict": "reproduced", "means": "Three of the paper's.", "place": "evidence"},
        {"text": "checks 1/2", "verdict": "refuted", "means": "One of two.", "place": "what-breaks-it"},
    ],
    "runs": "runs in 7 s", "lines": 12,
}  # fmt: skip


def output(key, data, prefix=""):
    about = {"scrapbook": {"name": key, "mime_prefix": prefix}}
    return nbformat.v4.new_output("display_data", {prefix + kind: text for kind, text in data.items()}, metadata=about)


def chapter(name, title, tags=("parameters",)):
    """Return an executed chapter: parameters, what it computes, and cells that tell and show."""
    figure, table = f"fig-{name}-key", f"tab-{name}-evidence"
    cells = [
        ("seed: int = 0", []),
        ("computed = seed + 1", []),
        (f"tell('{name}', count=7)", [output(f"{name}-count", {"text/plain": "7"}, "application/papermill.record/")]),
        (
            f"tell('{name}', error=2e-4)",
            [output(f"{name}-error", {"text/plain": "0.0002"}, "application/papermill.record/")],
        ),
        (f"show('{figure}', draw())", [output(figure, {"image/png": POINT, "text/plain": "A"})]),
        (f"show('{table}', verdict())", [output(table, {"text/html": '<table class="verdicts"><tr></tr></table>'})]),
    ]
    code = [nbformat.v4.new_code_cell(source, outputs=outputs, execution_count=1) for source, outputs in cells]
    code[0].metadata.tags = list(tags)
    text = nbformat.v4.new_markdown_cell(TEXT.format(name=name, title=title))
    after = nbformat.v4.new_markdown_cell("## Against the paper\n\nNothing.")
    language = {"language_info": {"name": "python", "pygments_lexer": "ipython3"}}
    return nbformat.v4.new_notebook(cells=[text, *code, after], metadata=language)


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return the built pages, by name."""
    folder = tmp_path_factory.mktemp("small")
    (folder / "book/_generated/about/part").mkdir(parents=True)
    (folder / "book/part").mkdir()
    (folder / "conf.py").write_text(CONF)
    (folder / "book/intro.md").write_text("# Intro\n\n```{toctree}\npart/a\npart/b\nsources\nrows\n```\n")
    (folder / "book/sources.md").write_text("# Sources\n")
    (folder / "book/rows.md").write_text("# Rows\n")
    for name, tags in {"a": ["parameters"], "b": ["parameters", "open"]}.items():
        nbformat.write(chapter(name, f"Chapter {name}", tags), folder / f"book/part/{name}.ipynb")
        (folder / f"book/_generated/about/part/{name}.json").write_text(json.dumps(NOTED))
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", folder, folder / "html"]
    path = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(command, env=path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return {name: BeautifulSoup((folder / f"html/book/part/{name}.html").read_text(), "html.parser") for name in "ab"}


def words(node):
    return node.get_text(" ", strip=True)


def test_figures_and_formulas_are_numbered_on_each_page(pages):
    for name, page in pages.items():
        assert words(page.select_one("figure .caption-number")) == "Figure 1"
        assert words(page.select_one(".eqno")).startswith("(1)")
        assert words(page.select_one(f'.findings a[href="#equation-eq-{name}"]')) == "(1)"
    assert words(pages["a"].select_one('#evidence a[href="b.html#fig-b-key"]')) == "Figure 1"


def test_small_numbers_in_the_prose_have_raised_powers(pages):
    number = pages["a"].select_one(".findings .pasted-text")
    assert (number.get_text(), number.sup.get_text()) == (
        "2\N{NO-BREAK SPACE}·\N{NO-BREAK SPACE}10\N{MINUS SIGN}4",
        "\N{MINUS SIGN}4",
    )
    assert words(pages["a"].select_one("figcaption .pasted-text")) == "7"


def test_box_has_its_own_title_and_says_whence_its_words_come(pages):
    title = pages["a"].select_one("#thm-a > .admonition-title")
    assert words(title) == "Theorem 2 (Somebody et al.) restored"
    assert title.select_one("a.badge.restored")["href"] == "../sources.html"
    assert words(pages["a"].select_one('.findings a[href="b.html#thm-b"]')) == "Theorem 2"


def test_references_to_a_chapter_have_its_short_name(pages):
    links = pages["b"].select("#what-breaks-it p a.reference")
    assert [words(link) for link in links] == ["Short a", "Short a", "Evidence", "its words", "Rows"]


def test_two_chips_open_what_they_mean_and_lead_to_the_rows(pages):
    assert words(pages["a"].select_one("h1 + div.verdict-chips > span")) == "Theorem 2 · Some paper"
    paper, checks = pages["a"].select("h1 + div.verdict-chips > details.chip")
    assert (words(paper.summary), words(checks.summary)) == ("paper 3 ✓", "checks 1/2")
    assert words(paper).startswith("paper 3 ✓ Three of the paper's.")
    assert checks["class"] == ["chip", "refuted"]
    for chip, place in ((paper, "#evidence"), (checks, "#what-breaks-it")):
        assert [link["href"] for link in chip.select("a")] == [place, "../rows.html#rows-a"]
        assert pages["a"].select_one(place)
    code = {words(link): link["href"] for link in pages["a"].select(".findings ul.chips a")}
    assert code == {"runs in 7 s": "#experiment", "notebook": "../../_sources/book/part/a.ipynb"}


def test_experiment_is_folded_as_a_whole_behind_what_it_costs(pages):
    section = pages["a"].select_one("#experiment")
    fold = section.select_one("details.fold")
    assert words(fold.select_one("summary")) == "Show the experiment: 12 lines of code, runs in 7 s"
    assert not fold.has_attr("open")
    assert "What was run." in words(section)
    assert "What was run." not in words(fold)
    assert len(fold.select("div.cell")) == len(section.select("div.cell")) == 4
    assert pages["a"].select_one("#against-the-paper").find_parent("details") is None


def test_code_that_shows_has_a_bar_with_its_name_and_code_that_tells_is_away(pages):
    bars = [words(bar) for bar in pages["a"].select("#experiment details.hide p.collapsed")]
    assert bars == ["Code of Figure 1", "Code of the table"]
    code = words(pages["a"].select_one("#experiment"))
    assert "computed" in code
    assert "tell" not in code


def test_what_is_shown_stands_once_where_its_block_is(pages):
    assert len(pages["a"].select("figure img")) == 1
    assert not pages["a"].select("#experiment img, #experiment table")
    assert pages["a"].select_one("#evidence table.verdicts")
    assert "At 7 ." in words(pages["a"].select_one("figcaption"))
