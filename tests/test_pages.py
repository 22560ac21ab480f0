"""The pages around the chapters: what they say is computed, and where it cannot be told they refuse or say less."""

import json
import math
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
import pytest
import torch
import yaml
from bs4 import BeautifulSoup
from sphinx.testing.util import SphinxTestApp

from lib import figures
from workflow.book import verdicts
from workflow.book.catalogue import BookError, chapters, parts, title
from workflow.site import drawings, generated_pages, landing_page, markup
from workflow.sphinx_ext import statement_index

ROOT = Path(__file__).parents[1]

EXTENSIONS = ["myst_parser", *(f"workflow.sphinx_ext.{name}" for name in ("bounds", "measured", "typography"))]
SVG = "http://www.w3.org/2000/svg"
DRAWN = {"statement": "A length", "interval": None, "bound": 1.0, "relation": "<="}  # is not in the lock


@pytest.fixture(autouse=True)
def _stand_in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture
def rows():
    """Rows as the ledger has them, with the accepted values."""
    lock = json.loads((ROOT / "book/ledger.lock.json").read_text())["rows"]
    about = {"paper": "2306.13596", "item": "Theorem 1", "kind": "claim", "scale": "exact", "quote": None}
    about |= DRAWN | {"recorded": False}
    of = dict.fromkeys((*verdicts.STANDINGS, "seen in miniature", "not seen in miniature"), "paper")
    return [
        about
        | {"id": name, "of": of.get(row["verdict"], "book")}
        | row
        | ({"scale": "stand-in"} if "miniature" in (row["verdict"] or "") else {})
        for name, row in lock.items()
    ]


@pytest.mark.parametrize(
    ("paper", "item", "name"),
    [("2402.05738", "R1", "Global convergence"), ("2306.13596", "Theorem 2", "Theorem 2"), (None, "ours", "ours")],
)
def test_a_row_is_told_by_the_name_of_its_item(paper, item, name):
    assert markup.called({"paper": paper, "item": item}) == name


@pytest.mark.parametrize(
    ("title", "names"),
    [
        ("Theorem 2", ["Theorem 2"]),
        (" (Theorem 2)", ["Theorem 2"]),
        ("Theorem 2 (Ataee Tarzanagh et al.)", ["Theorem 2"]),
        ("Lemma 2, and Lemma 11", ["Lemma 2", "Lemma 11"]),
        ("Lemmas 8, 9 and 10", ["Lemma 8", "Lemma 9", "Lemma 10"]),
        ("Figure 3(a) and 3(c)", ["Figure 3(a)", "Figure 3(c)"]),
        ("Assumption A: the loss", ["Assumption A"]),
        ("Global convergence (Vasudeva et al.)", ["Global convergence"]),
    ],
)
def test_a_box_is_indexed_by_each_statement_that_it_names(title, names):
    assert statement_index.names(title) == names


@pytest.fixture
def made(tmp_path):
    """Function that lets Sphinx make pages of the book with some rows: their texts by name, and warnings."""

    def make(rows, **sources):
        folder = tmp_path / f"{len(list(tmp_path.iterdir()))}"
        (folder / "book/_generated").mkdir(parents=True)
        (folder / "book/_generated/ledger.json").write_text(json.dumps({"claims": rows}), "utf-8")
        drawn = {"finite_end": {"norm": 12.2, "attention": 0.999996}, "ratio_turns": {"threshold": 1, "angle": 11}}
        (folder / "book/_generated/drawings.json").write_text(json.dumps(drawn), "utf-8")
        for name, source in sources.items():
            (folder / f"book/{name}.md").write_text(source, "utf-8")
        settings = {"root_doc": f"book/{next(iter(sources))}", "extensions": EXTENSIONS}
        settings |= yaml.safe_load(Path("_config.yml").read_text("utf-8"))["parse"]
        settings |= {"html_theme": "basic", "html_permalinks": False}
        (folder / "conf.py").touch()
        app = SphinxTestApp("html", folder, confoverrides=settings)
        app.build()
        app.cleanup()
        pages = {name: BeautifulSoup((folder / f"_build/html/book/{name}.html").read_text("utf-8"), "html.parser")
                 for name in sources}  # fmt: skip
        texts = {name: " ".join(page.select_one("div.body").get_text().split()) for name, page in pages.items()}
        return texts, app.warning.getvalue()

    return make


