"""The arithmetic of the scene of *In ten minutes*, against the library."""

import re

import javascript
import pytest
import torch
from javascript import PROGRAM

from lib.descent import polyak, run
from lib.geometry import norm, one_minus_cosine
from lib.losses import by_name
from lib.problem import Problem
from lib.separators import hard_margin
from workflow.book.catalogue import yaml_of

PAGE = (javascript.SOURCES.parents[1] / "in-ten-minutes.md").read_text("utf-8")
STEP = re.compile(r"^\(story-(\w+)\)=\n## .*\n\n([\s\S]+?)\n\{\.story-try\}", re.MULTILINE)
STATE = yaml_of(javascript.SOURCES.parents[1] / "story.yml")["scene"]
PROBLEM = Problem(torch.tensor([STATE["keys"]]).double(), torch.tensor([STATE["scores"]]).double())
NORMS = {"gradient": 2.0, "signs": float("inf"), "products": 1.0}

needs_script = pytest.mark.skipif(not javascript.engines(), reason="no node and no chromium on this machine")


@pytest.mark.parametrize(("name", "prose"), STEP.findall(PAGE))
def test_a_step_is_read_in_a_quarter_of_a_minute(name, prose):
    read = re.sub(r"^:::.*$|`[^`]*`", "", prose, flags=re.MULTILINE)
    assert 20 < len(read.split()) <= 60, name


@needs_script
def test_polyak_s_steps_are_the_library_s_for_as_long_as_the_scene_runs():
    ask = "({ keys, scores }) => [...engineModule.polyak({ keys: [keys], scores: [scores] }, 1000)]"
    steps = javascript.call(PROGRAM, ask, STATE)
    loss = by_name("logistic")
    path = run(PROBLEM, loss, torch.zeros(2).double(), polyak(PROBLEM, loss, [0]), 1000).theta
    torch.testing.assert_close(torch.tensor(steps).double().reshape(-1, 2), path, rtol=1e-6, atol=1e-9)


@needs_script
@pytest.mark.parametrize("rule", NORMS)
def test_the_limit_of_each_optimiser_is_the_separator_of_its_norm(rule):
    generator = torch.Generator().manual_seed(2)
    drawn = torch.randn(50, 2, 2, generator=generator).double() + torch.tensor([0.0, 1.0])
    expected = hard_margin(drawn, NORMS[rule])
    rows, theta = drawn[expected.feasible], expected.theta[expected.feasible]
    limits = javascript.call(PROGRAM, f"all => all.map(rows => storyModule.shortest(rows, {rule!r}))", rows.tolist())
    limits = torch.tensor(limits).double()
    assert (torch.einsum("bmd,bd->bm", rows, limits) >= 1 - 1e-8).all()
    torch.testing.assert_close(norm(limits, NORMS[rule]), norm(theta, NORMS[rule]), rtol=1e-8, atol=0)


@needs_script
@pytest.mark.parametrize("rule", NORMS)
def test_each_run_ends_beside_its_limit(rule):
    call = """([state, rule]) => {
      const rows = engineModule.differenceRows({ keys: [state.keys] }, [0]);
      return [storyModule.shortest(rows, rule), [...storyModule.trained(state, rule)].slice(-2)];
    }"""
    limit, end = torch.tensor(javascript.call(PROGRAM, call, [STATE, rule])).double()
    assert one_minus_cosine(end, limit) < 1e-3
