"""Bad input to the library: each is one sentence that names the value and, behind a colon, the remedy."""

import math
import re

import pytest
import torch

from lib import (
    archives,
    checks,
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
    networks,
    paths,
    problem,
    published,
    selection,
    separators,
    span,
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
SMALL = Problem([[[1.0], [0.0]]], [[1.0, 0.0]])
FACTORS = torch.ones(4, 2)
ASKED = Problem(KEYS, SCORES, torch.ones(2, 3))
PLANE = Problem([[[1.0, 0.0], [0.0, 1.0]]], [[1.0, 0.0]])
SVM = separators.att_svm(SMALL, [0])
JOINT, PAIR = JointProblem(TOKENS, LABELS), JointProblem([[[1.0, 0.0], [0.0, 1.0]]], [1.0])
NONE = Problem(torch.zeros(17, 3, 2), torch.zeros(17, 3))
NETWORK = {"length": 4, "classes": 3, "features": 2}
WEIGHTS = {"w": torch.ones(1, 2, requires_grad=True)}
AXIS = torch.tensor([1.0, 0.0])


def spoiled(array, value, *index):
    array = array.clone()
    array[index] = value
    return array


def run(problem=PROBLEM, start=START, rule=None, iterations=3, loss=logistic, **kwargs):
    return descent.run(problem, loss, start, rule or descent.constant(0.1), iterations, **kwargs)


def factored(problem=ASKED, keys=FACTORS, queries=None):
    queries = FACTORS[:3] if queries is None else queries
    return steepest.factored_run(problem, logistic, keys, queries, descent.constant(0.1), 3)


def joint_run(joint_problem=JOINT, head=HEAD, theta=START, head_rule=None, rule=None, iterations=3, loss=logistic):
    return joint.run(joint_problem, loss, head, theta, head_rule, rule or descent.constant(0.1), iterations)


def flow(log_times=(1.0,), problem=PROBLEM, start=START, **kwargs):
    return log_time_flow(problem, kwargs.pop("loss", logistic), start, log_times, **kwargs)


def path(radii=(1.0, 2.0), problem=PLANE, loss=logistic, **kwargs):
    return paths.regularization_path(problem, loss, radii, **kwargs)


def multistart(problem=PROBLEM, radii=(1.0,), starts=((1.0, 0.0, 0.0, 0.0),), selected=(0, 0)):
    return paths.multistart_path(problem, logistic, radii, starts, selected)


def joint_path(head_radii=(1.0,), radii=(1.0,), problem=PAIR, **kwargs):
    return joint_paths.joint_path(problem, head_radii, radii, **kwargs)


def data():
    return datasets.scored_tokens([[[1.0], [0.0]]], [[1.0, 0.0]])


def train(rows=((0, 1, 2, 3),), seeds=(0,), epochs=1, batch=2, labels=(0, 0, 0, 0), at=()):
    network, parameters = networks.ensemble([0], **NETWORK)
    rule = networks.optimiser("sgd", parameters, 0.1)
    inputs = torch.zeros(4, 4, 2)
    return networks.train(
        network,
        parameters,
        rule,
        inputs,
        torch.tensor(labels),
        torch.tensor(rows),
        seeds,
        epochs=epochs,
        batch=batch,
        at=at,
    )


def key_query_norm(layer):
    network, parameters = networks.ensemble([0], **NETWORK)
    return networks.key_query_norm(parameters, network, layer)


def claim(name="a", statement="b", measured=1.0, relation="<=", bound=1.0, paper="c", item="d", **about):
    return ledger.source(paper, item, "printed", set="after").claim(name, statement, measured, relation, bound, **about)


def plane(paths=(((0.0, 0.0),), ((1.0, 0.0),)), times=(0, 1), points=((1.0, 0.0), (0.0, 1.0)), **kwargs):
    kwargs = {"scores": (1.0, 0.0), "chosen": (True, False)} | kwargs
    return figures.plane(paths, times, points, **kwargs)


def curves(x=(1.0, 2.0), y=(1.0, 2.0), **kwargs):
    return figures.curves(x, {"y": y}, "x", "y", **kwargs)


def heatmap(x=(0, 1), y=(0, 1), values=((0, 1), (1, 0)), **kwargs):
    return figures.heatmap(x, y, values, "x", "y", "value", **kwargs)


def loss_of(value):
    """How each function that takes a loss refuses this one."""
    said = f"loss is {value!r}: give a Loss, such as losses.by_name"
    zero = torch.zeros(2)
    return {
        "smoothness": (lambda: losses.smoothness(value, TOKENS, HEAD, torch.eye(4)), said),
        "risk": (lambda: PROBLEM.risk(value, START), said),
        "gradient": (lambda: logspace.gradient(PROBLEM, value, START), said),
        "excess_risk": (lambda: logspace.excess_risk(PROBLEM, value, START, [0, 0]), said),
        "log_pulls": (lambda: selection.log_pulls(PROBLEM, value, [0, 0]), said),
        "limit_offset": (lambda: selection.limit_offset(SMALL, value, SVM), said),
        "polyak": (lambda: descent.polyak(PROBLEM, value, [0, 0]), said),
        "run": (lambda: run(loss=value), said),
        "log_time_flow": (lambda: flow(loss=value), said),
        "regularization_path": (lambda: path(loss=value), said),
        "multistart_path": (lambda: paths.multistart_path(PROBLEM, value, [1.0], torch.eye(4), [0, 0]), said),
        "stationarity": (lambda: paths.stationarity(PLANE, value, AXIS), said),
        "head_gradient": (lambda: joint.head_gradient(PAIR, value, zero, zero), said),
        "joint_gradient": (lambda: joint.joint_gradient(PAIR, value, zero, zero), said),
        "joint.run": (lambda: joint_run(loss=value), said),
    }


def problem_of(value):
    """How each function that takes a problem refuses this one."""
    said = f"problem is {value!r}: give a Problem, such as from_tokens makes"
    return {
        "difference_rows": (lambda: problem.difference_rows(value, [0]), said),
        "in_span": (lambda: span.in_span(value), said),
        "gradient": (lambda: logspace.gradient(value, logistic, START), said),
        "excess_risk": (lambda: logspace.excess_risk(value, logistic, START, [0]), said),
        "relaxed_att_svm": (lambda: separators.relaxed_att_svm(value, [0], [True]), said),
        "optimal_tokens": (lambda: selection.optimal_tokens(value), said),
        "selected_tokens": (lambda: selection.selected_tokens(value, START), said),
        "token_margins": (lambda: selection.token_margins(value, [0], START), said),
        "score_leads": (lambda: selection.score_leads(value, [0]), said),
        "set_att_svm": (lambda: selection.set_att_svm(value, [[True]]), said),
        "log_pulls": (lambda: selection.log_pulls(value, logistic, [0]), said),
        "limit_offset": (lambda: selection.limit_offset(value, logistic, SVM), said),
        "factored_run": (lambda: factored(value), said),
        "locally_optimal_selections": (lambda: selection.locally_optimal_selections(value), said),
        "polyak": (lambda: descent.polyak(value, logistic, [0]), said),
        "run": (lambda: run(problem=value), said),
        "log_time_flow": (lambda: flow(problem=value), said),
        "regularization_path": (lambda: path(problem=value), said),
        "multistart_path": (lambda: multistart(problem=value), said),
    }


def joint_problem_of(value):
    """How each function that takes a problem in head and attention refuses this one."""
    said = ": give a JointProblem"
    return {
        "selected_features": (lambda: joint.selected_features(value, [0]), said),
        "assumption_c": (lambda: joint.assumption_c(value), said),
        "head_gradient": (lambda: joint.head_gradient(value, logistic, HEAD, START), said),
        "joint_gradient": (lambda: joint.joint_gradient(value, logistic, HEAD, START), said),
        "run": (lambda: joint_run(joint_problem=value), said),
        "joint_limit": (lambda: joint_paths.joint_limit(value, [0], 1.0), said),
        "joint_path": (lambda: joint_path(problem=value), said),
    }


def lonely(**kwargs):
    return lambda: Problem(KEYS, SCORES, **kwargs)


TOGETHER = "give tokens, labels and a callable head together"

REFUSED = {
    # shapes that do not fit
    "keys without tokens": (
        lambda: Problem(KEYS[0, 0], SCORES),
        "keys has shape (4,): give an array of shape (..., n, T, d)",
    ),
    "scores without inputs": (
        lambda: Problem(KEYS, SCORES[0]),
        "scores has shape (3,): give an array of shape (..., n, T)",
    ),
    "empty": (lambda: Problem(KEYS[:0], SCORES[:0]), "keys has shape (0, 3, 4): no dimension may be empty"),
    "keys and scores": (
        lambda: Problem(KEYS, SCORES.T),
        "keys have (n, T) = (2, 3), scores have (3, 2): give each token one key and one score",
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
        "labels have shape (3,), inputs are 2: give each input one label",
    ),
    "head": (
        lambda: from_tokens(TOKENS, LABELS, torch.ones(3)),
        "head has 3 columns, tokens have d = 4: they must agree",
    ),
    "key matrix": (
        lambda: from_tokens(TOKENS, LABELS, HEAD, torch.eye(3)),
        "key_matrix has 3 columns, tokens have d = 4: they must agree",
    ),
    "theta": (lambda: PROBLEM.logits(torch.ones(3)), "theta has shape (3,): its last dimension must be 4"),
    "theta in the gradient": (
        lambda: logspace.gradient(PROBLEM, logistic, torch.ones(3)),
        "theta has shape (3,): its last dimension must be 4",
    ),
    "weights to pull back": (
        lambda: PROBLEM.pull_back(torch.ones(5)),
        "weights has shape (5,): its last dimensions must be (2, 3)",
    ),
    "logits of a span": (
        lambda: span.span_coordinates(span.in_span(PROBLEM), torch.ones(5)),
        "logits has shape (5,): its last dimensions must be (2, 3)",
    ),
    "coordinates of a span": (
        lambda: span.from_span(PROBLEM, span.in_span(PROBLEM), torch.ones(5)),
        "coordinates has shape (5,): its last dimensions must be (4,)",
    ),
    "start": (lambda: run(start=torch.ones(3)), "theta has shape (3,): its last dimension must be 4"),
    "start of a flow": (lambda: flow(start=torch.ones(3)), "theta has shape (3,): its last dimension must be 4"),
    "starts of a flow": (
        lambda: flow(problem=BATCH),
        "start has leading dimensions (), the problem (5,): give each problem one start",
    ),
    "starts of a path": (
        lambda: multistart(starts=[1.0, 0.0, 0.0, 0.0]),
        "starts has shape (4,): give an array of shape (..., starts, parameter)",
    ),
    "length of the starts": (
        lambda: multistart(starts=torch.eye(3)),
        "theta has shape (3, 3): its last dimension must be 4",
    ),
    "attention of the margins": (
        lambda: PROBLEM.margins(torch.ones(2, 5)),
        "attention has shape (2, 5): its last dimensions must be (2, 3)",
    ),
    "selected": (
        lambda: separators.att_svm(PROBLEM, [0]),
        "selected has shape (1,): give one index for each of the 2 inputs",
    ),
    "selected without inputs": (
        lambda: separators.att_svm(PROBLEM, 0),
        "selected has shape (): give one index for each of the 2 inputs",
    ),
    "difference rows": (
        lambda: separators.hard_margin(torch.ones(3)),
        "difference rows has shape (3,): give an array of shape (..., m, D)",
    ),
    "rows with selected": (
        lambda: separators.att_svm(KEYS, [0, 0]),
        "problem is a Tensor, selected [0, 0]: give a Problem, or leave selected out",
    ),
    "what becomes of the infeasible": (
        lambda: separators.att_svm(PROBLEM, infeasible="ignore"),
        "infeasible is 'ignore': use raise or mark",
    ),
    "problems that do not stack": (
        lambda: problem.stack([PROBLEM, SMALL]),
        "have arrays of shapes {'keys': (2, 3, 4), 'scores': (2, 3)}: give problems of the same shapes",
    ),
    "nothing to stack": (lambda: problem.stack([]), "problems is []: give at least one"),
    "text to stack": (lambda: problem.stack("ab"), "problem is 'a': give a Problem, such as from_tokens makes"),
    "head of the smoothness": (
        lambda: losses.smoothness(logistic, TOKENS, torch.ones(3), torch.eye(4)),
        "head has 3 columns, tokens have d = 4: they must agree",
    ),
    "positions": (
        lambda: datasets.scored_tokens([1.0], SCORES),
        "positions has shape (1,): give an array of shape (..., n, T, k)",
    ),
    "positions and scores": (
        lambda: datasets.scored_tokens(TOKENS, SCORES[:, :2]),
        "positions have (n, T) = (2, 3), scores (2, 2): give each token one score",
    ),
    "labels of a label SVM": (
        lambda: separators.label_svm(torch.eye(2), [1.0, -1.0, 1.0]),
        "labels have shape (3,), features are 2: give each one label",
    ),
    "required margins": (
        lambda: separators.hard_margin(torch.eye(2), required=[1.0, 1.0, 1.0]),
        "required margins are 3, rows are 2: give each row one",
    ),
    "joint labels": (
        lambda: JointProblem(TOKENS, [1.0]),
        "labels n = (1,): give each token one key and each input one label",
    ),
    "joint keys": (
        lambda: JointProblem(TOKENS, LABELS, KEYS[:, :2]),
        "keys (2, 2), labels n = (2,): give each token one key and each input one label",
    ),
    "joint tokens": (
        lambda: JointProblem(TOKENS[0], LABELS),
        "tokens has shape (3, 4): give an array of shape (..., n, T, c)",
    ),
    "joint queries": (
        lambda: JointProblem(TOKENS, LABELS, queries=torch.ones(3, 4)),
        "queries are 3, inputs are 2: give each input one query",
    ),
    "joint head": (
        lambda: JOINT.fixed_head([1.0, 2.0]),
        "the head has 2 entries, tokens have 4: they must agree",
    ),
    "head of a joint run": (
        lambda: joint_run(head=torch.ones(3)),
        "the head has 3 entries, tokens have 4: they must agree",
    ),
    "theta of a joint run": (
        lambda: joint_run(theta=torch.ones(3)),
        "theta has shape (3,): its last dimension must be 4",
    ),
    "attention that is passed on": (
        lambda: JOINT.features(torch.ones(5)),
        "attention has shape (5,): its last dimensions must be (2, 3)",
    ),
    "attention of a label margin": (
        lambda: joint.label_margin(JOINT, torch.ones(2, 5)),
        "attention has shape (2, 5): its last dimensions must be (2, 3)",
    ),
    "radii of head and prompt": (
        lambda: joint_path([1.0, 2.0], [1.0]),
        "there are (2,) radii of the head and (1,) of the prompt: give two lists of one length",
    ),
    "vectors of two sizes": (
        lambda: geometry.one_minus_cosine(AXIS, torch.ones(3)),
        "dimensions of first (2,), second (3,) do not fit together: they must be equal, or 1",
    ),
    "vectors of two sizes in a divergence": (
        lambda: geometry.bregman_divergence(AXIS, torch.ones(3)),
        "dimensions of first (2,), second (3,) do not fit together: they must be equal, or 1",
    ),
    "head that returns vectors": (
        lambda: from_tokens(TOKENS, LABELS, lambda x: x),
        "the head maps shape (2, 3, 4) to (2, 3, 4): it must return one number for each token, shape (2, 3)",
    ),
    "scores of other tokens": (
        lambda: datasets.head_with_scores(TOKENS, LABELS, SCORES.T),
        "scores (3, 2), labels n = (2,): give each token one score and each input one label",
    ),
    # leading dimensions that do not fit
    "batch of keys": (
        lambda: Problem(KEYS.expand(5, 2, 3, 4), SCORES.expand(6, 2, 3)),
        "dimensions of keys (5,), scores (6,) do not fit together: they must be equal, or 1",
    ),
    "batch of queries": (
        lambda: Problem(BATCH.keys, SCORES, torch.ones(6, 2, 2)),
        "queries (6,) do not fit together: they must be equal, or 1",
    ),
    "batch of labels": (
        lambda: from_tokens(BATCH.keys, torch.ones(6, 2), HEAD),
        "tokens (5,), labels (6,) do not fit together: they must be equal, or 1",
    ),
    "batch of heads": (
        lambda: from_tokens(BATCH.keys, LABELS, torch.ones(6, 4)),
        "tokens (5,), head (6,) do not fit together: they must be equal, or 1",
    ),
    "batch of joint heads": (
        lambda: JointProblem(BATCH.keys, LABELS).fixed_head(torch.ones(6, 4)),
        "tokens (5,), head (6,) do not fit together: they must be equal, or 1",
    ),
    "batch of theta": (
        lambda: BATCH.logits(torch.ones(6, 4)),
        "problem (5,), theta (6,) do not fit together: they must be equal, or 1",
    ),
    "batch of starts": (
        lambda: run(BATCH, torch.ones(6, 4)),
        "problem (5,), start (6,) do not fit together: they must be equal, or 1",
    ),
    "batch of step sizes": (
        lambda: run(BATCH, BATCH.keys[:, 0, 0], descent.constant(torch.ones(6))),
        "step_size (6,), run (5,) do not fit together: they must be equal, or 1",
    ),
    "step sizes for one run": (
        lambda: run(rule=descent.normalised(torch.ones(6))),
        "step_size has shape (6,), the run (): give one number, or one per run",
    ),
    "batch of selected": (
        lambda: separators.att_svm(BATCH, torch.zeros(6, 2).long()),
        "keys (5,), selected (6,) do not fit together: they must be equal, or 1",
    ),
    "batch of optimal sets": (
        lambda: selection.set_att_svm(BATCH, torch.ones(2, 3).bool()),
        "problem has leading dimensions (5,): give one at a time",
    ),
    "batch of selections": (
        lambda: selection.locally_optimal_selections(BATCH),
        "problem has leading dimensions (5,): give one at a time",
    ),
    "batch of paths": (lambda: multistart(BATCH), "problem has leading dimensions (5,): give one at a time"),
    "batch of Assumption C": (
        lambda: joint.assumption_c(JointProblem(BATCH.keys, LABELS)),
        "problem has leading dimensions (5,): give one at a time",
    ),
    "batch of joint limits": (
        lambda: joint_paths.joint_limit(JointProblem(BATCH.keys, LABELS), [0, 0], 1.0),
        "problem has leading dimensions (5,): give one at a time",
    ),
    # no real and finite numbers
    "NaN in keys": (
        lambda: Problem(spoiled(KEYS, math.nan, 1, 2, 0), SCORES),
        "keys has the entry nan at index (1, 2, 0): all entries must be finite",
    ),
    "inf in scores": (
        lambda: Problem(KEYS, spoiled(SCORES, math.inf, 1, 2)),
        "scores has the entry inf at index (1, 2): all entries must be finite",
    ),
    "NaN in queries": (
        lambda: Problem(KEYS, SCORES, [[1.0], [math.nan]]),
        "queries has the entry nan at index (1, 0): all entries must be finite",
    ),
    "-inf in tokens": (
        lambda: from_tokens(spoiled(TOKENS, -math.inf, 0, 0, 3), LABELS, HEAD),
        "tokens has the entry -inf at index (0, 0, 3): all",
    ),
    "NaN in labels": (
        lambda: from_tokens(TOKENS, [1.0, math.nan], HEAD),
        "labels has the entry nan at index (1,): all",
    ),
    "NaN in head": (
        lambda: from_tokens(TOKENS, LABELS, spoiled(HEAD, math.nan, 2)),
        "head has the entry nan at index (2,): all",
    ),
    "NaN in key matrix": (
        lambda: from_tokens(TOKENS, LABELS, HEAD, spoiled(torch.eye(4), math.nan, 2, 1)),
        "key_matrix has the entry nan at index (2, 1): all",
    ),
    "NaN in theta": (
        lambda: logspace.gradient(PROBLEM, logistic, spoiled(START, math.nan, 3)),
        "theta has the entry nan at index (3,): all",
    ),
    "inf in start": (lambda: run(start=spoiled(START, math.inf, 0)), "start has the entry inf at index (0,): all"),
    "inf in a flow's start": (
        lambda: flow(start=spoiled(START, math.inf, 0)),
        "start has the entry inf at index (0,): all",
    ),
    "NaN in rows": (
        lambda: separators.att_svm(spoiled(KEYS[0], math.nan, 0, 1)),
        "difference rows has the entry nan at index (0, 1): all",
    ),
    "NaN in required margins": (
        lambda: separators.hard_margin(torch.eye(2), required=[1.0, math.nan]),
        "required has the entry nan at index (1,): all",
    ),
    "inf in joint keys": (
        lambda: JointProblem(TOKENS, LABELS, spoiled(KEYS, math.inf, 0, 1, 1)),
        "keys has the entry inf at index (0, 1, 1): all",
    ),
    "head that returns NaN": (
        lambda: from_tokens(TOKENS, LABELS, lambda x: x.sum(-1) * math.nan),
        "scores has the entry nan at index (0, 0): all",
    ),
    "direction of NaN": (
        lambda: geometry.unit(spoiled(HEAD, math.nan, 1)),
        "vectors has the entry nan at index (1,): all",
    ),
    "text for keys": (lambda: Problem("keys", SCORES), "keys is 'keys': give an array of real numbers"),
    "nothing for tokens": (lambda: from_tokens(None, LABELS, HEAD), "tokens is None: give an array of real numbers"),
    "no head": (lambda: from_tokens(TOKENS, LABELS, None), "head is None: give an array of real numbers"),
    "nothing for joint tokens": (lambda: JointProblem(None, LABELS), "tokens is None: give an array of real numbers"),
    "nothing for positions": (lambda: datasets.scored_tokens(None, SCORES), "positions is None: give an array of real"),
    "nothing for scores": (lambda: Problem(KEYS, None), "scores is None: give an array of real numbers"),
    "words for tokens": (lambda: from_tokens([[["a"]]], [1.0], HEAD), "tokens is [[['a']]]: give an array of real"),
    "rows of two lengths": (lambda: separators.hard_margin([[1.0], [1.0, 2.0]]), "is [[1.0], [1.0, 2.0]]: give an"),
    "text for theta": (lambda: PROBLEM.attention("theta"), "theta is 'theta': give an array of real numbers"),
    "text for start": (lambda: run(start="zero"), "start is 'zero': give an array of real numbers"),
    "text for labels": (lambda: from_tokens(TOKENS, ["yes", "no"], HEAD), "labels is ['yes', 'no']: give an array of"),
    "text for step size": (lambda: descent.constant("fast"), "step_size is 'fast': give an array of real numbers"),
    "text for log times": (lambda: flow("soon"), "log_times is 'soon': give an array of real numbers"),
    "text for radii": (lambda: path("far"), "radii is 'far': give an array of real numbers"),
    "text for vectors": (lambda: geometry.norm("long"), "vectors is 'long': give an array of real numbers"),
    "text for a mirror map": (lambda: geometry.mirror_map("x"), "vectors is 'x': give an array of real numbers"),
    "text for angles": (lambda: geometry.on_circle("north", 1.0), "angles is 'north': give an array of real numbers"),
    "text for hits": (lambda: intervals.wilson("often"), "hits is 'often': give an array of real numbers"),
    "complex tokens": (
        lambda: from_tokens(TOKENS * 1j, LABELS, HEAD),
        "tokens has dtype torch.complex: give real numbers, such as the real parts",
    ),
    "complex array of tokens": (
        lambda: from_tokens(TOKENS.numpy() * 1j, LABELS, HEAD),
        "tokens has dtype torch.complex: give real numbers, such as the real parts",
    ),
    "complex list of rows": (lambda: separators.hard_margin([[1j]]), "rows is [[1j]]: give an array of real numbers"),
    "complex theta": (lambda: PROBLEM.logits(START * 1j), "theta has dtype torch.complex: give real numbers"),
    "half precision": (
        lambda: Problem(KEYS.half(), SCORES),
        "keys has dtype torch.float16: give float32 or float64, such as keys.float()",
    ),
    "several devices": (
        lambda: checks.common(keys=KEYS.to("meta"), scores=SCORES),
        "keys on meta, scores on cpu: move them to one, for example by .to('cpu')",
    ),
    # labels
    "label 0": (
        lambda: from_tokens(TOKENS, [1.0, 0.0], HEAD),
        "labels contain 0: every label must be +1 or -1 (map classes 0 and 1 by 2 * y - 1)",
    ),
    "label 2": (lambda: checks.labels([1, -1, 2]), "labels contain 2: every label must be +1 or -1"),
    "label of a label SVM": (lambda: separators.label_svm(torch.eye(2), [1.0, 0.0]), "labels contain 0: every label"),
    "joint label": (lambda: JointProblem(TOKENS, [1.0, 0.0]), "labels contain 0: every label must be +1 or -1"),
    "label of a nonlinear problem": (
        lonely(tokens=TOKENS, labels=[1.0, 3.0], head=torch.linalg.vector_norm),
        "labels contain 3: every label must be +1 or -1",
    ),
    # selected tokens, and sets of them
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
        "selected index 2 is out of range: there are 2 tokens, 0 to 1",
    ),
    "index in the excess risk": (
        lambda: logspace.excess_risk(PROBLEM, logistic, START, [0, 3]),
        "selected index 3 is out of range: there are 3 tokens, 0 to 2",
    ),
    "index in score leads": (
        lambda: selection.score_leads(PROBLEM, [0, 3]),
        "selected index 3 is out of range: there are 3 tokens, 0 to 2",
    ),
    "index of features": (
        lambda: joint.selected_features(JOINT, [0, 3]),
        "selected index 3 is out of range: there are 3 tokens, 0 to 2",
    ),
    "index of a joint limit": (
        lambda: joint_paths.joint_limit(JOINT, [0, 3], 1.0),
        "selected index 3 is out of range: there are 3 tokens, 0 to 2",
    ),
    "fraction": (
        lambda: separators.att_svm(PROBLEM, [0.0, 1.0]),
        "selected has type torch.float: give one whole number for each input",
    ),
    "mask": (
        lambda: separators.att_svm(PROBLEM, [True, False]),
        "selected has type torch.bool: give one whole number for each input",
    ),
    "complex index": (
        lambda: separators.att_svm(PROBLEM, torch.zeros(2) * 1j),
        "selected has type torch.complex: give one whole number for each input",
    ),
    "text for selected": (
        lambda: separators.att_svm(PROBLEM, "best"),
        "selected is 'best': give one whole number for each input",
    ),
    "nothing for selected": (
        lambda: logspace.excess_risk(PROBLEM, logistic, START, None),
        "selected is None: give one whole number for each input",
    ),
    "selected tokens of Polyak's step": (
        lambda: descent.polyak(PROBLEM, logistic, [0]),
        "selected has shape (1,): give one index for each of the 2 inputs",
    ),
    "separator of score gaps": (
        lambda: selection.score_gaps(SMALL, [0], None),
        "separator is None: give the Separator of the selected tokens, as att_svm makes it",
    ),
    "separator of local optimality": (
        lambda: selection.locally_optimal(SMALL, [0], SVM.theta),
        "separator is tensor([1.]): give the Separator of the selected tokens, as att_svm makes it",
    ),
    "separator of other tokens": (
        lambda: selection.score_gaps(PLANE, [0], SVM),
        "theta has shape (1,): its last dimension must be 2",
    ),
    "optimal sets as numbers": (
        lambda: selection.set_att_svm(PROBLEM, torch.ones(2, 3).long()),
        "optimal has type torch.int64 and shape (2, 3): give True or False for each token, shape (2, 3)",
    ),
    "optimal sets of one input": (
        lambda: selection.set_att_svm(PROBLEM, [True, False, False]),
        "optimal has type torch.bool and shape (3,): give True or False for each token, shape (2, 3)",
    ),
    "text for optimal sets": (
        lambda: selection.set_att_svm(PROBLEM, "all"),
        "optimal is 'all': give True or False for each token, shape (2, 3)",
    ),
    "optimal sets of all": (
        lambda: selection.set_att_svm(SMALL, [[True, True]]),
        "optimal names 2 of 2 tokens: name at least one of each input, and leave one out somewhere",
    ),
    "optimal sets of none": (
        lambda: selection.set_att_svm(SMALL, [[False, False]]),
        "optimal names 0 of 2 tokens: name at least one of each input, and leave one out somewhere",
    ),
    "many choices": (
        lambda: selection.set_att_svm(NONE, torch.tensor([True, True, False]).expand(17, 3)),
        "make 131072 choices: at most 100000",
    ),
    "many selections": (
        lambda: selection.locally_optimal_selections(NONE),
        "there are 3^17 selections: at most 100000 are enumerated",
    ),
    "support as numbers": (
        lambda: separators.relaxed_att_svm(PROBLEM, [0, 0], [1, 0]),
        "support has type torch.int64 and shape (2,): give True or False for each of the 2 inputs",
    ),
    "support of other inputs": (
        lambda: separators.relaxed_att_svm(PROBLEM, [0, 0], [True]),
        "support has type torch.bool and shape (1,): give True or False for each of the 2 inputs",
    ),
    "text for support": (
        lambda: separators.relaxed_att_svm(PROBLEM, [0, 0], "all"),
        "support is 'all': give True or False for each of the 2 inputs",
    ),
    "support of none": (
        lambda: separators.relaxed_att_svm(PROBLEM, [0, 0], [False, False]),
        "required margins go from 0 to 0: none below 0, one above",
    ),
    "required margin below zero": (
        lambda: separators.hard_margin(torch.eye(2), required=[1.0, -0.5]),
        "required margins go from -0.5 to 1: none below 0, one above",
    ),
    "required margins in cvxpy": (
        lambda: separators.hard_margin_cvxpy(torch.eye(2), required=[1.0, -0.5]),
        "required margins go from -0.5 to 1: none below 0, one above",
    ),
    "member without a margin": (
        lambda: separators.hard_margin(torch.eye(2), required=[[1.0, 1.0], [0.0, 0.0]]),
        "required margins go from 0 to 1: none below 0, one above",
    ),
    "labels that nothing separates": (
        lambda: separators.label_svm([[1.0], [1.0]], [1.0, -1.0]),
        "the SVM is infeasible: no head has every label right",
    ),
    "rows of zeros": (
        lambda: separators.att_svm(torch.zeros(2, 2)),
        "the SVM is infeasible: no direction separates the selected tokens",
    ),
    "rows below the floats": (
        lambda: separators.hard_margin([[5e-324]]),
        "difference rows are at most 4.9e-324: rescale them",
    ),
    # problems with a nonlinear head
    "head without tokens": (lonely(head=torch.sum), f"head is <built-in: {TOGETHER}"),
    "tokens without a head": (lonely(tokens=TOKENS, labels=LABELS), f"head is None: {TOGETHER}"),
    "text for a head": (lonely(tokens=TOKENS, labels=LABELS, head="tanh"), f"head is 'tanh': {TOGETHER}"),
    "labels of a nonlinear head": (
        lonely(tokens=TOKENS, labels=torch.ones(3), head=torch.sum),
        "keys (2, 3), labels n = (3,): give each key one token and each input one label",
    ),
    "head without a slope": (
        lambda: logspace.gradient(from_tokens(TOKENS, LABELS, lambda x: x.sum(-1).detach()), logistic, START),
        "the head has no gradient: write it in torch, without detach or NumPy",
    ),
    # losses
    "loss of no name": (
        lambda: losses.by_name("hinge"),
        "loss 'hinge' is unknown: use one of logistic, exponential, correlation",
    ),
    "loss of many names": (lambda: losses.by_name(["logistic"]), "loss ['logistic'] is unknown: use one of logistic"),
    "centre of a cubic loss": (lambda: losses.cubic("left"), "centre is 'left': give a finite number"),
    "centre at infinity": (lambda: losses.cubic(math.inf), "centre is inf: give a finite number"),
    # settings of runs
    "step size zero": (lambda: descent.constant(0.0), "step_size is 0: it must be above 0"),
    "step size below zero": (lambda: descent.normalised(-0.1), "step_size is -0.1: it must be above 0"),
    "one step size of several": (lambda: descent.constant([0.1, -2.0]), "step_size is -2: it must be above 0"),
    "step size NaN": (lambda: descent.constant(math.nan), "step_size has the entry nan at index (): all"),
    "norm of steps": (lambda: descent.normalised(0.1, norm=0.5), "norm is 0.5: an l_p norm has 1 <= p <= inf"),
    "power below zero": (
        lambda: descent.decaying(descent.constant(1.0), -0.5),
        "power is -0.5: steps decay like (k + 1)^-power, so it must be a finite number from 0 on",
    ),
    "power NaN": (lambda: descent.decaying(descent.constant(1.0), math.nan), "power is nan: steps decay"),
    "power without end": (lambda: descent.decaying(descent.constant(1.0), math.inf), "power is inf: steps decay"),
    "text for power": (lambda: descent.decaying(descent.constant(1.0), "1"), "power is '1': steps decay"),
    "decaying number": (lambda: descent.decaying(0.1, 1.0), "rule is 0.1: give a step rule, such as constant(0.1)"),
    "number for a rule": (lambda: run(rule=0.1), "rule is 0.1: give a step rule, such as constant(0.1)"),
    "number for a joint rule": (
        lambda: joint_run(rule=0.1),
        "rule is 0.1: give a step rule, such as constant(0.1)",
    ),
    "number for a rule of the head": (
        lambda: joint_run(head_rule=0.1),
        "head_rule is 0.1: give a step rule, such as constant(0.1)",
    ),
    "no iterations": (lambda: run(iterations=0), "iterations is 0: give a whole number of at least 1"),
    "fraction of iterations": (lambda: run(iterations=2.5), "iterations is 2.5: give a whole number of at least 1"),
    "text for iterations": (lambda: run(iterations="3"), "iterations is '3': give a whole number of at least 1"),
    "truth for iterations": (lambda: run(iterations=True), "iterations is True: give a whole number of at least 1"),
    "iterations of a joint run": (
        lambda: joint_run(iterations=2.5),
        "iterations is 2.5: give a whole number of at least 1",
    ),
    "record too late": (
        lambda: run(record=[0, 4]),
        "record is [0, 4]: keep at least one of the iterations 0 to 3, and no other",
    ),
    "record too early": (lambda: run(record=[-1]), "record is [-1]: keep at least one of the iterations 0 to 3"),
    "record of nothing": (lambda: run(record=[]), "record is []: keep at least one of the iterations 0 to 3"),
    "record of fractions": (lambda: run(record=[0.5]), "record is [0.5]: keep at least one of the iterations 0 to 3"),
    "record of text": (lambda: run(record="all"), "record is 'all': keep at least one of the iterations 0 to 3"),
    "one number for a record": (lambda: run(record=3), "record is 3: keep at least one of the iterations 0 to 3"),
    "log times that fall": (lambda: flow([1.0, 0.5]), "log_times is [1.0, 0.5]: values of log(1 + t) must increase"),
    "log time below zero": (lambda: flow([-1.0, 0.5]), "log_times is [-1.0, 0.5]: values of log(1 + t) must increase"),
    "table of log times": (lambda: flow([[0.0, 0.5]]), "log_times is [[0.0, 0.5]]: values of log(1 + t) must increase"),
    "infinite log time": (lambda: flow([1.0, math.inf]), "log_times has the entry inf at index (1,): all"),
    "accuracy of a flow": (lambda: flow(accuracy=0.0), "accuracy is 0.0: give a number above 0, at most 0.01"),
    "text for accuracy": (lambda: flow(accuracy="high"), "accuracy is 'high': give a number above 0, at most 0.01"),
    "iterations that fall": (lambda: descent.log_spaced(10, 3, 20), "go from 20 to 10: give 0 < first <= last"),
    "iterations from zero": (lambda: descent.log_spaced(10, 3, 0), "go from 0 to 10: give 0 < first <= last"),
    "text for the last iteration": (lambda: descent.log_spaced("10", 3), "last is '10': give a whole number of at"),
    "no log-spaced iterations": (lambda: descent.log_spaced(10, 0), "count is 0: give a whole number of at least 1"),
    "loss of the published recipe": (
        lambda: published.gradients(data(), losses.exponential, AXIS),
        "loss is 'exponential': the published recipe has logistic and correlation",
    ),
    "name of the published loss": (
        lambda: published.gradients(data(), "logistic", AXIS),
        "loss is 'logistic': give a Loss, such as losses.by_name",
    ),
    "iterations of the published recipe": (
        lambda: published.descend(data(), logistic, AXIS, 0.1, 2.5, 1e-10),
        "iterations is 2.5: give a whole number of at least 1",
    ),
    # norms and directions
    "norm below 1": (lambda: separators.hard_margin(KEYS[0], 0.5), "norm is 0.5: an l_p norm has 1 <= p <= inf"),
    "norm NaN": (lambda: separators.att_svm(KEYS[0], norm=math.nan), "norm is nan: an l_p norm has 1 <= p <= inf"),
    "text for a norm": (
        lambda: separators.hard_margin(KEYS[0], "2"),
        "norm is '2': an l_p norm has 1 <= p <= inf",
    ),
    "norm of a label SVM": (
        lambda: separators.label_svm(torch.eye(2), [1.0, 1.0], norm=0.0),
        "norm is 0.0: an l_p norm has 1 <= p <= inf",
    ),
    "norm in cvxpy": (
        lambda: separators.hard_margin_cvxpy(torch.eye(2), 0.5),
        "norm is 0.5: an l_p norm has 1 <= p <= inf",
    ),
    "order below 1": (lambda: geometry.norm(START, 0.5), "norm is 0.5: an l_p norm has 1 <= p <= inf"),
    "text for an order": (lambda: geometry.norm(START, "inf"), "norm is 'inf': an l_p norm has 1 <= p <= inf"),
    "dual of no norm": (lambda: geometry.dual(0.5), "norm is 0.5: an l_p norm has 1 <= p <= inf"),
    "unit of no norm": (lambda: geometry.unit(HEAD, -1.0), "norm is -1.0: an l_p norm has 1 <= p <= inf"),
    "potential of p = 1": (
        lambda: geometry.mirror_map(HEAD, 1.0),
        "norm is 1.0: the potential |x|_p^p / p is that of 1 < p < inf",
    ),
    "text for a potential": (
        lambda: geometry.inverse_mirror_map(HEAD, "3"),
        "norm is '3': the potential |x|_p^p / p is that of 1 < p < inf",
    ),
    "divergence of p = inf": (
        lambda: geometry.bregman_divergence(HEAD, HEAD, math.inf),
        "norm is inf: the potential |x|_p^p / p is that of 1 < p < inf",
    ),
    "run of p = 1": (lambda: run(norm=1.0), "norm is 1.0: the potential |x|_p^p / p is that of 1 < p < inf"),
    "zero vector": (
        lambda: geometry.one_minus_cosine(HEAD, START),
        "a vector is zero and has no direction: leave it out, or start the run elsewhere",
    ),
    "cone with a negative opening": (
        lambda: geometry.in_cone(AXIS, AXIS, -0.1),
        "opening is -0.1: 1 - cos to the axis is from 0 to 2",
    ),
    "cone that is too wide": (
        lambda: geometry.in_cone(AXIS, AXIS, 3.0),
        "opening is 3: 1 - cos to the axis is from 0 to 2",
    ),
    "cone with a negative radius": (
        lambda: geometry.in_cone(AXIS, AXIS, 0.1, radius=-1.0),
        "radius is -1: a length is not below 0",
    ),
    "tolerance zero": (lambda: selection.svm_neighbours(SMALL, [0], SVM, 0.0), "tolerance is 0: it must be above 0"),
    # regularisation paths
    "radii that stay": (lambda: path([1.0, 1.0]), "radii is [1.0, 1.0]: give a list of increasing lengths"),
    "radii that fall": (lambda: path([2.0, 1.0]), "radii is [2.0, 1.0]: give a list of increasing lengths"),
    "table of radii": (lambda: multistart(radii=[[1.0]]), "radii is [[1.0]]: give a list of increasing lengths"),
    "radius zero": (lambda: path([0.0, 1.0]), "radii is 0: it must be above 0"),
    "no radii": (lambda: path([]), "radii has shape (0,): no dimension may be empty"),
    "no angles": (lambda: path(angles=0), "angles is 0: give a whole number of at least 4"),
    "fraction of angles": (lambda: path(angles=90.5), "angles is 90.5: give a whole number of at least 4"),
    "angles of a joint path": (lambda: joint_path(angles=0), "angles is 0: give a whole number of at least 4"),
    "path above the plane": (
        lambda: path(problem=PROBLEM),
        "the parameter has 4 entries: use multistart_path above the plane",
    ),
    "path in a cone of opening zero": (lambda: path(cone=(AXIS, 0.0)), "opening is 0: it must be above 0"),
    "path in a cone of negative opening": (lambda: path(cone=(AXIS, -0.1)), "opening is -0.1: it must be above 0"),
    "path in a cone too wide": (lambda: path(cone=(AXIS, 3.0)), "the cone's opening is 3: 1 - cos is at most 2"),
    "cone without an opening": (lambda: path(cone=0.5), "cone is 0.5: give (axis, opening), the axis in the plane"),
    "cone above the plane": (
        lambda: path(cone=(torch.ones(3), 0.5)),
        "cone is (tensor([1., 1., 1.]), 0.5): give (axis, opening), the axis in the plane",
    ),
    "keys that tie": (
        lambda: path(problem=Problem(torch.zeros(1, 2, 2), [[1.0, 0.0]])),
        "two tokens of one input have the same key: no direction selects one of them alone",
    ),
    "joint path above the plane": (
        lambda: joint_path(problem=JOINT),
        "tokens have c = 4 and keys d = 4, and both must be in the plane: above it, use run",
    ),
    "joint path of queries": (
        lambda: joint_path(problem=JointProblem(PAIR.tokens, PAIR.labels, queries=[[1.0]])),
        "the joint path is one of prompts, and there are queries: leave them out",
    ),
    "head radius zero": (lambda: joint_path([0.0], [1.0]), "head_radii is 0: it must be above 0"),
    "prompt radius below zero": (lambda: joint_path([1.0], [-1.0]), "radii is -1: it must be above 0"),
    "labels that no prompt separates": (
        lambda: joint_path(problem=JointProblem(torch.ones(2, 2, 2), [1.0, -1.0])),
        "no prompt lets a head separate the labels: take other tokens",
    ),
    "ratio below zero": (
        lambda: joint_paths.joint_limit(PAIR, [0], -0.1),
        "ratio is -0.1: the radius of the head, in radii of the prompt, must not be below 0",
    ),
    "text for a ratio": (lambda: joint_paths.joint_limit(PAIR, [0], "two"), "ratio is 'two': the radius of the head"),
    # data sets
    "panel of Figure 1": (lambda: datasets.figure_1("d"), "panel 'd' is unknown: use a, b or c"),
    "panel of Figure 3": (lambda: datasets.figure_3("c"), "panel 'c' is unknown: use a or b"),
    "Figure 1 (c) without a generator": (lambda: datasets.figure_1("c"), "generator is None: give a torch.Generator"),
    "sphere without a generator": (lambda: datasets.on_sphere(4, 6, 10, 3, None), "generator is None: give a torch."),
    "seed for a generator": (lambda: datasets.signal_tokens(2, 3, 4, 1, 0), "generator is 0: give a torch.Generator"),
    "sentences of a seed": (lambda: datasets.planted_sentiment(3, 0), "generator is 0: give a torch.Generator"),
    "no trials": (lambda: datasets.on_sphere(4, 6, 10, 0, GENERATOR), "trials is 0: give a whole number of at least 1"),
    "fraction of inputs": (lambda: datasets.on_sphere(2.5, 6, 10, 1, GENERATOR), "n is 2.5: give a whole number of at"),
    "text for a dimension": (lambda: datasets.on_sphere(4, 6, "10", 1, GENERATOR), "d is '10': give a whole number of"),
    "tokens below zero": (lambda: datasets.orthogonal_tokens(2, -3, 5, 1, GENERATOR), "T is -3: give a whole number"),
    "no sentences": (lambda: datasets.planted_sentiment(0, GENERATOR), "sentences is 0: give a whole number of at"),
    "scores of a seed": (lambda: datasets.one_best(2, 3, 5, 0), "generator is 0: give a torch.Generator"),
    "scores of one token": (lambda: datasets.one_best(2, 1, 5, GENERATOR), "T is 1: give a whole number of at least 2"),
    "tries without end": (lambda: datasets.accepted(lambda: 1, 3, math.inf), "tries is inf: give a whole number of at"),
    "result for a draw": (lambda: datasets.accepted(3, 1, 1), "draw is 3: give a function that returns a result"),
    "noise below zero": (
        lambda: datasets.orthogonal_tokens(2, 3, 6, 1, GENERATOR, noise=-1.0),
        "noise is -1.0: give a length of at least 0",
    ),
    "too few dimensions for orthogonal tokens": (
        lambda: datasets.orthogonal_tokens(2, 3, 5, 1, GENERATOR),
        "d is 5: 6 tokens (n T) are orthogonal only in at least as many dimensions",
    ),
    "too few dimensions for signals": (
        lambda: datasets.signal_tokens(2, 3, 2, 1, GENERATOR),
        "d is 2: noise that is orthogonal to two signals needs at least 3 dimensions",
    ),
    "scores that no head has": (
        lambda: datasets.head_with_scores(TOKENS[:, [0, 0, 1]], LABELS, SCORES),
        "no head has these scores, the nearest is off by: take linearly independent tokens",
    ),
    "images of no name": (lambda: archives.images("svhn"), "name 'svhn' is unknown: use digits, mnist or cifar10"),
    # networks
    "width and heads": (
        lambda: networks.Transformer(**NETWORK, width=9),
        "width is 9, heads is 2: choose a width that the heads divide",
    ),
    "no heads": (lambda: networks.Transformer(**NETWORK, heads=0), "heads is 0: give a whole number of at least 1"),
    "fraction of blocks": (lambda: networks.Transformer(**NETWORK, depth=1.5), "depth is 1.5: give a whole number of"),
    "text for a length": (lambda: networks.Transformer("4", 3, 2), "length is '4': give a whole number of at least 1"),
    "no width within a block": (
        lambda: networks.Transformer(**NETWORK, hidden=0),
        "hidden is 0: give a whole number of at least 1",
    ),
    "step size of a member": (lambda: networks.optimiser("sgd", WEIGHTS, [-0.1]), "step_size is -0.1: give a finite"),
    "no seeds": (lambda: networks.ensemble([], **NETWORK), "seeds is []: give one whole number for each member"),
    "one seed for a list": (lambda: networks.ensemble(3, **NETWORK), "seeds is 3: give one whole number for each"),
    "device": (lambda: networks.precision("gpu"), "device is 'gpu': use cpu or cuda"),
    "patch size": (
        lambda: networks.patches(torch.zeros(1, 1, 8, 6), 4),
        "patch size is 4, images are 8 x 6: choose a divisor of both",
    ),
    "patch size zero": (lambda: networks.patches(torch.zeros(1, 1, 8, 6), 0), "size is 0: give a whole number of at"),
    "images without channels": (
        lambda: networks.patches(torch.zeros(8, 6), 2),
        "images has shape (8, 6): give an array of shape (N, channels, height, width)",
    ),
    "optimiser": (lambda: networks.optimiser("lion", WEIGHTS, 0.1), "optimiser 'lion' is unknown: use adam, sgd"),
    "optimiser of p = 1": (lambda: networks.optimiser("l1", WEIGHTS, 0.1), "optimiser 'l1' is unknown: use adam, sgd"),
    "optimiser without a name": (lambda: networks.optimiser(3, WEIGHTS, 0.1), "optimiser 3 is unknown: use adam, sgd"),
    "step size of Adam": (lambda: networks.optimiser("adam", WEIGHTS, -0.1), "step_size is -0.1: give a finite number"),
    "step size of SGD": (lambda: networks.optimiser("sgd", WEIGHTS, "big"), "step_size is 'big': give a finite number"),
    "batch too large": (
        lambda: train(batch=5),
        "batch is 5, each member has 4 examples: choose a batch from 1 to 4",
    ),
    "batch of none": (lambda: train(batch=0), "batch is 0: give a whole number of at least 1"),
    "fraction of a batch": (lambda: train(batch=1.5), "batch is 1.5: give a whole number of at least 1"),
    "no epochs": (lambda: train(epochs=0), "epochs is 0: give a whole number of at least 1"),
    "seeds of a training": (lambda: train(seeds=(0, 1)), "rows has shape (1, 4): its last dimensions must be (2, 4)"),
    "labels of a training": (
        lambda: train(labels=(0, 0, 0)),
        "labels has shape (3,): its last dimensions must be (4,)",
    ),
    "labels that are no classes": (
        lambda: train(labels=(0.0, 0.0, 0.0, 0.0)),
        "labels has type torch.float64: give whole numbers from 0 to 2, shape (N)",
    ),
    "measurement after the end": (lambda: train(at=[7]), "at is [7]: give numbers of steps from 0 to 2"),
    "layer": (lambda: key_query_norm(5), "layer is 5: there are 2, from -2 to 1"),
    # intervals
    "share of a half": (lambda: intervals.wilson([0.5, 1.0]), "hits contain 0.5: give True or False, or 1 and 0, for"),
    "no trials of a share": (lambda: intervals.wilson([]), "hits has shape (0,): no dimension may be empty"),
    "mean of one": (
        lambda: intervals.mean_interval([1.0]),
        "1 values give no interval of the mean: take at least 2",
    ),
    "median of five": (
        lambda: intervals.median_interval([1.0] * 5),
        "5 values give no interval of the median: take at least 6",
    ),
    "mean with NaN": (lambda: intervals.mean_interval([1.0, math.nan]), "values has the entry nan at index (1,): all"),
    # the ledger
    "claim without an item": (lambda: claim(item=""), "the item of 'a' is '': write it in words"),
    "claim whose statement is blank": (lambda: claim(statement=" "), "the statement of 'a' is ' ': write it in words"),
    "claim without a name": (lambda: claim(name=None), "the name of None is None: write it in words"),
    "claim of NaN": (lambda: claim(measured=math.nan), "the measured value of 'a' is nan: a row of the ledger needs"),
    "claim of text": (lambda: claim(measured="1"), "the measured value of 'a' is 1: a row of the ledger needs one"),
    "bound of two numbers": (
        lambda: claim(bound=torch.ones(2)),
        "the bound of 'a' is tensor([1., 1.]): a row of the ledger needs one finite number",
    ),
    "relation": (lambda: claim(relation="<"), "relation '<' of 'a' is unknown: use one of <=, >=, =="),
    "claim without a paper": (lambda: claim(paper=""), "the paper of 'a' is '': give its arXiv number, or None"),
    "number that prose cannot show": (
        lambda: ledger.tell("a", b=math.nan),
        "a-b is nan: prose can only show one finite number or text",
    ),
    "number of no chapter": (lambda: ledger.tell("", b=1.0), "stem is '': give the chapter's name"),
    "rows that are none": (lambda: ledger.verdict("a"), "a row is 'a': make it by claim, control or"),
    "tolerance below zero": (lambda: claim(tolerance=-1.0), "the tolerance of 'a' is -1: it must not be below 0"),
    "two rows of one name": (lambda: ledger.verdict(claim(), claim()), "two rows are called a: names are unique"),
    # figures
    "paths in space": (
        lambda: plane(paths=torch.ones(2, 1, 3)),
        "paths has shape (2, 1, 3): give an array of shape (records, starts, 2)",
    ),
    "times of other paths": (lambda: plane(times=(0, 1, 2)), "times has shape (3,): give an array of shape (2,)"),
    "points in space": (
        lambda: plane(points=torch.ones(2, 3)),
        "points has shape (2, 3): give an array of shape (..., 2)",
    ),
    "scores of other points": (lambda: plane(scores=(1.0,)), "scores has shape (1,): give an array of shape (2,)"),
    "stars of other points": (lambda: plane(chosen=(True,)), "chosen has shape (1,): give an array of shape (2,)"),
    "stars by their places": (lambda: plane(chosen=(0, 1)), "chosen has type int64: give True or False for each point"),
    "no time": (lambda: plane(times=(0, 0)), "times is [0.0, 0.0]: one of them must be above 0"),
    "curve of another length": (lambda: curves(y=(1.0,)), "y has shape (1,): give an array of shape (2,)"),
    "edges that fall": (
        lambda: figures.histogram({"a": [1.0]}, [1.0, 0.0], "x", "y"),
        "edges is [1.0, 0.0]: give at least two increasing numbers",
    ),
    "numbers that do not agree": (
        lambda: figures.agreement([1.0], [1.0, 2.0], "x", "y"),
        "measured has shape (2,): give an array of shape (1,)",
    ),
    "heat of another size": (lambda: heatmap(values=[[1.0]]), "values has shape (1, 1): give an array of shape (2, 2)"),
    "text for heat": (lambda: heatmap(values="hot"), "values is 'hot': give an array of real numbers"),
    "sentences and attention": (
        lambda: figures.sentences([["a"]], [], ["start"]),
        "there are 1 sentences and 0 arrays of attention: give each sentence one",
    ),
    "words and attention": (
        lambda: figures.sentences([["a", "b"]], [[[0.5]]], ["start"]),
        "attention of sentence 0 has shape (1, 1): give an array of shape (1, 2)",
    ),
    "pictures without channels": (
        lambda: figures.pictures(torch.ones(8, 8), torch.ones(1, 1, 16), ["a"]),
        "images has shape (8, 8): give an array of shape (rows, channels, height, width)",
    ),
    "attention on no patches": (
        lambda: figures.pictures(torch.ones(1, 1, 8, 8), torch.ones(1, 1, 7), ["a"]),
        "attention has shape (1, 1, 7): it must be on square patches that fill images of 8 x 8",
    ),
    "norm of a step": (
        lambda: steepest.steepest(0.1, "frobenius", (2, 2)),
        "norm is 'frobenius': an l_p norm has 1 <= p <= inf",
    ),
    "order of a step": (lambda: steepest.steepest(0.1, 0.5), "norm is 0.5: an l_p norm has 1 <= p <= inf"),
    "length of a steepest step": (lambda: steepest.steepest(0.0), "step_size is 0: it must be above 0"),
    "spectral norm of a prompt": (
        lambda: steepest.steepest(0.1, "spectral"),
        "norm is 'spectral', shape None: a prompt is no matrix",
    ),
    "spectral norm of a problem's prompt": (
        lambda: separators.att_svm(PROBLEM, norm="nuclear"),
        "norm is 'nuclear', shape None: a prompt is no matrix",
    ),
    "spectral rows without a shape": (
        lambda: separators.hard_margin(torch.eye(4), "spectral"),
        "norm is 'spectral', shape None: a prompt is no matrix",
    ),
    "spectral rows of another shape": (
        lambda: separators.hard_margin(torch.eye(4), "spectral", shape=(2, 3)),
        "shape is (2, 3), vectors have 4 entries: give the shape of theirs",
    ),
    "matrix of one entry": (
        lambda: steepest.steepest_direction([1.0], "nuclear", (2, 2)),
        "shape is (2, 2), vectors have 1 entries: give the shape of theirs",
    ),
    "blocks": (
        lambda: steepest.steepest_direction([1.0], [(2.0, (2,))]),
        "blocks have 2 entries, vectors 1: give every entry a block",
    ),
    "no block": (lambda: steepest.steepest(0.1, [("spectral", (2,))]), "shape (2,): a prompt is no matrix"),
    "momentum of 1": (
        lambda: steepest.momentum(descent.constant(0.1), 1.0),
        "beta is 1.0: momentum is from 0 on and below 1",
    ),
    "momentum below 0": (lambda: steepest.muon(0.1, (2, 2), -0.1), "beta is -0.1: momentum is from 0 on and below 1"),
    "momentum of no rule": (lambda: steepest.momentum(0.1, 0.9), "rule is 0.1: give"),
    "memory that begins late": (
        lambda: steepest.adam(0.1)(logspace.gradient(PROBLEM, logistic, START), START, 3),
        "a rule with memory takes step 3 after step None: begin with step 0",
    ),
    "beta of Adam": (lambda: steepest.adam(0.1, (0.9, 1.0)), "beta is 1.0: momentum is from 0 on and below 1"),
    "one beta of Adam": (lambda: steepest.adam(0.1, 0.9), "betas is 0.9: give two, of the mean and of the squares"),
    "three betas of Adam": (lambda: steepest.adam(0.1, (0, 0, 0)), "betas is (0, 0, 0): give two, of the mean"),
    "epsilon": (lambda: steepest.adam(0.1, epsilon=-1e-8), "epsilon is -1e-08: it is added to a length"),
    "Muon of a prompt": (lambda: steepest.muon(0.1, (2,)), "norm is 'spectral', shape (2,): a prompt is no matrix"),
    "no steps of Newton and Schulz": (
        lambda: steepest.muon(0.1, (2, 2), steps=0),
        "steps is 0: give a whole number of at least 1",
    ),
    "polar factor of a vector": (
        lambda: steepest.newton_schulz([1.0]),
        "matrices has shape (1,): give an array of shape (..., d, e)",
    ),
    "factors of a prompt": (lambda: factored(PROBLEM), "problem has a prompt: W = K Q^T needs one with queries"),
    "factors of other shapes": (
        lambda: factored(keys=torch.ones(1, 1), queries=torch.ones(1, 1)),
        "keys have shape (1, 1), queries (1, 1): give (..., 4, r) and (..., 3, r)",
    ),
    "factors of two ranks": (
        lambda: factored(keys=torch.ones(4, 1)),
        "keys have shape (4, 1), queries (3, 2): give (..., 4, r) and (..., 3, r)",
    ),
    "matrix that is a vector": (
        lambda: figures.matrices({"W": [1.0, 2.0]}),
        "W has shape (2,): give an array of shape (rows, columns)",
    ),
    "no panels": (lambda: figures.panels(0), "count is 0: give a whole number of at least 1"),
}
TYPES = {
    "loss": loss_of("logistic"),
    "problem": problem_of("tokens"),
    "joint problem": joint_problem_of(PROBLEM) | {"text": joint_problem_of("tokens")["joint_path"]},
}
REFUSED |= {f"{kind} of {name}": case for kind, cases in TYPES.items() for name, case in cases.items()}


