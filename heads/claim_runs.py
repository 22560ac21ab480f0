"""Train a problem of one's own: by gradient flow in log time and by an optimiser; say where each run ends."""

import math
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from . import optimisers
from ._lib import (
    LOSSES,
    checks,
    difference_rows,
    dual,
    excess_near,
    from_span,
    gradient,
    gradient_near,
    hard_margin,
    in_span,
    log_spaced,
    log_time_flow,
    norm,
    one_minus_cosine,
    optimal_tokens,
    run,
    selected_tokens,
    span_coordinates,
    steepest,
)

STEEPEST = {"normalised": ("ngd", "l_2"), "sign": ("steepest", "l_inf"), "coordinate": ("steepest", "l_1"),
            "spectral": ("steepest", "spectral")}  # fmt: skip
LATE = 10_000.0  # log t at which flows end
LOG_TIMES = [*range(60), *torch.logspace(math.log10(60), math.log10(LATE), 40, dtype=torch.float64).tolist()]
ENDS = (
    LATE,
    25.0,
    15.0,
)  # log t: where a flow rests at a finite minimum rounding lets it go no further than the latter
APART = 0.02  # by which shares of two norms have to differ for a problem to tell the norms apart
RESTS = 1e-6  # part of its length by which a flow that rests moves in the second half of its log time
AHEAD = 5.0  # lengths of a separator at which a flow starts to see whether its selection lasts
MATRICES = 256  # entries of W up to which norms of matrices are tried, and 10 for the side of sign matrices
UNIT = 2.0**-24  # unit roundoff of float32
TURNED = 0.01  # 1 - cos at which a computed gradient no longer has its direction


class Run(NamedTuple):
    """Iterates of a run: its name, step rule, norm and unit of time; why it ended early, or ""; whether on the log."""

    name: str
    step: str
    norm: str | None
    unit: str
    times: Tensor
    thetas: Tensor
    stopped: str = ""
    log_risk: bool = False


def flow(problem, loss, start, name):
    """Gradient flow to log t = 10,000, in the span of the rows; to 25 or 15 where it rests at a finite minimum."""
    spanned, rest = problem, 0.0
    coordinates = start
    if problem.queries is not None:
        spanned = in_span(problem)
        coordinates = span_coordinates(spanned, problem.logits(start))
        rest = start - from_span(problem, spanned, coordinates)
    stopped = ""
    for last in ENDS:
        times = [time for time in LOG_TIMES if time <= last]
        try:
            path = log_time_flow(spanned, LOSSES[loss], coordinates, times)
            break
        except RuntimeError as error:
            stopped = str(error)
    else:
        raise ValueError(f"the gradient flow cannot be followed: {stopped}")
    thetas = path.theta if spanned is problem else from_span(problem, spanned, path.theta) + rest
    return Run(name, "flow", "l_2", "log t", torch.tensor(times, dtype=torch.float64), thetas, stopped)


def descent(problem, loss, start, name, parameters, steps):
    """Run steepest descent of a norm, with steps that are exact at any size of the gradient."""
    step, own = STEEPEST[name]
    shape = _shape(problem)
    if own not in norms(problem):
        raise ValueError(f"{name} takes steps of a matrix: give queries")
    order = optimisers.NORMS[own]
    if unknown := [one for one in parameters if one != "lr"]:
        raise ValueError(f"{name} has no parameter {unknown[0]!r}: it has lr")
    rows = difference_rows(problem, optimal_tokens(problem))
    size = parameters.get("lr", 0.5 / norm(rows, dual(order), shape).amax().item())  # no margin moves by more than .5
    record = _records(steps)
    path = run(problem, LOSSES[loss], start, steepest(size, order, shape), steps, record)
    return Run(f"{name}, lr={size:.3g}", step, own, "steps", path.times.double(), path.theta, log_risk=True)


def training(problem, loss, start, name, make, steps, log_risk):
    """Train with an optimiser of PyTorch, on the risk or on the log of its excess."""
    like, shape = start, _shape(problem)
    weights = [torch.nn.Parameter(start.view(shape).clone())]
    optimiser = optimisers._made(make, weights)
    slope = gradient_near(problem, LOSSES[loss], like)
    excess = excess_near(problem, LOSSES[loss], like, optimal_tokens(problem))
    thetas, kept, theta = {}, set(_records(steps)), start.clone()
    for k in range(1, steps + 1):
        direction, log_scale = slope(theta)
        if log_risk:
            log_scale = log_scale - excess(theta).log_scale
        optimisers._step([optimiser], [weights], [log_scale.exp() * direction], k)
        theta = weights[0].detach().flatten().clone()
        if not (theta.abs() < optimisers.HUGE).all():
            raise ValueError(f"{name} diverges at step {k}: take a smaller learning rate")
        if k in kept:
            thetas[k] = optimisers._evaluated([optimiser], [weights])[0]
    step, own = step_rule(problem, loss, optimiser)
    if log_risk and type(optimiser) is torch.optim.SGD:  # whose steps do not shrink with the gradient then
        step = "other"
    objective = "the log of the excess risk" if log_risk else "the risk"
    times = torch.tensor([*thetas], dtype=torch.float64)
    return Run(f"{name} on {objective}", step, own, "steps", times, torch.stack([*thetas.values()]), "", log_risk)


