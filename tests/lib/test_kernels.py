"""Compiled descent against the tensors that state it."""

import math
from dataclasses import replace

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from lib import flow, joint, kernels, losses
from lib.descent import compiled, constant, decaying, excess_near, gradient_near, normalised, polyak, run
from lib.joint import JointProblem
from lib.kernels.elementary import exponentials, powers
from lib.logspace import LogScaled, excess_risk, gradient
from lib.problem import Problem
from lib.selection import optimal_tokens
from tests.problems import random_problem, random_theta, seeded, seeds, with_fields

LOSSES = [*losses.KNOWN.values(), losses.cubic(0.5)]
every_loss = st.sampled_from(LOSSES)


def by_tensors(rule, problem=None, loss=None):
    """The same rule, unknown to compiled code; for a problem, with the gradient of the tensors."""
    return lambda grad, theta, k: rule(grad if problem is None else gradient(problem, loss, theta), theta, k)


def on_a_grid(array, step=1 / 16):
    """Entries that are multiples of a power of two: products and sums of them are exact in any order."""
    return (array / step).round() * step


@st.composite
def exact_problems(draw):
    """A problem whose logits are exact, with ties now and then, and a theta of any length up to 20000."""
    n, T, d = draw(st.integers(1, 3)), draw(st.integers(2, 4)), draw(st.integers(1, 4))
    drawn = random_problem(draw(seeds), n=n, T=T, d=d, queries=draw(st.sampled_from([0, 2])))
    queries = None if drawn.queries is None else on_a_grid(drawn.queries)
    scores = on_a_grid(drawn.scores, draw(st.sampled_from([2.0**-20, 1.0])))  # the coarse ones tie
    problem = Problem(on_a_grid(drawn.keys), scores, queries)
    assume(problem.duplicates_agree)
    length = draw(st.sampled_from([0.0, 1.0, 30.0, 1000.0, 20000.0]))
    return problem, on_a_grid(random_theta(draw(seeds), problem, length=length))


def compiled_gradient(problem, loss, theta):
    """The gradient in the middle one of three lanes."""
    found = kernels.gradients(problem, loss, (3,))(theta * torch.tensor([[0.5], [1.0], [-1.0]]))
    return LogScaled(found.direction[1], found.log_scale[1])


@given(exact_problems(), every_loss)
def test_the_gradient_is_that_of_the_tensors(drawn, loss):
    problem, theta = drawn
    expected = gradient(problem, loss, theta)
    found = compiled_gradient(problem, loss, theta)
    lengths = expected.direction.norm(), found.direction.norm()
    if min(lengths) == 0:
        assert max(lengths) < 1e-14
        return
    widest = 1 + problem.keys.abs().sum() * (1 if problem.queries is None else problem.queries.abs().max())
    rounding = 1e-14 * (widest / min(lengths)).item()  # the weights are up to 1, their combination may be shorter
    torch.testing.assert_close(found.direction / lengths[1], expected.direction / lengths[0], rtol=0, atol=rounding)
    logs = [part.log_scale + length.log() for part, length in zip((expected, found), lengths, strict=True)]
    torch.testing.assert_close(*logs, rtol=1e-13, atol=rounding)


@pytest.mark.parametrize("length", [100.0, 230.0, 280.0, 300.0, 700.0, 5000.0])
def test_a_flat_loss_leaves_the_cube_of_what_attention_leaves(length):
    problem, theta = Problem([[[1.0], [0.0]]], [[0.5, 0.0]]), torch.tensor([length])
    found = compiled_gradient(problem, losses.cubic(0.5), theta)
    assert found.direction.item() < 0
    # 3 (a / 2)^2 a / 2 with a = e^-length
    assert (found.log_scale + found.direction.abs().log()).item() == pytest.approx(math.log(3 / 8) - 3 * length)


@given(exact_problems(), every_loss)
def test_the_excess_is_that_of_the_tensors(drawn, loss):
    problem, theta = drawn
    expected = excess_risk(problem, loss, theta, optimal_tokens(problem))
    found = kernels.excesses(problem, loss, (3,), optimal_tokens(problem))(theta * torch.tensor([[0.5], [1.0], [-1.0]]))
    found = LogScaled(found.direction[1], found.log_scale[1])
    assert found.direction == expected.direction
    torch.testing.assert_close(found.log_scale, expected.log_scale, rtol=1e-13, atol=1e-12)


