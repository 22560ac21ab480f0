"""The papers' data: scores, keys and seeds."""

import pytest
import torch
from problems import seeded

from lib.datasets import figure_1, figure_3, on_sphere, scored_tokens
from lib.geometry import norm
from lib.problem import from_tokens


@pytest.mark.parametrize(("panel", "scores"), [("a", [1.0, 0.9, 0.9]), ("b", [1.0, 0.9, 0.0])])
def test_figure_1_a_and_b(panel, scores):
    problem = from_tokens(*figure_1(panel))
    assert problem.scores.tolist() == [scores]
    assert problem.keys.tolist() == [[[-0.1, 1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 0.0]]]


def test_figure_1_c():
    problem = from_tokens(*figure_1("c", seeded(0)))
    assert problem.keys.shape == (3, 7, 3)
    assert problem.scores.tolist() == 3 * [[1.0] + 6 * [0.5]]
    many = torch.stack([figure_1("c", seeded(seed)).tokens[..., :2] for seed in range(300)])
    centres = torch.tensor([[1.0, 0.0]] + 3 * [[-1.0, 1.0]] + 3 * [[-0.5, -0.5]]).expand(3, 7, 2)
    torch.testing.assert_close(many.mean(0), centres, rtol=0, atol=0.06)
    torch.testing.assert_close(many.std(0), torch.full((3, 7, 2), 0.2), rtol=0.2, atol=0)


def test_scored_tokens_put_any_score_at_any_key():
    positions, scores = torch.randn(4, 2, 3, 5, generator=seeded(1)), torch.randn(4, 2, 3, generator=seeded(2))
    problem = from_tokens(*scored_tokens(positions, scores))
    assert torch.equal(problem.scores, scores)
    assert torch.equal(problem.keys[..., :5], positions)
    assert (problem.keys[..., 5] == 0).all()


def test_on_sphere():
    data = on_sphere(3, 4, 5, 1000, seeded(0))
    assert data.tokens.shape == (1000, 3, 4, 5)
    torch.testing.assert_close(norm(data.tokens), torch.ones(1000, 3, 4))
    torch.testing.assert_close(norm(data.head), torch.ones(1000))
    assert set(data.labels.flatten().tolist()) == {-1.0, 1.0}
    assert data.labels.mean().abs() < 0.1
    assert from_tokens(*data).batch_shape == (1000,)


@pytest.mark.parametrize("make", [lambda g: figure_1("c", g), lambda g: on_sphere(2, 3, 4, 5, g)])
def test_the_generator_decides_everything(make):
    assert all(torch.equal(a, b) for a, b in zip(make(seeded(3)), make(seeded(3)), strict=True))
    assert not torch.equal(make(seeded(3)).tokens, make(seeded(4)).tokens)


@pytest.mark.parametrize(("panel", "height"), [("a", 1.0), ("b", 1.5)])
def test_figure_3(panel, height):
    tokens, labels = figure_3(panel)
    assert tokens[:, 0].tolist() == 3 * [[0.0, 0.0]]
    assert tokens[:, 1].tolist() == [[1.0, 1.0], [1.0, -1.0], [0.5, height]]
    assert labels.tolist() == [1.0, -1.0, 1.0]


def test_a_panel_that_figure_3_lacks_is_refused():
    with pytest.raises(ValueError, match="panel 'c' is unknown: use a or b"):
        figure_3("c")
