"""Hard-margin SVMs: closed forms, certificates, and cvxpy as the second opinion."""

import itertools
import math
from fractions import Fraction

import cvxpy
import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from problems import random_problem, seeded, seeds, verify
from scipy.optimize import linprog
from test_least_distance import drawn, duplicated

from lib import _hard_margin, svm
from lib.datasets import figure_1, figure_3
from lib.geometry import norm, unit
from lib.problem import Problem, difference_rows, from_tokens
from lib.selection import locally_optimal_selections, set_att_svm
from lib.separators import InfeasibleError, att_svm, hard_margin, hard_margin_cvxpy, label_svm, relaxed_att_svm
from lib.svm import at_once, lp


def gap_by_hand(rows, theta, duals, order=2.0):
    """1 - (dual bound) / |theta| of one answer, in NumPy."""
    rows, theta, duals = rows.numpy(), theta.numpy(), duals.numpy()
    dual = math.inf if order == 1 else 1.0 if order == math.inf else order / (order - 1)
    return 1 - duals.sum() / np.linalg.norm(duals @ rows, dual) / np.linalg.norm(theta, order)


# --- closed forms

# Keys (-.1, 1), (1, 0), (0, 0), so for token 0 the rows are (-1.1, 1) and (-.1, 1): the second alone is active. For
# token 1 they are (1.1, -1) and (1, 0): again the second. For token 2 both, (.1, -1) and (-1, 0), are.
FIGURE_1 = [
    (0, [-0.1 / 1.01, 1 / 1.01, 0], [0, 1 / 1.01]),
    (1, [1, 0, 0], [0, 1]),
    (2, [-1, -1.1, 0], [1.1, 1.11]),
]


