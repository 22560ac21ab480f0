"""Verdicts, refusals, and the data that travels in a notebook."""

import json
import math
import re
import sys

import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from lib.ledger import (
    HELD,
    MIME,
    OUTCOMES,
    VERDICTS,
    Row,
    number,
    show,
    source,
    tell,
    verdict,
)  # fmt: skip

HOLDS = {"<=": (1.0, 2.0), ">=": (2.0, 1.0), "==": (3.0, 3.0)}
FAILS = {"<=": (2.0, 1.0), ">=": (1.0, 2.0), "==": (3.0, 3.0000001)}
SENTENCE = "The loss is strictly decreasing."
BROKEN = {"breaks": "One input"}
CORRECTED = {"corrects": "Needs a slope below 0.", "quote": SENTENCE, "certified": True}


def row(kind="claim", measured=1.0, relation="<=", bound=2.0, name="direction", statement="it holds", **given):
    """A row of each kind, of the paper unless told otherwise."""
    given = {"paper": "2306.13596", "item": "Theorem 2", "set": "after", "of": "paper"} | given
    text = given.pop("source", "printed" if given["of"] == "paper" else None)
    about = {key: given.pop(key) for key in ("paper", "item")}
    theorem = source(*about.values(), text, set=given.pop("set"), scale=given.pop("scale", "exact"))
    if kind == "baseline":
        return theorem.baseline(name, statement, measured, **{key: given[key] for key in given if key != "of"})
    if given["of"] == "book" and text:
        given["source"] = text
    given = BROKEN | given if kind == "ablation" else given
    return getattr(theorem, kind)(name, statement, measured, relation, bound, **given)


KINDS = {
    "claim": ("claim", {}, ("reproduced", "not reproduced", "undecided")),
    "finding": ("claim", {"of": "book"}, ("confirmed", "refuted", "undecided")),
    "correction": ("claim", CORRECTED, ("corrected", "not reproduced", "undecided")),
    "explicit": ("claim", {"explicit": "Feasible."}, ("made explicit", "not reproduced", "undecided")),
    "smaller": (
        "claim", {"scale": "same data, smaller"}, ("seen in miniature", "not seen in miniature", "undecided"),
    ),
    "stand-in": ("claim", {"scale": "stand-in"}, ("seen in miniature", "not seen in miniature", "undecided")),
    "ablation": ("ablation", {}, ("does not break the claim", "breaks the claim", "undecided")),
    "our ablation": ("ablation", {"of": "book"}, ("does not break the claim", "breaks the claim", "undecided")),
}  # fmt: skip
kinds = pytest.mark.parametrize(("make", "extra", "outcomes"), KINDS.values(), ids=KINDS)


@pytest.mark.parametrize("relation", HOLDS)
@kinds
def test_verdict_of_a_number(make, extra, outcomes, relation):
    for numbers, expected in zip((HOLDS, FAILS), outcomes, strict=False):
        measured, bound = numbers[relation]
        outcome = row(make, measured, relation, bound, **extra)
        assert outcome.verdict == expected
        assert outcome.kind == make


@pytest.mark.parametrize(
    ("relation", "bound", "place"),
    [
        ("<=", 3.0, 0), ("<=", 2.9, 2), ("<=", 1.0, 2), ("<=", 0.9, 1),
        (">=", 1.0, 0), (">=", 1.1, 2), (">=", 3.0, 2), (">=", 3.1, 1),
        ("==", 2.0, 2), ("==", 0.9, 1), ("==", 3.1, 1),
    ],
)  # fmt: skip
@kinds
def test_verdict_of_an_interval(make, extra, outcomes, relation, bound, place):
    assert row(make, 2.0, relation, bound, interval=(1.0, 3.0), **extra).verdict == outcomes[place]


def test_every_verdict_has_a_sign():
    outcomes = {word for outcomes in OUTCOMES.values() for word in outcomes.values()}
    assert set(VERDICTS) == {"corrected", "made explicit", "undecided"} | outcomes
    assert {verdict for verdict, sign in VERDICTS.items() if sign == "✗"}.isdisjoint(HELD)


