"""Train a problem of one's own, and say where each run ends: gradient flow in log time, an optimiser of PyTorch."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from . import optimisers, training
from ._lib import (
    LOSSES,
    checks,
    difference_rows,
    excess_near,
    from_span,
    gradient_near,
    hard_margin,
    in_span,
    log_spaced,
    log_time_flow,
    norm,
    one_minus_cosine,
    optimal_tokens,
    selected_tokens,
    span_coordinates,
)
from .claims import weight_shape

LATE = 10_000.0  # log t at which flows end
LOG_TIMES = [*range(60), *torch.logspace(math.log10(60), math.log10(LATE), 40, dtype=torch.float64).tolist()]
ENDS = (LATE, 25.0, 20.0, 15.0, 10.0, 5.0)  # log t: rounding ends a flow that rests at a finite point at one of these
AHEAD, TRIED = 5.0, 4  # times a separator, from where flows see whether its selection lasts; how many are tried
APART = 0.02  # by which shares of two norms have to differ for a problem to tell the norms apart
TURN = 5.0  # degrees up to which a run still has the direction of its start
STILL = 1e-6  # part of its length by which a flow moves, in the second half of its log time or in a unit, that rests
MATRICES = 256  # entries of W up to which norms of matrices are tried, and 10 for the side of sign matrices


class Run(NamedTuple):
    """Iterates of a run from its start on, the times of each in a unit, log t or steps; why it ended early.

    ``change`` is by how much 95 % of the steps change a margin of the best tokens at most, None of a flow; ``rests``
    whether a flow that rounding ended had arrived at a finite point.
    """

    name: str
    unit: str
    times: Tensor
    thetas: Tensor
    stopped: str = ""
    change: float | None = None
    rests: bool = False


def flow(problem, loss, start, name):
    """Gradient flow to log t = 10,000, in the span of the rows; to one of `ENDS` where rounding ends it before.

    Where it cannot be followed even so far, the run has its start alone.
    """
    spanned, rest, coordinates = problem, 0.0, start
    if problem.queries is not None:
        spanned = in_span(problem)
        coordinates = span_coordinates(spanned, problem.logits(start))
        rest = start - from_span(problem, spanned, coordinates)
    times, reached = [0.0], coordinates[None]
    for last in ENDS:
        wanted = [time for time in LOG_TIMES if time <= last]
        try:
            reached = log_time_flow(spanned, LOSSES[loss], coordinates, wanted).theta
            times = wanted
            break
        except RuntimeError:  # of rounding, which an earlier end avoids
            continue
    early = times[-1] < LATE
    rests = early and _rests(spanned, loss, reached[-1], times[-1])
    thetas = reached if spanned is problem else from_span(problem, spanned, reached) + rest
    stopped = "The solver could not follow it any further." if early and not rests else ""
    return Run(name, "log t", torch.tensor(times, dtype=torch.float64), thetas, stopped, rests=rests)


def _rests(problem, loss, theta, log_time):
    """Whether a flow has stopped where its gradient vanishes, and is not just waiting where all gradients are faint."""
    slope = gradient_near(problem, LOSSES[loss], theta)
    here, beside = (at.log_scale + norm(at.direction).log() for at in map(slope, (theta, 1.001 * theta)))
    return bool(log_time + here <= math.log(STILL) + norm(theta).log() and beside > here + math.log(1000))


def flows(claim, loss, stable):
    """Flows from the start, and from afar towards the first `TRIED` of the other stable selections."""
    problem, start = claim
    found = [flow(problem, loss, start, f"gradient flow from {'the start of the file' if start.any() else 'zero'}")]
    wrong = [] if stable is None else stable[(stable != optimal_tokens(problem)).any(-1)][:TRIED]
    for selected in wrong:
        separator = hard_margin(difference_rows(problem, selected))
        if separator.feasible:
            name = f"gradient flow from {AHEAD:g} times the separator of the stable tokens {selected.tolist()}"
            found.append(flow(problem, loss, AHEAD * separator.theta, name))
    return found


def trained(claim, loss, name, make, steps, log_risk):
    """Train with an optimiser of PyTorch, on the risk or on the log of its excess."""
    problem, start = claim
    weights = [torch.nn.Parameter(start.view(weight_shape(problem)).clone())]
    optimiser, best = training.made(make, weights), optimal_tokens(problem)
    slope, excess = gradient_near(problem, LOSSES[loss], start), excess_near(problem, LOSSES[loss], start, best)
    kept = {steps // 2, *log_spaced(checks.integer("steps", steps, least=8), 60).tolist()}
    thetas, theta, changes, rows = {0: start.clone()}, start.clone(), [], difference_rows(problem, best)
    for k in range(1, steps + 1):
        direction, log_scale = slope(theta)
        log_scale = log_scale - excess(theta).log_scale if log_risk else log_scale
        training.take_step([optimiser], [weights], [log_scale.exp() * direction], k)
        theta, before = weights[0].detach().flatten().clone(), theta
        if not (theta.abs() < training.HUGE).all():
            raise ValueError(f"{name} diverges at step {k}: take a smaller learning rate, or see if it divides by 0")
        changes.append((rows @ (theta - before)).abs().amax())
        if k in kept:
            thetas[k] = training.evaluated([optimiser], [weights])[0]
    called = f"{name} on {'the log of the excess risk' if log_risk else 'the risk'}"
    times, path = torch.tensor([*thetas], dtype=torch.float64), torch.stack([*thetas.values()])
    return Run(called, "steps", times, path, "", torch.stack(changes).quantile(0.95).item())


def ending(problem, end):
    """Where a run ends: tokens, lead, attention; in each norm share of the best margin, angle, gap of its separator.

    A run selects the tokens with the most attention where something separates them and it was followed there: a flow
    that stands still rests at a finite point, or waits for longer than it was followed.
    """
    half = int((end.times <= end.times[-1] / 2).nonzero()[-1])
    start, middle, theta = end.thetas[0], end.thetas[half], end.thetas[-1]
    selected = selected_tokens(problem, theta)
    rows, followed = difference_rows(problem, selected), end.unit == "log t" and len(end.times) > 1
    facts = {
        "name": end.name, "unit": end.unit, "until": end.times[-1].item(), "stopped": end.stopped,
        "selected": selected.tolist(), "best": torch.equal(selected, optimal_tokens(problem)),
        "length": norm(theta).item(), "attention": problem.attention(theta).amax(-1).amin().item(),
        "lead": (rows @ theta).amin().item(), "change": end.change,
        "still": end.rests or (followed and bool(norm(theta - middle) <= STILL * norm(theta))), "rests": end.rests,
        "norms": {}, "maximises": [],
        "turned": not start.any() or degrees(theta, start) > TURN or bool(norm(theta - start) >= norm(start)),
    }  # fmt: skip
    if not end.stopped and not facts["still"] and facts["lead"] > 0 and bool(hard_margin(rows).feasible):
        facts["norms"] = _shares(problem, rows, torch.stack([theta, middle]))
        largest = max(answer["share"] for answer in facts["norms"].values())
        alike = [name for name, answer in facts["norms"].items() if answer["share"] >= largest - APART]
        facts["maximises"] = alike if largest >= optimisers.MAXIMISED and facts["turned"] else []
    return facts


def _shares(problem, rows, thetas):
    """Facts by norm at the end of a run, with its share at half of its time."""
    answers, shape = {}, weight_shape(problem)
    for name, order in norms(problem).items():
        separator = hard_margin(rows, order, shape=shape, largest_gap=optimisers.GAP)
        least = norm(separator.theta, order, shape)
        shares = (least * (thetas @ rows.mT).amin(-1) / norm(thetas, order, shape)).nan_to_num(0.0).tolist()
        answers[name] = {
            "share": shares[0], "before": shares[1], "degrees": degrees(thetas[0], separator.theta),
            "length": least.item(), "gap": separator.gap.item(),
        }  # fmt: skip
    return answers


def norms(problem):
    """Norms that are tried, by name: of matrices only for a W with two sides, and small."""
    shape = weight_shape(problem)
    names = ["l_1", "l_2", "l_inf"]
    if min(shape) > 1 and math.prod(shape) <= MATRICES:
        names += ["spectral", "nuclear"] + ["sign"] * (max(shape) <= 10)
    return {name: optimisers.NORMS[name] for name in names}


def degrees(first, second):
    """Angle between two vectors."""
    half = (one_minus_cosine(first, second) / 2).sqrt().clamp(max=1.0).asin()
    return math.degrees(2 * half.item())
