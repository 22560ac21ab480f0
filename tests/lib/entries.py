"""Every entry point of the theory on one small input, for the tests of surroundings."""

from dataclasses import fields, is_dataclass

import torch

from lib import datasets, geometry, joint, losses
from lib.descent import constant, decaying, normalised, polyak, run
from lib.flow import log_time_flow
from lib.joint import JointProblem
from lib.joint_paths import joint_limit, joint_path
from lib.logspace import excess_risk, gradient, log_mean_loss, ordered
from lib.paths import multistart_path, regularization_path, stationarity
from lib.problem import Problem, difference_rows, from_tokens
from lib.selection import (
    limit_offset,
    locally_optimal,
    locally_optimal_selections,
    log_pulls,
    optimal_tokens,
    score_gaps,
    score_leads,
    selected_tokens,
    set_att_svm,
    token_margins,
)
from lib.separators import att_svm, hard_margin, hard_margin_cvxpy, label_svm, relaxed_att_svm
from lib.span import from_span, in_span, span_coordinates

FIGURE_3 = [[[0.0, 0.0], [1.0, 1.0]], [[0.0, 0.0], [1.0, -1.0]], [[0.0, 0.0], [0.5, 1.5]]]


def entries():
    """Results by name."""

    def array(*shape, seed=0):
        return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)

    def given(values):
        return torch.tensor(values, dtype=torch.float64)

    keys, scores = array(2, 3, 2), array(2, 3, seed=1)
    keys[:, 0] += 3.0
    plane = Problem(keys, scores)
    first, best, theta, loss = [0, 0], optimal_tokens(plane), array(2, seed=2), losses.logistic
    labels, tokens, queries, hidden = given([1.0, -1.0]), array(2, 3, 4, seed=3), array(2, 2, seed=4), array(4, seed=5)
    matrix = from_tokens(tokens, labels, hidden, queries=queries)
    curved = from_tokens(tokens, labels, lambda x: (x @ hidden).tanh(), key_matrix=array(2, 4, seed=6))
    far, vectors = array(8, seed=7), array(3, 4, seed=8)
    both = JointProblem(given(FIGURE_3), [1, -1, 1])
    spanned = in_span(matrix)
    radii = given([1.0, 10.0, 100.0])
    svm = att_svm(plane, first)

    def descent(rule, norm=2.0):
        return run(plane, loss, theta, rule, 5, [0, 5], norm)

    def change(one):
        return one.log_change(vectors, vectors.sign(), -vectors.abs())

    return {
        "norm": [geometry.norm(vectors, p) for p in (1, 1.5, 2.0)],
        "unit": geometry.unit(vectors, 3.0),
        "1 - cos": geometry.one_minus_cosine(vectors, vectors[0]),
        "mirror maps": [geometry.mirror_map(vectors, 1.5), geometry.inverse_mirror_map(vectors, 1.5)],
        "Bregman": [geometry.directional_bregman_divergence(vectors, vectors[0], p) for p in (1.5, 2.0)],
        "cone": geometry.in_cone(vectors, vectors[0], 0.5, 0.1),
        "circle": [
            one(radii, *other, 1.5) for one, other in ((geometry.on_circle, [2.0]), (geometry.along_circle, []))
        ],
        "losses": [
            [one.value(vectors), one.log_slope(vectors), one.constants(radii)] for one in losses.LOSSES.values()
        ],
        "changes": [change(one) for one in (*losses.LOSSES.values(), losses.cubic(0.3))],
        "smoothness": losses.smoothness(loss, tokens, hidden, array(2, 4, seed=6)),
        "risk": [
            plane.risk(loss, theta),
            matrix.risk(loss, far),
            curved.risk(loss, theta),
            plane.attention([1.0, 2.0]),
        ],
        "gradient": [gradient(one, loss, at) for one, at in ((plane, theta), (matrix, far), (curved, 3 * theta))],
        "excess": [excess_risk(one, loss, at, first) for one, at in ((plane, theta), (curved, 30 * theta))],
        "logs": [ordered(excess_risk(plane, loss, theta, best)), log_mean_loss(vectors)],
        "span": [
            spanned.keys @ spanned.keys.mT,
            from_span(matrix, spanned, span_coordinates(spanned, matrix.logits(far))),
        ],
        "rows": [difference_rows(plane, first), difference_rows(matrix, first)],
        "SVM": [svm, *(att_svm(matrix, first, p) for p in (2.0, 1.5, 3.0))],
        "linear programs": [geometry.norm(att_svm(plane, first, p).theta, p) for p in (1.0, torch.inf)],
        "other SVMs": [
            relaxed_att_svm(plane, first, [True, False]),
            label_svm(array(2, 5, seed=9), [1, -1]),
            hard_margin(difference_rows(plane, first), required=[1.0, 0.0, 0.5, 2.0]),
            hard_margin([[1.0, 0.0], [-1.0, 0.0]]).certificate,
        ],
        "cvxpy": hard_margin_cvxpy(difference_rows(plane, first)).theta,
        "selection": [
            best,
            selected_tokens(plane, theta),
            token_margins(plane, first, theta),
            score_leads(plane, first),
        ],
        "pulls": log_pulls(plane, loss, best),
        "offset": [limit_offset(matrix, loss, att_svm(matrix, norm=p), norm=p) for p in (2.0, 3.0)],
        "optimality": [locally_optimal(plane, first, svm), score_gaps(plane, first, svm)],
        "all selections": locally_optimal_selections(plane),
        "sets": set_att_svm(plane, [[True, True, False], [True, False, False]]),
        "descent": [
            descent(constant(0.5)),
            descent(decaying(normalised(0.1), 0.5)),
            descent(normalised(0.1, 3.0), 1.5),
        ],
        "Polyak": descent(polyak(plane, loss, best)),
        "flow": [log_time_flow(plane, loss, theta, [0.0, 5.0]), log_time_flow(plane, loss, theta, [0.5], norm=1.5)],
        "paths": [
            regularization_path(plane, loss, radii, angles=90),
            regularization_path(plane, loss, radii, (theta, 0.1)),
        ],
        "paths of a norm": regularization_path(plane, loss, [1.0, 10.0], angles=90, norm=3.0),
        "many starts": multistart_path(plane, loss, radii, array(3, 2, seed=10), best),
        "stationarity": stationarity(plane, loss, theta, 1.5),
        "joint": [joint.label_margin(both, both.attention(theta)), joint.assumption_c(both)],
        "joint gradients": [one(both, loss, theta, theta) for one in (joint.head_gradient, joint._joint_gradient)],
        "joint descent": joint.run(both, loss, theta, theta, None, normalised(0.1), 5),
        "joint limits": [joint_limit(both, [1, 1, 1], ratio) for ratio in (0, 0.5, 2.0)],
        "joint paths": [joint_path(both, radii, radii, angles=60), joint_path(both, [1e2], [1e3], 60, 1.5)],
    }


