"""The log-space gradient: against autograd where that is right, against hundreds of digits everywhere."""

import math

import mpmath
import numpy as np
import pytest
import torch
from hypothesis import given
from problems import (
    MP_LOSSES,
    dense,
    problems,
    random_data,
    random_problem,
    random_theta,
    risk_by_definition,
    same_gradient,
    seeded,
    seeds,
    tanh_head,
    textbook_gradient,
    with_fields,
)

from lib import losses
from lib.descent import constant, normalised, run
from lib.geometry import norm, one_minus_cosine, unit
from lib.joint import JointProblem
from lib.logspace import excess_risk, gradient
from lib.losses import smoothness
from lib.problem import Problem, from_tokens, stack
from lib.selection import optimal_tokens
from lib.span import from_span, in_span, span_coordinates

LOSSES = [*losses.LOSSES.values(), losses.sigmoid, losses.cubic(0.2)]


def autograd(loss, theta, data):
    theta = theta.clone().requires_grad_()
    return torch.autograd.grad(risk_by_definition(loss, theta, **data).sum(), theta)[0]


# --- where autograd is right


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("nonlinear", [False, True], ids=["linear", "tanh"])
@pytest.mark.parametrize("queries", [0, 4], ids=["prompt", "queries"])
@pytest.mark.parametrize("batch", [(), (5,), (2, 3)], ids=str)
def test_gradient_and_risk_are_those_of_the_definition(loss, nonlinear, queries, batch):
    data = random_data(7, n=3, T=4, d=3, batch=batch, queries=queries, nonlinear=nonlinear)
    problem = from_tokens(**data)
    theta = random_theta(7, problem)
    torch.testing.assert_close(problem.risk(loss, theta), risk_by_definition(loss, theta, **data))
    torch.testing.assert_close(
        dense(gradient(problem, loss, theta)), autograd(loss, theta, data), rtol=1e-9, atol=1e-12
    )


@pytest.mark.parametrize("seed", range(20))
def test_tokens_that_a_nonlinear_head_cannot_tell_apart_do_not_pull_at_each_other(seed):
    generator = seeded(seed)
    head, features = tanh_head(100, generator), 0.1 * torch.randn(1, 6, 100, generator=generator)
    features[:, 5] = features[:, 0]
    keys, labels = torch.randn(1, 6, 2, generator=generator), torch.ones(1)
    keys[0, 0], keys[0, 5] = torch.tensor([9.0, 0.0]), torch.tensor([8.9, 0.0])
    problem = Problem(keys, head(features), None, features, labels, head)
    theta = torch.tensor([2000.0, 0.0])  # the twin is e^200 behind, the others e^2000 and more
    alone = Problem(keys[:, :5], head(features[:, :5]), None, features[:, :5], labels, head)
    assert same_gradient(gradient(alone, losses.logistic, theta), gradient(problem, losses.logistic, theta))


# --- where it is not

LENGTHS = [200.0, 1000.0]


