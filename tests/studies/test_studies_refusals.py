"""Bad input to studies is refused by one sentence that names argument or value and, behind a colon, a remedy."""

import pytest
import torch
from problems import refuses

from studies import archives, datasets, networks, teachers

GENERATOR = torch.Generator().manual_seed(0)
NETWORK = {"length": 4, "classes": 3, "features": 2}
WEIGHTS = {"w": torch.ones(1, 2, requires_grad=True)}


def train(rows=((0, 1, 2, 3),), seeds=(0,), labels=(0, 0, 0, 0), inputs=None, epochs=1, batch=2, at=()):
    network, parameters = networks.ensemble([0], **NETWORK)
    rule = networks.optimiser("sgd", parameters, 0.1)
    inputs, labels, rows = torch.zeros(4, 4, 2) if inputs is None else inputs, torch.tensor(labels), torch.tensor(rows)
    return networks.train(network, parameters, rule, inputs, labels, rows, seeds, epochs=epochs, batch=batch, at=at)


def key_query_norm(layer):
    network, parameters = networks.ensemble([0], **NETWORK)
    return networks.key_query_norm(parameters, network, layer)


def readers(rows=((0, 1), (1, 0)), places=((0, 1), (2, 3)), values=((1.0, 1.0), (1.0, 1.0)), labels=(1, -1), **about):
    """Train two readers on two inputs of two words."""
    words = torch.tensor(places)[..., None], torch.tensor(values)[..., None]
    about = {"seeds": [0, 1], "step_size": 0.1, "at": [2]} | about
    return networks.train_readers(*words, torch.tensor(labels), torch.as_tensor(rows), **about)


REFUSED = [
    (lambda: archives.images("svhn"), "name 'svhn' is unknown"),
    (lambda: archives.images("mnist", fetch="no"), "fetch is 'no'"),
    (lambda: datasets.marked_sentiment(4, GENERATOR, marks=24), "marks is 24"),
    (lambda: networks.Transformer(**NETWORK, width=9), "width is 9, heads is 2"),
    (lambda: networks.precision("gpu"), "device is 'gpu'"),
    (lambda: networks.patches(torch.zeros(1, 1, 8, 6), 4), "patch size is 4, images are 8 x 6"),
    (lambda: networks.patches(torch.zeros(8, 6), 2), "images has shape (8, 6)"),
    (lambda: networks.optimiser("lion", WEIGHTS, 0.1), "optimiser 'lion' is unknown"),
    (lambda: train(batch=5), "batch is 5, each member has 4 examples"),
    (lambda: train(at=[7]), "at is [7]"),
    (lambda: key_query_norm(5), "layer is 5"),
    (lambda: readers(rows=((0.0, 1.0), (1.0, 0.0))), "rows has type torch.float"),
    (lambda: readers(rows=((0, 2), (1, 0))), "rows contains 2"),
    (lambda: readers(seeds=3), "seeds is 3"),
    (lambda: readers(at=[]), "at is []"),
    (lambda: readers(attention="off"), "attention is 'off'"),
    (lambda: readers(rule="adam", decay=0.5), "decay is 0.5"),
    (lambda: readers(batch=13), "batch is 13, each member has 2 examples"),
    (lambda: teachers.sparse_entries(17, 1, 16, GENERATOR), "entries is 17"),
    (lambda: teachers.taught_choices(torch.ones(1, 15), 5, 5, GENERATOR), "teachers have 15 entries"),
]


@pytest.mark.parametrize(("act", "named"), REFUSED, ids=[named for _, named in REFUSED])
def test_bad_input_is_refused_by_its_name_or_value_and_with_a_remedy(act, named):
    refuses(act, named)


@pytest.mark.parametrize("dtype", [torch.int8, torch.uint8, torch.int16, torch.int32, torch.uint64])
def test_whole_numbers_of_any_type_are_welcome(dtype):
    assert torch.equal(readers().losses, readers(torch.tensor([[0, 1], [1, 0]]).to(dtype)).losses)
