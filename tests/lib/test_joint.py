"""Head and prompt together: closed forms, Assumption C by its definition, autograd, brute force over both circles."""

import itertools
import math

import cvxpy
import pytest
import torch
from problems import random_data, risk_by_definition, seeded

from lib import losses
from lib.datasets import figure_3
from lib.descent import constant, decaying, normalised
from lib.geometry import norm, one_minus_cosine, unit
from lib.joint import JointProblem, _joint_gradient, assumption_c, label_margin, run
from lib.joint_paths import joint_limit, joint_path
from lib.problem import difference_rows, from_tokens
from lib.separators import InfeasibleError, hard_margin
from lib.span import from_span, in_span, span_coordinates

FIGURE_3 = {panel: JointProblem(*figure_3(panel)) for panel in "ab"}
every_loss = pytest.mark.parametrize("loss", list(losses.LOSSES.values()), ids=lambda loss: loss.name)


def random_joint(seed, n=3, T=3, c=3, d=2, batch=()):
    """Gaussian tokens and keys, labels by a fair coin."""
    generator = seeded(seed)
    tokens, keys = (torch.randn(*batch, n, T, size, generator=generator) for size in (c, d))
    return JointProblem(tokens, 2.0 * torch.randint(0, 2, (*batch, n), generator=generator) - 1, keys)


def circle(size):
    angles = torch.linspace(0, 2 * math.pi, size + 1)[:-1]
    return torch.stack([angles.cos(), angles.sin()], dim=-1)


# --- the problem


@pytest.mark.parametrize("batch", [(), (4,)], ids=["one", "batch"])
def test_fixed_head_is_the_problem_of_the_papers(batch):
    data = random_data(0, n=2, T=4, d=3, batch=batch)
    keys = torch.einsum("...kd,...ntd->...ntk", data["key_matrix"], data["tokens"])
    problem = JointProblem(data["tokens"], data["labels"], keys)
    ours, theirs = problem.fixed_head(data["head"]), from_tokens(**data)
    torch.testing.assert_close(ours.scores, theirs.scores)
    torch.testing.assert_close(ours.keys, theirs.keys)
    theta = torch.randn(*batch, 3, generator=seeded(1))
    torch.testing.assert_close(problem.attention(theta), theirs.attention(theta))


# --- the label margin


def test_label_margin_against_all_heads_of_the_plane():
    heads = circle(20_000)
    outcomes = set()
    for seed in range(10):
        problem = random_joint(seed, n=2 + seed % 2, c=2)
        attention = torch.randn(4, *problem.tokens.shape[:2], generator=seeded(seed)).mul(3).softmax(-1)
        best = (problem.features(attention) @ heads.T).amin(-2).amax(-1)
        margin = label_margin(problem, attention)
        assert margin.shape == (4,)
        assert (margin >= best * (1 - 1e-9)).all()
        torch.testing.assert_close(margin, best.clamp(min=0), rtol=0, atol=1e-3)
        assert (margin[best <= 0] == 0).all()
        outcomes |= set((best > 0).tolist())
    assert outcomes == {True, False}


# --- Assumption C


@pytest.mark.parametrize(("panel", "holds"), [("a", True), ("b", False)])
def test_assumption_c_of_figure_3(panel, holds):
    choice = assumption_c(FIGURE_3[panel])
    assert choice.selected.tolist() == [1, 1, 1]
    assert choice.holds is holds
    assert choice.margin == pytest.approx(1)
    assert choice.runner_up == 0
    torch.testing.assert_close(choice.separator.theta, torch.tensor([0.0, 1.0]), rtol=0, atol=1e-12)


def attention_maps(selected, T, generator):
    """Maps at distances 1 to 1e-5 from a selection: of all inputs, of one, and of one toward one other token."""
    n = len(selected)
    vertex = torch.nn.functional.one_hot(selected, T).double()
    maps = []
    for size in (1.0, 1e-1, 1e-2, 1e-3, 1e-4, 1e-5):
        shares = torch.rand(60, n, T, generator=generator).log().neg() ** 3  # now and then close to a vertex
        everywhere = (1 - size) * vertex + size * shares / shares.sum(-1, keepdim=True)
        maps.append(everywhere)
        for i in range(n):
            alone = vertex.expand(T + 5, n, T).clone()
            alone[:T, i] = (1 - size) * vertex[i] + size * torch.eye(T)
            alone[T:, i] = everywhere[:5, i]
            maps.append(alone)
    maps = torch.cat(maps)
    distance = (1 - maps.gather(-1, selected[:, None].expand(len(maps), n, 1))[..., 0]).amax(-1)
    return maps[distance > 1e-7], distance[distance > 1e-7]


