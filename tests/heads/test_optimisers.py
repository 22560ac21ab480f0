"""The norm that an optimiser maximises is known for steepest descents; bad input is refused in one sentence."""

import json
import math
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest
import torch
from problems import refuses

from heads import command, optimiser_command, optimisers, training
from heads.optimiser_command import optimiser_maker
from heads.optimisers import NORMS, clear_problems, leading_norm, optimiser_margins
from lib.geometry import dual, norm
from lib.problem import Problem, difference_rows
from lib.separators import hard_margin
from lib.steepest import steepest_direction

ROOT = Path(__file__).parents[2]
PROBLEM = clear_problems(2, seed=3)
ROWS = difference_rows(PROBLEM, PROBLEM.scores.argmax(-1))
FEW = {name: NORMS[name] for name in ("l_1", "l_2", "l_inf", "spectral", "nuclear")}


class Steepest(torch.optim.Optimizer):
    """Steepest descent in a norm, whose limit is known."""

    def __init__(self, params, order, lr):
        super().__init__(params, {"lr": lr})
        self.order = order

    @torch.no_grad()
    def step(self):
        """Take the step of length lr that lowers the objective most."""
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(group["lr"] * steepest_direction(p.grad.flatten(), self.order, tuple(p.shape)).view_as(p))


def short_step(order, shape=(4, 4)):
    return 0.5 / norm(ROWS, dual(order), shape).amax().item()


@pytest.mark.parametrize("name", FEW)
def test_steepest_descent_maximises_its_norm(name):
    make = partial(Steepest, order=NORMS[name], lr=short_step(NORMS[name]))
    margins = optimiser_margins(make, PROBLEM, 3000, norms=FEW)
    assert (margins.norm, margins.maximised) == (name, True)
    assert margins.shares.amax() <= 1 + 1e-6
    assert margins.gaps.abs().amax() <= optimisers.GAP
    assert torch.equal(margins.selected, PROBLEM.scores.argmax(-1))
    assert 0 < margins.change <= 0.5 + 1e-9
    assert (margins.leads[-1] > margins.leads[0]).all()


def test_a_share_is_the_margin_over_the_norm_over_the_best_such_quotient():
    trained = []

    def make(parameters):
        trained.extend(parameters := list(parameters))
        return torch.optim.SGD(parameters, lr=1e-3)

    margins = optimiser_margins(make, PROBLEM, 64, norms=FEW, until_settled=False)
    theta = torch.stack([one.detach().flatten() for one in trained[-2:]])
    best = 1 / norm(hard_margin(ROWS, math.inf).theta, math.inf)
    share = torch.einsum("bmd,bd->bm", ROWS, theta).amin(-1) / theta.abs().amax(-1) / best
    assert margins.times[-1] == 64
    torch.testing.assert_close(margins.shares[-1, 2], share)


