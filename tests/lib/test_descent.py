"""Steps by hand, records, the flow in log time against Euler and its own asymptotics."""

import itertools
import math

import pytest
import torch
from problems import random_problem, random_theta, seeded

import lib.flow
from lib import losses
from lib.descent import constant, decaying, iterate, log_spaced, normalised, polyak, run
from lib.flow import log_time_flow
from lib.geometry import directional_bregman_divergence, dual, inverse_mirror_map, mirror_map, norm, one_minus_cosine
from lib.logspace import gradient
from lib.problem import Problem
from lib.selection import optimal_tokens
from lib.separators import att_svm, hard_margin

TWO_TOKENS = Problem([[[1.0], [0.0]]], [[1.0, 0.0]])  # logits theta and 0, margin u = sigmoid(theta)


# --- steps and records


def test_zero_gradient_in_a_batch_does_not_stop_the_others():
    problem = Problem(torch.eye(2).expand(2, 1, 2, 2), [[[0.4, 0.4]], [[0.4, 0.0]]])
    theta = run(problem, losses.logistic, torch.zeros(2, 2), normalised(1.0), 3).theta[-1]
    assert theta[0].tolist() == [0.0, 0.0]
    torch.testing.assert_close(theta[1], torch.tensor([1.0, -1.0]) * 3 / math.sqrt(2))


def test_record():
    problem = random_problem(1, batch=(2,))
    start = random_theta(1, problem)
    everything = run(problem, losses.logistic, start, constant(0.1), 5)
    assert everything.theta.shape == (6, 2, 3)
    assert everything.times.tolist() == [0, 1, 2, 3, 4, 5]
    assert torch.equal(everything.theta[0], start)
    some = run(problem, losses.logistic, start, constant(0.1), 5, record=[5, 0, 2, 2])
    assert some.times.tolist() == [0, 2, 5]
    assert torch.equal(some.theta, everything.theta[[0, 2, 5]])


@pytest.mark.parametrize(("last", "first"), [(1000, 1), (10_000, 10), (3, 1), (5000, 5.0), (7, 7)])
def test_log_spaced_records_keep_both_ends_and_one_ratio(last, first):
    kept = log_spaced(last, 31, first)
    assert (kept[0], kept[-1], kept.dtype) == (first, last, torch.int64)
    assert (kept.diff() > 0).all()
    ratios = (kept[1:] / kept[:-1])[kept[:-1] >= 1000]
    torch.testing.assert_close(ratios, torch.full_like(ratios, (last / first) ** (1 / 30)), rtol=1e-3, atol=0)


def test_overflow_names_the_iteration():
    # The first input pulls far across; there the second has its token of score -1000, and its slope is e^1000.
    problem = Problem([[[1.0], [0.0]], [[1.0], [0.0]]], [[1e6, 0.0], [-1000.0, 0.0]])
    with pytest.raises(FloatingPointError, match="iteration 2: take a smaller step"):
        run(problem, losses.exponential, [-20.0], constant(1e5), 10)
    assert run(problem, losses.exponential, [-20.0], normalised(1.0), 100).theta.isfinite().all()


# --- decaying and Polyak's steps


@pytest.mark.parametrize("rule", [constant(0.5), polyak(TWO_TOKENS, losses.logistic, [0])], ids=["constant", "Polyak"])
def test_decaying_by_nothing_is_the_rule_itself(rule):
    starts = torch.linspace(-2, 2, 5)[:, None]
    plain, decayed = (run(TWO_TOKENS, losses.logistic, starts, one, 10).theta for one in (rule, decaying(rule, 0)))
    assert torch.equal(plain, decayed)
    slower = run(TWO_TOKENS, losses.logistic, starts, decaying(rule, 0.5), 10).theta
    torch.testing.assert_close(slower[2] - slower[1], rule(gradient(TWO_TOKENS, losses.logistic, slower[1]),
                                                           slower[1], 1) / math.sqrt(2))  # fmt: skip


@pytest.mark.parametrize("theta", [1000.0, 40.0, 1.0, 0.0, -1.0, -40.0, -230.0, -700.0])
def test_polyak_step_by_hand_from_any_start(theta):
    # Excess 1 - s and gradient -s (1 - s), s = sigmoid(theta): the step is 1 / (2 s), of length e^700 / 2 at the last
    rule = polyak(TWO_TOKENS, losses.correlation, [0])
    step = rule(gradient(TWO_TOKENS, losses.correlation, [theta]), torch.tensor([theta]), 0)
    expected = math.log1p(math.exp(-abs(theta))) + max(-theta, 0.0) - math.log(2)
    assert step.log().item() == pytest.approx(expected, abs=1e-12, rel=1e-12)


def test_a_polyak_step_beyond_floats_is_refused_and_one_of_1e100_is_not():
    rule = polyak(TWO_TOKENS, losses.correlation, [0])
    assert run(TWO_TOKENS, losses.correlation, [-231.0], rule, 2).theta[1] > 1e100
    with pytest.raises(FloatingPointError, match="no longer finite at iteration 1"):
        run(TWO_TOKENS, losses.correlation, [-1000.0], rule, 2)


