"""Numbers that state a bound: rounded to the side on which their sentence is true."""

import json
import math
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflow.sphinx_ext.bounds import rounded

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("value", "form", "shown"),
    [
        (4.37e-9, ".0e+", "5e-09"),
        (4.37e-9, ".0e", "4e-09"),
        (8.056, ".1f-", "8.0"),
        (10.4, ".0f+", "11"),
        (0.9996, ".0%-", "99%"),
        (0.5, ".0%-", "50%"),
        (0.1 + 0.2, ".1f+", "0.3"),
        (1234.5, ",.0f+", "1,235"),
        (-0.0488, ".2f+", "-0.04"),
        (2.0004, ".3g+", "2.01"),
        (5.99, ".2g+", "6"),
        (math.inf, ".1f+", "inf"),
    ],
)
def test_a_number_is_rounded_to_its_side(value, form, shown):
    assert rounded(value, form) == shown


@given(
    st.floats(1e-12, 1e6),
    st.sampled_from([".0e", ".2e", ".1f", ".0%", ".2%", ".2g", ",.0f"]),
    st.sampled_from("+-"),
)
def test_what_is_shown_is_never_on_the_wrong_side_and_at_most_a_digit_away(value, form, side):
    shown, nearest = (
        float(text.rstrip("%").replace(",", "")) / (100 if "%" in text else 1)
        for text in (rounded(value, form + side), format(value, form))
    )
    assert (shown - value) * (1 if side == "+" else -1) >= -1e-8 * value
    unit = {".0e": 1, ".2e": 0.01, ".2g": 0.1}.get(form, 0) * 10 ** math.floor(math.log10(value))
    unit = unit or {".1f": 0.1, ".0%": 0.01, ".2%": 1e-4, ",.0f": 1}[form]
    assert abs(shown - nearest) <= 1.01 * unit


def test_pages_round_what_chapters_glue_and_rows_measure(tmp_path):
    stored = nbformat.v4.new_output("display_data", {"application/papermill.record/text/plain": "4.37e-09"})
    stored.metadata = {"scrapbook": {"mime_prefix": "application/papermill.record/", "name": "far"}}
    said = "At most {glue:text}`far:.0e+`, but {glue:text}`far:.0e`; at least {measured}`a/b/gap:.1f-`."
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
    assert "At most 5e-09, but 4e-09; at least 8.0." in (tmp_path / "_build/text/index.txt").read_text()
