"""Find which norm of the margin an optimiser of PyTorch maximises, on small attention problems that can be solved.

Each problem has inputs whose best tokens a matrix W separates. The optimiser trains W, or keys and queries, from a
start that selects the best tokens already, and its margin is compared with the largest one in each norm, which a
separator with a certificate gives.
"""

import math
from dataclasses import dataclass, replace
from functools import partial

import torch
from torch import Tensor

from ._lib import (
    Problem,
    checks,
    difference_rows,
    dual,
    excess_near,
    gradient_near,
    hard_margin,
    log_spaced,
    logistic,
    norm,
    optimal_tokens,
    selected_tokens,
)  # fmt: skip

NORMS = {"l_1": 1, "l_2": 2.0, "l_inf": math.inf, "spectral": "spectral", "nuclear": "nuclear", "sign": "signs"}
LONGEST = (
    100.0  # l_1 norm of the longest difference row: a step of .001 in each entry changes no margin by more than .1
)
CLEAR = 20.0  # length of the separators of a problem, in units of its longest row, above which it is left out
NOISE = 0.1  # of the entries of K and Q at the start, times the mean root of the singular values of W
HUGE = 1e100  # entry of W from which on it diverges
LEAD = 6.0  # smallest margin at the start
GAP = 1e-6  # relative, of a separator
SETTLED = 0.01  # by which no median share may have moved since half of the steps
MAXIMISED, LEANT = 0.95, 0.9  # least median share in the norm that an optimiser maximises, or leans to
FIRST = 0.75  # part of the problems on which its share is the largest of all norms


@dataclass(frozen=True, eq=False)
class OptimiserMargins:
    """Margins of an optimiser, as shares of the largest margin in each norm.

    Attributes
    ----------
    times : list of int
        Steps after which they were recorded.
    shares : Tensor, shape (records, norms, problems)
        margin / norm of W over the largest such quotient, for the tokens that W selects at the end: at most 1.
    gaps : Tensor, shape (norms, problems)
        Of the separators: the largest margin is larger than it was taken for by at most this part of it.
    leads : Tensor, shape (records, problems)
        Smallest margin.
    selected : Tensor of int, shape (problems, n)
        Tokens that W selects at the end.
    change : float
        Largest change of a margin in a step, the 95th percentile of all steps.
    settled : bool
        No median share has moved by more than .01 since half of the steps.
    norm : str or None
        The norm with the largest median share, if that is .9 or more and the largest on three quarters of the problems.
    maximised : bool
        That share is .95 or more.
    """

    times: list
    shares: Tensor
    gaps: Tensor
    leads: Tensor
    selected: Tensor
    change: float
    settled: bool
    norm: str | None
    maximised: bool


def optimiser_margins(
    make, problem=None, steps=8000, factored=False, one_input=False, log_risk=True, norms=None, until_settled=True
):
    """Train with an optimiser until its shares of the best margins have settled, or the steps are used up.

    Parameters
    ----------
    make : callable
        From a list of parameters to a torch.optim.Optimizer, such as ``partial(torch.optim.AdamW, lr=1e-3)``.
    problem : Problem, optional
        With queries, of one batch dimension, in float64; six of :func:`clear_problems` when left out.
    steps : int
        At most.
    factored : bool
        Train keys and queries, W = K Q^T, instead of W. The learning rate then falls like 1 / sqrt(step), since a step
        of one length changes the margins the more, the longer K and Q are.
    one_input : bool
        Take the gradient of one input a step, in an order drawn anew for each pass, instead of that of all.
    log_risk : bool
        Descend on the logarithm of the excess risk, in log space: gradients then neither vanish nor fall below an
        epsilon. Rules that ignore the scale of the gradient and forget soon take the same path on the risk itself;
        plain SGD slows down there, epsilons matter, and long memories hold gradients that are long out of date.
    norms : dict, optional
        By name what :func:`lib.separators.hard_margin` takes as ``norm``; `NORMS` when left out.
    until_settled : bool
        End at a half or a quarter of the steps if the shares have settled there.

    Returns
    -------
    OptimiserMargins

    Raises
    ------
    ValueError
        If ``make`` gives no optimiser, which needs no closure and has real states, a best token cannot be separated, or
        the problem does not fit.
    FloatingPointError
        If the weights diverge, stand still, or select no tokens.
    """
    checks.integer("steps", steps, least=8)
    problem, norms = clear_problems(6) if problem is None else _checked(problem), norms or NORMS
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)  # the order of inputs, and what the optimiser draws
        return _trained(make, problem, steps, factored, one_input, log_risk, norms, until_settled)


