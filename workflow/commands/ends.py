"""Values at the ends of the ranges of a chapter's parameters, and what a run there says otherwise than the defaults."""

import ast
import math
import re

from workflow.book import parameters
from workflow.book.catalogue import BookError
from workflow.run.chapter import fit

LEFT_OUT = ("seed", "folder", "device", "layer", "head", "heads", "causal")  # of a seed, a place, or a file of the user


def sets_of(known):
    """Sets of values, the defaults first: each parameter at each end of its range, the others at their defaults.

    A parameter whose range names the one at its end goes to the end of what is left to it. Of a word all choices are
    ends, of a list the least and the most entries and the smallest and the largest entry.
    """
    defaults = {name: default for name, (_, default, _) in known.items()}
    sets = [{}]
    for name in known:
        if name not in LEFT_OUT:
            sets += [_fitted({name: value}, known, defaults) for value in _ends(name, known, defaults)]
    return sets


def refused(known, values):
    """Sentence with which the ranges of other parameters refuse a set; None where they take it."""
    try:
        fit(known, values)
    except BookError as error:
        return str(error)
    return None


def _ends(name, known, in_force):
    """Values of a parameter at the ends of its range, without its default."""
    kind, default, text = known[name]
    if kind == "bool":
        return [not default]
    if kind == "str":
        return [word for word in re.split(", ", parameters.range_of(kind, text).removeprefix("or ")) if word]
    if kind == "list":
        return [value for clause, high, at in _limits(text, in_force) if (value := _list(default, clause, high, at))]
    ends = [parameters.TYPES[kind](at) for _, _, at in _limits(text, in_force)]
    return [value for value in dict.fromkeys(ends) if value != default]


def _limits(text, in_force):
    """Clause, side and value of each end of a range that a parameter may take; one that is excluded is no end."""
    for clause in parameters.CLAUSE.finditer(text):
        sides = [(False, clause["low"]), (True, clause["high"])]
        if clause["relation"]:
            sides = [(clause["relation"] == "at most", clause["bound"])] * clause["relation"].startswith("at ")
        for high, bound in sides:
            parts = (in_force[part] if part in in_force else ast.literal_eval(part) for part in bound.split(" * "))
            yield clause, high, math.prod(parts)


def _list(default, clause, high, at):
    """List of which one entry, or the number of entries, is at an end; None where the default is there."""
    if clause["each"]:
        replaced = max(default) if high else min(default)
        changed = [type(default[0])(at) if entry == replaced else entry for entry in default]
    else:
        more = (entry for entry in range(min(default), max(default) + int(at)) if entry not in default)
        changed = sorted([*default, *(next(more) for _ in range(int(at) - len(default)))])[: int(at)]
    return changed if changed != default else None


def _fitted(values, known, defaults):
    """Set of values, with those whose range it narrows at the end of what is left to them."""
    fitted = dict(values)
    for other, (kind, default, text) in known.items():
        if kind in ("int", "float") and other not in values:
            limits = list(_limits(text, defaults | fitted))
            low = max((at for _, high, at in limits if not high), default=default)
            high = min((at for _, high, at in limits if high), default=default)
            if not low <= default <= high:
                fitted[other] = parameters.TYPES[kind](min(max(default, low), high))
    return fitted


def turned(outcome, first):
    """Verdicts of a run that are not those of the defaults, in words; "" where all are the same."""
    before = {row["name"]: row["verdict"] for row in first["rows"]}
    now = {row["name"]: row["verdict"] for row in outcome["rows"]}
    words = [f"{name} {now.get(name, 'is gone')}" for name in before | now if now.get(name) != before.get(name)]
    return ", ".join(words)
