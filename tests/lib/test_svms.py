"""Hard-margin SVMs in any norm: conditions of optimality, certificates, closed forms, NNLS and cvxpy beside them."""

import math
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import seeded, seeds, verify
from scipy.optimize import nnls

from lib import _hard_margin, svm
from lib.datasets import figure_1
from lib.geometry import dual, inverse_mirror_map, norm
from lib.geometry import unit as unit_of
from lib.problem import Problem, difference_rows, from_tokens
from lib.separators import att_svm, hard_margin
from lib.svm import lp

unit = torch.nn.functional.normalize


# --- random problems, most of them hard


def tall(gaussian, size):
    return gaussian(40, 1 + size % 8) + size % 3 * gaussian(1, 1 + size % 8)


def wide(gaussian, size):
    return gaussian(1 + size % 6, 12)


def duplicated(gaussian, size):
    rows = gaussian(8, 1 + size % 8)
    return torch.cat([rows, rows[: 1 + size % 5], 2 * rows[:1]])


def nearly_duplicated(gaussian, size):
    rows = gaussian(10, 6)
    return torch.cat([rows, rows + 10.0 ** -(size % 16) * gaussian(10, 6)])


def nearly_opposed(gaussian, size):
    rows = gaussian(5, 7)
    return torch.cat([rows, -rows[:2] + 10.0 ** -(size % 12) * gaussian(1, 7)])


def badly_scaled(gaussian, size):
    return gaussian(12, 6) * 10 ** (gaussian(12, 1).clamp(-3, 3))


def long(gaussian, size):
    rows, axis = gaussian(14, 5), unit(gaussian(5), dim=0)
    return unit(rows - (rows @ axis)[:, None] * axis, dim=-1) + 10.0 ** -(size % 9) * axis


def averaged(gaussian, size):
    """Long solutions with rows that are tight, but for rounding, because two others are."""
    rows = long(gaussian, size)[:6]
    weights = gaussian(6, 6).abs()
    return torch.cat([rows, weights / weights.sum(-1, keepdim=True) @ rows, (rows + rows.roll(1, 0)) / 2])


def integers(gaussian, size):
    return gaussian(1 + size % 12, 1 + size % 5).round().clamp(-1, 2)


def opposed_pairs(gaussian, _):
    """Difference rows of a problem with queries, as the papers have them: few rows, many columns."""
    return difference_rows(Problem(gaussian(3, 4, 5), gaussian(3, 4), gaussian(3, 5)), [0, 1, 2])


KINDS = [tall, wide, duplicated, nearly_duplicated, nearly_opposed, badly_scaled, long, averaged, integers]
every_kind = pytest.mark.parametrize("kind", KINDS)
every_order = pytest.mark.parametrize("order", [1.05, 1.5, 3.0, 10.0, 30.0])


def drawn(kind, seed, size, required=False):
    """Rows and the margins they must have: 1, or several among them 0."""
    generator = seeded(seed)
    rows = kind(lambda *shape: torch.randn(*shape, generator=generator), size)
    margins = torch.tensor([0.0, 1.0, 0.3, 2.0])[torch.randint(4, (len(rows),), generator=generator)]
    margins[0] = 1.0
    return rows, margins if required else torch.ones(len(rows))


def length_by_nnls(rows, required):
    """|theta| (longest row) / (largest required margin) by Lawson and Hanson's reduction, infinite where none."""
    longest, most = rows.norm(dim=-1).max().item() or 1.0, required.max().item()
    system = np.vstack([rows.T.numpy() / longest, required.numpy() / most])
    residual = nnls(system, np.append(np.zeros(rows.shape[1]), 1.0), maxiter=100 * len(rows))[1]
    return math.sqrt(1 - residual**2) / residual if residual > 1e-9 else math.inf


# --- conditions of optimality


@every_kind
@given(seed=seeds, size=st.integers(0, 1000), required=st.booleans())
def test_conditions_of_optimality_or_a_proof(kind, seed, size, required):
    rows, required = drawn(kind, seed, size, required)
    expected = length_by_nnls(rows, required)
    try:
        separator = hard_margin(rows, required=required)
    except RuntimeError:  # it cannot be told
        assert expected > 1e8
        return
    verify(rows, required, separator)
    length = norm(separator.theta).item() * rows.norm(dim=-1).max().item() / required.max().item()
    if 1e8 < expected < math.inf or length > 1e8:
        return  # NNLS itself knows its residual to a tenth only
    assert separator.feasible == (expected < math.inf)
    assert length == pytest.approx(expected if separator.feasible else 0.0, rel=1e-8 + 1e-8 * expected**0.5)


@every_kind
@given(seed=seeds, size=st.integers(0, 1000))
def test_what_is_infeasible_by_construction_is_proved_to_be(kind, seed, size):
    rows, required = drawn(kind, seed, size, required=True)
    rows = torch.cat([rows, -(torch.rand(1, len(rows), generator=seeded(seed + 1)) @ rows)])
    required = torch.cat([required, torch.ones(1)])
    separator = hard_margin(rows, required=required)
    assert not separator.feasible
    verify(rows, required, separator)


@every_kind
@given(seed=seeds, size=st.integers(0, 1000), factor=st.sampled_from([1e-30, 1e-3, 1e30]))
def test_scaling_one_row_and_its_margin_changes_nothing(kind, seed, size, factor):
    rows, required = drawn(kind, seed, size)
    there, here = (hard_margin(f * rows, required=f * required, largest_gap=1e-3) for f in (factor, 1.0))
    assert there.feasible == here.feasible
    length = norm(here.theta).item()
    torch.testing.assert_close(there.theta, here.theta, rtol=0, atol=length * (1e-9 + 1e-13 * length))


