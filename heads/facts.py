"""Say of each head what was found while it ran, in numbers and words that JSON takes."""

import math
from collections import Counter

import torch

from ._lib import checks, median
from .choices import DISTANCES, Chosen
from .rounding import rounded
from .watch import EXACT

EVEN, DEAD = 0.98, 1e-6  # mean spread of attention above which a head is even; range of logits up to which it is dead
NEAREST = 8  # choices of a head nearest to a flip that a page lists


def facts_of(source, found, tell):
    """Facts by head, and sentences on layers that are left out."""
    heads, left_out = [], []
    for number, (name, parts) in enumerate(found.parts.items()):
        part, about = _joined(parts), found.about[name]
        bits = rounded(found.bits[name], found.numbers) if found.bits.get(name) else None
        off = torch.stack(about["off"]).amax(0)
        if not part.input.numel():
            left_out.append(f"{name}: no query that is asked for sees two tokens")
            continue
        many = [k for k in range(len(part.selects)) if not off[k] > EXACT]
        if wrong := len(part.selects) - len(many):
            left_out.append(
                f"{name}: {wrong} of {len(part.selects)} heads, whose attention does not follow from queries and keys"
                f" (it differs by up to {off.max():.1g})"
            )
        for head in many:
            checked = "recorded" if source.recorded else "agrees" if off[head] <= EXACT else "assumed"
            facts = {"layer": name, "number": number, "head": head, "check": checked}
            facts |= {"off": _short(off[head]), "why": about["why"], "cross": about["cross"]}
            facts |= _of_head(source, part, head, about)
            facts |= {} if bits is None else {"bits": bits[head]._asdict()}
            heads.append(facts)
        tell(f"{name}: {len(many)} heads" + f", {part.selects.shape[1]:,} choices of each" * bool(many))
    if found.numbers and (without := [name for name in found.parts if not found.bits.get(name)]):
        left_out.append(
            f"No flips by bits are forecast in {checks.join_names(without)}: queries and keys, or the logits, were not"
            " seen to be linear maps of what a layer receives, as where one matrix makes both at once."
        )
    return heads, left_out


def _joined(parts):
    flips = {name: torch.cat([part.flips[name] for part in parts], -1) for name in DISTANCES}
    rest = {key: torch.cat([getattr(p, key) for p in parts], -1) for key in Chosen._fields if key != "flips"}
    return Chosen(**rest, flips=flips)


def _of_head(source, part, head, about):
    selects, share, entropy = part.selects[head], part.share[head], part.entropy[head]
    dead = bool(part.spread[head].max() <= DEAD)
    facts = {"choices": len(selects), "top": share.mean().item(), "entropy": entropy.mean().item()}
    facts["state"] = "dead" if dead else "even" if facts["entropy"] > EVEN else "chooses"
    kinds = {"first": selects == 0}
    words = source.words if about["windows"] == 1 and about["tokens"] <= len((source.words or [[]])[0]) else None
    if source.special is not None and words is not None and not dead:
        kinds["special"] = source.special[part.input, selects]
    if not about["cross"] and part.place.any():  # where the first token asks it is itself
        shifts = {"itself": 0, "previous": -1, "next": 1}
        kinds |= {kind: selects == part.place + shift for kind, shift in shifts.items()}
    facts["places"] = {kind: _mean(where) for kind, where in kinds.items()}
    sink = kinds.get("special", torch.zeros_like(kinds["first"])) | kinds["first"]
    facts["words"] = None if dead else 1 - _mean(sink)
    flips = {name: part.flips[name][head] for name in DISTANCES}
    facts["flip"] = {name: _short(median(x[~x.isnan()])) for name, x in flips.items()}
    facts["flip_least"] = {name: _short(x.nan_to_num(torch.inf).min()) for name, x in flips.items()}
    names = [f"token {k}" for k in selects.tolist()]
    if words is not None:
        names = [words[i][k] for i, k in zip(part.input.tolist(), selects.tolist(), strict=True)]
    facts["texts"] = [list(pair) for pair in Counter(names).most_common(3)]
    near = flips["query"].nan_to_num(torch.inf).argsort()[:NEAREST].tolist()
    facts["nearest"] = [] if dead else [_choice(part, head, k, words) for k in near]
    facts["shown"] = [shown | {"attention": [_short(x) for x in shown["attention"][head]]} for shown in about["shown"]]
    facts |= {"input": part.input.tolist(), "place": part.place.tolist(), "selects": selects.tolist()}
    facts["share"] = [_short(x) for x in share.tolist()]
    facts["flips"] = {name: [_short(x, 3) for x in flips[name].tolist()] for name in ("query",)}
    return facts


def _mean(where):
    return where.double().mean().item()


def _choice(part, head, k, words):
    """One choice of a head, in numbers and words."""
    at, taker, place = (int(x) for x in (part.selects[head, k], part.taker[head, k], part.place[k]))
    numbers = {name: _short(part.flips[name][head, k]) for name in DISTANCES}
    choice = {"input": int(part.input[k]), "asks": place, "selects": at, "taker": taker}
    choice |= {"share": _short(part.share[head, k]), "lead": _short(part.lead[head, k]), "flips": numbers}
    if words is not None:
        row = words[choice["input"]]
        choice |= {f"{key}_word": row[choice[key]] for key in ("asks", "selects", "taker") if choice[key] < len(row)}
    return choice


def _short(number, digits=4):
    """A number for JSON, in some digits; None where it is none."""
    number = float(number)
    return float(f"{number:.{digits}g}") if math.isfinite(number) else None