def agrees_with_textbook(problem, loss, theta):
    direction, log_length = textbook_gradient(problem, loss, theta)
    ours = gradient(problem, loss, theta)
    assert one_minus_cosine(ours.direction, direction) <= 1e-12
    assert ours.log_scale + norm(ours.direction).log() == pytest.approx(log_length, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("length", [1.0, *LENGTHS])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("loss", losses.LOSSES.values(), ids=losses.LOSSES)
def test_gradient_is_right_in_every_direction(loss, length, seed):
    problem = random_problem(seed, n=3, T=4, d=2)
    agrees_with_textbook(problem, loss, length * unit(random_theta(seed, problem)))


def on_one_spot(seed, **sizes):
    """A problem in which the first two tokens of each input differ in their scores alone."""
    problem = random_problem(seed, n=2, T=4, d=3, **sizes)
    return with_fields(problem, keys=torch.cat([problem.keys[:, :1], problem.keys[:, :-1]], dim=1))


@pytest.mark.parametrize("queries", [0, 2], ids=["prompt", "queries"])
@pytest.mark.parametrize("length", [1.0, *LENGTHS])
@pytest.mark.parametrize("seed", range(4))
def test_tokens_on_one_spot_leave_the_gradient_of_the_others(length, seed, queries):
    problem = on_one_spot(seed, queries=queries)
    toward = (
        problem.keys[:, 0].mean(0)
        if not queries
        else torch.einsum("nd,ne->de", problem.keys[:, 0], problem.queries).flatten()
    )
    agrees_with_textbook(problem, losses.logistic, length * unit(toward))
    agrees_with_textbook(problem, losses.logistic, length * unit(random_theta(seed, problem)))


def test_tokens_on_one_spot_count_as_one_with_their_mean_score():
    problem = Problem([[[0.0, 1.0], [-0.0, 1.0], [3.0, 2.0]]], [[1.0, 0.0, 7.0]])
    assert problem.duplicate_keys[0].tolist() == [[True, True, False], [True, True, False], [False, False, True]]
    assert problem.scores_merged(problem.scores).tolist() == [[0.5, 0.5, 7.0]]
    assert not problem.duplicates_agree
    assert Problem(problem.keys, [[1.0, 1.0, 7.0]]).duplicates_agree
    assert JointProblem(problem.keys, [1.0]).duplicates_agree
    assert not JointProblem([[[1.0], [2.0], [3.0]]], [1.0], problem.keys).duplicates_agree
    apart = Problem([[[0.0, 1.0], [0.0, 2.0], [3.0, 2.0]]], [[1.0, 0.0, 7.0]])
    assert apart.duplicate_keys is None
    hidden = Problem([[[0.0, 0.0], [1.0, 2.0], [3.0, 2.0]]], [[1.0, 0.0, 7.0]], mask=[[True, True, False]])
    assert hidden.duplicate_keys is None  # what the mask hides is on no spot, though its key is set to 0


@pytest.mark.parametrize(
    ("keys", "scores"),
    [
        ([[1.0, 0.3], [1.0, -0.7], [0.2, 0.5]], [1.0, 0.0, 0.4]),  # two top logits, two scores
        ([[1.0, 0.3], [0.5, -0.7], [0.2, 0.5]], [1.0, 1.0, 0.0]),  # score of the top token: it moves by the drift alone
        ([[1.0, 0.3], [1.0, -0.7], [0.2, 0.5]], [1.0, 1.0, 0.0]),  # both
        ([[1.0, 0.3], [0.9, -0.7], [0.2, 0.5]], [1.0, 2.0, -3.0]),  # selected token between worse and better ones
    ],
    ids=["tied logits", "tied scores", "both tied", "better token behind"],
)
@pytest.mark.parametrize("length", [1.0, 200.0, 2000.0])
def test_gradient_with_ties(keys, scores, length):
    agrees_with_textbook(Problem([keys], [scores]), losses.logistic, torch.tensor([length, 0.0]))


LEVEL = with_fields(random_problem(1), scores=torch.full((2, 3), 0.7))
ZERO = [(LEVEL, loss, random_theta(1, LEVEL, length=length)) for loss in LOSSES for length in (0.0, 1.0, 1e4)]
ZERO += [(Problem([[[1.0], [0.0]]], [[1.0, 0.0]]), losses.cubic(0.5), torch.zeros(1))]  # the margin has slope 0


@pytest.mark.parametrize(("problem", "loss", "theta"), ZERO)
def test_zero_gradient_is_exactly_zero(problem, loss, theta):
    ours = gradient(problem, loss, theta)
    assert (ours.direction == 0).all()
    assert ours.log_scale == -torch.inf


# --- properties


@pytest.mark.parametrize("queries", [0, 2], ids=["prompt", "queries"])
@pytest.mark.parametrize("nonlinear", [False, True], ids=["linear", "tanh"])
def test_a_stack_of_problems_has_each_of_them(queries, nonlinear):
    several = random_problem(4, batch=(2, 3), queries=queries, nonlinear=nonlinear)
    theta = random_theta(4, several, length=3.0)
    again = stack([several[0], several[1]])
    assert again.batch_shape == (2, 3)
    assert torch.equal(again.risk(losses.logistic, theta), several.risk(losses.logistic, theta))


def test_leading_dimensions_that_only_some_arrays_have_are_stacked_too():
    keys, scores = torch.randn(4, 2, 3, 5, generator=seeded(0)), torch.randn(2, 3, generator=seeded(1))
    both = stack([Problem(keys, scores), Problem(-keys, 2 * scores)])
    assert torch.equal(both.scores, torch.stack([scores, 2 * scores])[:, None].expand(2, 4, 2, 3))
    joint = JointProblem(keys, [1.0, -1.0])
    assert torch.equal(stack([joint, joint]).labels, torch.tensor([1.0, -1.0]).expand(2, 4, 2))
    assert torch.equal(stack([joint, joint])[1, 2].tokens, keys[2])


@given(problems(), seeds)
def test_pull_back_is_the_adjoint_of_the_logits(problem, seed):
    theta = random_theta(seed, problem)
    weights = torch.randn(problem.scores.shape, generator=torch.Generator().manual_seed(seed))
    torch.testing.assert_close((problem.pull_back(weights) * theta).sum(), (weights * problem.logits(theta)).sum())


def test_queries_alone_may_have_the_batch():
    problem = with_fields(random_problem(2, queries=2), queries=random_data(3, batch=(4,), queries=2)["queries"])
    assert problem.batch_shape == (4,)
    theta = random_theta(2, problem)
    together = gradient(problem, losses.logistic, theta)
    for k in range(4):
        alone = gradient(with_fields(problem, queries=problem.queries[k]), losses.logistic, theta[k])
        same_gradient(alone, type(alone)(together.direction[k], together.log_scale[k]))
    spanned = in_span(problem)
    assert spanned.batch_shape == (4,)
    torch.testing.assert_close(spanned.logits(span_coordinates(spanned, problem.logits(theta))), problem.logits(theta))


# --- smoothness


@pytest.mark.parametrize("loss", [losses.logistic, losses.exponential, losses.cubic(0.2)], ids=lambda loss: loss.name)
def test_smoothness_is_its_formula(loss):
    tokens = torch.randn(5, 3, 4, 2, generator=seeded(0))
    head, keys = torch.randn(5, 2, generator=seeded(1)), torch.randn(5, 3, 2, generator=seeded(2))
    for x, v, w, ours in zip(tokens, head, keys, smoothness(loss, tokens, head, keys), strict=True):
        m0, m1 = (one.item() for one in loss.constants((x @ v).abs().max()))
        size = [np.linalg.svd(one.numpy(), compute_uv=False)[0] for one in x]
        v, w = np.sqrt((v**2).sum().item()), np.linalg.svd(w.numpy(), compute_uv=False)[0]
        assert ours.item() == pytest.approx(
            np.mean([m0 * v * v * w * w * s**4 + 3 * m1 * v * w * w * s**3 for s in size])
        )


# --- the excess risk


def precise_excess(loss, problem, theta, selected):
    """Sign and logarithm of L(theta) - L(selected) with many digits, from the definition."""
    value, total = MP_LOSSES[loss.name], mpmath.mpf(0)
    tokens, labels = problem.scores[..., None].tolist(), [1] * len(selected)
    if problem.head:
        tokens, labels = problem.tokens.tolist(), problem.labels.tolist()

    def psi(features):
        if not problem.head:
            return features[0]
        hidden, out = (mpmath.matrix(weights) for weights in problem.head.weights)
        return ((features.T * hidden).apply(mpmath.tanh) * out)[0]

    with mpmath.workdps(3000 if problem.head is None else 1500):
        for logits, one, label, token in zip(problem.logits(theta).tolist(), tokens, labels, selected, strict=True):
            odds = mpmath.matrix([mpmath.exp(mpmath.mpf(logit) - max(logits)) for logit in logits])
            mixed = mpmath.matrix(one).T * odds / mpmath.fsum(odds)
            total += value(label * psi(mixed)) - value(label * psi(mpmath.matrix(one[token])))
        return float(mpmath.sign(total)), float(mpmath.log(abs(total) / len(selected)))


def through_tanh():
    """A problem whose scores are those of its tokens, which a tanh head reads."""
    keys, labels, head = random_problem(0, n=2, T=3, d=2).keys, torch.tensor([1.0, -1.0]), tanh_head(4, seeded(0))
    tokens = torch.randn(2, 3, 4, generator=seeded(0))
    return Problem(keys, labels[:, None] * head(tokens), None, tokens, labels, head)


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.name)
@pytest.mark.parametrize("length", [0.0, 1.0, 8.0, 30.0, 300.0, 1000.0])
@pytest.mark.parametrize("nonlinear", [False, True], ids=["linear", "tanh"])
def test_excess_risk_is_right_at_any_norm(loss, length, nonlinear):
    problem = through_tanh() if nonlinear else random_problem(0, n=3, T=4, d=2)
    theta = random_theta(0, problem, length=length)
    for selected in (range(len(problem.keys)), problem.scores.argmax(-1), problem.logits(theta).argmax(-1)):
        selected = torch.as_tensor(selected)
        sign, logarithm = precise_excess(loss, problem, theta, selected.tolist())
        excess = excess_risk(problem, loss, theta, selected)
        assert excess.direction == sign
        assert excess.log_scale.item() == pytest.approx(logarithm, abs=1e-8 if nonlinear else 1e-9, rel=1e-12)


