"""The engine of the interactive figures against the library, on a thousand problems, and against mutants of itself."""

import math
import sys
from functools import cache
from pathlib import Path

import cases
import javascript
import pytest
import torch

from lib import losses, published
from lib.datasets import scored_tokens
from lib.descent import constant, normalised, polyak, run
from lib.geometry import norm, one_minus_cosine
from lib.joint import JointProblem, assumption_c
from lib.joint_paths import joint_limit
from lib.logspace import gradient
from lib.problem import difference_rows
from lib.selection import limit_offset, locally_optimal_selections, optimal_tokens
from lib.separators import InfeasibleError, hard_margin

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "workflow"))
import explore  # noqa: E402

SOURCE = (ROOT / explore.SOURCES / explore.ENGINE).read_text("utf-8")
NORMS = (1.1, 1.5, 2.0, 3.0, 10.0)
LENGTHS = (0.0, 1.0, 30.0, 1000.0)
LOSSES = ("logistic", "exponential", "correlation")
STEPS = 300

needs_javascript = pytest.mark.skipif(not javascript.engines(), reason="no node and no chromium on this machine")
pytestmark = needs_javascript

ALL = """given => given.map(({problem, loss, thetas, start, rule, norm, steps}) => {
  const choices = engine.locallyOptimal(problem, norm), best = engine.optimalTokens(problem);
  return {
    separator: engine.separator(engine.differenceRows(problem, best), norm),
    choices: choices.map(one => ({selected: one.selected, theta: one.separator.theta, duals: one.separator.duals})),
    gradients: thetas.map(theta => engine.gradient(problem, loss, theta)),
    excesses: thetas.map(theta => engine.excess(problem, loss, theta, best)),
    path: [...engine.descend(problem, loss, start, rule, steps, norm)],
  };
})"""


def program(source=SOURCE):
    return explore.engine(source) + "const engine = makeEngine();"


def given(problem):
    return {"keys": problem.keys.tolist(), "scores": problem.scores.tolist()}


def numbers(values):
    return torch.tensor(values, dtype=torch.float64)  # JSON has 1 for 1.0


@cache
def inputs():
    """Problems, and what is done to each: a thousand of them."""
    generator = torch.Generator().manual_seed(16)
    problems = [*cases.hand_made().values()]
    problems += cases.random(1000 - len(problems), generator)
    made = []
    for k, problem in enumerate(problems):
        thetas = torch.nn.functional.normalize(torch.randn(len(LENGTHS), 2, generator=generator), dim=-1)
        kind = ("normalised", "constant", "polyak")[(k // 3) % 3]
        p = NORMS[k % len(NORMS)] if kind == "normalised" else 2.0
        made.append({
            "problem": given(problem),
            "loss": LOSSES[k % 3],
            "thetas": (torch.tensor(LENGTHS)[:, None] * thetas).tolist(),
            "start": torch.randn(2, generator=generator).tolist(),
            "rule": {"kind": kind, "size": 0.1, "selected": optimal_tokens(problem).tolist()},
            "norm": p if k % 2 else 2.0,
            "steps": STEPS,
        })  # fmt: skip
    return problems, made


@cache
def answers(engine=None):
    return javascript.call(program(), ALL, inputs()[1], engine)


def pairs(answer=None):
    return zip(*inputs(), answer or answers(), strict=True)


def check_separators(rows):
    """SVM directions to 1e-9, the same problems infeasible, and certificates that prove what they say."""
    for problem, case, answer in rows:
        differences, found = difference_rows(problem, optimal_tokens(problem)), answer["separator"]
        expected = hard_margin(differences, case["norm"])
        assert found["feasible"] == bool(expected.feasible), case["problem"]
        if found["feasible"]:
            theta = numbers(found["theta"])
            torch.testing.assert_close(norm(theta, case["norm"]), norm(expected.theta, case["norm"]), rtol=1e-9, atol=0)
            assert one_minus_cosine(theta, expected.theta) <= 1e-9
            if case["norm"] == 2:
                torch.testing.assert_close(theta, expected.theta, rtol=0, atol=1e-9 * norm(theta).item())
            assert abs(found["gap"]) <= 1e-9
            assert min(found["duals"]) >= 0
        else:
            proof = numbers(found["certificate"])
            assert proof.min() >= 0
            torch.testing.assert_close(proof.sum(), torch.tensor(1.0))
            assert norm(proof @ differences) <= 1.1e-9 * norm(differences).max()


def check_choices(rows):
    """The same locally optimal choices, in the same order, with the same directions."""
    for problem, case, answer in rows:
        selected, separators = locally_optimal_selections(problem, case["norm"])
        assert [one["selected"] for one in answer["choices"]] == selected.tolist(), case["problem"]
        for one, theta in zip(answer["choices"], separators.theta, strict=True):
            assert one_minus_cosine(numbers(one["theta"]), theta) <= 1e-9


def check_gradients(rows):
    """The log-space gradient and the excess risk at any length of p, to rounding."""
    for problem, case, answer in rows:
        loss = losses.by_name(case["loss"])
        for theta, found in zip(case["thetas"], answer["gradients"], strict=True):
            expected = gradient(problem, loss, torch.tensor(theta))
            direction, log_scale = numbers(found["direction"]), found["logScale"]
            if log_scale is None:  # minus infinity, in JSON
                assert expected.log_scale == -math.inf
                continue
            scale = math.exp(log_scale - expected.log_scale.item())
            spread = 1e-9 * problem.keys.abs().max()
            assert norm(direction * scale - expected.direction) <= spread, case["problem"]


def until_chaotic(path, nearby):
    """Number of iterates before a run from a start that is moved by rounding goes another way."""
    apart = norm(path - nearby) > 1e-11 * norm(path).clamp(min=1)
    return int(torch.where(apart.any(), apart.double().argmax(), len(path)))


def check_paths(rows):
    """Paths to 1e-8 until they are chaotic; nine tenths of all iterates are compared."""
    compared = whole = 0
    for problem, case, answer in rows:
        loss, start, kind = losses.by_name(case["loss"]), torch.tensor(case["start"]), case["rule"]["kind"]
        rule = normalised(0.1, case["norm"]) if kind == "normalised" else constant(0.1)
        if kind == "polyak":
            rule = polyak(problem, loss, optimal_tokens(problem))
        starts = start + torch.tensor([[0.0, 0.0], [1e-15, -1e-15]])
        try:
            path = run(problem, loss, starts, rule, STEPS, norm=case["norm"]).theta
        except FloatingPointError:  # Polyak's step from wrong tokens
            continue
        last = until_chaotic(path[:, 0], path[:, 1])
        found = numbers(answer["path"]).unflatten(0, (-1, 2))
        far = norm(found[:last] - path[:last, 0]) / norm(path[:last, 0]).clamp(min=1)
        assert far.max() <= 1e-8, (case, int(far.argmax()))
        compared, whole = compared + last, whole + STEPS + 1
    assert compared > 0.9 * whole, compared / whole


CHECKS = {check.__name__: check for check in (check_separators, check_choices, check_gradients, check_paths)}


@pytest.mark.parametrize("check", CHECKS)
def test_engine_computes_what_the_library_computes(check):
    CHECKS[check](pairs())


@pytest.mark.parametrize("engine", [*javascript.engines()][1:])
def test_other_engines_of_javascript_agree(engine):
    first, second = (javascript.call(program(), ALL, inputs()[1][:60], one) for one in (None, engine))
    assert first == second