def clear_problems(count, seed=0, inputs=3, tokens=4, dimension=4):
    """Random problems whose best tokens are separated, none by a margin that is small for the length of its rows.

    Tokens and queries are Gaussian, scores uniform; the longest difference row has the l_1 norm 100.

    Raises
    ------
    ValueError
        If fewer than ``count`` of 20 times as many are such.
    """
    for name, value in {"problems": count, "inputs": inputs, "tokens": tokens, "dimension": dimension}.items():
        checks.integer(name, value)
    generator = torch.Generator().manual_seed(seed)
    draw = partial(torch.randn, generator=generator, dtype=torch.float64)
    keys, queries = draw(20 * count, inputs, tokens, dimension), draw(20 * count, inputs, dimension)
    scores = torch.rand(20 * count, inputs, tokens, generator=generator, dtype=torch.float64)
    rows = difference_rows(Problem(keys, scores, queries), scores.argmax(-1))
    clear = torch.arange(len(keys))
    for order in (2.0, 1, math.inf):  # Euclid's says at once what cannot be separated
        if len(clear):
            separator = hard_margin(rows[clear], order)
            length = norm(separator.theta, order) * norm(rows[clear], dual(order)).amax(-1)
            clear = clear[separator.feasible & (length <= CLEAR)]
    kept = clear[:count]
    if len(kept) < count:
        raise ValueError(
            f"{len(kept)} of {20 * count} problems with {inputs} inputs of {tokens} tokens in {dimension} dimensions"
            " have best tokens that are well separated: take fewer inputs or more dimensions"
        )
    size = LONGEST / norm(rows[kept], 1).amax(-1)
    return Problem(keys[kept] * size[:, None, None, None], scores[kept], queries[kept])


def _checked(problem):
    checks.problem(problem)
    if problem.queries is None or len(problem.batch_shape) != 1 or problem.keys.dtype != torch.float64:
        raise ValueError(
            f"the problem has batch shape {tuple(problem.batch_shape)} in {problem.keys.dtype}: give one with queries,"
            " one batch dimension, in float64"
        )
    return problem


