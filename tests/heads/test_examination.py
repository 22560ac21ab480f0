"""What becomes of a choice: each answer against its definition, and conflicts that really are irreducible."""

import pytest
import torch
from problems import random_problem, random_theta, refuses, seeded

from heads import examination, examine, flip_distances, least_change
from heads.swaps import swap_until_stable
from lib.geometry import norm, one_minus_cosine
from lib.problem import Problem, difference_rows
from lib.selection import locally_optimal, locally_optimal_selections, optimal_tokens, selected_tokens
from lib.separators import att_svm, hard_margin

SEPARABLE = [0, 1, 2, 3, 4]


def crowded(seed, inputs=8, tokens=4, size=3, **options):
    """More rows than a plane through the origin can have on one side, as a rule."""
    return random_problem(seed, n=inputs, T=tokens, d=size, **options)


@pytest.mark.parametrize("seed", SEPARABLE)
@pytest.mark.parametrize("queries", [0, 5])
def test_a_separable_choice_is_told_by_its_definitions(seed, queries):
    problem = random_problem(seed, n=2, T=3, d=6, queries=queries)
    theta = random_theta(seed, problem)
    found, selected = examine(problem, theta), selected_tokens(problem, theta)
    separator = att_svm(problem, selected)
    assert torch.equal(found.selected, selected)
    assert found.feasible
    assert not found.conflict
    rows = (difference_rows(problem, selected) @ theta / norm(theta)).unflatten(-1, (2, 2))
    apart = norm(difference_rows(problem, selected)).unflatten(-1, (2, 2))
    torch.testing.assert_close(found.distances, (rows / apart).amin(-1))
    assert (found.takers != selected).all()
    assert found.cosine_distance == pytest.approx(one_minus_cosine(theta, separator.theta).item())
    assert found.locally_optimal is bool(locally_optimal(problem, selected, separator))
    assert found.outscored.any() == (not found.locally_optimal)
    torch.testing.assert_close(found.separator.theta, separator.theta, rtol=1e-7, atol=1e-9)
    torch.testing.assert_close(found.attention, problem.attention(theta).amax(-1))


def test_descent_ends_on_a_choice_that_lasts():
    problem = random_problem(3, n=2, T=3, d=6)
    ended = [examine(problem, random_theta(seed, problem), iterations=4000) for seed in range(4)]
    selections = locally_optimal_selections(problem)[0].tolist()
    for found in ended:
        assert found.after_descent["selected"].tolist() in selections
        assert found.after_descent["cosine_distance"] < 1e-2
        assert f"ends on {found.after_descent['selected'][0]}, " in str(found)


def test_in_the_span_all_is_as_in_the_full_space(monkeypatch):
    problem = random_problem(1, n=2, T=3, d=4, queries=5)
    theta = random_theta(1, problem)
    small = examine(problem, theta, iterations=100)
    monkeypatch.setattr(examination, "_compact", lambda problem, theta: (problem, theta, lambda vector: vector))
    full = examine(problem, theta, iterations=100)
    assert problem.parameter_size > problem.scores.numel()
    torch.testing.assert_close(small.separator.theta, full.separator.theta, rtol=1e-7, atol=1e-9)
    assert small.cosine_distance == pytest.approx(full.cosine_distance)
    torch.testing.assert_close(small.distances, full.distances)
    assert small.after_descent["cosine_distance"] == pytest.approx(full.after_descent["cosine_distance"])


@pytest.mark.parametrize("options", [{}, {"queries": 2, "inputs": 20}], ids=str)
@pytest.mark.parametrize("seed", range(6))
def test_a_conflict_cannot_be_had_and_without_any_one_of_it_can(seed, options):
    problem = crowded(seed, **options)
    theta = random_theta(seed, problem)
    found = examine(problem, theta, optimal_tokens(problem))
    assert not found.feasible
    assert examine(problem, theta).feasible  # theta itself separates what it selects
    tokens = problem.scores.shape[-1]
    rows = difference_rows(problem, found.selected)
    places = [
        i * (tokens - 1) + [t for t in range(tokens) if t != found.selected[i]].index(token)
        for i, token in found.conflict
    ]
    assert len(set(places)) == len(places)
    assert not hard_margin(rows[places]).feasible
    for one in range(len(places)):
        assert hard_margin(rows[[place for k, place in enumerate(places) if k != one]]).feasible
    assert found.cosine_distance != found.cosine_distance
    assert not found.locally_optimal
    assert "No direction separates this choice" in str(found)
    assert f"token {found.conflict[0][1]} of input {found.conflict[0][0]}" in str(found)


def test_a_conflict_is_among_tokens_that_may_be_seen():
    keys = [[[1.0], [0.0], [9.0]], [[0.0], [1.0], [9.0]]]
    problem = Problem(keys, [[1.0, 0.0, 0.0]] * 2, mask=[[True, True, False]] * 2)
    assert examine(problem, [1.0]).conflict == []
    both = Problem([[[1.0], [0.0], [9.0]], [[1.0], [1.0], [9.0]]], [[1.0, 0.0, 0.0]] * 2, mask=problem.mask)
    assert examine(both, [1.0], [0, 0]).conflict == [(1, 1)]  # its two tokens have the same key