def exactly(function, *columns):
    """A function of mpmath at numbers, rounded once."""
    with mpmath.workdps(40):
        return np.array([float(function(*map(mpmath.mpf, row))) for row in zip(*columns, strict=True)])


def test_exponentials_are_exact_to_the_last_digit():
    values = np.concatenate([-np.linspace(0.0, 600.0, 10_001), -np.logspace(-300, -1, 1000)])
    found = values.copy()
    exponentials(found)
    np.testing.assert_array_max_ulp(found, exactly(mpmath.exp, values), 1)
    lost = np.array([-601.0, -1e6, -np.inf, np.nan])
    exponentials(lost)
    assert (lost[:3] < 1e-306).all()
    assert np.isnan(lost[3])


@pytest.mark.parametrize("power", [0.1, 1 / 3, 0.75, 4 / 3, 7 / 3, 3.0, 10.0, 11.0])
def test_powers_are_exact_to_a_unit_for_each_of_the_power(power):
    sizes = np.concatenate([np.logspace(-20, 20, 3001), np.linspace(0.5, 2.0, 301)])
    values, found = sizes * np.where(np.arange(len(sizes)) % 2, 1.0, -1.0), np.empty(len(sizes))
    powers(values, power, found)
    wanted = exactly(mpmath.power, sizes, np.full(len(sizes), power))
    np.testing.assert_array_max_ulp(np.abs(found), wanted, 1 + math.ceil(power / 2))
    assert (np.sign(found) == np.sign(values)).all()
    far = np.array([0.0, -0.0, 1e-305, np.inf, np.nan, 1e300, 1.5])
    found = np.empty(len(far))
    powers(far, power, found)
    with np.errstate(over="ignore"):
        np.testing.assert_allclose(found, far**power, rtol=3e-15, atol=1e-260)
    assert found[-1] == pytest.approx(1.5**power, rel=3e-15)


def test_a_trial_is_the_same_whichever_others_go_beside_it_and_with_any_threads():
    problem = random_problem(12, n=2, T=3, d=3, batch=(40,))  # two blocks of lanes, the last not full
    start = 100 * random_theta(12, problem)
    alone = [run(problem[k], losses.logistic, start[k], normalised(0.1), 50).theta for k in range(40)]
    for threads in (1, 3):
        torch.set_num_threads(threads)
        together = run(problem, losses.logistic, start, normalised(0.1), 50).theta
        assert torch.equal(together, torch.stack(alone, 1))


RULES = {
    "constant": constant(0.5),
    "normalised": normalised(0.1),
    "normalised-1": normalised(0.1, 1.0),
    "normalised-inf": normalised(0.1, float("inf")),
    "normalised-3": normalised(0.1, 3.0),
    "decaying": decaying(decaying(normalised(0.1), 0.5), 0.1),
    "own-steps": constant(torch.tensor([[0.1, 0.5], [1.0, 2.0], [0.3, 0.2]])),
}


