"""The compiled solvers: properties over random problems, NNLS as the second opinion, threads, and large problems."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from problems import seeded, seeds, verify
from scipy.optimize import nnls

from lib.geometry import dual, norm
from lib.separators import hard_margin
from lib.svm import euclidean, lp

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


def of_low_rank(gaussian, size):
    rows = gaussian(9, 1 + size % 4) @ gaussian(1 + size % 4, 7)
    return torch.cat([rows, rows * gaussian(9, 1).abs()])


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


KINDS = [tall, wide, duplicated, nearly_duplicated, nearly_opposed, of_low_rank, badly_scaled, long, averaged, integers]
every_kind = pytest.mark.parametrize("kind", KINDS)


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


@pytest.mark.parametrize(("leftover", "right"), [(0.0, True), (1e-12, True), (1e-6, False), (1.0, False)])
def test_weights_are_a_certificate_only_if_they_prove_it(leftover, right):
    rows = torch.tensor([[1.0, leftover], [5.0, 5.0], [-2.0, 0.0]]).numpy()
    certificate, weights, active = np.zeros(3), np.array([2.0, 1.0, -1e-17]), np.array([0, 2, 1])
    assert euclidean._proves(rows, np.ones(3), active, weights, certificate) == right
    assert certificate.tolist() == ([2 / 3, 0.0, 1 / 3] if right else [0.0, 0.0, 0.0])


@pytest.mark.parametrize(("m", "size"), [(1, 1), (3, 7), (20, 10), (300, 5), (257, 300)])
def test_the_buffer_of_a_problem_is_as_large_as_its_parts(m, size):
    buffer = np.zeros(euclidean.room(m, size))
    basis, (part, turn, rest, turns), near, looked, lacks, scales = euclidean._space.py_func(buffer, m, size)
    parts = *basis, part, turn, rest, *turns, near, *looked, lacks, scales
    for array in parts:
        array[...] = 1
    assert sum(array.size for array in parts) == np.count_nonzero(buffer) == buffer.size
    assert [len(lacks), len(scales), len(rest), len(near)] == [m, m, size, min(m, euclidean.NEAR)]


# --- threads


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


# --- large problems, which are solved on the rows near the margin

LARGE = {
    "few support vectors": lambda generator: torch.randn(6000, 20, generator=generator) + 2,
    "many of them": lambda generator: torch.randn(400, 230, generator=generator),
    "a long solution": lambda generator: torch.randn(1000, 30, generator=generator) * torch.eye(30)[0].ne(1) + 1e-4,
    "infeasible": lambda generator: torch.randn(1500, 20, generator=generator) + 0.3,
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("seed", range(3))
def test_large_problems_against_nnls(name, seed):
    rows = LARGE[name](seeded(seed))
    required = torch.ones(len(rows))
    separator = hard_margin(rows)
    verify(rows, required, separator)
    expected = length_by_nnls(rows, required)
    assert separator.feasible == (name != "infeasible") == (expected < math.inf)
    if separator.feasible:
        assert norm(separator.theta) * rows.norm(dim=-1).max() == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("length", [1e2, 1e5, 1e7])
def test_a_long_solution_with_many_support_vectors_by_hand(length):
    # Rows (x, 1 / length) with zero among the mixtures of the x: whatever is along x is of no use to some row.
    across = torch.randn(2000, 200, generator=seeded(0))
    separator = hard_margin(torch.cat([across, torch.full((2000, 1), 1 / length)], dim=-1))
    assert (separator.duals > 0).sum() > 190
    assert norm(separator.theta) == pytest.approx(length, rel=1e-12)
    assert separator.theta[-1] == pytest.approx(length, rel=1e-12)


FEW, MANY = list(LARGE)[:2]


@pytest.mark.parametrize(("name", "order"), [(FEW, 1.0), (FEW, 1.5), (MANY, 1.1), (MANY, 10.0), (MANY, math.inf)])
def test_large_problems_in_other_norms_are_those_with_all_rows(name, order, monkeypatch):
    rows = LARGE[name](seeded(0))[:900]
    given_rows = []
    solve = lp._few
    monkeypatch.setattr(lp, "_few", lambda *some: given_rows.append(some[0].shape[1]) or solve(*some))
    some = hard_margin(rows, order)
    assert max(given_rows) < len(rows)
    monkeypatch.setattr(lp, "LARGE", len(rows))
    whole = hard_margin(rows, order)
    assert given_rows[-1] == len(rows)
    gap = 1e-10 if 1 < order < math.inf else 1e-8  # what HiGHS leaves
    assert abs(some.gap) <= gap
    assert norm(some.theta, order) == pytest.approx(norm(whole.theta, order).item(), rel=gap)
    assert norm(some.duals @ rows, dual(order)) == pytest.approx(norm(some.theta, order).item(), rel=1e-8)
    assert (some.margins >= 1 - 1e-9).all()


@settings(max_examples=10)
@given(seed=seeds, order=st.sampled_from([1.1, 1.5, 3.0]))
def test_large_problems_with_required_margins(seed, order):
    generator = seeded(seed)
    rows = torch.randn(300, 10, generator=generator) + 2
    required = torch.tensor([0.0, 1.0, 0.3, 2.0])[torch.randint(4, (300,), generator=generator)]
    separator = hard_margin(rows, order, required)
    assert separator.feasible == hard_margin(rows, required=required).feasible
    if separator.feasible:
        assert abs(separator.gap) <= 1e-10
        assert (rows @ separator.theta >= required - 1e-9).all()
        assert (separator.duals * (separator.margins - required)).abs().max() <= 1e-9 * separator.duals.sum()
