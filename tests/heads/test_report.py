"""The report on all heads: attention is the model's, distances flip what they say, what cannot be told is not told."""

import json
import re
import sys

import numpy as np
import pytest
import torch
import transformers
from problems import seeded
from torch import nn

from heads import capture, command, layer_weights, running
from heads.bits import Choices, count_flips, forecast, head_logits
from heads.capture import Layer, capture_attention
from heads.conventions import FUSED, Order
from heads.facts import layer_facts
from heads.weights import PARTS

N, T, D = 6, 5, 8


def encoder(**options):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(D, 2, 12, **{"batch_first": True} | options)
        model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
        for one in model.parameters():
            nn.init.normal_(one, std=0.5)
    return model


def inputs(n=N):
    return torch.randn(n, T, D, generator=seeded(0))


def seen(model, given, **options):
    layers = []
    with torch.no_grad(), capture_attention(model, layers.append, **options):
        model(given)
    return layers


@pytest.mark.parametrize("options", [{}, {"batch_first": False}, {"norm_first": True}], ids=str)
def test_layers_are_seen_as_the_model_runs_and_it_answers_as_before(options):
    model = encoder(**options)
    given = inputs() if options.get("batch_first", True) else inputs().transpose(0, 1)
    before = model(given)
    layers = seen(model, given)
    assert torch.equal(model(given), before)
    assert [layer.name for layer in layers] == ["layers.0.self_attn", "layers.1.self_attn"]
    for layer in layers:
        facts = layer_facts(layer)
        assert [one["check"] for one in facts] == ["agrees", "agrees"]
        assert max(one["off"] for one in facts) < 1e-6
        assert {one["asks"] for one in facts[0]["inputs"]} == {0}


def test_distances_are_those_of_the_whole_matrix():
    (layer, _) = seen(encoder(), inputs())
    weights = layer_weights(encoder().layers[0])
    for head, facts in enumerate(layer_facts(layer)):
        W = (
            weights.scale
            * weights.key[head].mT
            @ torch.cat([weights.query[head], weights.query_bias[head][:, None]], 1)
        )
        assert facts["norms"] == pytest.approx([W.norm().item(), torch.linalg.matrix_norm(W, 2).item()])
        for one in facts["inputs"]:
            x = layer.tokens[one["input"]].double()
            z = torch.cat([layer.queries[one["input"]].double(), torch.ones(1, dtype=torch.float64)])
            row = torch.outer(x[one["selects"]] - x[one["taker"]], z)
            change = -(row * W).sum() / row.square().sum() * row
            assert one["flip"] == pytest.approx((change.norm() / W.norm()).item(), rel=1e-3)
            tied = x @ (W + change) @ z
            assert tied[one["taker"]].item() == pytest.approx(tied.max().item())
            assert one["lead"] == pytest.approx((row * W).sum().item(), rel=1e-3)


def changed(attention, why=""):
    """The first layer with other attention than its own."""
    layer = seen(encoder(), inputs())[0]
    return layer._replace(attention=attention(layer.attention), why=why)


def biased(attention):
    return (attention.log() + torch.linspace(-1, 1, T)).softmax(-1)


WRONG = {
    "scale": (lambda one: (1.5 * one.log()).softmax(-1), "", "recorded", "the scale: the model's logits are 1.5 times"),
    "other tokens": (lambda one: one.flip(-1), "", "recorded", "rotary or relative positions, a norm of queries"),
    "known": (lambda one: one.flip(-1), "rotary positions", "recorded", "rotary positions"),
    "biases": (biased, "", "biased", "a bias for each distance in places"),
}


@pytest.mark.parametrize("case", WRONG)
def test_attention_that_is_not_the_models_is_named(case):
    attention, known, check, why = WRONG[case]
    for one in layer_facts(changed(attention, known)):
        assert one["check"] == check
        assert why in one["why"]
        assert ("flip" in one) == (check == "biased")


def saved(folder, **changes):
    """A file of weights, and what was recorded of the model: as the page says."""
    torch.save(encoder().state_dict(), folder / "mine.pt")
    data = {"query": np.zeros(N, int)}
    for k, layer in enumerate(seen(encoder(), inputs())):
        data |= {f"tokens.{k}": layer.tokens.numpy(), f"attention.{k}": layer.attention.numpy()}
    np.savez(folder / "mine.npz", **{name: one for name, one in (data | changes).items() if one is not None})