def test_a_correction_without_its_certificate_is_undecided():
    assert row(**CORRECTED | {"certified": False}).verdict == "undecided"
    assert row(measured=3.0, **CORRECTED | {"certified": False}).verdict == "not reproduced"


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (0, "0"), (40, "40"), (-3.0, "−3"), (12345.0, "12,345"), (0.001, "0.001"), (-0.0123456, "−0.0123"),
        (3.6e-5, "3.6 × 10⁻⁵"), (1e-9, "10⁻⁹"), (1.5e8, "1.5 × 10⁸"), (54321.5, "54,322"), (2.345, "2.35"),
    ],
)  # fmt: skip
def test_a_number_is_written_as_one_would_write_it(value, said):
    assert number(value) == said


def test_baseline_has_neither_bound_nor_verdict():
    outcome = row("baseline", 0.3, interval=(0.1, 0.5), note="Random tokens.")
    assert (outcome.kind, outcome.of, outcome.measured, outcome.interval) == ("baseline", "book", 0.3, (0.1, 0.5))
    for field in ("bound", "relation", "verdict", "set", "source", "scale"):
        assert getattr(outcome, field) is None


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, torch.tensor(math.nan), torch.ones(1), "1", None, 1j])
@pytest.mark.parametrize("what", ["measured", "bound", "interval"])
@pytest.mark.parametrize("make", ["claim", "ablation"])
def test_a_number_that_is_none_is_refused(make, what, value):
    if what == "interval":
        value = (0.0, value)
    with pytest.raises(ValueError, match=f"the {what}.* of 'direction' is .* one finite number"):
        row(make, **{what: value})


CONTRADICTIONS = [
    ({"relation": "<"}, "'direction' has relation='<': say one of '<=', '>=', '=='"),
    ({"paper": ""}, "the paper of 'direction' is ''"),
    ({"paper": None}, "'direction' is of a paper that it does not name"),
    ({"of": "authors"}, "'direction' has of='authors'"),
    ({"of": "book", "source": "printed"}, "'direction' has source='printed': leave it out"),
    ({"set": "later"}, "'direction' has set='later': say one of 'before', 'after'"),
    ({"interval": (0, 1, 2)}, "the interval of 'direction' is (0, 1, 2)"),
    ({"interval": (2.0, 3.0)}, "the interval of 'direction' goes from 2 to 3"),
    ({"statement": " \n"}, "the statement of 'direction' is ' \\n'"),
    ({"item": None}, "the item of 'direction' is None"),
    ({"corrects": "Needs B.", "certified": True}, "'direction' corrects a sentence that it does not quote"),
    ({"quote": SENTENCE}, "'direction' has a quote or a certificate, and corrects nothing"),
    (CORRECTED | {"source": "recalled"}, "'direction' corrects a sentence that no paper printed"),
    (CORRECTED | {"explicit": "Feasible."}, "'direction' corrects or makes explicit"),
    (CORRECTED | {"quote": "If [the loss] falls"}, "the quote of 'direction' has words in brackets"),
    (CORRECTED | {"certified": None}, "'direction' corrects without a certificate"),
    ({"kind": "ablation", "breaks": " "}, "'direction' drops is ' '"),
]


@pytest.mark.parametrize(("given", "named"), CONTRADICTIONS)
def test_a_row_that_contradicts_the_contract_is_refused(given, named):
    with pytest.raises(ValueError, match=re.escape(named)):
        row(**given)


def test_bundle_is_json_with_the_fields_of_the_ledger():
    rows = (
        row(measured=torch.tensor(1.2e-4), note="n", interval=(0, 1)),
        row("ablation", name="ablation", paper="2410.14581"),
        row("baseline", name="null"),
    )
    bundle = json.loads(json.dumps(verdict(*rows)._repr_mimebundle_(), allow_nan=False))
    assert set(bundle) == {"text/plain", "text/html", MIME}
    pairs = [
        {key: tuple(value) if isinstance(value, list) else value for key, value in e.items()} for e in bundle[MIME]
    ]
    assert [Row(**entry) for entry in pairs] == list(rows)


