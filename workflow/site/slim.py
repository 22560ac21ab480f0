"""Take out of the style sheets of the built site what no page and no script of it can use: most of the theme's."""

import re
from itertools import pairwise

import tinycss2

CLASSES, WORDS = re.compile(r'class="([^"]*)"'), re.compile(r"[\w-]+")


def slim(built):
    """Shorten each style sheet of the site."""
    pages = [page.read_text("utf-8") for page in built.rglob("*.html")]
    names = {name for page in pages for listed in CLASSES.findall(page) for name in listed.split()}
    for script in (built / "_static").rglob("*.js"):  # which may give any element a class
        names.update(WORDS.findall(script.read_text("utf-8")))
    for sheet in (built / "_static").rglob("*.css"):
        rules = tinycss2.parse_stylesheet(sheet.read_text("utf-8"), skip_whitespace=True)
        sheet.write_text("".join(needed(rules, names)), "utf-8")


def needed(rules, names):
    """Texts of those rules that apply where elements have no other classes than ``names``."""
    for rule in rules:
        if rule.type == "comment" and not rule.value.startswith("!"):  # that of a licence
            continue
        if rule.type == "qualified-rule":
            selectors = [one for one in split(rule.prelude) if classes(one) <= names]
            if selectors:
                yield f"{','.join(map(text, selectors))}{{{text(rule.content)}}}"
        elif rule.type == "at-rule" and rule.lower_at_keyword in ("media", "supports"):
            inside = tinycss2.parse_rule_list(rule.content, skip_comments=True, skip_whitespace=True)
            if kept := "".join(needed(inside, names)):
                yield f"@{rule.at_keyword}{text(rule.prelude, ' ')}{{{kept}}}"
        else:
            yield rule.serialize()


def split(tokens):
    """Selectors of a list."""
    selectors = [[]]
    for token in tokens:
        if token == ",":
            selectors.append([])
        else:
            selectors[-1].append(token)
    return selectors


def classes(selector):
    """Classes that an element or those around it must have; not those inside of brackets, as of ``:not``."""
    return {name.value for dot, name in pairwise(selector) if dot == "." and name.type == "ident"}


def text(tokens, before=""):
    """Tokens as text without comments."""
    return before + tinycss2.serialize([token for token in tokens if token.type != "comment"]).strip()
