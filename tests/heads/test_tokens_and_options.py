"""What tokens a report counts and names, and which options and weights it takes: on random models of transformers."""

import architectures
import numpy as np
import pytest
import torch
import transformers
from test_transformers import (
    GROUPED,
    LAYERS,
    LENGTH,
    MODELS,
    OTHERWISE,
    WIDTH,
    random_model,
    random_of,
    refused,
    reported,
    words_of,
)

from heads import command, files, read_state
from heads.conventions import PLAIN
from heads.weights import layer_layouts

WINDOW = {"sliding_window": 3}
MIXED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
WINDOWS = {  # class, config, settings, and which layers have a window of 3 tokens
    "GPT-Neo": (*MODELS["GPT-Neo"][:2], MODELS["GPT-Neo"][2] | {"window_size": 3}, [False, True]),
    "Mistral": ("MistralModel", "MistralConfig", GROUPED | WINDOW, [True] * LAYERS),
    "Gemma 2": ("Gemma2Model", "Gemma2Config", GROUPED | WINDOW | MIXED, [True, False, True]),
    "Gemma 3": ("Gemma3TextModel", "Gemma3TextConfig", GROUPED | WINDOW | MIXED, [True, False, True]),
}  # fmt: skip


@pytest.mark.parametrize("style", WINDOWS)
def test_spread_counts_the_tokens_of_the_window_alone(style, tmp_path):
    *_, windows = WINDOWS[style]
    layers, _ = reported(tmp_path, random_of(*WINDOWS[style]), input_ids=words_of(4, LENGTH))
    assert len(layers) == len(windows)
    for heads, window in zip(layers.values(), windows, strict=True):
        for head in heads:
            assert head["check"] == ("agrees" if style == "GPT-Neo" else "recorded")
            for shown in head["shown"]:
                shares = np.array([share for share in shown["attention"] if share])
                assert len(shares) <= (size := 3 if window else LENGTH)
                assert shown["entropy"] == pytest.approx(-(shares * np.log(shares)).sum() / np.log(size), rel=0.01)


def test_a_head_that_hides_tokens_from_itself_is_even_over_the_others(tmp_path):
    """A token of Reformer's hashing attention does not see itself, and no mask says so."""
    settings = {"axial_pos_shape": [4, 2], "axial_pos_embds_dim": [8, 8], "attn_layers": ["lsh"], "hidden_size": WIDTH}
    settings |= {"num_attention_heads": 2, "attention_head_size": 8, "feed_forward_size": 16, "vocab_size": 50}
    model = transformers.ReformerModel(transformers.ReformerConfig(**settings, is_decoder=False))
    with torch.no_grad():
        model.encoder.layers[0].attention.self_attention.query_key.weight.mul_(1e-4)
    layers, _ = reported(tmp_path, model, input_ids=words_of(4, 8))
    for head in (head for heads in layers.values() for head in heads):
        assert head["entropy"] == pytest.approx(1, abs=1e-3)
        assert head["top"] == pytest.approx(1 / 7, abs=1e-2)


@pytest.mark.parametrize("side", ["left", "right"])
def test_the_first_token_is_the_first_that_is_no_padding(side, tmp_path):
    """Heads that see the first token alone: its key is far larger, and all queries ask for it."""
    mask = np.ones((4, LENGTH), int)
    mask[1, :2] = mask[2, :3] = 0
    mask = mask if side == "left" else mask[:, ::-1].copy()
    first = mask.argmax(1)
    ids = words_of(4, LENGTH)
    layers, _ = reported(tmp_path, random_model("GPT-2"), input_ids=ids, attention_mask=mask)
    counted = 0
    for head in (head for heads in layers.values() for head in heads):
        hits = sum(entry["selects"] == first[entry["input"]] for entry in head["inputs"])
        assert head["places"].get("the first token", 0) == hits
        counted += sum(entry["selects"] == first[entry["input"]] > 0 for entry in head["inputs"])
    assert (counted > 0) == (side == "left")