def test_the_figure_has_a_point_for_each_input_and_says_what_it_is():
    problem = crowded(0)
    found = examine(problem, random_theta(0, problem), optimal_tokens(problem))
    ax = found.figure().axes[0]
    points = sorted(tuple(point) for kind in ax.collections for point in kind.get_offsets().tolist())
    assert [x for x, _ in points] == pytest.approx(sorted(found.distances.tolist()))
    assert [rank for _, rank in points] == list(range(len(points)))
    named = {text.get_text() for text in ax.get_legend().get_texts()}
    assert "in conflict" in named


@pytest.mark.parametrize("queries", [0, 5])
@pytest.mark.parametrize("seed", range(4))
def test_the_least_change_flips_an_input_and_no_smaller_one_does(seed, queries):
    problem = random_problem(seed, n=4, T=5, d=6, queries=queries)
    theta = random_theta(seed, problem)
    today, flips = selected_tokens(problem, theta), flip_distances(problem, theta)
    for i, (taker, distance) in enumerate(zip(*flips, strict=True)):
        change = least_change(problem, theta, i, taker)
        assert norm(change).item() == pytest.approx(distance.item())
        tied = problem.logits(theta + change)[i]
        assert tied[taker].item() == pytest.approx(tied[today[i]].item())
        assert selected_tokens(problem, theta + (1 + 1e-9) * change)[i] == taker
        assert selected_tokens(problem, theta + (1 - 1e-9) * change)[i] == today[i]
    # No change that is smaller flips any input: not in length, nor, where it is a matrix, in its spectral norm.
    others = torch.randn(200, problem.parameter_size, generator=seeded(seed), dtype=torch.float64)
    lengths = norm(others)
    if queries:
        lengths = torch.linalg.matrix_norm(others.unflatten(-1, (6, queries)), 2)
    small = others / lengths[:, None] * flips.distance.min() * (1 - 1e-9)
    assert (selected_tokens(problem, theta + small) == today).all()


def test_a_token_on_the_same_spot_is_no_other_token():
    problem = Problem([[[1.0], [1.0], [0.0]]], [[1.0, 0.0, 0.0]])
    assert flip_distances(problem, [2.0]) == (torch.tensor([2]), torch.tensor([2.0], dtype=torch.float64))


PROBLEM = Problem([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 0.0]])
BATCH = Problem(torch.ones(5, 1, 2, 2), torch.ones(1, 2))
REFUSED = {
    "no direction": (lambda: examine(PROBLEM, [0.0, 0.0]), "theta is [0.0, 0.0]"),
    "several": (lambda: examine(PROBLEM, [[1.0, 0.0]]), "theta is [[1.0, 0.0]]"),
    "another size": (lambda: examine(PROBLEM, [1.0]), "theta has shape (1,)"),
    "steps": (lambda: examine(PROBLEM, [1.0, 0.0], iterations=-1), "iterations is -1"),
    "a word for a flag": (lambda: examine(PROBLEM, [1.0, 0.0], settle="no"), "settle is 'no'"),
    "choice": (lambda: examine(PROBLEM, [1.0, 0.0], [2]), "selected index 2 is out of range"),
    "two choices": (lambda: examine(PROBLEM, [1.0, 0.0], [[0], [1]]), "selected has shape (2, 1)"),
    "batch": (lambda: examine(BATCH, [1.0, 0.0]), "problem has leading dimensions (5,)"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_examined_is_refused(case):
    refuses(*REFUSED[case])


@pytest.mark.parametrize("limit", ["memory", "work"])
def test_more_rows_than_a_solver_can_hold_are_refused(monkeypatch, limit):
    problem = random_problem(0, n=100, T=4, d=5, queries=20)
    theta = random_theta(0, problem)
    assert examine(problem, theta).separator.gap < 1e-9
    if limit == "memory":
        monkeypatch.setattr(examination, "memory", lambda: 4 * 8 * 100 * 3 * 100 - 1)
    else:
        monkeypatch.setattr(examination, "MOST_WORK", 300 * 100**2 - 1)
    refuses(lambda: examine(problem, theta), "100 inputs x 4 tokens need")
    assert flip_distances(problem, theta).distance.shape == (100,)


def test_swaps_forecast_where_the_choice_is_not_optimal():
    asked = 0
    for seed in range(10):
        problem = random_problem(seed, n=2, T=3, d=6)
        theta = torch.randn(6, generator=seeded(seed), dtype=torch.float64)
        found = examine(problem, theta, settle=True)
        assert torch.equal(found.settled, swap_until_stable(problem, found.today))
        assert f"Swaps lead from today's choice to {found.settled[0]}, {found.settled[1]}." in str(found)
        asked += not torch.equal(found.settled, found.today)
    assert asked > 2