def data_sets():
    """The generated data, and a problem of lists: float64 in any surroundings."""
    draw = torch.Generator().manual_seed(0)
    sequences = datasets.orthogonal_tokens(2, 2, 5, 1, draw, noise=0.1)
    return {
        "figures": [datasets.figure_1("a"), datasets.figure_1("c", draw), datasets.figure_3("b")],
        "scores": [datasets.one_best(2, 3, 4, draw), datasets.one_best(2, 3, 4, draw, 1.0, equal=False)],
        "sphere": datasets.on_sphere(2, 3, 4, 5, draw),
        "sequences": [sequences, datasets.signal_tokens(2, 3, 4, 1, draw)],
        "head": datasets.head_with_scores(*sequences, [[[1.0, 0.0], [0.5, 0.25]]]),
        "lists": gradient(Problem([[[1, 0], [0, 1]]], [[1, 0]]), losses.exponential, [0.1, 0.2]),
    }


def flat(results):
    """All tensors in results, with their place as a name."""
    if isinstance(results, torch.Tensor):
        return {"": results}
    if is_dataclass(results):
        results = {field.name: getattr(results, field.name) for field in fields(results)}
    if isinstance(results, list | tuple):
        results = dict(enumerate(results))
    if not isinstance(results, dict):
        return {}
    return {f"{name}/{place}": part for name, one in results.items() for place, part in flat(one).items()}
