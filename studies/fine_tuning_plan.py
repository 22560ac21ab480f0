"""The plan of the night of fine-tuning, of two cores, and which of its runs comes next.

all-MiniLM-L6-v2 reads the snippets of film reviews, cut to 32 word pieces; a linear head on what [CLS] is after the
last layer says by logistic loss whether a snippet praises. All matrices, biases and gains of the six layers train, the
embeddings do not. No dropout, no weight decay, no momentum but Adam's; float32, one thread. Batches have 32 snippets of
like length; 8,000 snippets are trained on for three epochs, 750 steps. All rules have one schedule: the step size rises
over the first tenth of the steps and then falls to zero, both linearly. Polyak's step is the batch's loss over twice
the square of its gradient's length, but at most a longest step, which is tuned. Mirror descent with p = 1.1 and 3 is
that of psi = |w|_p^p / p on all that trains; SGD is p = 2.

*Step sizes.* A step size is judged by the loss on 2,000 fixed snippets of those trained on, after an epoch with a
schedule of its own. Six, each twice the one before, run on seed 0; if the best is at an end of its list, the list grows
at this end, at most four times. Then the two neighbours of the best by sqrt 2 run on seed 0, and all three on seed 1.
Seed 9000 and every second one after it train with the best of these three on seed 0, the others with the best on seed
1: so what seeds leave open of the choice is in every interval. A run that diverges is the worst.

*Runs.* Seeds 9000 to 9004 of every rule, then the controls, then 9005 to 9009 of SGD, normalised SGD and p = 1.1. The
controls are SGD and normalised SGD on seeds 9000 to 9002, with permuted labels, and with query matrices that do not
train, with the step sizes of their seeds. A seed draws the head's weights and the batches, the same for all rules.

*What the rows will say*, fixed before the first run; of step sizes nothing had been tried. The papers train such
networks on other texts (BERT on MNLI and Civil Comments; transformers from scratch on IMDb), so claims of theirs are
seen, or not seen, in miniature. Differences are paired by seed; the 95 % interval of their mean decides, unless a
median is named. Losses and attention are those on the 2,000 fixed snippets, accuracy that on 1,405 test snippets.

Paper 2: (R8) normalised SGD's loss less SGD's is at most 0, after one, two and three epochs: three rows. Normalised SGD
reaches SGD's final loss in fewer steps than SGD: the median of log2 of the ratio is above 0; a normalised run that does
not reach it counts as slower by any factor; log losses are interpolated between checks. Attention concentrates: the
number of tokens that [CLS] attends to (one over the sum of squares of its shares, mean over layers, heads and snippets)
is lower at the end of normalised SGD than before it. (R6) Polyak's loss less SGD's is at most 0 after three epochs.
Ours: at the lowest loss that both reach, normalised SGD attends to at most as many tokens as SGD; normalised SGD lowers
that number more with true labels than with permuted ones.

Paper 3: (M6) p = 1.1 less p = 2, p = 3 and Adam in accuracy, at the lowest loss that both reach, is at least 0: three
rows. The share of [CLS]'s attention to word pieces that goes to words of the lexicon, mean over layers and heads, is at
least as large with p = 1.1 as with p = 2, at the end. In the query, key and value matrices of all layers a smaller
share of the entries counts, (|w|_1 / |w|_2)^2 over their number, with p = 1.1 than with p = 2, and with p = 2 than with
p = 3: two rows. Ours: accuracies of p = 1.1 and p = 2 differ by less than 1.5 points at equal loss; the same two rows
on what training adds to the matrices; with true labels the share on words of the lexicon rises more than with permuted
ones, for SGD and for normalised SGD.

Paper 1: (the sentence on Figures 6 and 7) by the end of SGD the norm of the key-query matrices, root of the sum of
squares over layers and heads, grows by at least 1 %, and [CLS] attends to fewer tokens. Ours: it loses more tokens than
its twin whose queries do not train. The same for normalised SGD.

*What we expect.* Normalised SGD is ahead of SGD after one epoch and undecided after three, Polyak is not ahead, Adam
has the lowest loss. The three p have equal accuracy within 1.5 points, and none is clearly better. Sparsity: seen in
what training adds, by less than a hundredth in the matrices. The key-query norm grows by less than 1 %; tokens fall,
nearly as much with frozen queries; true labels turn attention to rated words.

`make record NAME=fine-tuning` makes the next run that is not there, until none is left; ONLY="adam l3" takes these
rules alone, so that two processes may share the work.
"""

