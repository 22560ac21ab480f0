"""Bad input to the library is refused by one sentence that names argument or value and, behind a colon, a remedy."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from problems import refuses

from lib import (
    datasets,
    descent,
    figures,
    geometry,
    intervals,
    joint,
    joint_paths,
    ledger,
    logspace,
    losses,
    paths,
    problem,
    published,
    selection,
    separators,
    steepest,
)
from lib.flow import log_time_flow
from lib.joint import JointProblem
from lib.losses import logistic
from lib.problem import Problem, from_tokens

GENERATOR = torch.Generator().manual_seed(0)
KEYS, TOKENS = torch.randn(2, 2, 3, 4, generator=GENERATOR)
SCORES = torch.randn(2, 3, generator=GENERATOR)
LABELS, HEAD, START = torch.ones(2), torch.ones(4), torch.zeros(4)
PROBLEM, BATCH = Problem(KEYS, SCORES), Problem(KEYS.expand(5, 2, 3, 4), SCORES)
CURVED = from_tokens(TOKENS, LABELS, lambda features: features.sum(-1))
SMALL = Problem([[[1.0], [0.0]]], [[1.0, 0.0]])
FACTORS = torch.ones(4, 2)
ASKED = Problem(KEYS, SCORES, torch.ones(2, 3))
PLANE = Problem([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 0.0]])
JOINT, PAIR = JointProblem(TOKENS, LABELS), JointProblem([[[1.0, 0.0], [0.0, 1.0]]], [1.0])
NONE = Problem(torch.zeros(17, 3, 2), torch.zeros(17, 3))
AXIS = torch.tensor([1.0, 0.0])
MASKED = Problem(torch.ones(2, 3, 1), torch.ones(2, 3), mask=[[True, True, False], [True, True, True]])


def spoiled(array, value, *index):
    array = array.clone()
    array[index] = value
    return array


def run(problem=PROBLEM, start=START, rule=None, iterations=3, loss=logistic, **kwargs):
    return descent.run(problem, loss, start, rule or descent.constant(0.1), iterations, **kwargs)


def factored(problem=ASKED, keys=FACTORS, queries=None):
    queries = FACTORS[:3] if queries is None else queries
    return steepest.factored_run(problem, logistic, keys, queries, descent.constant(0.1), 3)


def flow(log_times=(1.0,), problem=PROBLEM, start=START, **kwargs):
    return log_time_flow(problem, kwargs.pop("loss", logistic), start, log_times, **kwargs)


def path(radii=(1.0, 2.0), problem=PLANE, loss=logistic, **kwargs):
    return paths.regularization_path(problem, loss, radii, **kwargs)


def joint_path(head_radii=(1.0,), radii=(1.0,), problem=PAIR, **kwargs):
    return joint_paths.joint_path(problem, head_radii, radii, **kwargs)


def data():
    return datasets.scored_tokens([[[1.0], [0.0]]], [[1.0, 0.0]])


def plane(paths=(((0.0, 0.0),), ((1.0, 0.0),)), points=((1.0, 0.0), (0.0, 1.0)), **kwargs):
    kwargs = {"scores": (1.0, 0.0), "chosen": (True, False)} | kwargs
    return figures.plane(paths, points, **kwargs)


def lonely(**kwargs):
    return lambda: Problem(KEYS, SCORES, **kwargs)


def rule(step):
    return lambda grad, theta, k: step(theta)


SOURCE = ledger.source("2306.13596", "Theorem 2", "printed", set="after")
ROW = SOURCE.claim("a", "It holds.", 1.0, "<=", 2.0)
HUGE = 10**400
REFUSED = [
    # shapes that do not fit
    (lambda: Problem(KEYS[0, 0], SCORES), "keys has shape (4,)"),
    (lambda: Problem(KEYS[:0], SCORES[:0]), "keys has shape (0, 3, 4)"),
    (lambda: Problem(KEYS, SCORES.T), "keys have (n, T) = (2, 3), scores have (3, 2)"),
    (lambda: Problem(KEYS, SCORES, torch.ones(3, 2)), "queries are 3, inputs are 2"),
    (lambda: Problem(KEYS[:, :1], SCORES[:, :1]), "keys have T = 1 token"),
    (lambda: from_tokens(TOKENS, torch.ones(3), HEAD), "labels have shape (3,), inputs are 2"),
    (lambda: from_tokens(TOKENS, LABELS, torch.ones(3)), "head has 3 columns, tokens have d = 4"),
    (lambda: PROBLEM.logits(torch.ones(3)), "theta has shape (3,)"),
    (lambda: flow(problem=BATCH), "start has leading dimensions (), the problem (5,)"),
    (lambda: PROBLEM.margins(torch.ones(2, 5)), "attention has shape (2, 5)"),
    (lambda: separators.att_svm(PROBLEM, [0]), "selected has shape (1,)"),
    (lambda: separators.att_svm(KEYS, [0, 0]), "problem is a Tensor, selected [0, 0]"),
    (lambda: separators.att_svm(PROBLEM, infeasible="ignore"), "infeasible is 'ignore'"),
    (lambda: problem.stack([PROBLEM, SMALL]), "have arrays of shapes {'keys': (2, 3, 4), 'scores': (2, 3)}"),
    (lambda: problem.stack([CURVED, replace(CURVED, head=torch.sum)]), "different nonlinear heads"),
    (lambda: datasets.scored_tokens(TOKENS, SCORES[:, :2]), "positions have (n, T) = (2, 3), scores (2, 2)"),
    (lambda: separators.label_svm(torch.eye(2), [1.0, -1.0, 1.0]), "labels have shape (3,), inputs are 2"),
    (lambda: separators.hard_margin(torch.eye(2), required=[1.0, 1.0, 1.0]), "required margins are 3, rows are 2"),
    (lambda: JointProblem(TOKENS, [1.0]), "labels have shape (1,), inputs are 2"),
    (lambda: JOINT.fixed_head([1.0, 2.0]), "the head has 2 entries, tokens have 4"),
    (lambda: joint_path([1.0, 2.0], [1.0]), "there are (2,) radii of the head and (1,) of the prompt"),
    (lambda: from_tokens(TOKENS, LABELS, lambda x: x), "the head maps shape (2, 3, 4) to (2, 3, 4)"),
    (lambda: datasets.head_with_scores(TOKENS, LABELS, SCORES.T), "scores (3, 2), labels n = (2,)"),
    # leading dimensions that do not fit
    (lambda: Problem(KEYS.expand(5, 2, 3, 4), SCORES.expand(6, 2, 3)), "dimensions of keys (5,), scores (6,) do not f"),
    (lambda: run(BATCH, BATCH.keys[:, 0, 0], descent.constant(torch.ones(6))), "step_size (6,), run (5,) do not fit t"),
    (lambda: run(rule=descent.normalised(torch.ones(6))), "step_size has shape (6,), the run ()"),
    (lambda: selection.set_att_svm(BATCH, torch.ones(2, 3).bool()), "problem has leading dimensions (5,)"),
    (lambda: joint_paths.joint_limit(JointProblem(BATCH.keys, LABELS), [0, 0], 1.0), "problem has leading dimensions"),
    (lambda: joint.assumption_c(JointProblem(torch.ones(7, 6, 2), torch.ones(7))), "there are 6^7 selections"),
    # no real and finite numbers
    (lambda: Problem(spoiled(KEYS, math.nan, 1, 2, 0), SCORES), "keys has the entry nan at index (1, 2, 0)"),
    (lambda: Problem("keys", SCORES), "keys is 'keys'"),
    (lambda: separators.hard_margin([[1.0], [1.0, 2.0]]), "is [[1.0], [1.0, 2.0]]"),
    (lambda: from_tokens(TOKENS * 1j, LABELS, HEAD), "tokens has dtype torch.complex"),
    (lambda: Problem(np.ma.masked_less(np.ones((2, 3, 4)), 2), SCORES), "keys is a masked array, whose mask would be"),
    (lambda: separators.att_svm(PROBLEM, np.ma.masked_less([0, 0], 1)), "selected is a masked array"),
    (
        lambda: Problem(1e200 * KEYS.double(), SCORES).attention(1e200 * HEAD.double()),
        "give logits beyond the floats: r",
    ),
    # labels
    (lambda: from_tokens(TOKENS, [1.0, 0.0], HEAD), "labels contain 0"),
    # selected tokens, and sets of them
    (lambda: separators.att_svm(PROBLEM, [0, 3]), "selected index 3 is out of range"),
    (lambda: separators.att_svm(PROBLEM, [0.0, 1.0]), "selected has type torch.float"),
    (lambda: selection.set_att_svm(PROBLEM, torch.ones(2, 3).long()), "optimal has type torch.int64 and shape (2, 3)"),
    (lambda: selection.set_att_svm(SMALL, [[True, True]]), "optimal names 2 of 2 tokens"),
    (
        lambda: selection.set_att_svm(NONE, torch.tensor([True, True, False]).expand(17, 3)),
        "131072 selections",
    ),
    (lambda: separators.relaxed_att_svm(PROBLEM, [0, 0], [1, 0]), "support has type torch.int64 and shape (2,)"),
    (lambda: separators.relaxed_att_svm(PROBLEM, [0, 0], [False, False]), "required margins go from 0 to 0"),
    (lambda: separators.label_svm([[1.0], [1.0]], [1.0, -1.0]), "the SVM is infeasible"),
    (lambda: separators.hard_margin([[1e-200, 0.0], [1e200, 1e200]]), "rows are at most 1e+200, the least 1e-200"),
    # masks
    (lonely(mask=[[True, False, False], [True, True, True]]), "mask leaves an input 1 of 3 tokens"),
    (lonely(mask=[[1, 1, 0], [1, 1, 1]]), "mask has type torch.int64 and shape (2, 3)"),
    (lonely(mask=[True, True, False]), "mask has type torch.bool and shape (3,)"),
    (lambda: separators.att_svm(MASKED, [2, 2]), "selected index 2 is of a token that the mask hides"),
    (lambda: selection.set_att_svm(MASKED, torch.eye(3)[[2, 0]] > 0), "optimal names 1 tokens"),
    # problems with a nonlinear head
    (lonely(head=torch.sum), "head is <built-in"),
    (lonely(tokens=TOKENS, labels=torch.ones(3), head=torch.sum), "labels have shape (3,), inputs are 2"),
    (lambda: run(from_tokens(TOKENS, LABELS, lambda x: x.sum(-1).detach())), "the head has no gradient"),
    # losses
    (lambda: losses.by_name("hinge"), "loss 'hinge' is unknown"),
    # settings of runs
    (lambda: descent.constant(0.0), "step_size is 0"),
    (lambda: descent.decaying(descent.constant(1.0), -0.5), "power is -0.5"),
    (lambda: run(rule=0.1), "rule is 0.1"),
    (lambda: run(iterations=0), "iterations is 0"),
    (lambda: run(record=[0, 4]), "record is [0, 4]"),
    (lambda: flow([1.0, 0.5]), "log_times is [1.0, 0.5]"),
    (lambda: descent.log_spaced(10, 3, 20), "go from 20 to 10"),
    (lambda: published.gradients(data(), losses.exponential, AXIS), "loss is 'exponential'"),
    # norms and directions
    (lambda: separators.hard_margin(KEYS[0], 0.5), "norm is 0.5"),
    (lambda: geometry.mirror_map(HEAD, 1.0), "norm is 1.0"),
    (lambda: geometry.one_minus_cosine(HEAD, START), "a vector is zero and has no direction"),
    (lambda: geometry.in_cone(AXIS, AXIS, -0.1), "opening is -0.1"),
    # regularisation paths
    (lambda: path([1.0, 1.0]), "radii is [1.0, 1.0]"),
    (lambda: path(problem=PROBLEM), "the parameter has 4 entries"),
    (lambda: path(cone=(AXIS, 3.0)), "the cone's opening is 3"),
    (lambda: path(cone=(0 * AXIS, 0.1)), "the cone's axis is zero"),
    (lambda: path(angles=10**8), "angles is 100000000"),
    (lambda: path(cone=0.5), "cone is 0.5"),
    (lambda: path(problem=Problem(torch.zeros(1, 2, 2), [[1.0, 0.0]])), "two tokens of one input have the same key"),
    (lambda: joint_path(problem=JOINT), "tokens have c = 4 and keys d = 4, and both must be in the plane"),
    (lambda: joint_path(problem=JointProblem(PAIR.tokens, PAIR.labels, queries=[[1.0]])), "the joint path is one of p"),
    (lambda: joint_path(problem=JointProblem(torch.ones(2, 2, 2), [1.0, -1.0])), "no prompt lets a head separate the"),
    # data sets
    (lambda: datasets.figure_1("d"), "panel 'd' is unknown"),
    (lambda: datasets.accepted(lambda: 1, 3, math.inf), "tries is inf"),
    (lambda: datasets.orthogonal_tokens(2, 3, 5, 1, GENERATOR), "d is 5"),
    (lambda: datasets.head_with_scores(TOKENS[:, [0, 0, 1]], LABELS, SCORES), "no head has these scores, the nearest"),
    # intervals
    (lambda: intervals.wilson([0.5, 1.0]), "hits contain 0.5"),
    (lambda: intervals.mean_interval([1.0]), "1 values give no interval of the mean"),
    # the ledger
    (lambda: ledger.tell("", b=1.0), "stem is ''"),
    (lambda: ledger.verdict("a"), "a row is 'a'"),
    (lambda: ledger.verdict(ROW, ROW), "two rows are called a"),
    (lambda: SOURCE.baseline("a", "It holds.", 1.0, "<=", 2.0), "bound <= 2"),
    # figures
    (lambda: plane(paths=torch.ones(2, 1, 3)), "paths has shape (2, 1, 3)"),
    (lambda: plane(chosen=("best", "other")), "chosen has best"),
    (lambda: figures.histogram({"a": [1.0]}, [1.0, 0.0], "x", "y"), "edges is [1.0, 0.0]"),
    (lambda: figures.sentences([["a"]], [], ["start"]), "there are 1 sentences and 0 arrays of attention"),
    (lambda: figures.pictures(torch.ones(1, 1, 8, 8), torch.ones(1, 1, 7), ["a"]), "attention has shape (1, 1, 7)"),
    (lambda: separators.att_svm(PROBLEM, norm="nuclear"), "norm is 'nuclear', shape None"),
    (lambda: separators.att_svm(PROBLEM, norm="operator"), "norm is 'operator'"),
    (
        lambda: separators.hard_margin(torch.ones(1, 132).double(), "signs", shape=(12, 11)),
        "the matrix has sides of 11 and 12",
    ),
    (lambda: separators.hard_margin(torch.eye(4), "spectral", shape=(2, 3)), "shape is (2, 3), vectors have 4 entries"),
    (lambda: steepest.steepest_direction([1.0], [(2.0, (2,))]), "blocks have 2 entries, vectors 1"),
    (lambda: steepest.adam(0.1)(logspace.gradient(PROBLEM, logistic, START), START, 3), "a rule with memory takes ste"),
    (lambda: steepest.adam(0.1, 0.9), "betas is 0.9"),
    (lambda: steepest.newton_schulz([1.0]), "matrices has shape (1,)"),
    (lambda: factored(PROBLEM), "problem has a prompt"),
    (lambda: factored(keys=torch.ones(1, 1), queries=torch.ones(1, 1)), "keys have shape (1, 1), queries (1, 1)"),
    # what a tensor may be that holds no numbers
    (lambda: Problem(KEYS.to_sparse(), SCORES), "keys is a sparse tensor"),
    (lambda: Problem(KEYS.to("meta"), SCORES), "keys is a meta tensor"),
    (lambda: run(iterations=HUGE), "iterations is 1000"),
    # heads and losses
    (lambda: from_tokens(TOKENS, LABELS, torch.nn.Linear), "head <class 'torch.nn"),
    (lambda: losses.Loss("rising", lambda u: u, None, None, None), "loss 'rising' increases"),
    # runs
    (lambda: run(rule=rule(lambda theta: None)), "step is None"),
    (lambda: run(rule=lambda grad: grad), "rule is <function"),
    (lambda: run(rule=descent.polyak(Problem(2 * KEYS, SCORES), logistic, [0, 0])), "another problem or loss"),
    (lambda: run(iterations=10**12), "iterations is 1000000000000"),
    # another object than the one asked for
    (lambda: run(loss="logistic"), "loss is 'logistic'"),
    (lambda: run(problem="tokens"), "problem is 'tokens'"),
    (lambda: joint.assumption_c(PROBLEM), "give a JointProblem"),
]


@pytest.mark.filterwarnings("ignore:torch.quantize")
@pytest.mark.parametrize(("act", "named"), REFUSED, ids=[named for _, named in REFUSED])
def test_bad_input_is_refused_by_its_name_or_value_and_with_a_remedy(act, named):
    refuses(act, named)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.uint64])
def test_whole_numbers_of_any_type_are_welcome(dtype):
    chosen = torch.tensor([1, 0]).to(dtype)
    assert torch.equal(problem.difference_rows(PROBLEM, chosen), problem.difference_rows(PROBLEM, [1, 0]))
