"""The command ``attention-selects optimizer NAME``: which norm of the margin an optimiser of PyTorch maximises."""

import ast
import importlib
import inspect
import json
from functools import partial
from pathlib import Path

import torch

from . import optimisers
from .optimisers import NORMS, SHORT, clear_problems, optimiser_margins

HELP = """NAME is the full name of a class that can be imported here; its parameters follow it, as in attention-selects
optimizer torch.optim.AdamW lr=1e-3 betas=.9,.95. It trains W on small attention problems whose best tokens can be
separated, scaled so that a step of .001 in each entry changes no margin by more than .1. The norm sign is the least sum
of |c_j| with W = sum_j c_j s_j t_j^T, where s_j and t_j are vectors of signs."""
RUNAWAY = 1e6  # change of a margin by a step from which on training has blown up: the problems need a few hundred
GROWN = 2.0  # times those at the start: where margins are smaller it is too early to say that none is maximised


def add_parser(commands):
    """Add the command to the parsers of all commands."""
    parser = commands.add_parser("optimizer", help="find the norm that an optimizer maximises", description=HELP)
    parser.add_argument("name", metavar="NAME")
    parser.add_argument("parameters", metavar="PARAMETER=VALUE", nargs="*")
    parser.add_argument("--steps", type=int, default=8000, help="at most; fewer where shares settle (8000)")
    parser.add_argument("--problems", type=int, default=6, help="how many (6)")
    parser.add_argument("--inputs", type=int, default=3, help="of each problem (3)")
    parser.add_argument("--seed", type=int, default=0, help="of the problems (0)")
    parser.add_argument("--factors", action="store_true", help="train keys and queries, not W; lr falls like 1/sqrt(k)")
    parser.add_argument("--one-input", action="store_true", help="take the gradient of one input a step, not of all")
    parser.add_argument("--plain-risk", action="store_true", help="descend on the risk, not on the log of its excess")
    parser.add_argument("--out", default="optimizer.json", help="every number as JSON (optimizer.json)")
    parser.set_defaults(write=write)


def write(options):
    """Train, print the shares and what they mean, and write JSON."""
    parameters = parsed(options.parameters)
    make = optimiser_maker(options.name, parameters)
    problem = clear_problems(options.problems, options.seed, options.inputs)
    how = {"factored": options.factors, "one_input": options.one_input, "log_risk": not options.plain_risk}
    try:
        margins = optimiser_margins(make, problem, options.steps, **how, until_settled=not options.plain_risk)
    except (FloatingPointError, RuntimeError) as error:
        raise ValueError(f"{options.name}: {error}") from error
    about = {"optimizer": options.name, "parameters": parameters, "seed": options.seed}
    Path(options.out).write_text(json.dumps(about | how | facts(margins), allow_nan=False), "utf-8")
    print("\n".join([_heading(options, parameters, margins), "", *table(margins), "", *conclusions(margins)]))
    print(f"{options.out} is written")


def optimiser_class(name):
    """Class of an optimiser by its full name, such as torch.optim.AdamW, and its parameters; ValueError without one."""
    package, _, last = name.rpartition(".")
    package = package or "torch.optim"
    if not last:
        raise ValueError(f"{name!r} names no class: give its full name, such as torch.optim.AdamW")
    try:
        kind, lacks = getattr(importlib.import_module(package), last, None), f"{package} has no {last}"
    except ImportError as error:
        kind, lacks = None, f"{package} cannot be imported ({error})"
    if kind is None:
        mine = f"or write yours in mine.py and give mine.{last.rpartition(':')[2]}"
        raise ValueError(f"{lacks}: give the full name of a class, such as torch.optim.AdamW, {mine}")
    if not (isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer)):
        raise ValueError(f"{name} is no class of optimisers: give one, such as torch.optim.AdamW")
    return kind, inspect.signature(kind).parameters


def optimiser_maker(name, options):
    """Function from parameters to an optimiser of this name with these options; ValueError if it does not take one."""
    kind, parameters = optimiser_class(name)
    known = [one for one in parameters if one not in ("params", "kwargs")]
    for option, value in options.items():
        if option not in known:
            raise ValueError(f"{name} has no parameter {option!r}: it has {', '.join(known)}")
        needed = parameters[option].default
        if isinstance(value, str) and (option == "lr" or isinstance(needed, int | float | tuple)):
            raise ValueError(f"{option}={value} is no number: write lr=1e-3 or betas=.9,.95")
        if isinstance(needed, tuple) and (not isinstance(value, tuple) or len(value) != len(needed)):
            raise ValueError(
                f"{option}={value} needs {len(needed)} values: write {option}={','.join(map(str, needed))}"
            )
    return partial(kind, **options)