@pytest.mark.parametrize("kind", ["gaussian", "integer"])
def test_assumption_c_by_its_definition(kind):
    # Gamma - (label margin) >= nu max_i (1 - a_i) for one nu > 0 and all maps: the least quotient is nu, or about zero.
    outcomes = []
    for seed in range(24):
        generator = seeded(seed)
        n, T, d = 2 + seed % 2, 2 + seed // 2 % 2, 2
        tokens = torch.randn(n, T, d, generator=generator)
        if kind == "integer":
            tokens = torch.randint(-2, 3, (n, T, d), generator=generator).double()
        problem = JointProblem(tokens, 2.0 * torch.randint(0, 2, (n,), generator=generator) - 1)
        choice = assumption_c(problem)
        if not choice.separator.feasible:
            continue
        maps, distance = attention_maps(choice.selected, T, generator)
        least = ((choice.margin - label_margin(problem, maps)) / distance).min()
        assert least > 1e-3 if choice.holds else least < 3e-5
        outcomes.append(choice.holds)
    assert min(outcomes.count(True), outcomes.count(False)) >= 4


def test_labels_that_no_selection_separates_break_assumption_c():
    choice = assumption_c(JointProblem(torch.ones(2, 2, 2), [1.0, -1.0]))
    assert (choice.holds, choice.separator.feasible.item()) == (False, False)
    assert (choice.margin, choice.runner_up) == (0, 0)


# --- limits of the joint path


@pytest.mark.parametrize("ratio", [0.0, 1e-3, 0.2, 0.5, 0.9, 0.999, 1.0, 1.5, 100.0, math.inf])
def test_limit_of_figure_3b(ratio):
    # The third input is 1/2 beyond the margin: u1 - u2 = (u1 + 3 u2 + c) / 2 on the circle, so u1 = c + 5 u2.
    limit = joint_limit(FIGURE_3["b"], [1, 1, 1], ratio)
    c = min(ratio, 1.0)
    across = (math.sqrt(26 - c**2) - 5 * c) / 26
    torch.testing.assert_close(limit.head, torch.tensor([0.0, 1.0]), rtol=0, atol=1e-12)
    torch.testing.assert_close(limit.prompt, torch.tensor([c + 5 * across, across]), rtol=0, atol=1e-9)
    assert limit.threshold == pytest.approx(1)


def prompt_in_cvxpy(problem, choice, ratio):
    """The max-min problem of joint_limit, with its head and margins taken from cvxpy's own label SVM."""
    features = torch.stack(
        [y * x[a] for y, x, a in zip(problem.labels, problem.tokens, choice.selected, strict=True)]
    ).numpy()
    head, u, s = cvxpy.Variable(features.shape[-1]), cvxpy.Variable(problem.keys.shape[-1]), cvxpy.Variable()
    gamma = cvxpy.Problem(cvxpy.Maximize(cvxpy.min(features @ head)), [cvxpy.norm(head) <= 1])
    gamma.solve(solver=cvxpy.CLARABEL)
    constraints = [cvxpy.norm(u) <= 1]
    for i, alpha in enumerate(choice.selected.tolist()):
        buffer = ratio * (features[i] @ head.value - gamma.value)
        leads = [u @ (problem.keys[i, alpha] - key).numpy() for t, key in enumerate(problem.keys[i]) if t != alpha]
        constraints += [lead >= 0 for lead in leads] + [lead + buffer >= s for lead in leads]
    cvxpy.Problem(cvxpy.Maximize(s), constraints).solve(solver=cvxpy.CLARABEL)
    return torch.as_tensor(u.value)


