"""A separator whose rows are never formed: its certificate, and agreement with the exact one."""

from dataclasses import replace

import pytest
import torch
from problems import random_problem, refuses, seeded

from heads.separate import factored_separator
from lib.geometry import one_minus_cosine
from lib.problem import Problem, difference_rows
from lib.selection import selected_tokens
from lib.separators import att_svm


def separable(n=12, T=6, d=8, e=8, mask=None):
    """A problem with W and a choice that a random theta makes, so that it has a separator."""
    draw = seeded(0)
    keys, queries, theta = (
        torch.randn(*size, generator=draw, dtype=torch.float64) for size in ((n, T, d), (n, e), (d * e,))
    )
    scores = torch.randn(n, T, generator=draw, dtype=torch.float64)
    problem = Problem(keys, scores, queries, mask=mask)
    return problem, selected_tokens(problem, theta)


def some_hidden(n=12, T=6):
    mask = torch.ones(n, T, dtype=torch.bool)
    mask[1, 4:] = mask[5, :3] = False
    return mask


@pytest.mark.parametrize("mask", [None, some_hidden()], ids=["all seen", "some hidden"])
@pytest.mark.parametrize("gap", [2e-2, 1e-6])
def test_it_is_the_exact_separator_to_its_gap(gap, mask):
    problem, selected = separable(mask=mask)
    found, exact = factored_separator(problem, selected, gap, 20_000), att_svm(problem, selected)
    rows = difference_rows(problem, selected)
    assert found.gap <= gap
    assert found.theta.norm() >= exact.theta.norm() * (1 - 1e-9)
    assert found.theta.norm() * (1 - found.gap) <= exact.theta.norm() * (1 + 1e-9)
    assert one_minus_cosine(found.theta, exact.theta) <= gap
    torch.testing.assert_close(found.margins, rows @ found.theta)
    assert found.margins.min() >= 1 - 1e-9
    torch.testing.assert_close(rows.mT @ found.duals, found.theta)
    assert (found.duals >= 0).all()
    assert ((found.margins - exact.margins).abs() <= found.margin_error).all()


def test_with_a_prompt_and_the_highest_scores():
    problem = random_problem(1, n=2, T=4, d=12)
    found, exact = factored_separator(problem, gap=1e-6, iterations=20_000), att_svm(problem)
    assert one_minus_cosine(found.theta, exact.theta) <= 1e-6


def test_rows_of_very_different_lengths():
    problem, selected = separable()
    problem = replace(problem, keys=problem.keys * torch.logspace(-2, 2, 12)[:, None, None])
    found, exact = factored_separator(problem, selected, 1e-3, 20_000), att_svm(problem, selected)
    assert found.theta.norm() * (1 - 1e-3) <= exact.theta.norm() * (1 + 1e-9)


def test_in_float32_the_gap_is_met_too():
    problem, selected = separable()
    found = factored_separator(problem.to(torch.float32), selected)
    assert found.theta.dtype == torch.float32
    lowest = (difference_rows(problem, selected) @ found.theta.double()).min()
    assert found.theta.double().norm() / lowest <= att_svm(problem, selected).theta.norm() / (1 - 0.021)


REFUSED = {
    "no separator": (
        lambda: factored_separator(Problem([[[1.0], [0.0]], [[-1.0], [0.0]]], [[1.0, 0.0], [1.0, 0.0]]), iterations=50),
        "after 50 iterations, not 0.02: give more, or another choice, since this one may have no separator",
    ),
    "two equal tokens": (
        lambda: factored_separator(Problem([[[1.0], [1.0]]], [[1.0, 0.0]])),
        "token 1 of input 0 is equal to the selected one: nothing separates them",
    ),
    "a gap of one": (lambda: factored_separator(separable()[0], gap=1.0), "gap is 1.0: give a number between 0 and 1"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_solved_is_refused_in_a_sentence(case):
    refuses(*REFUSED[case])