@pytest.mark.parametrize("loss", losses.LOSSES.values(), ids=losses.LOSSES)
@pytest.mark.parametrize("nonlinear", [False, True], ids=["linear", "tanh"])
@pytest.mark.parametrize(("queries", "batch"), [(0, ()), (2, (3,))], ids=["prompt", "queries"])
def test_polyak_steps_are_those_of_the_definition(loss, nonlinear, queries, batch):
    problem = random_problem(11, n=3, T=3, d=3, batch=batch, queries=queries, nonlinear=nonlinear)
    selected = optimal_tokens(problem)
    starts = random_theta(11, problem, starts=(4,))
    theta = starts.clone().requires_grad_()
    if nonlinear:
        risk = loss.value(problem.labels * problem.head(
            torch.einsum("...nt,...ntc->...nc", problem.attention(theta), problem.tokens))).mean(-1)  # fmt: skip
    else:
        risk = problem.risk(loss, theta)
    grad = torch.autograd.grad(risk.sum(), theta)[0]
    limit = loss.value(problem.scores.gather(-1, selected[..., None])[..., 0]).mean(-1)
    step = ((risk.detach() - limit).clamp(min=0) / (2 * norm(grad) ** 2))[..., None] * grad
    ours = run(problem, loss, starts, polyak(problem, loss, selected), 1).theta[1]
    torch.testing.assert_close(ours, starts - step, rtol=1e-8, atol=1e-9)


def test_a_rule_whose_spec_has_an_unknown_kind_is_refused():
    rule = constant(0.1)
    rule.spec = rule.spec._replace(kind="momentum")
    with pytest.raises(ValueError, match="kind 'momentum': give constant, normalised, polyak, or a rule without spec"):
        run(TWO_TOKENS, losses.logistic, [0.0], rule, 2)


def test_polyak_stays_where_the_risk_is_not_above_its_goal_and_where_the_gradient_is_zero():
    below = polyak(TWO_TOKENS, losses.logistic, [1])  # the worse token: every risk is lower
    assert (
        run(TWO_TOKENS, losses.logistic, [[0.0], [-3.0]], below, 3).theta[-1].flatten() == torch.tensor([0, -3])
    ).all()
    level = Problem(torch.eye(2).expand(2, 1, 2, 2), [[[0.4, 0.4]], [[0.4, 0.0]]])
    theta = run(level, losses.logistic, torch.zeros(2, 2), polyak(level, losses.logistic, [0]), 3).theta[-1]
    assert theta[0].tolist() == [0.0, 0.0]
    assert theta[1, 0] > 0.5


# --- the flow


def one_input_under_assumption_b(seed):
    """One input, its optimal token first, all others one score, with a feasible SVM."""
    generator = seeded(seed)
    while True:
        T, d = (torch.randint(2, 6, (2,), generator=generator)).tolist()
        keys = torch.randn(1, T, d, generator=generator)
        if hard_margin(keys[0, :1] - keys[0, 1:]).feasible:
            return Problem(keys, [[1.0] + (T - 1) * [-0.5]])


@pytest.mark.parametrize("loss", losses.LOSSES.values(), ids=losses.LOSSES)
@pytest.mark.parametrize("seed", range(4))
def test_flow_tends_to_the_svm_with_the_closed_form_offset(loss, seed):
    problem = one_input_under_assumption_b(seed)
    svm = att_svm(problem, [0])
    last = 1e4
    theta = log_time_flow(problem, loss, torch.zeros(problem.parameter_size), [last]).theta[0]
    assert one_minus_cosine(theta, svm.theta) <= 1e-5

    offset = theta - svm.theta * last  # its margins rho . d_j tend to log(c / lambda_j), c = |loss'(gamma_opt)| gap
    margins = problem.keys[0, :1] - problem.keys[0, 1:]
    support = svm.duals > 0
    expected = (-loss.slope(torch.tensor(1.0)) * 1.5 / svm.duals[support]).log()
    torch.testing.assert_close((margins @ offset)[support], expected, rtol=0, atol=1e-3)


@pytest.mark.parametrize(("batch", "starts"), [((2, 2), ()), ((), (3,))], ids=str)
def test_flows_of_a_batch_and_of_several_starts_are_each_flow_alone(batch, starts):
    problem = random_problem(6, batch=batch)
    start = random_theta(6, problem, starts)
    together = log_time_flow(problem, losses.logistic, start, [0.0, 1.0, 5.0])
    assert together.theta.shape == (3, *start.shape)
    assert together.times.tolist() == [0.0, 1.0, 5.0]
    for index in itertools.product(*map(range, start.shape[:-1])):
        one = problem[index] if batch else problem
        alone = log_time_flow(one, losses.logistic, start[index], [0.0, 1.0, 5.0])
        assert torch.equal(together.theta[:, *index], alone.theta)


