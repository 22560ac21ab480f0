"""A problem of one's own: lags against closed forms, runs against known limits, and what is refused."""

import json
import math
import re
import sys

import numpy as np
import pytest
import torch
from problems import refuses

from heads import claim_runs, claims, command
from heads.claim_command import NONE_STABLE, SOME, _ends, check, sections

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


def test_the_lag_is_that_of_the_closed_form(tmp_path):
    selected, lags = claims.stable_selections(claim(tmp_path, SHARED).problem)
    assert selected.tolist() == [[0, 0], [0, 1]]
    assert lags.tolist() == pytest.approx([math.inf, 6 / 4])


def test_what_takes_too_many_selections_is_said(tmp_path):
    keys = np.random.default_rng(0).normal(size=(10, 3, 4))
    assert claims.stable_selections(claim(tmp_path, {"keys": keys, "scores": keys[..., 0]}).problem) is None


def test_the_flow_of_theorem_2_ends_as_it_says_with_each_loss(tmp_path):
    answer = check(claim(tmp_path, ONE))
    (run,) = answer["runs"]
    assert run["best"]
    assert run["norms"]["l_2"]["share"] > 0.9999
    assert run["norms"]["l_2"]["degrees"] < 0.1
    assert run["maximises"] == ["l_2"]
    for loss in ("exponential", "correlation"):
        assert check(claim(tmp_path, ONE), loss)["runs"][0]["maximises"] == ["l_2"]


def test_flows_from_afar_stay_at_stable_tokens(tmp_path):
    answer = check(claim(tmp_path, SHARED))
    near, far = answer["runs"]
    assert far["selected"] == [0, 1]
    assert not far["best"]
    assert len(check(claim(tmp_path, ORTHOGONAL))["runs"]) == 1
    assert near["norms"]["l_2"]["share"] > 0.9999
    assert near["maximises"] == ["l_1", "l_2", "l_inf"]  # all their separators are this one


@pytest.mark.parametrize(("inputs", "others"), [(2, 3), (3, 7)])
def test_it_says_which_stable_tokens_no_flow_is_run_from(tmp_path, inputs, others):
    places = np.array([-5.0, 1, 0])  # the second token is ahead of the third, and the first far behind both
    keys = np.eye(inputs)[:, None] * places[:, None]
    answer = check(claim(tmp_path, {"keys": keys, "scores": np.tile([2.0, 1, 0], (inputs, 1))}))
    wrong = [one for one in answer["stable"] if one["tokens"] != answer["best"]["tokens"]]
    assert (len(wrong), len(answer["runs"]) - 1) == (others, min(others, claim_runs.TRIED))
    said = [line for _, lines in sections(answer) for line in lines]
    assert (SOME in said) == (others > claim_runs.TRIED)


def test_a_flow_at_a_finite_minimum_selects_nothing(tmp_path):
    trap = {"keys": [[[3.0], [0.6], [0.1], [0]]], "scores": [[1.0, 0, 0.9, 0]], "queries": [[3.0]], "start": [[-2.0]]}
    (run,) = check(claim(tmp_path, trap))["runs"]
    assert run["still"]
    assert run["norms"] == {}
    assert 0.7 < math.exp(-0.3 * run["length"]) < 0.8  # where the derivative of the mean score changes its sign


@pytest.mark.parametrize("start", [[[2e4], [2e4]], [[-2e4], [-2e4]]], ids=["on the best tokens", "on the worst"])
def test_a_flow_that_waits_beyond_its_log_time_selects_nothing(tmp_path, start):
    run = check(claim(tmp_path, SHARED | {"start": start}))["runs"][0]
    assert (run["still"], run["norms"]) == (True, {})


