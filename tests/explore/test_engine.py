"""The engine of the interactive figures against the library, on hundreds of problems."""

import math
from functools import cache

import cases
import javascript
import pytest
import torch

from lib import losses, published
from lib.datasets import figure_3, scored_tokens
from lib.descent import constant, normalised, run
from lib.flow import log_time_flow
from lib.geometry import directional_bregman_divergence, norm, one_minus_cosine
from lib.joint import JointProblem
from lib.joint_paths import joint_limit
from lib.logspace import gradient
from lib.problem import Problem, difference_rows
from lib.selection import limit_offset, locally_optimal_selections, optimal_tokens, selected_tokens
from lib.separators import InfeasibleError, hard_margin
from workflow.sphinx_ext import explore

PROGRAM = explore.module(explore.ENGINE, explore.source_of(explore.ENGINE, javascript.SOURCES))
PROGRAM += "const engine = engineModule;"
NORMS = (1.1, 1.5, 2.0, 3.0, 10.0)
LENGTHS = (0.0, 1.0, 30.0, 1000.0)
LOSSES = ("logistic", "exponential", "correlation")
EVEN = [[700.0, 700.0], [0.0, -600.0]]  # two tokens have equal logits, all others are far behind
STEPS = 300
MOVED = torch.tensor([0.5, -0.25])
NEARBY = torch.tensor([[0.0, 0.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 0.0], [0.0, 1.0], [5.0, 3.0], [-3.0, 5.0]])

needs_javascript = pytest.mark.skipif(not javascript.engines(), reason="no node and no chromium on this machine")
pytestmark = needs_javascript

ALL = """given => given.map(({problem, loss, thetas, start, rule, norm, steps}) => {
  const choices = engine.locallyOptimal(problem), rows = engine.differenceRows(problem, engine.optimalTokens(problem));
  const separator = engine.separator(rows, norm);
  return {
    separator,
    choices: choices.map(one => ({selected: one.selected, theta: one.separator.theta, duals: one.separator.duals})),
    gradients: thetas.map(theta => engine.gradient(problem, loss, theta)),
    path: [...engine.descend(problem, loss, start, rule, steps, norm)],
  };
})"""


def given(problem):
    return {"keys": problem.keys.tolist(), "scores": problem.scores.tolist()}


def numbers(values):
    return torch.tensor(values, dtype=torch.float64)  # JSON has 1 for 1.0


