"""Verdicts, refusals, and the data that travels in a notebook."""

import json
import math
import re
import sys

import numpy as np
import pytest
import torch
from IPython.core.interactiveshell import InteractiveShell

from lib.ledger import MIME, Row, claim, control, source, tell, verdict

HOLDS = {"<=": (1.0, 2.0), ">=": (2.0, 1.0), "==": (3.0, 3.0)}
FAILS = {"<=": (2.0, 1.0), ">=": (1.0, 2.0), "==": (3.0, 3.0000001)}


def row(make=claim, measured=1.0, relation="<=", bound=2.0, name="direction", statement="it holds", **kwargs):
    return make(name, statement, measured, relation, bound, **{"paper": "2306.13596", "item": "Theorem 2"} | kwargs)


@pytest.mark.parametrize("relation", HOLDS)
@pytest.mark.parametrize(
    ("make", "extra", "held", "failed"),
    [
        (claim, {}, "reproduced", "not reproduced"),
        (claim, {"corrects": "needs loss' < 0"}, "corrected", "not reproduced"),
        (control, {}, "control did not fail", "control fails as it must"),
    ],
    ids=["claim", "corrected claim", "control"],
)
def test_verdict_of_a_row(relation, make, extra, held, failed):
    for numbers, expected in ((HOLDS, held), (FAILS, failed)):
        measured, bound = numbers[relation]
        outcome = row(make, measured, relation, bound, **extra)
        assert outcome.verdict == expected
        assert outcome.kind == ("control" if make is control else "claim")


@pytest.mark.parametrize("relation", HOLDS)
def test_the_bound_itself_counts_as_holding(relation):
    assert row(relation=relation, measured=2.0).verdict == "reproduced"


def test_correction_stands_before_the_note():
    assert row(corrects="Needs B.", note="On GD.").note == "Needs B. On GD."
    assert row(note="On GD.").note == "On GD."
    assert row().note == ""


@pytest.mark.parametrize(
    ("relation", "given", "expected"),
    [
        ("<=", None, 1e-6 * 10 + 1e-2 * 2),
        (">=", None, 1e-6 * 10 + 1e-2 * 2),
        ("==", None, 0.0),
        ("<=", 0.5, 0.5),
        ("==", 1, 1.0),
    ],
)
def test_tolerance(relation, given, expected):
    assert row(measured=-10.0, relation=relation, bound=-2.0, tolerance=given).tolerance == pytest.approx(expected)


@pytest.mark.parametrize("make", [claim, control])
@pytest.mark.parametrize(
    "value", [1, True, np.float32(1), np.int64(1), np.array(1.0), torch.tensor(1.0), torch.tensor(1)]
)
def test_any_single_number_becomes_a_float(make, value):
    outcome = row(make, measured=value, bound=value, relation="==", tolerance=value)
    assert [type(number) for number in (outcome.measured, outcome.bound, outcome.tolerance)] == [float] * 3
    assert outcome.measured == 1.0


@pytest.mark.parametrize("make", [claim, control])
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, torch.tensor(math.nan), torch.ones(1), "1", None, 1j])
@pytest.mark.parametrize("what", ["measured", "bound"])
def test_a_number_that_is_none_is_refused(make, value, what):
    with pytest.raises(ValueError, match=f"the {what}.* of 'direction' is .* one finite number"):
        row(make, **{what: value})


@pytest.mark.parametrize("value", [math.nan, math.inf, -1.0])
def test_a_tolerance_that_is_none_is_refused(value):
    with pytest.raises(ValueError, match="the tolerance of 'direction' is"):
        row(tolerance=value)


@pytest.mark.parametrize("make", [claim, control])
@pytest.mark.parametrize("text", ["", " \n", None, 2])
@pytest.mark.parametrize("what", ["name", "statement", "paper", "item"])
def test_a_text_that_says_nothing_is_refused(make, what, text):
    with pytest.raises(ValueError, match=f"the {what} of .* is {re.escape(repr(text))}: write it in words"):
        row(make, **{what: text})


@pytest.mark.parametrize("make", [claim, control])
def test_an_unknown_relation_is_refused_with_those_there_are(make):
    with pytest.raises(ValueError, match="relation '<' of 'direction' is unknown: use one of <=, >=, =="):
        row(make, relation="<")