@every_order
@settings(max_examples=15)
@given(kind=st.sampled_from([tall, wide, duplicated, integers, opposed_pairs]), seed=seeds, required=st.booleans())
def test_conditions_of_optimality_in_other_norms(order, kind, seed, required):
    rows, required = drawn(kind, seed, seed, required)
    separator = hard_margin(rows, order, required)
    assert separator.feasible == hard_margin(rows, required=required).feasible
    verify(rows, required, separator, order, gap=1e-10 if order < 20 else 1e-8)


LARGE = {
    "few support vectors": lambda generator: torch.randn(6000, 20, generator=generator) + 2,
    "many of them": lambda generator: torch.randn(400, 230, generator=generator),
    "a long solution": lambda generator: torch.randn(1000, 30, generator=generator) * torch.eye(30)[0].ne(1) + 1e-4,
    "infeasible": lambda generator: torch.randn(1500, 20, generator=generator) + 0.3,
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("seed", range(2))
def test_large_problems_against_nnls(name, seed):
    rows = LARGE[name](seeded(seed))
    required = torch.ones(len(rows))
    separator = hard_margin(rows)
    verify(rows, required, separator)
    expected = length_by_nnls(rows, required)
    assert separator.feasible == (name != "infeasible") == (expected < math.inf)
    if separator.feasible:
        assert norm(separator.theta) * rows.norm(dim=-1).max() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(
    ("name", "order"), [("few support vectors", 1.5), ("many of them", 1.1), ("many of them", 10.0)]
)
def test_large_problems_in_other_norms(name, order):
    rows = LARGE[name](seeded(0))[:900]
    assert len(rows) > lp.LARGE
    separator = hard_margin(rows, order)
    verify(rows, torch.ones(len(rows)), separator, order, gap=1e-10)


@pytest.mark.parametrize("order", [2.0, 1.5])
def test_the_number_of_threads_changes_no_digit(order):
    rows = torch.randn(23, 12, 8, generator=seeded(0)) + 0.3
    answers = []
    for threads in (1, 2, 3, 50):
        torch.set_num_threads(threads)
        answers.append(hard_margin(rows, order))
    assert len(answers[0].feasible.unique()) == 2
    for answer in answers[1:]:
        for part in ("theta", "duals", "certificate", "feasible"):
            assert torch.equal(getattr(answer, part), getattr(answers[0], part))


@pytest.mark.parametrize("order", [1.0, 1.75, 2.0, math.inf])
def test_a_batch_is_each_one_alone(order):
    rows = torch.randn(3, 30, 6, 5, generator=seeded(0))  # more than are solved at once
    together = hard_margin(rows, order)
    assert len(together.feasible.unique()) == 2
    for index in [(0, 0), (0, 7), (1, 29), (2, 3), (2, 29)]:
        alone = hard_margin(rows[index], order)
        assert alone.feasible == together.feasible[index]
        torch.testing.assert_close(together.theta[index], alone.theta, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(together.duals[index], alone.duals, rtol=1e-7, atol=1e-7)
        torch.testing.assert_close(together.gap[index], alone.gap, rtol=0, atol=1e-9, equal_nan=True)
        torch.testing.assert_close(together.certificate[index], alone.certificate)


# --- rows of any size


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


every_norm = st.sampled_from([1.0, 1.1, 1.5, 2.0, 3.0, math.inf, "spectral", "nuclear"])
powers = st.lists(st.integers(-500, 500), min_size=8, max_size=8)  # of 2: exact, and no quotient leaves the floats


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


@every_order
@pytest.mark.parametrize("factor", [1e-12, 1.0, 1e12])
def test_one_row_by_hand(order, factor):
    # By Hölder theta is the inverse mirror map of the row, up to its length 1 / |row|_q.
    row = factor * torch.tensor([[3.0, -4.0, 0.5, 1e-3]])
    separator = att_svm(row, norm=order)
    size = norm(row[0], dual(order)).item()
    expected = unit_of(inverse_mirror_map(unit_of(row[0], dual(order)), order), order) / size
    torch.testing.assert_close(separator.theta, expected, rtol=1e-9, atol=1e-9 / size)
    assert norm(separator.theta, order) == pytest.approx(1 / size, rel=1e-12)
    assert separator.duals.item() == pytest.approx(1 / size**2, rel=1e-9)


@pytest.mark.parametrize("length", [1e2, 1e5, 1e7])
def test_a_long_solution_with_many_support_vectors_by_hand(length):
    # Rows (x, 1 / length) with zero among the mixtures of the x: whatever is along x is of no use to some row.
    across = torch.randn(2000, 200, generator=seeded(0))
    separator = hard_margin(torch.cat([across, torch.full((2000, 1), 1 / length)], dim=-1))
    assert (separator.duals > 0).sum() > 190
    assert norm(separator.theta) == pytest.approx(length, rel=1e-12)
    assert separator.theta[-1] == pytest.approx(length, rel=1e-12)


# --- certificates of wrong answers


def gap_by_hand(rows, theta, duals, order=2.0):
    """1 - (dual bound) / |theta| of one answer, in NumPy."""
    rows, theta, duals = rows.numpy(), theta.numpy(), duals.numpy()
    dual = math.inf if order == 1 else 1.0 if order == math.inf else order / (order - 1)
    return 1 - duals.sum() / np.linalg.norm(duals @ rows, dual) / np.linalg.norm(theta, order)


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
