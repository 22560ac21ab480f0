"""MiniLM's heads and one layer on its tokens: recorded arrays, closed forms, and the model's own attention."""

import hashlib
import math
from pathlib import Path

import numpy as np
import pytest
import torch

from heads import bits, state_weights
from lib.geometry import norm, one_minus_cosine
from lib.problem import Problem, difference_rows
from lib.selection import locally_optimal, optimal_tokens
from lib.separators import hard_margin
from studies import archives, frozen_tokens, minilm, mirrored, real_heads, real_transformer

FOLDER = Path(__file__).parents[2] / "book" / "recorded" / "minilm"


@pytest.fixture
def draw():
    return torch.Generator().manual_seed(0)


@pytest.fixture
def texts(draw):
    """Four texts of random tokens, of two layers."""
    lengths = torch.tensor([9, 6, 8, 7])
    total = int(lengths.sum())
    return real_heads.as_texts({
        "lengths": lengths.byte().numpy(), "labels": np.array([1, -1, 1, -1], np.int8),
        "tokens": torch.randn(2, total, minilm.WIDTH, generator=draw).half().numpy(),
        "kinds": torch.randint(5, (total,), generator=draw).byte().numpy(),
    })  # fmt: skip


@pytest.fixture
def weights(draw):
    def drawn(*shape):
        return torch.randn(2, *shape, generator=draw) / minilm.WIDTH**0.5

    return {side: drawn(minilm.WIDTH, minilm.WIDTH) for side in ("query", "key")} | {
        f"{side}_bias": drawn(minilm.WIDTH) for side in ("query", "key")
    }


def test_recorded_arrays_are_those_of_their_record_with_their_license():
    known = archives.recorded("minilm", FOLDER.parent)["reviews"]["found"]["reviews.npz"]
    assert hashlib.sha256((FOLDER / "reviews.npz").read_bytes()).hexdigest() == known
    assert (FOLDER / "reviews.npz").stat().st_size < 12e6
    assert "Version 2.0, January 2004" in (FOLDER / "LICENSE").read_text("utf-8")
    assert "Apache License 2.0" in (FOLDER / "NOTICE").read_text("utf-8")


def test_recorded_choices_are_those_of_the_recorded_weights_but_for_float16():
    with np.load(FOLDER / "reviews.npz") as kept:
        arrays = dict(kept)
    texts = real_heads.as_texts(arrays)
    weights = {name: torch.as_tensor(arrays[name]).float() for name in ("query", "key", "query_bias", "key_bias")}
    selects = real_heads.selects(texts, weights)
    assert selects.shape == arrays["selects"].shape == (minilm.LAYERS, minilm.HEADS, int(texts.there.sum()))
    assert (selects != torch.as_tensor(arrays["selects"]).long()).double().mean() < 1e-3
    first = torch.as_tensor(arrays["kinds"])[torch.as_tensor(arrays["lengths"]).long().cumsum(0)[:-1]]
    assert (first == real_heads.KINDS.index("[CLS]")).all()


def test_attention_is_that_of_the_model(texts, weights):
    name = "encoder.layer.0."
    full = {
        f"{name}{minilm.MATRICES[side]}.{part}": weights[f"{side}{'_bias' * (part == 'bias')}"][0].float()
        for side in ("query", "key")
        for part in ("weight", "bias")
    }
    zero = torch.zeros(minilm.WIDTH, minilm.WIDTH, dtype=torch.float32)
    for other in (*(minilm.MATRICES[kind] for kind in ("value", "output", "up", "down")),
                  "attention.output.LayerNorm", "output.LayerNorm"):  # fmt: skip
        full |= {f"{name}{other}.weight": zero[0] if "Norm" in other else zero, f"{name}{other}.bias": zero[0]}
    _, attention = minilm.layer(full, 0, texts.tokens[0], texts.there)
    call, _ = next(real_heads.attentions(texts, weights))
    torch.testing.assert_close(call.shares()[:, :, 0], attention, rtol=1e-4, atol=1e-6)


