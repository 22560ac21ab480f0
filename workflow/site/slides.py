"""Make slides of a chapter from its built page: title, key figure, statement, idea of the proof, evidence, ablations.

The file stands beside the page in the site and takes formulas, styles and pictures from it, so it needs no network.
"""

import re

from bs4 import BeautifulSoup

from workflow.book.catalogue import BookError
from workflow.site.markup import TEMPLATES

SECTIONS = {  # of a chapter, by the id of their heading, in the order of the slides
    "statement": "Statement",
    "why-it-is-true": "Idea of the proof",
    "evidence": "Evidence",
    "what-breaks-it": "What breaks it",
}
FOLDED = "details, .headerlink, .explore, script, dl.terms, .copybtn, ul.chips"
CODE = '<section id="experiment">'  # from here on there is nothing for slides, and a half of what is to be parsed
ROOM = 1200  # letters on a slide
PICTURE, ROW, FORMULA = 1000, 100, 300  # how many letters a picture, a row of a table and a formula on its line count


def slides(page, address=""):
    """Title, links to styles, and slides of a chapter's page, each with a heading and HTML.

    Links to places of the page lead to its ``address``: the place may be on no slide.

    Raises
    ------
    BookError
        If the page has no title.
    """
    soup = BeautifulSoup(page.partition(CODE)[0], "html.parser")
    article = soup.find("article")
    chapter = article and article.find("section")
    if not chapter or not chapter.find("h1"):
        raise BookError("the page has no title: slides are made of chapters")
    for part in chapter.select(FOLDED):
        part.decompose()
    for link in chapter.find_all("a", href=re.compile("^#")):
        link["href"] = address + link["href"]
    front = [part for part in chapter.find_all(recursive=False) if part.name != "section"]
    title, figures = chapter.find("h1"), [part for part in front if part.name == "figure"]
    lead = [part for part in front if part.name == "p"][:1]
    findings = [part for part in front if "findings" in part.get("class", ())]
    made = [{"heading": "", "body": "".join(map(str, [title, *lead]))}]
    made += [{"heading": "", "body": str(part)} for part in figures[:1]]
    made += [{"heading": "Findings", "body": str(part)} for part in findings]
    for name, heading in SECTIONS.items():
        if section := chapter.find("section", id=name):
            blocks = [part for part in section.find_all(recursive=False) if part.name != "h2"]
            made += [{"heading": heading, "body": "".join(map(str, blocks))} for blocks in packed(blocks)]
    return title.get_text(), "\n".join(map(str, soup.head.select("link[rel=stylesheet]"))), made


def packed(blocks):
    """Blocks of a section on as few slides as have room, in order."""
    sheets, room = [], 0
    for block in blocks:
        pictures, rows = len(block.select("svg.drawing, img")), len(block.select("tr"))
        size = PICTURE * pictures + ROW * rows + FORMULA * len(block.select("div.formula"))
        size += 0 if rows else len(block.get_text())
        if not sheets or size > room:
            sheets.append([])
            room = ROOM
        sheets[-1].append(block)
        room -= size
    return sheets


def write(page):
    """Write the slides beside the page of a chapter."""
    title, head, made = slides(page.read_text("utf-8"), page.name)
    shown = TEMPLATES.get_template("slides.html").render(title=title, head=head, slides=made)
    page.with_name(f"{page.stem}-slides.html").write_text(shown, "utf-8")
