"""Recorded arrays go to the layers that they are of, in the order in which layers run, and to the query that asks."""

import json

import numpy as np
import pytest
import torch
from test_transformers import LAYERS, LENGTH, MODELS, OTHERWISE, random_model, random_of, words_of

from heads import command, layer_prefixes

KINDS = ("self_attn", "encoder_attn")


def decoder(folder, order=(0, 1), attention=True):
    """A BART, saved, and what its decoder's layers receive and attend to at the last token, recorded in this order."""
    model, calls = random_model("BART"), {}
    model.set_attn_implementation("eager")
    with torch.no_grad():  # sharp attention: even one tells no layers apart
        for name, parameter in model.named_parameters():
            parameter.mul_(10 if "q_proj.weight" in name else 1)
    for k, layer in enumerate(model.decoder.layers):
        for kind in KINDS:
            for part in ("q_proj", "k_proj"):
                projection = getattr(getattr(layer, kind), part)
                projection.register_forward_pre_hook(
                    lambda _, given, at=(k, kind, part): calls.update({at: given[0].detach()})
                )
    words = {"input_ids": torch.tensor(words_of(4, LENGTH + 2)), "decoder_input_ids": torch.tensor(words_of(4, LENGTH))}
    answer, data = model(**words, output_attentions=True), {}
    attentions = {"self_attn": answer.decoder_attentions, "encoder_attn": answer.cross_attentions}
    for k in range(LAYERS):
        for place, kind in enumerate(KINDS):
            end = 2 * k + order[place]
            data[f"tokens.{end}"] = calls[k, kind, "k_proj"]
            if kind == "encoder_attn":
                data[f"queries.{end}"] = calls[k, kind, "q_proj"][:, -1]
            if attention:
                data[f"attention.{end}"] = attentions[kind][k][:, :, -1].detach()
    model.save_pretrained(folder)
    np.savez(folder / "x.npz", **data)
    return {f"decoder.layers.{k}.{kind}": attentions[kind][k][:, :, -1] for k in range(LAYERS) for kind in KINDS}


def run(folder, *more, prefix="decoder."):
    called = ["report", str(folder / "model.safetensors"), str(folder / "x.npz"), "--out", str(folder / "x.html")]
    return command.main([*called, *(("--prefix", prefix) if prefix else ()), *more])


def heads_of(folder):
    return json.loads((folder / "x.json").read_text())["heads"]


@pytest.mark.parametrize("attention", [True, False])
def test_arrays_of_a_decoder_go_to_layers_in_the_order_in_which_they_run(attention, tmp_path):
    rows = decoder(tmp_path, attention=attention)
    assert run(tmp_path) == 0
    heads = heads_of(tmp_path)
    assert list(dict.fromkeys(head["layer"] for head in heads)) == list(rows)
    for head in heads:
        truth = rows[head["layer"]][:, head["head"]]
        assert head["check"] == ("agrees" if attention else "assumed")
        assert [entry["selects"] for entry in head["inputs"]] == truth.argmax(-1).tolist()
        assert head["cross"] or {entry["asks"] for entry in head["inputs"]} == {LENGTH - 1}
    assert "tokens.0: decoder.layers.0.self_attn, tokens.1: decoder.layers.0.enc" in (tmp_path / "x.html").read_text()


@pytest.mark.parametrize(
    ("attention", "sentence"),
    [
        (True, "attention.1 is what decoder.layers.0.self_attn gives on tokens.1, which are matched to decoder."),
        (False, "has no queries.1 for decoder.layers.0.encoder_attn., cross-attention"),
    ],
)
def test_arrays_of_another_layer_are_refused_with_the_names(attention, sentence, tmp_path, capsys):
    decoder(tmp_path, (1, 0), attention)
    if attention:  # so that only the attention tells
        data = dict(np.load(tmp_path / "x.npz"))
        data |= {f"queries.{k}": data[f"tokens.{k}"][:, -1] for k in range(1, 2 * LAYERS, 2)}
        np.savez(tmp_path / "x.npz", **data)
    assert run(tmp_path) == 1
    assert sentence in capsys.readouterr().err


def test_stacks_of_layers_stand_one_behind_the_other():
    numbers = (10, 2)
    names = [f"{stack}.layers.{k}.{kind}." for stack in ("decoder", "encoder") for k in numbers for kind in KINDS]
    state = {
        f"{name}{part}.weight": torch.ones(1) for name in names for part in ("q_proj", "k_proj", "v_proj", "out_proj")
    }
    wanted = [f"{stack}.layers.{k}.{kind}." for stack in ("encoder", "decoder") for k in (2, 10) for kind in KINDS]
    assert layer_prefixes(state) == wanted


def rows_of(style, place, folder):
    """A model, saved, and the attention of the token at a place, as its layers receive tokens."""
    model, calls = random_of(*(MODELS | {"Llama": OTHERWISE["Llama"]})[style]), []
    model.set_attn_implementation("eager")
    for name, module in model.named_modules():
        if name.endswith(("attn.c_attn", "self_attn.q_proj", "self.query")):
            module.register_forward_pre_hook(lambda _, given: calls.append(given[0].detach()))
    attentions = model(torch.tensor(words_of(4, LENGTH)), output_attentions=True).attentions
    model.save_pretrained(folder)
    data = {f"tokens.{k}": tokens for k, tokens in enumerate(calls)}
    data |= {f"attention.{k}": rows[:, :, place].detach() for k, rows in enumerate(attentions)}
    np.savez(folder / "x.npz", **data)


@pytest.mark.parametrize(("style", "place"), [("GPT-2", -1), ("OPT", -1), ("Llama", -1), ("BERT", 0)])
def test_recorded_rows_are_of_the_token_that_the_family_asks_from(style, place, tmp_path):
    rows_of(style, place, tmp_path)
    assert run(tmp_path, prefix="") == 0
    for head in heads_of(tmp_path):
        assert head["check"] == ("recorded" if style == "Llama" else "agrees")
        assert {entry["asks"] for entry in head["inputs"]} == {place % LENGTH}