def test_forecast_and_count_are_those_of_the_library_on_one_head(texts, weights):
    found = real_heads.of_heads(texts, weights, bits=(3, 4))
    place, at = texts.there.nonzero(as_tuple=True)
    tokens, queries = texts.tokens[1, place].double(), texts.tokens[1, place, at].double()

    eye = torch.eye(minilm.WIDTH)
    head = state_weights({
        "q_proj.weight": weights["query"][1], "q_proj.bias": weights["query_bias"][1],
        "k_proj.weight": weights["key"][1], "k_proj.bias": weights["key_bias"][1],
        "v_proj.weight": eye, "v_proj.bias": 0 * eye[0], "out_proj.weight": eye, "out_proj.bias": 0 * eye[0],
    }, minilm.HEADS)  # fmt: skip
    logits = bits.head_logits(head, 5, tokens, queries).masked_fill(~texts.there[place], -math.inf)
    choices = bits.Choices(tokens, queries, logits)
    for k, number in enumerate((3, 4)):
        told, seen = (part(head, 5, choices, number).double() for part in (bits.forecast, bits.count_flips))
        assert found["forecast"][1, 5, k].item() == pytest.approx(told.mean().item(), rel=1e-3)
        assert found["counted"][1, 5, k].item() == pytest.approx(seen.mean().item(), abs=1e-6)


def test_bits_are_the_fewest_from_which_on_few_choices_flip():
    shares = torch.tensor([[0.3, 0.04, 0.06, 0.05, 0.01], [0.01] * 5, [0.5] * 5])
    assert real_heads.fewest(shares, bits=(2, 3, 4, 5, 6)).tolist() == [5, 2, 7]


def test_w_gives_the_leads_of_the_heads(texts, weights):
    (matrices, *_), (call, _) = real_heads.bilinear(weights), next(real_heads.attentions(texts, weights))
    tokens = texts.tokens[0, 0].double()
    logits = tokens @ matrices @ torch.nn.functional.pad(tokens[3], (0, 1), value=1.0)
    leads = logits - logits[:, :1]
    known = call.logits[0, :, 3].double()
    torch.testing.assert_close(leads, known - known[:, :1], rtol=1e-4, atol=1e-5)
    sizes = torch.linalg.svdvals(matrices[..., :-1])[:, : real_heads.SIZE]
    torch.testing.assert_close(real_heads.spectra(weights)[0], sizes)


def test_a_head_that_is_the_separator_of_its_choices_has_cosine_and_share_1(texts, draw, monkeypatch):
    monkeypatch.setattr(real_heads, "QUERIES", 4)
    problem = real_heads.asked(texts, 0, draw, 4)
    selected = torch.tensor([1, 2, 0, 3])
    best = hard_margin(difference_rows(problem, selected).unique(dim=0)).theta
    monkeypatch.setattr(real_heads, "asked", lambda *_: problem)
    found = real_heads._against(texts, 0, best.unflatten(0, (minilm.WIDTH, -1))[None], draw)
    assert found["cosine"].item() == pytest.approx(1, abs=1e-9)
    assert found["best"].item() == pytest.approx(1, abs=1e-9)
    assert found["random_best"].item() < 0.5
    assert 0 < found["lead"].item() <= 1 + 1e-9  # below its ceiling


def test_rotated_coordinates_take_a_spike_away(weights, draw):
    spiky = weights | {side: weights[side].clone() for side in ("query", "key")}
    for side in ("query", "key"):
        spiky[side][..., 7] *= 30
    assert real_heads.outliers(spiky, 1) == [7]
    assert real_heads.lean_of_weights(spiky, draw).median() < -0.5
    assert real_heads.lean_of_weights(spiky, draw, [7]).abs().median() < 0.5


def test_one_layer_takes_the_head_and_query_that_its_docstring_names(texts):
    problem = frozen_tokens.problem_of(texts, torch.arange(4))
    sizes = problem.keys[problem.mask].square().sum(-1)
    assert sizes.mean().item() == pytest.approx(1)
    assert torch.equal(problem.queries, problem.keys[:, 0])
    means = problem.keys.sum(1) / texts.there.sum(1, keepdim=True)
    head = texts.labels @ (means - problem.keys[problem.mask].mean(0))
    torch.testing.assert_close(problem.scores[0, :9], problem.keys[0, :9] @ head / head.norm())


def test_choices_with_one_runner_up_differ_from_the_best_in_one_input(texts):
    problem = frozen_tokens.problem_of(texts, torch.arange(4))
    best, near = optimal_tokens(problem), frozen_tokens.runners_up(problem, 3)
    assert ((near != best).sum(-1) == 1).all()
    scores = problem.seen(problem.scores)
    for k, choice in enumerate(near):
        assert (scores[k] > scores[k, choice[k]]).sum() == 1