def test_limits_against_cvxpy():
    outcomes = []
    for seed in range(16):
        problem = random_joint(seed, n=3, T=2 + seed % 2, c=2 + seed % 3, d=4)
        choice = assumption_c(problem)
        at_limit = problem.fixed_head(choice.separator.theta)
        if not choice.separator.feasible or not hard_margin(difference_rows(at_limit, choice.selected)).feasible:
            continue
        for ratio in (0.0, 0.1, 0.5, 2.0, 20.0):
            limit = joint_limit(problem, choice.selected, ratio)
            theirs = prompt_in_cvxpy(problem, choice, ratio)
            torch.testing.assert_close(limit.prompt, theirs / norm(theirs), rtol=0, atol=2e-4)
            torch.testing.assert_close(limit.head, unit(choice.separator.theta))
            if ratio > 0:
                outcomes.append(ratio < limit.threshold)
        if limit.threshold > 0:  # from the threshold on nothing moves, and before it everything
            ends = [joint_limit(problem, choice.selected, part * limit.threshold).prompt for part in (0.97, 1.0, 2.0)]
            assert one_minus_cosine(ends[1], ends[2]) < 1e-20
            assert one_minus_cosine(ends[0], ends[2]) > 1e-9
    assert min(outcomes.count(True), outcomes.count(False)) >= 8


def opposed_beyond_the_margin():
    """Two inputs, the second beyond the margin and with keys that oppose each other: it has to stay undecided."""
    tokens, keys = torch.zeros(2, 3, 2), torch.zeros(2, 3, 2)
    tokens[:, 0, 1] = torch.tensor([1.0, 3.0])
    keys[0, 1:, 0] = -1.0
    keys[1, 1:, 1] = torch.tensor([1.0, -1.0])
    return JointProblem(tokens, [1.0, 1.0], keys)


def test_tokens_that_only_a_ratio_of_zero_cannot_select():
    with pytest.raises(InfeasibleError, match="no direction separates the selected tokens"):
        joint_limit(opposed_beyond_the_margin(), [0, 0], 0)
    for ratio in (0.1, 0.4, 3.0):  # of small ones the search meets margins that no prompt has
        limit = joint_limit(opposed_beyond_the_margin(), [0, 0], ratio)
        torch.testing.assert_close(limit.prompt, torch.tensor([1.0, 0.0]), rtol=0, atol=1e-9)
        assert limit.threshold == pytest.approx(1 / 2)


def test_limits_that_do_not_exist_are_refused():
    with pytest.raises(InfeasibleError, match="no head has every label right"):
        joint_limit(FIGURE_3["b"], [0, 1, 1], 1.0)
    keys = torch.stack([torch.eye(2), torch.eye(2).flip(0)])
    opposed = JointProblem([[[1.0, 0.0], [0.0, 0.0]]] * 2, [1.0, 1.0], keys)
    with pytest.raises(InfeasibleError, match="no direction separates the selected tokens"):
        joint_limit(opposed, [0, 0], 1.0)


# --- descent


def random_run(seed):
    """A joint problem, the data of risk_by_definition for it, and starts."""
    data = random_data(seed, n=3, T=3, d=3)
    keys = torch.einsum("kd,ntd->ntk", data["key_matrix"], data["tokens"])
    head, theta = torch.randn(2, 3, generator=seeded(seed + 10**6))
    return JointProblem(data["tokens"], data["labels"], keys), data, head, theta


def autograd(loss, data, head, theta):
    head, theta = head.clone().requires_grad_(), theta.clone().requires_grad_()
    risk = risk_by_definition(loss, theta, **data | {"head": head}).sum()
    return torch.autograd.grad(risk, (head, theta))


def random_matrix_run(seed, batch=()):
    data = random_data(seed, n=3, T=3, d=3, batch=batch, queries=2)
    head, theta = (torch.randn(*batch, size, generator=seeded(seed + 10**6)) for size in (3, 6))
    return JointProblem(data["tokens"], data["labels"], queries=data["queries"]), data, head, theta


@every_loss
@pytest.mark.parametrize("joint", [False, True], ids=["two norms", "one norm"])
@pytest.mark.parametrize("kind", [normalised, constant])
@pytest.mark.parametrize("make", [random_run, random_matrix_run], ids=["prompt", "queries"])
def test_decaying_joint_runs_against_autograd(loss, make, kind, joint):
    problem, data, head, theta = make(6)
    rule = decaying(kind(0.3), 2 / 3)
    heads, thetas = run(problem, loss, head, theta, None if joint else rule, rule, 4)
    for k in range(5):
        torch.testing.assert_close(heads.theta[k], head)
        torch.testing.assert_close(thetas.theta[k], theta)
        steps = autograd(loss, data, head, theta)
        lengths = [norm(torch.cat(steps))] * 2 if joint else [norm(step) for step in steps]
        if kind is constant:
            lengths = [1.0, 1.0]
        size = 0.3 * (k + 1) ** (-2 / 3)
        head, theta = head - size * steps[0] / lengths[0], theta - size * steps[1] / lengths[1]


