"""Which tokens are picked, which neighbour them, and whether a pick can last."""

import pytest
import torch
from problems import random_problem

from lib import selection
from lib.datasets import figure_1
from lib.problem import Problem, difference_rows, from_tokens
from lib.separators import att_svm


def test_optimal_and_selected_tokens():
    problem = Problem([[[1.0], [0.0], [-1.0]], [[0.0], [2.0], [1.0]]], [[0.1, 0.3, 0.3], [5.0, 1.0, 0.0]])
    assert selection.optimal_tokens(problem).tolist() == [1, 0]  # the first of those that tie
    assert selection.selected_tokens(problem, torch.tensor([1.0])).tolist() == [0, 1]
    assert selection.selected_tokens(problem, torch.tensor([[1.0], [-1.0]])).tolist() == [[0, 1], [2, 0]]


@pytest.mark.parametrize(("selected", "others"), [(0, [1, 2, 3]), (2, [0, 1, 3]), (3, [0, 1, 2])])
def test_other_tokens(selected, others):
    assert selection.other_tokens(torch.tensor([selected]), 4).tolist() == [others]
    assert selection.other_tokens(torch.tensor([[selected], [1]]), 4).tolist() == [[others], [[0, 2, 3]]]


# Keys (-.1, 1), (1, 0), (0, 0). Token 2 is a trade-off of both others; only token 1 of panel (a) ties with its
# neighbour.
FIGURE_1 = [
    ("a", 0, [2], True),
    ("a", 1, [2], False),
    ("a", 2, [0, 1], False),
    ("b", 0, [2], True),
    ("b", 1, [2], True),
    ("b", 2, [0, 1], False),
]


@pytest.mark.parametrize(("panel", "token", "neighbours", "lasts"), FIGURE_1)
def test_neighbours_and_local_optimality_in_figure_1(panel, token, neighbours, lasts):
    problem, selected = from_tokens(*figure_1(panel)), torch.tensor([token])
    separator = att_svm(problem, selected)
    mask = selection.svm_neighbours(problem, selected, separator)
    assert torch.nonzero(mask[0]).flatten().tolist() == neighbours
    assert selection.locally_optimal(problem, selected, separator).item() is lasts


@pytest.mark.parametrize(("score", "lasts"), [(0.4, True), (0.5, False), (0.6, False)])
def test_local_optimality_compares_with_neighbours_only(score, lasts):
    # Token 1 is the neighbour of token 0, token 2 lies behind it and may score whatever it likes.
    problem, selected = Problem([[[1.0], [0.0], [-1.0]]], [[0.5, score, 9.0]]), torch.tensor([0])
    assert selection.locally_optimal(problem, selected, att_svm(problem, selected)).item() is lasts


def test_one_failing_input_is_enough():
    keys, scores = [[[1.0], [0.0]], [[1.0], [0.0]]], [[1.0, 0.0], [0.0, 1.0]]
    problem, selected = Problem(keys, scores), torch.tensor([0, 0])
    assert not selection.locally_optimal(problem, selected, att_svm(problem, selected))


def test_many_selections_of_one_problem():
    problem, tokens = from_tokens(*figure_1("b")), torch.tensor([[0], [1], [2]])
    separator = att_svm(problem, tokens)
    assert selection.locally_optimal(problem, tokens, separator).tolist() == [True, True, False]
    for k, selected in enumerate(tokens):
        alone = selection.svm_neighbours(problem, selected, att_svm(problem, selected))
        assert torch.equal(selection.svm_neighbours(problem, tokens, separator)[k], alone)


def test_token_margins():
    problem = Problem([[[1.0, 0.0], [0.0, 2.0], [0.5, 0.5]]], [[1.0, 0.0, 0.0]])
    margins = selection.token_margins(problem, torch.tensor([1]), torch.tensor([2.0, 3.0]))
    assert margins.tolist() == [[4.0, 0.0, 3.5]]


@pytest.mark.parametrize(("panel", "token", "gap"), [("a", 0, 0.1), ("a", 1, 0.0), ("b", 1, 0.9), ("b", 2, -1.0)])
def test_score_gap_in_figure_1(panel, token, gap):
    problem, selected = from_tokens(*figure_1(panel)), torch.tensor([token])
    assert selection.score_gaps(problem, selected, att_svm(problem, selected)).item() == pytest.approx(gap)


def test_score_gap_is_infinite_without_neighbours():
    problem, selected = Problem([[[1.0], [0.0]]], [[0.0, 1.0]]), torch.tensor([0])
    longer = att_svm(2 * torch.ones(1, 1))  # an SVM over other rows, whose margin no token is on
    assert selection.score_gaps(problem, selected, longer) == torch.inf


def test_score_leads_have_the_order_of_the_difference_rows():
    problem = random_problem(5, n=3, T=4, d=2)
    selected = torch.tensor([[0, 2, 3], [1, 1, 0]])
    as_keys = Problem(problem.scores[..., None], problem.scores)
    torch.testing.assert_close(selection.score_leads(problem, selected), difference_rows(as_keys, selected)[..., 0])
