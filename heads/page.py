"""Write the report on a model as one HTML page, which needs no script and no other file."""

import html
import math
from itertools import groupby
from operator import itemgetter

from .facts import AGREE

STYLE = """
:root{color-scheme:light dark;--ink:#1c1c1e;--paper:#fff;--muted:#666;--line:#ddd;
--blue:#2a6fb0;--red:#c0392b;--gold:#b8860b}
@media(prefers-color-scheme:dark){:root{--ink:#e8e8ea;--paper:#17181a;--muted:#a0a0a6;--line:#3a3b3e;--blue:#6fb1f0;
--red:#ff7b6b;--gold:#e0b040}}
body{font:16px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:60rem;
margin:auto;padding:1rem}
a{color:inherit}h1{font-size:1.5rem;line-height:1.25}h2{font-size:1.15rem;margin-top:2rem}
.maps{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(100%,24rem),1fr));gap:1rem}
figure{margin:0;overflow-x:auto}figcaption{font-size:.9rem}figcaption b{display:block}
.map{border-collapse:separate;border-spacing:2px;font-size:11px}.map th{font-weight:400;color:var(--muted);
padding:0 4px}
.map td{padding:0;min-width:24px;text-align:center}.map a{display:block;text-decoration:none;padding:3px 1px}
.s{background:color-mix(in srgb,var(--blue) calc(var(--a)*100%),transparent)}.d{color:#fff}
@media(prefers-color-scheme:dark){.d{color:#000}}
.no{color:var(--red);font-weight:700;outline:1px solid var(--red)}.re{color:var(--gold)}
details{border-bottom:1px solid var(--line);padding:.3rem 0}summary{cursor:pointer}summary b{margin-right:.6rem}
.tokens{line-height:2;overflow-wrap:anywhere;margin:.4rem 0}.tokens i{font-style:normal;padding:1px 2px;
background:color-mix(in srgb,var(--blue) calc(var(--a)*70%),transparent)}.tokens .top{outline:2px solid var(--blue)}
.tokens u{text-decoration:underline dotted 2px}.note{color:var(--muted);font-size:.9rem}
table.t{border-collapse:collapse;font-size:.9rem}.t td,.t th{text-align:left;padding:2px 10px 2px 0;vertical-align:top}
"""
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><title>{name}: what its heads select</title>
<style>{style}</style><h1>What the heads of {name} select</h1>{assumed}<p>{summary}</p><div class="maps">{maps}</div>
{about}
<p>Which tokens a head will select after more training is a forecast, no theorem: <i>A head that trains on</i>, in the
book of this library, measures how often such forecasts are right.</p><h2>Head by head</h2>{heads}</html>
"""
HEAD = """<details><summary><b>Layer {number}, head {head}</b> {short}</summary><span id="l{number}h{head}"></span>
{body}</details>
"""  # the anchor is inside, so that a link to it opens the head
ASSUMED = """<p class="no">{count} of {all} heads were compared with nothing: the model's attention was not at hand.</p>
<p>It is assumed of them, marked – below: logits are products of queries and keys, over the root of a head's size or
times the scale of the family in config.json; no rotary or relative positions, norms or caps; the query token sees all
tokens that a mask does not hide, those behind it too unless config.json names a family where it does not; rows of a
fused matrix are in the order of the library whose names they have; a matrix without a tensor for its bias has none;
arrays are numbered as layers run, as listed below.
Where one of these is wrong, so is every number. Record the model's attention, and each head is checked.</p>"""
LEFT_OUT = """<p><b>What is not shown</b></p><ul>{rows}</ul>"""
TOLD = """<p class="note">{layer}. Attention: {checked}.</p><p><b>What it selects.</b> Of {many} inputs: {places}. Most
often: {often}.</p><p><b>How firmly.</b> The token has {top:.0%} of the attention on average.{firmly}</p>
<p><b>What would change it.</b> {change}</p>{shown}"""
FIRMLY = """{scope} A change of W by {flip_least:.2%} of its length turns the nearest input to another token, half of
the inputs need {flip:.2%} or more. No smaller change does it, and this one does: it has rank one."""
WHICH_W = """ Its queries have a bias b: W is meant with one column more, W_K^T b times the scale of the logits, and
each query with a 1 more: lengths and distances are of these."""
SCOPE = """ In {told} of the inputs the model's attention tells the lead over the nearest token; what follows is of
these."""
BITS = """ Rounded row by row to {bits} bits, its keys and queries flip {bits_forecast:.1%} of the choices as forecast
from the distances, and {bits_counted:.1%} as counted, with the tokens as they are. By the forecast 95 % of the choices
stay with {needed} bits."""
CHANGE = """First to overtake: {takers}. The inputs nearest to a flip:</p><table class="t"><tr><th>input</th><th>selects
</th><th>share</th><th>is overtaken by</th><th>lead</th><th>change, of |W|</th><th>of its spectral norm</th></tr>
{rows}</table><p>"""
NUMBERS = {"lead": ".3g", "flip": ".2%", "flip_spectral": ".2%"}  # of that table, with their digits
RECORDED = """ <span class="re">{count} are shown as recorded ({why})</span>: what they select today is exact, but no
distance to a flip and no forecast of training follows: the logits are not those of one matrix that is known."""
MAPS = (  # title, caption, and which of the facts
    ("Spread of attention", "entropy over its largest on tokens that some head sees: 1 even, 0 one token", "entropy"),
    ("Share of the top token", "mean over inputs", "top"),
    (
        "Distance to a flip",
        "median change of W, in %, that turns an input to another token: dark is near, * of some inputs",
        "flip",
    ),
    ("Attention check", "share of attention elsewhere than the model says, as a power of ten", "off"),
)
BITS_MAP = (
    "Flips at {bits} bits",
    "share of choices that change when keys and queries are rounded row by row, forecast from the distances",
    "bits_forecast",
)
CHECKS = {
    "agrees": "computed from the weights, and the model's own",
    "biased": "computed from the weights and a fixed bias for each distance in places, and the model's own",
    "assumed": "computed from the weights, as assumed above, and compared with nothing",
    "recorded": "as the model recorded it, not as its weights give it",
}
DARK = 0.55  # from which a cell has light text