def _records(steps):
    return sorted({steps // 2, *log_spaced(checks.integer("steps", steps, least=8), 60).tolist()} - {0})


def _shape(problem):
    return problem.keys.shape[-1], 1 if problem.queries is None else problem.queries.shape[-1]


def norms(problem):
    """Norms that are tried, by name: of matrices only for a W with two sides, and small."""
    shape = _shape(problem)
    names = ["l_1", "l_2", "l_inf"]
    if min(shape) > 1 and math.prod(shape) <= MATRICES:
        names += ["spectral", "nuclear"] + ["sign"] * (max(shape) <= 10)
    return {name: optimisers.NORMS[name] for name in names}


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


def ending(problem, run):
    """Where a run ends: tokens, lead, attention; in each norm share of the best margin, angle, gap of its separator."""
    theta, half, shape = run.thetas[-1], run.thetas[_half(run)], _shape(problem)
    selected = selected_tokens(problem, theta)
    rows, attention = difference_rows(problem, selected), problem.attention(theta)
    facts = {
        "name": run.name, "unit": run.unit, "until": run.times[-1].item(), "selected": selected.tolist(),
        "best": torch.equal(selected, optimal_tokens(problem)), "length": norm(theta).item(),
        "lead": (rows @ theta).amin().item(), "attention": attention.amax(-1).amin().item(), "stopped": run.stopped,
        "norms": {}, "maximises": [], "leans": [], "moved": None,
    }  # fmt: skip
    facts["rests"] = run.unit == "log t" and bool(norm(theta - half) <= RESTS * norm(theta))
    if facts["rests"] or facts["lead"] <= 0 or not hard_margin(rows).feasible:
        return facts
    lead_before = (rows @ half).amin()
    for name, order in norms(problem).items():
        separator = hard_margin(rows, order, shape=shape, largest_gap=optimisers.GAP)
        least = norm(separator.theta, order, shape)
        share = (least * facts["lead"] / norm(theta, order, shape)).item()
        before = (least * lead_before / norm(half, order, shape)).item() if half.any() else 0.0
        facts["norms"][name] = {
            "share": share, "before": before, "degrees": degrees(theta, separator.theta), "length": least.item(),
            "gap": separator.gap.item(), "multipliers": separator.duals.tolist(),
        }  # fmt: skip
    shares = {name: answer["share"] for name, answer in facts["norms"].items()}
    largest = max(shares.values())
    alike = [name for name, share in shares.items() if share >= largest - APART]
    facts["moved"] = max(abs(answer["share"] - answer["before"]) for answer in facts["norms"].values())
    if largest >= optimisers.LEANT:
        facts["maximises" if largest >= optimisers.MAXIMISED else "leans"] = alike
    return facts


def _half(run):
    return int((run.times <= run.times[-1] / 2).nonzero()[-1])


def single_precision(problem, loss, run):
    """Where 32 bits lose the gradient's direction on the way of a run: as predicted, as measured, in length and time.

    The prediction is that of the chapter on rounding: where the error of the textbook gradient, unit roundoff times
    mean of |loss'(u_i)| |gamma_ib| |A_ib| with b the token with the most attention, reaches the gradient's length.
    Measured is the first iterate at which automatic differentiation in 32 bits has 1 - cos above .01.
    """
    thetas = run.thetas
    exact = gradient(problem, LOSSES[loss], thetas)
    size = exact.log_scale + norm(exact.direction).log()
    top = problem.logits(thetas).argmax(-1, keepdim=True)
    scores = problem.scores.expand(*top.shape[:-1], -1).gather(-1, top)[..., 0]
    rows = norm(problem.keys) * (1.0 if problem.queries is None else norm(problem.queries)[:, None])
    rows = rows.expand(*top.shape[:-1], -1).gather(-1, top)[..., 0]
    log_error = (LOSSES[loss].log_slope(scores) + scores.abs().log() + rows.log()).logsumexp(-1)
    log_error = log_error - math.log(problem.scores.shape[0]) + math.log(UNIT)
    textbook = torch.stack([_textbook(problem, loss, theta) for theta in thetas])
    there = textbook.any(-1) & exact.direction.any(-1)
    turned = ~textbook.any(-1)
    turned[there] = one_minus_cosine(textbook[there], exact.direction[there]) > TURNED
    return {"predicted": _first(run, log_error >= size), "measured": _first(run, turned)}


def _first(run, where):
    if not where.any():
        return None
    place = int(where.nonzero()[0])
    return {"length": norm(run.thetas[place]).item(), "time": run.times[place].item()}


def _textbook(problem, loss, theta):
    """Gradient of the risk by automatic differentiation in 32 bits, as float64."""
    keys, scores = problem.keys.float(), problem.scores.float()
    with torch.enable_grad():
        theta = theta.float().requires_grad_()
        asked = theta.expand(len(keys), -1)
        if problem.queries is not None:
            asked = problem.queries.float() @ theta.view(_shape(problem)).mT
        margins = ((keys @ asked[..., None])[..., 0].softmax(-1) * scores).sum(-1)
        return torch.autograd.grad(LOSSES[loss].value(margins).mean(), theta)[0].double()


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
    """Where the flow of each other loss ends, from the same start as a run: tokens, and the angle to its end."""
    facts = []
    for other in LOSSES:
        if other != loss:
            theta = flow(claim.problem, other, claim.start, other).thetas[-1]
            selected = selected_tokens(claim.problem, theta).tolist()
            facts.append({"loss": other, "selected": selected, "degrees": degrees(theta, end)})
    return facts


def degrees(first, second):
    """Angle between two vectors; None where one is zero."""
    if not (first.any() and second.any()):
        return None
    half = (one_minus_cosine(first, second) / 2).sqrt().clamp(max=1.0).asin()
    return math.degrees(2 * half.item())


def optimised(claim, loss, name, make, steps):
    """Runs of an optimiser, on the risk and on the log of its excess."""
    train = partial(training, claim.problem, loss, claim.start, name, make, steps)
    return [train(log_risk) for log_risk in (False, True)]