def test_a_flow_that_does_not_end_is_given_up(monkeypatch):
    monkeypatch.setattr(lib.flow, "MAX_STEPS", 5)
    with pytest.raises(RuntimeError, match=r"5 steps were not enough.*end earlier"):
        log_time_flow(TWO_TOKENS, losses.logistic, [-5.0], [0.0, 1000.0])


# --- mirror descent

every_order = pytest.mark.parametrize("order", [1.1, 1.75, 2.0, 3.0, 10.0])


def textbook_mirror_descent(problem, loss, start, rate, order, iterations, dual_norm):
    """l_p-AttGD of arXiv:2410.14581 as its formula has it, by autograd; exact only while attention is not saturated."""
    theta = start.clone()
    for _ in range(iterations):
        theta = theta.detach().requires_grad_()
        grad = torch.autograd.grad(problem.risk(loss, theta).sum(), theta)[0]
        if dual_norm:
            grad = grad / (grad.abs() ** dual_norm).sum(-1, keepdim=True) ** (1 / dual_norm)
        mirrored = theta.sign() * theta.abs() ** (order - 1) - rate * grad
        theta = mirrored.sign() * mirrored.abs() ** (1 / (order - 1))
    return theta.detach()


@every_order
@pytest.mark.parametrize("queries", [0, 2], ids=["prompt", "queries"])
@pytest.mark.parametrize("normal", [False, True], ids=["constant", "normalised"])
def test_mirror_descent_is_its_formula(order, queries, normal):
    problem = random_problem(12, n=3, T=4, d=3, batch=(2,), queries=queries)
    start = random_theta(12, problem, starts=(3,))
    rule = normalised(0.01, order) if normal else constant(0.01)
    theta = run(problem, losses.logistic, start, rule, 5, norm=order).theta
    dual_norm = dual(order) if normal else None
    expected = textbook_mirror_descent(problem, losses.logistic, start, 0.01, order, 5, dual_norm)
    assert torch.equal(theta[0], start)
    torch.testing.assert_close(theta[-1], expected, rtol=1e-7, atol=1e-7)


@every_order
def test_normalised_mirror_steps_have_their_length_at_any_norm(order):
    problem = random_problem(0, n=1, T=4, d=3)
    start = inverse_mirror_map(random_theta(0, problem, length=300.0), order)
    theta = run(problem, losses.exponential, start, normalised(0.1, order), 50, norm=order).theta
    steps = mirror_map(theta, order).diff(dim=0)
    torch.testing.assert_close(norm(steps, dual(order)), torch.full((50,), 0.1), rtol=1e-8, atol=0)


def test_the_mirror_variable_is_carried_and_not_recomputed():
    seen = iterate(lambda theta, k: torch.full_like(theta, 2.0**-60), torch.tensor([0.0, 1.0]), 2**10, [2**10], 1.5)
    assert seen.theta[0, 0] == 2.0**-100  # (2^10 steps of 2^-60) squared; each of them is lost beside 1
    assert seen.theta[0, 1] == 1


def test_mirror_descent_with_p_next_to_1_grows_beyond_floats():
    problem = Problem([[[1.0, 0.5], [0.0, 0.0]]], [[1.0, 0.0]])
    with pytest.raises(FloatingPointError, match="no longer finite at iteration 2: take a smaller step"):
        run(problem, losses.exponential, [0.0, 0.0], normalised(1e3, 1.01), 10, norm=1.01)
    far = run(problem, losses.exponential, [0.0, 0.0], normalised(1e3, 1.1), 1000, [1000], norm=1.1).theta
    assert 1e59 < far.max() < math.inf


# --- the mirror flow


@pytest.mark.parametrize("order", [1.5, 1.75, 2.0, 3.0])
def test_flow_is_the_limit_of_small_steps(order):
    problem = random_problem(4, n=2, T=4, d=3)
    start = random_theta(4, problem)

    def euler(steps):  # to t = 0.5
        return run(problem, losses.logistic, start, constant(0.5 / steps), steps, [steps], order).theta[0]

    flow = log_time_flow(problem, losses.logistic, start, [0.0, math.log(1.5)], norm=order).theta
    torch.testing.assert_close(flow[0], start)
    coarse, fine = euler(400), euler(800)
    torch.testing.assert_close(flow[1], 2 * fine - coarse, rtol=0, atol=1e-4)  # Richardson: the first-order error gone


@pytest.mark.parametrize("order", [1.5, 1.75, 3.0])
def test_mirror_flow_tends_to_the_svm_far_beyond_any_descent(order):
    problem = Problem(torch.randn(1, 4, 5, generator=seeded(3)), [[1.0, -0.5, -0.5, -0.5]])
    theta = log_time_flow(problem, losses.logistic, torch.zeros(5), [10.0, 1000.0], norm=order).theta
    near, far = directional_bregman_divergence(att_svm(problem, [0], order).theta, theta, order)
    assert far < 0.02 * near
    assert far < 1e-3
