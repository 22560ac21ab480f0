"""Statements by hypothesis: what the register says, what is refused, and what the page has of each."""

import json
import re
from pathlib import Path

import pytest
import yaml
from small_book import ROOT, collected, row

from workflow.book.catalogue import BookError
from workflow.book.ledger import by_place
from workflow.site.which_theorem import which_theorem

ABLATIONS = ("breaks the claim", "does not break the claim", "undecided")
REGISTER = {
    "papers": [
        {
            "arxiv": "2306.13596",
            "title": "Some paper",
            "short": "Paper",
            "items": [
                {
                    "item": "Theorem 1",
                    "title": "A | b",
                    "chapter": "part/good",
                    "needs": {"one-input": "part/good/two", "smooth": None},
                },
                {"item": "Figure 1", "title": "No hypotheses"},
            ],
        }
    ],
    "ours": [{"item": "A law", "title": "It holds", "chapter": "part/good", "needs": {"smooth": None}}],
    "questions": {
        "inputs": {"asks": "Inputs", "options": {"one": "one", "several": "two or more"}},
        "loss": {"asks": "Loss", "options": {"smooth": "smooth", "rough": "<rough>"}},
    },
    "hypotheses": {
        "one-input": {"about": "inputs", "holds": ["one"], "says": "There is one input"},
        "smooth": {"about": "loss", "holds": ["smooth"], "says": "The loss is smooth"},
    },
}


def written(change=lambda register: None):
    register = json.loads(json.dumps(REGISTER))
    change(register)
    Path("book/statements.yml").write_text(yaml.safe_dump(register))
    collected(row(), row("two", measured=2e-2, kind="ablation"), row("null", kind="baseline"))


def test_a_hypothesis_lists_who_needs_it_and_what_happens_without_it(inside):
    written()
    page = which_theorem()
    table, inputs, loss = re.split(r"^## (?:Inputs|Loss)$", page, flags=re.MULTILINE)
    assert table.count("<needs-smooth>") == 2
    assert table.count("<needs-one-input>") == 1
    assert "A \\| b" in table
    assert "Figure 1" not in page
    assert "(needs-one-input)=" in inputs
    assert "0.02; bound: at most 0.01" in inputs
    assert 'href="rows.html#good/two"' in inputs
    assert "breaks the claim" in inputs
    assert "No ablation drops it: {doc}`Theorem 1 <part/good>`, {doc}`A law <part/good>`." in loss


def test_the_script_gets_the_options_and_the_statements_in_the_order_of_the_table(inside):
    written()
    (data,) = re.findall(r'class="which-data">(.*)</script>', which_theorem())
    assert "<" not in data
    data = json.loads(data)
    assert data["questions"] == REGISTER["questions"]
    first, second = data["statements"]
    assert first[0] == {"about": "inputs", "holds": ["one"], "place": "needs-one-input", "dropped": ["good/two"]}
    assert [need["about"] for need in second] == ["loss"]


@pytest.mark.parametrize(
    ("verdicts", "stands"), [([], "not tested"), (["confirmed"], "confirmed"), (["confirmed", "refuted"], "in part")]
)
def test_a_statement_of_ours_stands_as_its_claims_do(inside, verdicts, stands):
    written()
    ours = [
        row(f"law-{k}") | {"paper": None, "item": "A law", "of": "book", "verdict": v} for k, v in enumerate(verdicts)
    ]
    collected(row(), row("two", measured=2e-2, kind="ablation"), *ours)
    (line,) = (line for line in which_theorem().splitlines() if "A law <part/good>` (ours)" in line)
    assert stands in line.split("|")[2]


@pytest.mark.parametrize("name", ["part/good/half", "part/good/null", "part/good/nowhere"])
def test_a_row_that_is_no_ablation_of_the_ledger_drops_nothing(inside, name):
    written(lambda register: register["papers"][0]["items"][0]["needs"].update({"one-input": ["part/good/two", name]}))
    with pytest.raises(BookError, match=f"Theorem 1 .* names {name}, which is no ablation"):
        which_theorem()


def test_a_hypothesis_without_words_or_with_an_unknown_option_is_refused(inside):
    written(lambda register: register["ours"][0]["needs"].update(linear=None))
    with pytest.raises(BookError, match=r"A law .* needs linear, which is not among"):
        which_theorem()
    written(lambda register: register["hypotheses"]["smooth"]["holds"].append("glassy"))
    with pytest.raises(BookError, match=r"smooth .* holds for glassy, no option of loss"):
        which_theorem()


class TestRegister:
    """The book's register itself."""

    register = yaml.safe_load((ROOT / "book/statements.yml").read_text("utf-8"))
    stated = [item for paper in register["papers"] for item in paper["items"]] + register["ours"]

    def test_every_row_that_drops_a_hypothesis_has_the_verdict_of_an_ablation(self):
        rows = by_place(json.loads((ROOT / "book/ledger.lock.json").read_text())["rows"].values())
        for item in self.stated:
            for name, drop in item.get("needs", {}).items():
                for dropped in [drop] if isinstance(drop, str) else drop or []:
                    assert rows[dropped]["verdict"] in ABLATIONS, (item["item"], name)

    def test_every_theorem_of_a_chapter_has_hypotheses(self):
        lacking = [item["item"] for item in self.stated if item.get("kind") == "theorem" and not item.get("needs")]
        assert lacking == ["Theorem 7"]  # Theorem 4 again

    def test_every_option_is_one_under_which_some_hypothesis_fails(self):
        for on, question in self.register["questions"].items():
            holds = [set(one["holds"]) for one in self.register["hypotheses"].values() if one["about"] == on]
            assert holds, on
            assert any(set(question["options"]) - options for options in holds), on

    @pytest.mark.parametrize(
        ("has", "item", "fails"),
        [
            ({"inputs": "several", "step": "gd"}, "Theorem 2", {"one-input-direction"}),
            ({"loss": "exponential", "step": "path", "scores": "distinct"}, "Theorem 1", set()),
            ({"loss": "flat", "step": "path"}, "Theorem 1", {"slope"}),
            ({"train": "factors", "step": "gd"}, "Factored keys and queries", set()),
            ({"train": "w", "step": "adam-epsilon"}, "Each optimiser its own margin", {"steepest-direction"}),
            ({"train": "w", "step": "ngd", "tokens": "other"}, "R1", {"orthogonal"}),
            ({"train": "w", "step": "ngd"}, "Theorem 2", {"prompt", "short-steps"}),
        ],
    )
    def test_what_one_has_fails_the_hypotheses_that_it_contradicts(self, has, item, fails):
        needs = next(one for one in self.stated if one["item"] == item and "needs" in one)["needs"]
        known = {name: self.register["hypotheses"][name] for name in needs}
        assert {
            name for name, one in known.items() if has.get(one["about"], one["holds"][0]) not in one["holds"]
        } == fails
