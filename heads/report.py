"""Report on every head of a model that runs: what its queries choose, how firmly, and how many bits that needs.

Layers are measured while they run, one batch at a time, so that memory is that of one layer. Each input alone is the
truth: some are run alone, and a report whose batch differs from them is refused.
"""

import math
from collections import Counter, defaultdict

import torch

from .choices import DISTANCES, Chosen, chosen, sides
from .rounding import head_rounding, some_asks
from .turns import find_turns
from .watch import EXACT, Attention, Refused, watching

ENTRIES = 2**24  # of the attention of a layer in one batch
ALONE = 3  # inputs that are run alone, too
APART = 1e-3  # by which a share of a batch may differ from that of its input alone
EVEN, DEAD = 0.98, 1e-6  # mean spread of attention above which a head is even; range of logits up to which it is dead
HALF = 0.5  # share of its choices above which a head is said to choose something
SHOWN, NEAREST = 4, 8  # inputs of a head that a page shows with their words, and choices nearest to a flip


def head_facts(source, query="all", bits=(), tell=print):
    """Facts of every head of a :class:`heads.inputs.Source`, for JSON; sentences on layers left out; rows compared.

    ``query`` is "all", "first", "last", a number or a word; ``tell`` gets a line for each layer.
    """
    source.model.requires_grad_(False)
    with torch.inference_mode():
        count, lengths = _lengths(source)
        order = lengths.argsort()
        some = order[torch.linspace(0, count - 1, min(ALONE, count)).round().long()].tolist()
        some = some if source.calls is None else order[-1:].tolist()
        alone = {row: _alone(source, row) for row in some}
    if not alone[some[0]]:
        raise ValueError("no attention was seen: the model neither goes through transformers' interface nor calls"
                         " scaled_dot_product_attention; see heads.attention for one written by hand")  # fmt: skip
    turns = source.turns if source.calls is not None else {} if source.recorded else _turns(source, some[-1])
    found = _Found(source, query, alone, turns)
    with torch.inference_mode():
        for rows in _batches(source, count, alone):
            run_rows(source, rows, lambda call, rows=rows: found.add(call, rows))
        if bits:
            rows = next(iter(_batches(source, count, alone)))
            run_rows(source, rows, lambda call: found.round(call, rows, bits))
    return (*_facts(source, found, tell), found.compared)


def _turns(source, row):
    try:
        return find_turns(source.model, lambda: source.run(source.rows([row])))
    except Exception:  # of a model that cannot run with gradients: no distance in matrices
        return {}


def _lengths(source):
    """The number of inputs, and of the tokens of each."""
    count = len(next(iter(source.inputs.values())))
    mask = source.inputs.get("attention_mask")
    return count, torch.ones(count) if mask is None or mask.ndim != 2 else mask.sum(-1)