def turned(rows, name, **change):
    """Rows of which one has changed."""
    assert any(row["id"] == name for row in rows)
    return [row | change if row["id"] == name else row for row in rows]


class TestMeasured:
    """Numbers, verdicts and sentences of the ledger in prose."""

    ROWS = ({"id": "a/b/gap", "verdict": "reproduced", "measured": -2e-4, "chapter": "a/b"} | DRAWN,)
    TURN = ROWS[0] | {"id": "a/b/turn", "verdict": "undecided", "measured": 1 - math.cos(math.radians(3))}

    @pytest.mark.parametrize(
        ("source", "said"),
        [
            ("{measured}`a/b/gap`", "−2 × 10⁻⁴"),
            ("{measured}`a/b/gap:.1e`", "−2.0 × 10⁻⁴"),
            ("{measured}`a/b/gap:.2%`", "−0.02%"),
            ("{measured}`a/b/gap:size.4f`", "0.0002"),
            ("{measured}`a/b/turn:angle.2f`°", "3.00°"),
            ("{measured}`a/b/gap:verdict`, {measured}`a/b/turn:verdict`", "reproduced, undecided"),
            *((f"{{verdict}}`{word}`", f"{sign} {word}".strip()) for word, sign in verdicts.SIGNS.items()),
            ("{verdict}`here <reproduced>`", "✓ here"),
        ],
    )
    def test_a_number_and_a_verdict_are_written_as_asked(self, made, source, said):
        texts, warnings = made([*self.ROWS, self.TURN], page=f"# One\n\nIt is {source}.")
        assert texts["page"] == f"One It is {said}."
        assert not warnings

    @pytest.mark.parametrize(
        ("source", "said"),
        [
            ("{measured}`a/b/gaps:.2f`", "a/b/gaps is no row of the ledger"),
            (":::{believed} a/b/gap, a/b/more\nIt holds.\n:::", "a/b/more is no row of the ledger"),
            (":::{believed}\n:standing: certain\n:read: page\n\nIt holds.\n:::", "'certain' is no standing"),
            ("{verdict}`proved`", "'proved' is no verdict"),
        ],
    )
    def test_what_is_not_known_is_refused_by_name(self, made, source, said):
        _, warnings = made(self.ROWS, page=f"# One\n\n{source}")
        assert said in warnings

    def test_a_correction_holds_as_long_as_its_row_is_corrected(self, made):
        source = ":::{believed} a/b/gap\n:verdict: corrected\nIt needs more.\n\nBecause.\n:::"
        corrected, _ = made([self.ROWS[0] | {"verdict": "corrected"}], page=f"# One\n\n{source}")
        gone, _ = made(self.ROWS, page=f"# One\n\n{source}")
        assert corrected["page"] == "One It needs more. Because."
        assert gone["page"].startswith("One ✗ Withdrawn: It needs more. This build contradicts it: A length: −2 × 10⁻⁴")


class TestBeliefs:
    """What we now believe, and how the first page follows."""

    EXPONENT = "rates/step-rules/exponent"
    FIRST = "# First\n\n```{sentences} beliefs\n```\n"

    def test_a_verdict_that_turns_withdraws_its_sentence_and_no_other(self, made, rows):
        sources = {"first": self.FIRST, "beliefs": Path("book/beliefs.md").read_text("utf-8")}
        before, _ = made(rows, **sources)
        after, _ = made(turned(rows, self.EXPONENT, verdict="not reproduced"), **sources)
        for name in sources:
            assert "Withdrawn" not in before[name]
            assert after[name].count("Withdrawn") == 1
            assert "✗ Withdrawn: Normalised gradient descent divides each gradient" in after[name]
        assert "Our formula for c has" not in after["beliefs"].replace("\\(c\\)", "c")

    def test_what_would_change_our_mind_withdraws_the_sentence(self, rows):
        page, known = Path("book/beliefs.md").read_text("utf-8"), {row["id"]: row for row in rows}
        beliefs = re.split(r"^:::\{believed\} ", page, flags=re.M)[1:]
        assert len(beliefs) > 10
        for belief in beliefs:
            carry = set(re.split(r"[,\s]+", belief.partition("\n")[0]))
            looked = set(re.findall(r"\{measured\}`([\w/-]+)", belief.partition("*What would change our mind:*")[2]))
            assert looked, f"no row looks for what would change our mind about {belief[:60]}"
            assert looked <= carry, f"{looked - carry} could turn, and the sentence would stand"
            assert not [name for name in looked & {*known} if known[name]["verdict"] is None]


