"""Write the report on a model as one HTML page, which needs no script and no other file."""

import html
import math
from itertools import groupby

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
CHECKS = {
    "agrees": "computed from the weights, and the model's own",
    "biased": "computed from the weights and a fixed bias for each distance in places, and the model's own",
    "unchecked": "computed from the weights; the model's own was not at hand",
    "recorded": "as the model recorded it; the weights alone do not give it",
    "differs": "the weights do not give the model's attention",
}
WORTH = {  # shares that the chapter "A head that trains on" measured in the last and in the first of two blocks
    "alone": (0.76, 0.66), "today": (0.29, 0.64), "score": (0.59, 0.29), "alone-freed": (0.21, 0.52),
    "today-freed": (0.34, 0.84), "short-freed": (0.375, 0.88),
}  # fmt: skip
SOONER = 0.75  # share of pairs in which the input that changed its token was nearer to a flip, when everything trained
DARK = 0.55  # from which a cell has light text


def page(name, facts, about, texts=None):
    """The page, as text.

    Parameters
    ----------
    name : str
        Of the model.
    facts : list of dict
        Of all heads, as :func:`lib.models.report.layer_facts` has them.
    about : list of str
        Sentences on data and forecasts, below the maps.
    texts : list of list of str, optional
        The tokens of each input.
    """
    layers = list(dict.fromkeys(one["layer"] for one in facts))
    numbers = {layer: k for k, layer in enumerate(layers)}
    heads = "".join(_head(one, numbers[one["layer"]], texts) for one in facts)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport"'
        f' content="width=device-width,initial-scale=1"><title>{_text(name)}: what its heads select</title>'
        f"<style>{STYLE}</style><h1>What the heads of {_text(name)} select</h1>{_summary(facts)}"
        f'<div class="maps">{_maps(facts, numbers)}</div>{"".join(f"<p>{one}</p>" for one in about)}{_worth()}'
        f"<h2>Head by head</h2>{heads}</html>\n"
    )


def _worth():
    """What forecasts are worth, in a paragraph."""
    last, first = ({name: f"{share[k]:.0%}" for name, share in WORTH.items()} for k in (0, 1))
    return (
        "<p><b>What this foretells.</b> Which tokens a head will select after more training is a forecast, no theorem."
        " In small networks of two blocks, last and first: if one head alone trains, descent on it foretells"
        f" {last['alone']} and {first['alone']} of the tokens, the token of today {last['today']} and {first['today']},"
        f" the highest score {last['score']} and {first['score']}. If everything trains, “nothing changes” foretells"
        f" {last['today-freed']} and {first['today-freed']}, descent {last['alone-freed']} and {first['alone-freed']},"
        " a few steps of it with scores taken anew from the model at each"
        f" {last['short-freed']} and {first['short-freed']}."
        " The distance to a flip says who changes first: of an input that changes and one that stays, the former"
        f" was nearer in {SOONER:.0%} of pairs. (<i>A head that trains on</i>, in the book of this library.)</p>"
    )


def _summary(facts):
    """How many heads are computed as the model computes them, in a sentence or three."""
    count = {kind: sum(one["check"] == kind for one in facts) for kind in CHECKS}
    good = [one["off"] for one in facts if one["check"] in ("agrees", "biased")]
    said = [f"{len(facts)} heads."]
    if good:
        said.append(f"In {len(good)} of them attention from the weights is the model's own, to {max(good):.1g}.")
    if count["unchecked"]:
        said.append(f"For {count['unchecked']} the model's attention was not at hand: they are not checked.")
    if count["recorded"]:
        why = sorted({one["why"] for one in facts if one["check"] == "recorded"})
        said.append(
            f'<span class="re">{count["recorded"]} are shown as recorded ({_text("; ".join(why))})</span>: what they'
            " select today is exact, but no distance to a flip and no forecast of training follows: the logits are not"
            " those of one matrix that is known."
        )
    if count["differs"]:
        said.append(f'<span class="no">{count["differs"]} do not agree</span>, and nothing else is said of them.')
    return f"<p>{' '.join(said)}</p>"


def _maps(facts, numbers):
    """Layers x heads, four times."""
    flips = [math.log(max(one["flip"], 1e-9)) for one in facts if one.get("flip") is not None] or [0.0]
    wide = max(max(flips) - min(flips), 1e-9)

    def near(x):
        return _percent(x), 0.9 * (max(flips) - math.log(max(x, 1e-9))) / wide

    return "".join((
        _map(facts, numbers, "Spread of attention", "entropy over its largest value: 1 is even, 0 is one token",
             lambda one: one.get("entropy"), lambda x: (f"{x:.2f}"[-3:] if x < 0.995 else "1", x)),
        _map(facts, numbers, "Share of the top token", "mean over inputs",
             lambda one: one.get("top"), lambda x: (f"{x:.2f}"[-3:] if x < 0.995 else "1", x)),
        _map(facts, numbers, "Distance to a flip", "median change of W, in %, that turns an input to another"
             " token: dark is near", lambda one: one.get("flip"), near),
        _map(facts, numbers, "Attention check", "share of attention elsewhere than the model says, as a power of ten",
             lambda one: one["off"] if one["check"] in ("agrees", "biased") else None,
             lambda x: (f"{math.floor(math.log10(max(x, 1e-16)))}".replace("-", "−"), 0.0)),
    ))  # fmt: skip


