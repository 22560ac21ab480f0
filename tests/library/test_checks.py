"""Every refused input: the message names the value and the remedy."""

import math

import numpy as np
import pytest
import torch

from lib import checks, datasets, descent, geometry, losses, problem, selection, separators
from lib.flow import log_time_flow
from lib.logspace import gradient
from lib.losses import smoothness
from lib.problem import Problem, from_tokens

GENERATOR = torch.Generator().manual_seed(0)
KEYS, TOKENS = torch.randn(2, 2, 3, 4, generator=GENERATOR)
SCORES = torch.randn(2, 3, generator=GENERATOR)
LABELS, HEAD, START = torch.ones(2), torch.ones(4), torch.zeros(4)
PROBLEM, BATCH = Problem(KEYS, SCORES), Problem(KEYS.expand(5, 2, 3, 4), SCORES)
SMALL = Problem([[[1.0], [0.0]]], [[1.0, 0.0]])
SVM = separators.att_svm(SMALL, [0])


def spoiled(array, value, *index):
    array = array.clone()
    array[index] = value
    return array


def run(problem=PROBLEM, start=START, rule=None, iterations=3, **kwargs):
    return descent.run(problem, losses.logistic, start, rule or descent.constant(0.1), iterations, **kwargs)


def flow(log_times, problem=PROBLEM, start=START):
    return log_time_flow(problem, losses.logistic, start, log_times)


