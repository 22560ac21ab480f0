"""A problem of one's own: hypotheses against closed forms, runs against known limits, names against the register."""

import json
import math
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import yaml
from problems import refuses

from heads import claim_runs, claims, command
from heads.claim_command import NONE_STABLE, _ends, check, sections

REGISTER = yaml.safe_load((Path(__file__).parents[2] / "book/statements.yml").read_text("utf-8"))
SHARED = {  # two inputs of two tokens with one query; differences (2, 0) and (-3, 1), gamma = 6 > 4: one wrong choice
    "keys": [[[2.0, 0], [0, 0]], [[-3, 1], [0, 0]]],
    "scores": [[1.0, 0], [1, 0]],
    "queries": [[1.0], [1.0]],
}
ORTHOGONAL = SHARED | {"keys": [[[2.0, 0, 0], [0, 0, 0]], [[0, 1, 0], [0, 0, 0]]]}
ONE = {"keys": [[[1.0, 0.5], [0, 0], [-1, -0.5]]], "scores": [[1.0, 0, 0]]}


class Sign(torch.optim.Optimizer):
    """Sign descent, whose norm is known."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        """Take a step."""
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * p.grad.sign())


def written(folder, arrays):
    np.savez(folder / "mine.npz", **arrays)
    return folder / "mine.npz"


def claim(folder, arrays):
    return claims.read_claim(written(folder, arrays))


def facts(folder, arrays):
    mine = claim(folder, arrays)
    stable = claims.stable_selections(mine.problem)
    return {name: fact.holds for name, fact in claims.hypotheses(mine, stable and stable[0]).items()}


def test_names_and_needs_are_those_of_the_register():
    items = [item for paper in REGISTER["papers"] for item in paper["items"]] + REGISTER["ours"]
    for name, statement in claims.STATEMENTS.items():
        item = next(item for item in items if item["item"] == name and "needs" in item)
        steps = {need for need in item["needs"] if REGISTER["hypotheses"][need]["about"] == "step"}
        assert {*item["needs"]} - steps - {*claims.ALWAYS} == {*statement.needs}, name
        assert all("flow" in REGISTER["hypotheses"][need]["holds"] for need in steps), name
        assert item["chapter"] == statement.chapter


def test_hypotheses_of_two_inputs_that_pull_apart_and_of_two_that_do_not(tmp_path):
    apart = facts(tmp_path, SHARED)
    assert apart["feasible"]
    assert apart["two-by-two"]
    assert apart["prompt"]
    assert not apart["none-stable"]
    assert facts(tmp_path, ORTHOGONAL)["none-stable"]
    assert facts(tmp_path, SHARED | {"queries": [[1.0], [2.0]]})["prompt"] is False


def test_the_lag_is_that_of_the_closed_form(tmp_path):
    selected, lags = claims.stable_selections(claim(tmp_path, SHARED).problem)
    assert selected.tolist() == [[0, 0], [0, 1]]
    assert lags.tolist() == pytest.approx([math.inf, 6 / 4])


@pytest.mark.parametrize(
    ("scores", "one_best", "equal"),
    [([[2.0, 1, 1]], True, True), ([[2.0, 1, 0]], True, False), ([[2.0, 2, 0]], False, False)],
)
def test_scores(tmp_path, scores, one_best, equal):
    known = facts(tmp_path, ONE | {"scores": scores})
    assert (known["one-best"], known["equal-scores"]) == (one_best, equal)


def test_what_takes_too_many_selections_is_open(tmp_path):
    keys = np.random.default_rng(0).normal(size=(10, 3, 4))
    assert facts(tmp_path, {"keys": keys, "scores": keys[..., 0]})["none-stable"] is None


def test_the_flow_of_theorem_2_ends_as_it_says_with_each_loss(tmp_path):
    answer = check(claim(tmp_path, ONE))
    (run,) = answer["runs"]
    assert run["best"]
    assert run["norms"]["l_2"]["share"] > 0.9999
    assert run["norms"]["l_2"]["degrees"] < 0.1
    assert run["maximises"] == ["l_2"]
    said = {one["name"]: one["agrees"] for one in run["statements"] if not one["lacks"]}
    assert said["Theorem 2"] is True
    for loss in ("exponential", "correlation"):
        assert check(claim(tmp_path, ONE), loss)["runs"][0]["maximises"] == ["l_2"]


def test_flows_from_afar_stay_at_stable_tokens_and_no_theorem_promises_the_best(tmp_path):
    answer = check(claim(tmp_path, SHARED))
    near, far = answer["runs"]
    assert far["selected"] == [0, 1]
    assert not far["best"]
    lacks = next(one["lacks"] for one in far["statements"] if one["name"] == "Two inputs of two tokens")
    assert lacks == ["none-stable"]
    assert len(check(claim(tmp_path, ORTHOGONAL))["runs"]) == 1
    assert near["norms"]["l_2"]["share"] > 0.9999
    assert near["maximises"] == ["l_1", "l_2", "l_inf"]  # all their separators are this one


def test_a_flow_at_a_finite_minimum_selects_nothing(tmp_path):
    trap = {"keys": [[[3.0], [0.6], [0.1], [0]]], "scores": [[1.0, 0, 0.9, 0]], "queries": [[3.0]], "start": [[-2.0]]}
    (run,) = check(claim(tmp_path, trap))["runs"]
    assert run["still"]
    assert run["norms"] == {}
    assert 0.7 < math.exp(-0.3 * run["length"]) < 0.8  # where the derivative of the mean score changes its sign


@pytest.mark.parametrize("start", [[[2e4], [2e4]], [[-2e4], [-2e4]]], ids=["on the best tokens", "on the worst"])
def test_a_flow_that_waits_beyond_its_log_time_refutes_nothing(tmp_path, start):
    run = check(claim(tmp_path, SHARED | {"start": start}))["runs"][0]
    assert run["still"]
    assert not any(one["agrees"] is False for one in run["statements"])


def test_a_flow_that_selects_nothing_confirms_no_statement(tmp_path):
    trap = {"keys": [[[3.0], [0.6], [0.1], [0]]] * 2, "scores": [[1.0, 0, 0.9, 0]] * 2, "start": [-6.0]}
    answer = check(claim(tmp_path, trap))
    run = answer["runs"][0]
    assert run["attention"] < 0.6
    assert (run["norms"], run["maximises"]) == ({}, [])
    assert not any(one["agrees"] for one in run["statements"])
    first = next(sections(answer))[1][0]
    assert "could not be followed beyond" in first or "stands still" in first


def test_of_a_flow_that_cannot_be_followed_the_report_says_so_and_goes_on(tmp_path, monkeypatch):
    def fails(*_):
        raise RuntimeError("rounding")

    monkeypatch.setattr(claim_runs, "log_time_flow", fails)
    answer = check(claim(tmp_path, SHARED), "logistic", ["test_claims.Sign", "lr=0.1"], 64)
    *flows, trained, _ = answer["runs"]
    assert all(run["stopped"] == "rounding" and not run["norms"] for run in flows)
    assert trained["norms"]
    assert "could not be followed" in next(sections(answer))[1][0]


def test_a_run_with_the_direction_of_its_start_tells_no_norm(tmp_path):
    mine = claim(tmp_path, SHARED | {"start": [[8.0], [8.0]]})
    for words, turned in ((["torch.optim.SGD", "lr=0.5"], False), (["test_claims.Sign", "lr=1.0"], True)):
        run = check(mine, "logistic", words, 64)["runs"][-1]
        assert run["turned"] is turned
        assert bool(run["maximises"]) is turned


def test_what_nothing_separates_has_a_certificate_of_tokens(tmp_path):
    mine = claim(tmp_path, {"keys": [[[1.0], [0], [2]]], "scores": [[1.0, 0, 0]]})
    answer = check(mine)
    fact = answer["hypotheses"]["feasible"]
    assert fact["holds"] is False
    assert "behind them cannot all be tokens 1 of input 0, 2 of input 0" in fact["why"]
    assert answer["stable"] == []
    assert dict(sections(answer))["Stable selections of tokens"] == [NONE_STABLE]


def test_sign_descent_maximises_the_margin_in_its_norm(tmp_path, capsys):
    path, out = written(tmp_path, ONE), tmp_path / "check.json"
    words = ["--optimizer", "test_claims.Sign", "lr=0.01", "--steps", "2000", "--out", str(out)]
    assert command.main(["check", str(path), *words]) == 0
    run = json.loads(out.read_text())["runs"][-1]
    assert (run["maximises"], run["statements"]) == (["l_inf"], [])
    assert run["norms"]["l_inf"]["share"] == pytest.approx(1.0, abs=1e-6)
    said = capsys.readouterr().out
    assert "maximises the margin in l_inf (100.0% of the best)." in said
    assert "Theorem 3 does not apply: in-cone" in said or "Theorem 3 does not apply: locally-optimal, in-cone" in said


def test_an_optimiser_is_found_in_a_file_of_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    written(tmp_path, ONE)
    (tmp_path / "beside.py").write_text("import torch\n\n\nclass Mine(torch.optim.SGD):\n    pass\n")
    assert command.main(["check", "mine.npz", "--optimizer", "beside.Mine", "lr=0.1", "--steps", "16"]) == 0
    assert json.loads((tmp_path / "check.json").read_text())["runs"][-1]["name"].startswith("beside.Mine, lr=0.1")


def test_two_best_tokens_that_tie_are_no_case_for_a_margin_of_ones_own(tmp_path):
    tied = {"keys": [[[1.0, 0.5], [0, 0], [-1, 0.4]], [[0.3, 1], [0.2, -1], [-1, -0.5]]],
            "scores": [[1.0, 1, 0], [1, 0, 0.5]], "queries": [[1.0, 0], [0.3, 1]]}  # fmt: skip
    for scores in (tied["scores"], [[1.0, 0.9, 0], [1, 0, 0.5]]):
        answer = check(claim(tmp_path, tied | {"scores": scores}))
        own = {one["name"]: one for one in answer["runs"][0]["statements"]}["Each optimiser its own margin"]
        ties = scores is tied["scores"]
        assert own["lacks"] == (["one-best"] if ties else [])
        assert own["agrees"] is (None if ties else True)


def test_long_steps_are_said(tmp_path):
    mine = claim(tmp_path, ORTHOGONAL)
    short, long = (
        [*check(mine, optimizer=["test_claims.Sign", f"lr={lr}"], steps=200)["runs"]][-1] for lr in (0.1, 10)
    )
    assert short["change"] <= 0.2 + 1e-12 < 20 - 1e-12 <= long["change"]  # lr times the l_1 norm of the longest row, 2
    said = [" ".join(_ends(run)) for run in (short, long)]
    assert ["Its steps are long" in text for text in said] == [False, True]


@pytest.mark.parametrize(
    ("arrays", "words", "sentence"),
    [
        ({"keys": ONE["keys"]}, [], "has no scores, but keys: give keys .* and scores"),
        ({"scores": ONE["scores"]}, [], "has no keys, but scores"),
        (ONE | {"scores": [1.0, 0]}, [], r"scores of .* have shape \(2,\): give keys"),
        (ONE | {"values": [1]}, [], "has values, which is not known"),
        (ONE | {"scores": [[1.0, 0]]}, [], "one key and one score"),
        (ONE | {"keys": [[1.0, 0]]}, [], r"keys of .* have shape \(1, 2\)"),
        (ONE | {"keys": [[[1.0, math.nan], [0, 0], [0, 1]]]}, [], "finite"),
        (ONE | {"keys": [[[1.0, 0.5]] * 3]}, [], "are the same for all tokens of an input, so nothing is chosen"),
        (ONE | {"start": [1.0, 0, 0]}, [], r"start of .* has shape \(3,\): give \(d,\) without queries, \(2,\)"),
        (SHARED | {"start": [[1.0, 0]]}, [], r"start of .* has shape \(1, 2\): give \(d, e\) with queries, \(2, 1\)"),
        (ONE | {"start": [1.0, math.nan]}, [], "start has the entry nan"),
        (ONE, ["--optimizer", "torch.optim.Nothing"], r"torch.optim has no Nothing: .* give mine\.Nothing"),
        (ONE, ["--optimizer", "nowhere.Nothing"], "cannot be imported"),
        (ONE, ["--optimizer", "torch.optim.SGD", "lr=abc"], "lr=abc is no number"),
        (ONE, ["--optimizer", "torch.optim.Adam", "betas=abc"], "betas=abc is no number"),
        (ONE, ["--optimizer", "torch.optim.SGD", "lr"], "is no parameter"),
        (ONE, ["--optimizer", "torch.optim.SGD", "lr=1e300", "--steps", "16"], "diverges"),
        (ONE, ["--optimizer", "test_claims.Sign", "lr=1.0", "--steps", "2"], "steps"),
        (ONE, ["--out", "nowhere/it.html"], "nowhere is no folder"),
    ],
)
def test_bad_input_gets_one_sentence(tmp_path, arrays, words, sentence, capsys):
    out = tmp_path / "check.json"
    assert (
        command.main(
            ["check", str(written(tmp_path, arrays)), *([] if "--out" in words else ["--out", str(out)]), *words]
        )
        == 1
    )
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert re.search(sentence, said), said
    assert not out.exists()


def test_sizes_are_bounded_before_anything_is_made(tmp_path):
    keys, scores = np.eye(2)[None], np.array([[1.0, 0]])
    wide = {"keys": np.ones((2, 2, 4096)), "scores": np.eye(2), "queries": np.ones((2, 4096))}
    spoilt = [(wide, "has 16,777,216 entries: give keys"), ({"keys": keys, "scores": [[1, 1]]}, "scores of input 0 of")]
    for shape in ((2, 1, 3), (0, 2, 3), (2, 2, 0)):
        said = f"have shape {shape}: give two tokens an input or more"
        spoilt.append(({"keys": np.ones(shape), "scores": np.ones(shape[:2])}, said))
    for name, arrays in (("keys", {"keys": 1e200 * keys, "scores": scores}),
                         ("keys", {"keys": 1e-200 * keys, "scores": scores}),
                         ("scores", {"keys": keys, "scores": 1e300 * scores})):  # fmt: skip
        spoilt.append((arrays, f"{name} of {tmp_path / 'mine.npz'} reach 1e"))
    for arrays, sentence in spoilt:
        refuses(lambda arrays=arrays: claim(tmp_path, arrays), sentence)
    (tmp_path / "notes.txt").write_text("keys")
    refuses(lambda: claims.read_claim(tmp_path / "notes.txt"), "is no npz or safetensors: save keys (n, T, d)")
