"""Hidden tokens: whatever they hold, everything comes out as if they were not there."""

import pytest
import torch
from problems import dense, random_problem, random_theta, seeded

from lib import losses, selection
from lib.descent import normalised, polyak, run
from lib.flow import log_time_flow
from lib.logspace import excess_risk, gradient
from lib.problem import Problem, from_tokens, stack
from lib.separators import att_svm, hard_margin
from lib.span import from_span, in_span, span_coordinates

PLACES = [0, 2, 3]  # of the three real tokens among five


def padded(problem, seed=0):
    """The problem with two hidden tokens between its own, loud ones that score highest."""

    def spread(array, loud):
        wide = loud * torch.randn(
            *array.shape[:-2], array.shape[-2] + 2, array.shape[-1], generator=seeded(seed), dtype=array.dtype
        )
        return wide.index_copy(-2, torch.tensor(PLACES), array)

    mask = torch.zeros(*problem.keys.shape[-3:-2], 5, dtype=torch.bool)
    mask[:, PLACES] = True
    scores = spread(problem.scores[..., None], 100.0).abs()[..., 0].index_copy(-1, torch.tensor(PLACES), problem.scores)
    tokens = None if problem.tokens is None else spread(problem.tokens, 100.0)
    return Problem(spread(problem.keys, 100.0), scores, problem.queries, tokens, problem.labels, problem.head, mask)


def same(first, second, tolerance=1e-10):
    torch.testing.assert_close(first, second, rtol=tolerance, atol=tolerance)


@pytest.fixture(params=[{}, {"queries": 2}, {"nonlinear": True}, {"batch": (4,)}], ids=str)
def pair(request):
    plain = random_problem(3, n=2, T=3, d=4, **request.param)
    return plain, padded(plain)


def test_attention_gradient_and_excess_of_padded_inputs(pair):
    plain, hidden = pair
    for length in (0.1, 3.0, 300.0):
        theta = random_theta(0, plain, length=length)
        same(hidden.logits(theta)[..., PLACES], plain.logits(theta))
        assert (hidden.attention(theta)[..., [1, 4]] == 0).all()
        same(hidden.margins(hidden.attention(theta))[0], plain.margins(plain.attention(theta))[0])
        for loss in (losses.logistic, losses.correlation):
            first, second = gradient(hidden, loss, theta), gradient(plain, loss, theta)
            same(first.log_scale, second.log_scale)
            same(first.direction, second.direction)
            first = excess_risk(hidden, loss, theta, torch.tensor([2, 3]))
            second = excess_risk(plain, loss, theta, torch.tensor([1, 2]))
            same(first.log_scale, second.log_scale)
            assert torch.equal(first.direction, second.direction)


def test_separator_neighbours_and_leads_of_padded_inputs(pair):
    plain, hidden = pair
    choice, own = torch.tensor([1, 2]), torch.tensor([2, 3])
    first, second = att_svm(hidden, own), att_svm(plain, choice)
    same(first.theta, second.theta)
    found = selection.svm_neighbours(hidden, own, first)
    assert torch.equal(found[..., PLACES], selection.svm_neighbours(plain, choice, second))
    assert not found[..., [1, 4]].any()
    same(selection.score_gaps(hidden, own, first), selection.score_gaps(plain, choice, second))
    same(att_svm(hidden, infeasible="mark").theta, att_svm(plain, infeasible="mark").theta)
    best = torch.tensor(PLACES)[selection.optimal_tokens(plain)]
    assert torch.equal(selection.optimal_tokens(hidden), best)
    theta = random_theta(1, plain)
    assert torch.equal(
        selection.selected_tokens(hidden, theta), torch.tensor(PLACES)[selection.selected_tokens(plain, theta)]
    )


def test_stable_selections_sets_and_offset_of_padded_inputs():
    plain = random_problem(5, n=2, T=3, d=4)
    sets = torch.zeros(2, 5, dtype=torch.bool)
    sets[0, [0, 3]] = sets[1, 2] = True
    cases = [(padded(plain), sets), (plain, sets[:, PLACES])]
    for search in (lambda p, _: selection.locally_optimal_selections(p), selection.set_att_svm):
        (first, one), (second, other) = (search(*case) for case in cases)
        assert torch.equal(first, torch.tensor(PLACES)[second])
        same(one.theta, other.theta)
    first, second = (selection.limit_offset(p, losses.logistic, att_svm(p)) for p, _ in cases)
    same(first.across, second.across, 1e-8)
    same(first.along, second.along, 1e-8)


def test_descent_flow_and_paths_of_padded_inputs(pair):
    plain, hidden = pair
    start, loss = random_theta(2, plain), losses.logistic
    same(
        run(hidden, loss, start, normalised(0.1), 50, [50]).theta,
        run(plain, loss, start, normalised(0.1), 50, [50]).theta,
        1e-8,
    )
    rules = [polyak(p, loss, selection.optimal_tokens(p)) for p in pair[::-1]]
    first, second = (run(p, loss, start, rule, 1).theta for p, rule in zip(pair[::-1], rules, strict=True))
    same(first, second, 1e-6)
    first, second = (log_time_flow(p, loss, start, [0.0, 2.0]).theta[-1] for p in (hidden, plain))
    same(first, second, 1e-6)


def test_the_span_of_padded_inputs():
    plain = random_problem(5, n=2, T=3, d=9, queries=3)
    hidden, theta = padded(plain), random_theta(0, plain)
    spanned = in_span(hidden)
    coordinates = span_coordinates(spanned, hidden.logits(theta))
    same(spanned.logits(coordinates), hidden.logits(theta))
    other = in_span(plain)
    same(from_span(hidden, spanned, coordinates), from_span(plain, other, span_coordinates(other, plain.logits(theta))))


def test_inputs_of_different_length():
    inputs = [torch.randn(length, 6, generator=seeded(length), dtype=torch.float64) for length in (2, 4, 3)]
    tokens = torch.nn.utils.rnn.pad_sequence(inputs, batch_first=True)
    mask = torch.arange(4) < torch.tensor([2, 4, 3])[:, None]
    problem = from_tokens(tokens, [1, -1, 1], torch.ones(6, dtype=torch.float64), mask=mask)
    theta, chosen = torch.randn(6, generator=seeded(0), dtype=torch.float64), [1, 2, 0]
    for i, own in enumerate(inputs):
        same(problem.attention(theta)[i, : len(own)], (own @ theta).softmax(0))
    rows = [own[k] - own[t] for own, k in zip(inputs, chosen, strict=True) for t in range(len(own)) if t != k]
    same(att_svm(problem, chosen).theta, hard_margin(torch.stack(rows)).theta)
    alone = [Problem(own[None], problem.scores[i : i + 1, : len(own)]) for i, own in enumerate(inputs)]
    expected = sum(dense(gradient(one, losses.logistic, theta)) for one in alone) / 3
    same(dense(gradient(problem, losses.logistic, theta)), expected)


def test_a_mask_goes_where_its_problem_goes():
    problem = padded(random_problem(0, batch=(2,)))
    assert torch.equal(problem[1].mask, problem.mask)
    assert stack([problem, problem]).mask.shape == (2, 2, 2, 5)