@pytest.mark.parametrize(("act", "words"), REFUSED.values(), ids=REFUSED)
def test_bad_input_is_one_sentence_with_value_and_remedy(act, words):
    with pytest.raises((ValueError, TypeError)) as refusal:
        act()
    value, remedy = words.rsplit(": ", 1)
    assert re.fullmatch(f".*{re.escape(value)}.*: .*{re.escape(remedy)}.*", str(refusal.value))


class Own:
    """Which class a caller gives in place of one of its objects."""


def rule(step):
    return lambda grad, theta, k: step(theta)


def readers(rows=((0, 1), (1, 0)), places=((0, 1), (2, 3)), values=((1.0, 1.0), (1.0, 1.0)), labels=(1, -1), **about):
    """Train two readers on two inputs of two words."""
    words = torch.tensor(places)[..., None], torch.tensor(values)[..., None]
    about = {"seeds": [0, 1], "step_size": 0.1, "at": [2]} | about
    return networks.train_readers(*words, torch.tensor(labels), torch.as_tensor(rows), **about)


def trained(**change):
    """Train a network on inputs that are spoiled."""
    network, parameters = networks.ensemble([0], **NETWORK)
    given = {"inputs": torch.zeros(4, 4, 2), "labels": torch.zeros(4).long(), "rows": torch.arange(4)[None]}
    given |= {"seeds": [0]} | change
    return networks.train(
        network, parameters, networks.optimiser("sgd", parameters, 0.1), **given, epochs=1, batch=2
    )  # fmt: skip