@pytest.mark.parametrize(("make", "more"), [(claim, {"corrects": "Needs B."}), (control, {"tolerance": 0.5})])
def test_a_source_makes_rows_about_one_statement(make, more):
    of_r1 = getattr(source("2402.05738", "R1"), make.__name__)
    outcome = of_r1("direction", "it holds", 1.0, "<=", 2.0, note="On GD.", **more)
    assert outcome == row(make, paper="2402.05738", item="R1", note="On GD.", **more)


def test_names_are_unique():
    with pytest.raises(ValueError, match="two rows are called norm: names are unique"):
        verdict(row(name="norm"), row(name="direction"), row(control, name="norm"))


def test_bundle_is_json_with_the_fields_of_the_ledger():
    rows = (row(measured=torch.tensor(1.2e-4), note="n"), row(control, name="control", paper="2410.14581"))
    bundle = json.loads(json.dumps(verdict(*rows)._repr_mimebundle_(), allow_nan=False))
    assert set(bundle) == {"text/plain", "text/html", MIME}
    assert [Row(**entry) for entry in bundle[MIME]] == list(rows)
    needed = {
        "name",
        "paper",
        "item",
        "statement",
        "kind",
        "measured",
        "bound",
        "relation",
        "verdict",
        "tolerance",
        "note",
    }
    assert all(set(entry) == needed for entry in bundle[MIME])


def test_table_shows_every_row_and_escapes_text():
    shown = verdict(
        row(statement="a < b & c <script>", note="<b>note</b>"), row(control, name="other", relation=">=", measured=0.5)
    )
    html = shown._repr_mimebundle_()["text/html"]
    assert "a &lt; b &amp; c &lt;script&gt;" in html
    assert "<script" not in html
    assert "<b>" not in html
    assert html.count("<tr") == 3
    assert 'class="reproduced"' in html
    assert 'class="control-fails-as-it-must"' in html
    assert "≥ 2" in html
    lines = repr(shown).splitlines()
    assert [line[0] for line in lines] == ["✓", "✓"]
    assert "reproduced" in lines[0]
    assert "Theorem 2: a < b & c <script>" in lines[0]


def test_verdict_without_rows():
    assert verdict()._repr_mimebundle_()[MIME] == []


@pytest.fixture
def glued(monkeypatch):
    """What a notebook glues, by key."""
    found = {}
    monkeypatch.setattr("IPython.get_ipython", lambda: "a notebook")
    monkeypatch.setattr("myst_nb.glue", lambda key, value, display: found.update({key: (value, display)}))
    return found


def test_prose_gets_plain_numbers_and_text_under_the_chapters_name(glued):
    tell("theorem-2", log_time=9.25, runs=torch.tensor([True, True]).sum(), found="two of five", **{"ℓ_1.1": 1})
    tell("theorem-2-at", ten=np.float64(0.5), end=torch.tensor(0.25))
    told = {"log-time": 9.25, "runs": 2, "found": "two of five", "ℓ-1.1": 1, "at-ten": 0.5, "at-end": 0.25}
    assert glued == {f"theorem-2-{name}": (value, False) for name, value in told.items()}
    kinds = [type(value) for value, _ in glued.values()]
    assert kinds == [float, int, str, int, float, float]


@pytest.mark.parametrize(
    "value",
    [math.nan, -math.inf, torch.tensor(math.nan), torch.ones(2), None, 1j, torch.tensor(1j), [1], ""],
)
def test_prose_that_would_show_no_number_is_refused(value, glued):
    with pytest.raises(ValueError, match=r"^theorem-2-log-time is .*: prose can only show one finite number or text$"):
        tell("theorem-2", first=1, log_time=value)
    assert glued == {}


def test_a_script_and_a_notebook_without_myst_nb_tell_nobody(capsys, monkeypatch):
    tell("theorem-2", log_time=9.25)
    assert not InteractiveShell.initialized()
    monkeypatch.setattr("IPython.get_ipython", lambda: "a notebook")
    monkeypatch.setitem(sys.modules, "myst_nb", None)
    tell("theorem-2", log_time=9.25)
    assert capsys.readouterr() == ("", "")
