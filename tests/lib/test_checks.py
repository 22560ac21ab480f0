"""Good input is taken as it is, in its own dtype; test_refusals has the bad."""

import numpy as np
import pytest
import torch
from problems import seeded

from lib import checks, losses
from lib.logspace import gradient
from lib.problem import Problem, from_tokens


@pytest.mark.parametrize("value", [[1, -1], torch.tensor([[1, -1], [-1, -1]]), torch.tensor(1)])
def test_good_labels_become_floats(value):
    assert checks.labels(value).dtype == torch.float64


@pytest.mark.parametrize(
    ("keys", "scores", "dtype"),
    [
        ([[[1], [0]]], [[1, 0]], torch.float64),
        (np.ones((1, 2, 1)), [[1, 0]], torch.float64),
        (np.ones((1, 2, 1), np.float32), [[1, 0]], torch.float32),
        (np.ones((1, 2, 1), int), np.ones((1, 2), np.float32), torch.float32),
        (torch.ones(1, 2, 1, dtype=torch.float32), torch.ones(1, 2, dtype=torch.int64), torch.float32),
        (torch.ones(1, 2, 1, dtype=torch.float32), [[0.5, 0.1]], torch.float32),
        (torch.ones(1, 2, 1, dtype=torch.float32), np.ones((1, 2)), torch.float64),
        (torch.ones(1, 2, 1, dtype=torch.float32), torch.ones(1, 2, dtype=torch.float64), torch.float64),
    ],
)
def test_a_problem_has_the_dtype_of_its_arrays(keys, scores, dtype):
    problem = Problem(keys, scores)
    assert problem.keys.dtype == problem.scores.dtype == dtype
    assert problem.attention([1.0]).dtype == dtype
    assert gradient(problem, losses.logistic, torch.ones(1, dtype=torch.float64)).direction.dtype == torch.float64
    assert gradient(problem, losses.logistic, torch.ones(1, dtype=torch.float32)).direction.dtype == dtype


def test_a_nonlinear_head_sees_its_own_dtype():
    def head(features):
        assert features.dtype == torch.float32
        return features.sum(-1) ** 3

    problem = from_tokens(torch.randn(2, 3, 4, dtype=torch.float32, generator=seeded(0)), [1, -1], head)
    assert problem.to(torch.float64).risk(losses.logistic, torch.zeros(4)).dtype == torch.float64
    assert gradient(problem, losses.logistic, torch.zeros(4)).direction.dtype == torch.float64