def test_excess_risk_of_many_starts_and_of_nothing():
    problem = random_problem(1, n=2, T=3, d=2, batch=(5,))
    theta, selected = torch.zeros(7, 5, 2), problem.scores.argmax(-1)
    excess = excess_risk(problem, losses.logistic, theta, selected)
    assert excess.log_scale.shape == (7, 5)
    assert (excess.direction == 1).all()
    flat = Problem(problem.keys, torch.ones(5, 2, 3))
    none = excess_risk(flat, losses.logistic, theta, selected)
    assert (none.direction == 0).all()
    assert (none.log_scale == -torch.inf).all()


def test_excess_risk_where_tokens_look_alike_to_a_nonlinear_head():
    keys = torch.tensor([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]])
    tokens, labels, head = torch.tensor([[[1.0], [1.0], [0.0]]]), torch.ones(1), lambda x: torch.tanh(x[..., 0])
    problem = Problem(keys, labels[:, None] * head(tokens), None, tokens, labels, head)
    theta = torch.tensor([[40.0, 40.0], [400.0, 400.0]])  # the two mix evenly; the third has a share of e^-40 / 2
    excess = excess_risk(problem, losses.correlation, theta, torch.tensor([1]))
    share = -theta[:, 0] - math.log(2)
    slope = 1 - math.tanh(1) ** 2
    torch.testing.assert_close(excess.log_scale, share + math.log(slope), rtol=1e-12, atol=1e-9)
    assert (excess.direction == 1).all()