def test_table_shows_every_row_and_escapes_text():
    shown = verdict(
        row(statement="a < b & $c_1$ <script>", note="<b>note</b>", interval=(0.5, 1.25), source="recalled"),
        row("ablation", name="other", relation=">=", measured=0.5, breaks="x < y"),
        row("baseline", name="null"),
        row(name="quoted", **CORRECTED),
    )
    html = shown._repr_mimebundle_()["text/html"]
    assert 'a &lt; b &amp; <span class="math notranslate nohighlight">\\(c_1\\)</span> &lt;script&gt;' in html
    assert "<script" not in html
    assert "<b>" not in html
    assert html.count("<tr") == 5
    for part in (
        'class="reproduced"', 'class="breaks-the-claim"', 'class="baseline"', "at least 2", "0.5 to 1.25", "<td>–</td>",
        "Dropped: x &lt; y.", f"Printed: “{SENTENCE}” Needs a slope", "The paper&#x27;s words were not at hand.",
    ):  # fmt: skip
        assert part in html
    lines = repr(shown).splitlines()
    assert [line.split("  ")[0] for line in lines] == ["✓ reproduced", "breaks the claim", "baseline", "✎ corrected"]
    assert "Theorem 2: a < b & c_1 <script>" in lines[0]


def named(make, count):
    return [row(make, 1.5, name=f"{make}-{k}", statement=f"{make} {k} of them") for k in range(count)]


@pytest.mark.parametrize(("claims", "controls", "folded"), [(6, 4, 0), (7, 1, 2), (1, 6, 3)])
def test_six_claims_and_four_controls_are_open_and_the_rest_is_folded(claims, controls, folded):
    rows = [*named("ablation", controls), *named("claim", claims), row("baseline", name="null")]
    shown, _, more = verdict(*rows)._repr_mimebundle_()["text/html"].partition("<details")
    assert more.count("<tr class") == folded
    assert shown.count("<tr class") == len(rows) - folded
    for one in rows:
        limit = {"claim": 6, "ablation": 4, "baseline": 0 if folded else 1}[one.kind]
        number = int(one.name.rpartition("-")[2]) if "-" in one.name else 0
        assert (f": {one.statement} <" in shown) == (number < limit), one.name
    assert (f"{folded} more rows" in more) == bool(folded)


@pytest.fixture
def glued(monkeypatch):
    """What a notebook glues, by key."""
    found = {}
    plt.switch_backend("agg")  # which asks IPython for the notebook, before there is one
    monkeypatch.setattr("IPython.get_ipython", lambda: "a notebook")
    monkeypatch.setattr("myst_nb.glue", lambda key, value, display=True: found.update({key: (value, display)}))
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


def test_what_is_shown_goes_to_the_page_under_its_key_and_is_closed(glued):
    figure, table = plt.figure(), verdict(row())
    assert show("fig-theorem-2-offset", figure) is None
    assert show("tab-theorem-2-evidence", table) is None
    assert glued == {"fig-theorem-2-offset": (figure, True), "tab-theorem-2-evidence": (table, True)}
    assert plt.get_fignums() == []


def test_a_script_gets_what_it_would_show_and_a_downloaded_notebook_shows_it(monkeypatch):
    seen, table = [], verdict(row())
    assert show("tab-theorem-2-evidence", table) is table
    monkeypatch.setattr("IPython.get_ipython", lambda: "a notebook")
    monkeypatch.setattr("IPython.display.display", seen.append)
    monkeypatch.setitem(sys.modules, "myst_nb", None)
    assert show("tab-theorem-2-evidence", table) is None
    assert seen == [table]