def test_a_flow_comes_to_rest_at_the_lowest_point_of_the_plane(tmp_path):
    numbers = np.random.default_rng(1)  # its best tokens cannot be separated; a plain solver is stopped by rounding
    mine = claim(tmp_path, {"keys": numbers.normal(size=(6, 5, 2)), "scores": numbers.normal(size=(6, 5))})
    run, other = check(mine, optimizer=["torch.optim.SGD", "lr=1.0"], steps=4000)["runs"][:2]
    assert run["rests"]
    assert run["norms"] == {}
    assert run["length"] == pytest.approx(other["length"], rel=1e-5)  # descent from zero ends there, too
    assert run["attention"] == pytest.approx(other["attention"], rel=1e-5)


def test_a_flow_that_waits_at_a_saturated_token_is_not_at_rest(tmp_path, monkeypatch):
    follow = claim_runs.log_time_flow

    def fails_late(problem, loss, start, times):
        if times[-1] > 20:
            raise RuntimeError("of whatever kind")
        return follow(problem, loss, start, times)

    monkeypatch.setattr(claim_runs, "log_time_flow", fails_late)
    run = check(claim(tmp_path, ONE | {"start": [-60.0, -30.0]}))["runs"][0]
    assert run["until"] == 20
    assert run["selected"] == [2]
    assert not run["rests"]


def test_a_flow_at_a_minimum_of_several_inputs_rests(tmp_path):
    trap = {"keys": [[[3.0], [0.6], [0.1], [0]]] * 2, "scores": [[1.0, 0, 0.9, 0]] * 2, "start": [-6.0]}
    answer = check(claim(tmp_path, trap))
    run = answer["runs"][0]
    assert run["attention"] < 0.6
    assert (run["norms"], run["maximises"]) == ({}, [])
    first = next(sections(answer))[1][0]
    assert "comes to rest at a finite point" in first


def test_of_a_flow_that_cannot_be_followed_the_report_says_so_and_goes_on(tmp_path, monkeypatch):
    def fails(*_):
        raise RuntimeError("rounding")

    monkeypatch.setattr(claim_runs, "log_time_flow", fails)
    answer = check(claim(tmp_path, SHARED), "logistic", ["test_claims.Sign", "lr=0.1"], 64)
    *flows, trained, _ = answer["runs"]
    assert all(run["stopped"] and not run["rests"] and not run["norms"] for run in flows)
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
    assert answer["best"]["separable"] is False
    assert "none puts tokens 1 of input 0, 2 of input 0 all behind them" in answer["best"]["why"]
    assert answer["stable"] == []
    assert dict(sections(answer))["Stable selections of tokens"] == [NONE_STABLE]


def test_sign_descent_maximises_the_margin_in_its_norm(tmp_path, capsys):
    path, out = written(tmp_path, ONE), tmp_path / "check.json"
    words = ["--optimizer", "test_claims.Sign", "lr=0.01", "--steps", "2000", "--out", str(out)]
    assert command.main(["check", str(path), *words]) == 0
    run = json.loads(out.read_text())["runs"][-1]
    assert run["maximises"] == ["l_inf"]
    assert run["norms"]["l_inf"]["share"] == pytest.approx(1.0, abs=1e-6)
    assert "maximises the margin in l_inf (100.0% of the best)." in capsys.readouterr().out


def test_an_optimiser_is_found_in_a_file_of_the_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.chdir(tmp_path)
    written(tmp_path, ONE)
    (tmp_path / "beside.py").write_text("import torch\n\n\nclass Mine(torch.optim.SGD):\n    pass\n")
    assert command.main(["check", "mine.npz", "--optimizer", "beside.Mine", "lr=0.1", "--steps", "16"]) == 0
    assert json.loads((tmp_path / "check.json").read_text())["runs"][-1]["name"].startswith("beside.Mine, lr=0.1")


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
        (ONE, ["--out", "it.py"], "it.py: end it in .json"),
        (ONE, ["--optimizer", "torch.optim.SGD", "lr=1", "lr=2"], "lr is given twice"),
        (ONE, ["--optimizer", ""], "'' names no class"),
        ({}, [], "has no keys and no scores: give"),
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