def report(folder, *more):
    return command.main(
        ["report", str(folder / "mine.pt"), str(folder / "mine.npz"), "--out", str(folder / "mine.html"), *more]
    )


def test_the_page_stands_alone_and_json_has_every_head(tmp_path, capsys):
    saved(tmp_path)
    assert report(tmp_path) == 0
    assert "4 heads of 2 layers" in capsys.readouterr().out
    page, told = (tmp_path / "mine.html").read_text(), json.loads((tmp_path / "mine.json").read_text())
    assert not re.search(r"<script|https?:|src=", page)
    assert page.count("<details>") == 4
    assert set(re.findall(r'href="#(\w+)"', page)) == set(re.findall(r' id="(\w+)"', page))
    assert [one["check"] for one in told["heads"]] == ["agrees"] * 4
    assert not list(tmp_path.glob("*.layers"))


def test_attention_of_all_tokens_is_read_where_one_asks(tmp_path):
    model, places = encoder(), torch.tensor([0, 1, 2, 3, 4, 0])
    hidden, data = inputs(), {"query": places.numpy()}
    for k, layer in enumerate(model.layers):
        attention = layer.self_attn(hidden, hidden, hidden, average_attn_weights=False)[1]
        data |= {f"tokens.{k}": hidden.detach().numpy(), f"attention.{k}": attention.detach().numpy()}
        hidden = layer(hidden)
    saved(tmp_path, **data)
    assert report(tmp_path) == 0
    told = json.loads((tmp_path / "mine.json").read_text())["heads"]
    assert [one["check"] for one in told] == ["agrees"] * 4
    assert [one["asks"] for one in told[0]["inputs"]] == places.tolist()


def test_a_text_that_is_none_is_refused(tmp_path):
    (tmp_path / "x.npy").write_bytes(b"\x93NUMPY")
    with pytest.raises(ValueError, match="has no line of text in UTF-8: give a text, a folder of images, an npz"):
        running._lines(tmp_path / "x.npy")


def test_lines_are_what_an_editor_calls_lines(tmp_path):
    (tmp_path / "x.txt").write_bytes("\ufeffone\u2028line\r\n\n two\n".encode())
    assert running._lines(tmp_path / "x.txt") == ["one\u2028line", " two"]


def test_a_name_from_a_file_is_text_on_the_page():
    facts = layer_facts(seen(encoder(), inputs())[0]._replace(words=[["<b>"] * T] * N))
    assert "<b>&lt;b&gt;" not in (text := command.page("<i>", facts, ["<i>:"]))
    assert "&lt;b&gt;" in text
    assert "<i>:" not in text


