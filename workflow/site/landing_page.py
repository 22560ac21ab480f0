"""The first page: its picture, the findings with their numbers, the map of the book, and how to cite it."""

import html
import re
from pathlib import Path

from lib.ledger import HELD
from workflow.book.catalogue import BookError, chapters, source, title, yaml_of
from workflow.book.ledger import commit, register
from workflow.site import drawings

FRONT = Path("book/front.yml")
PARTS = {"max-margin": "Max-margin token selection", "rates": "Convergence rates", "mirror-descent": "Mirror descent"}


def raw(text):
    """Return HTML as MyST that passes it on."""
    return f"```{{raw}} html\n{text}\n```\n"


def figure(drawing, caption, name):
    """Return a drawing with its caption; the name is the element's id."""
    return raw(f'<figure class="drawn" id="{name}">{drawing}<figcaption>{caption}</figcaption></figure>')


class Number(float):
    """A measured number, which the format ``tex`` writes with a power of ten."""

    def __format__(self, spec):
        if spec != "tex":
            return float.__format__(self, spec)
        digits, _, power = f"{float(self):.1e}".partition("e")
        return f"{digits} \\cdot 10^{{{int(power)}}}"


def picture():
    """Return the picture of the first page. Its place is where the interactive one goes, too."""
    drawing, told = drawings.selection()
    first, *_, last = told["steps"]
    caption = (
        "<strong>Attention stops averaging: it picks one token, and the start decides which.</strong> One input of "
        f"three tokens. Above: {told['starts']} runs of normalised gradient descent on the query; {told['best']} turn "
        f"to the token of the best score, {told['other']} to a neighbour that beats only the origin. Dashed: the two "
        f"directions that the theory predicts. Below: attention along the run from the origin, {told['before']:.2f} on "
        f"the best token at step {first} and {told['after']:.4f} at step {last}."
    )
    return figure(f'<div id="token-playground">{drawing}</div>', caption, "fig-intro")


def ends():
    """Return the figure of one problem and six optimisers, from the run of its chapter; nothing where that has not run.

    What stands for it where it cannot be seen is the chapter's own text.
    """
    import nbformat

    from workflow.sphinx_ext import inline_svg

    chapter, key = "beyond/optimiser-margins", "fig-optimiser-margins-ends"
    run = Path("build/executed", chapter + ".ipynb")
    if not run.exists():
        return ""
    outputs = [output for cell in nbformat.read(run, 4).cells for output in cell.get("outputs", [])]
    glued = next(one for one in outputs if one.get("metadata", {}).get("scrapbook", {}).get("name") == key)
    text = next(value for kind, value in glued.data.items() if kind.endswith("image/svg+xml"))
    alt = re.search(rf":name: {key}\n:alt: (.+)", source(chapter).read_text("utf-8"))[1]
    caption = (
        "<strong>One problem, six optimisers, six ends.</strong> The matrix of one attention layer after training by "
        "each: a square for each weight, blue above zero, red below. All six select the same tokens, and each ends at "
        f'the separator that is shortest in its own norm: <a href="{chapter}.html">which optimiser, which margin</a>.'
    )
    return figure(inline_svg.inlined(text, alt, "ends"), caption, "fig-ends")


def findings(rows):
    """Return the findings of ``book/front.yml``, with the numbers and the verdicts of these rows of the ledger."""
    from workflow.site.corrections import sentences
    from workflow.site.markup import VERDICTS, link, styled

    known, lines = {row["id"]: row for row in rows}, []
    given = {"sentences": Number(len(sentences(rows)))}
    for finding in _front().get("findings") or []:
        if missing := [name for name in finding["rows"].values() if name not in known]:
            raise BookError(f"{FRONT} tells of {missing[0]}, which is no row of the ledger: name one that is")
        used = [known[name] for name in finding["rows"].values()]
        numbers = {name: Number(known[row]["measured"]) for name, row in finding["rows"].items()}
        said = finding["say"].replace("{sentences}", "{sentences:.0f}").format(**given, **numbers)
        verdicts = [row["verdict"] for row in used] or ["corrected"]
        worst = next((verdict for verdict in verdicts if verdict not in HELD), verdicts[0])
        page = finding["read"]
        target = link(page) if page in chapters() else f"{{doc}}`{page}`"
        lines.append(f"- {styled(VERDICTS[worst], worst)} {said} {target}.")
    return "\n".join(lines) + "\n"


def _front():
    return yaml_of(FRONT) if FRONT.exists() else {}


