"""Numbers after words that state a bound: rounded to the side on which the sentence is true."""

import json
import math
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflow.sphinx_ext.bounds import outward, side

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("words", "to"),
    [
        ("The gap is at most ", 1),
        ("ends within a relative distance of ", 1),
        ("a divergence of at most # and ", 1),
        ("is within $x$ = ", 1),
        ("It rises to at least a factor of ", -1),
        ("which exceeds ", -1),
        ("no more than ", 1),
        ("does not fall below ", -1),
        ("is never less than ", -1),
        ("is within about ", 0),
        ("The step, at most one, is ", 0),
        ("the median is ", 0),
        ("", 0),
    ],
)
def test_words_say_on_which_side_a_number_bounds(words, to):
    assert side(words) == to


@pytest.mark.parametrize(
    ("value", "form", "to", "shown"),
    [
        (4.37e-9, ".0e", 1, "5e-09"),
        (4.37e-9, ".0e", 0, "4e-09"),
        (8.056, ".1f", -1, "8.0"),
        (10.4, ".0f", 1, "11"),
        (0.9996, ".0%", -1, "99%"),
        (0.5, ".0%", -1, "50%"),
        (0.1 + 0.2, ".1f", 1, "0.3"),
        (1234.5, ",.0f", 1, "1,235"),
        (-0.0488, ".2f", 1, "-0.04"),
        (2.0004, ".3g", 1, "2.01"),
        (40, "d", 1, "40"),
        (math.inf, ".1f", 1, "inf"),
    ],
)
def test_a_number_is_rounded_to_its_side(value, form, to, shown):
    assert outward(value, form, to) == shown


@given(
    st.floats(1e-12, 1e12),
    st.sampled_from([".0e", ".2e", ".1f", ".0%", ".2%", ".2g", ",.0f"]),
    st.sampled_from([-1, 1]),
)
def test_what_is_shown_is_never_on_the_wrong_side_and_at_most_a_digit_away(value, form, to):
    shown, nearest = (
        float(text.rstrip("%").replace(",", "")) / (100 if "%" in text else 1)
        for text in (outward(value, form, to), format(value, form))
    )
    assert to * (shown - value) >= -1e-8 * value
    unit = {".0e": 1, ".2e": 0.01, ".2g": 0.1}.get(form, 0) * 10 ** math.floor(math.log10(value))
    unit = unit or {".1f": 0.1, ".0%": 0.01, ".2%": 1e-4, ",.0f": 1}[form]
    assert abs(shown - nearest) <= 1.01 * unit


def test_pages_round_what_chapters_glue_and_rows_measure(tmp_path):
    stored = nbformat.v4.new_output("display_data", {"application/papermill.record/text/plain": "4.37e-09"})
    stored.metadata = {"scrapbook": {"mime_prefix": "application/papermill.record/", "name": "far"}}
    far, gap = "{glue:text}`far:.0e`", "{measured}`a/b/gap:.1f`"
    said = f"At most {far}, but {far}; at least {gap}, though {gap}."
    cells = [nbformat.v4.new_code_cell("", outputs=[stored]), nbformat.v4.new_markdown_cell(f"# One\n\n{said}")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), tmp_path / "index.ipynb")
    (tmp_path / "book/_generated").mkdir(parents=True)
    rows = [{"id": "a/b/gap", "measured": 8.056}]
    (tmp_path / "book/_generated/ledger.json").write_text(json.dumps({"claims": rows}))
    extensions = ["myst_nb", "workflow.sphinx_ext.bounds", "workflow.sphinx_ext.measured"]
    (tmp_path / "conf.py").write_text(f"extensions, nb_execution_mode = {extensions}, 'off'")
    # A process of its own: myst_nb, once loaded, stays in all later builds of this one.
    build = [sys.executable, "-m", "sphinx", "-q", "-b", "text", tmp_path, tmp_path / "_build/text"]
    subprocess.run(build, cwd=ROOT, check=True)
    assert "At most 5e-09, but 4e-09; at least 8.0, though 8.1." in (tmp_path / "_build/text/index.txt").read_text()
