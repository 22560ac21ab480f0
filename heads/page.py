"""Write the report on a model as one HTML page, which needs no other file; a script of some lines sorts its table."""

import html
import math

from .findings import KINDS

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
.no{color:var(--red);font-weight:700;outline:1px solid var(--red)}
details{border-bottom:1px solid var(--line);padding:.3rem 0}summary{cursor:pointer}summary b{margin-right:.6rem}
.tokens{line-height:2;overflow-wrap:anywhere;margin:.4rem 0}.tokens i{font-style:normal;padding:1px 2px;
background:color-mix(in srgb,var(--blue) calc(var(--a)*70%),transparent)}.tokens .top{outline:2px solid var(--blue)}
.tokens u{text-decoration:underline dotted 2px}.note{color:var(--muted);font-size:.9rem}
.wide{overflow-x:auto}table.t{border-collapse:collapse;font-size:.9rem}
.t td,.t th{text-align:left;padding:2px 10px 2px 0;vertical-align:top}
.t button{all:unset;cursor:pointer;font-weight:600;text-decoration:underline dotted}
.t button:focus-visible{outline:2px solid var(--blue)}
"""
PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width,initial-scale=1"><title>{name}: what its heads select</title>
<style>{style}</style><h1>What the heads of {name} select</h1><p>{judgement}</p><ul>{findings}</ul>
<div class="maps">{maps}</div>{about}<h2>Head by head</h2>
<p class="note">A column's name sorts by it; a head's name opens it below.</p>
<div class="wide"><table class="t sortable"><thead><tr>{columns}</tr></thead><tbody>{rows}</tbody></table></div>
<h2>Single heads</h2>{heads}<script>{script}</script></html>
"""
SCRIPT = """
document.querySelectorAll('.sortable button').forEach(function(button,column){
button.addEventListener('click',function(){
var body=button.closest('table').tBodies[0],up=button.dataset.up!=='1';button.dataset.up=up?'1':'0';
var key=function(row){return parseFloat(row.cells[column].dataset.v)};
Array.from(body.rows).sort(function(a,b){return (up?1:-1)*(key(a)-key(b))})
.forEach(function(row){body.append(row)})})});
function show(){var at=document.getElementById(location.hash.slice(1));if(at&&at.closest('details')){
at.closest('details').open=true;at.scrollIntoView()}}addEventListener('hashchange',show);show();
"""
HEAD = """<details><summary><b>Head {number}.{head}</b> {short}</summary><span id="l{number}h{head}"></span>
<p class="note">{layer}, head {head}.{why}</p><p><b>What it selects.</b> Of {choices} choices {places}. Most often:
{often}.</p><p><b>How firmly.</b> The token has {top:.0%} of the attention on average.{flips}{bits}</p>{nearest}{shown}
</details>"""
FLIPS = """ Each choice flips by some least change, and for half of them it is at most {query} of the query's length,
{key} of the length of the selected token's key{matrices}."""
MATRICES = """, {query_matrix} of that of the query matrix, {key_matrix} of that of the key matrix"""
BITS = """ By the forecast {needed} bits keep 95 % of the choices{interval}. At {at} bits {told:.1%} flip by the
forecast and {seen:.1%} as counted, of {choices} choices of {queries} different queries."""
ABOUT = """<p class="note">A distance is the least change of the query, of the selected token's key or of a matrix,
over its length, that gives another token the largest logit; all else stays as it is. It is a closed form, proved in the
library's page on <i>choices</i>.
Layers and heads are numbered from 0 in the order in which they run: {layers}.</p>"""
MAPS = (  # title, caption, what of the facts, and whether dark is low
    ("Choices that are words", "share of choices that are neither special tokens nor the first token, in %",
     lambda head: head["words"], False),
    ("Share of the selected token", "mean over choices, in %", lambda head: head["top"], False),
    ("Distance to a flip", "median change of a query, in % of its length: dark is near",
     lambda head: head["flip"]["query"], True),
)  # fmt: skip
COLUMNS = {
    "head": lambda head: head["number"] + head["head"] / 1000,
    "words, %": lambda head: head["words"],
    "share, %": lambda head: head["top"],
    "flip: query, %": lambda head: head["flip"]["query"],
    "key, %": lambda head: head["flip"]["key"],
    "W_Q, %": lambda head: head["flip"]["query_matrix"],
    "W_K, %": lambda head: head["flip"]["key_matrix"],
}
DARK = 0.55  # from which a cell has light text


