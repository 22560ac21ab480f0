"""Train a problem of one's own: by gradient flow in log time and by an optimiser; say where each run ends."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from . import optimisers, training
from ._lib import (
    LOSSES,
    checks,
    difference_rows,
    dual,
    excess_near,
    from_span,
    gradient_near,
    hard_margin,
    in_span,
    log_spaced,
    log_time_flow,
    norm,
    optimal_tokens,
    run,
    selected_tokens,
    span_coordinates,
    steepest,
)
from .claim_ends import degrees, norms, selects, weight_shape

# Rules by name: what makes them of step size, norm and shape; which step rule of the register they are; the norm.
STEEPEST = {
    "normalised": (steepest, "ngd", "l_2"),
    "sign": (steepest, "steepest", "l_inf"),
    "coordinate": (steepest, "steepest", "l_1"),
    "spectral": (steepest, "steepest", "spectral"),
}
LATE = 10_000.0  # log t at which flows end
LOG_TIMES = [*range(60), *torch.logspace(math.log10(60), math.log10(LATE), 40, dtype=torch.float64).tolist()]
ENDS = (LATE, 25.0, 15.0)  # log t: a flow that rests at a finite minimum goes no further than the latter, by rounding
AHEAD = 5.0  # lengths of a separator at which a flow starts to see whether its selection lasts


class Run(NamedTuple):
    """Iterates of a run from its start on: name, step rule, norm, unit of time; why it ended early; if on the log.

    ``change`` is by how much 95 % of the steps change a margin of the best tokens at most, None of a flow.
    """

    name: str
    step: str
    norm: str | None
    unit: str
    times: Tensor
    thetas: Tensor
    stopped: str = ""
    log_risk: bool = False
    change: float | None = None


def flow(problem, loss, start, name):
    """Gradient flow to log t = 10,000, in the span of the rows; to 25 or 15 where it rests at a finite minimum.

    Where it cannot be followed even so far, the run has its start alone.
    """
    spanned, rest = problem, 0.0
    coordinates = start
    if problem.queries is not None:
        spanned = in_span(problem)
        coordinates = span_coordinates(spanned, problem.logits(start))
        rest = start - from_span(problem, spanned, coordinates)
    stopped = ""
    times, reached = [0.0], coordinates[None]
    for last in ENDS:
        wanted = [time for time in LOG_TIMES if time <= last]
        try:
            times, reached = wanted, log_time_flow(spanned, LOSSES[loss], coordinates, wanted).theta
            break
        except RuntimeError as error:
            times, stopped = [0.0], stopped or str(error)
    thetas = reached if spanned is problem else from_span(problem, spanned, reached) + rest
    return Run(name, "flow", "l_2", "log t", torch.tensor(times, dtype=torch.float64), thetas, stopped)


def descent(problem, loss, start, name, parameters, steps):
    """Run steepest descent of a norm, with steps that are exact at any size of the gradient."""
    make, step, own = STEEPEST[name]
    shape = weight_shape(problem)
    if own not in norms(problem):
        raise ValueError(f"{name} takes steps of a matrix: give queries")
    order = optimisers.NORMS[own]
    if unknown := [one for one in parameters if one != "lr"]:
        raise ValueError(f"{name} has no parameter {unknown[0]!r}: it has lr")
    lr = parameters.get("lr", 1.0)
    if isinstance(lr, bool) or not isinstance(lr, int | float) or not 0 < lr < math.inf:
        raise ValueError(f"lr={lr} is no step size of {name}: give a number above 0, such as lr=0.01")
    rows = difference_rows(problem, optimal_tokens(problem))
    longest = norm(rows, dual(order), shape).amax().item()
    size = parameters.get("lr", 0.5 / longest)  # no margin moves by more than .5
    record = _records(steps)
    path = run(problem, LOSSES[loss], start, make(size, order, shape), steps, record)
    return Run(f"{name}, lr={size:.3g}", step, own, "steps", path.times.double(), path.theta, "", True, size * longest)


def trained(problem, loss, start, name, make, steps, log_risk):
    """Train with an optimiser of PyTorch, on the risk or on the log of its excess."""
    like, shape = start, weight_shape(problem)
    weights = [torch.nn.Parameter(start.view(shape).clone())]
    optimiser = training.made(make, weights)
    slope = gradient_near(problem, LOSSES[loss], like)
    excess = excess_near(problem, LOSSES[loss], like, optimal_tokens(problem))
    thetas, kept, theta, changes = {0: start.clone()}, set(_records(steps)), start.clone(), []
    rows = difference_rows(problem, optimal_tokens(problem))
    for k in range(1, steps + 1):
        direction, log_scale = slope(theta)
        if log_risk:
            log_scale = log_scale - excess(theta).log_scale
        training.take_step([optimiser], [weights], [log_scale.exp() * direction], k)
        theta, before = weights[0].detach().flatten().clone(), theta
        if not (theta.abs() < training.HUGE).all():
            raise ValueError(f"{name} diverges at step {k}: take a smaller learning rate")
        changes.append((rows @ (theta - before)).abs().amax())
        if k in kept:
            thetas[k] = training.evaluated([optimiser], [weights])[0]
    step, own = step_rule(problem, loss, optimiser)
    if log_risk and type(optimiser) is torch.optim.SGD:  # whose steps do not shrink with the gradient then
        step = "other"
    objective = "the log of the excess risk" if log_risk else "the risk"
    times = torch.tensor([*thetas], dtype=torch.float64)
    iterates, change = torch.stack([*thetas.values()]), torch.stack(changes).quantile(0.95).item()
    return Run(f"{name} on {objective}", step, own, "steps", times, iterates, "", log_risk, change)


def _records(steps):
    return sorted({0, steps // 2, *log_spaced(checks.integer("steps", steps, least=8), 60).tolist()})


def smoothness(problem, loss):
    """A constant L such that the risk is L-smooth, from the scores alone.

    With g_t = a_t (gamma_t - u), the slope of u = gamma . a in the logits has |g| <= r / 2, r the range of the scores,
    and its second derivative, diag(g) - g a^T - a g^T, a norm of at most 3 r / 2. Both vanish on shifts of all logits,
    so rows count as differences to one of them.
    """
    keys = problem.keys - problem.keys[:, :1]
    sizes = torch.linalg.matrix_norm(keys, ord=2)
    if problem.queries is not None:
        sizes = sizes * norm(problem.queries)
    spread = problem.scores.amax(-1) - problem.scores.amin(-1)
    lipschitz, slope = LOSSES[loss].constants(problem.scores.abs().amax())
    return (sizes**2 * (lipschitz * spread**2 / 4 + 1.5 * slope * spread)).mean().item()


def step_rule(problem, loss, optimiser):
    """Which of the step rules of the register an optimiser is, "other" for most, and the norm that it should maximise.

    Adam's memory is short where a full step raises the least lead by less than it forgets: lr / N < log(1/beta_2) / 2,
    N the norm of the l_inf separator (the chapter on Adam's clocks).
    """
    kind, group = type(optimiser), optimiser.param_groups[0]
    if group.get("weight_decay"):
        return "other-decay", None
    if kind is torch.optim.SGD and not group["momentum"] and not group["maximize"]:
        return ("gd" if group["lr"] <= 1 / smoothness(problem, loss) else "gd-long"), "l_2"
    if kind not in (torch.optim.Adam, torch.optim.AdamW) or group["amsgrad"]:
        return "other", None
    separator = hard_margin(difference_rows(problem, optimal_tokens(problem)), math.inf)
    forgets = 0.5 * math.log(1 / group["betas"][1]) if group["betas"][1] else math.inf
    if not separator.feasible or group["lr"] / norm(separator.theta, math.inf) >= forgets:
        return "adam", None
    return ("adam-epsilon", None) if group["eps"] else ("adam-bare", "l_inf")


def flows(claim, loss, choices):
    """Flows from the start, and from afar towards each other stable selection, four at most."""
    problem, start = claim.problem, claim.start
    where = "from the start of the file" if start.any() else "from zero"
    found = [flow(problem, loss, start, f"gradient flow {where}")]
    wrong = [] if choices is None else choices[0][(choices[0] != optimal_tokens(problem)).any(-1)][:4]
    for selected in wrong:
        separator = hard_margin(difference_rows(problem, selected))
        if separator.feasible:
            name = f"gradient flow from {AHEAD:g} lengths towards the stable tokens {selected.tolist()}"
            found.append(flow(problem, loss, AHEAD * separator.theta, name))
    return found


def other_losses(claim, loss, end):
    """Where the flow of each other loss ends, from the same start as a run: tokens it selects, angle to its end.

    Tokens are None where it selects none.
    """
    facts = []
    for other in LOSSES:
        if other != loss:
            path = flow(claim.problem, other, claim.start, other)
            tokens = selected_tokens(claim.problem, path.thetas[-1]).tolist() if selects(claim.problem, path) else None
            facts.append({"loss": other, "selected": tokens, "degrees": degrees(path.thetas[-1], end)})
    return facts