def test_the_gradient_is_that_of_the_log_of_the_excess_risk():
    best = PROBLEM.scores.argmax(-1)
    theta = 2.0 * torch.randn(2, 16, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 100
    theta.requires_grad_()
    attention = torch.einsum("bntd,bde,bne->bnt", PROBLEM.keys, theta.unflatten(-1, (4, 4)), PROBLEM.queries).softmax(
        -1
    )
    losses = torch.nn.functional.softplus(-(attention * PROBLEM.scores).sum(-1))
    excess = (losses - torch.nn.functional.softplus(-PROBLEM.scores.amax(-1))).mean(-1)
    (wanted,) = torch.autograd.grad(excess.log().sum(), theta, retain_graph=True)
    (plain,) = torch.autograd.grad(losses.mean(-1).sum(), theta, retain_graph=True)
    at = theta.detach()
    torch.testing.assert_close(training.gradient_of(PROBLEM, best, False, True)(at, 0), wanted)
    torch.testing.assert_close(training.gradient_of(PROBLEM, best, False, False)(at, 0), plain)
    single = training.gradient_of(PROBLEM, best, True, True)
    torch.testing.assert_close(torch.stack([single(at, k) for k in range(3)]).mean(0), wanted)


def test_keys_and_queries_under_plain_descent_end_at_the_nuclear_norm():
    margins = optimiser_margins(partial(Steepest, order=2.0, lr=0.1), PROBLEM, 4000, factored=True, norms=FEW)
    assert margins.norm == "nuclear"


def test_one_input_a_step_is_a_loss_to_sign_descent():
    make = partial(Steepest, order=math.inf, lr=short_step(math.inf))
    assert optimiser_margins(make, PROBLEM, 2000, one_input=True, norms=FEW).norm is None


def test_the_global_generator_is_left_as_it_was():
    before = torch.random.get_rng_state()
    optimiser_margins(partial(torch.optim.SGD, lr=1e-3), PROBLEM, 8, one_input=True, norms={"l_2": 2.0})
    assert torch.equal(torch.random.get_rng_state(), before)


def test_a_norm_needs_a_large_share_that_is_the_largest_on_most_problems():
    high, low = torch.tensor([0.97, 0.96, 0.96, 0.96]), torch.tensor([0.8, 0.8, 0.8, 0.8])
    assert leading_norm(torch.stack([low, high]), ["a", "b"]) == ("b", True)
    assert leading_norm(torch.stack([low, high - 0.05]), ["a", "b"]) == ("b", False)
    assert leading_norm(torch.stack([low, high - 0.1]), ["a", "b"]) == (None, False)
    split = torch.tensor([0.99, 0.99, 0.9, 0.9])
    assert leading_norm(torch.stack([split, high]), ["a", "b"]) == (None, False)


def test_a_norm_in_whose_ball_the_start_was_near_the_best_margin_needs_half_of_the_rest():
    end = torch.tensor([[0.8, 0.8], [0.96, 0.96]])
    assert leading_norm(end, ["a", "b"], end - 0.1) == ("b", True)
    assert leading_norm(end, ["a", "b"], end - 0.01) == (None, False)


class Averaging(torch.optim.SGD):
    """Its weights in evaluation are twice those in training."""

    def train(self):
        self._scale(0.5 if getattr(self, "doubled", False) else 1.0)
        self.doubled = False

    def eval(self):
        self._scale(2.0)
        self.doubled = True

    def _scale(self, factor):
        for group in self.param_groups:
            for p in group["params"]:
                p.data.mul_(factor)


def test_weights_are_those_of_evaluation_where_an_optimiser_has_two():
    plain, doubled = (
        optimiser_margins(partial(kind, lr=1e-4), PROBLEM, 16, norms={"l_2": 2.0}, until_settled=False)
        for kind in (torch.optim.SGD, Averaging)
    )
    torch.testing.assert_close(doubled.leads, 2 * plain.leads)


class Complex(torch.optim.SGD):
    def step(self):
        super().step()
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p]["spectrum"] = torch.fft.fft2(p.detach())


def parallel():
    """Two inputs with the same tokens and query, which want different ones."""
    keys = torch.eye(2, dtype=torch.float64).expand(1, 2, 2, 2)
    return Problem(keys, torch.tensor([[[1.0, 0], [0, 1]]]).double(), torch.ones(1, 2, 2, dtype=torch.float64))


