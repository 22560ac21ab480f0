"""Steepest descent by its definition, memory by hand, and the limits of saturation."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import random_problem, random_theta, seeded

from lib import geometry, joint, losses, steepest
from lib.descent import constant, decaying, normalised, run
from lib.logspace import LogScaled, gradient
from lib.problem import Problem

NORMS = [1, 1.5, 2.0, 3.0, math.inf, "spectral", "nuclear"]
SHAPE = (3, 4)


def grad(direction, log_scale=0.0):
    return LogScaled(torch.tensor(direction, dtype=torch.float64), torch.tensor(log_scale, dtype=torch.float64))


@pytest.mark.parametrize("norm", NORMS)
@given(seed=st.integers(0, 10**6), size=st.floats(-100, 100))
@settings(max_examples=25, deadline=None)
def test_the_steepest_direction_reaches_the_dual_norm(norm, seed, size):
    vectors = 10.0**size * torch.randn(2, 12, generator=seeded(seed), dtype=torch.float64)
    direction = steepest.steepest_direction(vectors, norm, SHAPE)
    torch.testing.assert_close(geometry.norm(direction, norm, SHAPE), torch.ones(2).double())
    reached = (vectors * direction).sum(-1)
    torch.testing.assert_close(reached, geometry.norm(vectors, geometry.dual(norm), SHAPE), rtol=1e-9, atol=0)


@pytest.mark.parametrize("norm", NORMS)
def test_a_zero_gradient_makes_no_step(norm):
    assert (steepest.steepest(1.0, norm, SHAPE)(grad([0.0] * 12), torch.zeros(12), 0) == 0).all()


def test_euclid_is_normalised_descent_at_any_saturation():
    problem = random_problem(0, n=2, T=4, d=3)
    start = random_theta(0, problem, length=1e4)
    paths = [run(problem, losses.logistic, start, rule(0.1), 20) for rule in (normalised, steepest.steepest)]
    torch.testing.assert_close(paths[0].theta, paths[1].theta)


def test_blocks_take_their_own_steps():
    vector = torch.tensor([3.0, 4.0, 1.0, 0.0, 0.0, -9.0]).double()
    direction = steepest.steepest_direction(vector, [(2.0, (2,)), ("spectral", (2, 2))])
    torch.testing.assert_close(direction, torch.tensor([0.6, 0.8, 1.0, 0.0, 0.0, -1.0]).double())


def test_momentum_by_hand_also_far_below_any_float():
    for nesterov, expected in ((False, [-1.0, -1.5]), (True, [-1.5, -1.75])):
        rule = steepest.momentum(lambda g, theta, k: -g.direction * (g.log_scale + 5000.0).exp(), 0.5, nesterov)
        steps = [rule(grad([1.0], -5000.0), None, k).item() for k in (0, 1, 0)]
        assert steps == pytest.approx([*expected, expected[0]])  # step 0 forgets


@pytest.mark.parametrize("corrected", [True, False])
@pytest.mark.parametrize("epsilon", [0.0, 1e-8, 1.0])
def test_adam_against_its_recursion(corrected, epsilon):
    gradients = torch.randn(30, 5, generator=seeded(1), dtype=torch.float64)
    rule, m, v = steepest.adam(0.1, (0.9, 0.99), epsilon, corrected), torch.zeros(5), torch.zeros(5)
    for k, one in enumerate(gradients):
        m, v = 0.9 * m + 0.1 * one, 0.99 * v + 0.01 * one**2
        first, second = (1 - 0.9 ** (k + 1), 1 - 0.99 ** (k + 1)) if corrected else (1, 1)
        expected = -0.1 * (m / first) / ((v / second).sqrt() + epsilon)
        torch.testing.assert_close(rule(LogScaled(one * 4, torch.tensor(-math.log(4.0)).double()), one, k), expected)


def test_adam_without_epsilon_does_not_see_the_size_of_the_gradient_and_with_it_does():
    steps = {}
    for epsilon in (0.0, 1e-8):
        for scale in (0.0, -9000.0):
            rule = steepest.adam(0.1, epsilon=epsilon)
            steps[epsilon, scale] = [rule(grad([1.0, -2.0], scale - k), torch.zeros(2).double(), k) for k in range(5)]
    torch.testing.assert_close(steps[0.0, 0.0], steps[0.0, -9000.0], rtol=1e-9, atol=0)
    torch.testing.assert_close(steps[0.0, 0.0][0], torch.tensor([-0.1, 0.1]).double())
    assert all((step == 0).all() for step in steps[1e-8, -9000.0])


def test_newton_schulz_keeps_singular_vectors_and_brings_values_near_one():
    matrices = torch.randn(20, 4, 3, generator=seeded(0), dtype=torch.float64)
    left, values, right = torch.linalg.svd(matrices, full_matrices=False)
    inner = left.mT @ steepest.newton_schulz(matrices) @ right.mT
    near = torch.diagonal(inner, dim1=-2, dim2=-1)
    torch.testing.assert_close(inner, torch.diag_embed(near))
    assert (near[values / torch.linalg.matrix_norm(matrices)[:, None] > 0.05] - 1).abs().max() < 0.4
    assert (near - 1).abs().max() > 0.1


def test_muon_with_the_exact_factor_is_spectral_descent():
    one = grad([2.0, 1.0, 0.0, 3.0])
    exact = steepest.muon(0.1, (2, 2), steps=None)(one, one.direction, 0)
    torch.testing.assert_close(exact, steepest.steepest(0.1, "spectral", (2, 2))(one, one.direction, 0))
    published = steepest.muon(0.1, (2, 2))(one, one.direction, 0)
    assert 0 < (published - exact).abs().max() < 0.05


def test_decay_is_decoupled_and_ends_on_the_ball():
    rule = steepest.weight_decay(steepest.steepest(0.1, math.inf), 0.05)
    torch.testing.assert_close(
        rule(grad([3.0, -4.0]), torch.tensor([1.0, 2.0]).double(), 0), torch.tensor([-0.15, 0.0]).double()
    )
    problem = random_problem(0, n=1, T=3, d=4)
    end = run(problem, losses.logistic, torch.zeros(4), rule, 400).theta[-1]
    assert end.abs().max() <= 0.1 / 0.05 * (1 + 1e-9)


def test_factored_descent_by_the_chain_rule():
    problem = with_queries()
    keys, queries = (torch.randn(size, 2, generator=seeded(size), dtype=torch.float64) for size in (3, 2))
    path = steepest.factored_run(problem, losses.logistic, keys, queries, constant(0.1), 1)
    slope = gradient(problem, losses.logistic, (keys @ queries.T).flatten())
    slope = (slope.direction * slope.log_scale.exp()).reshape(3, 2)
    expected = (keys - 0.1 * slope @ queries) @ (queries - 0.1 * slope.T @ keys).T
    torch.testing.assert_close(path.theta[1], expected.flatten())


def with_queries():
    generator = seeded(7)
    keys, scores, queries = (torch.randn(shape, generator=generator).double() for shape in ((2, 3, 3), (2, 3), (2, 2)))
    return Problem(keys, scores, queries)


def own_rule_with_memory(memory=None):
    memory = [] if memory is None else memory

    def rule(grad, theta, k):
        memory.append(grad.direction)
        return -0.1 * sum(memory)

    rule.fresh = own_rule_with_memory
    return rule


WITH_MEMORY = {
    "adam": lambda: steepest.adam(0.1),
    "momentum": lambda: steepest.momentum(constant(0.1), 0.9),
    "decay": lambda: steepest.weight_decay(steepest.adam(0.1), 0.01),
    "of Adam": lambda: steepest.momentum(steepest.adam(0.1), 0.9),
    "decaying": lambda: decaying(steepest.adam(0.1), 0.5),
    "muon": lambda: steepest.muon(0.1, (2, 1)),
    "own": own_rule_with_memory,
}


@pytest.mark.parametrize("make", WITH_MEMORY.values(), ids=WITH_MEMORY)
def test_the_memory_of_a_rule_is_that_of_a_run_and_of_a_part(make):
    tokens = torch.tensor([[[0, 2], [0, 0]], [[1, 0], [0, 0.5]]], dtype=torch.float64)
    problem = joint.JointProblem(tokens, torch.tensor([1, -1], dtype=torch.float64))
    start = torch.zeros(2, dtype=torch.float64), torch.tensor([0.3, -0.2], dtype=torch.float64)

    def ends(head_rule, rule):
        return [path.theta for path in joint.run(problem, losses.logistic, *start, head_rule, rule, 50)]

    expected, one = ends(make(), make()), make()
    for _ in range(2):
        torch.testing.assert_close(ends(one, one), expected, rtol=0, atol=0)
    fixed = problem.fixed_head(start[1])
    runs = [run(fixed, losses.logistic, start[0], rule, 5).theta for rule in (one, one, make())]
    assert torch.equal(runs[0], runs[2])
    assert torch.equal(runs[1], runs[2])


def test_a_rule_with_memory_that_two_wrappers_share_is_refused():
    problem = random_problem(1, n=2, T=3, d=3)
    adam = steepest.adam(0.1)
    head, theta = (lambda grad, theta, k: adam(grad, theta, k) for _ in range(2))
    both = joint.JointProblem(problem.keys, torch.ones(2).double())
    zero = torch.zeros(3).double()
    with pytest.raises(ValueError, match=r"takes step 1 after step 1: begin .* a rule of its own"):
        joint.run(both, losses.logistic, zero, zero, head, theta, 3)
