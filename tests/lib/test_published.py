"""The published recipe is the same descent: with digits enough and no epsilon it cannot be told from the exact one."""

import pytest
import torch
from problems import dense, random_data, random_theta, seeded

from lib import losses, published
from lib.datasets import DataSet, figure_1, figure_3
from lib.descent import constant, normalised, run
from lib.geometry import norm
from lib.joint import JointProblem, head_gradient
from lib.joint import run as joint_run
from lib.logspace import gradient
from lib.problem import from_tokens


@pytest.mark.parametrize("loss", [losses.logistic, losses.correlation], ids=lambda loss: loss.name)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_gradients_are_the_exact_ones_where_nothing_saturates(loss, dtype, tolerance):
    data = DataSet(**random_data(0, n=3, T=4, d=3))
    problem, p = from_tokens(*data), random_theta(0, from_tokens(*data), starts=(5,))
    of_head, of_p = published.gradients(data, loss, p, dtype)
    assert (of_head.dtype, of_p.dtype) == (dtype, dtype)
    torch.testing.assert_close(of_p.double(), dense(gradient(problem, loss, p)), rtol=tolerance, atol=tolerance)
    joint = JointProblem(data.tokens, data.labels, problem.keys)
    exact = dense(head_gradient(joint, loss, data.head, p)).sum(0)
    torch.testing.assert_close(of_head.double(), exact, rtol=tolerance, atol=tolerance)


def test_with_digits_and_no_epsilon_it_is_normalised_descent():
    data = figure_1("c", seeded(0))
    start = torch.randn(4, 3, generator=seeded(1))
    ours = published.descend(data, losses.logistic, start, 0.1, 20, 1e-300, torch.float64)
    exact = run(from_tokens(*data), losses.logistic, start, normalised(0.1), 20).theta
    torch.testing.assert_close(ours, exact, rtol=0, atol=1e-10)


def test_a_trained_head_moves_beside_the_prompt():
    tokens, labels = figure_3("b")
    head, p = torch.tensor([-1.0, 0.0]), torch.tensor([0.0, -1.0])
    ours = published.descend(
        DataSet(tokens, labels, head, torch.eye(2)),
        losses.logistic,
        p,
        0.1,
        20,
        1e-300,
        torch.float64,
        head_epsilon=1e-300,
    )
    rule = normalised(0.1)
    exact = joint_run(JointProblem(tokens, labels), losses.logistic, head, p, rule, rule, 20)[1].theta
    torch.testing.assert_close(ours, exact, rtol=0, atol=1e-10)


def test_epsilon_shortens_the_step():
    data, start = figure_1("a"), torch.tensor([[0.0, 1.0, 0.0], [0.0, -1.0, 0.0]])
    path = published.descend(data, losses.correlation, start, 0.5, 1, torch.tensor([[0.0], [0.25]]))
    size = norm(dense(gradient(from_tokens(*data), losses.correlation, start)))
    expected = 0.5 * size / (size + torch.tensor([0.0, 0.25]))
    torch.testing.assert_close(norm(path[1] - path[0]), expected, rtol=1e-5, atol=0)


def test_in_single_precision_it_stalls_where_exact_descent_goes_on():
    data, start = figure_1("a"), torch.zeros(3)
    path = published.descend(data, losses.logistic, start, 1.0, 300, 1e-10)
    assert norm(path[-1]) < 30
    assert norm(path[-1] - path[-2]) < 0.1
    assert norm(run(from_tokens(*data), losses.logistic, start, normalised(1.0), 300, [300]).theta[0]) > 200


def test_the_authors_draw_gives_the_numbers_of_their_figures():
    """Stars of Figure 1(c), norms of Figure 4's blue curve, and the iteration where 32 bits leave the exact path."""
    data = figure_1("c")
    stars = [[0.775, -0.231], [0.689, -0.068], [0.942, 0.011]]
    torch.testing.assert_close(data.tokens[:, 0, :2], torch.tensor(stars), rtol=0, atol=1e-3, check_dtype=False)
    problem, start = from_tokens(*data), torch.zeros(3)
    steady = norm(run(problem, losses.logistic, start, constant(1.0), 200).theta)[[50, 100, 150, 199]]
    torch.testing.assert_close(steady, torch.tensor([2.29, 3.16, 3.58, 3.85]), rtol=0, atol=0.01, check_dtype=False)
    in_32_bits = published.descend(data, losses.logistic, start, 0.1, 200, 1e-12)
    exact = run(problem, losses.logistic, start, normalised(0.1), 200).theta
    assert 120 < (norm(in_32_bits - exact) > 0.1).double().argmax() < 160