# --- coordinates of the span

SPANS = {
    "prompt": {"d": 10},
    "prompt, more rows than entries": {"d": 3},
    "queries": {"d": 4, "queries": 3},
    "queries, more rows than entries": {"d": 2, "queries": 2},
    "batch with queries": {"d": 4, "queries": 3, "batch": (2, 3)},
    "tanh head": {"d": 5, "nonlinear": True},
}


@pytest.mark.parametrize("sizes", SPANS.values(), ids=SPANS)
def test_descent_in_the_span_is_the_same_descent(sizes):
    problem = random_problem(20, n=3, T=3, **sizes)
    spanned = in_span(problem)
    assert spanned.keys.shape == (*problem.batch_shape, 3, 3, min(9, problem.parameter_size))
    logits = torch.randn(problem.scores.shape, generator=seeded(20))
    inside = 2 * problem.pull_back(logits)  # a combination of the rows
    for start in (torch.zeros_like(inside), inside):
        begin = span_coordinates(spanned, problem.logits(start))
        torch.testing.assert_close(norm(begin), norm(start))
        for rule in (constant(0.5), normalised(0.05)):
            full = run(problem, losses.logistic, start, rule, 30).theta
            ours = run(spanned, losses.logistic, begin, rule, 30).theta
            torch.testing.assert_close(spanned.logits(ours), problem.logits(full), rtol=1e-9, atol=1e-9)
            torch.testing.assert_close(norm(ours), norm(full), rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(from_span(problem, spanned, ours[-1]), full[-1], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("queries", [0, 3], ids=["prompt", "queries"])
def test_what_a_start_has_outside_the_span_stays(queries):
    problem = random_problem(22, n=2, T=2, d=12, queries=queries, batch=(3,))
    spanned, start = in_span(problem), random_theta(22, problem, length=2.0)
    begin = span_coordinates(spanned, problem.logits(start))
    rest = start - from_span(problem, spanned, begin)
    torch.testing.assert_close(problem.logits(rest), torch.zeros(problem.scores.shape), rtol=0, atol=1e-12)
    full = run(problem, losses.logistic, start, normalised(0.05), 50).theta
    ours = run(spanned, losses.logistic, begin, normalised(0.05), 50).theta
    torch.testing.assert_close(from_span(problem, spanned, ours) + rest, full, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(norm(full) ** 2, norm(start) ** 2 - norm(begin) ** 2 + norm(ours) ** 2)


@pytest.mark.parametrize("queries", [0, 3], ids=["prompt", "queries"])
def test_a_span_of_lower_rank_in_some_of_a_batch(queries):
    problem = random_problem(23, n=2, T=3, d=10, queries=queries, batch=(3,))
    keys = problem.keys.clone()
    keys[1, 0, 2] = keys[1, 0, 0] + keys[1, 0, 1]
    keys[2, :, 1:] = 2 * keys[2, :, :1]
    problem = with_fields(problem, keys=keys)
    spanned = in_span(problem)
    assert (spanned.keys != 0).any(1).any(1).sum(-1).tolist() == [6, 5, 2]
    start = random_theta(23, problem)
    begin = span_coordinates(spanned, problem.logits(start))
    torch.testing.assert_close(spanned.logits(begin), problem.logits(start))


def test_rows_that_are_all_zero_span_nothing():
    spanned = in_span(Problem(torch.zeros(2, 2, 3), [[1.0, 0.0], [1.0, 0.0]]))
    assert (spanned.keys == 0).all()
    assert (span_coordinates(spanned, torch.ones(2, 2)) == 0).all()


def test_a_matrix_that_would_not_fit_in_memory_is_never_formed():
    tokens = torch.randn(3, 3, 200_000, generator=seeded(24)) / 200_000**0.5  # W: 320 GB
    head = torch.randn(200_000, generator=seeded(25))
    problem = from_tokens(tokens, [1.0, -1.0, 1.0], head, queries=tokens[:, 0])
    spanned = in_span(problem)
    theta = run(spanned, losses.logistic, torch.zeros(9), normalised(1.0), 200).theta[-1]
    assert torch.equal(spanned.logits(theta).argmax(-1), optimal_tokens(problem))
