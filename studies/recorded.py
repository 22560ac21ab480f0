"""Runs on published data that no build makes: what they are, and how one is made.

A study is a list of runs. Each leaves ``book/recorded/<study>/<run>.json``, with all that a rerun needs; a run whose
file is there is not made again. Step sizes come from runs called ``tuning-...``, on seeds of their own, by data that
nothing else looks at; every method has the same number of trials, and its best must not lie at an end of its list.

What the rows will say was fixed before the first recorded run. Film reviews: on unseen reviews p = 1.1 is right at
least as often as p = 1.5, 2, 3 and Adam; it gives words of the lexicon at least as much attention; and in its query,
key and value matrices at most as large a share of the entries counts. Maps: on CIFAR-10 the attention map grows
sparser, with no rise of more than a tenth of its fall, and hiding the patches that it attends to costs more than hiding
random ones; the key-query norm grows by at least 1 %. These are the bounds that the digits of figure-6 had before.

Images: on the unseen photographs of CIFAR-10 p = 1.1 is right at least as often as Adam and p = 1.5, 2 and 3; in the
query, key and value matrices of the last block at most as large a share of the entries counts with p = 1.1 as with
Adam, and as with p = 2. Every difference is paired by seed, its bound is 0, and the 95 % interval of its mean decides.
Two to six epochs on the tuning seed had placed the lists of step sizes, so its accuracy on held-out data had been seen
when this was written. Cut to fit the time: patches of 8 x 8, and for each of five seeds 10,000 photographs and 40
epochs; nothing is run with permuted labels or uniform attention. Cut while the first runs were made: p = 1.5 and 3, of
which there was no run yet.

Film reviews, tuned on three seeds instead of one, when all runs above were known and after a reader's report: one of
eight runs of p = 2 had learned nothing, with a step size chosen on one seed, and on other seeds none had. The best step
size has the most right answers on average over the three seeds. For p = 2 two have equally many, 0.1 and 0.4, the one
chosen before; the rule takes the smaller of equal ones, as it always did. Runs whose step size this changed were made
anew; rows and bounds stay as they were. The other studies are still tuned on one seed.
"""

from statistics import fmean, median

import torch

from studies import archives, film_reader, networks, photographs
from studies.archives import Run, as_lists
from studies.word_counts import naive_bayes

LOWEST = {"l1.1": 0.01, "adam": 0.0004, "l2": 0.0125, "l1.5": 0.02, "l3": 0.0005}
LOWEST_IMAGES = {"l1.1": 0.004, "adam": 0.0002, "l2": 0.01}
TRIALS = 7  # of each method, every step size twice the one before
SEEDS = range(6000, 6008)
TUNING_SEEDS = range(3)  # of the film reviews; other studies tune on seed 0
SPLIT = (8000, 1200, 1405)  # film reviews to train on, to choose by, to test on
SMALL = {"width": 16, "depth": 1, "heads": 2, "hidden": 32, "epochs": 10, "batch": 32}
IMAGES = {"patch": 8, "width": 16, "depth": 2, "heads": 2, "hidden": 32, "examples": 10_000, "epochs": 40, "batch": 50}


def _methods(lowest, seeds, sizes, tuning_seeds=(0,)):
    """Every method, and the run that chooses its step size."""
    runs = {}
    for rule, low in lowest.items():
        trials = [(low * 2**k, seed) for seed in tuning_seeds for k in range(TRIALS)]
        steps, own = ([*values] for values in zip(*trials, strict=True))
        runs[f"tuning-{rule}"] = Run({"rule": rule, "step_size": steps, "seeds": own} | sizes)
        runs[rule] = Run({"rule": rule, "seeds": [*seeds]} | sizes, f"tuning-{rule}")
    return runs


def _film_reviews():
    runs = _methods(LOWEST, SEEDS, SMALL, TUNING_SEEDS)
    for change in ({"permuted": True}, {"attention": "alike"}):
        for rule in list(LOWEST)[:3]:
            name = f"{rule}-{'permuted' if 'permuted' in change else 'alike'}"
            runs[name] = Run(runs[rule].settings | change, f"tuning-{rule}")
    return runs | {"naive-bayes": Run({"rule": "naive-bayes"})}


def _images():
    seeds = SEEDS[:5]
    linear = {"rule": "linear", "seeds": [*seeds], "patch": IMAGES["patch"], "examples": IMAGES["examples"]}
    return _methods(LOWEST_IMAGES, seeds, IMAGES) | {"linear": Run(linear | {"epochs": 0, "batch": 0})}


def _maps():
    """One run: one step size, the one that the digits of figure-6 have, so that nothing is tuned."""
    sizes = {"patch": 4, "width": 16, "depth": 2, "heads": 2, "hidden": 32, "examples": 3000, "tests": 1000}
    how = {"step_size": 0.2, "batch": 25, "epochs": 14}
    return {"cifar10": Run({"seeds": [*range(6000, 6005)]} | how | sizes)}