def page(name, heads, judged, found):
    """The page of a model of this name: facts of its heads, sentences that judge data and model, and findings."""
    some = any("bits" in head for head in heads)
    maps = [_map(heads, *columns) for columns in MAPS] + ([_bits_map(heads)] if some else [])
    columns = COLUMNS | ({"bits": lambda head: _needed(head)} if some else {})
    layers = dict.fromkeys((head["number"], head["layer"]) for head in heads)
    return PAGE.format(
        name=_text(name),
        style=STYLE,
        script=SCRIPT,
        judgement=" ".join(_text(sentence if sentence.endswith(".") else sentence + ".") for sentence in judged),
        findings="".join(f"<li>{_text(sentence)}</li>" for sentence in found),
        maps="".join(maps),
        about=ABOUT.format(layers=", ".join(f"{number} {_text(layer)}" for number, layer in layers)),
        columns="".join(f'<th scope="col"><button>{column}</button></th>' for column in columns),
        rows="".join(_row(head, columns) for head in heads),
        heads="".join(_head(head) for head in heads),
    )


def _needed(head):
    """Bits that a head needs, one more than the most where these are too few; None where that is not known."""
    if "bits" not in head:
        return None
    return head["bits"]["needed"] or max(int(b) for b in head["bits"]["forecast"]) + 1


def _row(head, columns):
    cells = ""
    for column, value in columns.items():
        number = value(head)
        text = f'<a href="#l{head["number"]}h{head["head"]}">{head["number"]}.{head["head"]}</a>'
        if column != "head":
            text = _shown_number(number, 100 if column.endswith("%") else 1)
        cells += f'<td data-v="{1e9 if number is None else number}">{text}</td>'
    return f"<tr>{cells}</tr>"


def _shown_number(number, times):
    return "–" if number is None else f"{times * number:.3g}"


def _bits_map(heads):
    asked = [int(b) for b in next(head["bits"]["forecast"] for head in heads if "bits" in head)]
    caption = "fewest bits of queries and keys at which 95 % of the choices stay, by the forecast;"
    caption += f" {min(asked)}: {min(asked)} or fewer, {max(asked) + 1}: more than {max(asked)}"
    return _map(heads, "Bits", caption, _needed, False, times=1)


def _map(heads, title, caption, value, near, times=100):
    values = [x for x in map(value, heads) if x]
    low, high = (math.log(end) for end in (min(values), max(values))) if values else (0.0, 1.0)
    widest = max(head["head"] for head in heads) + 1
    cells = {(head["number"], head["head"]): _cell(head, value(head), low, high, near, times) for head in heads}
    top = "".join(f"<th>{k}</th>" for k in range(widest))
    rows = ""
    for number in sorted({head["number"] for head in heads}):
        rows += f"<tr><th>{number}</th>" + "".join(cells.get((number, k), "<td></td>") for k in range(widest)) + "</tr>"
    said = f"<figcaption><b>{title}</b>{caption}</figcaption>"
    return f'<figure>{said}<table class="map"><tr><th>layer</th>{top}</tr>{rows}</table></figure>'


def _cell(head, value, low, high, near, times):
    link = f'href="#l{head["number"]}h{head["head"]}"'
    if value is None or head["state"] == "dead":
        return f'<td><a {link} title="{head["state"] if value is None else "dead"}">–</a></td>'
    shade = value if not near and times > 1 else (math.log(max(value, 1e-9)) - low) / max(high - low, 1e-9)
    shade = 0.9 * (1 - shade if near else shade)
    text = f"{times * value:.2g}" if times * value < 99.5 else f"{times * value:.0f}"
    return f'<td><a class="s{" d" if shade > DARK else ""}" style="--a:{shade:.2f}" {link}>{text}</a></td>'


