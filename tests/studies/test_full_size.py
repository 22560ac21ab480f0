"""The papers' networks at their own size, rehearsed at a tenth: the same script, two cores."""

import numpy as np
import pytest
import torch

from studies import archives, full_size, full_size_network, networks, pieces

SMALL = {"width": 16, "depth": 2, "heads": 2, "hidden": 24, "patch": 8, "batch": 10, "examples": 200}
FIGURE_6 = full_size.FIGURE_6._replace(**SMALL, epochs=None, seconds=1e9)
MIRROR = full_size.MIRROR._replace(**SMALL, epochs=3, seconds=1e9)


@pytest.fixture(autouse=True)
def photographs(monkeypatch):
    """Two hundred and fifty photographs of noise in place of CIFAR-10, and an epoch that is saved at once."""
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(256, (250, 3, 32, 32), generator=draw, dtype=torch.uint8)
    labels = torch.randint(10, (250,), generator=draw)
    monkeypatch.setattr(pieces, "photographs", lambda: (images, labels))
    for name, value in {"TESTS": 50, "PROBES": 20, "SHOWN": 3, "PAUSE": 0}.items():
        monkeypatch.setattr(full_size, name, value)


def stop_after(monkeypatch, epochs):
    """End a run without a number of epochs after so many, as the clock does."""
    save = full_size.save

    def ending(path, **state):
        state["record"]["ended"] = state["epoch"] >= epochs
        save(path, **state)

    monkeypatch.setattr(full_size, "save", ending)


def test_the_fast_network_is_the_one_whose_attention_is_measured():
    network = full_size_network.start(FIGURE_6).double()
    x = torch.randn(4, 16, 192, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    views = {name: weight.detach()[None] for name, weight in network.named_parameters()}
    torch.testing.assert_close(full_size_network.logits(network, x), networks.apply(network, views, x)[0][0])


@pytest.mark.parametrize("rule", ["l1.1", "adam"])
def test_a_run_that_was_cut_off_ends_as_one_that_was_not(tmp_path, monkeypatch, rule):
    plan = MIRROR._replace(rule=rule, step_size=0.01, dropout=0.0)
    whole = full_size.make("whole", plan, folder=tmp_path)
    look, asked = full_size.right, []

    def failing(*arguments):
        asked.append(1)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return look(*arguments)

    monkeypatch.setattr(full_size, "right", failing)
    with pytest.raises(KeyboardInterrupt):
        full_size.make("cut", plan, folder=tmp_path)
    resumed = full_size.make("cut", plan, folder=tmp_path)
    assert resumed["loss"] == pytest.approx(whole["loss"], rel=1e-5)
    assert len(resumed["right"]) == 3
    assert resumed["histogram"] == whole["histogram"]


def test_a_plan_that_does_not_fit_is_given_up(tmp_path):
    plan = MIRROR._replace(examples=200, batch=2, epochs=10**6, seconds=60)
    with pytest.raises(ValueError, match=r"needs \d+ s and has 60: plan fewer epochs"):
        full_size.make("long", plan, folder=tmp_path)


def test_the_twin_keeps_its_keys_and_queries_and_the_other_does_not(tmp_path, monkeypatch):
    stop_after(monkeypatch, 2)
    results = {
        name: full_size.make(name, FIGURE_6._replace(frozen=name == "frozen"), folder=tmp_path)
        for name in ("trained", "frozen")
    }
    first, last = (torch.tensor(results["frozen"]["norm"][k]) for k in (0, -1))
    torch.testing.assert_close(first, last)
    assert not torch.equal(*(torch.tensor(results["trained"]["norm"][k]) for k in (0, -1)))
    assert results["frozen"]["sparse"][0] == results["trained"]["sparse"][0]
    assert results["trained"]["at"] == [0, 1, 2, 4, 8, 16, 20, 40]
    assert results["trained"]["maps.npz"]["maps"].shape == (2, 3, 16)


def test_authors_weights_are_drawn_as_theirs_and_their_missing_biases_stay_zero(tmp_path):
    network = full_size_network.start(MIRROR)
    weights = network.blocks[0].self_attn.in_proj_weight
    assert weights.abs().max() <= MIRROR.width**-0.5
    assert weights.abs().max() > 0.9 * MIRROR.width**-0.5
    full_size.make("biases", MIRROR._replace(epochs=1), folder=tmp_path)
    saved = torch.load(tmp_path / "biases.pt", weights_only=False)["network"]
    assert not saved["blocks.0.self_attn.in_proj_bias"].any()
    assert saved["blocks.0.self_attn.out_proj.bias"].any()


def test_cropping_moves_and_mirrors_a_photograph():
    image = torch.arange(2 * 3 * 32 * 32).view(2, 3, 32, 32)
    corners = torch.tensor([[4, 0], [4, 4]])
    same, moved = full_size_network.cropped(image, corners, torch.tensor([False, True]))
    assert torch.equal(same, image[0])
    assert torch.equal(moved[:, 4:], image[1, :, :-4].flip(-1))
    assert not moved[:, :4].any()


def test_results_of_another_machine_are_taken_and_those_of_another_plan_are_not(tmp_path, monkeypatch):
    stop_after(monkeypatch, 1)
    results = full_size.made("figure-6", FIGURE_6, "cpu", tmp_path)
    monkeypatch.setattr(full_size, "make", None)
    again = full_size.made("figure-6", FIGURE_6._replace(seconds=7), "cpu", tmp_path)
    assert again["sparse"] == results["sparse"]
    np.testing.assert_array_equal(again["figure-6-maps.npz"]["maps"], results["figure-6-maps.npz"]["maps"])
    with pytest.raises(ValueError, match="was made with another step_size: delete it"):
        full_size.made("figure-6", FIGURE_6._replace(step_size=1.0), "cpu", tmp_path)


def test_pieces_hold_every_photograph(tmp_path, monkeypatch):
    monkeypatch.undo()
    draw = torch.Generator().manual_seed(0)
    images = torch.randint(256, (4000, 3, 32, 32), generator=draw) / 255
    labels = torch.randint(10, (4000,), generator=draw)
    data = archives.LabelledImages(images[:3000], labels[:3000], images[3000:], labels[3000:], archives.OBJECTS)
    monkeypatch.setattr(archives, "images", lambda name: data)
    paths = pieces.cut(tmp_path)
    assert len(paths) == pieces.PIECES
    monkeypatch.setattr(archives, "images", None)
    back, names = pieces.photographs(tmp_path)
    assert torch.equal(back, (images * 255).round().to(torch.uint8))
    assert torch.equal(names, labels)