@pytest.mark.parametrize("length", [1e2, 1e4])
def test_joint_gradient_keeps_the_larger_part_at_any_scale(length):
    # Attention saturated by length: the part of theta is smaller by e^-length, and that of the head is all there is
    problem = JointProblem([[[1.0, 0.0], [0.0, 1.0]]], [1.0])
    head, theta = torch.tensor([5.0, 1.0]), torch.tensor([length, 0.0])
    grad = _joint_gradient(problem, losses.logistic, head, theta)
    assert grad.log_scale == pytest.approx(-math.log1p(math.exp(5.0)))
    torch.testing.assert_close(grad.direction[:2], torch.tensor([-1.0, 0.0]))
    expected = 4 * math.exp(-length)  # (gamma_1 - gamma_2) a_1 a_2, 0.0 if that is no float
    assert grad.direction[2:].tolist() == pytest.approx([-expected, expected], rel=1e-9, abs=0)
    # Both are exponentially small where the head is long as well
    grad = _joint_gradient(problem, losses.logistic, length * head, theta)
    assert grad.log_scale == pytest.approx(-5 * length)


def test_a_joint_gradient_of_zero_is_zero():
    level = JointProblem(torch.zeros(1, 2, 2), [1.0])
    grad = _joint_gradient(level, losses.logistic, torch.ones(2), torch.ones(2))
    assert (grad.direction == 0).all()
    heads, _ = run(level, losses.logistic, torch.ones(2), torch.ones(2), None, normalised(0.1), 3)
    assert (heads.theta == 1).all()


