"""Fine-tune a pretrained transformer on film reviews by the papers' step rules: one night of two cores.

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
from typing import NamedTuple

import torch
from torch.nn.functional import softplus

from studies import archives, minilm, provenance
from studies.networks.measures import share_that_counts

STUDY = "fine-tuning"
LOWEST = {"sgd": 0.02, "normalised": 0.01, "polyak": 0.05, "adam": 2e-5, "l1.1": 0.02, "l3": 2e-4}
TRIALS, LONGER = 6, 4  # step sizes of each rule's list, and by how many it may grow
SEEDS, MORE, CONTROLS = range(9000, 9005), range(9005, 9010), range(9000, 9003)
SPLIT = (8000, 1200, 1405)  # to train on, held out, to test on
FIXED = 2000  # of those trained on, for losses and attention
LENGTH, BATCH, EPOCHS = 32, 32, 3
ALIKE = 25  # batches of like length are cut from so many together
STEPS = SPLIT[0] // BATCH  # in an epoch
CHECKS = STEPS // 2  # steps from one check to the next
MEASURED = ("at", "loss", "right", "held", "test", "tokens", "mass", "norms")
WARM = 0.1  # of the steps, over which the step size rises


class Data(NamedTuple):
    """What the first layer receives of each snippet, its places, words of the lexicon, and labels 1 and -1."""

    states: torch.Tensor
    there: torch.Tensor
    marked: torch.Tensor
    labels: torch.Tensor
    rows: tuple


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


def reviews():
    """The snippets in the order of the other studies, and what [CLS] and the words are before the first layer."""
    known, model = archives.film_reviews(), minilm.read()
    order = torch.randperm(sum(SPLIT), generator=torch.Generator().manual_seed(0))
    texts = minilm.as_pieces([known.texts[k] for k in order], model.pieces, LENGTH, known.lexicon)
    labels = torch.where(known.ratings[order] > 0, 1.0, -1.0)
    states = torch.cat([minilm.embedded(model.weights, ids) for ids in texts.ids.split(500)])
    train, held, test = torch.arange(sum(SPLIT)).split(SPLIT)
    rows = {"train": train, "fixed": train[:FIXED], "held": held, "test": test}
    return Data(states, texts.there, texts.marked, labels, rows), trained_weights(model.weights)


def trained_weights(weights):
    """Weights of the layers, to which :func:`fine_tune` adds its head."""
    return {name: weight for name, weight in weights.items() if name.startswith("encoder.")}


def fine_tune(data, start, rule, seed, epochs, step_size, permuted=False, frozen=False):
    """Train from the pretrained weights, and measure on the way.

    Parameters
    ----------
    data, start : Data, dict of Tensor
        Of :func:`reviews`.
    rule : str
        "sgd", "normalised", "polyak", "adam", "l1.1" or "l3".
    seed : int
        Of the head's weights, the batches and, if ``permuted``, the labels.
    epochs : int
    step_size : float
        The largest of the schedule; of Polyak's rule the longest.
    permuted, frozen : bool
        Permute the labels that are trained on; do not train query matrices and their biases.

    Returns
    -------
    dict
        Lists: ``at``, the steps of the checks, and at each ``loss``, ``right``, ``tokens`` and ``mass`` of the fixed
        snippets, ``held`` and ``test`` (loss, share right) and ``norms`` of key-query matrices by layer; ``batches``,
        the loss of each batch before its step; ``shares`` and ``added``, by matrix and layer, of the entries that count
        at the end in the matrices, and in what training added.
    """
    draw = torch.Generator().manual_seed(seed)
    head = {"head.weight": torch.randn(minilm.WIDTH, generator=draw) * 0.02, "head.bias": torch.zeros(())}
    weights = {name: weight.clone() for name, weight in (start | head).items()}
    moving = [name for name in weights if not (frozen and "attention.self.query" in name)]
    for name in moving:
        weights[name].requires_grad_()
    labels = data.labels.clone()
    if permuted:
        learned = data.rows["train"]
        own = torch.Generator().manual_seed(seed + 1_000_000)  # batches stay those of the seed
        labels[learned] = labels[learned][torch.randperm(len(learned), generator=own)]
    move, total = mover(rule, [weights[name] for name in moving]), epochs * STEPS
    checks = range(0, total + 1, CHECKS) if epochs > 1 else [total]
    found, losses = [measure(data, labels, weights, 0)] if 0 in checks else [], []
    for step, rows in enumerate(batches(data.there, epochs, draw)):
        loss = mean_loss(data, labels, weights, rows)
        slopes = torch.autograd.grad(loss, [weights[name] for name in moving])
        losses.append(loss.item())
        if not math.isfinite(losses[-1]):
            break
        with torch.no_grad():
            move(slopes, step_size, schedule(step, total), losses[-1])
        if step + 1 in checks:
            found.append(measure(data, labels, weights, step + 1))
    if not math.isfinite(losses[-1]):
        found.append(dict.fromkeys(MEASURED) | {"at": len(losses)})
    now, before = ({name: part.detach().double() for name, part in state.items()} for state in (weights, start))
    added = {name: now[name] - part for name, part in before.items()}
    return {name: [check[name] for check in found] for name in MEASURED} | {
        "batches": rounded(losses), "shares": shares(now), "added": shares(added)
    }  # fmt: skip


def shares(weights):
    """Shares of the entries of matrices that count, by kind of matrix and layer."""
    return {
        kind: [
            rounded(share_that_counts(weights[f"encoder.layer.{k}.{name}.weight"].flatten()))
            for k in range(minilm.LAYERS)
        ]
        for kind, name in minilm.MATRICES.items()
    }


def batches(there, epochs, draw):
    """Rows of each batch: of so many together that are drawn, those of like length, in an order that is drawn."""
    lengths, learned = there.sum(1), SPLIT[0]
    for _ in range(epochs):
        order = torch.randperm(learned, generator=draw)
        groups = [group[lengths[group].argsort(stable=True)] for group in order.split(ALIKE * BATCH)]
        rows = torch.cat(groups).view(-1, BATCH)
        yield from rows[torch.randperm(len(rows), generator=draw)]


def schedule(step, total):
    """Share of the step size that a step has."""
    return min((step + 1) / (WARM * total), (total - step) / (total - WARM * total))


def answers(data, weights, rows):
    """Logits of snippets, what [CLS] attends to (layers, N, heads, T), and the places up to the longest snippet."""
    there = data.there[rows]
    there = there[:, : int(there.sum(1).max())]
    states, attention = minilm.read_by_cls(weights, data.states[rows, : there.shape[1]], there)
    return states @ weights["head.weight"] + weights["head.bias"], attention, there


def mean_loss(data, labels, weights, rows):
    """Mean logistic loss of a batch."""
    return softplus(-labels[rows] * answers(data, weights, rows)[0]).mean()


@torch.no_grad()
def measure(data, labels, weights, step):
    """What :func:`fine_tune` notes at a check."""
    logits, tokens, mass = {}, [], []
    for part in ("fixed", "held", "test"):
        rows = data.rows[part]
        rows = rows[data.there[rows].sum(1).argsort(stable=True)]
        logits[part] = torch.empty(len(rows)), rows
        for at, some in enumerate(rows.split(100)):
            logits[part][0][100 * at : 100 * at + len(some)], attention, there = answers(data, weights, some)
            if part == "fixed":
                tokens.append(1 / attention.square().sum(-1))
                marked = data.marked[some, : there.shape[1]]
                words = there & ~edges(there)
                given = (attention * marked[:, None]).sum(-1) / (attention * words[:, None]).sum(-1)
                mass.append(given[:, marked.any(1)])
    found = {part: (softplus(-labels[rows] * own).mean(), (labels[rows] * own > 0).float().mean())
             for part, (own, rows) in logits.items()}  # fmt: skip
    return {
        "at": step,
        "loss": rounded(found["fixed"][0]),
        "right": rounded(found["fixed"][1]),
        "held": rounded(torch.stack(found["held"])),
        "test": rounded(torch.stack(found["test"])),
        "tokens": rounded(torch.cat(tokens, 1).mean((1, 2))),
        "mass": rounded(torch.cat(mass, 1).mean((1, 2))),
        "norms": rounded(key_query_norms(weights)),
    }


def edges(there):
    """Where [CLS] and [SEP] stand."""
    ends = torch.zeros_like(there)
    ends[:, 0] = True
    return ends.scatter(1, there.sum(1, keepdim=True) - 1, True)


def key_query_norms(weights):
    """Frobenius norm of the key-query matrices of all heads of a layer together, shape (layers,)."""
    norms = []
    for k in range(minilm.LAYERS):
        query, key = (
            weights[f"encoder.layer.{k}.{minilm.MATRICES[kind]}.weight"].unflatten(0, (minilm.HEADS, -1)).double()
            for kind in ("query", "key")
        )
        norms.append(torch.linalg.vector_norm(query.mT @ key))
    return torch.stack(norms)


def mover(rule, weights):
    """A function that moves the weights along slopes: of the slopes, the step size, its schedule and the loss."""
    if rule == "adam":
        adam = torch.optim.Adam(weights, 1.0, fused=True)

        def move(slopes, size, factor, loss):
            adam.param_groups[0]["lr"] = size * factor
            for weight, slope in zip(weights, slopes, strict=True):
                weight.grad = slope
            adam.step()

        return move
    if rule in ("l1.1", "l3"):
        power = float(rule.removeprefix("l")) - 1
        mirrored = [signed_power(weight.detach(), power) for weight in weights]

        def move(slopes, size, factor, loss):
            torch._foreach_add_(mirrored, slopes, alpha=-size * factor)
            for weight, mirror in zip(weights, mirrored, strict=True):
                weight.copy_(signed_power(mirror, 1 / power))

        return move

    def move(slopes, size, factor, loss):
        length = torch.stack(torch._foreach_norm(slopes)).norm().item()
        sizes = {"sgd": size, "normalised": size / length, "polyak": min(loss / (2 * length**2), size)}
        torch._foreach_add_(weights, slopes, alpha=-sizes[rule] * factor)

    return move


def signed_power(values, power):
    """sign(w) |w|^power."""
    return values.sign() * values.abs() ** power


def rounded(values):
    """Numbers with five digits, None where one is not finite."""
    if isinstance(values, list):
        return [rounded(value) for value in values]
    if isinstance(values, torch.Tensor):
        return rounded(values.tolist())
    return float(f"{values:.5g}") if math.isfinite(values) else None


def make_all(only=""):
    """Make the runs of the plan that are not recorded yet, one after the other, of all rules or of those named."""
    if unknown := set(only.split()) - LOWEST.keys():
        raise ValueError(f"ONLY has {sorted(unknown)[0]!r}: use {', '.join(LOWEST)}")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # or second moments and tenth powers slow every step
    code, data, start = provenance.code_now(), *reviews()
    files = archives.files("film-reviews") | archives.files("minilm")
    while (run := next_run(provenance.runs_of(STUDY), only.split())) is not None:
        name, settings = run
        print(f"{STUDY}, {name}", flush=True)
        began, path = provenance.clocks(), provenance.FOLDER / STUDY / f"{name}.json"
        seconds = provenance.write_run(path, settings, fine_tune(data, start, **settings), began, files, code)
        print(f"{path}, {seconds} s: commit it", flush=True)
