"""Write our text of each statement, and the sentences that we do not test, for somebody who has the printed papers."""

import re
from collections import Counter

from workflow.book.catalogue import chapters, source, text_of
from workflow.book.ledger import claims_of, ledger, register
from workflow.site.markup import filled, link
from workflow.site.scoreboard import SOURCES

BOX = re.compile(
    r"^````\{prf:\w+\} (?P<name>[^\n]+) \([^()\n]+ et al\.\)\n(?P<options>(?::[\w-]+:[^\n]*\n)+)(?P<text>.*?)^````$",
    re.MULTILINE | re.DOTALL,
)


def statements():
    """Each statement in a box of a chapter, with where its text comes from and what rests on it; what is not tested."""
    rows, papers = ledger(), []
    lacked = lacking()
    for paper in register():
        about = {row["chapter"] for row in rows if row["paper"] == paper["arxiv"]}
        here = [chapter for chapter in chapters() if chapter in about]
        listed = [box | {"lacked": lacked.get(chapter, "")} for chapter in here for box in boxes(chapter, rows)]
        claims = [claim for chapter in here for claim in unboxed(chapter, rows)]
        papers.append((paper["title"], listed, claims, paper.get("untested", ())))
    return filled("compare", papers=papers)


def boxes(chapter, rows):
    """Statements of a paper in a chapter: name, text without labels, where it comes from, claims that rest on it."""
    claims = Counter(row["source"] for row in claims_of(rows, "paper") if row["chapter"] == chapter)
    for box in BOX.finditer(text_of(source(chapter))):
        kind = re.search(r"^:class: (\w+)$", box["options"], re.MULTILINE)
        kind = kind[1] if kind else "printed"
        text = re.sub(r"^:label: .*\n", "", box["text"], flags=re.MULTILINE).strip()
        about = {"name": box["name"], "text": text, "kind": kind, "claims": claims[kind]}
        yield about | {"chapter": link(chapter)}


def unboxed(chapter, rows):
    """Restored and recalled claims of a chapter whose statements all come from elsewhere: item, text, kind, chapter."""
    kinds = {"printed"} | {box["kind"] for box in boxes(chapter, rows)}
    for row in claims_of(rows, "paper"):
        if row["chapter"] == chapter and row["source"] not in kinds:
            yield {"item": row["item"], "text": row["statement"], "kind": row["source"], "chapter": link(chapter)}


def lacking():
    """What *What we worked from* says of each chapter: the text that we lacked, and where our version comes from."""
    lines = re.findall(r"^\| (\{doc\}[^|]+) \| (.+) \|$", text_of("book/sources.md"), re.MULTILINE)
    return {chapter: said for listed, said in lines for chapter in re.findall(r"`([^`]+)`", listed)}


def basis():
    """Sentence on how many claims of the papers rest on which text."""
    claims = claims_of(ledger(), "paper")
    counted = Counter(row["source"] for row in claims)
    said = [f"{counted[kind]} rest on {words}" for kind, words in SOURCES.items()]
    return f"We test {len(claims)} claims of the papers: {', '.join(said[:-1])}, and {said[-1]}.\n"
