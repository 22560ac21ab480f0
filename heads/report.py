"""Report on every head of a model that runs: what its queries choose, how firmly, and how many bits that needs.

Layers are measured while they run, one batch at a time, so that memory is that of one layer. Each input alone is the
truth: some are run alone, and a report whose batch differs from them is refused.
"""

import math
from collections import defaultdict

import torch

from .choices import chosen, sides
from .facts import facts_of
from .rounding import measured, some_asks
from .turns import find_turns
from .watch import Attention, Refused, watching

ENTRIES = 2**22  # of the attention of a layer in one batch, which stands in memory some ten times
ALONE = 3  # inputs that are run alone, too
APART = 1e-3  # by which a share of a batch may differ from that of its input alone
SHOWN = 4  # inputs of a head that a page shows with their words


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
        raise ValueError(
            "no attention was seen: the model neither goes through transformers' interface nor calls"
            f" scaled_dot_product_attention; where yours is written by hand, call {__package__}.attention in it"
        )
    turns = {} if source.recorded or source.calls is not None else _turns(source, some[-1])
    found = _Found(source, query, alone, turns, list(bits))
    with torch.inference_mode():
        for rows in _batches(source, count, alone):
            run_rows(source, rows, lambda call, rows=rows: found.add(call, rows))
    return (*facts_of(source, found, tell), found.compared)


def _turns(source, row):
    try:
        return find_turns(source.model, lambda: source.run(source.rows([row])))
    except Exception:  # of a model that cannot run with gradients: no distance in matrices
        return {}


def _lengths(source):
    """The number of inputs, and of the tokens of each."""
    count, mask = source.count, source.inputs.get("attention_mask")
    return count, torch.ones(count) if mask is None or mask.ndim != 2 else mask.sum(-1)


def _batches(source, count, alone):
    """Rows of one batch after the other."""
    most = max(selects.numel() * selects.shape[-1] for layers in alone.values() for selects, *_ in layers.values())
    size = 1 if source.packed else max(1, min(count, ENTRIES // max(most, 1)))
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

    def __init__(self, source, query, alone, turns, numbers):
        self.source, self.query, self.alone, self.turns, self.numbers = source, query, alone, turns, numbers
        self.parts, self.bits, self.about = defaultdict(list), defaultdict(list), {}
        self.compared = 0

    def add(self, call, rows):
        queries, keys = real = real_tokens(call, self.source.inputs, rows)
        if call.mask is None and not keys.all() and not self.source.recorded:
            raise Refused(f"{call.name} got no mask though some inputs are padded, so tokens would see padding")
        self._compare(call, rows, real)
        asks = asking(queries, self.query, self._words(call, rows))
        pair = sides(call, self.turns.get(call.name), real)
        part = chosen(call, asks, *pair)
        inputs = rows[part.input] if len(call.query) == len(rows) else part.input + 0
        self.parts[call.name].append(part._replace(input=inputs))
        about = self.about.setdefault(call.name, {"off": [], "tokens": call.key.shape[2], "windows": 1, "cross": False})
        about["off"].append(torch.full(call.query.shape[1:2], torch.nan) if call.off is None else call.off)
        about["windows"], about["cross"] = len(call.query) // max(len(rows), 1), _is_cross(call)
        about["why"] = self._why(call)
        if len(about.setdefault("shown", [])) < SHOWN:
            about["shown"] += self._shown(call, asks, rows, keys)
        if self.numbers and None not in pair and call.cap is None and call.scale == call.scale:
            kept = self.bits[call.name]
            kept += filter(None, [measured(call, some_asks(call, asks, rows), *pair, self.numbers, not kept)])

    def _why(self, call):
        if self.source.recorded:
            return "the model gives its attention alone"
        if call.cap is not None and call.bias is not None:
            return "a cap on the logits, and a bias behind it"
        return ""

    def _shown(self, call, asks, rows, keys):
        """Attention of one query in some inputs, as the model has it, without padding at their ends."""
        words, kept = self._words(call, rows, keys=True), []
        shares = call.attention if call.scale != call.scale else call.shares()
        for i in range(0 if words is None else min(len(call.query), SHOWN)):
            at = asks[i].nonzero().flatten()
            if len(at):
                place = int(at[len(at) // 2])  # a clone: a view would hold all shares of the layer
                end = int(keys[i].nonzero().max()) + 1
                one = {
                    "input": int(rows[i]),
                    "asks": place,
                    "words": words[i][:end],
                    "attention": shares[i, :, place, :end].clone(),
                }
                kept.append(one)
        return kept

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
        if len(call.query) != len(rows) or self.source.packed:  # where each input runs alone
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
