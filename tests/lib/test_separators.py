"""The SVMs of problems: their rows, relaxed, label and set-valued ones, matrix norms, locally optimal selections."""

import itertools
import math

import cvxpy
import numpy as np
import pytest
import torch
from problems import random_problem, seeded, verify
from test_svms import drawn, duplicated

from lib.datasets import figure_3
from lib.geometry import norm, unit
from lib.problem import Problem
from lib.selection import locally_optimal_selections, set_att_svm
from lib.separators import InfeasibleError, att_svm, hard_margin, hard_margin_cvxpy, label_svm, relaxed_att_svm


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


FIGURE_3 = {panel: Problem(figure_3(panel)[0], torch.zeros(3, 2)) for panel in "ab"}


def test_relaxed_svm_of_figure_3_by_hand():
    # Rows (1, 1), (1, -1) and (0.5, 1.5); without the third, (1, 0). With it, the last two are tight: (5, 1) / 4.
    relaxed = relaxed_att_svm(FIGURE_3["b"], [1, 1, 1], [True, True, False])
    torch.testing.assert_close(relaxed.theta, torch.tensor([1.0, 0.0]), rtol=0, atol=1e-12)
    torch.testing.assert_close(relaxed.margins, torch.tensor([1.0, 1.0, 0.5]))
    full = relaxed_att_svm(FIGURE_3["b"], [1, 1, 1], [True, True, True])
    torch.testing.assert_close(full.theta, torch.tensor([1.25, 0.25]))


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