@cache
def inputs():
    """Problems, and what is done to each."""
    generator = torch.Generator().manual_seed(16)
    problems = [*cases.hand_made().values()]
    problems += cases.random(300 - len(problems), generator)
    made = []
    for k, problem in enumerate(problems):
        thetas = torch.nn.functional.normalize(torch.randn(len(LENGTHS), 2, generator=generator), dim=-1)
        kind = ("normalised", "normalised", "constant")[(k // 3) % 3]
        p = NORMS[k % len(NORMS)] if kind == "normalised" else 2.0
        made.append({
            "problem": given(problem),
            "loss": LOSSES[k % 3],
            "thetas": [*(torch.tensor(LENGTHS)[:, None] * thetas).tolist(), *EVEN],
            "start": torch.randn(2, generator=generator).tolist(),
            "rule": {"kind": kind, "size": 0.1},
            "norm": p if k % 2 else 2.0,
            "steps": STEPS,
        })  # fmt: skip
    return problems, made


@cache
def answers():
    return javascript.call(PROGRAM, ALL, inputs()[1])


def pairs(answers):
    """Problem, case and answer of as many cases as there are answers."""
    return zip(*(part[: len(answers)] for part in inputs()), answers, strict=True)


def check_separators(rows):
    """SVM directions to 1e-9, and the same problems infeasible."""
    for problem, case, answer in rows:
        differences, separator = difference_rows(problem, optimal_tokens(problem)), answer["separator"]
        expected = hard_margin(differences, case["norm"])
        assert separator["feasible"] == bool(expected.feasible), case["problem"]
        if separator["feasible"]:
            theta = numbers(separator["theta"])
            torch.testing.assert_close(norm(theta, case["norm"]), norm(expected.theta, case["norm"]), rtol=1e-9, atol=0)
            # where p is large a small entry is no part of the length, and the library knows few digits of it
            assert directional_bregman_divergence(theta, expected.theta, case["norm"]) <= 1e-9
            if case["norm"] == 2:
                torch.testing.assert_close(theta, expected.theta, rtol=0, atol=1e-9 * norm(theta).item())
            assert min(separator["duals"]) >= 0


def check_choices(rows):
    """The same locally optimal choices, in the same order, with the same directions."""
    for problem, case, answer in rows:
        selected, separators = locally_optimal_selections(problem)
        assert [choice["selected"] for choice in answer["choices"]] == selected.tolist(), case["problem"]
        for choice, theta in zip(answer["choices"], separators.theta, strict=True):
            assert one_minus_cosine(numbers(choice["theta"]), theta) <= 1e-9


def check_gradients(rows):
    """The log-space gradient at any length of p, to rounding."""
    for problem, case, answer in rows:
        loss = losses.by_name(case["loss"])
        for theta, ours in zip(case["thetas"], answer["gradients"], strict=True):
            expected = gradient(problem, loss, torch.tensor(theta))
            direction, log_scale = numbers(ours["direction"]), ours["logScale"]
            if log_scale is None:  # minus infinity, in JSON
                assert expected.log_scale == -math.inf
                continue
            scale = math.exp(log_scale - expected.log_scale.item())
            spread = 1e-9 * problem.keys.abs().max()
            assert norm(direction * scale - expected.direction) <= spread, case["problem"]


def until_chaotic(path, nearby):
    """Number of iterates before one of the runs that differ by rounding alone goes another way."""
    apart = (norm(path[:, None] - nearby) > 1e-10 * norm(path).clamp(min=1)[:, None]).any(-1)
    return int(torch.where(apart.any(), apart.double().argmax(), len(path)))


def check_paths(rows):
    """Paths to 1e-8 until rounding decides in the library; nine tenths of all iterates are compared.

    It decides where starts beside this one go another way, or where they do when all keys are moved by one vector,
    which changes no attention and rounds all differences of keys anew.
    """
    compared = whole = 0
    for problem, case, answer in rows:
        loss, start, kind = losses.by_name(case["loss"]), torch.tensor(case["start"]), case["rule"]["kind"]
        rule = normalised(0.1, case["norm"]) if kind == "normalised" else constant(0.1)
        starts = start + 1e-14 * NEARBY
        path = run(problem, loss, starts, rule, STEPS, norm=case["norm"]).theta
        moved = run(Problem(problem.keys + MOVED, problem.scores), loss, starts, rule, STEPS, norm=case["norm"]).theta
        last = until_chaotic(path[:, 0], torch.cat([path[:, 1:], moved], dim=1))
        ours = numbers(answer["path"]).unflatten(0, (-1, 2))
        far = norm(ours[:last] - path[:last, 0]) / norm(path[:last, 0]).clamp(min=1)
        assert far.max() <= 1e-8, (case, int(far.argmax()))
        compared, whole = compared + last, whole + STEPS + 1
    assert compared > 0.9 * whole, compared / whole


CHECKS = {check.__name__: check for check in (check_separators, check_choices, check_gradients, check_paths)}


@pytest.mark.parametrize("check", CHECKS)
def test_engine_computes_what_the_library_computes(check):
    CHECKS[check](pairs(answers()))


OFFSETS = """given => given.map(({problem, loss}) => {
  const selected = engine.optimalTokens(problem), solution = engine.separator(engine.differenceRows(problem, selected));
  return solution.feasible ? engine.limitOffset(problem, loss, selected, solution) : null;
})"""


def test_offset_of_the_limit_is_the_library_s():
    compared = 0
    offsets = javascript.call(PROGRAM, OFFSETS, inputs()[1])
    for problem, case, answer in pairs(offsets):
        separator = hard_margin(difference_rows(problem, optimal_tokens(problem)))
        support = (separator.duals > 1e-6 * separator.duals.max()) & (separator.margins < 1 + 1e-6)
        on_margin = separator.margins < 1 + 1e-6
        if not separator.feasible or not torch.equal(support, on_margin) or support.sum() > 2:  # else not one offset
            continue
        expected = limit_offset(problem, losses.by_name(case["loss"]), separator)
        if not torch.isfinite(expected.across).all():  # a neighbour that scores higher
            continue
        torch.testing.assert_close(numbers(answer["across"]), expected.across, rtol=1e-8, atol=1e-8)
        assert answer["along"] == pytest.approx(expected.along.item(), rel=1e-8, abs=1e-8)
        compared += 1
    assert compared > 90


RATIOS = [0.0, 0.1, 0.5, 0.9, 1.0, 1.1, 3.0, 100.0]
DIALS = "given => given.map(({features, rows, ratios}) => ratios.map(c => engine.jointLimit(features, rows, c)))"


def joint_problems():
    generator = torch.Generator().manual_seed(6)
    yield JointProblem(*figure_3("b"))
    for _ in range(100):
        labels = 2.0 * torch.randint(0, 2, (3,), generator=generator) - 1
        shape = 3, 2, 2
        tokens, keys = torch.randn(shape, generator=generator), torch.randn(shape, generator=generator)
        yield JointProblem(tokens, labels, keys)


def test_limit_of_head_and_prompt_is_the_library_s():
    problems = [*joint_problems()]
    cases_ = [
        {
            "features": (problem.labels[:, None] * problem.tokens[:, 1]).tolist(),
            "rows": (problem.keys[:, 1:] - problem.keys[:, :1]).tolist(),
            "ratios": RATIOS,
        }
        for problem in problems
    ]
    solved = 0
    for problem, answer in zip(problems, javascript.call(PROGRAM, DIALS, cases_), strict=True):
        for ratio, limit in zip(RATIOS, answer, strict=True):
            try:
                expected = joint_limit(problem, [1, 1, 1], ratio)
            except InfeasibleError:
                assert limit is None
                continue
            solved += 1
            assert limit["threshold"] == pytest.approx(expected.threshold, rel=1e-9, abs=1e-9)
            assert one_minus_cosine(numbers(limit["head"]), expected.head) <= 1e-18
            assert one_minus_cosine(numbers(limit["prompt"]), expected.prompt) <= 1e-9
    assert solved > 33


RECIPES = """given => given.map(({problem, loss, start}) => [x => x, Math.fround].map(round => ({
  gradient: engine.textbookGradient(problem, loss, start.map(round), round),
  path: [...engine.descendTextbook(problem, loss, start, 0.1, 60, 1e-9, round).path],
})))"""


def test_published_recipe_is_the_library_s():
    few = [case for case in inputs()[1] if case["loss"] in published.LOSSES][:40]
    for case, both in zip(few, javascript.call(PROGRAM, RECIPES, few), strict=True):
        problem, loss = case["problem"], losses.by_name(case["loss"])
        data, start = scored_tokens(problem["keys"], problem["scores"]), torch.tensor([*case["start"], 0.0])
        for dtype, recipe, close in zip((torch.float64, torch.float32), both, (1e-13, 1e-5), strict=True):
            expected = published.gradients(data, loss, start.to(dtype), dtype)[1][:2].double()
            size = data.tokens.abs().max().item() ** 2
            assert norm(numbers(recipe["gradient"]) - expected) <= close * size
            starts = start + close / 10 * torch.nn.functional.pad(NEARBY, (0, 1))
            path = published.descend(data, loss, starts, 0.1, 60, 1e-9, dtype)[..., :2]
            # Rounding grows as a change of the start does: beside a border between two basins, by any factor.
            grown = norm(path[:, 1:] - path[:, :1]).amax(-1).cummax(0).values
            last = int((grown <= 30 * close).sum())
            away = norm(numbers(recipe["path"]).unflatten(0, (-1, 2)) - path[:, 0])[:last]
            assert (away <= 1000 * (close + grown[:last])).all(), (case, dtype)


LAST = 30  # log(1 + t)
FLOWS = """given => given.map(({problem, loss, start, last}) => {
  const { path, times } = engine.flow(problem, loss, start, last);
  const places = [0.3, 1, 3, 10, 0.5 * last, last].map(tau => engine.placeAt(times, tau));
  return { times: times.slice(-1), points: places.map(place => engine.at(path, place)), end: engine.endOf(path) };
})"""


def flows():
    """Figures 1(a), 1(b), 5 and 8, a token that is left late, and random problems, each from a start of its own."""
    names = ("two tokens", "figure 1(a)", "figure 1(b)", "figure 5", "figure 8", "negative scores")
    chosen = [(cases.hand_made()[name], loss) for name in names for loss in LOSSES]
    generator = torch.Generator().manual_seed(3)
    chosen += [(problem, LOSSES[k % 3]) for k, problem in enumerate(cases.random(30, generator))]
    starts = torch.randn(len(chosen), 2, generator=generator)
    return [(*one, start) for one, start in zip(chosen, starts, strict=True)]


def test_flow_is_the_library_s():
    """At six times, wherever the library's own flow from a start beside it does not go another way."""
    given_ = [{"problem": given(problem), "loss": loss, "start": start.tolist(), "last": LAST}
              for problem, loss, start in flows()]  # fmt: skip
    compared = 0
    for (problem, loss, start), flow in zip(flows(), javascript.call(PROGRAM, FLOWS, given_), strict=True):
        if flow["times"][0] < LAST - 1e-3:  # it rests at a point, where the library's own ends at some time, too
            continue
        starts = start + torch.tensor([[0.0, 0.0], [1e-7, -1e-7]])
        try:
            paths = log_time_flow(problem, losses.by_name(loss), starts, [0.3, 1, 3, 10, 0.5 * LAST, LAST]).theta
        except RuntimeError:
            continue
        steady = norm(paths[:, 0] - paths[:, 1]) <= 1e-5
        away = norm(numbers(flow["points"]) - paths[:, 0])
        assert (away[steady] <= 3e-3).all(), (given(problem), loss, start, away)
        assert norm(numbers(flow["end"]) - paths[-1, 0]) <= 1e-3 or not steady[-1]
        compared += int(steady.sum())
    assert compared > 150


def test_a_flow_at_rest_ends_before_its_time():
    problem = cases.hand_made()["best token inside"]
    flow = javascript.call(
        PROGRAM, FLOWS, [{"problem": given(problem), "loss": "logistic", "start": [1, 1], "last": 100}]
    )[0]
    assert 5 < flow["times"][0] < 99
    assert norm(gradient(problem, losses.logistic, numbers(flow["end"])).direction).isfinite()
    slope = gradient(problem, losses.logistic, numbers(flow["end"]))
    assert slope.log_scale + norm(slope.direction).log() < -5


BORDERS = "given => given.map(({problem, loss}) => engine.border(problem, loss))"


def two_by_two():
    """Two inputs of two tokens, and a loss each; the first are those of the chapter on Figure 8."""
    generator = torch.Generator().manual_seed(8)
    yield from ((cases.hand_made()["figure 8"], loss) for loss in LOSSES)
    for k in range(200):
        keys, scores = torch.randn(2, 2, 2, generator=generator), torch.rand(2, 2, generator=generator)
        yield Problem(keys, scores), LOSSES[k % 3]


def test_border_parts_the_library_s_flows():
    """Far out, flows that start a little on one side of the line select other tokens than those on the other side."""
    chosen = [*two_by_two()]
    answers_ = javascript.call(PROGRAM, BORDERS, [{"problem": given(one), "loss": loss} for one, loss in chosen])
    assert answers_[0]["level"] == pytest.approx(-math.log(3) - math.log(0.5) + math.log(1 / (1 + math.e)), rel=1e-12)
    assert answers_[2]["level"] == pytest.approx(-math.log(3), rel=1e-12)
    parted = 0
    for (problem, loss), border in zip(chosen, answers_, strict=True):
        rows = difference_rows(problem, optimal_tokens(problem))
        along = (rows @ rows.T).sum(-1)
        assert (border is None) == bool((along > 0).all())
        if border is None or parted == 12 or along.min() > -0.2:
            continue
        nearest = int(along.argmin())
        system = torch.stack([numbers(border["row"]), rows[nearest]])
        levels = border["level"] + numbers([-0.1, 0.1])
        starts = torch.linalg.solve(system, torch.stack([levels, torch.full((2,), 12.0)])).T
        ends = log_time_flow(problem, losses.by_name(loss), starts, [60]).theta[-1]
        best = (selected_tokens(problem, ends) == optimal_tokens(problem))[:, 1 - nearest]
        assert best.tolist() == [False, True], (given(problem), loss, border)
        parted += 1
    assert parted > 8


def test_divergence_is_the_library_s():
    generator = torch.Generator().manual_seed(4)
    pairs_ = torch.randn(100, 2, 2, generator=generator)
    ask = "([given, norms]) => given.map(([a, b]) => norms.map(norm => engine.divergence(a, b, norm)))"
    divergences = numbers(javascript.call(PROGRAM, ask, [pairs_.tolist(), NORMS]))
    for p, column in zip(NORMS, divergences.T, strict=True):
        expected = directional_bregman_divergence(pairs_[:, 0], pairs_[:, 1], p)
        torch.testing.assert_close(column, expected, rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("engine", [*javascript.engines()][1:])
def test_engine_computes_the_same_in_the_browser(engine):
    answers = javascript.call(PROGRAM, ALL, inputs()[1][:60], engine)
    for check in CHECKS.values():
        check(pairs(answers))