def _head(head):
    places = [f"{share:.0%} are {KINDS[kind]}" for kind, share in head["places"].items() if share >= 0.005]
    flip = head["flip"]
    flips = {name: "–" if x is None else f"{x:.2%}" for name, x in flip.items()}
    told = "" if flip["query"] is None else FLIPS.format(
        matrices="" if flip["query_matrix"] is None else MATRICES.format(**flips), **flips
    )  # fmt: skip
    name, count = head["texts"][0]
    short = "dead" if head["state"] == "dead" else f"“{_text(name)}” in {count / head['choices']:.0%} of its choices"
    return HEAD.format(
        number=head["number"], head=head["head"], layer=_text(head["layer"]), choices=f"{head['choices']:,}",
        short=short, why=f" {_text(head['why'])}." if head["why"] else "", top=head["top"], flips=told,
        places=", ".join(places) or "none is a special token, the first token or a neighbour",
        often=", ".join(f"“{_text(name)}” in {count}" for name, count in head["texts"]),
        bits=_bits(head), nearest=_nearest(head),
        shown="".join(_shown(shown, head["cross"]) for shown in head["shown"]),
    )  # fmt: skip


def _bits(head):
    if "bits" not in head:
        return ""
    bits = head["bits"]
    most = max(int(b) for b in bits["forecast"])
    at = bits["needed"] or most
    named = [f"{b}" if b else f"more than {most}" for b in (bits["fewest"], bits["most"])]
    interval = f" (interval over inputs and roundings: {named[0]} to {named[1]})" if named[0] != named[1] else ""
    return BITS.format(
        needed=bits["needed"] or f"more than {most}", interval=interval, at=at, told=bits["forecast"][at],
        seen=bits["counted"][at], choices=bits["choices"], queries=bits["queries"],
    )  # fmt: skip


def _nearest(head):
    rows = ""
    for k in head["nearest"]:
        if k["flips"]["query"] is None:
            continue
        flips = [_shown_number(k["flips"][name], 100) for name in ("query", "key", "query_matrix", "key_matrix")]
        cells = (k["input"], _word(k, "asks"), _word(k, "selects"), f"{k['share']:.0%}", _word(k, "taker"), *flips)
        rows += f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    titles = (
        "input",
        "query",
        "selects",
        "share",
        "is overtaken by (query)",
        "flip: query, %",
        "key, %",
        "W_Q, %",
        "W_K, %",
    )
    heading = "".join(f"<th>{title}</th>" for title in titles)
    table = f'<div class="wide"><table class="t"><tr>{heading}</tr>{rows}</table></div>'
    return rows and f"<p>The choices nearest to a flip:</p>{table}"


def _word(k, key):
    word = k.get(f"{key}_word")
    return f"token {k[key]}" if word is None else f"“{_text(word)}” ({k[key]})"


def _shown(shown, cross):
    """The tokens of an input, shaded by attention; the query token is underlined where it is one of them."""
    words, top = [], max(x or 0.0 for x in shown["attention"])
    for place, share in enumerate(shown["attention"]):
        word, share = _text(shown["words"][place]), share or 0.0
        kind = ' class="top"' if share == top else ""
        word = f"<u>{word}</u>" if place == shown["asks"] and not cross else word
        words.append(f'<i{kind} style="--a:{share:.2f}" title="{share:.1%}">{word}</i>' if share >= 0.02 else word)
    said = f"input {shown['input']}, token {shown['asks']} attends: "
    return f'<div class="tokens"><span class="note">{said}</span>{" ".join(words)}</div>'


def _text(value):
    return html.escape(str(value).replace("\u0120", "\u00b7").replace("\u2581", "\u00b7"))
