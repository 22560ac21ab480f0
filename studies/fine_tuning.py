"""Fine-tune a pretrained transformer on film reviews by the papers' step rules.

:mod:`studies.fine_tuning_plan` says what runs are made and what for.
"""

import math
from typing import NamedTuple

import torch
from torch.nn.functional import softplus

from studies import archives, fine_tuning_plan, minilm, provenance
from studies.archives import as_lists
from studies.networks.measures import share_that_counts

STUDY = "fine-tuning"
SPLIT = (8000, 1200, 1405)  # to train on, held out, to test on
FIXED = 2000  # of those trained on, for losses and attention
LENGTH, BATCH = 32, 32
ALIKE = 25  # batches of like length are cut from so many together
STEPS = SPLIT[0] // BATCH  # in an epoch
CHECKS = STEPS // 2  # steps from one check to the next
MEASURED = ("at", "loss", "right", "held", "test", "tokens", "mass", "norms")
DIGITS = 5  # that a record keeps
WARM = 0.1  # of the steps, over which the step size rises


class Data(NamedTuple):
    """What the first layer receives of each snippet, its places, words of the lexicon, and labels 1 and -1."""

    states: torch.Tensor
    there: torch.Tensor
    marked: torch.Tensor
    labels: torch.Tensor
    rows: tuple


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
        "batches": as_lists(losses, DIGITS), "shares": shares(now), "added": shares(added)
    }  # fmt: skip


def shares(weights):
    """Shares of the entries of matrices that count, by kind of matrix and layer."""
    return {
        kind: [
            as_lists(share_that_counts(weights[f"encoder.layer.{k}.{name}.weight"].flatten()), DIGITS)
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
        "loss": as_lists(found["fixed"][0], DIGITS),
        "right": as_lists(found["fixed"][1], DIGITS),
        "held": as_lists(torch.stack(found["held"]), DIGITS),
        "test": as_lists(torch.stack(found["test"]), DIGITS),
        "tokens": as_lists(torch.cat(tokens, 1).mean((1, 2)), DIGITS),
        "mass": as_lists(torch.cat(mass, 1).mean((1, 2)), DIGITS),
        "norms": as_lists(key_query_norms(weights), DIGITS),
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


def make_all(only=""):
    """Make the runs of the plan that are not recorded yet, one after the other, of all rules or of those named."""
    if unknown := set(only.split()) - fine_tuning_plan.LOWEST.keys():
        raise ValueError(f"ONLY has {sorted(unknown)[0]!r}: use {', '.join(fine_tuning_plan.LOWEST)}")
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)  # or second moments and tenth powers slow every step
    code, data, start = provenance.code_now(), *reviews()
    files = archives.files("film-reviews") | archives.files("minilm")
    while (run := fine_tuning_plan.next_run(provenance.runs_of(STUDY), only.split())) is not None:
        name, settings = run
        print(f"{STUDY}, {name}", flush=True)
        began, path = provenance.clocks(), provenance.FOLDER / STUDY / f"{name}.json"
        seconds = provenance.write_run(path, settings, fine_tune(data, start, **settings), began, files, code)
        print(f"{path}, {seconds} s: commit it", flush=True)
