"""Runs on published data that no build makes: what they are, and how one is made.

A study is a list of runs. Each leaves ``book/recorded/<study>/<run>.json``, with all that a rerun needs; a run whose
file is there is not made again. Step sizes come from runs called ``tuning-...``, on a seed of their own, by data that
nothing else looks at; every method has the same number of trials, and its best must not lie at an end of its list.

What the rows will say was fixed before the first run. Film reviews: on unseen reviews p = 1.1 is right at least as
often as p = 1.5, 2, 3 and Adam; it gives words of the lexicon at least as much attention; and in its query, key and
value matrices at most as large a share of the entries counts.
"""

import math
from typing import NamedTuple

RULES = ("l1.1", "adam", "l2", "l1.5", "l3")
LOWEST = {"l1.1": 0.01, "adam": 0.0004, "l2": 0.0125, "l1.5": 0.02, "l3": 0.0005}
TRIALS = 7  # of each method, every step size twice the one before
SEEDS = range(6000, 6008)
SPLIT = (8000, 1200, 1405)  # film reviews to train on, to choose by, to test on
SMALL = {"width": 16, "depth": 1, "heads": 2, "hidden": 32, "epochs": 10, "batch": 32}


class Run(NamedTuple):
    """A run: its settings, and the run that chooses its step size, if one does."""

    settings: dict
    tuned_by: str | None = None


def _film_reviews():
    found = {}
    for rule in RULES:
        steps = [LOWEST[rule] * 2**k for k in range(TRIALS)]
        found[f"tuning-{rule}"] = Run({"rule": rule, "step_size": steps, "seeds": [0] * TRIALS} | SMALL)
        found[rule] = Run({"rule": rule, "seeds": [*SEEDS]} | SMALL, f"tuning-{rule}")
    for change in ({"permuted": True}, {"attention": "alike"}):
        for rule in RULES[:3]:
            name = f"{rule}-{'permuted' if 'permuted' in change else 'alike'}"
            found[name] = Run(found[rule].settings | change, f"tuning-{rule}")
    return found


STUDIES = {"film-reviews": _film_reviews}


def make(study, run, record):
    """Make a run, whose tuning is in ``record``; return its settings, with the step size, and what it found."""
    import torch  # slow

    settings = dict(run.settings)
    if run.tuned_by:
        settings["step_size"] = chosen(record, run.tuned_by)
    torch.set_num_threads(1)
    return settings, {"film-reviews": _read_reviews}[study](**settings)


def chosen(record, name):
    """Return the step size with the most right answers on held-out data; ValueError if it is at an end of its list."""
    found, steps = record[name]["found"], record[name]["settings"]["step_size"]
    right = [max(row[k] for row in found["held"]) for k in range(len(steps))]
    best = right.index(max(right))
    if best in (0, len(steps) - 1):
        raise ValueError(f"{name}: the best step size, {steps[best]:g}, is at an end of its list: move the list")
    return steps[best]


def _read_reviews(**settings):
    import torch

    from lib import archives, networks

    reviews = archives.film_reviews()
    order = torch.randperm(sum(SPLIT), generator=torch.Generator().manual_seed(0))
    texts, labels = [reviews.texts[k] for k in order], (reviews.ratings[order] > 0).long()
    data = networks.as_texts(texts, labels, reviews.lexicon, learned=SPLIT[0])
    parts = torch.arange(len(texts)).split(SPLIT)
    seeds = settings.pop("seeds")
    tuning = isinstance(settings["step_size"], list)
    found = networks.train_texts(data, parts[: 2 if tuning else 3], seeds=seeds, **settings)
    if tuning:
        return {name: _short(found[name], 4) for name in ("losses", "held", "epoch")}
    return {name: _short(value, 4) for name, value in found.items()}


def _short(values, digits):
    """Return a tensor as lists of numbers of so many digits, None where one is not finite."""
    if values.ndim:
        return [_short(value, digits) for value in values]
    value = values.item()
    return value if isinstance(value, int) else float(f"{value:.{digits}g}") if math.isfinite(value) else None