REFUSED = {
    "closure": (partial(torch.optim.LBFGS, lr=1.0), {}, "without a closure"),
    "sparse": (partial(torch.optim.SparseAdam, lr=1.0), {}, "SparseAdam fails at step 1"),
    "complex": (partial(Complex, lr=1e-4), {}, "has complex states"),
    "no optimiser": (list, {}, r"is no torch.optim.Optimizer"),
    "cannot be made": (partial(torch.optim.Adam, lr=-1.0), {}, r"cannot be made \(Invalid learning rate"),
    "not separable": (partial(torch.optim.SGD, lr=1e-3), {"problem": parallel()}, "no W separates the best tokens"),
    "diverge": (partial(torch.optim.SGD, lr=1e200), {}, "diverge at step 1"),
    "too far": (partial(torch.optim.SGD, lr=1e10), {}, "stand still"),
    "no steps": (partial(torch.optim.SGD, lr=0.0), {}, "never move: take a larger"),
    "prompt": (partial(torch.optim.SGD, lr=1e-3), {"problem": Problem(PROBLEM.keys, PROBLEM.scores)}, "with queries"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_told_is_refused(case):
    make, options, sentence = REFUSED[case]
    with pytest.raises((ValueError, FloatingPointError), match=sentence):
        optimiser_margins(make, **({"problem": PROBLEM} | options), steps=16, norms=FEW)


def test_problems_that_are_never_clear_are_refused():
    with pytest.raises(ValueError, match="0 of 20 problems with 30 inputs"):
        clear_problems(1, inputs=30)


def test_the_command_writes_what_it_says(tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "mine", sys.modules[__name__])
    out = tmp_path / "sgd.json"
    words = ["optimizer", "mine.Averaging", "lr=1e-4", "momentum=0.5", "--steps", "400", "--problems", "2"]
    assert command.main([*words, "--out", str(out)]) == 0
    said, facts = capsys.readouterr().out, json.loads(out.read_text())
    assert facts["parameters"] == {"lr": 1e-4, "momentum": 0.5}
    medians = torch.tensor(facts["shares"])[-1].quantile(0.5, -1)
    for name, median in zip(facts["norms"], medians.tolist(), strict=True):
        assert f"{name:<10}{median:>24.3f}" in said
    assert f"on {len(facts['shares'][0][0])} problems" in said


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["torch.optim.Nothing"], "torch.optim has no Nothing: give the full name"),
        (
            ["Lion"],
            "torch.optim has no Lion: give the full name of a class, such as torch.optim",
        ),
        (["nowhere.Lion"], "nowhere cannot be imported (No module named 'nowhere'): give the full name"),
        (["torch.optim.SGD", "lr=abc"], "lr=abc is no number: write lr=1e-3"),
        (["torch.optim.Adam", "betas=a,b"], "betas=a,b is no number"),
        (["torch.optim.SGD", "lr="], "lr= has no value: write lr=1e-3"),
        (["torch.optim.Adam", "betas=.9"], "betas=0.9 needs 2 values: write betas=0.9,0.999"),
        (["torch.nn.Linear"], "no class of optimisers"),
        (["torch.optim.SGD", "learning_rate=1"], "has no parameter 'learning_rate': it has lr, momentum"),
        (["torch.optim.SGD", "lr"], "'lr' is no parameter"),
        (["torch.optim.SGD", "--out", "nowhere/it.png"], "nowhere is no folder"),
        (["torch.optim.SGD", "--out", "it.py"], "it.py: end it in .json"),
        (["torch.optim.SGD", "lr=1", "lr=2"], "lr is given twice"),
        ([""], "'' names no class"),
    ],
)
def test_the_command_refuses_in_one_line(words, sentence, capsys):
    assert command.main(["optimizer", *words, "--steps", "16", "--problems", "1"]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_steps_that_are_too_short_to_tell_maximise_nothing_and_settle_nothing(tmp_path, capsys):
    words = ["optimizer", "torch.optim.SGD", "lr=1e-2", "--plain-risk", "--steps", "400", "--problems", "1"]
    assert command.main([*words, "--out", str(tmp_path / "x.json")]) == 0
    said = capsys.readouterr().out
    assert "for 400 steps" in said
    assert "moved too little to tell" in said
    assert "settled" not in said
    assert "maximises" not in said


@pytest.mark.parametrize(("momentum", "runs_away"), [(2, True), (0.5, False)])
def test_momentum_that_runs_away_is_said(momentum, runs_away, tmp_path, capsys):
    words = ["optimizer", "torch.optim.SGD", "lr=0.1", f"momentum={momentum}", "--steps", "100", "--problems", "1"]
    assert command.main([*words, "--out", str(tmp_path / "x.json")]) == 0
    change = json.loads((tmp_path / "x.json").read_text("utf-8"))["change"]
    assert (change > optimiser_command.RUNAWAY, "less momentum" in capsys.readouterr().out) == (runs_away, runs_away)


def test_a_closed_output_is_one_sentence(tmp_path):
    words = ["optimizer", "torch.optim.SGD", "lr=1", "--steps", "16", "--problems", "1", "--out", "x.json"]
    run = subprocess.Popen(
        [sys.executable, "-m", "heads.command", *words], cwd=tmp_path, env=os.environ | {"PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    run.stdout.close()  # as head does when it has read enough
    _, said = run.communicate(timeout=300)
    assert run.returncode == 1
    assert said.splitlines()[-1] == "standard output was closed before all lines were written"
    assert "Error" not in said
    assert (tmp_path / "x.json").exists()


def test_a_maker_has_the_options_that_it_was_given():
    optimiser = optimiser_maker("torch.optim.AdamW", {"betas": (0.8, 0.9)})([torch.nn.Parameter(torch.zeros(1))])
    assert optimiser.param_groups[0]["betas"] == (0.8, 0.9)


class Climber(torch.optim.SGD):
    """Takes its steps the wrong way."""

    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.grad.neg_()
        super().step()


def test_an_optimiser_that_climbs_is_said_to_end_on_wrong_tokens():
    margins = optimiser_margins(partial(Climber, lr=0.05), PROBLEM, steps=400, norms=FEW)
    assert margins.wrong == 2
    said = optimiser_command.conclusions(margins)
    assert said[0].startswith("It ends on tokens that are not the best ones in 2 of 2 problems")


def test_maximize_is_refused():
    refuses(lambda: optimiser_margins(partial(torch.optim.Adam, maximize=True), PROBLEM), "maximize=True, so it climbs")


class Exits(torch.optim.SGD):
    def step(self):
        raise SystemExit(0)


class Casts(torch.optim.SGD):
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.data = p.data.float()


def test_what_else_an_optimiser_may_do_is_refused():
    refuses(lambda: optimiser_margins(partial(Exits, lr=1.0), PROBLEM), "fails at step 1")
    refuses(lambda: optimiser_margins(partial(Casts, lr=1.0), PROBLEM), "changes the weights' type: they have to stay")