@pytest.mark.parametrize("norm", [2.0, 1.5, 1.75, 3.0])
@pytest.mark.parametrize("queries", [0, 2], ids=["prompt", "queries"])
@pytest.mark.parametrize("rule", RULES.values(), ids=RULES)
def test_trajectories_are_those_of_the_tensors(rule, queries, norm):
    problem = random_problem(5, n=3, T=4, d=3, batch=(2,), queries=queries)
    start = random_theta(5, problem, starts=(3,))
    assert compiled(problem, losses.logistic, start, [rule])
    ours = run(problem, losses.logistic, start, rule, 30, [0, 3, 30], norm)
    slow = by_tensors(rule, problem, losses.logistic)
    theirs = run(problem, losses.logistic, start, slow, 30, [0, 3, 30], norm)
    assert torch.equal(ours.times, theirs.times)
    torch.testing.assert_close(ours.theta, theirs.theta, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("queries", [0, 2], ids=["prompt", "queries"])
@pytest.mark.parametrize(("batch", "starts"), [((), ()), ((), (4,)), ((3, 1), (2, 3, 5)), ((2,), (2,))])
def test_every_theta_of_a_batch_has_the_gradient_and_the_excess_of_the_tensors(batch, starts, queries):
    problem = random_problem(12, n=2, T=3, d=3, batch=batch, queries=queries)
    theta = 5 * torch.randn(*starts, problem.parameter_size, generator=seeded(12))
    for _ in range(2):  # the second time with other arrays
        expected, found = (
            gradient(problem, losses.logistic, theta),
            gradient_near(problem, losses.logistic, theta)(theta),
        )
        torch.testing.assert_close(*(part.log_scale.exp()[..., None] * part.direction for part in (found, expected)))
        best = optimal_tokens(problem)
        expected = excess_risk(problem, losses.logistic, theta, best)
        found = excess_near(problem, losses.logistic, theta, best)(theta)
        torch.testing.assert_close(found, expected)
        theta = theta.flip(-1)


def test_only_what_is_known_is_compiled():
    problem, start = random_problem(7), torch.zeros(3)
    curved = random_problem(7, nonlinear=True)
    rule, other = constant(0.1), polyak(random_problem(8), losses.logistic, [0, 0])
    assert compiled(problem, losses.logistic, start, [rule])
    assert not compiled(problem, losses.logistic, start, [by_tensors(rule)])
    assert not compiled(problem, losses.logistic, start, [other])
    assert not compiled(curved, losses.logistic, start, [rule])
    doubled = torch.cat([problem.keys[:, :1], problem.keys[:, :-1]], dim=1)
    assert not compiled(with_fields(problem, keys=doubled), losses.logistic, start, [rule])
    assert compiled(Problem(doubled, doubled[..., 0]), losses.logistic, start, [rule])
    assert not compiled(problem, replace(losses.logistic, code=None), start, [rule])


@pytest.mark.parametrize("norm", [2.0, 1.5])
@pytest.mark.parametrize("queries", [0, 2], ids=["prompt", "queries"])
@pytest.mark.parametrize(
    "rules",
    [
        (None, normalised(0.1)),
        (None, constant(0.3)),
        (constant(0.5), normalised(0.2)),
        (RULES["decaying"], constant(1)),
    ],
    ids=["together", "together-constant", "each", "decaying"],
)
def test_joint_trajectories_are_those_of_the_tensors(rules, queries, norm):
    generator = seeded(9)
    tokens = torch.randn(2, 3, 4, 3, generator=generator)
    labels = torch.tensor([[1.0, -1.0, 1.0], [1.0, 1.0, -1.0]])
    problem = JointProblem(tokens, labels, queries=torch.randn(3, queries, generator=generator) if queries else None)
    head = torch.randn(5, 2, 3, generator=generator)
    theta = torch.randn(2, 3 * max(queries, 1), generator=generator)
    slow = [None if rule is None else by_tensors(rule) for rule in rules]
    ours = joint.run(problem, losses.logistic, head, theta, *rules, 25, [0, 1, 25], norm)
    theirs = joint.run(problem, losses.logistic, head, theta, *slow, 25, [0, 1, 25], norm)
    for found, expected in zip(ours, theirs, strict=True):
        torch.testing.assert_close(found.theta, expected.theta, rtol=1e-9, atol=1e-9)


def test_a_flow_at_rest_goes_on_in_time_alone():
    level = Problem([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 1.0]])
    assert flow.log_time_flow(level, losses.logistic, [1.0, 2.0], [0.0, 5.0]).theta.tolist() == [[1, 2], [1, 2]]


@pytest.mark.parametrize("slow", [False, True], ids=["compiled", "tensors"])
def test_both_paths_refuse_step_sizes_and_overflow_alike(slow):
    path = by_tensors if slow else lambda rule: rule
    with pytest.raises(ValueError, match="iterations is 0"):
        run(random_problem(1), losses.logistic, torch.zeros(3), path(constant(1.0)), 0)
    with pytest.raises(ValueError, match=r"record is \[7\]"):
        run(random_problem(1), losses.logistic, torch.zeros(3), path(constant(1.0)), 3, [7])
    with pytest.raises(ValueError, match=r"norm is 1.0"):
        run(random_problem(1), losses.logistic, torch.zeros(3), path(constant(1.0)), 3, norm=1.0)
    batch = random_problem(1, batch=(4,))
    with pytest.raises(ValueError, match="step_size"):
        run(batch, losses.logistic, torch.zeros(4, 3), path(constant(torch.ones(3))), 2)
    steep = Problem([[[1.0], [0.0]]], [[-500.0, -501.0]])
    with pytest.raises(FloatingPointError, match=r"no longer finite at iteration 1: take a smaller step"):
        run(steep, losses.exponential, [[0.0], [1.0]], path(constant(1e308)), 10)