def page(name, facts, about, left_out=()):
    """The page of a model of this name: facts of its heads, sentences about data and time, and on what is not shown."""
    bits = next((head["bits"] for head in facts if "bits" in head), None)
    maps = MAPS if bits is None else (*MAPS, [text.format(bits=bits) for text in BITS_MAP])
    numbers = {layer: k for k, layer in enumerate(dict.fromkeys(head["layer"] for head in facts))}
    rows = "".join(f"<li>{_text(sentence)}</li>" for sentence in left_out)
    assumed = sum(head["check"] == "assumed" for head in facts)
    return PAGE.format(
        name=_text(name),
        style=STYLE,
        assumed=ASSUMED.format(count=assumed, all=len(facts)) if assumed else "",
        summary=_summary(facts),
        maps="".join(_map(facts, numbers, *columns) for columns in maps),
        about="".join(f"<p>{_text(sentence)}</p>" for sentence in about) + (rows and LEFT_OUT.format(rows=rows)),
        heads="".join(_head(head, numbers[head["layer"]]) for head in facts),
    )


def _summary(facts):
    """How many heads are computed as the model computes them, in a sentence or two."""
    good = [head["off"] for head in facts if head["check"] in AGREE]
    recorded = [head["why"] for head in facts if head["check"] == "recorded"]
    reasons = sorted(set(recorded))
    sentences = f"{len(facts)} heads."
    if good:
        sentences += f" In {len(good)} of them attention from the weights is the model's own, to {max(good):.1g}."
    if recorded:
        sentences += RECORDED.format(
            count=len(recorded), why=_text("; ".join(reasons[:3] + ["..."] * (len(reasons) > 3)))
        )
    return sentences


def _map(facts, numbers, title, caption, key):
    """Layers x heads, a number in each cell."""
    flips = [math.log(max(head["flip"], 1e-9)) for head in facts if head.get("flip") is not None] or [0.0]
    rows = ""
    for layer, heads in groupby(facts, itemgetter("layer")):
        cells = "".join(_cell(head, numbers[layer], key, min(flips), max(flips)) for head in heads)
        rows += f'<tr><th scope="row" title="{_text(layer)}">{numbers[layer]}</th>{cells}</tr>'
    columns = "".join(f'<th scope="col">{k}</th>' for k in range(max(head["head"] for head in facts) + 1))
    return (
        f'<figure><figcaption><b>{title}</b><span class="note">{caption}</span></figcaption><table class="map">'
        f"<tr><th>layer</th>{columns}</tr>{rows}</table></figure>"
    )


