"""Find which norm of the margin an optimiser of PyTorch maximises, on small attention problems that can be solved.

Each problem has inputs whose best tokens a matrix W separates. The optimiser trains W, or keys and queries, from a
start that selects the best tokens already, and its margin is compared with the largest one in each norm, which a
separator with a certificate gives.
"""

import math
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from . import training
from ._lib import Problem, checks, difference_rows, dual, hard_margin, log_spaced, norm, optimal_tokens, selected_tokens

NORMS = {"l_1": 1, "l_2": 2.0, "l_inf": math.inf, "spectral": "spectral", "nuclear": "nuclear", "sign": "signs"}
LONGEST = 100.0  # l_1 norm of the longest difference row: a step of .001 in each entry moves no margin by more than .1
CLEAR = 20.0  # length of the separators of a problem, in units of its longest row, above which it is left out
LEAD = 6.0  # smallest margin at the start
GAP = 1e-6  # relative, of a separator
SHORT = 0.5  # change of a margin in a step, beyond which steps are long
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
        The norm with the largest median share, if that is .9 or more, the largest on three quarters of the problems,
        and at most half as far from 1 as at the first record.
    maximised : bool
        That share is .95 or more.
    wrong : int
        Problems in which W ends on other tokens than the best ones: its margins are of these.
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
    wrong: int


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
    problem, norms = clear_problems(6) if problem is None else problem, norms or NORMS
    checks.problem(problem)
    if problem.queries is None or len(problem.batch_shape) != 1 or problem.keys.dtype != torch.float64:
        raise ValueError(
            f"the problem has batch shape {tuple(problem.batch_shape)} in {problem.keys.dtype}: give one with queries,"
            " one batch dimension, in float64"
        )
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


def _trained(make, problem, steps, factored, one_input, log_risk, norms, until_settled):
    shape = problem.keys.shape[-1], problem.queries.shape[-1]
    best = optimal_tokens(problem)
    rows = difference_rows(problem, best)
    separators = _separators(rows, norms, shape)
    start = LEAD * torch.stack([separator.theta for separator in separators.values()]).mean(0)
    weights = [training.parameters_near(one.view(shape), factored) for one in start]
    optimisers = [training.made(make, parts) for parts in weights]
    gradient = training.gradient_of(problem, best, one_input, log_risk)
    kept = {steps // 8, steps // 4, steps // 2, *log_spaced(steps, 10).tolist()}
    thetas, changes, theta = {}, [], training.products(weights)
    for k in range(1, steps + 1):
        training.take_step(optimisers, weights, gradient(theta, k - 1), k)
        theta, before = training.products(weights), theta
        if not (theta.abs() < training.HUGE).all():
            raise FloatingPointError(
                f"the weights diverge at step {k}: take a smaller learning rate, or see if the optimizer divides by 0"
            )
        changes.append(torch.einsum("bmd,bd->bm", rows, theta - before).abs().amax())
        if k in kept:
            thetas[k] = training.evaluated(optimisers, weights)
        if k in (steps // 4, steps // 2, steps):
            if not max(changes):
                raise FloatingPointError("the weights never move: take a larger learning rate")
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
    wrong = int((measured[-1] != best).any(-1).sum())
    leading = leading_norm(measured[0][-1], list(norms), measured[0][0])
    return OptimiserMargins(list(thetas), *measured, change, settled, *leading, wrong)


def _separators(rows, norms, shape):
    separators = {name: hard_margin(rows, order, shape=shape, largest_gap=GAP) for name, order in norms.items()}
    feasible = next(iter(separators.values())).feasible
    if not feasible.all():
        raise ValueError(
            f"no W separates the best tokens of problem {feasible.logical_not().nonzero()[0, 0]}: take fewer inputs, or"
            " more dimensions"
        )
    return separators


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


def leading_norm(shares, names, first=None):
    """The norm of these shares (norms, problems) that is maximised or leant to, None without one; whether maximised.

    With those at ``first``, half of what they lacked must be gained: a start may be near a largest margin.
    """
    medians = shares.quantile(0.5, -1)
    place = medians.argmax()
    if medians[place] < LEANT or (shares.argmax(0) == place).double().mean() < FIRST:
        return None, False
    if first is not None and 2 * (1 - medians[place]) > 1 - first.quantile(0.5, -1)[place]:
        return None, False
    return names[place], bool(medians[place] >= MAXIMISED)