def _film_reader():
    """One run: l2 of the film reviews with the step size it had when tuned on one seed; its first network is kept."""
    return {"l2": Run({"rule": "l2", "seeds": [*SEEDS], "step_size": 0.4, "inputs": 64} | SMALL)}


def _film_reader_attention():
    """One run: what that network attends to at the start of its training and after it, and if a head trains alone."""
    alone = {"iterations": 3000, "steps_a_length": 50}
    one = {"rule": "l2", "seeds": [SEEDS[0]], "inputs": 64} | SMALL
    return {"l2": Run(one | {"epochs": 1} | alone)}


STUDIES = {
    "film-reviews": _film_reviews,
    "images": _images,
    "maps": _maps,
    "film-reader": _film_reader,
    "film-reader-attention": _film_reader_attention,
}


def make(study, run, record):
    """Make a run, whose tuning is in ``record``; return its settings, with the step size, and its results."""
    settings = with_step_size(run, record)
    torch.set_num_threads(1)
    makers = {
        "maps": _train_maps,
        "images": _train_on_cifar10,
        "film-reader": _keep_film_reader,
        "film-reader-attention": lambda **settings: film_reader.follow(*reviews(), **settings),
    }
    return settings, makers.get(study, _read_reviews)(**settings)


def with_step_size(run, record):
    """Settings of a run, with the step size that its tuning in ``record`` chooses, if one does."""
    return run.settings | ({"step_size": chosen(record, run.tuned_by)} if run.tuned_by else {})


def data_of(run):
    """Files that a run reads, each with its published hash."""
    cifar10, digits = "patch" in run.settings, run.settings.get("task") == "images"
    return archives.files("cifar10" if cifar10 else "mnist" if digits else "film-reviews")


def chosen(record, name):
    """The best step size of a list; ValueError if it is at an end of it.

    It has the most right answers on held-out data, on average over its seeds, or came soonest to its loss, in the
    median; a run that did not come there counts with all its steps. Records have four digits: of means that these
    cannot tell apart the smallest step size is best.
    """
    results, tried = record[name]["found"], record[name]["settings"]["step_size"]
    if "steps" in results:
        most = record[name]["settings"]["limit"]
        trials, over_seeds = [-most if count is None else -count for count in results["steps"]], median
    else:
        over_seeds = fmean
        trials = [max(row[k] for row in results["held"]) for k in range(len(tried))]
    steps = [*dict.fromkeys(tried)]
    merits = [over_seeds(merit for step, merit in zip(tried, trials, strict=True) if step == own) for own in steps]
    best = next(k for k, merit in enumerate(merits) if merit >= max(merits) - 1e-4)
    if best in (0, len(steps) - 1):
        raise ValueError(f"{name}: the best step size, {steps[best]:g}, is at an end of its list: move the list")
    return steps[best]


def reviews():
    """All film reviews as numbers of words, in an order drawn once, and the rows of their three parts."""
    known = archives.film_reviews()
    order = torch.randperm(sum(SPLIT), generator=torch.Generator().manual_seed(0))
    texts, labels = [known.texts[k] for k in order], (known.ratings[order] > 0).long()
    data = networks.as_texts(texts, labels, known.lexicon, learned=SPLIT[0])
    return data, torch.arange(len(texts)).split(SPLIT)


def _read_reviews(rule, **settings):
    if rule == "naive-bayes":  # nothing is chosen, so it has no use for the second part
        data, (learned, _, unseen) = reviews()
        answers = naive_bayes(data.ids[learned], data.labels[learned], data.ids[unseen])
        return {"right": [as_lists((answers == data.labels[unseen]).double().mean(), 4)]}
    (data, parts), tuning = reviews(), isinstance(settings["step_size"], list)
    results = networks.train_texts(data, parts[: 2 if tuning else 3], rule, **settings)
    names = ("losses", "held", "epoch") if tuning else results.keys() - {"weights"}
    return {name: as_lists(results[name], 4) for name in results if name in names}


def _keep_film_reader(**settings):
    results = film_reader.export(*reviews(), **settings)
    return results | {name: as_lists(results[name], 4) for name in ("right", "matrices")}


def _train_on_cifar10(**settings):
    return {name: as_lists(value, 4) for name, value in photographs.train_on_cifar10(**settings).items()}


def _train_maps(**settings):
    measured = photographs.train_maps(**settings)
    at, digits = measured.pop("at"), {name: 4 if name.startswith("hiding-") else 5 for name in measured}
    return {"at": at} | {name: as_lists(value, digits[name]) for name, value in measured.items()}