class TestStory:
    """The ten steps: their pictures, their rows and the scene, which must know the same steps."""

    TEXT = (ROOT / "book/in-ten-minutes.md").read_text("utf-8")

    def test_each_step_has_its_picture_its_words_and_a_chapter(self):
        steps = re.split(r"^\((?=story-\w+\)=)", self.TEXT, flags=re.MULTILINE)[1:-1]
        scene = Path("book/_static/explore/story.js").read_text("utf-8")
        known = re.search(r"export const STEPS = {\n(.*?)\n};", scene, re.DOTALL)[1]
        assert re.findall(r"^  (\w+): {$", known, re.MULTILINE) == [re.match(r"story-(\w+)", step)[1] for step in steps]
        for step in steps:
            assert step.count("**Try it.**") == step.count(":figclass: story-still") == 1
            assert "{doc}" in step

    def test_pictures_are_drawings_or_figures_of_chapters(self):
        for folder, name in re.findall(r"_generated/(?:([\w/-]+)/)?([\w-]+)\.svg", self.TEXT):
            text = Path(f"book/{folder}.md").read_text("utf-8") if folder else ""
            assert f"{{glue:figure}} {name}" in text if folder else name in drawings.DRAWINGS

    def test_the_scene_has_the_numbers_of_the_ledger(self, rows):
        known = {row["id"]: row["measured"] for row in rows}
        assert generated_pages.shown(rows)["firm"] == known["beyond/real-transformer/above-film"]
        left = [row for row in rows if row["id"] != "beyond/real-transformer/above-film"]
        with pytest.raises(BookError, match="shows beyond/real-transformer/above-film, which is no row"):
            generated_pages.shown(left)


