"""Compare a model with itself after fine-tuning, pruning or quantising: which choices turned, and what was forecast."""

import json
from pathlib import Path

import torch

from . import sources
from ._lib import checks
from .choices import sides
from .report import asking, head_facts, real_tokens, run_rows
from .rounding import lead_probability, lead_variances, some_asks
from .turns import find_turns


def write(options):
    """Print the table of heads that turned most, and write all of it as JSON."""
    table = compare(options)
    Path(options.out).write_text(json.dumps(table, allow_nan=False), "utf-8")
    total = sum(row["turned"] for row in table) / len(table)
    print(
        f"{total:.1%} of all choices turned. The heads in which most did, with the forecast from their weights alone:"
    )
    for row in sorted(table, key=lambda row: -row["turned"])[:10]:
        told = "no forecast" if row["forecast"] is None else f"forecast {row['forecast']:.1%}"
        print(f"{row['layer']}, head {row['head']}: {row['turned']:.1%} ({told})")
    if any(row["forecast"] is None for row in table):
        print("No forecast: queries and keys were not seen to be linear maps of what a layer receives.")
    print(f"{options.out} is written: {len(table)} heads")


def compare(options):
    """Table of heads: the share of choices that turned, the forecast, and the first inputs and tokens that turned.

    The forecast takes the difference of a head's own matrices for noise of its size, row by row, and its inputs as they
    are: what earlier layers changed is not in it. ``options`` have ``model``, ``other``, ``data``, ``inputs``,
    ``tokens`` and ``query``.
    """
    checks.integer("inputs", options.inputs)
    if recorded := [name for name in (options.model, options.other) if name == "arrays"]:
        raise ValueError(f"{recorded[0]} cannot be compared: give two models that run")
    with sources.opened(options) as first, sources.opened(options, options.other) as second:
        second = second._replace(inputs=first.inputs, words=first.words, special=first.special)
        before, _, _ = head_facts(first, options.query, tell=lambda line: None)
        after, _, _ = head_facts(second, options.query, tell=lambda line: None)
        now = {(head["layer"], head["head"]): head for head in after}
        if {*now} != {(head["layer"], head["head"]) for head in before}:
            raise ValueError(
                f"{options.other} has other heads than {options.model}: compare a model with itself, changed"
            )
        forecasts = _forecasts(first, second, options.query)
    return [_row(head, now[head["layer"], head["head"]], forecasts, first.words) for head in before]


def _row(old, new, forecasts, words):
    turned = [k for k, (a, b) in enumerate(zip(old["selects"], new["selects"], strict=True)) if a != b]
    told = forecasts.get(old["layer"])
    row = {"layer": old["layer"], "head": old["head"], "turned": len(turned) / old["choices"]}
    row["forecast"] = None if told is None else told[old["head"]]
    keys = ("input", "place", "selects")
    row["first"] = [{key: old[key][k] for key in keys} | {"then": new["selects"][k]} for k in turned[:8]]
    return row


def _forecasts(first, second, query):
    """Mean probability that a choice turns, by layer a list of heads; none of layers without matrices."""
    turns = find_turns(first.model, lambda: first.run(first.rows([0])))
    others = dict(second.model.named_modules())
    names = {module: name for name, module in first.model.named_modules()}
    rows, found = torch.arange(first.count), {}

    def receive(call):
        real = real_tokens(call, first.inputs, rows)
        pair = sides(call, turns.get(call.name), real)
        asks = some_asks(call, asking(real[0], query, first.words), rows)
        if None in pair or not asks.any():
            return
        noise = []
        for side in pair:
            other = side.turn._replace(module=others[names[side.turn.module]])
            noise.append((other.matrix()[0] - side.turn.matrix()[0]).square().mean(-1).sqrt())
        told = []
        for i, at in ((i, where.nonzero().flatten()) for i, where in enumerate(asks) if where.any()):
            variances = sum(lead_variances(call, i, at, *pair, *noise))
            spreads = call.scale * variances.clamp(min=0).sqrt()
            told.append(lead_probability(call.logits[i][:, at].double(), spreads))
        found[call.name] = torch.cat(told, -1).mean(-1).tolist()

    with torch.inference_mode():
        run_rows(first, rows, receive)
    return found
