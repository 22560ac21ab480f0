"""Train the theorems' model, one key-query matrix and a fixed head, on the frozen tokens of a pretrained transformer.

The plan and its bounds stand in :mod:`studies.real_transformer`. Tokens are what the last layer receives, in units of
their root mean square length; [CLS] is the query. The head is the sum over reviews of their label times the mean of
their tokens, less the mean of all tokens, scaled to length 1.
"""

import math
from contextlib import suppress

import torch
from torch.nn.functional import logsigmoid

from lib import losses
from lib.descent import constant, normalised, polyak, run
from lib.geometry import norm, one_minus_cosine
from lib.intervals import median
from lib.logspace import gradient
from lib.problem import Problem, difference_rows, from_tokens
from lib.selection import optimal_tokens, selected_tokens
from lib.separators import hard_margin
from studies.mirrored import GAP, in_norm, lasts

STEP, STEPS, FAR, OUT = 0.02, 2000, 3.0, 20.0  # of steps and starts, in lengths of W_mm; OUT in lengths of a separator


def problem_of(texts, rows):
    """The theorems' :class:`lib.problem.Problem` on some of the texts."""
    there, labels, tokens = texts.there[rows], texts.labels[rows], texts.tokens[-1, rows].double()
    tokens = tokens / tokens[there].square().sum(-1).mean().sqrt()
    means = tokens.sum(1) / there.sum(1, keepdim=True)
    head = labels @ (means - tokens[there].mean(0))
    return from_tokens(tokens, labels, head / head.norm(), queries=tokens[:, 0], mask=there)


def overlap(problem):
    """Median ``|cos|`` of tokens of different inputs."""
    tokens = problem.keys[problem.mask]
    units = tokens / tokens.norm(dim=-1, keepdim=True)
    of = problem.mask.nonzero()[:, 0]
    return median((units @ units.mT).abs()[of[:, None] < of])


def random_selections(problem, count, draw):
    """Tokens of each input, drawn, shape (count, n)."""
    lengths = problem.mask.sum(-1)
    return (torch.rand(count, len(lengths), generator=draw) * lengths).long()


def runners_up(problem, count):
    """Selections that are best but in one input, where the second-best token is selected, shape (count, n)."""
    best = optimal_tokens(problem)
    second = problem.seen(problem.scores).topk(2, -1).indices[:, 1]
    return torch.where(torch.eye(len(best), dtype=torch.bool)[:count], second, best)


def separators(problem, selections):
    """Separators of selections, one after the other."""
    return [hard_margin(difference_rows(problem, selected)) for selected in selections]


def orthogonal(problem):
    """The same scores on tokens whose rows are orthonormal."""
    keys = torch.zeros(*problem.mask.shape, int(problem.mask.sum()), dtype=problem.keys.dtype)
    keys[problem.mask] = torch.eye(keys.shape[-1], dtype=keys.dtype)
    return Problem(keys, problem.scores, mask=problem.mask)


def with_prompt(problem):
    """The same tokens and scores with one prompt for all inputs."""
    return Problem(problem.keys, problem.scores, mask=problem.mask)


def log_elsewhere(problem, theta, selected):
    """log(1 - attention on the selected token), shape (..., n)."""
    logits = problem.logits(theta)
    place = selected.expand(logits.shape[:-1])[..., None]
    others = logits.scatter(-1, place, -torch.inf).logsumexp(-1)
    return logsigmoid(others - logits.gather(-1, place)[..., 0])


def other_rules(problem, length):
    """Thetas at the end of gradient descent and of Polyak's steps from W = 0, by name; none where they overflow.

    The first step of gradient descent is as long as those of normalised descent.
    """
    start = problem.keys.new_zeros(problem.parameter_size)
    slope = gradient(problem, losses.logistic, start)
    first = norm(slope.direction) * slope.log_scale.exp()
    rules = {"GD": constant(STEP * length / first), "Polyak": polyak(problem, losses.logistic, optimal_tokens(problem))}
    ends = {}
    for name, rule in rules.items():
        with suppress(FloatingPointError):  # Polyak's step leaves the floats where attention saturates on other tokens
            ends[name] = run(problem, losses.logistic, start, rule, STEPS, [STEPS]).theta[0]
    return ends


def rates(problem, separator, theta, selected, length):
    """Of records at half and at the end of normalised descent: log-log slope of the distance, error of the exponent.

    The steps are `STEP` times the length; the exponent is that of the attention outside the selected tokens.
    """
    distance = one_minus_cosine(theta, separator.theta).sqrt().log()
    left = log_elsewhere(problem, theta, selected).amax(-1)
    power, exponent = (distance[1] - distance[0]) / math.log(2), (left[0] - left[1]) / (STEPS / 2)
    return power, (exponent * norm(separator.theta) / (STEP * length) - 1).abs()


def descended(problem, starts, length):
    """Tokens (starts, n) that normalised descent ends on, and its thetas at half and at the end, (2, starts, D)."""
    rule = normalised(STEP * length)
    path = run(problem, losses.logistic, starts, rule, STEPS, [STEPS // 2, STEPS]).theta
    return selected_tokens(problem, path[-1]), path


def of_all(whole, draw):
    """What is recorded of a problem of many texts, whose rows are never formed."""
    best = optimal_tokens(whole)
    others = random_selections(whole, 2, draw)
    separator, *more = (in_norm(whole, selected) for selected in (best, *others))
    prompts = separators(with_prompt(whole), [best, *others])
    length = norm(separator.theta)
    (ends,), path = descended(whole, torch.zeros_like(separator.theta)[None], length)
    path = path[:, 0]
    own = in_norm(whole, ends)
    power, exponent = rates(whole, separator, path, best, length)
    own_power, own_exponent = rates(whole, own, path, ends, length)
    thetas = {"NGD": path[-1]} | other_rules(whole, length)
    found = {
        "overlap": overlap(whole), "length": length, "power": power, "exponent": exponent, "own_power": own_power,
        "own_exponent": own_exponent, "off": one_minus_cosine(path[-1], separator.theta),
        "own_off": one_minus_cosine(path[-1], own.theta), "own_local": lasts(whole, ends, own),
    }  # fmt: skip
    return {name: float(value) for name, value in found.items()} | {
        "feasible": [float(one.gap < GAP) for one in (separator, *more)],
        "prompt": [float(one.feasible) for one in prompts],
        "on_best": {name: (selected_tokens(whole, theta) == best).double().mean().item()
                    for name, theta in thetas.items()},
        "elsewhere": {name: log_elsewhere(whole, theta, best).exp().mean().item() for name, theta in thetas.items()},
    }  # fmt: skip
