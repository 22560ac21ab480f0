"""The atlas of optimisers: predictions for every run, one rule for step sizes, refusals kept as results."""

from pathlib import Path

import pytest
import torch

from heads.optimisers import NORMS, clear_problems, optimiser_margins
from lib.selection import optimal_tokens
from studies import archives, optimisers
from workflow.book.catalogue import json_of

RECORDED = Path(__file__).parents[2] / "book/recorded/optimisers"


def test_every_run_has_a_prediction():
    said = {optimisers.predicted(run.settings) for run in optimisers.plan().values()}
    assert said <= {*NORMS, "none", "refused"}


def test_recorded_runs_are_those_of_the_plan():
    plan, runs = optimisers.plan(), archives.recorded("optimisers", RECORDED.parent)
    assert {name: run["settings"] for name, run in runs.items()} == {name: plan[name].settings for name in runs}
    commits = {json_of(path)["commit"] for path in RECORDED.glob("*.json")}
    assert len(commits) == 1  # that of the predictions


def test_the_step_size_is_the_largest_that_keeps_to_the_rule(monkeypatch):
    monkeypatch.setattr(optimisers, "TRIED", 100)
    monkeypatch.setattr(optimisers, "GRID", [100.0, 10.0, 1.0, 0.1])
    rate = optimisers.step_size("torch.optim.SGD")
    problem, changes = clear_problems(1, optimisers.TUNING), []
    for factor in (1.0, 10.0):
        make = optimisers.maker("torch.optim.SGD", factor * rate)
        tried = optimiser_margins(make, problem, 100, norms={"l_2": 2.0}, until_settled=False)
        changes.append(tried.change)
        assert factor > 1 or torch.equal(tried.selected, optimal_tokens(problem))
    assert changes[0] <= optimisers.CHANGE < changes[1]


def test_weight_decay_is_switched_off():
    (group,) = optimisers.maker("torch.optim.AdamW", 0.1)([torch.nn.Parameter(torch.zeros(1))]).param_groups
    assert (group["lr"], group["weight_decay"]) == (0.1, 0.0)


@pytest.mark.parametrize("name", ["LBFGS", "SparseAdam"])
def test_an_optimiser_that_cannot_be_tested_is_recorded_with_the_reason(name):
    settings, found = optimisers.make("optimisers", optimisers.plan()[name], {})
    assert settings["optimiser"] == f"torch.optim.{name}"
    assert optimisers.measured(found) == optimisers.predicted(settings) == "refused"
    assert name in found["refused"]


def test_problems_of_several_seeds_make_one_batch():
    parts = [clear_problems(2, seed) for seed in (0, 1)]
    whole = optimisers.together(parts)
    assert torch.equal(whole.keys, torch.cat([part.keys for part in parts]))
    assert whole.batch_shape == (4,)
