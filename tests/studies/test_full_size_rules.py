"""The step rules on MNIST and CIFAR-10 in full, rehearsed at a hundredth: the same script, two cores."""

import pytest
import torch

from studies import archives, full_size, full_size_rules, networks, pieces

SMALL = {"patch": 8, "width": 8, "depth": 1, "heads": 2, "hidden": 8, "batch": 10, "tuning_epochs": 2, "epochs": 2}
PLAN = full_size_rules.Plan("cifar10", "sgd", **SMALL, seconds=1e9, examples=200)


@pytest.fixture(autouse=True)
def photographs(monkeypatch):
    """Two hundred and fifty photographs in place of CIFAR-10, whose brightness tells the class."""
    draw = torch.Generator().manual_seed(0)
    labels = torch.arange(250) % 10
    images = 25 * labels[:, None, None, None] + torch.randint(6, (250, 3, 32, 32), generator=draw)
    monkeypatch.setattr(pieces, "photographs", lambda: (images.byte(), labels))
    monkeypatch.setattr(full_size, "TESTS", 50)


@pytest.mark.parametrize("rule", full_size_rules.LOWEST)
def test_every_rule_is_tuned_and_trains_every_seed(tmp_path, monkeypatch, rule):
    monkeypatch.setattr(full_size_rules, "FACTOR", 10.0)
    monkeypatch.setattr(full_size_rules, "LOWEST", {rule: 1e-4 if rule == "adam" else 1e-2})
    found = full_size_rules.train("one", PLAN._replace(rule=rule, epochs=20), folder=tmp_path)
    losses = torch.tensor(found["losses"])
    assert losses.shape == (20, 3)
    assert (losses[-1] < losses[0] - 0.1).all()
    assert len(found["tokens"]) == 21
    assert (torch.tensor(found["tokens"]) <= 17).all()
    assert found["step_size"] in [full_size_rules.LOWEST[rule] * 10**k for k in (1, 2, 3)]


def test_a_run_that_was_cut_off_ends_as_one_that_was_not(tmp_path, monkeypatch):
    monkeypatch.setattr(full_size_rules, "FACTOR", 10.0)
    plan = PLAN._replace(rule="adam")
    monkeypatch.setattr(full_size_rules, "LOWEST", {"adam": 1e-4})
    whole = full_size_rules.train("whole", plan, folder=tmp_path)
    look, asked = full_size_rules._look, []

    def failing(*arguments):
        asked.append(1)
        if len(asked) == 5:  # in the second part, after its first epoch was saved
            raise KeyboardInterrupt
        look(*arguments)

    monkeypatch.setattr(full_size_rules, "_look", failing)
    with pytest.raises(KeyboardInterrupt):
        full_size_rules.train("cut", plan, folder=tmp_path)
    assert full_size_rules.train("cut", plan, folder=tmp_path) == whole


def test_polyaks_steps_are_those_of_its_rule_and_no_longer_than_the_longest():
    network, weights = networks.ensemble([0, 1], length=4, classes=10, features=3, width=4, depth=1, heads=1, hidden=4)
    x, y = torch.randn(6, 4, 3, generator=torch.Generator().manual_seed(0)), torch.arange(6)
    loss = networks.cross_entropy(networks.apply(network, weights, x)[0], y)
    slope = networks.flat(torch.autograd.grad(loss.sum(), [*weights.values()]))
    before, longest = networks.flat([*weights.values()]).detach().clone(), [1e-3, 1e3]
    rule = networks.optimiser("sgd", weights, longest)
    full_size_rules._step(network, weights, rule, "polyak", longest, x, y)
    moved = networks.flat([*weights.values()]).detach() - before
    sizes = torch.stack([torch.tensor(1e-3).double(), loss[1] / (2 * slope[1].norm() ** 2)])
    torch.testing.assert_close(moved, -sizes[:, None].detach() * slope)


def test_a_best_step_at_an_end_of_its_list_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(full_size_rules, "FACTOR", 1.0)
    with pytest.raises(ValueError, match=r"one: the best step size, 0\.01, is at an end of its list: move LOWEST"):
        full_size_rules.train("one", PLAN, folder=tmp_path)


def test_a_plan_that_does_not_fit_is_given_up(tmp_path):
    with pytest.raises(ValueError, match=r"needs \d+ s and has 60: plan fewer epochs"):
        full_size_rules.train("one", PLAN._replace(batch=2, tuning_epochs=10**6, seconds=60), folder=tmp_path)


def test_pixels_of_mnist_are_standardised_and_cut(monkeypatch):
    draw = torch.Generator().manual_seed(0)
    known, new = torch.rand(30, 1, 28, 28, generator=draw), torch.rand(50, 1, 28, 28, generator=draw)
    data = archives.LabelledImages(known, torch.zeros(30).long(), new, torch.ones(50).long(), tuple("01"))
    monkeypatch.setattr(archives, "images", lambda name: data)
    known, own, new, others = full_size_rules.images(PLAN._replace(data="mnist", patch=7, examples=20))
    assert (known.shape, own.shape, new.shape) == ((20, 16, 49), (20,), (50, 16, 49))
    assert abs(new.mean()) < 0.05
    assert others.all()