class TestFigures:
    """Figures that a page takes from the run of a chapter."""

    CHAPTER = "beyond/optimiser-margins"

    def test_it_is_the_one_of_that_name(self, tmp_path, monkeypatch):
        data = {"application/papermill.record/image/svg+xml": f'<svg xmlns="{SVG}" viewBox="0 0 7 5"><g/></svg>'}
        glued = [{"scrapbook": {"name": f"fig-optimiser-margins-{name}"}} for name in ("plane", "ends")]
        outputs = [nbformat.v4.new_output("display_data", data, metadata=about) for about in glued]
        outputs[0].data = {name: text.replace("7 5", "1 1") for name, text in data.items()}
        cells = [nbformat.v4.new_code_cell("", outputs=outputs)]
        (tmp_path / "build/executed/beyond").mkdir(parents=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / f"build/executed/{self.CHAPTER}.ipynb")
        monkeypatch.chdir(tmp_path)
        assert 'viewBox="0 0 7 5"' in generated_pages.figure_of(self.CHAPTER, "fig-optimiser-margins-ends")
        with pytest.raises(BookError, match=r"draws no figure that is called fig-optimiser-margins-end$"):
            generated_pages.figure_of(self.CHAPTER, "fig-optimiser-margins-end")

    def test_there_is_none_before_the_chapter_has_run(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert generated_pages.figure_of(self.CHAPTER, "fig-optimiser-margins-ends") == ""


class TestMap:
    """What rests on what."""

    def test_every_chapter_has_a_row_and_a_link(self, rows):
        listed = re.findall(r"^- \[.\]{[^}]+} {doc}`[^`]+ <([\w/-]+)>`", landing_page.book_map(rows), re.MULTILINE)
        assert listed == chapters()
        assert {entry["chapter"] for entry in landing_page._front()["map"]} <= set(chapters())

    def test_a_chapter_that_the_map_does_not_know_is_called_by_its_title(self, monkeypatch):
        monkeypatch.setattr(landing_page, "_front", dict)
        assert landing_page.entries()["max-margin/lemma-2"]["name"] == title("book/max-margin/lemma-2.md")

    def test_the_main_line_is_read_in_an_afternoon(self):
        main = [chapter for part, listed in parts().items() if part.endswith("?") for chapter in listed]
        assert len(main) <= 22
        assert set(landing_page._front()["parts"]) == {part for part in parts() if part.endswith("?")}


class TestNeeds:
    """What a chapter needs, and its exercises."""

    def test_a_chapter_rests_on_all_that_lies_below_it_each_once(self):
        direct = {chapter: set(entry.get("from", ())) for chapter, entry in landing_page.entries().items()}

        def below(chapter):
            return direct[chapter].union(*map(below, direct[chapter]))

        lines = [line for line in landing_page.needs().splitlines() if line.startswith("| {doc}")]
        assert len(lines) == len(direct)
        for line in lines:
            chapter, *needed = re.findall(r"{doc}`[^`]+ <([\w/-]+)>`", line)
            assert sorted(needed) == sorted(below(chapter))

    def test_each_exercise_has_a_solution_and_a_place_in_the_table(self):
        source = landing_page.EXERCISES.read_text("utf-8")
        labels = re.findall(r"^\((exercise-[\w-]+)\)=$", source, re.MULTILINE)
        assert len(set(labels)) == len(labels) == source.count(":::{dropdown} Solution")
        named = re.findall(r"{ref}`[^`]+ <(exercise-[\w-]+)>`", landing_page.needs())
        assert sorted(named) == sorted(labels)
        of = [chapter for _, _, chapter in landing_page.EXERCISE.findall(source)]
        assert all(of.count(chapter) <= 4 for chapter in of)


class TestCorrections:
    """The page of corrections."""

    def test_every_corrected_row_has_its_section_with_the_printed_sentence(self, made, rows):
        quoted = [row | {"quote": f"It *always* holds: {row['id']}."} for row in rows]
        texts, warnings = made(quoted, corrections=Path("book/corrections.md").read_text("utf-8"))
        source = Path("book/corrections.md").read_text("utf-8")
        for row in rows:
            if row["verdict"] in ("corrected", "made explicit"):
                assert re.search(rf"{{rows}} (?:\S+ )*{row['id']},?\s", source), row["id"]
        assert "It *always* holds: max-margin/figure-9/finite." in texts["corrections"]
        assert "Withdrawn" not in texts["corrections"]
        assert "no row" not in warnings


class TestDrawings:
    """Pictures that the build computes."""

    @pytest.mark.parametrize("name", drawings.DRAWINGS)
    def test_is_as_wide_as_a_phone_and_the_same_each_time(self, name):
        text, _ = drawings.drawn(name)
        width, _ = map(float, ElementTree.fromstring(text).get("viewBox").split()[2:])
        assert width == 72 * figures.WIDTH
        unnamed = [re.sub(r'id="[^"]*"|#\w+', "", drawing) for drawing in (text, drawings.drawn.__wrapped__(name)[0])]
        assert unnamed[0] == unnamed[1]  # ids of clipped parts are matplotlib's own

    def test_the_finite_end_is_one(self):
        from lib.logspace import gradient
        from lib.losses import by_name
        from lib.problem import Problem

        _, numbers = drawings.drawn("finite_end")
        keys = torch.tensor([[[2.0], [0.0]], [[0.0], [-1.0]]], dtype=torch.float64)
        problem = Problem(keys, scores=torch.tensor([[1.0, 0.0], [0.0, 1e-5]], dtype=torch.float64))
        places = torch.tensor([[numbers["norm"] - 0.01], [numbers["norm"] + 0.01]], dtype=torch.float64)
        slopes = gradient(problem, by_name("correlation"), places).direction[:, 0]
        assert slopes[0] < 0 < slopes[1]
        attention = problem.attention(torch.tensor([numbers["norm"]], dtype=torch.float64))
        assert attention.amax(-1).min().item() == pytest.approx(numbers["attention"], abs=1e-9)
        assert attention.amax(-1).mean() >= 1 - 1e-5


class TestFragments:
    """What is made while the site is staged."""

    def test_nothing_is_made_that_no_page_includes(self, monkeypatch, tmp_path):
        (tmp_path / "book").mkdir()
        (tmp_path / "build").mkdir()
        (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/intro\n")
        (tmp_path / "book/intro.md").write_text(
            "# One\n\n```{include} _generated/cite.md\n```\n\n![](_generated/tokens.svg)\n"
        )
        (tmp_path / "build/ledger.json").write_text("{}")
        monkeypatch.chdir(tmp_path)
        made = generated_pages.texts()
        assert made.keys() == {"cite.md", "tokens.svg", "drawings.json", "ledger.json"}
        assert json.loads(made["drawings.json"]).keys() == {"tokens"}


def test_a_bar_in_a_formula_ends_no_cell_of_a_table():
    assert markup.escaped(r"Error of $\|W\|$ in $|g|$ | end") == r"Error of $\Vert W\Vert $ in $\vert g\vert $ \| end"
