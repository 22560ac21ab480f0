"""Say where a run of a problem of one's own ends: its tokens, its margins, and where 32 bits lose its gradient."""

import math

import torch

from . import optimisers
from ._lib import (
    LOSSES,
    difference_rows,
    gradient,
    hard_margin,
    norm,
    one_minus_cosine,
    optimal_tokens,
    selected_tokens,
)

APART = 0.02  # by which shares of two norms have to differ for a problem to tell the norms apart
TURN = 5.0  # degrees up to which a run still has the direction of its start
CANCELS = 1e-3  # part of the pulls of single tokens that is left of their sum where a flow rests
RESTS = 1e-6  # part of its length by which a flow that rests moves in the second half of its log time
MATRICES = 256  # entries of W up to which norms of matrices are tried, and 10 for the side of sign matrices
UNIT = 2.0**-24  # unit roundoff of float32
TURNED = 0.01  # 1 - cos at which a computed gradient no longer has its direction


def weight_shape(problem):
    """(d, e) of W, or (d, 1) of p."""
    return problem.keys.shape[-1], 1 if problem.queries is None else problem.queries.shape[-1]


def norms(problem):
    """Norms that are tried, by name: of matrices only for a W with two sides, and small."""
    shape = weight_shape(problem)
    names = ["l_1", "l_2", "l_inf"]
    if min(shape) > 1 and math.prod(shape) <= MATRICES:
        names += ["spectral", "nuclear"] + ["sign"] * (max(shape) <= 10)
    return {name: optimisers.NORMS[name] for name in names}


def stands_still(run):
    """Whether a flow has all but stopped: it rests, or it waits for a time that it was not followed to."""
    theta = run.thetas[-1]
    followed = run.unit == "log t" and len(run.times) > 1
    return followed and bool(norm(theta - run.thetas[_half(run)]) <= RESTS * norm(theta))


def rests(problem, loss, run):
    """Whether a flow rests at a finite point: it stands still because the pulls of its tokens cancel."""
    if not stands_still(run):
        return False
    theta = run.thetas[-1]
    attention, top = problem.attention(theta), problem.logits(theta).argmax(-1, keepdim=True)
    others = problem.logits(theta).log_softmax(-1).scatter(-1, top, -math.inf).logsumexp(-1)
    gaps = problem.scores.amax(-1) - problem.scores.amin(-1)
    pulls = LOSSES[loss].log_slope(problem.margins(attention)[0]) + others + (gaps * _row_length(problem)).log()
    pull = pulls.logsumexp(-1) - math.log(len(gaps))
    exact = gradient(problem, LOSSES[loss], theta)
    return bool(exact.log_scale + norm(exact.direction).log() < pull + math.log(CANCELS))


def _row_length(problem):
    """The longest row of each input, shape (n,), up to a factor of 2 for differences."""
    return norm(problem.keys).amax(-1) * (1.0 if problem.queries is None else norm(problem.queries))


def selects(problem, run):
    """Whether a run selects the tokens with the most attention: something separates them, and it was followed there."""
    rows = difference_rows(problem, selected_tokens(problem, run.thetas[-1]))
    leads = bool((rows @ run.thetas[-1] > 0).all())
    return not run.stopped and not stands_still(run) and leads and bool(hard_margin(rows).feasible)


def has_turned(run):
    """Whether a run has told anything of its direction: it is no longer that of the start, or far longer."""
    start, theta = run.thetas[0], run.thetas[-1]
    return not start.any() or degrees(theta, start) > TURN or bool(norm(theta - start) >= norm(start))


def ending(problem, loss, run):
    """Where a run ends: tokens, lead, attention; in each norm share of the best margin, angle, gap of its separator."""
    theta, selected = run.thetas[-1], selected_tokens(problem, run.thetas[-1])
    attention, rows = problem.attention(theta), difference_rows(problem, selected)
    facts = {
        "name": run.name, "unit": run.unit, "until": run.times[-1].item(), "selected": selected.tolist(),
        "best": torch.equal(selected, optimal_tokens(problem)), "length": norm(theta).item(),
        "lead": (rows @ theta).amin().item(), "lead_before": (rows @ run.thetas[_half(run)]).amin().item(),
        "attention": attention.amax(-1).amin().item(), "stopped": run.stopped, "rests": rests(problem, loss, run),
        "turned": has_turned(run), "norms": {}, "maximises": [], "leans": [], "moved": None,
    }  # fmt: skip
    facts["waits"] = stands_still(run) and not facts["rests"]
    if not selects(problem, run):
        return facts
    facts["norms"] = _shares(problem, run, selected)
    shares = {name: answer["share"] for name, answer in facts["norms"].items()}
    largest = max(shares.values())
    alike = [name for name, share in shares.items() if share >= largest - APART]
    facts["moved"] = max(abs(answer["share"] - answer["before"]) for answer in facts["norms"].values())
    if largest >= optimisers.LEANT and facts["turned"]:
        facts["maximises" if largest >= optimisers.MAXIMISED else "leans"] = alike
    return facts


def _shares(problem, run, selected):
    """Facts by norm at the end of a run, with its shares at half of its time and at its start (None if zero)."""
    rows, shape = difference_rows(problem, selected), weight_shape(problem)
    thetas = run.thetas[[-1, _half(run), 0]]
    answers = {}
    for name, order in norms(problem).items():
        separator = hard_margin(rows, order, shape=shape, largest_gap=optimisers.GAP)
        least = norm(separator.theta, order, shape)
        shares = (least * (thetas @ rows.mT).amin(-1) / norm(thetas, order, shape)).nan_to_num(0.0).tolist()
        answers[name] = {
            "share": shares[0], "before": shares[1], "first": shares[2] if thetas[2].any() else None,
            "degrees": degrees(thetas[0], separator.theta), "length": least.item(), "gap": separator.gap.item(),
            "multipliers": separator.duals.tolist(),
        }  # fmt: skip
    return answers


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
    some = exact.direction.any(-1)  # where the gradient is zero, as where a flow rests, it has no direction to lose
    there = textbook.any(-1) & some
    turned = ~textbook.any(-1) & some
    if there.any():
        turned[there] = one_minus_cosine(textbook[there], exact.direction[there]) > TURNED
    return {"predicted": _first(run, (log_error >= size) & some), "measured": _first(run, turned)}


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
            asked = problem.queries.float() @ theta.view(weight_shape(problem)).mT
        margins = ((keys @ asked[..., None])[..., 0].softmax(-1) * scores).sum(-1)
        return torch.autograd.grad(LOSSES[loss].value(margins).mean(), theta)[0].double()


def degrees(first, second):
    """Angle between two vectors; None where one is zero."""
    if not (first.any() and second.any()):
        return None
    half = (one_minus_cosine(first, second) / 2).sqrt().clamp(max=1.0).asin()
    return math.degrees(2 * half.item())