REFUSED = {
    # shapes that do not fit
    "keys without tokens": (
        lambda: Problem(KEYS[0, 0], SCORES),
        r"keys has shape \(4,\): give an array of shape \(\.\.\., n, T, d\)",
    ),
    "scores without inputs": (
        lambda: Problem(KEYS, SCORES[0]),
        r"scores has shape \(3,\): give an array of shape \(\.\.\., n, T\)",
    ),
    "empty": (lambda: Problem(KEYS[:0], SCORES[:0]), r"keys has shape \(0, 3, 4\): no dimension may be empty"),
    "keys and scores": (
        lambda: Problem(KEYS, SCORES.T),
        r"keys have \(n, T\) = \(2, 3\), scores have \(3, 2\): give each token one key and one score",
    ),
    "queries": (
        lambda: Problem(KEYS, SCORES, torch.ones(3, 2)),
        "queries are 3, inputs are 2: give each input one query",
    ),
    "one token": (
        lambda: Problem(KEYS[:, :1], SCORES[:, :1]),
        "keys have T = 1 token: attention chooses among at least 2",
    ),
    "labels": (
        lambda: from_tokens(TOKENS, torch.ones(3), HEAD),
        r"labels have shape \(3,\), inputs are 2: give each input one label",
    ),
    "head": (
        lambda: from_tokens(TOKENS, LABELS, torch.ones(3)),
        "head has 3 columns, tokens have d = 4: they must agree",
    ),
    "key matrix": (
        lambda: from_tokens(TOKENS, LABELS, HEAD, torch.eye(3)),
        "key_matrix has 3 columns, tokens have d = 4: they must agree",
    ),
    "theta": (lambda: PROBLEM.logits(torch.ones(3)), r"theta has shape \(3,\): its last dimension must be 4"),
    "theta in the gradient": (
        lambda: gradient(PROBLEM, losses.logistic, torch.ones(3)),
        r"theta has shape \(3,\): its last dimension must be 4",
    ),
    "start": (lambda: run(start=torch.ones(3)), r"shape \(3,\): its last dimension must be 4"),
    "start of a flow": (lambda: flow([1.0], start=torch.ones(3)), r"shape \(3,\): its last dimension must be 4"),
    "starts of a flow": (
        lambda: flow([1.0], problem=BATCH),
        r"start has leading dimensions \(\), the problem \(5,\): give each problem one start",
    ),
    "selected": (
        lambda: separators.att_svm(PROBLEM, [0]),
        r"selected has shape \(1,\): give one index for each of the 2 inputs",
    ),
    "selected without inputs": (
        lambda: separators.att_svm(PROBLEM, 0),
        r"selected has shape \(\): give one index for each of the 2 inputs",
    ),
    "difference rows": (
        lambda: separators.hard_margin(torch.ones(3)),
        r"difference rows has shape \(3,\): give an array of shape \(\.\.\., m, D\)",
    ),
    "rows with selected": (
        lambda: separators.att_svm(KEYS, [0, 0]),
        "difference rows know their selected tokens: give a problem, or leave selected out",
    ),
    "what becomes of the infeasible": (
        lambda: separators.att_svm(PROBLEM, infeasible="ignore"),
        "infeasible is 'ignore': use raise or mark",
    ),
    "head of the smoothness": (
        lambda: smoothness(losses.logistic, TOKENS, torch.ones(3), torch.eye(4)),
        "head has 3 columns, tokens have d = 4",
    ),
    "positions": (lambda: datasets.scored_tokens([1.0], SCORES), r"positions has shape \(1,\): give an array of shape"),
    # leading dimensions that do not fit
    "batch of keys": (
        lambda: Problem(KEYS.expand(5, 2, 3, 4), SCORES.expand(6, 2, 3)),
        r"batch.* do not fit together: keys \(5,\), scores \(6,\)",
    ),
    "batch of queries": (
        lambda: Problem(BATCH.keys, SCORES, torch.ones(6, 2, 2)),
        r"do not fit together: keys \(5,\).*queries \(6,\)",
    ),
    "batch of labels": (
        lambda: from_tokens(BATCH.keys, torch.ones(6, 2), HEAD),
        r"do not fit together: tokens \(5,\), labels \(6,\)",
    ),
    "batch of heads": (
        lambda: from_tokens(BATCH.keys, LABELS, torch.ones(6, 4)),
        r"do not fit together: tokens \(5,\), head \(6,\)",
    ),
    "batch of theta": (lambda: BATCH.logits(torch.ones(6, 4)), r"do not fit together: problem \(5,\), theta \(6,\)"),
    "batch of starts": (lambda: run(BATCH, torch.ones(6, 4)), r"do not fit together: problem \(5,\), start \(6,\)"),
    "batch of step sizes": (
        lambda: run(BATCH, BATCH.keys[:, 0, 0], descent.constant(torch.ones(6))),
        r"do not fit together: step_size \(6,\), run \(5,\)",
    ),
    "step sizes for one run": (
        lambda: run(rule=descent.normalised(torch.ones(6))),
        r"step_size has shape \(6,\), the run \(\): give one number, or one per run",
    ),
    "batch of selected": (
        lambda: separators.att_svm(BATCH, torch.zeros(6, 2).long()),
        r"do not fit together: keys \(5,\), selected \(6,\)",
    ),
    # NaN and infinite entries
    "NaN in keys": (
        lambda: Problem(spoiled(KEYS, math.nan, 1, 2, 0), SCORES),
        r"keys has the entry nan at index \(1, 2, 0\): all entries must be finite",
    ),
    "inf in scores": (
        lambda: Problem(KEYS, spoiled(SCORES, math.inf, 1, 2)),
        r"scores has the entry inf at index \(1, 2\): all entries must be finite",
    ),
    "NaN in queries": (
        lambda: Problem(KEYS, SCORES, [[1.0], [math.nan]]),
        r"queries has the entry nan at index \(1, 0\): all entries must be finite",
    ),
    "-inf in tokens": (
        lambda: from_tokens(spoiled(TOKENS, -math.inf, 0, 0, 3), LABELS, HEAD),
        r"tokens has the entry -inf at index \(0, 0, 3\): all",
    ),
    "NaN in labels": (
        lambda: from_tokens(TOKENS, [1.0, math.nan], HEAD),
        r"labels has the entry nan at index \(1,\): all",
    ),
    "NaN in head": (
        lambda: from_tokens(TOKENS, LABELS, spoiled(HEAD, math.nan, 2)),
        r"head has the entry nan at index \(2,\): all",
    ),
    "NaN in key matrix": (
        lambda: from_tokens(TOKENS, LABELS, HEAD, spoiled(torch.eye(4), math.nan, 2, 1)),
        r"key_matrix has the entry nan at index \(2, 1\)",
    ),
    "NaN in theta": (
        lambda: gradient(PROBLEM, losses.logistic, spoiled(START, math.nan, 3)),
        r"theta has the entry nan at index \(3,\): all",
    ),
    "inf in start": (lambda: run(start=spoiled(START, math.inf, 0)), r"start has the entry inf at index \(0,\): all"),
    "NaN in rows": (
        lambda: separators.att_svm(spoiled(KEYS[0], math.nan, 0, 1)),
        r"difference rows has the entry nan at index \(0, 1\): all",
    ),
    "head that returns NaN": (
        lambda: from_tokens(TOKENS, LABELS, lambda x: x.sum(-1) / 0 - x.sum(-1) / 0),
        "scores has the entry nan at index .*: all",
    ),
    # arrays that are none, or of another dtype
    "complex tokens": (
        lambda: from_tokens(TOKENS + 0j, LABELS, HEAD),
        r"tokens has dtype torch\.complex128: give real numbers, such as the real parts",
    ),
    "complex NumPy array": (lambda: Problem(KEYS.numpy() * 1j, SCORES), r"keys has dtype torch\.complex128: give real"),
    "complex list": (lambda: Problem(KEYS, [[1j, 0.0, 0.0]] * 2), r"scores is \[\[1j.*: give an array of real numbers"),
    "half precision": (
        lambda: Problem(KEYS.bfloat16(), SCORES),
        r"keys has dtype torch\.bfloat16: give float32 or float64, such as keys\.float\(\)",
    ),
    "half precision of rows": (
        lambda: separators.att_svm(KEYS[0].half()),
        r"rows has dtype torch\.float16: give float32",
    ),
    "text": (
        lambda: Problem(KEYS, "scores"),
        "scores is 'scores': give an array of real numbers, all rows of one length",
    ),
    "words": (lambda: checks.labels(["good", "bad"]), r"labels is \['good', 'bad'\]: give an array of real numbers"),
    "inputs of different lengths": (
        lambda: Problem([[[1.0], [0.0]], [[1.0]]], SCORES),
        r"keys is \[\[\[1\.0\], .*: give an array of real numbers, all rows of one length",
    ),
    "two devices": (
        lambda: checks.common(keys=KEYS, scores=SCORES.to("meta")),
        r"on several devices, keys on cpu, scores on meta: move them to one, for example by \.to\('cpu'\)",
    ),
    "theta on another device": (
        lambda: PROBLEM.logits(START.to("meta")),
        "on several devices, problem on cpu, theta on meta: move them to one",
    ),
    # labels
    "label 0": (
        lambda: from_tokens(TOKENS, [1.0, 0.0], HEAD),
        r"labels contain 0: every label must be \+1 or -1 \(map classes 0 and 1 by 2 \* y - 1\)",
    ),
    "label 2": (lambda: checks.labels([1, -1, 2]), r"labels contain 2: every label must be \+1 or -1"),
    # selected tokens
    "index too large": (
        lambda: separators.att_svm(PROBLEM, [0, 3]),
        "selected index 3 is out of range: there are 3 tokens, 0 to 2",
    ),
    "index below zero": (
        lambda: problem.difference_rows(PROBLEM, [-1, 0]),
        "selected index -1 is out of range: there are 3 tokens, 0 to 2",
    ),
    "index in margins": (
        lambda: selection.token_margins(SMALL, [2], [1.0]),
        "selected index 2 is out of range: there are 2 tokens, 0 to 1",
    ),
    "index in local optimality": (
        lambda: selection.locally_optimal(SMALL, [2], SVM),
        "selected index 2 is out of range",
    ),
    "fraction": (
        lambda: separators.att_svm(PROBLEM, [0.0, 1.0]),
        "selected has type torch.float.*: give one whole number for each input",
    ),
    "mask": (
        lambda: separators.att_svm(PROBLEM, [True, False]),
        "selected has type torch.bool: give one whole number for each input",
    ),
    # settings
    "step size zero": (lambda: descent.constant(0.0), "step_size is 0: it must be above 0"),
    "step size below zero": (lambda: descent.normalised(-0.1), "step_size is -0.1: it must be above 0"),
    "one step size of several": (lambda: descent.constant([0.1, -2.0]), "step_size is -2: it must be above 0"),
    "step size NaN": (lambda: descent.constant(math.nan), "step_size has the entry nan"),
    "power below zero": (
        lambda: descent.decaying(descent.constant(1.0), -0.5),
        r"power is -0.5: steps decay like \(k \+ 1\)\^-power, so it must be a finite number from 0 on",
    ),
    "power NaN": (lambda: descent.decaying(descent.constant(1.0), math.nan), "power is nan: .* a finite number"),
    "power without end": (lambda: descent.decaying(descent.constant(1.0), math.inf), "power is inf: .* finite number"),
    "selected tokens of Polyak's step": (
        lambda: descent.polyak(PROBLEM, losses.logistic, [0]),
        r"selected has shape \(1,\): give one index for each of the 2 inputs",
    ),
    "no iterations": (lambda: run(iterations=0), "iterations is 0: take at least 1"),
    "record too late": (lambda: run(record=[0, 4]), r"record is \[0, 4\].*keep at least one of the iterations 0 to 3"),
    "record too early": (lambda: run(record=[-1]), r"record is \[-1\].*keep at least one of the iterations 0 to 3"),
    "record of nothing": (lambda: run(record=[]), r"record is \[\].*keep at least one of the iterations 0 to 3"),
    "log times that fall": (
        lambda: flow([1.0, 0.5]),
        r"log_times must increase and start at 0 or later: .* log\(1 \+ t\)",
    ),
    "log time below zero": (lambda: flow([-1.0, 0.5]), "log_times must increase and start at 0 or later"),
    "infinite log time": (lambda: flow([1.0, math.inf]), r"log_times has the entry inf at index \(1,\)"),
    "norm below 1": (lambda: separators.hard_margin(KEYS[0], 0.5), "norm is 0.5: an l_p norm has 1 <= p <= inf"),
    "norm NaN": (lambda: separators.att_svm(KEYS[0], norm=math.nan), "norm is nan: an l_p norm has 1 <= p <= inf"),
    "order below 1": (lambda: geometry.norm(START, 0.5), "norm is 0.5: an l_p norm has 1 <= p <= inf"),
    "zero vector": (lambda: geometry.one_minus_cosine(HEAD, START), "a zero vector has no direction: leave it out"),
    "direction of NaN": (
        lambda: geometry.unit(spoiled(HEAD, math.nan, 1)),
        r"vectors has the entry nan at index \(1,\)",
    ),
    "tolerance zero": (lambda: selection.svm_neighbours(SMALL, [0], SVM, 0.0), "tolerance is 0: it must be above 0"),
    "too few dimensions for orthogonal tokens": (
        lambda: datasets.orthogonal_tokens(2, 3, 5, 1, GENERATOR),
        r"d is 5: 6 tokens \(n T\) are orthogonal only in at least as many dimensions",
    ),
    "too few dimensions for signals": (
        lambda: datasets.signal_tokens(2, 3, 2, 1, GENERATOR),
        "d is 2: noise that is orthogonal to two signals needs at least 3 dimensions",
    ),
    "scores of other tokens": (
        lambda: datasets.head_with_scores(TOKENS, LABELS, SCORES.T),
        r"tokens have \(n, T\) = \(2, 3\), scores \(3, 2\), labels n = \(2,\): give each token one score",
    ),
    "scores that no head has": (
        lambda: datasets.head_with_scores(TOKENS[:, [0, 0, 1]], LABELS, SCORES),
        "no head has these scores, the nearest is off by .*: take linearly independent tokens",
    ),
    "panel": (lambda: datasets.figure_1("d"), "panel 'd' is unknown: use a, b or c"),
    "loss": (lambda: losses.by_name("hinge"), "loss 'hinge' is unknown: use one of logistic, exponential, correlation"),
}


