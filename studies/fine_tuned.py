"""Rows on the night of fine-tuning: what :mod:`studies.fine_tuning_plan` was to say, from its records.

Differences are paired by seed. Where two runs are compared at equal loss, it is the lowest that both reach, and what a
run measures there is interpolated linearly in log loss between the two checks around the first crossing.
"""

import math

import torch

from lib.intervals import mean_interval, median, median_interval

EPOCH = 250  # steps
NEVER = 10.0  # stands for no limit of a log2 of a ratio of steps
WEIGHTS = "query", "key", "value"
NAMES = {"sgd": "SGD", "normalised": "normalised SGD"}
MARGIN = 1.5  # points of right answers that count as equal


def runs(records, rule, change=""):
    """What the runs of three epochs of a rule found, by seed; ``change`` is "permuted" or "frozen"."""
    named = f"{rule}-{change}-" if change else f"{rule}-"
    found = {int(name.removeprefix(named)): record["found"] for name, record in sorted(records.items())
             if name.startswith(named) and name.removeprefix(named).isdigit()}  # fmt: skip
    if diverged := [seed for seed, run in found.items() if run["loss"][-1] is None]:
        raise ValueError(f"{named}{diverged[0]} has no last loss: the plan has no rule for means with such a run")
    return found


def course(records, rule, of):
    """``of(found)``, a list with a number a check, of each run of a rule: (checks, seeds)."""
    return torch.tensor([of(run) for run in runs(records, rule).values()]).double().T


def paired(records, one, other, measure):
    """``measure(found, found)`` of two kinds of runs, (rule, change) each, at the seeds that both have."""
    first, second = runs(records, *one), runs(records, *other)
    return torch.tensor([measure(first[seed], second[seed]) for seed in sorted(first.keys() & second.keys())]).double()


def crossing(found, loss):
    """Check before a run first has a loss, and the share of the way to the next; None if it never has.

    Parameters
    ----------
    found : dict
        Of a run.
    loss : float

    Returns
    -------
    (int, float) or None
    """
    losses = found["loss"]
    for k, now in enumerate(losses):
        if now is not None and now <= loss:
            return (k - 1, math.log(losses[k - 1] / loss) / math.log(losses[k - 1] / now)) if k else (0, 0.0)
    return None


def at_loss(found, loss, of):
    """What ``of(found)``, a list with a number a check, is where a run first has a loss that it reaches."""
    (k, share), values = crossing(found, loss), of(found)
    return values[k] + share * (values[min(k + 1, len(values) - 1)] - values[k])


def lowest(found):
    """Lowest loss of a run at its checks."""
    return min(loss for loss in found["loss"] if loss is not None)


def at_equal_loss(of):
    """A measure for :func:`paired`: the difference of ``of`` at the lowest loss that both runs reach."""

    def measure(one, other):
        loss = max(lowest(one), lowest(other))
        return at_loss(one, loss, of) - at_loss(other, loss, of)

    return measure


def sooner(one, other):
    """log2 of the steps of another run to its last loss over those of one; -NEVER if one never has it."""
    loss = other["loss"][-1]
    if crossing(one, loss) is None:
        return -NEVER
    return math.log2(at_loss(other, loss, steps_of) / at_loss(one, loss, steps_of))


def steps_of(found):
    """Steps of the checks."""
    return found["at"]


def tokens(found):
    """Tokens that [CLS] attends to at each check, mean over layers."""
    return [sum(layers) / len(layers) for layers in found["tokens"]]


def tokens_of_last(found):
    """Tokens that [CLS] attends to in the last layer, which the answer reads, at each check."""
    return [layers[-1] for layers in found["tokens"]]


def words(found):
    """Share of the attention to words that goes to rated ones at each check, mean over layers."""
    return [sum(layers) / len(layers) for layers in found["mass"]]


def right(found):
    """Percent of right answers on test snippets at each check."""
    return [100 * share for _, share in found["test"]]


def new_loss(found):
    """Loss on test snippets at each check."""
    return [loss for loss, _ in found["test"]]


def norm(found):
    """Norm of all key-query matrices together at each check."""
    return [math.hypot(*layers) for layers in found["norms"]]


def change(of):
    """A measure of one run: what it is at the end less what it was at the start."""
    return lambda found: of(found)[-1] - of(found)[0]


def alone(measure):
    """A measure for :func:`paired` of one kind of runs alone."""
    return lambda one, _: measure(one)


