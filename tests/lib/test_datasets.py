"""The papers' data: scores, keys and seeds."""

import pytest
import torch
from problems import seeded

from lib.datasets import (
    accepted,
    figure_1,
    figure_3,
    head_with_scores,
    on_sphere,
    one_best,
    orthogonal_tokens,
    scored_tokens,
    signal_tokens,
)
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


@pytest.mark.parametrize(("panel", "height"), [("a", 1.0), ("b", 1.5)])
def test_figure_3(panel, height):
    tokens, labels = figure_3(panel)
    assert tokens[:, 0].tolist() == 3 * [[0.0, 0.0]]
    assert tokens[:, 1].tolist() == [[1.0, 1.0], [1.0, -1.0], [0.5, height]]
    assert labels.tolist() == [1.0, -1.0, 1.0]


# --- self-attention


def gram(tokens):
    rows = tokens.flatten(-3, -2)
    return rows @ rows.mT


@pytest.mark.parametrize("d", [6, 40])
def test_orthogonal_tokens(d):
    data = orthogonal_tokens(2, 3, d, 200, seeded(0))
    assert data.tokens.shape == (200, 2, 3, d)
    torch.testing.assert_close(gram(data.tokens), torch.eye(6).expand(200, 6, 6), rtol=0, atol=1e-12)
    assert set(data.labels.flatten().tolist()) == {-1.0, 1.0}
    assert data.labels.mean().abs() < 0.2
    assert torch.equal(data.queries, data.tokens[:, :, 0])
    assert data.tokens.mean(0).abs().max() < 4 / (200 * d) ** 0.5  # no coordinate is preferred: uniform


def test_nearly_orthogonal_tokens():
    tokens = orthogonal_tokens(2, 3, 400, 200, seeded(0), noise=0.5).tokens
    lengths = norm(tokens) ** 2
    torch.testing.assert_close(lengths.mean(), torch.tensor(1.25), rtol=0, atol=0.01)
    across = gram(tokens) - torch.diag_embed(lengths.flatten(1))
    assert 0 < across.abs().max() < 0.35
    assert across.mean().abs() < 0.01


def test_a_head_with_any_scores():
    data = orthogonal_tokens(2, 3, 10, 5, seeded(1), noise=0.3)
    scores = torch.randn(5, 2, 3, generator=seeded(2))
    head = head_with_scores(*data, scores)
    torch.testing.assert_close(from_tokens(*data, head).scores, scores)
    rows = data.tokens.flatten(1, 2)
    weights = torch.linalg.solve(gram(data.tokens), (data.labels[..., None] * scores).flatten(1))
    torch.testing.assert_close(head, torch.einsum("rmd,rm->rd", rows, weights))  # in their span: the shortest


@pytest.mark.parametrize("top", [None, 1.5])
@pytest.mark.parametrize("equal", [True, False])
def test_one_best_score(top, equal):
    scores = one_best(2, 5, 4000, seeded(0), top, equal)
    ranked = scores.sort(-1, descending=True).values
    lead = ranked[..., :1] - ranked[..., 1:]
    assert (lead.amin(), lead.amax()) == (pytest.approx(0.2, abs=0.01), pytest.approx(1.2, abs=0.01))
    assert ((lead.amax(-1) - lead.amin(-1)).abs() < 1e-12).all() == equal
    places = torch.bincount(scores.argmax(-1).flatten(), minlength=5)
    assert (places / 8000 - 1 / 5).abs().max() < 0.02
    highest = ranked[..., 0]
    if top is None:
        assert (highest.amin(), highest.amax()) == (pytest.approx(0, abs=0.01), pytest.approx(2, abs=0.01))
        assert (highest.std(-1) > 0).all()  # each input's its own
    else:
        assert (highest == top).all()


def test_draws_end_with_the_last_that_is_wanted():
    drawn = []

    def draw():
        drawn.append(len(drawn))
        return drawn[-1] if drawn[-1] % 3 == 0 else None  # 0 is a result, too

    assert accepted(draw, 3, 100) == [0, 3, 6]
    assert len(drawn) == 7  # whoever shares the generator goes on from here
    assert accepted(draw, 3, 4) == [9]
    assert len(drawn) == 11


def test_signal_tokens():
    data, signal = signal_tokens(4, 5, 100, 300, seeded(5))
    assert data.tokens.shape == (300, 4, 5, 100)
    here = torch.nn.functional.one_hot(signal, 5).bool()
    own = data.tokens[here].unflatten(0, (300, 4))
    torch.testing.assert_close(norm(own), torch.ones(300, 4))
    same = data.labels[:, :, None] == data.labels[:, None]
    torch.testing.assert_close(own @ own.mT, same.double(), rtol=0, atol=1e-12)
    across = torch.einsum("rntd,rmd->rntm", data.tokens, own)
    assert across[~here].abs().max() < 1e-12
    noise = norm(data.tokens)[~here] ** 2
    torch.testing.assert_close(noise.mean(), torch.tensor(0.98), rtol=0, atol=0.01)
    assert torch.bincount(signal.flatten()).tolist() == pytest.approx(5 * [240], abs=60)
    assert data.labels.mean().abs() < 0.1


def test_signals_are_uniform():
    data, signal = signal_tokens(1, 2, 4, 4000, seeded(6))
    own = data.tokens[torch.nn.functional.one_hot(signal, 2).bool()]
    assert own.mean(0).abs().max() < 0.05
    torch.testing.assert_close(own.T @ own / 4000, torch.eye(4) / 4, rtol=0, atol=0.02)


@pytest.mark.parametrize(
    "make",
    [
        lambda g: figure_1("c", g).tokens,
        lambda g: on_sphere(2, 3, 4, 5, g).tokens,
        lambda g: orthogonal_tokens(2, 2, 5, 3, g, 0.1).tokens,
        lambda g: signal_tokens(2, 3, 4, 5, g)[0].tokens,
    ],
)
def test_the_generator_decides_everything(make):
    assert torch.equal(make(seeded(3)), make(seeded(3)))
    assert not torch.equal(make(seeded(3)), make(seeded(4)))