def parsed(pairs):
    """Parameters by name: what Python reads as a value, else the text itself."""
    parameters = {}
    for pair in pairs:
        name, equals, text = pair.partition("=")
        if not (equals and name.isidentifier()):
            raise ValueError(f"{pair!r} is no parameter: write lr=1e-3 or betas=.9,.95")
        if not text:
            raise ValueError(f"{pair} has no value: write lr=1e-3 or betas=.9,.95")
        if name in parameters:
            raise ValueError(f"{name} is given twice: write it once")
        try:
            parameters[name] = ast.literal_eval(text)
        except (ValueError, SyntaxError):
            parameters[name] = text
    return parameters


def _heading(options, parameters, margins):
    given = "".join(f", {name}={value}" for name, value in parameters.items())
    trained = "keys and queries" if options.factors else "W"
    gradient = f"the gradient of {'one input' if options.one_input else 'all inputs'} a step"
    objective = "the risk" if options.plain_risk else "the log of the excess risk"
    return (
        f"{options.name}{given} trains {trained} on {margins.shares.shape[-1]} problems, with {gradient}, on"
        f" {objective}, for {margins.times[-1]:,} steps."
    )


def table(margins):
    """Lines: for each norm the median and least share, the median after a step, and the largest gap of a separator."""
    rows = [("norm", "share of the best margin", "least", "at first", "gap of the separators")]
    medians, least = margins.shares.quantile(0.5, -1), margins.shares[-1].amin(-1)
    for k, (name, gap) in enumerate(zip(NORMS, margins.gaps, strict=True)):
        shown = [f"{share:.3f}" for share in (medians[-1, k], least[k], medians[0, k])]
        rows.append((name, *shown, f"{gap.abs().max():.0e}"))
    return ["{:<10}{:>24}{:>9}{:>10}{:>24}".format(*row) for row in rows]


def conclusions(margins):
    """Sentences: whether the best tokens are selected, what is maximised, whether shares have settled."""
    best, count = margins.shares[-1].quantile(0.5, -1).max(), margins.shares.shape[-1]
    said = []
    if margins.wrong:
        said = [
            f"It ends on tokens that are not the best ones in {margins.wrong} of {count} problems: it does not descend"
            " on the risk. The margins are those of the tokens it ends on."
        ]
    if margins.norm:
        verb = "maximises" if margins.maximised else "leans to"
        said += [f"It {verb} the {margins.norm} margin: {best:.1%} of the best one, in the median."]
    elif (grown := margins.leads[-1].quantile(0.5).item() / optimisers.LEAD) < GROWN:
        return [*said, f"It has moved too little to tell: the least margins are {grown:.2g} times those of the start,"
                f" in the median; take more --steps, or a larger lr. {_step(margins)}"]  # fmt: skip
    else:
        need = f"{optimisers.LEANT:.0%} in the median and the largest on {optimisers.FIRST:.0%} of the problems"
        said += [f"It maximises none of these norms: no share is {need}, with half of what it lacked at first gained."]
    if margins.settled:
        said += [f"The shares have settled: since half of the steps none moved by more than {optimisers.SETTLED:g}."]
    else:
        said += ["The shares have not settled: take more --steps, or a larger lr if steps are short."]
    return [*said, _step(margins)]


def _step(margins):
    if margins.change > RUNAWAY:
        return (
            f"Its steps change a margin by {margins.change:.2g}: it diverges, or its steps are far too long, and the"
            " shares say nothing of it; take a smaller lr or less momentum."
        )
    long = "; shorter ones may come closer, take a smaller lr" if margins.change > SHORT else ""
    return f"A step changes a margin by {margins.change:.2g} at most, in 95 % of the steps{long}."


def facts(margins):
    """What the JSON holds of the result."""
    lists = {name: getattr(margins, name).tolist() for name in ("shares", "gaps", "leads", "selected")}
    names = ("times", "change", "settled", "norm", "maximised", "wrong")
    return {"norms": list(NORMS)} | lists | {name: getattr(margins, name) for name in names}