def less(measure):
    """A measure for :func:`paired`: that of one run less that of the other."""
    return lambda one, other: measure(one) - measure(other)


def loss_after(epochs):
    """A measure of one run: its loss after so many epochs."""
    return lambda found: found["loss"][found["at"].index(EPOCH * epochs)]


def counted(what):
    """A measure of one run: percent of the entries that count, ``what`` is "shares" or "added"; mean over matrices."""

    def measure(found):
        values = [share for kind in WEIGHTS for share in found[what][kind]]
        return 100 * sum(values) / len(values)

    return measure


def grown(found):
    """Percent by which the norm of all key-query matrices grows."""
    return 100 * (norm(found)[-1] / norm(found)[0] - 1)


def row(make, records, name, text, one, other, measure, *bound, **about):
    """A row on the mean over seeds of a measure of two kinds of runs, (rule, change) each, with its interval."""
    values = paired(records, one, other, measure)
    return make(name, f"{text}, MiniLM", values.mean(), *bound, interval=mean_interval(values), recorded=True,
                note=f"{len(values)} seeds.", **about)  # fmt: skip


def baselines(records, of, text, measure, pairs):
    """Rows without a bound, added when records had been seen; ``pairs`` are names, words and two kinds of runs."""
    return [row(of.baseline, records, name, text.format(said), one, other, measure) for name, said, one, other in pairs]


def steps_row(make, records):
    """The row on steps to SGD's last loss: a median, as runs that never have it count as slower by any factor."""
    steps = paired(records, ("normalised", ""), ("sgd", ""), sooner)
    never = int((steps <= -NEVER).sum())
    return make("night-steps", "Speed-up (log2) of normalised SGD to SGD's last training loss, median, MiniLM",
                median(steps), ">=", 0, interval=median_interval(steps), recorded=True,
                note=f"{len(steps)} seeds; {never} never reach it and count as {-NEVER:g}.")  # fmt: skip


def ahead_row(make, records):
    """The row, without a bound, on how often normalised SGD ends lower: means say little where one run fails."""
    ahead = paired(records, ("normalised", ""), ("sgd", ""), less(loss_after(3))) < 0
    return make("night-ahead", "Share of seeds whose loss after three epochs is lower under normalised SGD than "
                "under SGD, MiniLM", ahead.double().mean(), recorded=True, note=f"{len(ahead)} seeds.")  # fmt: skip


def speed_rows(records, of):
    """Rows on SGD, normalised SGD and Polyak's steps.

    Parameters
    ----------
    records : dict
        Of the study, by name.
    of : dict
        Sources of the rows by item: R8, "Figure 6", "Figure 7" and, of ours, None.
    """
    plain, unit, polyak = ("sgd", ""), ("normalised", ""), ("polyak", "")
    loss = "Training loss of {} less that of SGD after {}"
    fewer, end = "Tokens that [CLS] attends to (mean over layers), {}", less(loss_after(3))
    rows = [
        (of["R8"], "night-loss-1", loss.format("normalised SGD", "one epoch"), unit, plain, less(loss_after(1))),
        (of["R8"], "night-loss-2", loss.format("normalised SGD", "two epochs"), unit, plain, less(loss_after(2))),
        (of["R8"], "night-loss-3", loss.format("normalised SGD", "three epochs"), unit, plain, end),
        (of[None], "night-polyak", loss.format("Polyak's capped steps", "three epochs"), polyak, plain, end),
        (of["R8"], "night-tokens", fewer.format("end less start, normalised SGD"), unit, unit, alone(change(tokens))),
        (of["Figure 6"], "night-tokens-sgd", fewer.format("end less start, SGD"), plain, plain, alone(change(tokens))),
        (of[None], "night-tokens-equal", fewer.format("normalised SGD less SGD at equal loss"), unit, plain,
         at_equal_loss(tokens)),
        *((of[None], f"night-twin-{rule}", fewer.format(f"end less start, less the same with frozen queries, "
           f"{NAMES[rule]}"), (rule, ""), (rule, "frozen"), less(change(tokens))) for rule in ("sgd", "normalised")),
        (of[None], "night-tokens-labels", fewer.format("end less start, less the same with permuted labels, "
         "normalised SGD"), unit, ("normalised", "permuted"), less(change(tokens))),
    ]  # fmt: skip
    made = [row(about.claim, records, *rest, "<=", 0) for about, *rest in rows]
    grow = [
        row(of["Figure 7" if rule == "sgd" else None].claim, records, f"night-norm-{rule}", "Percent by which the norm "
            f"of the key-query matrices grows, {NAMES[rule]}", (rule, ""), (rule, ""), alone(grown), ">=", 1)
        for rule in ("sgd", "normalised")
    ]  # fmt: skip
    pairs = [(f"night-last-{rule}", NAMES[rule], (rule, ""), (rule, "")) for rule in ("sgd", "normalised")]
    last = baselines(records, of[None], "Tokens that [CLS] attends to in the last layer, end less start, {}",
                     alone(change(tokens_of_last)), pairs)  # fmt: skip
    new = [
        (less(lambda one: new_loss(one)[-1]), "night-new", "Loss on new reviews after three epochs, {}"),
        (less(lambda one: right(one)[-1]), "night-right", "Points of right answers after three epochs, {}"),
    ]
    pair = "normalised SGD less SGD", unit, plain
    test = [baselines(records, of[None], text, measure, [(name, *pair)])[0] for measure, name, text in new]
    steps = steps_row(of["R8"].claim, records)
    return [*made[:3], steps, ahead_row(of[None].baseline, records), *made[3:], *grow, *test, *last]