def test_texts_of_one_token_are_left_out_with_the_reason(tmp_path):
    mask = np.ones((4, LENGTH), int)
    mask[1, 1:] = mask[3, 1:] = 0
    layers, told = reported(tmp_path, random_model("BERT"), input_ids=words_of(4, LENGTH), attention_mask=mask)
    assert {entry["input"] for heads in layers.values() for head in heads for entry in head["inputs"]} == {0, 2}
    assert told["left_out"] == ["encoder.layer.*: inputs that see one token alone, so choose none: 1, 3"]
    assert told["left_out"][0] in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(("dtype", "named"), [("bfloat16", True), ("float16", True), ("float32", False)])
def test_weights_of_16_bits_are_computed_in_more_and_the_page_says_so(dtype, named, tmp_path):
    layers, _ = reported(tmp_path, random_model("BERT").to(getattr(torch, dtype)), input_ids=words_of(4, LENGTH))
    assert {head["check"] for heads in layers.values() for head in heads} == {"agrees"}
    page = (tmp_path / "report.html").read_text()
    assert page.count(f"The weights are {dtype}; the report computes with them in float32.") == named
    tokens = np.ones((2, 4, WIDTH))
    np.savez(tmp_path / "x.npz", **{f"tokens.{k}": tokens for k in range(LAYERS)})
    called = ["report", str(tmp_path / "model/model.safetensors"), str(tmp_path / "x.npz")]
    assert command.main([*called, "--out", str(tmp_path / "x.html")]) == 0
    assert (f"The weights are {dtype}; the report computes" in (tmp_path / "x.html").read_text()) == named


IGNORED = {
    "heads of a model that runs": (("--heads", "2"), "--heads is 2, but"),
    "a length of what is no text": (("--tokens", "4"), "--tokens is 4, but"),
}


@pytest.mark.parametrize("case", IGNORED)
def test_an_option_that_would_be_ignored_is_refused(case, tmp_path, capsys):
    more, sentence = IGNORED[case]
    assert sentence in refused(tmp_path, random_model("BERT"), capsys, *more, input_ids=words_of(4, LENGTH))


def test_bits_of_heads_that_are_recorded_are_not_asked_for_in_vain(tmp_path, capsys):
    arrays = {"input_ids": words_of(4, LENGTH)}
    reported(tmp_path, random_model("Llama"), "--bits", "4", **arrays)
    sentence = "--bits says nothing of 12 of 12 heads, which are shown as recorded."
    assert sentence in capsys.readouterr().err
    assert sentence in (tmp_path / "report.html").read_text()
    reported(tmp_path, random_model("BERT"), "--bits", "4", **arrays)
    assert "says nothing" not in capsys.readouterr().err


@pytest.mark.parametrize("family", PLAIN)
def test_weights_alone_of_a_family_whose_logits_are_plain_are_read(family, tmp_path):
    architectures.small_model(family, architectures.SIZES).save_pretrained(tmp_path)
    path = tmp_path / "model.safetensors"
    state = read_state(path)
    for before, layout in layer_layouts(state).items():
        files.check_logits(state, before, path, 4, layout)  # in the window of GPT-Neo
        assert files.file_weights(state, before, path).scale > 0


def test_windows_of_an_image_are_called_so_and_keep_their_masks(tmp_path):
    """A shifted window hides parts of others by -100, which is no -inf."""
    pixels = np.random.default_rng(0).normal(size=(5, 3, 16, 16))
    settings = OTHERWISE["Swin"][2] | {"depths": [2, 1], "window_size": 4}
    model = transformers.SwinModel(transformers.SwinConfig(**settings))
    for name, parameter in model.named_parameters():
        if "bias_table" in name:
            torch.nn.init.normal_(parameter, std=0.05)
    layers, _ = reported(tmp_path, model, pixel_values=pixels)
    assert [name.partition(", ")[2] for name in layers] == ["20 windows of 5 inputs"] * 2 + [""]
    for head in (head for heads in layers.values() for head in heads):
        assert head["check"] == "biased"
        assert all(0.9 < entry["entropy"] <= 1 for entry in head["inputs"])  # the weights of a new model are small