def _map(facts, numbers, title, caption, value, look):
    rows = []
    for layer, heads in groupby(facts, lambda one: one["layer"]):
        cells = "".join(_cell(one, numbers[layer], value(one), look) for one in heads)
        rows.append(f'<tr><th scope="row" title="{_text(layer)}">{numbers[layer]}</th>{cells}</tr>')
    most = max(one["head"] for one in facts) + 1
    head = "".join(f'<th scope="col">{k}</th>' for k in range(most))
    return (
        f'<figure><figcaption><b>{title}</b><span class="note">{caption}</span></figcaption><table class="map">'
        f"<tr><th>layer</th>{head}</tr>{''.join(rows)}</table></figure>"
    )


def _cell(one, number, value, look):
    link = f'href="#l{number}h{one["head"]}"'
    if one["check"] == "differs":
        return f'<td class="no"><a {link} title="{_text(one["why"])}">×</a></td>'
    if value is None:
        mark = "r" if one["check"] == "recorded" else "–"
        return f'<td class="re"><a {link} title="{_text(one["why"])}">{mark}</a></td>'
    text, shade = look(value)
    shade = min(max(shade, 0.0), 1.0)
    dark = " d" if shade > DARK else ""
    return f'<td><a class="s{dark}" style="--a:{shade:.2f}" {link}>{text}</a></td>'


def _percent(x):
    return f"{100 * x:.2g}".lstrip("0") if x < 0.995 else f"{100 * x:.0f}"


def _head(one, number, texts):
    """A head that can be opened; the anchor is inside, so that a link to it opens it."""
    title = f"<b>Layer {number}, head {one['head']}</b>"
    if one["check"] == "differs":
        body = (
            f"<p class=\"no\">Attention from the weights and the model's differ: up to {one['off']:.2g} of an input's"
            f" attention is elsewhere.</p><p>Likely: {_text(one['why'])}.</p>"
        )
        short = '<span class="no">does not agree</span>'
        return f"<details><summary>{title} {short}</summary>{_anchor(one, number)}{body}</details>"
    flips = f", flip {_percent(one['flip'])} %" if one.get("flip") is not None else ""
    short = f"{_most(one)}; top token {one['top']:.0%}{flips}"
    body = "".join((
        f"<p class='note'>{_text(one['layer'])}. Attention: {CHECKS[one['check']]}"
        f"{' (' + _text(one['why']) + ')' if one['why'] else ''}"
        f"{_to(one)}.</p>",
        f"<p><b>What it selects.</b> {_selects(one)}</p>", f"<p><b>How firmly.</b> {_firmly(one)}</p>",
        f"<p><b>What would change it.</b> {_change(one, texts)}</p>",
        "".join(_shown(shown, texts) for shown in one["shown"]),
    ))  # fmt: skip
    return f"<details><summary>{title} {short}</summary>{_anchor(one, number)}{body}</details>"


def _to(one):
    """How closely attention agrees, in words."""
    return f", to {one['off']:.1g}" if one["check"] in ("agrees", "biased") else ""


def _anchor(one, number):
    return f'<span id="l{number}h{one["head"]}"></span>'


def _most(one):
    """The place or text that is selected most often."""
    many = len(one["inputs"])
    place = max(one["places"].items(), key=lambda pair: pair[1], default=("", 0))
    text, often = one["texts"][0]
    name, often = place if place[1] >= often else (f"“{_text(text)}”", often)
    return f"{name} in {often} of {many}"


def _selects(one):
    places = [f"{name} in {often}" for name, often in one["places"].items()]
    texts = [f"“{_text(name)}” in {often}" for name, often in one["texts"]]
    said = f"Of {len(one['inputs'])} inputs: {', '.join(places) or 'none of the near places'}."
    return f"{said} Most often: {', '.join(texts)}."


def _firmly(one):
    said = f"The token has {one['top']:.0%} of the attention on average."
    if one.get("flip") is None:
        return said
    return (
        f"{said} A change of W by {one['flip_least']:.2%} of its length turns the nearest input to another token, half"
        f" of the inputs need {one['flip']:.2%} or more. No smaller change does it, and this one does: it has rank one."
    )


def _change(one, texts):
    if "takers" not in one:
        return "No distance follows: the logits are not those of one matrix that is known."
    rows = "".join(
        f"<tr><td>{k['input']}</td><td>{_token(texts, k, 'selects')}</td><td>{k['share']:.0%}</td>"
        f"<td>{_token(texts, k, 'taker')}</td><td>{'–' if k['flip'] is None else format(k['flip'], '.2%')}</td>"
        f"<td>{'–' if k['flip_spectral'] is None else format(k['flip_spectral'], '.2%')}</td></tr>"
        for k in one["nearest"]
    )
    takers = ", ".join(f"“{_text(name)}” in {often}" for name, often in one["takers"])
    return (
        f"First to overtake: {takers}. The inputs nearest to a flip:</p><table class='t'><tr><th>input</th><th>selects"
        "</th><th>share</th><th>is overtaken by</th><th>change, of |W|</th><th>of its spectral norm</th></tr>"
        f"{rows}</table><p>"
    )


def _token(texts, k, key):
    place = k[key]
    return f"token {place}" if texts is None else f"“{_text(texts[k['input']][place])}” ({place})"


def _shown(shown, texts):
    """The tokens of an input, shaded by attention."""
    words = []
    for place, share in enumerate(shown["attention"]):
        word = str(place) if texts is None else _text(texts[shown["input"]][place])
        kind = ' class="top"' if place == shown["selects"] else ""
        word = f"<u>{word}</u>" if place == shown["asks"] else word
        words.append(f'<i{kind} style="--a:{share:.2f}" title="{share:.1%}">{word}</i>' if share >= 0.02 else word)
    return f"<div class='tokens'><span class='note'>input {shown['input']}: </span>{' '.join(words)}</div>"


def _text(value):
    return html.escape(str(value).replace("\u0120", "\u00b7").replace("\u2581", "\u00b7"))
