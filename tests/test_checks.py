"""Good input is taken as it is; test_refusals has the bad."""

import pytest
import torch

from lib import checks
from lib.problem import Problem


@pytest.mark.parametrize("value", [[1, -1], torch.tensor([[1, -1], [-1, -1]]), torch.tensor(1)])
def test_good_labels_become_floats(value):
    assert checks.labels(value).dtype == torch.float64


def test_whole_numbers_and_lists_are_welcome():
    problem = Problem([[[1], [0]]], [[1, 0]])
    assert problem.keys.dtype == problem.scores.dtype == torch.float64
    assert problem.logits([2]).tolist() == [[2.0, 0.0]]
