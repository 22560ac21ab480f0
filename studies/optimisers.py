"""Runs of many optimisers on small attention problems: which norm of the margin each one maximises.

All of torch.optim and some of pytorch-optimizer 4.1.0, which this study alone needs and which is no dependency of the
book: ``pip install pytorch-optimizer==4.1.0`` before ``make record NAME=optimisers``.

What stood here before the first run of any of them, when the tool had trained only the steepest descents of five norms
and plain gradient descent, both written by hand:

Every optimiser has its defaults, weight decay 0, and one step size: the largest of its default times 10^(j/2), j from
-10 to 8, with which a run of 500 steps on one other problem changes no margin by more than .5, in 95 % of the steps,
and ends at the best tokens. It trains on 6 problems until no median share moves by more than .01 from half of the steps
on, for 8,000 steps at most. It maximises a norm if its median share of the best margin in that norm is .95 or more, and
leans to it from .9 on; either way that share must be the largest of the six norms on three quarters of the problems.
Otherwise it has none of the six. A prediction is right if the norm is the predicted one, maximised or leant to, or if
none was predicted and it has none.

The predictions are in `OPTIMISERS`. Their reason: on the log of the risk the gradient becomes constant. An optimiser
that is then linear in it up to a factor for the whole matrix has l_2; if it makes all entries equally large, l_inf; if
all singular values, spectral. One that mixes rows, columns or entries in another way has none: PAdam takes the square
root of each entry, which is l_3, and MADGRAD the cube root, l_4.

Cut to fit the time while the runs were made: all with gradients of one input a step and on keys and queries, and those
of the package of which there is no record. ``make record`` would make the latter.
"""

import importlib.metadata

import torch

from heads.optimiser_command import optimiser_class, optimiser_maker
from heads.optimisers import NORMS, clear_problems, leading_norm, optimiser_margins
from lib.problem import Problem
from lib.selection import optimal_tokens
from studies.archives import Run, as_lists

SEEDS, EACH, STEPS = (6000, 6001), 3, 8000  # of problems, problems of each, steps at most
TUNING, TRIED, CHANGE = 5000, 500, 0.5  # seed, steps, and largest change of a margin in a step
GRID = [10 ** (j / 2) for j in range(8, -11, -1)]  # of step sizes, times the default
MORE = {"l_3": 3.0, "l_4": 4.0}  # of which the shares are recorded, too; the verdict is on the six of the tool
PACKAGE = "pytorch_optimizer"
OPTIMISERS = {
    "torch.optim": {
        "ASGD": "l_2", "Adadelta": "l_inf", "Adafactor": "none", "Adagrad": "l_inf", "Adam": "l_inf", "AdamW": "l_inf",
        "Adamax": "l_inf", "LBFGS": "refused", "Muon": "spectral", "NAdam": "l_inf", "RAdam": "l_inf",
        "RMSprop": "l_inf", "Rprop": "none", "SGD": "l_2", "SparseAdam": "refused",
    },
    PACKAGE: {
        "ADOPT": "l_inf", "AdEMAMix": "l_inf", "AdaBelief": "none", "AdaBound": "l_2", "AdaMod": "l_inf",
        "AdaMuon": "none", "AdaShift": "l_2", "Adai": "l_2", "Adan": "l_inf", "AggMo": "l_2", "CAME": "none",
        "DAdaptAdam": "l_inf", "DAdaptSGD": "l_2", "Fromage": "l_2", "Grams": "l_inf", "Kron": "spectral",
        "LARS": "l_2", "Lamb": "l_inf", "LaProp": "l_inf", "Lion": "l_inf", "MADGRAD": "none", "MARS": "l_inf",
        "Muon": "spectral", "Nero": "none", "NovoGrad": "l_2", "PAdam": "none", "Prodigy": "l_inf", "QHAdam": "l_inf",
        "Ranger": "none", "SCION": "spectral", "SM3": "none", "SOAP": "spectral", "SPlus": "spectral",
        "ScalableShampoo": "spectral", "ScheduleFreeAdamW": "l_inf", "ScheduleFreeSGD": "l_2", "Shampoo": "spectral",
        "SignSGD": "l_inf", "SophiaH": "refused", "Tiger": "l_inf", "Yogi": "l_inf",
    },
}  # fmt: skip
GROUPED = ("Muon", "AdaMuon")  # of the package: their groups say whether they hold matrices