@pytest.mark.parametrize("panel", ["a", "b"])
@pytest.mark.parametrize(("token", "theta", "duals"), FIGURE_1)
def test_figure_1_by_hand(panel, token, theta, duals):
    separator = att_svm(from_tokens(*figure_1(panel)), [token])
    torch.testing.assert_close(separator.theta, torch.tensor(theta, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(separator.duals, torch.tensor(duals, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    assert abs(separator.gap) <= 1e-12


def test_the_optimal_tokens_are_selected_unless_others_are():
    problem = random_problem(3, batch=(5,), d=8)
    best = problem.scores.argmax(-1)
    assert len(best.unique()) > 1
    assert torch.equal(att_svm(problem).theta, att_svm(problem, best).theta)
    assert not torch.equal(att_svm(problem, (best + 1) % 3).theta, att_svm(problem).theta)


def test_what_has_no_solution_is_an_error_or_a_mark():
    keys = torch.tensor([[[[1.0], [0.0]], [[0.0], [1.0]]], [[[1.0], [0.0]], [[1.0], [0.0]]]])
    problem = Problem(keys, torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    with pytest.raises(InfeasibleError, match=r"the SVM at index \(0,\) of the batch is infeasible"):
        att_svm(problem)
    marked = att_svm(problem, infeasible="mark")
    assert marked.feasible.tolist() == [False, True]
    assert marked.theta.tolist() == [[0.0], [1.0]]
    torch.testing.assert_close(marked.certificate, torch.tensor([[0.5, 0.5], [0.0, 0.0]]))


def test_nearly_opposed_rows_are_infeasible_only_where_rounding_makes_them_so():
    def rows(length):
        return torch.tensor([[1.0, 1 / length], [-1.0, 1 / length]])

    assert hard_margin(rows(1e8)).feasible
    assert hard_margin(rows(3e11), largest_gap=1.0).feasible
    assert not hard_margin(rows(1e14)).feasible


# --- certificates of wrong answers


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("wrong", ["theta", "duals", "both"])
def test_a_wrong_answer_has_the_gap_that_tells(order, wrong, monkeypatch):
    rows, generator = torch.randn(6, 8, generator=seeded(0)), seeded(1)
    best = att_svm(rows, norm=order)
    theta, duals = best.theta, best.duals
    if wrong != "duals":  # it separates, and is too long
        theta = att_svm(rows * (1 + torch.rand(6, 1, generator=generator)), norm=order).theta
    if wrong != "theta":
        duals = duals * (1 + torch.rand(6, generator=generator)) + 0.1 * duals.amax()
    monkeypatch.setattr(svm, "ordinary", lambda *_: None)
    monkeypatch.setattr(svm, "shortest", lambda *_: (theta.clone(), duals.clone(), torch.zeros(6)))
    monkeypatch.setattr(lp, "least_norm", lambda *_: (theta[None], duals[None]))
    with pytest.raises(RuntimeError, match="solved to a relative gap of"):
        att_svm(rows, norm=order)
    monkeypatch.setattr(_hard_margin, "LARGEST_GAP", 1.0)
    answer = att_svm(rows, norm=order)
    assert answer.gap.item() == pytest.approx(gap_by_hand(rows, answer.theta, answer.duals, order), rel=1e-9)
    assert answer.gap > 1e-3
    optimum = norm(best.theta, order)
    assert norm(answer.theta, order) * (1 - answer.gap) <= optimum * (1 + 1e-9)
    assert optimum <= norm(answer.theta, order) * (1 + 1e-9)


def test_a_wrong_direction_is_no_answer(monkeypatch):
    rows = torch.randn(6, 8, generator=seeded(0))
    monkeypatch.setattr(svm, "ordinary", lambda *_: None)
    monkeypatch.setattr(svm, "shortest", lambda *_: (-rows.mean(0), torch.ones(6), torch.zeros(6)))
    with pytest.raises(RuntimeError, match="does not separate the rows"):
        att_svm(rows)


@pytest.mark.parametrize("kind", ["random", "infeasible"])
def test_one_compiled_call_answers_as_torch_does(kind, monkeypatch):
    rows = torch.randn(7, 12, 6, generator=seeded(0)) + (0.0 if kind == "infeasible" else 1.0)
    at_once = hard_margin(rows)
    monkeypatch.setattr(svm, "ordinary", lambda *_: None)
    by_torch = hard_margin(rows)
    assert not at_once.feasible.all() if kind == "infeasible" else at_once.feasible.any()
    for part in ("theta", "duals", "margins", "gap", "feasible", "certificate", "margin_error"):
        torch.testing.assert_close(
            getattr(at_once, part), getattr(by_torch, part), equal_nan=True, rtol=1e-9, atol=1e-9
        )


@pytest.mark.parametrize("wrong", ["theta", "duals", "direction"])
def test_the_compiled_certificate_of_a_wrong_answer_is_the_gap(wrong):
    rows, generator = torch.randn(6, 8, generator=seeded(0)), seeded(1)
    best = hard_margin(rows)
    theta, duals = best.theta.clone(), best.duals.clone()
    if wrong == "duals":
        duals *= 1 + torch.rand(6, generator=generator)
    else:  # one that separates and is too long, or does not separate
        theta += (0.1 if wrong == "theta" else 10) * torch.randn(8, generator=generator)
    expected = gap_by_hand(rows, theta / (rows @ theta).min(), duals)
    scales, margins = 1 / rows.norm(dim=-1), torch.zeros(6)
    gap = at_once._certify(*(part.numpy() for part in (rows, scales, theta, duals, margins)))
    assert gap == pytest.approx(math.inf if wrong == "direction" else expected, rel=1e-9)
    assert gap > 1e-4


@pytest.mark.parametrize("row", [0, 3])
@pytest.mark.parametrize("entry", [math.nan, math.inf, -math.inf])
def test_an_entry_that_is_not_finite_is_refused(row, entry):
    rows = torch.randn(4, 3, generator=seeded(0))
    rows[row, 1] = entry
    with pytest.raises(ValueError, match=r"all entries must be finite"):
        hard_margin(rows)


@pytest.mark.parametrize("order", [1.1, 1.75, 3.3])
def test_a_norm_in_single_precision_is_solved_in_double(order):
    rows = torch.randn(12, 8, generator=seeded(0), dtype=torch.float64)
    assert hard_margin(rows * rows[:, :1].sign(), np.float32(order)).gap.abs() < 1e-12


def test_a_message_says_no_more_than_the_certificate_proves():
    """(0, 1e12) separates these rows, with margins of 1e-12 of the lengths."""
    rows = torch.tensor([[1.0, 1e-12], [-1.0, 1e-12]], dtype=torch.float64)
    with pytest.raises(
        InfeasibleError, match="by more than 1e-12 of the lengths of rows, as the attached cert"
    ) as error:
        att_svm(rows)
    assert (rows @ torch.tensor([0.0, 1e12], dtype=torch.float64) >= 1).all()
    assert torch.linalg.vector_norm(error.value.certificate @ rows) <= 1e-12


@pytest.mark.parametrize("entry", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("place", [0, 1, 2])
def test_an_entry_that_is_not_finite_is_refused_where_other_rows_are_infeasible(entry, place):
    rows = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])
    rows = torch.cat([rows[:place], torch.tensor([[0.0, entry]]), rows[place:]])
    for some in (rows, torch.stack([rows[[0, 0, 0]].nan_to_num(1.0, 1.0, 1.0), rows]), rows.repeat(100, 1)):
        with pytest.raises(ValueError, match="all entries must be finite"):
            hard_margin(some)


@pytest.mark.parametrize("order", [15.0, 20.0, 30.0])
def test_rows_of_very_different_lengths_are_normalised_before_giving_up(order):
    rows = torch.tensor([[120415.084, 321537.965], [9.12466, 0.12472]])
    separator = hard_margin(rows, order)
    assert abs(separator.gap) < 1e-10
    expected = norm(hard_margin(unit(rows), order, required=1 / norm(rows)).theta, order)
    assert norm(separator.theta, order).item() == pytest.approx(expected.item(), rel=1e-10)


# --- all locally optimal selections


def locally_optimal_on_a_grid(problem, order):
    """Definition 2 by brute force in the plane: no SVM, every direction tried."""
    angles = torch.linspace(0, 2 * math.pi, 200_001)[:-1]
    logits = problem.logits(unit(torch.stack([angles.cos(), angles.sin()], dim=-1), order))
    behind = logits.amax(-1, keepdim=True) - logits
    choices = logits.argmax(-1)
    smallest = behind.scatter(-1, choices[..., None], math.inf).flatten(-2).amin(-1)
    found = []
    for choice in choices.unique(dim=0):
        best = torch.where((choices == choice).all(-1), smallest, 0).argmax()
        near = behind[best] <= smallest[best] * (1 + 1e-3)
        lower = problem.scores < problem.scores.gather(-1, choice[:, None])
        chosen = torch.arange(problem.scores.shape[-1]) == choice[:, None]
        if (lower | chosen | ~near).all():
            found.append(choice.tolist())
    return found


@pytest.mark.parametrize("order", [1.5, 2.0, 3.0])
@pytest.mark.parametrize(("n", "T"), [(1, 4), (2, 3), (3, 3)])
@pytest.mark.parametrize("seed", range(2))
def test_locally_optimal_selections_against_all_directions_of_the_plane(n, T, seed, order):
    generator = seeded(seed)
    problem = Problem(torch.randn(n, T, 2, generator=generator), torch.randn(n, T, generator=generator))
    selected, separator = locally_optimal_selections(problem, order)
    assert selected.tolist() == locally_optimal_on_a_grid(problem, order)
    for choice, theta in zip(selected, separator.theta, strict=True):
        torch.testing.assert_close(theta, att_svm(problem, choice, order).theta, rtol=1e-9, atol=1e-9)


# --- batches, queries, refusals


def test_difference_rows_come_input_by_input():
    problem = random_problem(0, n=2, T=3, d=2)
    rows = difference_rows(problem, torch.tensor([1, 2]))
    expected = [(0, 1, 0), (0, 1, 2), (1, 2, 0), (1, 2, 1)]
    torch.testing.assert_close(rows, torch.stack([problem.keys[i, a] - problem.keys[i, t] for i, a, t in expected]))


@pytest.mark.parametrize("seed", range(5))
def test_queries_are_the_svm_over_outer_products(seed):
    problem, selected = random_problem(seed, n=2, T=3, d=3, queries=4), torch.tensor([0, 2])
    rows = torch.stack(
        [
            torch.outer(problem.keys[i, a] - problem.keys[i, t], problem.queries[i]).flatten()
            for i, a in enumerate(selected.tolist())
            for t in range(3)
            if t != a
        ]
    )
    separator = att_svm(problem, selected)
    torch.testing.assert_close(separator.margins, rows @ separator.theta)
    torch.testing.assert_close(separator.theta, hard_margin_cvxpy(rows).theta, rtol=0, atol=1e-5)


# --- required margins, relaxed, label and set-valued SVMs


def test_required_margins_against_cvxpy():
    outcomes = set()
    for seed in range(40):
        rows, required = drawn(duplicated, seed, seed, required=True)
        ours = hard_margin(rows, required=required)
        outcomes.add(ours.feasible.item())
        verify(rows, required, ours)
        if not ours.feasible:
            with pytest.raises(InfeasibleError) as refusal:
                hard_margin_cvxpy(rows, required=required)
            assert refusal.value.certificate @ required == pytest.approx(1)
            assert (refusal.value.certificate @ rows).abs().max() <= 1e-6 * rows.abs().max()
            continue
        theirs, length = hard_margin_cvxpy(rows, required=required), norm(ours.theta).item()
        torch.testing.assert_close(ours.theta, theirs.theta, rtol=0, atol=1e-4 * length)
        assert length <= norm(theirs.theta) * (1 + 1e-12)
    assert outcomes == {True, False}


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_a_margin_of_zero_may_be_missed_by_rounding(sign):
    separator = hard_margin([[1.0, sign], [-2.0, 0.0]], required=[1.0, 0.0])
    torch.testing.assert_close(separator.theta, torch.tensor([0.0, sign]), rtol=0, atol=1e-12)


def test_a_batch_of_required_margins_is_each_one_alone():
    rows = torch.tensor([[1.0, 0.2], [-1.0, -0.2], [0.1, 1.0]])
    required = torch.tensor([[0.0, 0.0, 1.0], [1.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.3, 0.0, 1.0]])
    together = hard_margin(rows, required=required)
    assert together.feasible.tolist() == [True, False, True, False]
    assert together.margins.shape == (4, 3)
    for k in range(4):
        alone = hard_margin(rows, required=required[k])
        torch.testing.assert_close(together.theta[k], alone.theta, rtol=0, atol=1e-12)
        torch.testing.assert_close(together.certificate[k], alone.certificate, rtol=0, atol=1e-12)


FIGURE_3 = {panel: Problem(figure_3(panel)[0], torch.zeros(3, 2)) for panel in "ab"}


def test_relaxed_svm_of_figure_3_by_hand():
    # Rows (1, 1), (1, -1) and (0.5, 1.5); without the third, (1, 0). With it, the last two are tight: (5, 1) / 4.
    relaxed = relaxed_att_svm(FIGURE_3["b"], [1, 1, 1], [True, True, False])
    torch.testing.assert_close(relaxed.theta, torch.tensor([1.0, 0.0]), rtol=0, atol=1e-12)
    torch.testing.assert_close(relaxed.margins, torch.tensor([1.0, 1.0, 0.5]))
    full = relaxed_att_svm(FIGURE_3["b"], [1, 1, 1], [True, True, True])
    torch.testing.assert_close(full.theta, torch.tensor([1.25, 0.25]))


def test_relaxed_svm_requires_a_margin_of_the_support_alone():
    problem, selected = random_problem(0, n=3, T=3, d=8), [0, 1, 2]
    relaxed = relaxed_att_svm(problem, selected, [True, False, True])
    expected = hard_margin(difference_rows(problem, selected), required=[1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    assert torch.equal(relaxed.theta, expected.theta)
    with pytest.raises(InfeasibleError, match=r"infeasible.*select other tokens"):
        relaxed_att_svm(Problem([[[1.0], [0.0]], [[0.0], [1.0]]], torch.zeros(2, 2)), [0, 0], [True, True])


@pytest.mark.parametrize("order", [1.5, 2.0])
@pytest.mark.parametrize("seed", range(3))
def test_label_svm_against_cvxpy(seed, order):
    generator = seeded(seed)
    features = torch.randn(2, 5, 6, generator=generator)
    labels = 2.0 * torch.randint(0, 2, (2, 5), generator=generator) - 1
    ours = label_svm(features, labels, order)
    for k in range(2):
        signed = torch.stack([label * feature for label, feature in zip(labels[k], features[k], strict=True)])
        torch.testing.assert_close(ours.theta[k], hard_margin_cvxpy(signed, order).theta, rtol=0, atol=1e-4)


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, math.inf])
@pytest.mark.parametrize("scale", [2.0**-990, 1e-300, 1e-200, 1e200, 1e300])
def test_rows_of_any_size_give_theta_of_the_inverse_size(scale, order):
    rows = torch.tensor([[[1.0, 0.2, 0.3], [0.1, 1.0, -0.4]], [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]])
    there, here = hard_margin(scale * rows, order), hard_margin(rows, order)
    assert there.feasible.tolist() == [True, False]
    torch.testing.assert_close(there.theta * scale, here.theta, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(there.margins, here.margins, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(there.certificate, here.certificate)
    problem = Problem(scale * torch.tensor([[[1.0, 0.0], [0.0, 0.0]]]), [[1.0, 0.0]])
    assert (att_svm(problem, [0]).theta * scale).tolist() == pytest.approx([1.0, 0.0])


@pytest.mark.parametrize("scale", [2.0**-60, 2.0**60])
def test_a_power_of_two_changes_no_digit(scale):
    rows = torch.randn(20, 6, 8, generator=seeded(0))
    there, here = hard_margin(scale * rows), hard_margin(rows)
    assert torch.equal(there.theta * scale, here.theta)
    assert torch.equal(there.duals * scale**2, here.duals)
    assert torch.equal(there.gap, here.gap)


# --- rows of very different size

every_norm = st.sampled_from([1.0, 1.1, 1.5, 2.0, 3.0, math.inf, "spectral", "nuclear"])
powers = st.lists(st.integers(-500, 500), min_size=8, max_size=8)  # of 2: exact, and no quotient leaves the floats


def margin_by_linprog(rows):
    """The largest t for which some theta within the cube gives all rows, scaled to length 1, the margin t."""
    unit, (m, d) = rows.numpy() / np.linalg.norm(rows.numpy(), axis=-1, keepdims=True), rows.shape
    within = [(-1, 1)] * d + [(None, 1)]
    return -linprog(np.eye(d + 1)[d] * -1, np.hstack([-unit, np.ones((m, 1))]), np.zeros(m), bounds=within).fun


def exact_margins(rows, theta):
    theta = [Fraction(entry) for entry in theta.tolist()]
    return [sum(Fraction(a) * b for a, b in zip(row, theta, strict=True)) for row in rows.tolist()]


def told(rows, order):
    """The separator of rows of six entries, None where it cannot be told; its promises are checked."""
    try:
        separator = hard_margin(rows, order, shape=(2, 3))
    except RuntimeError:
        return None
    if separator.feasible:
        assert min(exact_margins(rows, separator.theta)) > 0
        assert separator.margins.min() == pytest.approx(1)
    else:
        weights = separator.certificate * rows.norm(dim=-1)
        assert (weights / weights.sum() @ (rows / rows.norm(dim=-1, keepdim=True))).norm() < 1.1e-12
    return separator


@settings(max_examples=150)
@given(seed=seeds, powers=powers, order=every_norm)
@example(seed=0, powers=[0, 0, 0, 30, 0, 0, 0, 0], order=2.0)
def test_rows_scaled_apart_are_separated_or_it_cannot_be_told(seed, powers, order):
    rows = torch.randn(8, 6, generator=seeded(seed)) + 0.7 * torch.randn(6, generator=seeded(seed + 1))
    margin = margin_by_linprog(rows)
    separator = told(rows * 2.0 ** torch.tensor(powers)[:, None], order)
    if separator is not None and (margin < 1e-13 or margin > 1e-6):
        assert separator.feasible == (margin > 1e-6)


@settings(max_examples=100)
@given(seed=seeds, powers=powers, order=every_norm)
def test_infeasible_rows_scaled_apart_never_have_a_separator(seed, powers, order):
    rows = torch.randint(-4, 5, (7, 6), generator=seeded(seed)).double()
    rows = torch.cat([rows, -torch.randint(1, 5, (1, 7), generator=seeded(seed + 1)).double() @ rows])
    rows[rows.norm(dim=-1) == 0] = 1.0  # no matter where: the others still oppose each other, or it is one of them
    if rows[-1].eq(1).all() or rows[:-1].eq(1).all(-1).any():
        return
    separator = told(rows * 2.0 ** torch.tensor(powers)[:, None], order)
    assert separator is None or not separator.feasible


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0, 3.0, math.inf])
@pytest.mark.parametrize("scale", [1e8, 1e9, 1e12, 1e100, 1e300])
@pytest.mark.parametrize("token", [0, 1])
def test_one_token_may_be_of_any_size(token, scale, order):
    problem = random_problem(3, n=2, T=3, d=8)
    keys = problem.keys.clone()
    keys[0, token] *= scale
    separator = att_svm(Problem(keys, problem.scores), [0, 0], norm=order)
    rows = difference_rows(Problem(keys, problem.scores), [0, 0])
    assert min(exact_margins(rows, separator.theta)) > 0.999
    assert separator.gap < 1e-6


def test_labels_that_cannot_be_separated_are_refused_with_the_certificate():
    with pytest.raises(InfeasibleError, match=r"no head has every label right.*use other features") as refusal:
        label_svm([[1.0, 2.0], [2.0, 4.0]], [1.0, -1.0])
    torch.testing.assert_close(refusal.value.certificate, torch.tensor([2 / 3, 1 / 3]))


def test_two_optimal_tokens_give_two_solutions():
    problem = Problem([[[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]], torch.zeros(1, 3))
    selected, separator = set_att_svm(problem, [[True, True, False]])
    assert selected.tolist() == [[0], [1]]
    torch.testing.assert_close(separator.theta, torch.eye(2), rtol=0, atol=1e-12)
    assert problem.logits(separator.theta.mean(0)).max() == pytest.approx(0.5)  # the set is not convex


def smallest_lead(problem, optimal, directions):
    """min_i max_{alpha in O_i} min_{beta not in O_i} p . (k_alpha - k_beta), shape (directions,)."""
    logits = problem.logits(directions)
    ahead = torch.where(optimal, logits, -math.inf).amax(-1)
    return (ahead - torch.where(optimal, -math.inf, logits).amax(-1)).amin(-1)


def test_sets_of_tokens_against_all_directions_of_the_plane():
    angles = torch.linspace(0, 2 * math.pi, 100_001)
    circle, outcomes, sizes = torch.stack([angles.cos(), angles.sin()], dim=-1), set(), set()
    for seed in range(25):
        generator = seeded(seed)
        problem = Problem(torch.randn(2, 4, 2, generator=generator), torch.zeros(2, 4))
        counts = torch.randint(1, 4, (2, 1), generator=generator)
        optimal = torch.rand(2, 4, generator=generator).argsort(-1) < counts
        sizes |= set(counts.flatten().tolist())
        best = smallest_lead(problem, optimal, circle).max().item()
        outcomes.add(best > 0)
        if best > 0:
            selected, separator = set_att_svm(problem, optimal)
            margin = (1 / norm(separator.theta)).min().item()
            assert best <= margin * (1 + 1e-9)
            assert best >= margin - 3e-4  # half the spacing of the angles times the longest row
            torch.testing.assert_close(
                smallest_lead(problem, optimal, separator.theta), torch.ones(len(selected)), rtol=1e-9, atol=0
            )
            assert optimal.gather(-1, selected.mT).all()
        else:
            with pytest.raises(InfeasibleError, match="no choice of optimal tokens can be separated"):
                set_att_svm(problem, optimal)
    assert outcomes == {True, False}
    assert sizes == {1, 2, 3}


def test_an_input_with_optimal_tokens_only_imposes_nothing():
    keys = torch.randn(2, 3, 2, generator=seeded(1))
    alone = set_att_svm(Problem(keys[:1], torch.zeros(1, 3)), [[True, True, False]])
    selected, separator = set_att_svm(Problem(keys, torch.zeros(2, 3)), [[True, True, False], [True, True, True]])
    assert selected[:, 0].tolist() == alone[0][:, 0].tolist()
    torch.testing.assert_close(separator.theta, alone[1].theta)


def test_a_gap_that_is_too_wide_passes_where_it_is_let_pass(monkeypatch):
    rows = torch.tensor([[3.0, -4.0]])
    monkeypatch.setattr(lp, "_few", lambda rows, required, start, duals, norm: (start, duals))
    with pytest.raises(RuntimeError, match="relative gap of"):
        hard_margin(rows, norm=3)
    assert 1e-3 < hard_margin(rows, norm=3, largest_gap=0.5).gap < 0.5  # Euclid's solution
    with pytest.raises(ValueError, match="largest_gap is -1"):
        hard_margin(rows, largest_gap=-1)


# --- spectral and nuclear norm


@pytest.mark.parametrize("name", ["spectral", "nuclear"])
def test_one_matrix_row_in_matrix_norms(name):
    row = torch.tensor([[3.0, 0.0, 0.0, 4.0]]).double()  # singular values 3 and 4
    separator = hard_margin(row, name, shape=(2, 2))
    expected = {"spectral": [1 / 7, 0, 0, 1 / 7], "nuclear": [0, 0, 0, 1 / 4]}[name]
    torch.testing.assert_close(separator.theta, torch.tensor(expected).double(), rtol=0, atol=1e-5)
    # by hand: the dual norm of u D is that of lambda, and u times it is the multiplier of |theta|^2 / 2
    assert separator.duals.item() == pytest.approx({"spectral": 1 / 49, "nuclear": 1 / 16}[name], rel=1e-6)


@pytest.mark.parametrize("name", ["spectral", "nuclear"])
@pytest.mark.parametrize("seed", range(3))
def test_matrix_norms_by_their_gap(name, seed):
    rows = torch.randn(8, 12, generator=seeded(seed), dtype=torch.float64)
    separator = hard_margin(rows, name, shape=(3, 4))
    kinds = {"spectral": 2, "nuclear": "nuc"}
    length = np.linalg.norm(separator.theta.reshape(3, 4).numpy(), kinds[name])
    combined = (separator.duals @ rows).reshape(3, 4).numpy()
    dual = np.linalg.norm(combined, kinds["nuclear" if name == "spectral" else "spectral"])
    assert 1 - separator.duals.sum().item() / dual / length == pytest.approx(separator.gap.item(), abs=1e-13)
    assert -1e-13 < separator.gap < 1e-8
    assert separator.margins.min() == pytest.approx(1)
    assert separator.duals.sum().item() == pytest.approx(length**2, rel=1e-7)


def test_att_svm_takes_the_shape_from_the_queries_and_marks_what_has_no_solution():
    generator = seeded(5)
    problem = Problem(*(torch.randn(shape, generator=generator).double() for shape in ((2, 3, 3), (2, 3), (2, 4))))
    rows = difference_rows(problem, [0, 1])
    separator = att_svm(problem, [0, 1], "nuclear")
    torch.testing.assert_close(separator.theta, hard_margin(rows, "nuclear", shape=(3, 4)).theta)
    marked = hard_margin(torch.stack([rows, torch.cat([rows[:-1], -rows[:1]])]), "spectral", shape=(3, 4))
    assert marked.feasible.tolist() == [True, False]


# --- the norm of sign matrices


@pytest.mark.parametrize("shape", [(3, 4), (4, 2), (7, 8)])
@pytest.mark.parametrize("seed", range(3))
def test_the_norm_of_signs_by_its_gap_and_another_statement(shape, seed):
    size = math.prod(shape)
    rows = torch.randn(6, size, generator=seeded(seed), dtype=torch.float64)
    separator = hard_margin(rows, "signs", shape=shape)
    assert separator.gap.abs() < 1e-8
    assert separator.margins.min() == pytest.approx(1)
    assert (separator.duals >= 0).all()
    # the dual: the largest sum of weights u whose combination G has no s with |G^T s|_1 above 1
    signs = np.array(list(itertools.product([1.0, -1.0], repeat=shape[0])))
    weights = cvxpy.Variable(6, nonneg=True)
    combined = cvxpy.reshape(rows.numpy().T @ weights, shape, order="C")
    stated = [cvxpy.norm1(combined.T @ sign) <= 1 for sign in signs]
    best = cvxpy.Problem(cvxpy.Maximize(cvxpy.sum(weights)), stated).solve(solver=cvxpy.CLARABEL)
    assert norm(separator.theta, "signs", shape).item() == pytest.approx(best, rel=1e-7)


def test_the_norm_of_signs_is_dual_to_the_largest_form_of_signs():
    first, second = torch.randn(2, 5, 12, generator=seeded(0), dtype=torch.float64)
    bound = norm(first, "signs", (3, 4)) * norm(second, "inf-1", (3, 4))
    assert ((first * second).sum(-1) <= bound * (1 + 1e-9)).all()
    assert (norm(first, math.inf) <= norm(first, "signs", (3, 4)) * (1 + 1e-9)).all()
    one = torch.tensor([1.0, -1.0, -1.0, 1.0, 1.0, -1.0]).double()
    assert norm(3 * one, "signs", (3, 2)).item() == pytest.approx(3)  # a sign matrix itself
    assert norm(torch.eye(2).flatten().double(), "signs", (2, 2)).item() == pytest.approx(1)
    assert norm(torch.eye(2).flatten().double(), "inf-1", (2, 2)).item() == pytest.approx(2)


@pytest.mark.parametrize("shape", [(1, 5), (3, 3), (6, 4), (8, 8)])
def test_the_norm_of_signs_of_an_outer_product_is_that_of_its_largest_entries(shape):
    column, row = (torch.randn(n, generator=seeded(n), dtype=torch.float64) for n in shape)
    column[0], row[-1] = 0.0, 1e-9
    for size in (1e-8, 1.0, 1e8):
        product = (size * column[:, None] * row).flatten()
        expected = size * (column.abs().max() * row.abs().max()).item()
        assert norm(product, "signs", shape).item() == pytest.approx(expected, rel=1e-8)


def test_the_norm_of_signs_of_few_sign_matrices_does_not_depend_on_order_signs_and_sides():
    signs, weights = torch.randn(2, 5, 6, generator=seeded(1), dtype=torch.float64).sign(), [0.5, 1.0, 0.1, 2.0, 0.3]
    matrix = sum(weight * first[:, None] * second for weight, first, second in zip(weights, *signs, strict=True))
    plain = norm(matrix.flatten(), "signs", (6, 6))
    assert plain <= sum(weights) * (1 + 1e-8)
    turned = (matrix * signs[0, 0])[[3, 0, 5, 1, 4, 2]].T
    assert norm(turned.flatten(), "signs", (6, 6)).item() == pytest.approx(plain.item(), rel=1e-8)