def mirror_rows(records, of):
    """Rows on mirror descent with p = 1.1 and 3, SGD (p = 2) and Adam; arguments as of :func:`speed_rows`.

    Items are M6, "Figure: sentiment" and, of ours, None.
    """
    sparse, two, three = ("l1.1", ""), ("sgd", ""), ("l3", "")
    ahead = "Points of right answers at equal training loss, $p = 1.1$ less {}"
    few = "Percent of entries that count in {}query, key and value matrices, {}"
    rated = "Share of attention to words that goes to rated ones, at the end, $p = 1.1$ less $p = 2$"
    rows = [
        *((of[None if key == "adam" else "M6"], f"night-right-{key}", ahead.format(name), sparse, (rule, ""),
           at_equal_loss(right), ">=")
          for key, name, rule in (("2", "$p = 2$", "sgd"), ("3", "$p = 3$", "l3"), ("adam", "Adam", "adam"))),
        (of["Figure: sentiment"], "night-words", rated, sparse, two, less(lambda one: words(one)[-1]), ">="),
        *((of["Figure: sentiment" if (what, key) == ("shares", "11-2") else None], f"night-{what}-{key}",
           few.format(kind, name), *pair, less(counted(what)), "<=")
          for what, kind in (("shares", ""), ("added", "what training adds to "))
          for key, name, pair in (("11-2", "$p = 1.1$ less $p = 2$", (sparse, two)),
                                  ("2-3", "$p = 2$ less $p = 3$", (two, three)))),
        *((of[None], f"night-labels-{rule}", "Rise of that share, less that with permuted labels, "
           f"{NAMES[rule]}", (rule, ""), (rule, "permuted"), less(change(words)), ">=")
          for rule in ("sgd", "normalised")),
    ]  # fmt: skip
    made = [row(about.claim, records, *rest, 0) for about, *rest in rows]
    points = paired(records, sparse, two, at_equal_loss(right))
    ends = mean_interval(points)
    most = ends.abs().max()
    least = 0.0 if ends[0] <= 0 <= ends[1] else ends.abs().min()
    alike = of[None].claim(
        "night-alike", "Points of right answers at equal training loss between $p = 1.1$ and $p = 2$, size of the "
        "mean difference, MiniLM", points.mean().abs(), "<=", MARGIN, interval=(least, most), recorded=True,
        note=f"{len(points)} seeds.")  # fmt: skip
    typical = of[None].baseline(
        "night-median", "Points of right answers at equal training loss, $p = 1.1$ less $p = 2$, median, MiniLM",
        median(points), interval=median_interval(points), recorded=True, note=f"{len(points)} seeds.")  # fmt: skip
    pairs = [
        (f"night-end-{key}", name, sparse, (rule, ""))
        for key, name, rule in (("2", "$p = 2$", "sgd"), ("3", "$p = 3$", "l3"), ("adam", "Adam", "adam"))
    ]
    ends = baselines(records, of[None], "Points of right answers at the end, $p = 1.1$ less {}",
                     less(lambda one: right(one)[-1]), pairs)  # fmt: skip
    return [*made[:3], alike, typical, *made[3:], *ends]