def test_on_orthogonal_tokens_descent_ends_on_the_best_at_the_predicted_rate(texts, monkeypatch):
    monkeypatch.setattr(frozen_tokens, "STEPS", 3000)
    problem = frozen_tokens.orthogonal(frozen_tokens.problem_of(texts, torch.arange(4)))
    best = optimal_tokens(problem)
    rows = difference_rows(problem, best)
    assert (rows @ rows.mT).diagonal().sub(2).abs().max() < 1e-12
    (separator,) = frozen_tokens.separators(problem, [best])
    length = norm(separator.theta)
    selected, path = frozen_tokens.descended(problem, torch.zeros_like(separator.theta)[None], length)
    assert torch.equal(selected[0], best)
    power, error = frozen_tokens.rates(problem, separator, path[:, 0], best, length)
    assert power < -0.5
    assert error < 0.05
    ends = frozen_tokens.other_rules(problem, length)
    slow = frozen_tokens.log_elsewhere(problem, ends["GD"], best)
    assert (slow > frozen_tokens.log_elsewhere(problem, path[-1, 0], best) + math.log(100)).all()


@pytest.fixture
def few_tokens(draw):
    """Four inputs of up to five tokens, with a matrix of 8 x 3 entries."""
    keys, queries, scores = (torch.randn(*shape, generator=draw).double() for shape in ((4, 5, 8), (4, 3), (4, 5)))
    mask = torch.ones(4, 5, dtype=torch.bool)
    mask[1, 3:] = False
    return Problem(keys, scores, queries, mask=mask)


@pytest.mark.parametrize("order", mirrored.ORDERS)
def test_a_separator_from_its_dual_is_that_of_the_solver(few_tokens, order):
    local = set()
    for selected in (optimal_tokens(few_tokens), *frozen_tokens.runners_up(few_tokens, 4), torch.zeros(4).long()):
        exact = hard_margin(difference_rows(few_tokens, selected), order)
        nearly = mirrored.in_norm(few_tokens, selected, order)
        assert exact.feasible
        assert 0 <= nearly.gap < 1e-5
        assert one_minus_cosine(nearly.theta, exact.theta) < 1e-6
        assert norm(nearly.theta, order).item() == pytest.approx(norm(exact.theta, order).item(), rel=1e-5)
        assert mirrored.lasts(few_tokens, selected, nearly) == locally_optimal(few_tokens, selected, exact)
        local.add(mirrored.lasts(few_tokens, selected, nearly))
    assert local == {True, False}


def test_a_choice_of_many_support_vectors_has_the_separator_of_the_solver(draw):
    """A random choice of 40 inputs, where nearly every token of every input is a support vector."""
    parts = (torch.randn(*shape, generator=draw).double() for shape in ((40, 6, 20), (40, 6), (40, 20)))
    problem = Problem(*parts, mask=torch.ones(40, 6, dtype=torch.bool))
    selected = frozen_tokens.random_selections(problem, 1, draw)[0]
    exact, nearly = hard_margin(difference_rows(problem, selected)), mirrored.in_norm(problem, selected)
    assert exact.feasible
    assert (nearly.weights > 0).sum() > 60
    assert nearly.gap < 1e-9
    assert norm(nearly.theta).item() == pytest.approx(norm(exact.theta).item(), rel=1e-9)


def test_tokens_that_nothing_separates_have_a_gap_of_one():
    keys = torch.tensor([[[0.1, 0.0], [1.0, 0.2], [-1.0, 0.1], [0.0, -1.0]]]).double()
    problem = Problem(keys, keys[..., 0], keys[:, 1], mask=torch.ones(1, 4, dtype=torch.bool))
    assert mirrored.in_norm(problem, torch.tensor([0])).gap >= 1


@pytest.mark.parametrize("order", mirrored.ORDERS)
def test_mirror_descent_ends_nearest_the_separator_of_its_norm(few_tokens, order):
    found = mirrored.from_zero(few_tokens, order, 400)
    assert min(found["apart"]) == found["apart"][mirrored.ORDERS.index(order)]
    assert found["gap"] < mirrored.GAP


def test_pieces_have_the_kind_of_their_word():
    names = [real_heads.KINDS[real_transformer.kind_of(*each)] for each in (
        ("[CLS]", False), ("…", False), ("$", True), ("not", True), ("##ly", False))]  # fmt: skip
    assert names == ["[CLS]", "punctuation", "punctuation", "function words", "content words"]
