"""Flips by rounding: closed forms, what noise does to leads, and forecasts against counts."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from problems import refuses, seeded

from heads import bits
from heads.weights import Weights

N, T, D, H = 40, 6, 12, 5
PHI = torch.special.ndtr


def a_head(seed, inputs=N, size=H, width=D):
    """Weights of two Gaussian heads, and the choices of the second."""
    draw = seeded(seed)

    def normal(*shape):
        return torch.randn(*shape, generator=draw, dtype=torch.float64)

    query, key = normal(2, size, width), normal(2, size, width)
    weights = Weights(query, normal(2, size), key, key, normal(2, size), key.mT, normal(width), size**-0.5)
    tokens, queries = normal(inputs, T, width), normal(inputs, width)
    return weights, 1, bits.Choices(tokens, queries, bits.head_logits(weights, 1, tokens, queries))


def test_spreads_are_those_of_leads_under_noise():
    weights, head, choices = a_head(0, inputs=3)
    key_noise, query_noise = (torch.rand(H, 1, generator=seeded(k), dtype=torch.float64) for k in (1, 2))
    selected = choices.logits.argmax(-1, keepdim=True)
    draws = []
    for k in range(4000):
        draw = seeded(10 + k)
        key, query = (
            part[head] + noise * torch.randn(H, D, generator=draw, dtype=torch.float64)
            for part, noise in ((weights.key, key_noise), (weights.query, query_noise))
        )
        other = weights._replace(key=key[None], query=query[None], query_bias=weights.query_bias[1:])
        logits = bits.head_logits(other, 0, choices.tokens, choices.queries)
        draws.append(logits.gather(1, selected) - logits)
    wanted = torch.stack(draws).std(0)
    computed = bits.lead_spreads(weights, head, choices, key_noise, query_noise)
    assert computed.gather(1, selected).abs().max() == 0
    others = wanted > 0
    assert (computed[others] / wanted[others]).sub(1).abs().max() < 0.05


@pytest.mark.parametrize("tokens", [2, 3, 7, 40])
def test_equal_logits_leave_each_token_the_same_chance(tokens):
    share = bits.flip_probability(torch.zeros(1, tokens), torch.ones(1, tokens)).item()
    assert share == pytest.approx(1 - 1 / tokens, abs=1e-5)


@given(st.lists(st.floats(-3, 0), min_size=1, max_size=8), st.floats(0.1, 3))
def test_it_lies_between_the_nearest_token_alone_and_independent_ones(behind, spread):
    logits = torch.tensor([[0.0, *behind]], dtype=torch.float64)
    share = bits.flip_probability(logits, torch.full_like(logits, spread)).item()
    stays = PHI(-logits[0, 1:] / spread)
    assert 1 - stays.min() - 1e-6 <= share <= 1 - stays.prod() + 1e-6
    wider = bits.flip_probability(logits, torch.full_like(logits, 1.2 * spread)).item()
    assert wider >= share - 1e-9


def test_independent_noise_in_the_logits_is_what_it_assumes():
    logits = torch.tensor([0.0, -0.3, -0.8, -2.0], dtype=torch.float64)
    noisy = logits + 0.7 * torch.randn(100_000, 4, generator=seeded(0), dtype=torch.float64)
    counted = (noisy.argmax(-1) > 0).double().mean().item()
    spreads = torch.full((1, 4), 0.7 * math.sqrt(2), dtype=torch.float64)
    assert bits.flip_probability(logits[None], spreads).item() == pytest.approx(counted, abs=0.005)


def test_hidden_tokens_and_tokens_on_the_same_spot_never_overtake():
    logits = torch.tensor([[1.0, 0.5, -torch.inf, 1.0]])
    spreads = torch.tensor([[0.0, 1.0, 1.0, 0.0]])
    alone = bits.flip_probability(torch.tensor([[1.0, 0.5]]), torch.tensor([[0.0, 1.0]]))
    assert bits.flip_probability(logits, spreads).item() == pytest.approx(alone.item())


@pytest.mark.parametrize("by_row", [True, False])
@pytest.mark.parametrize("count", [2, 3, 8])
def test_rounding_moves_each_entry_by_half_a_step_at_most(by_row, count):
    matrices = torch.randn(2, H, D, generator=seeded(3), dtype=torch.float64)
    matrices[0, 0] = 0
    steps = bits.step_sizes(matrices, count, by_row)
    rounded = bits.rounded(matrices, steps)
    assert ((rounded - matrices).abs() <= steps / 2 + 1e-12).all()
    assert torch.allclose(bits.rounded(rounded, steps), rounded)
    assert len(rounded[1, 0].unique()) <= 2**count - 1
    assert (rounded.abs().amax() - matrices.abs().amax()).abs() < 1e-12  # the largest entry is one of the values
    assert len(steps.unique()) == (2 * H if by_row else 1)


@pytest.mark.parametrize("count", [0, 1, 17])
def test_other_numbers_of_bits_are_refused(count):
    refuses(lambda: bits.step_sizes(torch.ones(1, 2, 2), count), "bits is" if count else "bits")


@pytest.mark.parametrize(("count", "by_row"), [(3, True), (4, True), (4, False), (6, True)])
def test_the_forecast_is_the_share_that_is_counted(count, by_row):
    shares = [
        (bits.forecast(*head, count, by_row).mean(), bits.count_flips(*head, count, by_row).double().mean())
        for head in (a_head(seed, 100) for seed in range(60))
    ]
    forecast, counted = torch.tensor(shares).mean(0).tolist()
    assert counted == pytest.approx(forecast, rel=0.15)


def test_a_bias_of_each_place_joins_the_leads():
    weights, head, choices = a_head(0)
    lifted = choices._replace(logits=choices.logits + 100 * torch.eye(T)[2])
    assert bits.forecast(weights, head, lifted, 4).max() < 1e-9
    assert not bits.count_flips(weights, head, lifted, 4).any()


def test_choices_flip_where_the_keys_change_sides():
    weights, head, choices = a_head(0)
    key, query = weights.key[head], weights.query[head]
    assert not bits.flipped(weights, head, choices, key, query).any()
    assert not bits.flipped(weights, head, choices, 2 * key, query).any()
    assert bits.flipped(weights, head, choices, -key, query).all()


def test_so_many_bits_and_not_one_less():
    weights, head, choices = a_head(1)
    needed = bits.fewest_bits(weights, head, choices)
    assert bits.forecast(weights, head, choices, needed).mean() <= 0.05
    assert bits.forecast(weights, head, choices, needed - 1).mean() > 0.05
    assert bits.fewest_bits(weights, head, choices, kept=0.99) > needed
    tied = choices._replace(logits=torch.zeros(N, T, dtype=torch.float64))
    assert bits.fewest_bits(weights, head, tied) is None