@pytest.mark.parametrize(("act", "message"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_refused_by_name(act, message):
    with pytest.raises(ValueError, match=message):
        act()


@pytest.mark.parametrize("value", [[1, -1], torch.tensor([[1, -1], [-1, -1]]), torch.tensor(1)])
def test_good_labels_become_floats(value):
    assert checks.labels(value).dtype == torch.float64


@pytest.mark.parametrize(
    ("keys", "scores", "dtype"),
    [
        ([[[1], [0]]], [[1, 0]], torch.float64),
        (np.ones((1, 2, 1)), [[1, 0]], torch.float64),
        (np.ones((1, 2, 1), np.float32), [[1, 0]], torch.float32),
        (np.ones((1, 2, 1), int), np.ones((1, 2), np.float32), torch.float32),
        (torch.ones(1, 2, 1, dtype=torch.float32), torch.ones(1, 2, dtype=torch.int64), torch.float32),
        (torch.ones(1, 2, 1, dtype=torch.float32), [[0.5, 0.1]], torch.float32),
        (torch.ones(1, 2, 1, dtype=torch.float32), np.ones((1, 2)), torch.float64),
        (torch.ones(1, 2, 1, dtype=torch.float32), torch.ones(1, 2, dtype=torch.float64), torch.float64),
    ],
)
def test_a_problem_has_the_dtype_of_its_arrays(keys, scores, dtype):
    problem = Problem(keys, scores)
    assert problem.keys.dtype == problem.scores.dtype == dtype
    assert problem.attention([1.0]).dtype == dtype
    assert gradient(problem, losses.logistic, torch.ones(1, dtype=torch.float64)).direction.dtype == torch.float64
    assert gradient(problem, losses.logistic, torch.ones(1, dtype=torch.float32)).direction.dtype == dtype


def test_a_nonlinear_head_sees_its_own_dtype():
    def head(features):
        assert features.dtype == torch.float32
        return features.sum(-1) ** 3

    problem = from_tokens(torch.randn(2, 3, 4, dtype=torch.float32, generator=GENERATOR), [1, -1], head)
    assert problem.to(torch.float64).risk(losses.logistic, START).dtype == torch.float64
    assert gradient(problem, losses.logistic, START).direction.dtype == torch.float64


def test_whole_numbers_and_lists_are_welcome():
    problem = Problem([[[1], [0]]], [[1, 0]])
    assert problem.keys.dtype == problem.scores.dtype == torch.float64
    assert problem.logits([2]).tolist() == [[2.0, 0.0]]
