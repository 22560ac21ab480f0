"""What the interactive figures say, and "the same in Python": the snippet of a state finds what the figure shows."""

import contextlib
import io
import re
from pathlib import Path

import javascript
import pytest
import torch
from javascript import PROGRAM

from lib import figures
from lib.datasets import figure_1
from lib.descent import normalised, run
from lib.geometry import directional_bregman_divergence, norm, one_minus_cosine
from lib.losses import logistic
from lib.paths import regularization_path
from lib.problem import Problem
from lib.selection import locally_optimal_selections, selected_tokens
from lib.separators import hard_margin
from workflow.sphinx_ext import explore

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(not javascript.engines(), reason="no node and no chromium on this machine")

PRESETS = ("1(a)", "1(b)", "1(c)", "5", "8")


def ran(lines):
    """What a snippet leaves, and what it prints."""
    left, printed = {}, io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec("\n".join(lines), left)
    return left, printed.getvalue()


def playgrounds():
    """States of the playground: the presets, and random ones as dragging makes them."""
    states = javascript.call(PROGRAM, "names => names.map(name => playgroundModule.preset(name))", PRESETS)
    generator = torch.Generator().manual_seed(1)
    for k in range(12):
        n, T = 1 + k % 3, 2 + k % 4
        keys = (2 * torch.randn(n, T, 2, generator=generator)).mul(100).round() / 100
        scores = torch.rand(n, T, generator=generator).mul(20).round() / 20
        starts = torch.randn(3, 2, generator=generator).mul(100).round() / 100
        loss, step = ("logistic", "exponential", "correlation")[k % 3], ("normalised", "constant", "flow")[(k // 3) % 3]
        parts = {
            "keys": keys.tolist(),
            "scores": scores.tolist(),
            "starts": starts.tolist(),
            "loss": loss,
            "step": step,
        }
        states.append(states[0] | parts)
    return states


def test_presets_are_the_data_of_the_figures():
    presets = dict(zip(PRESETS, playgrounds(), strict=False))
    for panel in "abc":
        tokens = figure_1(panel, torch.Generator().manual_seed(0)).tokens
        state = presets[f"1({panel})"]
        torch.testing.assert_close(torch.tensor(state["keys"]).double(), tokens[..., :2], rtol=0, atol=6e-4)
        assert state["scores"] == tokens[..., 2].tolist()


SOLVE = """states => states.map(state => {
  playgroundModule.check(state);
  const solved = playgroundModule.solve(state), told = playgroundModule.told(state, solved);
  return { ends: solved.ends, choices: solved.choices, lines: playgroundModule.python(state), told };
})"""


def test_snippet_of_the_playground_finds_what_it_shows():
    for state, shown in zip(playgrounds(), javascript.call(PROGRAM, SOLVE, (states := playgrounds())), strict=True):
        assert state in states
        try:
            left, printed = ran(shown["lines"])
        except RuntimeError:  # the library cannot follow a flow that rests at a point either, and says so
            assert "can be followed" in shown["told"]
            continue
        assert left["choices"].tolist() == [choice["selected"] for choice in shown["choices"]]
        assert len(printed.splitlines()) == len(state["starts"])
        for end, run_shown, line in zip(left["ends"], shown["ends"], printed.splitlines(), strict=True):
            assert selected_tokens(left["problem"], end).tolist() == run_shown["selected"]
            assert line.startswith(str(run_shown["selected"]))
            if run_shown["place"] >= 0:
                direction = left["separators"].theta[run_shown["place"]]
                close = 0.02 if state["step"] == "flow" else 1e-3
                assert run_shown["away"] == pytest.approx(one_minus_cosine(end, direction).item(), rel=close, abs=1e-12)


SPECIAL = {  # keys, scores, and what the sentence must say
    "one token": ([[[1, 0]]], [[1]], "one token left"),
    "equal scores": ([[[1, 0], [0, 1]]], [[1, 1]], "All tokens have the same score"),
    "equal scores in one input": ([[[1, 0], [0, 1]], [[1, 0], [0, 1]]], [[1, 1], [1, 0]], "Input 1 has equal scores"),
    "one spot": ([[[1, 0], [1, 0], [0, 0]]], [[1, 0.5, 0]], "Tokens 1 and 2 lie on one spot"),
    "two best": ([[[1, 0], [0, 1], [0, 0]]], [[1, 1, 0]], "2 tokens tie for the best score"),
    "infeasible": ([[[0.1, 0.1], [1, 0], [-1, 1], [-1, -1]]], [[1, 0, 0, 0]], "No direction puts the best token ahead"),
    "inputs against each other": (
        [[[1, 0], [0, 0]], [[-1, 0], [0, 0]]],
        [[1, 0], [1, 0]],
        "the best tokens of all inputs",
    ),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_sentence_says_what_a_degenerate_configuration_means(name):
    keys, scores, words = SPECIAL[name]
    state = playgrounds()[0] | {"keys": keys, "scores": scores}
    shown = javascript.call(PROGRAM, SOLVE, [state])[0]
    assert words in shown["told"]
    assert not any(word in shown["told"] for word in ("NaN", "undefined", "Infinity"))
    left, _ = ran(shown["lines"])
    assert ("choices" in left) == (len(keys[0]) > 1)


def test_journey_is_the_library_s():
    states = [{"wanted": -1, "size": 0.1, "high": 10}, {"wanted": -4.5, "size": 1, "high": 2}]
    ask = "states => states.map(state => [roadModule.journey(state).logs, roadModule.python(state)])"
    for logs, lines in javascript.call(PROGRAM, ask, states):
        steps = [round(10**log) for log in logs]
        printed = ran(lines)[1].split()
        assert printed == [
            str(count) if count <= most else "more" for count, most in zip(steps, (20000, 5000, 1000), strict=True)
        ]


def test_dial_is_the_library_s():
    states = [
        {"third": third, "ratio": ratio} for third in ([0.5, 1.5], [0.3, 2.0], [1.0, 1.2]) for ratio in (-1, -0.3, 0, 1)
    ]
    ask = "states => states.map(state => [dialModule.turned(state, state.ratio), dialModule.python(state)])"
    for limit, lines in javascript.call(PROGRAM, ask, states):
        left, _ = ran(lines)
        assert limit["threshold"] == pytest.approx(left["limit"].threshold, abs=1e-9)
        assert one_minus_cosine(torch.tensor(limit["prompt"]).double(), left["limit"].prompt) < 1e-9


def test_ball_is_the_library_s():
    rows = [[[0.9, 0.5], [0.2, 1.6]], [[1.2, 0.4], [0.3, 0.9]], [[1.0, 0.0], [-1.0, 0.0]]]
    states = [{"rows": two, "norm": p} for two in rows for p in (1.05, 1.5, 2, 3, 20)]
    ask = "states => states.map(state => [ballModule.grow(state).solution, ballModule.python(state)])"
    for state, (solution, lines) in zip(states, javascript.call(PROGRAM, ask, states), strict=True):
        left, _ = ran(lines)
        assert solution["feasible"] == bool(left["separator"].feasible)
        if solution["feasible"]:
            lengths = [
                norm(torch.tensor(solution["theta"]).double(), state["norm"]),
                norm(left["separator"].theta, state["norm"]),
            ]
            torch.testing.assert_close(*lengths, rtol=1e-9, atol=0)


def test_plateaus_are_the_library_s():
    """The heights are those of the chapter on the Bregman divergence, and mirror descent is near them."""
    rows = [[[1.0, 0.3], [2.0, 1.5]], [[0.5, 1.5], [2.0, 2.0]]]  # one is on the margin, whatever the norm
    states = [{"rows": two, "norm": p} for two in rows for p in (1.75, 2, 3)]
    ask = "states => states.map(state => ballModule.plateaus(state, ballModule.grow(state)))"
    for state, plateaus in zip(states, javascript.call(PROGRAM, ask, states), strict=True):
        differences, p = torch.tensor(state["rows"]).double(), state["norm"]
        for q, (level, at) in zip((1.75, 2, 3), plateaus, strict=True):
            limit, separator = (hard_margin(differences, order).theta for order in (p, q))
            expected = directional_bregman_divergence(separator, limit, p).item()
            assert level == pytest.approx(expected, rel=1e-6, abs=1e-12)
            assert (level > 1e-4) == (q != p)
            assert at == pytest.approx(expected, rel=0.05, abs=1e-5)


def chapter_rows():
    """The rows of the chapter lp-separator's first problem, drawn as it draws them."""
    page = (ROOT / "book/mirror-descent/lp-separator.md").read_text("utf-8")
    cells = re.findall(r"```{code-cell} ipython3\n(?::tags:[^\n]*\n)?\n?(.*?)```", page, re.DOTALL)
    left = {}
    exec("\n".join(cells[:3]).partition("grid = [")[0], left)
    return left["rows"][0]


def test_entries_are_the_chapter_s():
    rows = chapter_rows()
    entries = javascript.call(PROGRAM, "norms => norms.map(ballModule.entries)", [1.05, 1.2, 1.5, 2, 3, 5, 10, 20])
    for bars in entries:
        sizes = hard_margin(rows, bars["norm"]).theta.abs().sort(descending=True).values
        torch.testing.assert_close(torch.tensor(bars["sizes"]).double(), sizes / sizes[0], rtol=0, atol=0.5 / 25 + 1e-6)
    assert [bars["norm"] for bars in entries[::7]] == pytest.approx([1.05, 20])


ANSWERS = """() => Object.entries(questionsModule.QUESTIONS).map(([id, one]) =>
  [id, one.options, one.answer(), one.told(), one.seen(one.show()), Object.keys(one.show())])"""


def test_every_question_has_an_answer_and_a_state_that_shows_it():
    for name, options, answer, sentence, seen, keys in javascript.call(PROGRAM, ANSWERS, None):
        assert answer in range(len(options)), name
        assert len(sentence) > 20
        assert not any(word in sentence for word in ("NaN", "undefined", "Infinity")), sentence
        assert seen, f"what {name} shows does not answer it"
        assert keys


def test_answers_are_the_library_s():
    answers = {name: options[answer] for name, options, answer, *_ in javascript.call(PROGRAM, ANSWERS, None)}
    keys = [[[-0.1, 1.0], [1.0, 0.0], [0.0, 0.0]]]
    limits = [
        len(locally_optimal_selections(Problem(keys=keys, scores=[[1, 0.9, score]]))[0]) for score in (0.9, 0.85, 0.0)
    ]
    assert limits == [1, 2, 2]
    assert answers["score"] == "as soon as it is below 0.9"
    problem, starts = Problem(keys=keys, scores=[[1, 0.9, 0]]), [[0, y] for y in (1, 0.5, 0, -0.5, -1, -1.5)]
    ends = run(problem, logistic, torch.tensor(starts).double(), normalised(0.1), 1000).theta[-1]
    assert answers["count"] == {0: "none", 2: "two", 6: "all six"}[int((selected_tokens(problem, ends) == 1).sum())]
    rows = torch.tensor([[0.9, 0.5], [0.2, 1.6]]).double()
    assert (rows @ hard_margin(rows, 1.05).theta).max() == pytest.approx(1)
    assert answers["corner"] == "at the corner"
    entries = hard_margin(rows, 10.0).theta
    assert entries.min() / entries.max() > 0.75
    assert answers["flat"] == "nearly as large"


def test_cone_is_the_library_s():
    first = {"others": [[0, 0.6], [0, -0.6]], "score": 0.2, "turn": 0, "opening": 15}
    changes = (
        {},
        {"score": 0.7},
        {"turn": 10},
        {"turn": 25, "opening": 6},
        {"others": [[0.1, 0.9], [-0.4, -0.3]], "score": -0.5},
        {"score": 0.7, "others": [[0, 0], [0, 0]]},
    )
    states = [first | change for change in changes]
    ask = "states => states.map(state => [coneModule.walk(state), coneModule.python(state)])"
    for state, (walk, lines) in zip(states, javascript.call(PROGRAM, ask, states), strict=True):
        path = ran(lines)[0]["path"].theta
        ours = torch.tensor(walk["points"]).double()
        reach = norm(path[-1]).item()
        assert walk["bounded"] == (reach < 500)
        assert not walk["bounded"] or walk["last"] == pytest.approx(reach, rel=0.1), state
        if not walk["bounded"]:
            far = path[:, 0].isfinite() & (norm(path) > 5)
            assert one_minus_cosine(ours[far], path[far]).max() < 1e-6, state


def test_path_of_lowest_risk_is_the_library_s():
    rows = [[0.9, 0.5], [0.2, 1.6]]
    states = [{"rows": rows, "norm": p} for p in (1.5, 2.0, 3.0, 10.0)]
    ask = "states => states.map(state => [...ballModule.lowest(state, ballModule.grow(state)).path])"
    problem = Problem(keys=[[[0, 0], *([-x, -y] for x, y in rows)]], scores=[[1, 0, 0]])
    for state, lowest in zip(states, javascript.call(PROGRAM, ask, states), strict=True):
        p = state["norm"]
        length = norm(hard_margin(torch.tensor(rows).double(), p).theta, p).item()
        radii = length * torch.logspace(-1, 3, 41, dtype=torch.float64)
        expected = regularization_path(problem, logistic, radii, norm=p).theta
        ours = torch.tensor(lowest).double().reshape(-1, 2)
        assert one_minus_cosine(ours, expected).max() < 1e-6


def test_one_colour_means_one_thing_here_and_in_the_figures_that_stand_still():
    assert set(explore.hues().values()) == set(figures.PALETTE)
    for name, look in javascript.call(PROGRAM, "() => looksModule.LOOKS", None).items():
        assert explore.hues()[look.split()[0]] == figures.colour_of(name), name
