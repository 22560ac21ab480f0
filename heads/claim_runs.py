"""Train a problem of one's own by flow in log time and by an optimiser, and say where each run ends."""

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
ENDS = (LATE, 25.0, 15.0)  # log t: a flow that rests at a finite minimum goes no further than the latter, by rounding
AHEAD = 5.0  # lengths of a separator at which a flow starts to see whether its selection lasts
APART = 0.02  # by which shares of two norms have to differ for a problem to tell the norms apart
TURN = 5.0  # degrees up to which a run still has the direction of its start
STILL = 1e-6  # part of its length by which a flow moves in the second half of its log time that has all but stopped
MATRICES = 256  # entries of W up to which norms of matrices are tried, and 10 for the side of sign matrices


class Run(NamedTuple):
    """Iterates of a run from its start on, the times of each in a unit, log t or steps; why it ended early.

    ``change`` is by how much 95 % of the steps change a margin of the best tokens at most, None of a flow.
    """

    name: str
    unit: str
    times: Tensor
    thetas: Tensor
    stopped: str = ""
    change: float | None = None


def norms(problem):
    """Norms that are tried, by name: of matrices only for a W with two sides, and small."""
    shape = weight_shape(problem)
    names = ["l_1", "l_2", "l_inf"]
    if min(shape) > 1 and math.prod(shape) <= MATRICES:
        names += ["spectral", "nuclear"] + ["sign"] * (max(shape) <= 10)
    return {name: optimisers.NORMS[name] for name in names}


def flow(problem, loss, start, name):
    """Gradient flow to log t = 10,000, in the span of the rows; to 25 or 15 where it rests at a finite minimum.

    Where it cannot be followed even so far, the run has its start alone.
    """
    spanned, rest, coordinates = problem, 0.0, start
    if problem.queries is not None:
        spanned = in_span(problem)
        coordinates = span_coordinates(spanned, problem.logits(start))
        rest = start - from_span(problem, spanned, coordinates)
    times, reached, stopped = [0.0], coordinates[None], ""
    for last in ENDS:
        wanted = [time for time in LOG_TIMES if time <= last]
        try:
            times, reached = wanted, log_time_flow(spanned, LOSSES[loss], coordinates, wanted).theta
            break
        except RuntimeError as error:
            times, stopped = [0.0], stopped or str(error)
    thetas = reached if spanned is problem else from_span(problem, spanned, reached) + rest
    return Run(name, "log t", torch.tensor(times, dtype=torch.float64), thetas, stopped)


def flows(claim, loss, stable):
    """Flows from the start, and from afar towards each other of the stable selections, four at most."""
    problem, start = claim
    found = [flow(problem, loss, start, f"gradient flow from {'the start of the file' if start.any() else 'zero'}")]
    wrong = [] if stable is None else stable[(stable != optimal_tokens(problem)).any(-1)][:4]
    for selected in wrong:
        separator = hard_margin(difference_rows(problem, selected))
        if separator.feasible:
            name = f"gradient flow from {AHEAD:g} lengths towards the stable tokens {selected.tolist()}"
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
            raise ValueError(f"{name} diverges at step {k}: take a smaller learning rate")
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
        "still": followed and bool(norm(theta - middle) <= STILL * norm(theta)), "norms": {}, "maximises": [],
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


def degrees(first, second):
    """Angle between two vectors."""
    half = (one_minus_cosine(first, second) / 2).sqrt().clamp(max=1.0).asin()
    return math.degrees(2 * half.item())
