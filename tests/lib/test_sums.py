"""Sums and means over inputs, tokens, rows and entries, by hand where the parts are unequal.

A maximum in place of a mean, a forgotten part or the arguments the other way round passes where all parts are alike,
as in many closed forms; here one part is far larger than the others, or the two sides are not symmetric.
"""

import math

import pytest
import torch
from problems import dense

from lib import losses
from lib.datasets import orthogonal_tokens
from lib.descent import decaying, iterate, normalised, run
from lib.geometry import bregman_divergence, inverse_mirror_map, mirror_map
from lib.intervals import mean_interval, median
from lib.joint import JointProblem, assumption_c, head_gradient, label_margin
from lib.logspace import excess_risk, gradient, log_mean_loss
from lib.losses import correlation, exponential, logistic, smoothness
from lib.problem import Problem
from lib.selection import limit_offset, locally_optimal, log_pulls, optimal_tokens, score_gaps
from lib.separators import att_svm, hard_margin, relaxed_att_svm
from lib.span import in_span

# Two inputs on the line: keys 3 and 0 with scores 2 and 0, keys -1 and 0 with scores 1 and .5.
UNEQUAL = Problem([[[3.0], [0.0]], [[-1.0], [0.0]]], [[2.0, 0.0], [1.0, 0.5]])
PROMPT = 0.3
FIRST, SECOND = 1 / (1 + math.exp(-3 * PROMPT)), 1 / (1 + math.exp(PROMPT))  # attention on the first tokens
MARGINS = 2 * FIRST, 0.5 + 0.5 * SECOND


def test_the_smoothness_constant_is_the_mean_over_inputs():
    """Sixteen inputs, the first ten times as long: the others count with a hundredth or a thousandth of it."""
    tokens = torch.zeros(16, 2, 2, dtype=torch.float64)
    tokens[:, 0, 0] = torch.tensor([10.0] + 15 * [1.0])
    tokens[:, 1, 1] = tokens[:, 0, 0]
    head, keys = torch.tensor([2.0, 0.0]).double(), torch.diag(torch.tensor([3.0, 1.0])).double()
    parts = [0.25 * 4 * 9 * size**4 + 3 * 2 * 9 * size**3 for size in (10, *15 * [1])]
    assert smoothness(logistic, tokens, head, keys) == pytest.approx(sum(parts) / 16)


def test_risk_gradient_and_excess_are_means_over_inputs():
    theta = torch.tensor([PROMPT]).double()
    losses_now = [math.log(1 + math.exp(-u)) for u in MARGINS]
    assert UNEQUAL.risk(logistic, theta) == pytest.approx(sum(losses_now) / 2)
    slopes = [-1 / (1 + math.exp(u)) for u in MARGINS]
    pulls = [3 * 2 * FIRST * (1 - FIRST), -0.5 * SECOND * (1 - SECOND)]
    expected = sum(slope * pull for slope, pull in zip(slopes, pulls, strict=True)) / 2
    assert dense(gradient(UNEQUAL, logistic, theta)) == pytest.approx(expected)
    excess = excess_risk(UNEQUAL, logistic, theta, [0, 0])
    best = (math.log(1 + math.exp(-2)) + math.log(1 + math.exp(-1))) / 2
    assert excess.log_scale.exp() == pytest.approx(sum(losses_now) / 2 - best)
    assert log_mean_loss(torch.tensor(MARGINS)).exp() == pytest.approx(sum(losses_now) / 2)


def test_equal_keys_count_as_one_token_with_their_mean_score():
    """Keys 1, 0, 0 with scores 0.5, 0.7, 0: the two at the origin together are worth 0.35."""
    problem = Problem([[[1.0], [0.0], [0.0]]], [[0.5, 0.7, 0.0]])
    p, share = 0.2, math.exp(0.2) / (math.exp(0.2) + 2)
    slope = share * (1 - share) * (0.5 - 0.35)
    assert dense(gradient(problem, correlation, torch.tensor([p]).double())) == pytest.approx(-slope)
    moved = run(problem, correlation, torch.zeros(1).double(), lambda grad, theta, k: -grad.direction, 1)
    assert moved.theta[-1] > 0  # towards the token that scores above the mean, though below the maximum
    far = excess_risk(problem, correlation, torch.tensor([1000.0]).double(), [0])
    assert (far.direction, far.log_scale) == (1, pytest.approx(math.log(2 * 0.15) - 1000))


