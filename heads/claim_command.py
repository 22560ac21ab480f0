"""The command ``attention-selects check FILE``: what a problem of one's own can select, and where training ends."""

import json
from pathlib import Path

from . import claim_runs, claims, optimisers
from ._lib import LOSSES, optimal_tokens
from .optimiser_command import optimiser_maker, parsed

HELP = f"""FILE is an npz or safetensors with {claims.EXPECTED},
of {claims.MOST_TOKENS} tokens in all at most. keys: tokens as the logits see them. scores: the margin when all
attention is on a token. queries: W is trained, logits are key times W times query; without queries p is trained.
start: p (d,) or W (d, e), zero if left out. OPTIMIZER is the full name of a class that can be imported."""
STABLE = """Descent can stay at each of these, where better tokens lag by more than 1: a lag is how far a logit is \
behind the selected one's along the shortest direction that puts all tokens that score lower at least 1 behind. It \
leaves all others unless it stops at a finite point: measured in the book's chapter From any start, proved for two \
inputs of two tokens."""
SOME = f"Flows start from the first {claim_runs.TRIED} that are not the best tokens, the others are not run."
TOO_MANY = f"There are more than {claims.MOST_CHOICES} selections: too many to try."
NONE_STABLE = """There is none, as in none of them better tokens lag by more than 1: descent leaves every selection \
unless it stops at a finite point."""


def add_parser(commands):
    """Add the command to the parsers of all commands."""
    parser = commands.add_parser("check", help="say what can be selected in a problem, and where training it ends",
                                 description=HELP)  # fmt: skip
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--optimizer", nargs="+", metavar=("NAME", "PARAMETER=VALUE"), help="trained with, too")
    parser.add_argument("--loss", default="logistic", choices=[*LOSSES], help="of the runs (logistic)")
    parser.add_argument("--steps", type=int, default=8000, help="of the optimizer (8000)")
    parser.add_argument("--out", default="check.json", help="every number as JSON (check.json)")
    parser.set_defaults(write=write)


def write(options):
    """Check the problem, print the answer, and write JSON."""
    answer = check(claims.read_claim(options.file), options.loss, options.optimizer, options.steps)
    Path(options.out).write_text(json.dumps({"file": str(options.file)} | answer, allow_nan=False), "utf-8")
    print("\n".join(line for title, lines in sections(answer) for line in (title, *(f"  {x}" for x in lines), "")))
    print(f"{options.out} is written")


def check(claim, loss="logistic", optimizer=None, steps=8000):
    """Facts of a :class:`heads.claims.Claim`, as JSON takes them: best tokens, stable selections, runs."""
    trained = _trained(claim, loss, optimizer, steps)  # first: it refuses in a moment what cannot be trained
    choices = claims.stable_selections(claim.problem)
    chosen, lags = choices or (None, None)
    feasible, why = claims.separable(claim.problem)
    runs = [*claim_runs.flows(claim, loss, chosen), *trained]
    inputs, tokens, width = claim.problem.keys.shape
    letter = "p" if claim.problem.queries is None else "W"
    return {
        "problem": f"{inputs} inputs of {tokens} tokens, keys of {width} entries; {letter} is trained", "loss": loss,
        "best": {"tokens": optimal_tokens(claim.problem).tolist(), "separable": feasible, "why": why},
        "stable": None if chosen is None else [
            {"tokens": tokens, "lag": lag if lag < float("inf") else None}
            for tokens, lag in zip(chosen.tolist(), lags.tolist(), strict=True)
        ],
        "runs": [claim_runs.ending(claim.problem, run) for run in runs],
    }  # fmt: skip


def _trained(claim, loss, optimizer, steps):
    """Runs of the optimiser, none without one."""
    if not optimizer:
        return []
    name, given = optimizer[0], parsed(optimizer[1:])
    make, called = optimiser_maker(name, given), name + "".join(f", {key}={value}" for key, value in given.items())
    return [claim_runs.trained(claim, loss, called, make, steps, log_risk) for log_risk in (False, True)]


def sections(answer):
    """Titles and lines of the answer, in words."""
    yield f"{answer['problem']}, {answer['loss']} loss", [_short(run) for run in answer["runs"]]
    yield f"Best tokens {answer['best']['tokens']}", [answer["best"]["why"]]
    stable = answer["stable"]
    lags = ["no token scores higher" if one["lag"] is None else f"a better token has a lag of {one['lag']:.3g}"
            for one in stable or ()]  # fmt: skip
    lines = [f"{one['tokens']}, {lag}" for one, lag in zip(stable or (), lags, strict=True)]
    about = STABLE if lines else TOO_MANY if stable is None else NONE_STABLE
    others = [one for one in stable or () if one["tokens"] != answer["best"]["tokens"]]
    yield "Stable selections of tokens", [*lines, about, *[SOME] * (len(others) > claim_runs.TRIED)]
    for run in answer["runs"]:
        yield run["name"], [*_ends(run)]


def _short(run):
    """A run in a line: what it selects and maximises, or why it selects nothing."""
    if run["norms"]:
        which = "the best tokens" if run["best"] else "not the best tokens"
        doubt = "" if _moved(run) <= optimisers.SETTLED else ": so far, for it has not settled"
        return f"{run['name']} selects {run['selected']}, {which}, and {_norms(run)}{doubt}."
    where = "selects nothing, for no direction separates its tokens or it is on its way"
    if run["rests"]:
        where = f"comes to rest at a finite point, of length {run['length']:.4g}, and selects nothing"
    elif run["stopped"]:
        where = f"could not be followed beyond log t = {run['until']:.0f}"
    elif run["still"]:
        where = f"stands still at log t = {run['until']:.0f}: it rests at a finite point, or waits for longer than that"
    return f"{run['name']} {where}; most attention is on {run['selected']}, {run['attention']:.3g} or more."


def _norms(run):
    """Which margins a run maximises, without a subject."""
    if not run["turned"]:
        return "has moved too little to tell: its direction is still that of the start"
    if not (names := run["maximises"]):
        return "maximises none of these margins"
    said = f"maximises the margin in {' or '.join(names)} ({run['norms'][names[0]]['share']:.1%} of the best)"
    return said + (", which this problem does not tell apart: take another problem" if len(names) > 1 else "")


def _ends(run):
    """Leads and margins of a run, and what is to be doubted of them."""
    yield (
        f"At {run['unit']} {run['until']:,.0f}: least lead {run['lead']:.4g}, least attention {run['attention']:.4g},"
        f" length {run['length']:.4g}. {run['stopped']}"
    )
    for name, end in run["norms"].items():
        yield (
            f"{name:<9} {end['share']:7.2%} of the best margin, {end['degrees']:.3g} degrees from the separator found"
            f" (length {end['length']:.4g}, gap {end['gap']:.0e})"
        )
    if run["change"] is not None and run["change"] > optimisers.SHORT:
        yield f"Its steps are long: 95 % of them change a margin by up to {run['change']:.2g}; take a smaller lr."
    if (moved := _moved(run)) > optimisers.SETTLED:
        remedy = "; take more --steps, or a smaller lr" if run["change"] is not None else ""
        yield f"Not settled: since half of the time a share moved by {moved:.2g}{remedy}."


def _moved(run):
    """The largest change of a share since half of the time."""
    return max((abs(end["share"] - end["before"]) for end in run["norms"].values()), default=0.0)