def _cell(head, number, key, nearest, farthest):
    """A cell that links to its head; those of flips are shaded between the logarithms of the least and the largest."""
    link, value = f'href="#l{number}h{head["head"]}"', head.get(key)
    if value is None or (key == "off" and head["check"] not in AGREE):
        mark = "r" if head["check"] == "recorded" else "–"
        return f'<td class="re"><a {link} title="{_text(head["why"])}">{mark}</a></td>'
    text, shade, some = f"{value:.2f}"[-3:] if value < 0.995 else "1", min(max(value, 0.0), 1.0), ""
    if key == "flip":
        some = _of_some(head) and f' title="{_of_some(head).strip()}"'
        text = _percent(value) + "*" * bool(some)
        shade = 0.9 * (farthest - math.log(max(value, 1e-9))) / max(farthest - nearest, 1e-9)
    if key == "off":
        text, shade = f"{math.floor(math.log10(max(value, 1e-16)))}".replace("-", "−"), 0.0
    return f'<td><a class="s{" d" if shade > DARK else ""}" style="--a:{shade:.2f}" {link}{some}>{text}</a></td>'


def _percent(x):
    return f"{100 * x:.2g}".lstrip("0") if x < 0.995 else f"{100 * x:.0f}"


def _head(facts, number):
    """The facts of a head, folded."""
    fields = facts | {"number": number, "layer": _text(facts["layer"]), "why": _text(facts["why"])}
    flip = facts.get("flip")
    # The place that is selected most often, or the text where that is rarer.
    often = [*facts["places"].items(), *((f"“{_text(name)}”", count) for name, count in facts["texts"])]
    name, count = max(often, key=lambda pair: pair[1])
    fields |= {
        "many": len(facts["inputs"]),
        "checked": CHECKS[facts["check"]]
        + (f" ({fields['why']})" if facts["why"] else "")
        + (f", to {facts['off']:.1g}" if facts["check"] in AGREE else ""),
        "places": ", ".join(f"{name} in {count}" for name, count in facts["places"].items())
        or "none of the near places",
        "often": _counted(facts["texts"]),
        "firmly": ("" if flip is None else FIRMLY.format(scope=_scope(facts), **facts) + WHICH_W * facts["query_bias"])
        + _bits(facts),
        "change": _change(facts),
        "shown": "".join(_shown(shown, facts["cross"]) for shown in facts["shown"]),
    }
    short = f"{name} in {count} of {fields['many']}; top token {facts['top']:.0%}"
    short += "" if flip is None else f", flip {_percent(flip)} %{_of_some(facts)}"
    return HEAD.format(short=short, body=TOLD.format(**fields), **fields)


def _of_some(facts):
    """Of how many inputs a median distance is, in short, where not of all."""
    count, every = facts["flip_inputs"], len(facts["inputs"])
    return "" if count == every else f" of {count} of {every} inputs"


def _scope(facts):
    """Of how many inputs distances are, where not of all."""
    return "" if facts["told"] == len(facts["inputs"]) else SCOPE.format(**facts)


def _bits(facts):
    """How many choices rounding flips, in two sentences; nothing where that was not asked for."""
    if "bits" not in facts:
        return ""
    return BITS.format(needed=facts["bits_needed"] or "more than 16", **facts)


def _counted(names):
    return ", ".join(f"“{_text(name)}” in {count}" for name, count in names)


def _change(facts):
    if "takers" not in facts:
        return "No distance follows: the logits are not those of one matrix that is known."
    rows = ""
    for k in facts["nearest"]:
        numbers = ("–" if k[key] is None else f"{k[key]:{digits}}" for key, digits in NUMBERS.items())
        taker = "–" if k["lead"] is None else _token(k, "taker")
        cells = (k["input"], _token(k, "selects"), f"{k['share']:.0%}", taker, *numbers)
        rows += f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    return CHANGE.format(takers=_counted(facts["takers"]), rows=rows)


def _token(k, key):
    word = k.get(f"{key}_word")
    return f"token {k[key]}" if word is None else f"“{_text(word)}” ({k[key]})"


def _shown(shown, cross):
    """The tokens of an input, shaded by attention; the query token is underlined where it is one of them."""
    words = []
    for place, share in enumerate(shown["attention"]):
        word = _text(shown["words"][place]) if "words" in shown else str(place)
        kind = ' class="top"' if place == shown["selects"] else ""
        word = f"<u>{word}</u>" if place == shown["asks"] and not cross else word
        words.append(f'<i{kind} style="--a:{share:.2f}" title="{share:.1%}">{word}</i>' if share >= 0.02 else word)
    asks = f"token {shown['asks']}" + (" of the other sequence" if cross else "")
    if "words" in shown and not cross:
        asks = f"“{_text(shown['words'][shown['asks']])}” ({shown['asks']})"
    said = f"input {shown['input']}, {asks} asks: "
    return f'<div class="tokens"><span class="note">{said}</span>{" ".join(words)}</div>'


def _text(value):
    return html.escape(str(value).replace("\u0120", "\u00b7").replace("\u2581", "\u00b7"))
