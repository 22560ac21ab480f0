"""The transformer and its trainings: against torch's own parts, members against a model alone, and bad input."""

import math
from itertools import islice

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from lib.geometry import inverse_mirror_map, mirror_map, norm
from studies import datasets, networks

SMALL = {"length": 4, "classes": 3, "features": 2, "width": 8, "hidden": 12}
WORDS = {"length": 12, "classes": 2, "features": 9, "width": 8, "hidden": 12, "words": True}


def data(count=24, seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = torch.randn(count, 4, 2, generator=generator, dtype=torch.float64)
    return inputs, torch.randint(3, (count,), generator=generator)


def trained(seeds, name="sgd", step_size=0.1, epochs=3, **more):
    network, parameters = networks.ensemble(seeds, **SMALL)
    inputs, labels = data()
    rows = torch.arange(20).expand(len(seeds), -1)
    rule = networks.optimiser(name, parameters, step_size)
    record = networks.train(network, parameters, rule, inputs, labels, rows, seeds, epochs=epochs, batch=5, **more)
    return network, parameters, record


def by_torch(model, x, blocks):
    """Logits of one member by torch's own modules, with ``x`` its embedded tokens."""
    x = torch.cat([model.cls.expand(len(x), 1, -1), x], dim=1) + model.places
    for block in blocks:
        x = block(x)
    return model.head(model.norm(x[:, 0]))


class TestTransformer:
    @pytest.mark.parametrize("depth", [1, 3])
    @pytest.mark.parametrize(
        ("sizes", "inputs"),
        [(SMALL, data()[0]), (WORDS, torch.arange(24).view(2, 12) % 8 + 1)],
        ids=["tokens", "words"],
    )
    def test_blocks_are_those_of_torch(self, sizes, inputs, depth):
        network, parameters = networks.ensemble([4, 1], **sizes, depth=depth)
        torch.manual_seed(1)
        model = networks.Transformer(**sizes, depth=depth)
        expected = by_torch(model, model.embed(inputs), model.blocks)
        torch.testing.assert_close(networks.apply(network, parameters, inputs)[0][1], expected)

    def test_a_gpu_that_is_not_there_is_refused(self, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(ValueError, match="use device=cpu"):
            networks.ensemble([0], **SMALL, device="cuda")

    def test_float32_inputs_are_taken_as_float64_and_the_global_generator_is_left_alone(self):
        before = torch.random.get_rng_state()
        network, parameters = networks.ensemble([0], **SMALL)
        assert torch.equal(before, torch.random.get_rng_state())
        inputs = data()[0].float()
        logits, _ = networks.apply(network, parameters, inputs)
        assert torch.equal(logits, networks.apply(network, parameters, inputs.double())[0])


class TestTraining:
    @pytest.mark.parametrize("name", ["adam", "sgd", "normalised", "l1.1", "l3"])
    def test_a_member_is_what_it_would_be_alone_with_its_step_size(self, name):
        _, both, _ = trained([4, 9], name, [0.03, 0.01])
        _, alone, _ = trained([9], name, 0.01)
        for key, value in alone.items():  # the gradient of the keys' bias is zero but for rounding: no relative size
            torch.testing.assert_close(both[key][1], value[0], rtol=1e-7, atol=1e-8)

    @given(order=st.floats(1.1, 5), seed=st.integers(0, 99), normalised=st.booleans())
    @settings(max_examples=25, deadline=None)
    def test_mirror_step(self, order, seed, normalised):
        generator = torch.Generator().manual_seed(seed)
        like = {"generator": generator, "dtype": torch.float64}
        before = [torch.randn(2, 3, **like), torch.randn(2, 4, 2, **like)]
        weights = [part.clone().requires_grad_() for part in before]
        for weight in weights:
            weight.grad = torch.randn(weight.shape, **like)
        networks.MirrorDescent(weights, 0.1, order, normalised).step()
        moved = torch.cat(
            [
                (mirror_map(a, order) - mirror_map(b.detach(), order)).flatten(1)
                for a, b in zip(before, weights, strict=True)
            ],
            1,
        )
        gradient = torch.cat([weight.grad.flatten(1) for weight in weights], 1)
        if normalised:
            torch.testing.assert_close(norm(moved, order / (order - 1)), torch.full((2,), 0.1, dtype=torch.float64))
            gradient = gradient / norm(gradient, order / (order - 1))[:, None]
        torch.testing.assert_close(moved, 0.1 * gradient, rtol=1e-6, atol=1e-9)

    def test_a_member_that_diverges_is_told_and_spoils_no_other(self):
        network, parameters = networks.ensemble([4, 9], **SMALL)
        with torch.no_grad():
            parameters["head.weight"][0] = torch.inf
        inputs, labels = data()
        rule = networks.optimiser("sgd", parameters, 0.1)
        rows = torch.arange(20).expand(2, -1)
        record = networks.train(network, parameters, rule, inputs, labels, rows, [4, 9], epochs=3, batch=5)
        assert record.losses[:, 0].isinf().all()
        torch.testing.assert_close(record.losses[:, 1:], trained([9])[2].losses)
        logits, _ = networks.apply(network, parameters, inputs)
        assert networks.accuracy(logits, labels)[0] == 0

    def test_measured_where_asked(self):
        _, _, record = trained([0], at=[0, 1, 7], measure=lambda now: {"head": now["head.bias"].clone()})
        assert record.at == [0, 1, 7]
        assert record.measured["head"].shape == (3, 1, 3)
        assert record.losses.shape == (12, 1)
        _, start = networks.ensemble([0], **SMALL)
        torch.testing.assert_close(record.measured["head"][0], start["head.bias"].detach())

    def test_every_epoch_is_logged_and_nothing_is_shown(self, caplog, capfd):
        trained([0], name="l3", step_size=0.1)
        assert not caplog.records
        caplog.set_level("INFO", "studies")
        _, _, record = trained([0], name="l3", step_size=0.1)
        assert [line.name for line in caplog.records] == 3 * ["studies.networks"]
        assert caplog.messages[-1] == f"training epoch 3 of 3, loss {record.losses[-4:].mean():.4f}"
        assert capfd.readouterr() == ("", "")


class TestMeasures:
    def test_soft_sparsity_counts_equal_tokens(self):
        maps = torch.tensor([[0.25] * 4, [0.5, 0.5, 0, 0], [1.0, 0, 0, 0]])
        assert networks.soft_sparsity(maps).tolist() == [4, 2, 1]

    def test_map_of_cls_leaves_itself_out(self):
        attention = torch.zeros(1, 2, 2, 3)  # one input, two blocks, two heads, [CLS] and two tokens
        attention[0, 1] = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
        torch.testing.assert_close(networks.cls_map(attention), torch.tensor([[2 / 3, 1 / 3]]))

    def test_key_query_norm_is_that_of_the_logits_map(self):
        network, parameters = networks.ensemble([0, 1], **SMALL)
        measured = networks.key_query_norm(parameters, network)
        weights = parameters["blocks.1.self_attn.in_proj_weight"].detach()[1]
        total = sum((weights[k : k + 4].T @ weights[8 + k : 12 + k]).square().sum() for k in (0, 4))
        torch.testing.assert_close(measured[1], total.sqrt())


@pytest.fixture
def marked():
    corpus = datasets.marked_sentiment(20, torch.Generator().manual_seed(0))
    places = corpus.ids + torch.tensor([0, len(corpus.vocabulary)])
    rows = torch.stack([torch.randperm(20, generator=torch.Generator().manual_seed(k))[:12] for k in range(3)])
    return places, torch.randn(places.shape, generator=torch.Generator().manual_seed(1)), corpus.labels, rows


@pytest.mark.parametrize(
    ("rule", "order"), [("sgd", 2.0), ("normalised", 2.0), ("l1.1", 1.1), ("l3", 3.0), ("adam", 2.0)]
)
@pytest.mark.parametrize("attention", ["trained", "never"])
def test_a_step_of_readers_is_that_along_the_gradient_of_what_they_read(marked, rule, order, attention):
    places, values, labels, rows = marked
    about = {"rule": rule, "attention": attention, "heads": 2, "batch": 12}
    start, end = (networks.train_readers(*marked, [4, 5, 6], 0.1, at=at, **about) for at in ([0], [0, 1]))
    weights = {name: weight.clone().requires_grad_() for name, weight in start.weights.items()}
    outputs, attended = networks.apply_readers(weights, places, values)
    loss = torch.nn.functional.softplus(-(outputs * labels).gather(1, rows)).mean(1)
    slopes = torch.autograd.grad(loss.sum(), list(weights.values()))
    if attention == "never":
        slopes = (slopes[0], torch.zeros_like(slopes[1]), slopes[2])
    lengths = networks.flat(slopes).norm(dim=1)
    torch.testing.assert_close(end.losses[0], loss)
    torch.testing.assert_close(end.paths[1], lengths)
    torch.testing.assert_close(end.tokens[0], networks.soft_sparsity(attended).mean(-1).gather(1, rows).mean(1))
    for (name, weight), slope in zip(weights.items(), slopes, strict=True):
        scale = {"normalised": lengths.view(-1, 1, 1), "adam": slope.abs() + 1e-8}.get(rule, 1.0)
        step = 0.1 * slope / scale
        there = inverse_mirror_map(mirror_map(weight, order) - step, order)
        torch.testing.assert_close(end.weights[name], there, msg=name)


@pytest.mark.parametrize("step", [0, 1, 30])
def test_normalised_steps_of_readers_shrink_as_they_are_told(marked, step):
    about = {"rule": "normalised", "heads": 2, "batch": 5, "decay": 2 / 3}
    before, after = (networks.train_readers(*marked, [4, 5, 6], 0.1, at=[k], **about) for k in (step, step + 1))
    moved = networks.flat([after.weights[name] - weight for name, weight in before.weights.items()]).norm(dim=1)
    torch.testing.assert_close(moved, torch.full((3,), 0.1 * (1 + step / 100) ** (-2 / 3)).double())


@pytest.mark.parametrize(
    ("rule", "sizes"), [("sgd", [0.5, 1.0, 3.0]), ("adam", [0.01, 0.02, 0.1]), ("polyak", [3.0, 5.0, 9.0])]
)
def test_readers_take_minibatches_and_stop_where_they_are_told(marked, rule, sizes):
    about = {"batch": 5, "at": range(0, 2000, 10), "until": 0.1, "rule": rule}
    record = networks.train_readers(*marked, [4, 5, 6], sizes, **about)
    losses = record.losses
    ended = losses.isfinite().sum(0) - 1
    assert (losses.gather(0, ended[None]) <= 0.1).all()
    assert (losses.gather(0, ended[None] - 1) > 0.1).all()
    alone = networks.train_readers(*marked[:3], marked[3][1:2], [5], sizes[1], **about)
    torch.testing.assert_close(alone.losses[:, 0], losses[:, 1], equal_nan=True)
    torch.testing.assert_close(alone.weights["table"][0], record.weights["table"][1])


def test_readers_by_adam_see_the_batches_of_compiled_steps_and_follow_torch(marked):
    (places, values, labels, rows), seeds, about = marked, [4, 5, 6], {"rule": "adam", "heads": 2, "batch": 5}
    start, end = (networks.train_readers(*marked, seeds, 0.02, at=at, **about) for at in ([0], [3]))
    weights = {name: weight.clone().requires_grad_() for name, weight in start.weights.items()}
    orders = [
        np.concatenate([epoch[:10] for epoch in islice(networks.kernel.epochs_of(own.numpy(), seed), 2)])
        for own, seed in zip(rows, seeds, strict=True)
    ]
    rule = torch.optim.Adam(weights.values(), 0.02)
    for batch in torch.from_numpy(np.stack(orders)).split(5, dim=1)[:3]:
        outputs, _ = networks.apply_readers(weights, places, values)
        torch.nn.functional.softplus(-(outputs * labels).gather(1, batch)).mean(1).sum().backward()
        rule.step()
        rule.zero_grad()
    for name, weight in weights.items():
        torch.testing.assert_close(end.weights[name], weight.detach(), msg=name)


def test_polyaks_steps_are_those_of_sgd_where_the_longest_binds_and_have_his_length_elsewhere(marked):
    about = {"heads": 2, "batch": 12, "at": [0, 1, 3]}
    short, sgd = (networks.train_readers(*marked, [4, 5, 6], [1e-3, 2e-3, 0.1], rule=rule, **about)
                  for rule in ("polyak", "sgd"))  # fmt: skip
    for one, other in zip(short[1:4], sgd[1:4], strict=True):
        torch.testing.assert_close(one, other, rtol=1e-9, atol=1e-12)
    start, end = (networks.train_readers(*marked, [4, 5, 6], 1e9, rule="polyak", **about | {"at": at})
                  for at in ([0], [0, 1]))  # fmt: skip
    moved = networks.flat([end.weights[name] - start.weights[name] for name in start.weights]).norm(dim=1)
    torch.testing.assert_close(moved, end.losses[0] / (2 * end.paths[1]))


def test_mean_pooling_attends_alike(marked):
    record = networks.train_readers(*marked, [4, 5, 6], 1.0, attention="alike", at=[0, 50], batch=3)
    torch.testing.assert_close(record.tokens, torch.full_like(record.tokens, marked[0].shape[1]))
    assert (record.weights["queries"] == 0).all()
    assert (record.losses[1] < record.losses[0]).all()


def test_level_is_reached_between_two_looks():
    losses = torch.tensor([[1.0, 1.0, 0.01], [0.1, 0.5, math.nan], [0.001, 0.2, math.nan]], dtype=torch.float64)
    paths = torch.tensor([[0.0, 0.0, 0.0], [2.0, 3.0, math.nan], [4.0, 4.0, math.nan]], dtype=torch.float64)
    steps, path = networks.reached(networks.Readers([0, 10, 30], losses, paths, losses, {}), 0.01)
    torch.testing.assert_close(steps, torch.tensor([20.0, math.inf, 0.0], dtype=torch.float64))
    torch.testing.assert_close(path, torch.tensor([3.0, math.inf, 0.0], dtype=torch.float64))


def test_places_of_patches_hold_the_pixels_and_the_place():
    images = torch.arange(2 * 4 * 4.0).view(2, 1, 4, 4)
    places, values = networks.patch_places(images, 2)
    table = torch.eye(8, dtype=torch.float64)
    tokens = (values[..., None] * table[places]).sum(2)
    torch.testing.assert_close(tokens[..., :4], networks.patches(images, 2).double())
    assert tokens[0, 2, :4].tolist() == images[0, 0, 2:4, 0:2].flatten().tolist()  # in the order of reading
    torch.testing.assert_close(tokens[..., 4:], torch.eye(4, dtype=torch.float64).expand(2, 4, 4))


def test_readers_leave_the_generators_of_compiled_code_as_they_were(marked):
    numba = pytest.importorskip("numba")
    seed = numba.njit(lambda number: np.random.seed(number))  # noqa: NPY002
    draw = numba.njit(lambda: np.random.random())  # noqa: NPY002
    seed(3)
    expected = draw()
    seed(3)
    networks.train_readers(*marked, [4, 5, 6], 1.0, batch=3, at=[5])
    assert draw() == expected


def test_a_long_training_of_readers_tells_how_far_it_is_and_is_the_same_in_pieces(marked, monkeypatch, caplog):
    about = {"batch": 5, "at": [0, 3, 40], "heads": 2}
    whole = networks.train_readers(*marked, [4, 5, 6], 1.0, **about)
    monkeypatch.setattr(networks.kernel, "CHUNK", 1)
    monkeypatch.setattr(networks.kernel, "LOG_INTERVAL_S", 0.0)
    with caplog.at_level("INFO", "studies"):
        pieces = networks.train_readers(*marked, [4, 5, 6], 1.0, **about)
    assert "reader 3 of 3, step 40 of 40" in caplog.text
    for one, other in zip(whole[1:4], pieces[1:4], strict=True):
        assert torch.equal(one, other)
    assert torch.equal(whole.weights["table"], pieces.weights["table"])


class TestTexts:
    def test_nobody_attends_to_what_is_not_there(self):
        network, parameters = networks.ensemble([0, 1], **WORDS)
        ids = torch.tensor([[3, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0]])
        logits, attention = networks.apply(network, parameters, ids)
        assert (attention[..., 4:] == 0).all()
        torch.testing.assert_close(attention[..., :4].sum(-1), torch.ones(2, 1, 2, 2, dtype=torch.float64))
        longer = parameters | {"places": torch.cat([parameters["places"][:, :4], parameters["places"][:, 4:] + 7], 1)}
        assert torch.equal(networks.apply(network, longer, ids)[0], logits)

    def test_selection_is_measured_where_the_lexicon_has_a_word(self):
        ids, marked = (
            torch.tensor([[1, 2, 0, 0], [1, 1, 1, 1]]),
            torch.tensor([[True, False, False, False], [False] * 4]),
        )
        data = networks.Texts(ids, torch.tensor([0, 1]), marked, [])
        maps = torch.tensor([[[0.75, 0.25, 0.0, 0.0], [0.25] * 4]])
        found = networks.selected(maps, data, slice(None))
        assert {name: value.item() for name, value in found.items()} == {
            "mass": 0.75, "base": 0.5, "top": 1.0, "tokens": 1.6
        }  # fmt: skip

    def test_shares_of_the_last_block_are_one_for_equal_entries_and_two_by_pi_for_normal_ones(self):
        network, parameters = networks.ensemble([0], **WORDS | {"width": 64}, depth=2, heads=2)
        packed = parameters["blocks.1.self_attn.in_proj_weight"].data
        packed[:, :64] = 1.0
        packed[:, 64:128] = torch.randn(64, 64, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        found = networks.shares(parameters, network)
        assert found["query"].item() == pytest.approx(1)
        assert found["key"].item() == pytest.approx(2 / math.pi, abs=0.02)

    def test_the_vocabulary_has_no_word_of_texts_that_are_not_learned(self):
        texts = ["a fine film", "a fine day", *["a strange film"] * 5]
        data = networks.as_texts(texts, torch.zeros(7, dtype=torch.int64), {}, learned=2, often=2)
        assert data.vocabulary == ["a", "fine"]
        assert (data.ids[2:, 1:3] == 1).all()

    def test_texts_to_test_on_choose_nothing(self):
        found, turned = self.learned(), self.learned(turned=True)
        for name in ("losses", "held", "epoch", "matrices"):
            assert torch.equal(found[name], turned[name])
        torch.testing.assert_close(found["right"], 1 - turned["right"])

    @staticmethod
    def learned(rule="adam", step=0.01, turned=False, **more):
        """Two networks that read sentences; ``turned`` gives those to test on the other label."""
        corpus = datasets.planted_sentiment(240, torch.Generator().manual_seed(0))
        known = {*datasets.WORDS["good"], *datasets.WORDS["bad"]}
        texts = [" ".join(words) for words in corpus.words]
        data = networks.as_texts(texts, (corpus.labels > 0).long(), known, learned=160, length=12, often=1)
        data.labels[200:] = (data.labels[200:] + turned) % 2
        sizes = {"width": 8, "depth": 1, "heads": 2, "hidden": 8, "epochs": 6, "batch": 16}
        return networks.train_texts(data, torch.arange(240).split([160, 40, 40]), rule, step, [0, 1], **sizes | more)

    def test_the_deciding_words_are_learned_and_selected(self):
        found = self.learned()
        assert (found["right"] > 0.9).all()
        assert (found["mass"] > 1.5 * found["base"]).all()
        assert found["losses"].shape == (6, 2)
        assert torch.equal(found["epoch"], found["held"].argmax(0))

    def test_uniform_attention_stays_uniform(self):
        found = self.learned(attention="alike")
        torch.testing.assert_close(found["mass"], found["base"], rtol=1e-5, atol=0)
        assert (found["right"] > 0.6).all()

    def test_permuted_labels_leave_nothing_to_learn(self):
        assert (self.learned(permuted=True)["right"] < 0.8).all()


class TestTwins:
    @pytest.fixture(scope="class")
    def found(self):
        inputs, labels = data(60)
        new, rows = data(30, seed=1), torch.arange(40).expand(2, -1)
        sizes = {"width": 8, "depth": 2, "heads": 2, "hidden": 8, "probes": 10}
        how = {"epochs": 2, "batch": 10, "at": [0, 4, 8]}
        return networks.train_twins((inputs, labels), new, rows, [3, 4], 0.2, **sizes, **how)

    def test_the_norm_moves_only_where_keys_and_queries_train(self, found):
        trained, frozen, only, alike = (found["norm"] / found["norm"][0]).unbind(1)
        assert torch.equal(frozen, torch.ones_like(frozen))
        assert (trained[-1] != 1).all()
        assert (only[-1] != 1).all()
        assert alike.isnan().all(), "their norm is 0"

    def test_only_uniform_attention_stays_uniform(self, found):
        assert torch.allclose(found["sparse"][:, 3], torch.tensor(4.0).double())
        assert (found["sparse"][-1, :3] != found["sparse"][0, :3]).all()

    def test_all_start_alike_and_a_trained_one_learns_fastest(self, found):
        assert torch.equal(found["maps"][0, 0], found["maps"][0, 1])
        assert found["losses"][-1, 0].mean() < found["losses"][-1, 2].mean()
        assert {name: tuple(value.shape) for name, value in found["hiding"].items()} == dict.fromkeys(
            ("most", "least", "contrast"), (2,)
        )


def test_nothing_depends_on_torchs_default_dtype():
    def results(dtype):
        torch.set_default_dtype(dtype)
        network, weights = networks.ensemble([0], length=3, classes=2, features=2)
        rule, tokens = networks.optimiser("normalised", weights, 0.1), torch.ones(2, 3, 2, dtype=torch.float64)
        given, rows = (tokens, torch.tensor([0, 1])), torch.arange(2)[None]
        done = networks.train(network, weights, rule, *given, rows, [0], epochs=2, batch=1)
        labels = datasets.planted_sentiment(3, torch.Generator().manual_seed(0)).labels
        return [done.losses, *networks.apply(network, weights, tokens), labels]

    for one, other in zip(results(torch.float32), results(torch.float64), strict=True):
        assert one.dtype == torch.float64
        assert torch.equal(one, other)
