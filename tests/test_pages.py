"""The pages around the chapters: what they say is computed, and where it cannot be told they refuse or say less."""

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import nbformat
import pytest
import torch
import yaml

from lib import figures
from workflow.book.catalogue import BookError, chapters
from workflow.site import beliefs, corrections, drawings, generated_pages, landing_page, markup, story
from workflow.sphinx_ext import statement_index

ROOT = Path(__file__).parents[1]

SVG = "http://www.w3.org/2000/svg"
DRAWN = {"statement": "A length", "interval": None, "bound": 1.0, "relation": "<="}  # is not in the lock


@pytest.fixture(autouse=True)
def _stand_in_the_project(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.fixture
def rows():
    """Rows as the ledger has them, with the accepted values."""
    lock = json.loads((ROOT / "book/ledger.lock.json").read_text())["rows"]
    about = {"paper": "2306.13596", "item": "Theorem 1", "kind": "claim", "of": "paper", "quote": None}
    return [about | {"id": name, "chapter": name.rpartition("/")[0]} | DRAWN | row for name, row in lock.items()]


def corrected(quote, **other):
    row = {"paper": "2306.13596", "item": "Theorem 1", "chapter": "max-margin/theorem-1", "verdict": "corrected"}
    numbers = {"measured": 0.1, "interval": None, "bound": 0.2, "relation": "<="}
    return row | numbers | {"quote": quote, "note": "It needs more.", "statement": "A length"} | other


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


class TestBeliefs:
    """What we now believe, and how the first page and the page of beliefs follow the ledger."""

    EXPONENT, LIMIT = "rates/step-rules/exponent", "max-margin/theorem-2/direction"

    def test_each_number_is_that_of_the_ledger(self, rows):
        moved = [row | {"measured": 3e-4} if row["id"] == self.LIMIT else row for row in rows]
        assert "3.0 \\cdot 10^{-4}" not in beliefs.page(rows)
        assert "3.0 \\cdot 10^{-4}" in beliefs.page(moved)

    @pytest.mark.parametrize("made", [beliefs.page, beliefs.short])
    def test_a_verdict_that_turns_withdraws_its_sentence_and_no_other(self, rows, made):
        bad = [row | {"verdict": "not reproduced"} if row["id"] == self.EXPONENT else row for row in rows]
        said = "Gradient descent with a constant step is exponentially slower"
        assert "Withdrawn" not in made(rows)
        assert made(bad).count("Withdrawn") == 1
        assert f"[✗ Withdrawn:]{{.verdict .refuted}} *{said}" in made(bad)

    def test_a_row_that_is_gone_is_refused_by_name(self, rows):
        left = [row for row in rows if row["id"] != self.EXPONENT]
        with pytest.raises(BookError, match=f"tells of {self.EXPONENT}, which is no row"):
            beliefs.page(left)

    def test_a_standing_that_is_none_is_refused_with_those_that_there_are(self, rows):
        entry = yaml.safe_load(Path(beliefs.REGISTER).read_text("utf-8"))[0] | {"standing": "certain"}
        with pytest.raises(BookError, match="'certain' is no standing: write one of proved, papers"):
            beliefs.belief(entry, rows)


@pytest.mark.usefixtures("built")
class TestStory:
    """The ten steps: their pictures, their numbers and the scene, which must know the same steps."""

    def test_each_step_has_its_picture_its_words_and_a_chapter(self, rows):
        text = story.page(rows)
        names = re.findall(r"^\(story-(\w+)\)=", text, re.MULTILINE)
        assert len(names) == 10
        assert re.findall(r"_generated/story_(\w+)\.svg", text) == names
        assert text.count("{doc}") >= 10
        assert text.count("**Try it.**") == 10
        scene = Path("book/_static/explore/story.js").read_text("utf-8")
        known = re.search(r"export const STEPS = {\n(.*?)\n};", scene, re.DOTALL)[1]
        assert re.findall(r"^  (\w+): {$", known, re.MULTILINE) == names

    def test_numbers_are_those_of_the_ledger_and_of_the_pictures(self, rows):
        text = story.page(rows)
        known = {row["id"]: row["measured"] for row in rows}
        assert f'data-optimal="{known["beyond/your-attention/optimal"]:.4f}"' in text
        _, told = drawings.drawn("story_starts")
        assert f"{told['best']} paths turn to A, {told['other']} to B" in text
        moved = [row | {"measured": 0.5} if row["id"] == "max-margin/figure-9/saturates" else row for row in rows]
        assert "in ten or more dimensions all do (50%)" in story.page(moved)

    def test_a_verdict_that_turns_is_named_at_its_step(self, rows):
        bad = [row | {"verdict": "undecided"} if row["id"] == "max-margin/theorem-2/direction" else row for row in rows]
        assert "This build contradicts" not in story.page(rows)
        assert story.page(bad).count("This build contradicts this step") == 1


class TestEnds:
    """The figure that the first page takes from the run of a chapter."""

    CHAPTER = "beyond/optimiser-margins"

    def test_it_is_the_chapters_own_with_its_words(self, tmp_path, monkeypatch):
        data = {"application/papermill.record/image/svg+xml": f'<svg xmlns="{SVG}" viewBox="0 0 7 5"><g/></svg>'}
        glued = [{"scrapbook": {"name": f"fig-optimiser-margins-{name}"}} for name in ("plane", "ends")]
        outputs = [nbformat.v4.new_output("display_data", data, metadata=about) for about in glued]
        outputs[0].data = {name: text.replace("7 5", "1 1") for name, text in data.items()}
        cells = [nbformat.v4.new_code_cell("", outputs=outputs)]
        (tmp_path / "build/executed/beyond").mkdir(parents=True)
        nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / f"build/executed/{self.CHAPTER}.ipynb")
        (tmp_path / "book").symlink_to(ROOT / "book")
        monkeypatch.chdir(tmp_path)
        text = landing_page.ends()
        assert ":alt: Six square grids" in text
        assert f"<{self.CHAPTER}>" in text
        assert 'viewBox="0 0 7 5"' in landing_page.ends_drawing()

    def test_there_is_none_before_the_chapter_has_run(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert landing_page.ends() == ""


class TestMap:
    """What rests on what."""

    def test_chapters_rest_on_those_above_them(self):
        above = set()
        for entry in landing_page.entries():
            if entry["chapter"] in chapters():
                assert set(entry.get("from", ())) & set(chapters()) <= above, entry
                above.add(entry["chapter"])

    def test_every_chapter_has_a_row_and_a_link(self, rows):
        listed = re.findall(r"^- \[.\]{[^}]+} {doc}`[^`]+ <([\w/-]+)>`", landing_page.book_map(rows), re.MULTILINE)
        assert listed == [entry["chapter"] for entry in landing_page.entries()]
        assert set(listed) == set(chapters())
        assert {entry["chapter"] for entry in landing_page._front()["map"]} <= set(chapters())

    def test_a_chapter_that_the_map_does_not_know_stands_at_the_end_of_its_part(self, monkeypatch):
        known = landing_page._front()["map"]
        left = [entry for entry in known if entry["chapter"] != "max-margin/lemma-2"]
        monkeypatch.setattr(landing_page, "_front", lambda: {"map": left})
        names = [entry["chapter"] for entry in landing_page.entries()]
        assert names.index("max-margin/lemma-2") == sum(name.startswith("max-margin/") for name in names) - 1

    @pytest.mark.parametrize(
        ("verdicts", "kind"),
        [
            (["reproduced"], "reproduced"),
            (["reproduced", "corrected"], "corrected"),
            (["corrected", "not reproduced"], "not reproduced"),
            (["reproduced", "made explicit"], "made explicit"),
            (["seen in miniature", "reproduced"], "seen in miniature"),
            (["reproduced", "undecided"], "open"),
            ([], "open"),
        ],
    )
    def test_the_sign_says_how_the_papers_claims_fare(self, verdicts, kind):
        about = {"chapter": "a/b", "kind": "claim", "of": "paper"}
        others = [about | {"of": "book", "verdict": "refuted"}, about | {"chapter": "a/c", "verdict": "not reproduced"}]
        assert landing_page.standing("a/b", [*others, *(about | {"verdict": verdict} for verdict in verdicts)]) == kind


class TestCorrections:
    """The page of corrections."""

    def test_one_section_for_one_printed_sentence(self):
        rows = [corrected("Over any bounded interval: (1) […] is strictly decreasing."), corrected("Other.")]
        text = corrections.sections([*rows, rows[0] | {"statement": "Another length"}])
        assert re.findall(r"^## (.+)$", text, re.MULTILINE) == ["1. The loss must fall with a slope", "2. Theorem 1"]
        assert re.findall(r"_generated/(\w+)\.svg", text) == ["flat_loss"]
        assert "- A length: 0.1; bound: at most 0.2.\n- Another length" in text

    def test_nothing_corrected_says_so(self):
        text = corrections.sections([corrected("One.", verdict="reproduced")])
        assert text.strip() == "No printed sentence needs a correction."

    def test_each_entry_of_the_page_can_be_drawn(self):
        for entry in yaml.safe_load((ROOT / "book/corrections.yml").read_text("utf-8")):
            begins, verdict = entry.get("begins", "Other"), "corrected" if "begins" in entry else "made explicit"
            item = entry.get("item", "Theorem 1")
            text = corrections.sections([corrected(f"{begins} and so on.", verdict=verdict, item=item)])
            (alt, caption) = re.search(r":alt: (.+)\n\n(.+)\n```", text).groups()
            assert len(alt) > 40
            assert caption.startswith("**")
            assert "{" not in caption, entry["title"]


class TestDrawings:
    """Pictures that the build computes."""

    @pytest.mark.parametrize("name", drawings.DRAWINGS)
    def test_is_as_wide_as_a_phone_and_the_same_each_time(self, name, request):
        if name == "story_networks":  # of numbers of the ledger
            request.getfixturevalue("built")
        text, _ = drawings.drawn(name)
        width, _ = map(float, ElementTree.fromstring(text).get("viewBox").split()[2:])
        assert width == 72 * figures.WIDTH
        unnamed = [re.sub(r'id="[^"]*"|#\w+', "", one) for one in (text, drawings.drawn.__wrapped__(name)[0])]
        assert unnamed[0] == unnamed[1]  # ids of clipped parts are matplotlib's own

    def test_the_first_picture_shows_both_ends_and_a_choice(self):
        _, told = drawings.drawn("selection")
        assert told["best"] >= 1
        assert told["other"] >= 1
        assert told["best"] + told["other"] == told["starts"]
        assert told["before"] == pytest.approx(1 / 3)
        assert told["after"] > 0.99

    def test_the_finite_end_is_one(self):
        from lib.logspace import gradient
        from lib.losses import by_name
        from lib.problem import Problem

        _, told = drawings.drawn("finite_end")
        keys = torch.tensor([[[2.0], [0.0]], [[0.0], [-1.0]]], dtype=torch.float64)
        problem = Problem(keys, scores=torch.tensor([[1.0, 0.0], [0.0, 1e-5]], dtype=torch.float64))
        places = torch.tensor([[told["norm"] - 0.01], [told["norm"] + 0.01]], dtype=torch.float64)
        slopes = gradient(problem, by_name("correlation"), places).direction[:, 0]
        assert slopes[0] < 0 < slopes[1]
        attention = problem.attention(torch.tensor([told["norm"]], dtype=torch.float64))
        assert attention.amax(-1).min().item() == pytest.approx(told["attention"], abs=1e-9)
        assert attention.amax(-1).mean() >= 1 - 1e-5

    def test_the_limit_turns_up_to_the_threshold(self):
        _, told = drawings.drawn("ratio_turns")
        assert told["threshold"] == pytest.approx(1)
        assert told["angle"] == pytest.approx(11.31, abs=0.01)


class TestFragments:
    """What is made while the site is staged."""

    def test_nothing_is_made_that_no_page_includes(self, monkeypatch, tmp_path):
        (tmp_path / "book").mkdir()
        (tmp_path / "build").mkdir()
        (tmp_path / "_toc.yml").write_text("format: jb-book\nroot: book/intro\n")
        (tmp_path / "book/intro.md").write_text("# One\n\n```{include} _generated/tokens.md\n```\n")
        (tmp_path / "build/ledger.json").write_text("{}")
        monkeypatch.chdir(tmp_path)
        assert generated_pages.texts().keys() == {"tokens.md", "tokens.svg", "ledger.json"}

    def test_a_citation_has_the_books_own_names(self):
        about = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
        text = landing_page.cite()
        assert about["title"] in text
        assert about["version"] in text
        for name in ("tarzanagh2023maxmargin", "vasudeva2024implicit", "julistiono2024mirror"):
            assert name in text


def test_a_bar_in_a_formula_ends_no_cell_of_a_table():
    assert markup.escaped(r"Error of $\|W\|$ in $|g|$ | end") == r"Error of $\Vert W\Vert $ in $\vert g\vert $ \| end"