def _batches(source, count, alone):
    """Rows of one batch after the other."""
    most = max(selects.numel() * selects.shape[-1] for layers in alone.values() for selects, *_ in layers.values())
    size = max(1, min(count, ENTRIES // max(most, 1)))
    return torch.arange(count).split(size)


def run_rows(source, rows, receive):
    """Run some inputs of a source in one batch; ``receive`` gets each call of attention."""
    if source.calls is not None:
        for call in source.calls:
            receive(call.of_rows(rows))
        return
    inputs = source.rows(rows)
    if source.recorded:
        for call in recorded(source.run(inputs)):
            receive(call)
    else:
        with watching(source.model, receive):
            source.run(inputs)


def recorded(output):
    """Calls of a model that gives its attention alone: choices and shares, and no distances."""
    for kind in ("encoder_attentions", "attentions", "decoder_attentions", "cross_attentions"):
        arrays = (output.get(kind) if isinstance(output, dict) else None) or ()
        for number, array in enumerate(arrays if isinstance(arrays, tuple | list) else ()):
            if isinstance(array, torch.Tensor) and array.ndim == 4 and not _is_no_attention(array):
                yield as_recorded(f"{kind}.{number}", array)


def _is_no_attention(array):
    sums = array.float().sum(-1)
    return bool((array < 0).any() or sums.max() > 1.01 or not array.isfinite().all())


def as_recorded(name, attention):
    """A call of which the attention (n, heads, T, S) alone is known."""
    call = Attention(name, attention[..., :1] * 0, attention.mT[..., :1] * 0, math.nan, attention=attention)
    call.__dict__["logits"] = attention.float().log()
    return call


def _alone(source, row):
    """What each query of an input chooses when it runs alone, and with what share and lead, by the layer's name."""
    kept = {}

    def keep(call):
        kept[call.name] = _top(call)

    run_rows(source, [row], keep)
    return kept


def _top(call):
    """Selected tokens, their shares, and the shares of the next (n, heads, T)."""
    top = call.shares() if call.scale == call.scale else call.attention
    share, places = top.topk(min(2, top.shape[-1]), -1)
    return places[..., 0], share[..., 0], share[..., -1]


class _Found:
    """What is found of each layer while batches run."""

    def __init__(self, source, query, alone, turns):
        self.source, self.query, self.alone, self.turns = source, query, alone, turns
        self.parts, self.about, self.bits = defaultdict(list), {}, {}
        self.compared = 0

    def add(self, call, rows):
        queries, keys = real = real_tokens(call, self.source.inputs, rows)
        if call.mask is None and not keys.all() and not self.source.recorded:
            raise Refused(f"{call.name} got no mask though some inputs are padded, so tokens would see padding")
        self._compare(call, rows, real)
        asks = asking(queries, self.query, self._words(call, rows))
        part = chosen(call, asks, *sides(call, self.turns.get(call.name), real))
        inputs = rows[part.input] if len(call.query) == len(rows) else part.input + 0
        self.parts[call.name].append(part._replace(input=inputs))
        about = self.about.setdefault(call.name, {"off": [], "tokens": call.key.shape[2], "windows": 1, "cross": False})
        about["off"].append(torch.full(call.query.shape[1:2], torch.nan) if call.off is None else call.off)
        about["windows"], about["cross"] = len(call.query) // max(len(rows), 1), _is_cross(call)
        about["why"] = self._why(call)
        if len(about.setdefault("shown", [])) < SHOWN:
            about["shown"] += self._shown(call, asks, rows, part)

    def _why(self, call):
        if self.source.recorded:
            return "the model gives its attention alone"
        if call.cap is not None and call.bias is not None:
            return "a cap on the logits, and a bias behind it"
        return ""

    def _shown(self, call, asks, rows, part):
        """Attention of one query in some inputs, as the model has it."""
        words, kept = self._words(call, rows, keys=True), []
        for i in range(min(len(call.query), SHOWN)):
            at = asks[i].nonzero().flatten()
            if len(at) and words is not None:
                place = int(at[len(at) // 2])
                shares = (call.attention if call.scale != call.scale else call.shares())[i, :, place]
                kept.append({"input": int(rows[i]), "asks": place, "words": words[i], "attention": shares.cpu()})
        return kept

    def round(self, call, rows, numbers):
        real = real_tokens(call, self.source.inputs, rows)
        if call.cap is not None or call.scale != call.scale:
            return
        pair = sides(call, self.turns.get(call.name), real)
        asks = some_asks(asking(real[0], self.query, self._words(call, rows)), torch.Generator().manual_seed(0))
        if None not in pair and asks.any():
            self.bits[call.name] = head_rounding(call, asks, *pair, list(numbers))

    def _words(self, call, rows, keys=False):
        """Words of the tokens that ask, or of those that are chosen; None where these are no tokens of the text."""
        words = self.source.words
        length = call.key.shape[2] if keys else call.query.shape[2]
        if words is None or len(call.query) != len(rows) or length > len(words[0]):
            return None
        own, inputs = "decoder" in call.name and not (keys and _is_cross(call)), self.source.inputs
        if own and "decoder_input_ids" in inputs and not inputs["decoder_input_ids"].equal(inputs["input_ids"]):
            return None
        return [words[row] for row in rows.tolist()]

    def _compare(self, call, rows, real):
        """Refuse a batch whose choices are not those of its inputs alone."""
        if len(call.query) != len(rows):
            return
        selects, share, _ = _top(call)
        for i, row in enumerate(rows.tolist()):
            if call.name not in self.alone.get(row, {}):
                continue
            own = self.alone[row][call.name]
            there = real[0][i].nonzero().flatten()
            if len(there) != own[0].shape[-1]:
                continue
            self.compared += 1
            apart = (share[i][:, there] - own[1][0]).abs().max().item()
            clear = own[1][0] - own[2][0] > APART
            if not apart <= APART or (clear & (selects[i][:, there] != own[0][0])).any():
                raise Refused(
                    f"{call.name}: input {row} alone has other attention than in its batch, by {apart:.2g}: that is"
                    " not what the model should see; check mask and positions, or run inputs of one length"
                )


def _is_cross(call):
    name = call.name.lower()
    return any(word in name for word in ("cross", "encoder_attn", "encdecattention", "multihead_attn"))


def real_tokens(call, inputs, rows):
    """Masks of the tokens that are no padding, of queries (n, T) and of keys (n, S)."""
    own = "decoder_attention_mask" if "decoder" in call.name and "decoder_input_ids" in inputs else "attention_mask"
    masks = []
    for name, x in ((own, call.query), ("attention_mask" if _is_cross(call) else own, call.key)):
        length, mask = x.shape[2], inputs.get(name)
        fits = mask is not None and mask.ndim == 2 and len(x) == len(rows) and mask.shape[1] >= length
        masks.append(mask[rows][:, :length].bool() if fits else torch.ones(len(x), length, dtype=torch.bool))
    return masks


def asking(real, query, words):
    """Mask (n, T) of the queries that are asked for; Refused where there is none of them."""
    if query == "all":
        return real
    if query in ("first", "last"):
        query = 0 if query == "first" else -1
    if isinstance(query, int):
        counts = real.sum(-1)
        least = int(counts.min())
        if not -least <= query < least:
            raise Refused(f"query is {query}: an input has {least} tokens, 0 to {least - 1}")
        place = counts * (query < 0) + query
        return real & (real.cumsum(-1) == place[:, None] + 1)
    asks = torch.zeros_like(real)
    for i, row in enumerate(words or ()):
        for place, word in enumerate(row[: real.shape[1]]):
            asks[i, place] = real[i, place] & (word.strip("Ġ▁ ") == query)
    return asks


def _facts(source, found, tell):
    """Facts by head, and sentences on layers that are left out."""
    heads, left_out = [], []
    for number, (name, parts) in enumerate(found.parts.items()):
        part = _joined(parts)
        about = found.about[name]
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
            bits = found.bits.get(name)
            checked = "recorded" if source.recorded else "agrees" if off[head] <= EXACT else "assumed"
            facts = {"layer": name, "number": number, "head": head, "check": checked}
            facts |= {"off": _short(off[head]), "why": about["why"], "cross": about["cross"]}
            facts |= _of_head(source, part, head, about)
            facts |= {} if bits is None else {"bits": bits[head]._asdict()}
            heads.append(facts)
        tell(f"{name}: {len(many)} heads, {part.selects.shape[1]:,} choices of each")
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
    facts["flip"] = {name: _short(x.nanmedian()) for name, x in flips.items()}
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
