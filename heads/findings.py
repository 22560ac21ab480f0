"""What a report says first: of data and model, and of what was found, in sentences with their numbers."""

from collections import Counter
from statistics import mean, median

HALF = 0.5  # share of its choices above which a head is said to choose something
KINDS = {
    "itself": "the token itself", "previous": "the token before", "next": "the token after", "first": "the first token",
         "special": "special tokens"}  # fmt: skip
FRAGILE = 10  # heads that are listed as the first to break


def judgement(source, heads, left_out, compared):
    """The first paragraph: sentences on data and model, what is wrong with them first."""
    says = [*source.says]
    alive = [head for head in heads if head["state"] != "dead"]
    for state, said in (("dead", "are dead: their logits are the same for all tokens"),
                        ("even", "attend evenly")):  # fmt: skip
        some = [head for head in heads if head["state"] == state]
        if some:
            says.append(f"{len(some)} of {len(heads)} heads {said} ({_named(some)}).")
    told = [head["words"] for head in alive if head["words"] is not None]
    share = 1 - sum(told) / len(told) if told else 0.0
    if any("special" in head["places"] for head in heads):
        says.append(f"{share:.0%} of all choices are special tokens or the first token of an input.")
    if heads and heads[0]["check"] == "agrees":
        off = max(head["off"] or 0.0 for head in heads)
        says.append(f"Attention from queries and keys is the model's own{f', to {off:.0e}' if off else ''}.")
    if compared and source.calls is None:
        says.append("Inputs that were run alone have the attention that they have in their batch.")
    return [*says, *left_out]


def _named(heads, most=6):
    names = [f"{head['number']}.{head['head']}" for head in heads[:most]]
    return ", ".join(names) + ("" if len(heads) <= most else ", ...")


def findings(heads):
    """What was found, in sentences."""
    alive = [head for head in heads if head["state"] != "dead"]
    if not alive:
        return []
    words = [head for head in alive if (head["words"] or 0) > HALF]
    chosen, not_chosen = "tokens after the first", "not the first token of an input"
    if any("special" in head["places"] for head in heads):
        chosen, not_chosen = "words", "neither special tokens nor the first token of an input"
    says = [f"{len(words)} of {len(heads)} heads choose {chosen}: most of their choices are {not_chosen}. On average a"
            f" choice gets {mean(head['top'] for head in alive):.0%} of its head's attention."]  # fmt: skip
    kinds = Counter(kind for head in alive for kind, share in head["places"].items() if share > HALF)
    if kinds:
        twice = "; a head may count twice" * (len(kinds) > 1)
        each = (f"{count} choose {KINDS[kind]}" for kind, count in kinds.most_common())
        says.append(f"In more than half of their choices, {', '.join(each)}{twice}.")
    near = [head for head in alive if head["flip"]["query"] is not None]
    if near:
        layers = {}
        for head in near:
            layers.setdefault(head["number"], []).append(head["flip"]["query"])
        turns = min(layers, key=lambda number: median(layers[number]))
        first = sorted(near, key=lambda head: head["flip"]["query"])[:3]
        says.append(
            f"Layer {turns} turns first: for half of the choices of its median head a change of the query by"
            f" {median(layers[turns]):.1%} of its length is enough. The nearest heads (layer.head): {_named(first)}."
        )
    return [*says, *_bits(alive)]


def _bits(heads):
    """How many bits heads need, and which break first."""
    some = [head for head in heads if "bits" in head]
    if not some:
        return
    least, most = (end(int(b) for b in some[0]["bits"]["forecast"]) for end in (min, max))
    needs = [head["bits"]["needed"] or most + 1 for head in some]
    half = f"Half of {len(some)} heads need {median(needs):g} bits or more,"
    if median(needs) <= least:
        half = f"For more than half of {len(some)} heads {least} bits, the fewest that were asked for, are enough"
    yield (
        f"{half} for 95 % of their choices to stay when their queries and keys are rounded; the most that one needs is"
        f" {_of_bits(max(needs), most)}."
    )
    first = sorted(some, key=lambda head: -_at(head["bits"]["forecast"], 4))[:FRAGILE]
    yield f"The first heads to break, as layer.head: {_named(first, FRAGILE)}."
    counted = {b: sum(_at(head["bits"]["counted"], b) for head in some) for b in some[0]["bits"]["counted"]}
    told = {b: sum(_at(head["bits"]["forecast"], b) for head in some) for b in counted}
    ratios = [told[b] / counted[b] for b in counted if counted[b]]
    if ratios:
        apart = ((abs(head["bits"]["forecast"][b] - head["bits"]["counted"][b]), b) for head in some for b in counted)
        off, where = max(apart)
        yield (
            f"Over all heads, forecast flips are {min(ratios):.2f} to {max(ratios):.2f} times those counted, by number"
            f" of bits; in single heads the two differ by up to {off:.0%} of the choices, at {where} bits."
        )
    alike = [head for head in some if head["bits"]["queries"] < HALF * head["bits"]["choices"]]
    if alike:
        yield (
            f"In {len(alike)} heads inputs share their queries ({alike[0]['bits']['queries']} different ones of"
            f" {alike[0]['bits']['choices']}), and flip together ({_named(alike)})."
        )


def _at(shares, bits):
    """The share at a number of bits, or at the nearest that there is."""
    return shares[min(shares, key=lambda b: abs(int(b) - int(bits)))]


def _of_bits(bits, most):
    return f"{bits}" if bits <= most else f"more than {most}"