REFUSED = {
    "no tokens of a layer": ({"tokens.1": None}, (), "has no tokens.1 for layers.1.self_attn.: record what"),
    "one layer's tokens": (
        {"tokens.0": None, "tokens.1": None, "tokens": np.ones((N, T, D))}, (), "give tokens.0, tokens.1",
    ),
    "no heads": ({"attention.0": None}, (), "heads is 0, and no config.json"),
    "another prefix": ({}, ("--prefix", "decoder."), "prefix is 'decoder.', and no layer's name begins so"),
    "no folder": ({}, ("--out", "/none/x.html"), "/none is no folder here: make it"),
    "padding": (
        {"mask": np.zeros((N, T), bool), "query": None}, (), "input 0 is padding from end to end: its mask must",
    ),
    "no data": ({}, ("--inputs", "0"), "inputs is 0"),
    "a query that is not there": ({"query": None}, ("--query", "7"), "query is 7: there are 5 tokens, 0 to 4"),
    "a place behind the last": ({"query": np.full(N, 9)}, (), "9.0]: there are 5 tokens, 0 to 4"),
    "half a place": ({"query": np.full(N, 0.5)}, (), "there are 5 tokens, 0 to 4"),
    "the mean over heads": ({"attention.0": np.full((N, T, T), 1 / T)}, (), "in the mean over heads: record it by"),
    "logits": ({"attention.1": np.full((N, 2, T), -1.0)}, (), "attention.1 is below 0, or its rows do not sum to 1"),
    "a flat array": ({"tokens.0": np.ones((N, T))}, (), "tokens.0 has shape (6, 5): give an array of shape"),
    "another width": ({"tokens.1": np.ones((N, T, 3))}, (), "tokens of layers.1.self_attn have 3 entries, the layer"),
    "one place for all": ({"query": np.array(0)}, (), "query has shape (): give an array of shape (..., inputs)"),
    "a mask of another length": ({"mask": np.ones((N, 3), bool)}, (), "mask has shape (6, 3): give 6 inputs, 5 tokens"),
    "attention of another length": (
        {"attention.0": np.ones((N, 2, 3))}, (), "attention.0 has shape (6, 2, 3): give 6 inputs, heads, 5 tokens",
    ),
    "heads that the attention does not have": ({}, ("--heads", "4"), "are 4, its attention has 2: leave --heads out"),
    "two queries": ({}, ("--query", "1"), "--query is 1, but"),
    "tokens that are not numbers": ({"tokens.0": np.full((N, T, D), np.nan)}, (), "tokens.0 has the entry nan"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_reported_is_refused_in_a_sentence(case, tmp_path, capsys):
    changes, more, sentence = REFUSED[case]
    saved(tmp_path, **changes)
    assert report(tmp_path, *more) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert sentence in told
    assert not told.startswith("Traceback")


CALLS = {  # model, data, and what is said
    "no data": ("mine.pt", "none.txt", "none.txt is no file here: give a text file, a folder of images, an npz"),
    "a folder without weights": ("empty", "mine.npz", "empty has no safetensors: give the file of weights"),
    "a folder that is no model": ("empty", "x.txt", "transformers cannot load"),
    "code of its own": ("coded", "x.txt", "it has code of its own, which is not executed"),
    "no tokenizer": ("bert", "x.txt", "bert has no tokenizer: save it there, or give DATA as npz with input_ids"),
    "data of another model": ("bert", "image.npz", "does not run on pixel_values of"),
    "a text for a file of weights": ("mine.pt", "x.txt", "is a file of weights, which nothing here can run"),
    "other names for it": ("mine.pt", "image.npz", "image.npz has pixel_values)"),
    "no images": ("bert", "empty", "empty has no images: give a folder with files of .png, .jpg, .jpeg"),
    "no way to read images": ("bert", "images", "bert has no preprocessor_config.json: save it, or"),
}


@pytest.mark.parametrize("case", CALLS)
def test_files_that_do_not_fit_are_refused_with_the_remedy(case, tmp_path, capsys):
    model, data, sentence = CALLS[case]
    saved(tmp_path)
    np.savez(tmp_path / "image.npz", pixel_values=np.ones((2, 3, 4, 4)))
    (tmp_path / "x.txt").write_text("a text\n")
    for name in ("empty", "coded", "images"):
        (tmp_path / name).mkdir()
    (tmp_path / "images/x.png").touch()
    coded = {"model_type": "mine", "auto_map": {"AutoConfig": "mine.Config"}}
    (tmp_path / "coded/config.json").write_text(json.dumps(coded))
    if model == "bert":
        sizes = {"hidden_size": D, "num_attention_heads": 2, "num_hidden_layers": 1, "intermediate_size": 8}
        transformers.BertModel(transformers.BertConfig(vocab_size=9, **sizes)).save_pretrained(tmp_path / "bert")
    called = ["report", str(tmp_path / model), str(tmp_path / data), "--out", str(tmp_path / "x.html")]
    assert command.main(called) == 1
    told = capsys.readouterr().err.splitlines()[-1]
    assert sentence in told


def own(folder):
    """A layer under names that nobody knows, as two files of a stranger."""
    state = {f"block.{k}.{name}.weight": torch.randn(D, D, generator=seeded(k)) for k in (0, 1) for name in "abcd"}
    torch.save(state, folder / "mine.pt")
    np.savez(folder / "mine.npz", **{f"tokens.{k}": inputs().numpy() for k in (0, 1)})
    return ",".join(f"{part}=block.*.{name}.weight" for part, name in zip(PARTS, "abcd", strict=True))


def test_a_layer_that_is_the_whole_file_has_a_name(tmp_path):
    layer, x = encoder().layers[0].self_attn, inputs()
    torch.save(layer.state_dict(), tmp_path / "mine.pt")
    np.savez(tmp_path / "mine.npz", tokens=x, attention=layer(x, x, x, average_attn_weights=False)[1].detach())
    assert report(tmp_path) == 0
    told = json.loads((tmp_path / "mine.json").read_text())["heads"]
    assert [(one["layer"], one["check"]) for one in told] == [("attention", "agrees")] * 2


def test_the_first_of_recorded_tokens_is_the_first_that_is_seen(tmp_path):
    mask = np.ones((N, T), bool)
    mask[:3, :2] = False
    saved(tmp_path, **{"attention.0": None, "attention.1": None, "query": None, "mask": mask})
    assert report(tmp_path, "--heads", "2") == 0
    told = json.loads((tmp_path / "mine.json").read_text())["heads"]
    hits = [sum(entry["selects"] == mask[entry["input"]].argmax() for entry in one["inputs"]) for one in told]
    assert [one["places"].get("the first token", 0) for one in told] == hits
    assert any(entry["selects"] == 2 for one in told for entry in one["inputs"][:3])


def test_names_of_ones_own_are_asked_for_and_taken(tmp_path, capsys):
    names = own(tmp_path)
    assert report(tmp_path) == 1
    assert "to a report as --names query=blocks.*.wq.weight,key=..., and value and out" in capsys.readouterr().err
    assert report(tmp_path, "--names", names) == 1
    assert "heads is 0, and no config.json" in capsys.readouterr().err
    assert report(tmp_path, "--names", names, "--heads", "2") == 0
    told = json.loads((tmp_path / "mine.json").read_text())["heads"]
    assert [(one["layer"], one["check"]) for one in told] == [(f"block.{k}", "assumed") for k in (0, 0, 1, 1)]
    assert report(tmp_path, "--names", names.replace("d.weight", "e.weight")) == 1
    assert "has no 'block.0.e.weight': the nearest names are block.0" in capsys.readouterr().err


@pytest.mark.parametrize("order", ["blocks", "per head", "keys first"])
def test_attention_tells_the_order_of_a_fused_matrix_and_without_it_the_order_is_asked_for(
    tmp_path, capsys, order, monkeypatch
):
    monkeypatch.setitem(FUSED, "keys first", Order("head kqv entry", "a head has its key first"))
    packed, out, x = torch.randn(3 * D, D), torch.randn(D, D), inputs().double()
    rows = packed.view(3, 2, D // 2, D) if order == "blocks" else packed.view(2, 3, D // 2, D).transpose(0, 1)
    rows = rows[[1, 0, 2]] if order == "keys first" else rows
    query, key, _ = torch.einsum("phed,ntd->phnte", rows.double(), x)
    attention = (query @ key.mT / (D // 2) ** 0.5).softmax(-1).transpose(0, 1)
    torch.save({"block.0.qkv.weight": packed, "block.0.out.weight": out}, tmp_path / "mine.pt")
    names = "qkv=block.*.qkv.weight,out=block.*.out.weight"
    for given, names_given, status in (
        ({"attention.0": attention.numpy()}, names, 0),
        ({}, names, 1),
        ({}, f"{names},fused={order}", 0),
    ):
        np.savez(tmp_path / "mine.npz", **{"tokens.0": x.numpy()} | given)
        assert report(tmp_path, "--names", names_given, "--heads", "2") == status
        if status:
            assert "the order of the rows of block.0.qkv.weight is not known" in capsys.readouterr().err
        else:
            told = json.loads((tmp_path / "mine.json").read_text())["heads"]
            assert [one["check"] for one in told] == ["agrees" if given else "assumed"] * 2


def test_without_transformers_the_remedy_is_named(tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "transformers", None)
    (tmp_path / "x.txt").write_text("a text\n")
    assert command.main(["report", "some/model", str(tmp_path / "x.txt"), "--out", str(tmp_path / "x.html")]) == 1
    assert "needs transformers: pip install transformers; or give DATA with recorded tokens" in capsys.readouterr().err


def test_one_token_is_no_choice():
    layer = Layer("one", torch.zeros(2, dtype=torch.int64), torch.ones(2, 1, 1), torch.ones(2, 1, dtype=torch.bool))
    with pytest.raises(ValueError, match="every input sees one token alone"):
        layer_facts(layer)


@pytest.mark.parametrize("padded", [[1, 1, 0], [0, 1, 1]])
def test_attention_is_causal_where_no_real_token_attends_to_one_behind_it(padded):
    present = torch.tensor([padded, [1, 1, 1]]).bool()
    even = torch.full((2, 1, 3, 3), 1 / 3)
    causal = (even * present[:, None, None]).tril()
    causal = torch.where(present[:, None, :, None], causal / causal.sum(-1, keepdim=True), even)  # rows of padding
    for attention, places in ((even, [padded.index(1), 0]), (causal, [2 if padded[2] else 1, 2])):
        layer = capture.queried(attention, None, present, present)
        assert layer.positions.tolist() == places


def test_a_far_token_without_attention_is_hidden_only_where_a_mask_says_so():
    attention = torch.tensor([0.7, 0.3, 0.0]).expand(2, 4, 3, 3)
    assert capture.queried(attention, 0, None, None).mask.all()
    hidden = torch.tensor([1, 1, 0]).bool().expand(2, 3)
    for mask in (hidden[:, None, None], ~hidden[:, None, None], torch.where(hidden, 0.0, -1e4)[:, None, None], ~hidden):
        assert capture.queried(attention, 0, None, None, [mask]).mask.equal(hidden)
    wrong = hidden.flip(-1)[:, None, None]  # would hide a token that has attention
    assert capture.queried(attention, 0, None, None, [wrong]).mask.all()


def test_attention_in_half_precision_changes_no_distance_that_it_tells(tmp_path):
    flips = []
    for dtype in (np.float32, np.float16):
        with torch.random.fork_rng():
            torch.manual_seed(0)
            hidden = 4 * inputs()
        layer = encoder().layers[0].self_attn
        attention = layer(hidden, hidden, hidden, average_attn_weights=False)[1][:, :, 0].detach().numpy().astype(dtype)
        saved(tmp_path, **{"tokens.0": hidden.numpy(), "attention.0": attention, "mask": np.ones((N, T), bool)})
        assert report(tmp_path) == 0
        told = json.loads((tmp_path / "mine.json").read_text())["heads"][:2]
        assert [one["check"] for one in told] == ["agrees"] * 2
        flips.append([entry["flip"] for one in told for entry in one["inputs"]])
    assert (attention == 0).any()
    told = [pair for pair in zip(*flips, strict=True) if None not in pair]
    assert 0 < len(told) < len(flips[0]) == 2 * N
    assert all(single == half for single, half in told)
    assert "of the inputs the model's attention tells the lead" in (tmp_path / "mine.html").read_text()


def test_a_token_that_the_model_hides_in_silence_is_not_taken_for_far():
    """Attention of a window that no mask names."""
    (layer, _) = seen(encoder(), inputs())
    attention = layer.attention.clone()
    attention[..., 3:] = 0
    layer = layer._replace(attention=attention / attention.sum(-1, keepdim=True), why="")
    for facts in layer_facts(layer):
        assert (facts["check"], facts["why"]) == ("recorded", "the model hides tokens, and no mask says which")


def test_weights_alone_say_at_the_top_what_is_assumed(tmp_path):
    saved(tmp_path, **{"attention.0": None, "attention.1": None})
    assert report(tmp_path, "--heads", "2") == 0
    page = (tmp_path / "mine.html").read_text()
    assert page.index("4 of 4 heads were compared with nothing") < page.index("Spread of attention")
    saved(tmp_path)
    assert report(tmp_path) == 0
    assert "compared with nothing" not in (tmp_path / "mine.html").read_text()


def test_bits_are_forecast_and_counted_where_they_are_asked_for(tmp_path, capsys):
    saved(tmp_path)
    assert report(tmp_path) == 0
    without = json.loads((tmp_path / "mine.json").read_text())["heads"]
    assert not any(key.startswith("bits") for head in without for key in head)
    assert report(tmp_path, "--bits", "4") == 0
    page, told = (tmp_path / "mine.html").read_text(), json.loads((tmp_path / "mine.json").read_text())["heads"]
    for layer, facts in zip(seen(encoder(), inputs()), (told[:2], told[2:]), strict=True):
        weights = layer.weights()[0]
        for head, one in enumerate(facts):
            tokens, queries = layer.tokens.double(), layer.queries.double()
            choices = Choices(tokens, queries, head_logits(weights, head, tokens, queries))
            assert one["bits_forecast"] == pytest.approx(forecast(weights, head, choices, 4).mean().item())
            assert one["bits_counted"] == count_flips(weights, head, choices, 4).double().mean().item()
            assert f"flip {one['bits_forecast']:.1%} of the choices as forecast" in " ".join(page.split())
    assert "Flips at 4 bits" in page
    assert report(tmp_path, "--bits", "1") == 1
    assert "bits is 1: give 2 to 16" in capsys.readouterr().err


def test_no_bits_of_a_head_that_the_weights_do_not_give():
    facts = layer_facts(changed(lambda one: one.flip(-1), "rotary positions"), bits=4)
    assert not any(key.startswith("bits") for head in facts for key in head)
    assert "Flips at" not in command.page("m", facts, [])