HUGE = 10**400
NAMED = {
    # what a tensor may be that holds no numbers
    "sparse keys": (lambda: Problem(KEYS.to_sparse(), SCORES), "keys is a sparse tensor"),
    "meta keys": (lambda: Problem(KEYS.to("meta"), SCORES), "keys is a meta tensor"),
    "nested keys": (
        lambda: Problem(torch.nested.nested_tensor([*KEYS], layout=torch.jagged), SCORES),
        "keys is a nested tensor",
    ),
    "quantised keys": (
        lambda: Problem(torch.quantize_per_tensor(KEYS.float(), 0.1, 0, torch.qint8), SCORES),
        "keys is a quantised tensor",
    ),
    "sparse choice": (lambda: separators.att_svm(PROBLEM, torch.ones(2).long().to_sparse()), "selected is a sparse"),
    "huge entries": (lambda: Problem([[[HUGE], [1]]], [[1.0, 0.0]]), "keys is [[[1000"),
    "huge choice": (lambda: separators.att_svm(PROBLEM, [HUGE, 0]), "selected is [1000"),
    "huge gap": (lambda: run(iterations=HUGE), "iterations is 1000"),
    "huge number": (lambda: steepest.momentum(descent.constant(0.1), HUGE), "beta is 1000"),
    "huge unprintable": (lambda: run(iterations=10**5000), "iterations is a value of type int"),
    "bool for a norm": (lambda: geometry.norm(KEYS, True), "norm is True"),
    # heads and losses
    "class of heads": (lambda: from_tokens(TOKENS, LABELS, torch.nn.Linear), "head <class 'torch.nn"),
    "class of nothing": (lambda: from_tokens(TOKENS, LABELS, Own), "head <class"),
    "head in float32": (lambda: from_tokens(TOKENS.double(), LABELS, torch.nn.Linear(4, 1).float()), "head Linear("),
    "head of text": (lambda: from_tokens(TOKENS, LABELS, lambda tokens: "1"), "to '1'"),
    "loss that increases": (
        lambda: losses.Loss("rising", lambda u: u, None, None, None),
        "loss 'rising' increases",
    ),
    # runs
    "rule without a step": (lambda: run(rule=rule(lambda theta: None)), "step is None"),
    "rule of a number": (lambda: run(rule=rule(lambda theta: 0.1)), "step is 0.1"),
    "rule of one number": (lambda: run(rule=rule(lambda theta: theta.sum())), "shape ()"),
    "rule of another shape": (lambda: run(rule=rule(lambda theta: theta[:-1])), "shape (3,)"),
    "rule of one argument": (lambda: run(rule=lambda grad: grad), "rule is <function"),
    "head's rule of one argument": (lambda: joint_run(head_rule=lambda grad: grad), "head_rule is <function"),
    "head's rule without a step": (lambda: joint_run(head_rule=rule(lambda theta: None)), "step is None"),
    "factors' rule of a number": (
        lambda: steepest.factored_run(ASKED, logistic, FACTORS, FACTORS[:3], rule(lambda theta: 0.1), 3),
        "step is 0.1",
    ),
    "Polyak's step of another problem": (
        lambda: run(rule=descent.polyak(Problem(2 * KEYS, SCORES), logistic, [0, 0])),
        "another problem or loss",
    ),
    "Polyak's step of another loss": (
        lambda: run(rule=descent.decaying(descent.polyak(PROBLEM, losses.exponential, [0, 0]), 1.0)),
        "another problem or loss",
    ),
    "Polyak's step of a joint run": (
        lambda: joint_run(rule=descent.polyak(PROBLEM, logistic, [0, 0])),
        "another problem or loss",
    ),
    "endless record": (lambda: run(iterations=10**12), "iterations is 1000000000000"),
    "endless joint record": (lambda: joint_run(iterations=10**12), "record=log_spaced"),
    "endless record by tensors": (lambda: run(rule=steepest.adam(0.1), iterations=10**12), "record=log_spaced"),
    "coarse flow": (lambda: flow(accuracy=0.99), "accuracy is 0.99"),
    "words for nesterov": (lambda: steepest.momentum(descent.constant(0.1), 0.9, "no"), "nesterov is 'no'"),
    "words for a correction": (lambda: steepest.adam(0.1, corrected="no"), "corrected is 'no'"),
    # readers
    "float rows": (lambda: readers(rows=((0.0, 1.0), (1.0, 0.0))), "rows has type torch.float"),
    "rows of nothing": (lambda: readers(rows=((0, 2), (1, 0))), "rows contains 2"),
    "rows from the end": (lambda: readers(rows=((0, -1), (1, 0))), "rows contains -1"),
    "one row": (lambda: readers(rows=(0, 1)), "rows has shape (2,)"),
    "float places": (lambda: readers(places=((0.5, 1.0), (2.0, 3.0))), "places has type torch.float"),
    "place below zero": (lambda: readers(places=((-1, 1), (2, 3))), "places contains -1"),
    "values of NaN": (lambda: readers(values=((1.0, math.nan), (1.0, 1.0))), "values has the entry nan"),
    "no heads of a reader": (lambda: readers(heads=0), "heads is 0"),
    "fraction of a reader's heads": (lambda: readers(heads=1.5), "heads is 1.5"),
    "fewer heads than none": (lambda: readers(heads=-1), "heads is -1"),
    "huge seed": (lambda: readers(seeds=[10**23, 1]), "seed is 1000"),
    "seed below zero": (lambda: readers(seeds=[-1, 1]), "seed is -1"),
    "a seed for a list": (lambda: readers(seeds=3), "seeds is 3"),
    "negative step": (lambda: readers(step_size=-0.1), "step_size is -0.1"),
    "step of NaN": (lambda: readers(step_size=[0.1, math.nan]), "step_size is nan"),
    "no look": (lambda: readers(at=[]), "at is []"),
    "one look for a list": (lambda: readers(at=5), "at is 5"),
    "until NaN": (lambda: readers(until=math.nan), "until is nan"),
    # networks
    "class of no network": (lambda: trained(labels=torch.tensor([0, 1, 2, 3])), "labels contains 3"),
    "label below zero": (lambda: trained(labels=torch.tensor([0, -1, 2, 1])), "labels contains -1"),
    "row of no input": (lambda: trained(rows=torch.tensor([[0, 1, 2, 4]])), "rows contains 4"),
    "inputs of NaN": (lambda: trained(inputs=torch.full((4, 4, 2), math.nan)), "inputs has the entry nan"),
    "huge seed of a training": (lambda: trained(seeds=[10**23]), "seed is 1000"),
    "huge seed of an ensemble": (lambda: networks.ensemble([10**23], **NETWORK), "seed is 1000"),
}


@pytest.mark.filterwarnings("ignore:torch.quantize")
@pytest.mark.parametrize(("act", "name"), NAMED.values(), ids=NAMED)
def test_what_cannot_be_right_is_refused_by_its_name(act, name):
    with pytest.raises((ValueError, TypeError)) as refusal:
        act()
    assert name in str(refusal.value)
    assert ": " in str(refusal.value)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.uint64])
def test_whole_numbers_of_any_type_are_welcome(dtype):
    chosen = torch.tensor([1, 0]).to(dtype)
    assert torch.equal(problem.difference_rows(PROBLEM, chosen), problem.difference_rows(PROBLEM, [1, 0]))
    rows = torch.tensor([[0, 1], [1, 0]]).to(dtype)
    assert torch.equal(readers().losses, readers(rows).losses)