def plan():
    """All runs, by name: those of the package that torch has as well with a name of their own."""
    runs = {}
    for package, names in OPTIMISERS.items():
        for name in names:
            settings = {"optimiser": f"{package}.{name}", "seeds": [*SEEDS], "steps": STEPS}
            runs[f"{name}-package" if name in runs else name] = Run(settings)
    return runs


def predicted(run):
    """What was predicted of a run, by its settings: a norm, "none" or "refused"."""
    package, _, name = run["optimiser"].rpartition(".")
    return OPTIMISERS[package][name]


def measured(found):
    """What the results of a run say: the norm that is maximised or leant to, "none" or "refused"."""
    return "refused" if "refused" in found else found["norm"] or "none"


def make(study, run, record):
    """Make a run; its settings and its results."""
    torch.set_num_threads(1)
    settings = run.settings
    optimiser_class(settings["optimiser"])  # refuses to make a run where the package is not there
    found = {"torch": torch.__version__}
    if settings["optimiser"].startswith(PACKAGE):
        found[PACKAGE] = importlib.metadata.version(PACKAGE)
    try:
        rate = step_size(settings["optimiser"])
        norms = NORMS | MORE
        problem = together([clear_problems(EACH, seed) for seed in settings["seeds"]])
        margins = optimiser_margins(maker(settings["optimiser"], rate), problem, settings["steps"], norms=norms)
    except (ValueError, FloatingPointError, RuntimeError) as error:
        return settings, found | {"refused": str(error)}
    norm, maximised = leading_norm(margins.shares[-1, : len(NORMS)], list(NORMS))
    best = torch.equal(margins.selected, optimal_tokens(problem))
    numbers = {
        "change": margins.change, "lead": margins.leads[-1].quantile(0.5), "gap": margins.gaps.max(),
        "shares": margins.shares[-1], "medians": margins.shares.quantile(0.5, -1),
    }  # fmt: skip
    found |= {name: as_lists(value, 4) for name, value in numbers.items()}
    found |= {"lr": rate, "best": best, "settled": margins.settled, "times": margins.times}
    return settings, found | {"norm": norm, "maximised": maximised, "norms": list(norms)}


def data_of(run):
    """Files that a run reads: none, its problems are drawn."""
    return {}


def step_size(name):
    """The step size by the rule of this study; the smallest that was tried where none keeps to it."""
    problem = clear_problems(1, TUNING)
    for factor in GRID:
        rate = factor * default_rate(name)
        try:
            tried = optimiser_margins(maker(name, rate), problem, TRIED, norms={"l_2": 2.0}, until_settled=False)
        except (FloatingPointError, RuntimeError):
            continue
        if tried.change <= CHANGE and torch.equal(tried.selected, optimal_tokens(problem)):
            break
    return rate


def maker(name, rate):
    """The optimiser of this name with its defaults, a step size, and no weight decay."""
    parameters = optimiser_class(name)[1]
    options = {"lr": rate} | ({"weight_decay": 0.0} if "weight_decay" in parameters else {})
    make = optimiser_maker(name, options)
    if name in [f"{PACKAGE}.{grouped}" for grouped in GROUPED]:
        return lambda parts: make([{"params": parts, "use_muon": True}])
    return make


def default_rate(name):
    """The step size that an optimiser has by default."""
    return optimiser_class(name)[1]["lr"].default


def together(problems):
    """One batch of problems of several."""
    fields = [torch.cat([getattr(one, field) for one in problems]) for field in ("keys", "scores", "queries")]
    return Problem(*fields)


STUDIES = {"optimisers": plan}