@pytest.mark.parametrize("batch", [(), (3,)], ids=["one", "batch"])
@pytest.mark.parametrize("joint", [False, True], ids=["two norms", "one norm"])
def test_joint_runs_in_the_span_are_the_same_runs(batch, joint):
    problem, _, head, _ = random_matrix_run(8, batch)
    full = problem.fixed_head(head)
    spanned = in_span(problem)
    assert spanned.queries is None
    assert spanned.keys.shape == (*batch, 3, 3, 6)
    assert torch.equal(spanned.tokens, problem.tokens)
    theta = full.pull_back(torch.randn(*batch, 3, 3, generator=seeded(8)))
    begin = span_coordinates(spanned, full.logits(theta))
    rule = decaying(normalised(0.1), 2 / 3)
    heads, thetas = run(problem, losses.logistic, head, theta, None if joint else rule, rule, 50)
    ours, coordinates = run(spanned, losses.logistic, head, begin, None if joint else rule, rule, 50)
    torch.testing.assert_close(ours.theta, heads.theta, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(from_span(full, spanned, coordinates.theta), thetas.theta, rtol=1e-9, atol=1e-9)


def test_the_joint_limit_of_a_matrix_is_that_of_its_span():
    thresholds = []
    for seed in range(12):
        tokens = random_joint(seed, n=3, T=2, c=4)
        problem = JointProblem(tokens.tokens, tokens.labels, queries=tokens.tokens[:, 0])
        choice = assumption_c(problem)
        spanned = in_span(problem)
        thresholds.append(joint_limit(spanned, choice.selected, math.inf).threshold)
        for part in (0.0, 0.5, 2.0):
            ratio = part * thresholds[-1]
            ours, theirs = (joint_limit(one, choice.selected, ratio) for one in (problem, spanned))
            full = problem.fixed_head(ours.head)
            assert one_minus_cosine(from_span(full, spanned, theirs.prompt), ours.prompt) < 1e-12
            assert ours.threshold == pytest.approx(theirs.threshold, rel=1e-6, abs=1e-9)
    assert min(sum(one == 0 for one in thresholds), sum(one > 0 for one in thresholds)) >= 2


# --- the joint path in the plane

RADII = torch.cartesian_prod(*2 * [torch.tensor([1.0, 3.0, 8.0])]).T


def in_the_plane(seed, n, T, batch=()):
    """Tokens, of which the first leans to the side of its label, and Gaussian keys."""
    problem = random_joint(seed, n, T, c=2, d=2, batch=batch)
    lean = torch.zeros_like(problem.tokens)
    lean[..., 0, 0] = 2 * problem.labels
    return JointProblem(problem.tokens + lean, problem.labels, problem.keys)


def log_risk_by_definition(problem, heads, prompts):
    """Logarithm of the logistic risk for heads (..., 2) and prompts (..., 2) of one problem."""
    attention = torch.softmax(torch.einsum("ntd,...d->...nt", problem.keys, prompts), dim=-1)
    outputs = torch.einsum("...nt,ntc,...c->...n", attention, problem.tokens, heads)
    return torch.nn.functional.softplus(-problem.labels * outputs).mean(-1).log()


@pytest.mark.parametrize(
    ("n", "T", "order"), [(2, 2, 2.0), (2, 3, 2.0), (3, 2, 2.0), (3, 3, 2.0), (2, 3, 1.5), (2, 3, 3.0)]
)
def test_no_head_and_prompt_of_these_lengths_are_better(n, T, order):
    problem = in_the_plane(0, n, T, batch=(4,))
    path = joint_path(problem, *RADII, norm=order)
    torch.testing.assert_close(norm(path.head, order), RADII[0, :, None].expand(9, 4))
    torch.testing.assert_close(norm(path.theta, order), RADII[1, :, None].expand(9, 4))
    compared, directions = 0, unit(circle(600), order)
    for k in range(4):
        alone = problem[k]
        torch.testing.assert_close(
            log_risk_by_definition(alone, path.head[:, k], path.theta[:, k]), path.log_risk[:, k]
        )
        for j, (head_radius, radius) in enumerate(RADII.T):
            features = alone.features(alone.attention(radius * directions))
            risk = torch.nn.functional.softplus(-features @ (head_radius * directions).T).mean(-2)
            if risk.min() < math.log(2) / n:
                compared += 1
                assert path.log_risk[j, k] <= risk.min().log() + 1e-9
                assert path.log_risk[j, k] >= risk.min().log() - 0.01 * head_radius
    assert compared >= 24


@pytest.mark.parametrize("ratio", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("panel", ["a", "b"])
def test_joint_path_tends_to_its_limit(panel, ratio):
    problem = FIGURE_3[panel]
    path, limit = joint_path(problem, [1e4 * ratio], [1e4]), joint_limit(problem, [1, 1, 1], ratio)
    assert one_minus_cosine(path.theta[0], limit.prompt) < 1e-6
    assert one_minus_cosine(path.head[0], limit.head) < 1e-6
    assert path.log_risk[0] == pytest.approx(-1e4 * ratio, rel=1e-2)


@pytest.mark.parametrize("seed", range(4))
def test_no_prompt_of_its_quadrant_is_better(seed):
    problem, radius = in_the_plane(seed, 2, 2), torch.tensor([3.0])
    compared, at_zero = 0, problem.fixed_head(torch.zeros(2))
    for selected in itertools.product(range(2), repeat=2):
        rows = difference_rows(at_zero, selected)
        if not hard_margin(rows).feasible:
            continue
        inside = circle(2000)[(circle(2000) @ rows.T >= 0).all(-1)]
        features = problem.features(problem.attention(radius * inside))
        risk = torch.nn.functional.softplus(-3.0 * features @ circle(600).T).mean(-2)
        if risk.min() < math.log(2) / 2:
            held = joint_path(problem, radius, radius, within=selected)
            compared += 1
            assert (rows @ held.theta[0]).min() >= -1e-9
            assert risk.min().log() - 0.03 <= held.log_risk[0] <= risk.min().log() + 1e-9
    assert compared


def test_path_within_a_quadrant_that_does_not_exist_is_refused():
    tokens = [[[1.0, 0.0], [0.0, 0.0]], [[-1.0, 0.0], [0.0, 0.0]]]
    problem = JointProblem(tokens, [1.0, -1.0])
    with pytest.raises(InfeasibleError, match="infeasible"):
        joint_path(problem, [1.0], [1.0], within=[0, 0])
