"""Readers trained by Polyak's steps: SGD where the longest step binds, the rule's formula where it does not."""

import torch
from torch.nn.functional import softplus

from studies import networks, polyak

SIZES = {"heads": 2, "batch": 5, "until": 0.0, "at": [0, 3, 8]}


def task(seeds):
    draw = torch.Generator().manual_seed(0)
    places = torch.randint(12, (20, 6, 1), generator=draw)
    labels = 2.0 * torch.randint(2, (20,), generator=draw) - 1
    rows = torch.stack([torch.randperm(20, generator=torch.Generator().manual_seed(k))[:10] for k in seeds])
    return places, (places > 0).double(), labels, rows


def test_where_the_longest_step_binds_it_is_sgd():
    seeds = [3, 4]
    here = polyak.train_readers(*task(seeds), seeds, [1e-3, 2e-3], **SIZES)
    sgd = networks.train_readers(*task(seeds), seeds, [1e-3, 2e-3], rule="sgd", **SIZES)
    for name in ("losses", "paths", "tokens"):
        torch.testing.assert_close(getattr(here, name), getattr(sgd, name), rtol=1e-9, atol=1e-12)


def test_elsewhere_a_step_has_the_length_of_polyaks_rule():
    places, values, labels, rows = task([3])
    sizes = SIZES | {"batch": 10}
    start, end = (polyak.train_readers(places, values, labels, rows, [3], 1e9, **sizes | {"at": [k]}) for k in (0, 1))
    outputs, _ = networks.apply_readers(start.weights, places[rows], values[rows])
    loss = softplus(-labels[rows] * outputs).mean()
    moved = networks.flat([end.weights[name] - start.weights[name] for name in start.weights]).norm()
    torch.testing.assert_close(moved, loss / (2 * end.paths[0, 0]))


def test_a_member_stops_at_the_loss_that_was_asked_for():
    seeds = [3, 4]
    record = polyak.train_readers(*task(seeds), seeds, [1e-9, 1e9], **SIZES | {"until": 0.5, "at": range(0, 400, 20)})
    stopped = record.losses.isnan().any(0)
    assert not stopped[0]
    assert stopped[1]
    assert record.losses[~record.losses.isnan()[:, 1], 1][-1] <= 0.5
