"""Swaps of selected tokens for neighbours that score higher."""

import pytest
import torch
from problems import random_problem, seeded

from heads.swaps import swap_until_stable
from lib import selection
from lib.problem import Problem
from lib.separators import att_svm


def test_swaps_end_on_a_selection_that_is_locally_optimal():
    ended = 0
    for seed in range(20):
        problem = random_problem(seed, n=2, T=4, d=3, queries=2)
        theta = torch.randn(6, generator=seeded(seed), dtype=torch.float64)
        start = selection.selected_tokens(problem, theta)
        chosen = swap_until_stable(problem, start)
        separator = att_svm(problem, chosen)
        scores = problem.scores.gather(-1, chosen[:, None]).sum(), problem.scores.gather(-1, start[:, None]).sum()
        assert scores[0] >= scores[1]
        assert separator.feasible
        found, _ = selection.locally_optimal_selections(problem)
        ended += chosen.tolist() in found.tolist()
        if start.tolist() in found.tolist():
            assert torch.equal(chosen, start)
    assert ended == 20


def test_a_selection_without_a_separator_cannot_settle():
    problem = Problem([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, 0.0]]], [[1.0, 0.0], [1.0, 0.0]])
    with pytest.raises(ValueError, match=r"selected is \[0, 0\], which nothing separates"):
        swap_until_stable(problem, [0, 0])