def test_a_token_loses_to_all_others_together():
    """Three tokens with scores 1, .5, 0 and logits p, 0, -p: excess and pulls add over both others."""
    problem, p = Problem([[[1.0], [0.0], [-1.0]]], [[1.0, 0.5, 0.0]]), 0.7
    weights = [math.exp(p), 1.0, math.exp(-p)]
    lost = (0.5 * weights[1] + 1.0 * weights[2]) / sum(weights)
    found = excess_risk(problem, correlation, torch.tensor([p]).double(), [0])
    assert found.log_scale.exp() == pytest.approx(lost)
    assert log_pulls(problem, exponential, [0]).exp().tolist() == pytest.approx([0.5 / math.e, 1.0 / math.e])


def test_the_head_feels_the_mean_of_what_attention_passes_on():
    tokens = [[[4.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [1.0, 0.0]]]
    problem = JointProblem(tokens, [1.0, -1.0], keys=UNEQUAL.keys)
    head, theta = torch.tensor([1.0, 1.0]).double(), torch.tensor([PROMPT]).double()
    features = [[4 * FIRST, 1 - FIRST], [-(1 - SECOND), -2 * SECOND]]
    slopes = [-1 / (1 + math.exp(sum(one))) for one in features]
    expected = [sum(s * f[k] for s, f in zip(slopes, features, strict=True)) / 2 for k in (0, 1)]
    assert dense(head_gradient(problem, logistic, head, theta)).tolist() == pytest.approx(expected)
    assert label_margin(JointProblem(tokens, [1.0, 1.0]), torch.eye(2)[[0, 0]]) == pytest.approx(
        4 * 2 / math.hypot(4, 2)
    )


def test_offsets_weigh_each_row_by_its_own_multiplier():
    """Rows (1, 0) and (0, 2) with pulls 1 and 8: p_mm = (1, 1/2) with the multipliers 1 and 1/4."""
    problem = Problem([[[0.0, 0.0], [-1.0, 0.0], [0.0, -2.0]]], [[8.0, 7.0, 0.0]])
    svm = att_svm(problem)
    assert svm.duals.tolist() == pytest.approx([1.0, 0.25])
    across, along = limit_offset(problem, correlation, svm)
    first, second = across.tolist()
    assert (first + along, 2 * second + along) == (pytest.approx(0), pytest.approx(math.log(8 / 0.25)))
    assert first + second / 2 == pytest.approx(0)


def test_each_input_has_its_own_neighbours_and_its_own_requirement():
    """The least lead over neighbours of the second input decides; the first input's is larger."""
    problem = Problem([[[1.0, 0.0], [0.0, 0.0]], [[0.0, 1.0], [0.0, 0.0]]], [[3.0, 0.0], [1.0, 0.75]])
    svm = att_svm(problem)
    assert score_gaps(problem, optimal_tokens(problem), svm) == 0.25
    worse = Problem(problem.keys, [[3.0, 0.0], [1.0, 1.05]])
    assert not locally_optimal(worse, torch.tensor([0, 0]), svm)
    relaxed = relaxed_att_svm(problem, torch.tensor([0, 0]), torch.tensor([False, True]))
    assert relaxed.theta.tolist() == pytest.approx([0.0, 1.0])
    assert hard_margin(torch.tensor([[1.0, 0.0], [1.0, 2.0]])).duals.sum() == pytest.approx(1.0)


def test_assumption_c_asks_both_for_no_tie_and_for_a_multiplier():
    """The second token of the first input ties; then the second input lies beyond the margin."""
    tied = JointProblem([[[1.0, 0.0], [1.0, 2.0]], [[-1.0, 0.0], [0.0, 0.5]]], [1.0, -1.0])
    assert not assumption_c(tied).holds
    beyond = JointProblem([[[1.0, 0.0], [0.0, 0.0]], [[-3.0, 0.0], [0.0, 0.0]]], [1.0, -1.0])
    assert not assumption_c(beyond).holds
    both = JointProblem([[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]]], [1.0, -1.0])
    assert assumption_c(both).holds


