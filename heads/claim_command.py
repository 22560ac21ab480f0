"""The command ``attention-selects check FILE``: what holds for a problem of one's own, and where training it ends."""

import html
import json
from functools import partial
from pathlib import Path

from . import claim_ends, claim_files, claim_runs, claims, optimisers
from ._lib import LOSSES
from .claim_words import sections
from .optimiser_command import optimiser_maker, parsed
from .page import STYLE

HELP = f"""FILE is an npz or safetensors with {claim_files.EXPECTED}. keys: tokens as the logits see them. scores: the
margin when all attention is on a token; or labels, +1 or -1, and head, a vector: scores are label times head times key
(or tokens, (n, T, c)). queries: W is trained, logits are key times W times query; without queries p is trained. start:
p, or W, zero if left out. OPTIMIZER is the full name of a class that can be imported here, or one of
{", ".join(claim_runs.STEEPEST)}: steepest descent in l_2, l_inf, l_1 or the spectral norm, with lr alone."""
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><title>{name}: checked</title>
<style>{style}</style><h1>{name}, checked</h1>{body}</html>
"""


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
    answer = check(claim_files.read_claim(options.file), options.loss, options.optimizer, options.steps)
    out.write_text(page(Path(options.file).name, answer), "utf-8")
    beside.write_text(json.dumps({"file": str(options.file)} | answer, allow_nan=False), "utf-8")
    print("\n".join(line for title, lines in sections(answer) for line in (title, *(f"  {x}" for x in lines), "")))
    print(f"{out} and {beside} are written")


def check(claim, loss="logistic", optimizer=None, steps=8000):
    """Facts of a :class:`heads.claim_files.Claim`, as JSON takes them: hypotheses, stable selections, runs."""
    trained = _trained(claim, loss, optimizer, steps)  # first: it refuses in a moment what cannot be trained
    choices = claims.stable_selections(claim.problem)
    facts = claims.hypotheses(claim, choices)
    flows = claim_runs.flows(claim, loss, choices)
    stable = None
    if choices is not None:
        lags = [lag if lag < float("inf") else None for lag in choices[1].tolist()]
        stable = [{"tokens": tokens, "lag": lag} for tokens, lag in zip(choices[0].tolist(), lags, strict=True)]
    return {
        "problem": _size(claim), "loss": loss, "certificate": claims.certificate_tokens(claim.problem),
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
    make = optimiser_maker(name, given)
    called = name + "".join(f", {key}={value}" for key, value in given.items())
    train = partial(claim_runs.trained, claim.problem, loss, claim.start, called, make, steps)
    return [train(log_risk) for log_risk in (False, True)]  # on the risk, and on the log of its excess


def _size(claim):
    inputs, tokens, width = claim.problem.keys.shape
    trained = "p is trained" if claim.problem.queries is None else "W is trained"
    return f"{inputs} inputs of {tokens} tokens, keys of {width} entries; {trained}"


def _answered(claim, loss, facts, run):
    """Where a run ends, what predicted it, and where 32 bits are enough."""
    end = claim_ends.ending(claim.problem, loss, run)
    end |= {"step": run.step, "change": run.change, "statements": []}
    end["float32"] = claim_ends.single_precision(claim.problem, loss, run)
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
    refuted = False if run.step == "flow" and (end["rests"] or not (run.stopped or end["waits"])) else None
    if not end["norms"]:
        return refuted if statement.tokens else None
    order = run.norm if statement.norm == "own" else statement.norm
    if not wanted:
        return refuted
    if order is None or order not in end["norms"]:
        return True if statement.tokens else None
    if not end["turned"]:
        return None
    return True if end["norms"][order]["share"] >= optimisers.MAXIMISED else refuted


def _favoured(claim):
    return claim.problem.logits(claim.start).argmax(-1).tolist()


def page(name, answer):
    """The answer as a page that needs no script and no other file."""
    body = ""
    for title, lines in sections(answer):
        rows = "".join(f"<li>{html.escape(line)}</li>" for line in lines)
        body += f"<h2>{html.escape(title)}</h2>" + (f"<ul>{rows}</ul>" if rows else "")
    return PAGE.format(name=html.escape(name), style=STYLE, body=body)
