"""The command ``attention-selects check FILE``: what holds for a problem of one's own, and where training it ends."""

import html
import json
from pathlib import Path

from . import claim_runs, claims
from ._lib import LOSSES
from .optimiser_command import optimiser_maker, parsed
from .page import STYLE

HELP = f"""FILE is an npz or safetensors with {claims.EXPECTED}. keys: tokens as the logits see them. scores: the margin
when all attention is on a token; or labels, +1 or -1, and head, a vector: scores are label times head times key (or
tokens, (n, T, c)). queries: W is trained, logits are key times W times query; without queries p is trained. start: p,
or W, zero if left out. OPTIMIZER is the full name of a class that can be imported here, or one of
{", ".join(claim_runs.STEEPEST)}: steepest descent in l_2, l_inf, l_1 or the spectral norm, with lr alone."""
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><title>{name}: checked</title>
<style>{style}</style><h1>{name}, checked</h1>{body}</html>
"""
HOLDS = {True: "holds", False: "fails", None: "open"}
STABLE = (
    "Descent can stay at each of these, where better tokens lag by more than 1. It leaves all others unless it stops at"
)
STABLE += " a finite point: measured in the chapter From any start, proved for two inputs of two tokens."
KNOWN_AS = "Names are those of the page Which theorem applies to me?, which-theorem.html in the book: #needs-NAME."


def add_parser(commands):
    """Add the command to the parsers of all commands."""
    parser = commands.add_parser("check", help="say what holds for a problem, and where training it ends",
                                 description=HELP)  # fmt: skip
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--optimizer", nargs="+", metavar=("NAME", "PARAMETER=VALUE"), help="trained with, too")
    parser.add_argument("--loss", default="logistic", choices=[*LOSSES], help="of the runs (logistic)")
    parser.add_argument("--steps", type=int, default=8000, help="of the optimizer (8000)")
    parser.add_argument("--out", default="check.html", help="the page (check.html)")
    parser.add_argument("--json", help="the same as JSON (beside the page)")
    parser.set_defaults(write=write)


def write(options):
    """Check the problem, print the answer, and write page and JSON."""
    out = Path(options.out)
    beside = Path(options.json) if options.json else out.with_suffix(".json")
    for path in (out, beside):
        if not path.parent.is_dir():
            raise ValueError(f"{path.parent} is no folder here: make it, or give another place")
    answer = check(claims.read_claim(options.file), options.loss, options.optimizer, options.steps)
    print("\n".join(line for title, lines in sections(answer) for line in (title, *(f"  {x}" for x in lines), "")))
    out.write_text(page(Path(options.file).name, answer), "utf-8")
    beside.write_text(json.dumps({"file": str(options.file)} | answer, allow_nan=False), "utf-8")
    print(f"{out} and {beside} are written")


def check(claim, loss="logistic", optimizer=None, steps=8000):
    """Facts of a :class:`heads.claims.Claim`, as JSON takes them: hypotheses, stable selections, runs, predictions."""
    trained = _trained(claim, loss, optimizer, steps)  # first: it refuses in a moment what cannot be trained
    choices = claims.stable_selections(claim.problem)
    facts = claims.hypotheses(claim, choices)
    flows = claim_runs.flows(claim, loss, choices)
    stable = None
    if choices is not None:
        lags = [lag if lag < float("inf") else None for lag in choices[1].tolist()]
        stable = [{"tokens": tokens, "lag": lag} for tokens, lag in zip(choices[0].tolist(), lags, strict=True)]
    return {
        "problem": _size(claim), "loss": loss,
        "hypotheses": {name: {"holds": fact.holds, "why": fact.why} for name, fact in facts.items()},
        "stable": stable, "runs": [_answered(claim, loss, facts, run) for run in (*flows, *trained)],
        "losses": claim_runs.other_losses(claim, loss, flows[0].thetas[-1]),
    }  # fmt: skip


def _trained(claim, loss, optimizer, steps):
    """Runs of the optimiser, none without one."""
    if not optimizer:
        return []
    name, given = optimizer[0], parsed(optimizer[1:])
    if name in claim_runs.STEEPEST:
        return [claim_runs.descent(claim.problem, loss, claim.start, name, given, steps)]
    called = name + "".join(f", {key}={value}" for key, value in given.items())
    return claim_runs.optimised(claim, loss, called, optimiser_maker(name, given), steps)


def _size(claim):
    inputs, tokens, width = claim.problem.keys.shape
    trained = "p is trained" if claim.problem.queries is None else "W is trained"
    return f"{inputs} inputs of {tokens} tokens, keys of {width} entries; {trained}"


def _answered(claim, loss, facts, run):
    """Where a run ends, what predicted it, and where 32 bits are enough."""
    end = claim_runs.ending(claim.problem, run)
    end |= {"step": run.step, "float32": claim_runs.single_precision(claim.problem, loss, run), "statements": []}
    far = "towards" in run.name  # such a run has another start than the file
    for name, about in claims.predictions(facts, run.step, run.log_risk).items():
        statement = claims.STATEMENTS[name]
        if (far and statement.tokens == "start") or any(need in claims.STEPS for need in about["lacks"]):
            continue
        says = statement.says.format(norm=run.norm)
        known = {"name": name, "says": says, "chapter": statement.chapter} | about
        known["agrees"] = None if about["lacks"] else _agrees(claim, statement, run, end)
        end["statements"].append(known)
    return end


def _agrees(claim, statement, run, end):
    """Whether a run ends as a statement says; None where the statement does not say, or the run is on its way."""
    wanted = {"best": end["best"], "start": end["selected"] == _favoured(claim), None: True}[statement.tokens]
    order = run.norm if statement.norm == "own" else statement.norm
    if not wanted:
        return False if run.step == "flow" else None
    if order is None or order not in end["norms"]:
        return True if statement.tokens else None
    if end["norms"][order]["share"] >= claim_runs.optimisers.MAXIMISED:
        return True
    return False if run.step == "flow" else None


def _favoured(claim):
    return claim.problem.logits(claim.start).argmax(-1).tolist()


def sections(answer):
    """Titles and lines of the answer, in words."""
    yield f"{answer['problem']}, {answer['loss']} loss", [*map(_short, answer["runs"]), _losses(answer)]
    facts = answer["hypotheses"].items()
    yield "Hypotheses", [f"{HOLDS[fact['holds']]:<6} {name}: {fact['why']}" for name, fact in facts] + [KNOWN_AS]
    if answer["stable"] is not None:
        lines = [f"{one['tokens']}" + _lag(one["lag"]) for one in answer["stable"]]
        yield "Stable selections of tokens", [*lines, STABLE]
    for run in answer["runs"]:
        yield _name(run), [*_ends(run), *_predicted(run), *_rounded(run)]
    yield "The same flow with another loss", list(map(_other_loss, answer["losses"]))


def _name(run):
    return run["name"].replace("gradient flow", "Gradient flow", 1)


def _short(run):
    """A run in a line: where it ends, and who said so."""
    agree = [one["name"] for one in run["statements"] if one["agrees"]]
    open_ = [one["name"] for one in run["statements"] if not one["lacks"] and one["agrees"] is None]
    said = f"predicted by {', '.join(agree)}" if agree else "predicted by no statement of the book"
    said = said if agree or not open_ else f"applicable, see below: {', '.join(open_)}"
    which = "the best tokens" if run["best"] else "not the best tokens"
    where = f"selects {run['selected']}, {which}, and {_norms(run)}" if run["norms"] else "selects nothing"
    return f"{_name(run)} {where}; {said}."


def _norms(run):
    """Which margins a run maximises or leans to, without a subject."""
    names = run["maximises"] or run["leans"]
    if not names:
        return "maximises none of these margins"
    verb = "maximises" if run["maximises"] else "leans to"
    said = f"{verb} the margin in {' or '.join(names)} ({run['norms'][names[0]]['share']:.1%} of the best)"
    return said + (", which this problem does not tell apart: take another problem" if len(names) > 1 else "")


def _losses(answer):
    """Whether the loss matters to where the first flow ends."""
    names = " and ".join(end["loss"] for end in answer["losses"])
    if any(end["selected"] != answer["runs"][0]["selected"] for end in answer["losses"]):
        return f"With {names} loss the first flow does not end at the same tokens: see the last lines."
    apart = max(end["degrees"] or 0.0 for end in answer["losses"])
    return f"With {names} loss the first flow ends at the same tokens, {apart:.1g} degrees away at most."


def _other_loss(end):
    apart = "" if end["degrees"] is None else f", {end['degrees']:.2g} degrees from the end above"
    return f"{end['loss']} loss: most attention on {end['selected']}{apart}."


def _lag(lag):
    return ", no token scores higher" if lag is None else f", a better token has a lag of {lag:.3g}"


def _ends(run):
    """Tokens and direction of a run, in a few sentences."""
    which = "the best tokens" if run["best"] else "not the best tokens"
    time = f"at log t = {run['until']:,.0f}" if run["unit"] == "log t" else f"after {run['until']:,.0f} steps"
    if not run["norms"]:
        said = (
            "it rests at this finite point"
            if run["rests"]
            else "no direction separates these tokens, or it is on its way"
        )
        yield (
            f"Selects nothing {time}: most attention on {run['selected']}, {run['attention']:.3g} or more of an input,"
            f" length {run['length']:.4g}; {said}."
        )
        return
    yield (
        f"Selects {run['selected']}, {which}, {time}: least lead {run['lead']:.4g}, least attention"
        f" {run['attention']:.4g}, length {run['length']:.4g}."
    )
    if run["stopped"]:
        yield f"It could be followed no further: {run['stopped']}."
    for name, end in run["norms"].items():
        yield (
            f"{name:<9} {end['share']:7.2%} of the best margin, {end['degrees']:.3g} degrees from the separator found"
            f" (length {end['length']:.4g}, gap {end['gap']:.0e})"
        )
    yield _norms(run)[0].upper() + _norms(run)[1:] + "."
    if run["moved"] > claim_runs.optimisers.SETTLED:
        yield f"Not settled: since half of the time a share moved by {run['moved']:.2g}; take more --steps."


def _predicted(run):
    """What the statements said of a run."""
    yield f"On that page it counts as: {claims.RULES[run['step']]}."
    true = [one for one in run["statements"] if not one["lacks"]]
    for one in true:
        known = {True: "and so it ends", False: "BUT IT DOES NOT", None: "which these steps neither show nor refute"}
        if claims.STATEMENTS[one["name"]][2:4] == (None, None):
            known[None] = "compare it with the shares above"
        said = f" if {', '.join(one['open'])}, which is open" if one["open"] else ""
        yield f"{one['name']} ({one['chapter']}) predicts {one['says']}{said}: {known[one['agrees']]}."
    if not true:
        yield "No statement of the book predicts where it ends."
    for one in run["statements"]:
        if one["lacks"]:
            yield f"{one['name']} does not apply: {', '.join(one['lacks'])}."


def _rounded(run):
    """Where 32 bits are enough for the textbook gradient, by automatic differentiation."""
    for name, said in (("predicted", "By the formula of the chapter on rounding"), ("measured", "Measured")):
        first = run["float32"][name]
        if first:
            at = f"log t = {first['time']:.3g}" if run["unit"] == "log t" else f"step {first['time']:,.0f}"
            yield f"{said}, the gradient in float32 is no longer right from {at} on, length {first['length']:.3g}."
    if not any(run["float32"].values()):
        yield "Float32 is enough for this run."


def page(name, answer):
    """The answer as a page that needs no script and no other file."""
    body = ""
    for title, lines in sections(answer):
        rows = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        body += f"<h2>{html.escape(title)}</h2>" + (f"<ul>{rows}</ul>" if rows else "")
    return PAGE.format(name=html.escape(name), style=STYLE, body=body)