def _trained(make, problem, steps, factored, one_input, log_risk, norms, until_settled):
    shape = problem.keys.shape[-1], problem.queries.shape[-1]
    best = optimal_tokens(problem)
    rows = difference_rows(problem, best)
    separators = _separators(rows, norms, shape)
    start = LEAD * torch.stack([separator.theta for separator in separators.values()]).mean(0)
    weights = [_parameters(one.view(shape), factored) for one in start]
    optimisers = [_made(make, parts) for parts in weights]
    gradient = _gradient(problem, best, one_input, log_risk)
    kept = {steps // 8, steps // 4, steps // 2, *log_spaced(steps, 10).tolist()}
    thetas, changes, theta = {}, [], _products(weights)
    for k in range(1, steps + 1):
        _step(optimisers, weights, gradient(theta, k - 1), k)
        theta, before = _products(weights), theta
        if not (theta.abs() < HUGE).all():
            raise FloatingPointError(f"the weights diverge at step {k}: take a smaller learning rate")
        changes.append(torch.einsum("bmd,bd->bm", rows, theta - before).abs().amax())
        if k in kept:
            thetas[k] = _evaluated(optimisers, weights)
        if k in (steps // 4, steps // 2, steps):
            if torch.equal(thetas[k // 2], thetas[k]):
                raise FloatingPointError(
                    f"the weights stand still from step {k // 2} on, their gradient is 0: take a smaller learning rate,"
                    " or the log of the risk"
                )
            moved = _measured(problem, separators, norms, torch.stack([thetas[k // 2], thetas[k]]))[0]
            settled = bool(moved.quantile(0.5, -1).diff(dim=0).abs().max() <= SETTLED)
            if settled and until_settled:
                break
    measured = _measured(problem, separators, norms, torch.stack(list(thetas.values())))
    change = torch.stack(changes).quantile(0.95).item()
    return OptimiserMargins(list(thetas), *measured, change, settled, *leading_norm(measured[0][-1], list(norms)))


def _separators(rows, norms, shape):
    separators = {name: hard_margin(rows, order, shape=shape, largest_gap=GAP) for name, order in norms.items()}
    feasible = next(iter(separators.values())).feasible
    if not feasible.all():
        raise ValueError(
            f"no W separates the best tokens of problem {feasible.logical_not().nonzero()[0, 0]}: take fewer inputs, or"
            " more dimensions"
        )
    return separators


def _parameters(matrix, factored):
    """W, or K and Q with K Q^T near W: balanced, with as many more columns, and noise, since what is zero stays it."""
    if not factored:
        return [torch.nn.Parameter(matrix.clone())]
    left, values, right = torch.linalg.svd(matrix, full_matrices=False)
    root = values.sqrt()
    halves = [torch.cat([half * root, half.new_zeros(len(half), max(matrix.shape))], 1) for half in (left, right.mT)]
    return [torch.nn.Parameter(half + NOISE * root.mean() * torch.randn_like(half)) for half in halves]


def _products(weights):
    with torch.no_grad():
        return torch.stack([(parts[0] if len(parts) == 1 else parts[0] @ parts[1].mT).flatten() for parts in weights])


def _made(make, parts):
    """An optimiser of these parameters, in training mode where it has one; ValueError with one sentence if it fails."""
    try:
        optimiser = make(parts)
    except Exception as error:  # of any kind: it is not our code
        raise ValueError(f"the optimiser cannot be made ({_first_line(error)}): change its parameters") from error
    if not isinstance(optimiser, torch.optim.Optimizer):
        raise ValueError(
            f"{checks.shown(optimiser)} is no torch.optim.Optimizer: give a class or function that makes one"
        )
    if hasattr(optimiser, "train"):  # of optimisers that average
        optimiser.train()
    optimiser.first_rates = [group.get("lr", 1.0) for group in optimiser.param_groups]
    return optimiser


def _gradient(problem, best, one_input, log_risk):
    """Gradient of the objective as a function of vec(W) of all problems, and of the step."""
    like = problem.keys.new_zeros(*problem.batch_shape, problem.parameter_size)
    excess, inputs = excess_near(problem, logistic, like, best), problem.scores.shape[-2]
    parts = [problem]
    if one_input:
        cut = {name: getattr(problem, name) for name in ("keys", "scores", "queries")}
        parts = [replace(problem, **{name: x[:, i : i + 1] for name, x in cut.items()}) for i in range(inputs)]
    slopes, order = [gradient_near(part, logistic, like) for part in parts], []

    def at(theta, k):
        if k % len(parts) == 0:
            order[:] = torch.randperm(len(parts)).tolist() if one_input else [0]
        direction, log_scale = slopes[order[k % len(parts)]](theta)
        if log_risk:
            log_scale = log_scale - excess(theta).log_scale
        return log_scale.exp()[..., None] * direction

    return at


def _step(optimisers, weights, slopes, k):
    """Give each optimiser its gradient and take its step; ValueError with one sentence if it cannot."""
    for optimiser, parts, slope in zip(optimisers, weights, slopes, strict=True):
        if len(parts) == 1:
            parts[0].grad = slope.view_as(parts[0]).clone()
        else:
            (keys, queries), slope = parts, slope.view(len(parts[0]), len(parts[1]))
            keys.grad, queries.grad = slope @ queries.detach(), slope.mT @ keys.detach()
            for group, rate in zip(optimiser.param_groups, optimiser.first_rates, strict=True):
                group["lr"] = rate * k**-0.5
        try:
            optimiser.step()
        except Exception as error:  # of any kind: it is not our code
            raise ValueError(
                f"{type(optimiser).__name__} fails at step {k} ({_first_line(error)}): it has to take steps from .grad"
                " alone, without a closure and second derivatives"
            ) from error
        if k == 1 and any(torch.is_complex(x) for s in optimiser.state.values() for x in s.values() if _is_tensor(x)):
            raise ValueError(f"{type(optimiser).__name__} has complex states: the weights here are real")


def _is_tensor(value):
    return isinstance(value, Tensor)


def _first_line(error):
    return (str(error).splitlines() or [type(error).__name__])[0][:200]


def _evaluated(optimisers, weights):
    """vec(W) of all problems, with averaged weights where the optimiser averages."""
    for optimiser in optimisers:
        if hasattr(optimiser, "eval"):
            optimiser.eval()
    theta = _products(weights)
    for optimiser in optimisers:
        if hasattr(optimiser, "train"):
            optimiser.train()
    return theta


def _measured(problem, separators, norms, thetas):
    """Shares, gaps and leads of some W, for the tokens that the last one selects, and these."""
    shape = problem.keys.shape[-1], problem.queries.shape[-1]
    selected = selected_tokens(problem, thetas[-1])
    rows = difference_rows(problem, selected)
    if not torch.equal(selected, optimal_tokens(problem)):
        try:
            separators = _separators(rows, norms, shape)
        except (ValueError, RuntimeError):
            raise FloatingPointError(
                "the weights select no tokens, or only to rounding: take a smaller learning rate"
            ) from None
    leads = torch.einsum("bmd,rbd->rbm", rows, thetas).amin(-1)
    least = torch.stack([norm(separators[name].theta, order, shape) for name, order in norms.items()])
    sizes = torch.stack([norm(thetas, order, shape) for order in norms.values()], 1)
    return least * leads[:, None] / sizes, torch.stack([separators[name].gap for name in norms]), leads, selected


def leading_norm(shares, names):
    """The norm of these shares (norms, problems) that is maximised or leant to, None without one; whether maximised."""
    medians = shares.quantile(0.5, -1)
    place = medians.argmax()
    if medians[place] < LEANT or (shares.argmax(0) == place).double().mean() < FIRST:
        return None, False
    return names[place], bool(medians[place] >= MAXIMISED)