import math

LOWEST = {"sgd": 0.02, "normalised": 0.01, "polyak": 0.05, "adam": 2e-5, "l1.1": 0.02, "l3": 2e-4}
TRIALS, LONGER = 6, 4  # step sizes of each rule's list, and by how many it may grow
SEEDS, MORE, CONTROLS = range(9000, 9005), range(9005, 9010), range(9000, 9003)
EPOCHS = 3  # of a run that is not for tuning


def next_run(known, only=()):
    """Name and settings of the next run of the plan, None if all are made; ``known`` are the records by name."""
    rules = [rule for rule in LOWEST if not only or rule in only]
    for rule in rules:
        for name, settings in tuning(rule, known):
            if name not in known:
                return name, settings
    for name, settings in trainings(rules):
        if name not in known:
            place = chosen(settings["rule"], settings["seed"] % 2, known)
            return name, settings | {"step_size": step_size(settings["rule"], place)}
    return None


def trainings(rules):
    """Runs of three epochs in their order, without step sizes."""
    wanted = [(rule, seed, {}) for seed in SEEDS for rule in LOWEST]
    for seed in CONTROLS:
        for change in ("permuted", "frozen"):
            wanted += [(rule, seed, {change: True}) for rule in ("sgd", "normalised")]
    wanted += [(rule, seed, {}) for seed in MORE for rule in ("sgd", "normalised", "l1.1")]
    for rule, seed, change in wanted:
        if rule in rules:
            name = "-".join([rule, *change, str(seed)])
            yield name, {"rule": rule, "seed": seed, "epochs": EPOCHS} | change


def tuning(rule, known):
    """Runs that tune a rule, as far as the records say which come next."""

    def run(place, seed):
        return tuning_name(rule, place, seed), {"rule": rule, "seed": seed, "epochs": 1, "step_size": size(place)}

    def size(place):
        return step_size(rule, place)

    places = list(range(0, 2 * TRIALS, 2))
    yield from (run(place, 0) for place in places)
    for _ in range(LONGER):
        best = best_of(rule, places, 0, known)
        if best not in (places[0], places[-1]):
            break
        places = [best - 2, *places] if best == places[0] else [*places, best + 2]
        yield run(places[0 if best == places[1] else -1], 0)
    best = best_of(rule, places, 0, known)
    yield from (run(place, seed) for seed in (0, 1) for place in (best - 1, best, best + 1))


def tuning_name(rule, place, seed):
    """Name of a run that tries a step size: its place in the rule's list, in steps of sqrt 2."""
    return f"tuning-{rule}-{place:+d}-{seed}"


def step_size(rule, place):
    """Step size at a place of a rule's list."""
    return float(f"{LOWEST[rule] * 2 ** (place / 2):.4g}")


def best_of(rule, places, seed, known):
    """Place of the least loss after an epoch, the first of equal ones; None while runs are missing."""
    names = [tuning_name(rule, place, seed) for place in places]
    if not all(name in known for name in names):
        return None
    losses = [known[name]["found"]["loss"][-1] for name in names]
    return places[min(range(len(places)), key=lambda k: math.inf if losses[k] is None else losses[k])]


def chosen(rule, seed, known):
    """Place of the step size that a tuning seed chooses, of the best of its list and its neighbours."""
    tried = {name: settings for name, settings in tuning(rule, known) if settings["seed"] == 1}
    places = sorted(int(name.rsplit("-", 1)[0].removeprefix(f"tuning-{rule}-")) for name in tried)
    return best_of(rule, places, seed, known)