def entries():
    """Return what the map shows, in its order: chapters of the table of contents, those that it does not know last."""
    listed = [entry for entry in _front().get("map") or [] if entry["chapter"] in chapters()]
    known = {entry["chapter"] for entry in listed}
    for chapter in chapters():
        if chapter not in known:
            name, _, says = re.sub(r"[*$`]", "", title(source(chapter))).partition(":")
            listed.append({"chapter": chapter, "name": name[:18], "says": says.strip()[:22]})
    order = list(dict.fromkeys(chapter.partition("/")[0] for chapter in chapters()))
    return sorted(listed, key=lambda entry: order.index(entry["chapter"].partition("/")[0]))


ROW, HEAD, LEFT = 25, 34, 96  # heights of a chapter and of a part's name, and the room for the arcs


def book_map(rows):
    """Return the map: a row for each chapter, and an arc from each to those that rest on it."""
    places, parts, y, part = {}, [], 4, None
    for k, entry in enumerate(entries()):
        chapter = entry["chapter"]
        if (here := chapter.partition("/")[0]) != part:
            part, y = here, y + HEAD
            parts.append(drawings.words(LEFT - 8, y - 12, PARTS.get(part, part.replace("-", " ").capitalize()), "head"))
        places[chapter] = (k, y + 2)
        parts.append(_row(k, y + 2, entry, standing(chapter, rows)))
        y += ROW
    arcs = [
        _arc(places[earlier], places[entry["chapter"]])
        for entry in entries()
        for earlier in entry.get("from", ())
        if earlier in places
    ]
    rules = "".join(f".map:has(.n{k}:is(:hover,:focus)) .arc:not(.n{k}){{opacity:.12}}" for k, _ in places.values())
    label = "A map of the book: a row for each chapter, arcs from each to those that rest on it."
    inner = "".join([*arcs, *parts])
    drawing = (
        f'<svg class="drawing map" viewBox="0 0 360 {y + 4}" style="--width: 430px" role="group" aria-label="{label}">'
        f"<style>{rules}</style>{inner}</svg>"
    )
    caption = (
        "<strong>Which statement feeds which.</strong> An arc leads from a chapter down to those that rest on it. The "
        'colour of a dot says how its statements fare: <span class="verdict reproduced">held</span>, <span '
        'class="verdict corrected">held once a printed sentence is changed</span>, <span class="verdict '
        "not-reproduced\">not all held</span>; grey, undecided or only the book's own."
    )
    return figure(drawing, caption, "fig-map")


def _row(k, y, entry, kind):
    """Return the link to a chapter: its dot, its name, and a few words."""
    whole = html.escape(re.sub(r"[*$`]", "", title(source(entry["chapter"]))))
    return (
        f'<a href="{entry["chapter"]}.html" class="n{k}"><title>{whole}</title>'
        f'<rect x="{LEFT - 10}" y="{y - 12}" width="{370 - LEFT}" height="{ROW}"/>{drawings.dot(LEFT, y, 5, kind)}'
        f'<text x="{LEFT + 12}" y="{y + 4}"><tspan class="name">{html.escape(entry["name"])}</tspan> '
        f"{html.escape(entry['says'])}</text></a>"
    )


def _arc(one, other):
    """Return the line from a chapter to one that rests on it."""
    (k, top), (j, bottom), right = one, other, LEFT - 7
    left = right - 1.3 * min(LEFT - 26, 10 + 0.16 * abs(bottom - top))
    return f'<path class="arc n{k} n{j}" d="M{right} {top} C{left:.0f} {top}, {left:.0f} {bottom}, {right} {bottom}"/>'


def standing(chapter, rows):
    """Return the class of a chapter's dot: how the claims of papers fare that it tests."""
    about = ("claim", "paper", chapter)
    verdicts = {row["verdict"] for row in rows if (row["kind"], row["of"], row["chapter"]) == about}
    if "not reproduced" in verdicts:
        return "not-reproduced"
    if not verdicts or "undecided" in verdicts:
        return "open"
    return "corrected" if "corrected" in verdicts else "reproduced"


def cite():
    """Return how to cite the book: authors, title, version as ``CITATION.cff`` has them, and the papers."""
    path = Path("CITATION.cff")
    if not path.exists():
        return ""
    about = yaml_of(path)
    authors = " and ".join(_name(author) for author in about["authors"])
    year = re.search(r"\d{4}(?=-\d\d-\d\d)", commit())
    fields = {"title": "{" + about["title"] + "}", "author": "{" + authors + "}", "version": about["version"]}
    fields |= {"year": year[0]} if year else {}
    listed = ",\n".join(f"  {name:<8} = {{{value}}}" for name, value in fields.items())
    papers = ", ".join(f"{{cite:t}}`{paper['key']}`" for paper in register() if "key" in paper)
    return (
        f"```bibtex\n@software{{what_attention_selects,\n{listed},\n}}\n```\n\n"
        f"If you use a statement, please cite its paper as well: {papers}.\n"
    )


def _name(author):
    return author["name"] if "name" in author else f"{author['family-names']}, {author['given-names']}"
