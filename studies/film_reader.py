"""The film reader: one network that is kept whole, and what its heads attend to before, after and beyond its training.

The data are ``studies.recorded.reviews()``: the texts, and the rows of their three parts.
"""

from pathlib import Path

import numpy as np
import torch

import heads
from lib.descent import normalised, run
from lib.geometry import norm
from lib.losses import logistic
from studies import networks

KEPT = Path("book/recorded/film-reader")


def export(data, parts, inputs, **settings):
    """Train readers of film reviews; give the first one, and what its layer receives on the first unseen reviews.

    Arrays come under the names of the files that they go to.
    """
    results = networks.train_texts(data, parts, **settings)
    weights = {name: weight[0] for name, weight in results["weights"].items()}
    network = untrained(data, **settings).float().eval()
    network.load_state_dict(weights)
    rows = parts[2][:inputs]
    ids, seen = data.ids[rows], torch.nn.functional.pad(data.ids[rows] > 0, (1, 0), value=True)

    def answer():
        x = torch.cat([network.cls.expand(len(ids), 1, -1), network.embed(ids)], 1) + network.places
        for block in network.blocks:
            x = block(x, src_key_padding_mask=~seen)
        logits = network.head(network.norm(x[:, 0]))
        return logits[:, 1] - logits[:, 0]

    tokens, slopes = heads.record(network.blocks[-1].self_attn, answer)
    _, maps = networks.apply(network, results["weights"], ids)
    texts = np.array([["[CLS]", *(["", "?", *data.vocabulary][k] for k in row)] for row in ids])
    layer = {
        "tokens": tokens,
        "readout": slopes[:, 0],
        "attention": maps[0, :, -1],
        "labels": 2 * data.labels[rows] - 1,
    }
    arrays = {name: value.detach().numpy() for name, value in (layer | {"mask": seen}).items()} | {"texts": texts}
    files = {"model.npz": {name: weight.numpy() for name, weight in weights.items()}, "reviews.npz": arrays}
    return {"right": results["right"][0], "matrices": results["matrices"]} | files


def follow(data, parts, inputs, iterations, steps_a_length, **settings):
    """What [CLS] attends to in the reviews that are kept: before training, after it, and after a head trains alone.

    Alone, a head's key-query matrix takes normalised steps, ``steps_a_length`` of which are as long as it is, on the
    scores of the trained network. Training with a step of 0 gives the weights before training.

    Arrays ``before``, ``after``, ``alone`` and ``scores`` have the shape (reviews, heads, tokens). ``praise`` is the
    probability that the trained network gives to praise, (reviews,), and ``without`` the same if the k-th word counts
    as a rare one, (reviews, words).
    """
    network, ids = untrained(data, **settings).float(), data.ids[parts[2][:inputs]]
    start = networks.train_texts(data, parts[:2], step_size=0.0, **settings)["weights"]
    trained = {name: weight[None] for name, weight in heads.read_state(KEPT / "model.npz").items()}
    (_, before), (answers, after) = (networks.apply(network, weights, ids) for weights in (start, trained))
    alone, scores = [], []
    for head in range(settings["heads"]):
        files = KEPT / "model.npz", KEPT / "reviews.npz"
        problem, theta, _ = heads.file_problem(*files, head=head, heads=settings["heads"])
        rule = normalised((norm(theta) / steps_a_length).item())
        alone.append(problem.attention(run(problem, logistic, theta, rule, iterations, [iterations]).theta[-1]))
        scores.append(problem.scores)
    rare = torch.eye(ids.shape[1], dtype=torch.bool) & (ids > 0)[:, None]
    without, _ = networks.apply(network, trained, ids[:, None].masked_fill(rare, 1).flatten(0, 1))
    arrays = {"before": before[0, :, -1], "after": after[0, :, -1]}
    arrays |= {"alone": torch.stack(alone, 1), "scores": torch.stack(scores, 1), "praise": praise(answers[0])}
    arrays["without"] = praise(without[0]).view_as(ids)
    return {"attention.npz": {name: value.detach().float().numpy() for name, value in arrays.items()}}


def untrained(data, width, depth, heads, hidden, **_):
    """A transformer that reads these texts."""
    sizes = {"width": width, "depth": depth, "heads": heads, "hidden": hidden}
    return networks.Transformer(data.ids.shape[1], 2, len(data.vocabulary) + 2, words=True, **sizes)


def praise(logits):
    """Probability of the second class."""
    return logits.softmax(-1)[..., 1]
