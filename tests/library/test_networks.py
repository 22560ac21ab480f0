"""The transformer and its trainings: against torch's own parts, members against a model alone, and bad input."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.func import functional_call

from lib import networks
from lib.geometry import mirror_map, norm

SMALL = {"length": 4, "classes": 3, "features": 2, "width": 8, "hidden": 12}


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


class TestTransformer:
    def test_attention_is_a_distribution_of_each_head(self):
        network, parameters = networks.ensemble([0, 1], **SMALL, depth=3)
        logits, attention = networks.apply(network, parameters, data()[0])
        assert logits.shape == (2, 24, 3)
        assert attention.shape == (2, 24, 3, 2, 5, 5)
        torch.testing.assert_close(attention.sum(-1), torch.ones(2, 24, 3, 2, 5, dtype=torch.float64))

    def test_block_is_that_of_torch(self):
        torch.manual_seed(0)
        block = networks.Block(8, 2, 12, 0.0, torch.nn.functional.gelu, batch_first=True)
        plain = torch.nn.TransformerEncoderLayer(
            8, 2, 12, 0.0, torch.nn.functional.gelu, batch_first=True, norm_first=True
        )
        plain.load_state_dict(block.state_dict())
        x = torch.randn(3, 5, 8)
        torch.testing.assert_close(block(x)[0], plain(x))

    def test_padding_changes_nothing_and_gets_no_attention(self):
        network, parameters = networks.ensemble([3], length=6, classes=2, vocabulary=9)
        words = torch.tensor([[4, 8, 1, 0, 0, 0]])
        longer = functional_call(network, {k: v[0] for k, v in parameters.items()}, (words,))
        weights = {k: v[0] for k, v in parameters.items()}
        weights["places"] = weights["places"][:4]
        shorter = functional_call(network, weights, (words[:, :3],))
        torch.testing.assert_close(longer[0], shorter[0])
        assert (longer[1][..., 4:] == 0).all()

    def test_members_are_the_models_of_their_seeds(self):
        _, parameters = networks.ensemble([5, 7], **SMALL)
        torch.manual_seed(7)
        for name, value in networks.Transformer(**SMALL).state_dict().items():
            torch.testing.assert_close(parameters[name][1].detach(), value, rtol=0, atol=0)

    @pytest.mark.parametrize("default", [torch.float32, torch.float64])
    def test_the_default_dtype_changes_nothing(self, default):
        _, _, expected = trained([0], epochs=1)
        before = torch.get_default_dtype()
        torch.set_default_dtype(default)
        try:
            _, parameters, record = trained([0], epochs=1)
        finally:
            torch.set_default_dtype(before)
        assert {value.dtype for value in parameters.values()} == {torch.float64}
        assert torch.equal(record.losses, expected.losses)

    def test_float32_inputs_are_taken_as_float64(self):
        network, parameters = networks.ensemble([0], **SMALL)
        inputs = data()[0].float()
        logits, _ = networks.apply(network, parameters, inputs)
        assert torch.equal(logits, networks.apply(network, parameters, inputs.double())[0])

    def test_global_generator_is_left_alone(self):
        before = torch.random.get_rng_state()
        networks.ensemble([5], **SMALL)
        assert torch.equal(before, torch.random.get_rng_state())

    @pytest.mark.parametrize(
        ("settings", "words"),
        [
            ({"features": 2, "vocabulary": 5}, "not both"),
            ({}, "not both"),
            ({"features": 2, "width": 9}, "heads divide"),
            ({"features": 2, "device": "cuda"}, "use device=cpu"),
            ({"features": 2, "device": "gpu"}, "device is 'gpu': use cpu or cuda"),
        ],
    )
    def test_bad_settings(self, settings, words, monkeypatch):
        monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
        with pytest.raises(ValueError, match=words):
            networks.ensemble([0], length=4, classes=3, **settings)


class TestPatches:
    def test_reading_order(self):
        image = torch.arange(2 * 4 * 6.0).view(1, 2, 4, 6)
        cut = networks.patches(image, 2)
        assert cut.shape == (1, 6, 8)
        assert cut[0, 4].tolist() == image[0, :, 2:4, 2:4].flatten().tolist()


class TestTraining:
    @pytest.mark.parametrize("name", ["adam", "sgd", "normalised", "l1.1", "l3"])
    def test_a_member_is_what_it_would_be_alone(self, name):
        _, both, _ = trained([4, 9], name, 0.01)
        _, alone, _ = trained([9], name, 0.01)
        for key, value in alone.items():  # the gradient of the keys' bias is zero but for rounding: no relative size
            torch.testing.assert_close(both[key][1], value[0], rtol=1e-7, atol=1e-8)

    def test_sgd_is_that_of_torch(self):
        network, parameters = networks.ensemble([1], **SMALL)
        inputs, labels = data()
        _, ours, record = trained([1])
        rule = torch.optim.SGD(parameters.values(), 0.1)
        theirs = networks.train(
            network, parameters, rule, inputs, labels, torch.arange(20)[None], [1], epochs=3, batch=5
        )
        torch.testing.assert_close(record.losses, theirs.losses)
        torch.testing.assert_close(ours["head.weight"], parameters["head.weight"])

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

    def test_zero_gradient_is_no_step(self):
        weight = torch.ones(1, 3, requires_grad=True)
        weight.grad = torch.zeros(1, 3)
        networks.MirrorDescent([weight], 0.1, 2.0, normalised=True).step()
        assert weight.tolist() == [[1.0, 1.0, 1.0]]

    def test_it_learns(self):
        _, _, record = trained([0, 1, 2], "adam", 0.01, epochs=60)
        assert (record.losses[-4:].mean(0) < 0.5 * record.losses[:4].mean(0)).all()

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
        caplog.set_level("INFO", "lib")
        _, _, record = trained([0], name="l3", step_size=0.1)
        assert [line.name for line in caplog.records] == 3 * ["lib.networks"]
        assert caplog.messages[-1] == f"training epoch 3 of 3, loss {record.losses[-4:].mean():.4f}"
        assert capfd.readouterr() == ("", "")

    def test_dropout_is_off_while_measuring(self):
        network, parameters = networks.ensemble([0], **SMALL, dropout=0.5)
        inputs, labels = data()
        rule = networks.optimiser("sgd", parameters, 0.0)
        rows = torch.arange(20)[None]
        record = networks.train(
            network, parameters, rule, inputs, labels, rows, [0], epochs=2, batch=5,
            measure=lambda now: {"loss": networks.cross_entropy(networks.apply(network, now, inputs)[0], labels)},
        )  # fmt: skip
        assert record.measured["loss"].unique().numel() == 1
        assert record.losses.unique().numel() > 4

    def test_dropout_is_the_same_again(self):
        losses = []
        for _ in range(2):
            network, parameters = networks.ensemble([0, 1], **SMALL, dropout=0.3)
            rule, rows = networks.optimiser("sgd", parameters, 0.1), torch.arange(20).expand(2, -1)
            record = networks.train(network, parameters, rule, *data(), rows, [0, 1], epochs=2, batch=5)
            losses.append(record.losses)
        assert torch.equal(*losses)


class TestMeasures:
    def test_soft_sparsity_counts_equal_tokens(self):
        maps = torch.tensor([[0.25] * 4, [0.5, 0.5, 0, 0], [1.0, 0, 0, 0]])
        assert networks.soft_sparsity(maps).tolist() == [4, 2, 1]

    def test_map_of_cls_leaves_itself_out(self):
        attention = torch.zeros(1, 2, 2, 3, 3)  # one input, two blocks, two heads, [CLS] and two tokens
        attention[0, 1, :, 0] = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
        torch.testing.assert_close(networks.cls_map(attention), torch.tensor([[2 / 3, 1 / 3]]))

    def test_key_query_norm_is_that_of_the_logits_map(self):
        network, parameters = networks.ensemble([0, 1], **SMALL)
        measured = networks.key_query_norm(parameters, network)
        weights = parameters["blocks.1.self_attn.in_proj_weight"].detach()[1]
        total = sum((weights[k : k + 4].T @ weights[8 + k : 12 + k]).square().sum() for k in (0, 4))
        torch.testing.assert_close(measured[1], total.sqrt())

    def test_accuracy_and_cross_entropy(self):
        logits = torch.tensor([[[2.0, 0], [0, 1]], [[0, 3.0], [torch.nan, 0]]])
        labels = torch.tensor([0, 0])
        assert networks.accuracy(logits, labels).tolist() == [0.5, 0]
        torch.testing.assert_close(
            networks.cross_entropy(logits, labels)[0], (torch.tensor([-2.0, 1.0]).exp() + 1).log().mean()
        )