@pytest.mark.parametrize("order", [1.5, 3.0])
def test_the_divergence_of_an_asymmetric_pair_by_hand(order):
    """psi(a) - psi(b) - <grad psi(b), a - b>, entries of both signs; the other way round it is another number."""
    a, b = torch.tensor([2.0, -1.0, 0.5]).double(), torch.tensor([0.5, -4.0, 0.6]).double()

    def by_hand(a, b):
        return sum(
            abs(x) ** order / order - abs(y) ** order / order - math.copysign(abs(y) ** (order - 1), y) * (x - y)
            for x, y in zip(a.tolist(), b.tolist(), strict=True)
        )

    assert bregman_divergence(a, b, order) == pytest.approx(by_hand(a, b), rel=1e-12)
    assert by_hand(b, a) != pytest.approx(by_hand(a, b), rel=0.1)


@pytest.mark.parametrize("order", [1.1, 1.5, 3.0])
def test_mirror_maps_are_odd(order):
    entries = torch.tensor([0.3, 0.9, 1.7]).double()
    both = torch.cat([entries, -entries])
    assert inverse_mirror_map(both, order).tolist() == pytest.approx(
        [math.copysign(abs(x) ** (1 / (order - 1)), x) for x in both.tolist()], rel=1e-12
    )
    assert mirror_map(both, order)[3:].tolist() == (-mirror_map(entries, order)).tolist()
    problem, theta = Problem([[[1.0, -1.0], [0.0, 0.0]]], [[1.0, 0.0]]), torch.tensor([0.4, -0.4]).double()
    moved = run(problem, logistic, theta, normalised(0.5), 3, norm=order).theta  # compiled
    assert moved[:, 1].tolist() == (-moved[:, 0]).tolist()


def test_records_are_of_the_iteration_that_they_name():
    count = iterate(lambda theta, k: torch.ones_like(theta), torch.zeros(1), 9, [0, 4, 9])
    assert (count.theta[:, 0].tolist(), count.times.tolist()) == ([0, 4, 9], [0, 4, 9])
    problem = Problem([[[1.0], [0.0]]], [[1.0, 0.0]])
    for rule, sizes in (
        (normalised(0.5), [0.5] * 6),
        (decaying(normalised(1.0), 1.0), [1 / (k + 1) for k in range(6)]),
    ):
        walked = run(problem, logistic, torch.zeros(1).double(), rule, 6, [0, 1, 5, 6])
        assert walked.theta[:, 0].tolist() == pytest.approx([sum(sizes[:k]) for k in (0, 1, 5, 6)])


def test_noise_moves_tokens_off_orthogonality_by_its_size():
    exact, noisy = (
        orthogonal_tokens(3, 3, 60, 5, torch.Generator().manual_seed(0), noise=noise).tokens for noise in (0.0, 0.3)
    )
    overlap = [
        (x.flatten(1, 2) @ x.flatten(1, 2).mT - torch.eye(9) * 1.0).tril(-1).abs().amax() for x in (exact, noisy)
    ]
    assert overlap[0] < 1e-6
    assert overlap[1] > 0.01


def test_coordinates_of_the_span_keep_unequal_products():
    problem = Problem([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 3.0], [0.0, 0.0]]], [[1.0, 0.0]] * 2, [[1.0, 2.0], [0.5, 0.0]])
    rows = torch.einsum("ntd,ne->ntde", problem.keys, problem.queries).flatten(2).flatten(0, 1)
    small = in_span(problem).keys.flatten(0, 1)
    torch.testing.assert_close(small @ small.mT, rows @ rows.mT)


def test_statistics_of_unequal_values():
    values = torch.tensor([1.0, 2.0, 3.0, 10.0, 100.0, 1000.0])
    assert median(values) == 6.5
    low, high = mean_interval([0.0, 0.0, 0.0, 12.0])  # mean 3, deviation 6, and 3.1824 for three degrees of freedom
    assert (low, high) == (pytest.approx(3 - 3 * 3.18245, rel=1e-4), pytest.approx(3 + 3 * 3.18245, rel=1e-4))


def test_every_loss_has_the_slope_of_its_value():
    for loss in (*losses.LOSSES.values(), losses.sigmoid, losses.cubic(-2.0)):
        for u in (-1.3, 0.4, 2.0):
            point = torch.tensor(u, dtype=torch.float64, requires_grad=True)
            (slope,) = torch.autograd.grad(loss.value(point), point)
            assert loss.slope(point.detach()) == pytest.approx(slope.item())
