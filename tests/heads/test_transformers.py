"""The conventions for Hugging Face against `transformers` itself, with random weights.

A head's attention must be what the model says it attends, and its margins must move the answer as the model does.
"""

import json
import os
import re

import numpy as np
import pytest
import torch
import transformers
from PIL import Image
from problems import refuses
from safetensors.torch import load_file, save_file

from heads import command, file_problem, head_problem, layer_prefixes, record, running, state_weights

WIDTH, HEADS, LAYERS, LENGTH = 16, 4, 3, 6
COMMON = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 32}
TOWERS = {"d_model": WIDTH, "vocab_size": 50} | {
    f"{part}_{name}": size
    for part in ("encoder", "decoder")
    for name, size in (("layers", LAYERS), ("attention_heads", HEADS), ("ffn_dim", 32))
}
BART = ("BartModel", "BartConfig", TOWERS | {"pad_token_id": 0})
SPECIAL = dict.fromkeys(("pad_token_id", "bos_token_id", "eos_token_id", "decoder_start_token_id"), 0)
WHISPER = ("WhisperModel", "WhisperConfig", TOWERS | SPECIAL | {"num_mel_bins": 8, "max_source_positions": LENGTH})
MODELS = {  # class, config, from the base model to an attention layer, its parts that receive and that answer
    "BERT": (
        "BertModel", "BertConfig", {**COMMON, "vocab_size": 50}, "encoder.layer.1.attention", "self", "output.dense",
    ),
    "ViT": (  # in memory it has other names than in its file; both are known
        "ViTModel", "ViTConfig", {**COMMON, "image_size": 8, "patch_size": 4}, "layers.1.attention", "q_proj", "o_proj",
    ),
    "GPT-2": (
        "GPT2Model", "GPT2Config", {"n_embd": WIDTH, "n_layer": LAYERS, "n_head": HEADS, "vocab_size": 50}, "h.1.attn",
        "c_attn", "c_proj",
    ),
    "OPT": (
        "OPTModel", "OPTConfig",
        {
            "hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "ffn_dim": 32,
            "vocab_size": 50, "word_embed_proj_dim": WIDTH, "max_position_embeddings": 20,
        },
        "decoder.layers.1.self_attn", "q_proj", "out_proj",
    ),
    "GPT-Neo": (
        "GPTNeoModel", "GPTNeoConfig",
        {
            "hidden_size": WIDTH, "num_layers": 2, "num_heads": HEADS, "vocab_size": 50,
            "attention_types": [[["global", "local"], 1]],
        },
        "h.1.attn.attention", "q_proj", "out_proj",
    ),
    "BART, encoder": (*BART, "encoder.layers.1.self_attn", "q_proj", "out_proj"),
    "BART, decoder": (*BART, "decoder.layers.1.self_attn", "q_proj", "out_proj"),
    "Whisper, encoder": (*WHISPER, "encoder.layers.1.self_attn", "q_proj", "out_proj"),
    "Whisper, decoder": (*WHISPER, "decoder.layers.1.self_attn", "q_proj", "out_proj"),
}  # fmt: skip
SCALES = {"GPT-Neo": 1.0}
CAUSAL = ("GPT-2", "OPT", "GPT-Neo", "BART, decoder", "Whisper, decoder")
GROUPED = {**COMMON, "vocab_size": 50, "num_key_value_heads": 2, "head_dim": WIDTH // HEADS}
PATCHES = {**COMMON, "image_size": 8, "patch_size": 4}
OTHERWISE = {  # models whose logits are others, or which have several stacks: class, config, what the refusal names
    "Llama": ("LlamaModel", "LlamaConfig", GROUPED, "rope"),
    "Gemma 2": ("Gemma2Model", "Gemma2Config", GROUPED, "attn_logit_softcapping"),
    "Qwen 3": ("Qwen3Model", "Qwen3Config", GROUPED, "rope"),
    "GPT-J": ("GPTJModel", "GPTJConfig", MODELS["GPT-2"][2] | {"rotary_dim": 4}, "rotary_dim"),
    "GPT-Neo": ("GPTNeoModel", "GPTNeoConfig", MODELS["GPT-Neo"][2] | {"window_size": 3}, "window_size"),
    "ESM": (
        "EsmModel", "EsmConfig",
        {**COMMON, "vocab_size": 50, "pad_token_id": 1, "mask_token_id": 2, "position_embedding_type": "rotary"},
        "position_embedding_type",
    ),
    "GPT-2": (
        "GPT2Model", "GPT2Config", MODELS["GPT-2"][2] | {"scale_attn_by_inverse_layer_idx": True}, "inverse_layer_idx",
    ),
    "Swin": (
        "SwinModel", "SwinConfig",
        {"image_size": 16, "patch_size": 2, "embed_dim": WIDTH, "depths": [1, 1], "num_heads": [4, 4]}, "window_size",
    ),
    "BEiT": ("BeitModel", "BeitConfig", PATCHES | {"use_relative_position_bias": True}, "use_relative_position_bias"),
    "BART": (*BART, "decoder.layers.*.encoder_attn., decoder.layers.*.self_attn., enc"),
    "CLIP": (
        "CLIPModel", "CLIPConfig", {"text_config": {**COMMON, "vocab_size": 50}, "vision_config": PATCHES},
        "text_model.encoder.layers.*.self_attn., vision_model.",
    ),
}  # fmt: skip


TEXT = {**COMMON, "vocab_size": 50, "pad_token_id": 0}
SMALL_GROUPED = {name: size for name, size in GROUPED.items() if name != "head_dim"} | {"pad_token_id": 0}
REPORTED = {  # which test_architectures lacks: class, config, settings, how heads are told, of how many that is so
    "OPT": (*MODELS["OPT"][:3], "agrees", 12),
    "DistilBERT": (
        "DistilBertModel", "DistilBertConfig",
        {"dim": WIDTH, "n_layers": 2, "n_heads": HEADS, "hidden_dim": 32, "vocab_size": 50}, "agrees", 8,
    ),
    "Whisper": (*WHISPER, "agrees", 36),
    "BEiT": (*OTHERWISE["BEiT"][:3], "biased", 12),
    "Qwen 3": ("Qwen3Model", "Qwen3Config", GROUPED, "recorded", 12),
    "Phi-3": ("Phi3Model", "Phi3Config", SMALL_GROUPED, "recorded", 12),
    "GPT-2, by layer": (*OTHERWISE["GPT-2"][:3], "agrees", 12),
    "Falcon with ALiBi": (
        "FalconModel", "FalconConfig",
        {"hidden_size": WIDTH, "num_hidden_layers": 2, "num_attention_heads": HEADS, "vocab_size": 50, "alibi": True},
        "recorded", 8,
    ),
    "names of no convention": ("GPTNeoXModel", "GPTNeoXConfig", TEXT, "recorded", 12),
}  # fmt: skip


@pytest.mark.parametrize("style", REPORTED)
def test_every_head_of_a_model_is_reported(style, tmp_path):
    *_, check, count = REPORTED[style]
    model = random_model(style)
    layers, _ = reported(tmp_path, model, **{name: one.numpy() for name, one in given(model, 6).items()})
    heads = [one for heads in layers.values() for one in heads]
    told = [one for one in heads if one["check"] == check]
    assert len(told) == count
    assert all(one["off"] < 1e-5 for one in heads if one["check"] in ("agrees", "biased"))
    assert all(("flip" in one) == (one["check"] != "recorded") for one in heads)


def random_model(style):
    return random_of(*{**MODELS, **REPORTED, **OTHERWISE}[style])


def random_of(name, config, settings, *_):
    torch.manual_seed(0)
    model = getattr(transformers, name)(getattr(transformers, config)(**settings)).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model


def reported(folder, model, *more, **arrays):
    """Heads and the rest of the report on a model, by layer."""
    model.save_pretrained(folder / "model")
    np.savez(folder / "data.npz", **arrays)
    out = folder / "report.html"
    called = ["report", str(folder / "model"), str(folder / "data.npz"), "--out", str(out), *more]
    assert command.main(called) == 0
    told = json.loads(out.with_suffix(".json").read_text())
    layers = {}
    for head in told["heads"]:
        layers.setdefault(head["layer"], []).append(head)
    return layers, told


def refused(folder, model, capsys, *more, **arrays):
    """What the report says when it is refused."""
    if model is not None:
        model.save_pretrained(folder / "model")
    np.savez(folder / "data.npz", **arrays)
    called = ["report", str(folder / "model"), str(folder / "data.npz"), "--out", str(folder / "x.html"), *more]
    assert command.main(called) == 1
    said = capsys.readouterr().err.splitlines()
    assert not any(line.startswith("Traceback") for line in said)
    return said[-1]


def words_of(*shape, seed=0):
    return np.random.default_rng(seed).integers(5, 50, shape)


def test_weights_that_are_drawn_at_random_are_refused_by_name(tmp_path, capsys):
    model = random_model("BERT")
    model.save_pretrained(tmp_path / "model")
    state = {f"_orig_mod.{name}": one for name, one in load_file(tmp_path / "model/model.safetensors").items()}
    save_file(state, tmp_path / "model/model.safetensors", {"format": "pt"})
    said = refused(tmp_path, None, capsys, input_ids=words_of(4, LENGTH))
    assert "which transformers would draw at random" in said
    assert "embeddings.LayerNorm.bias" in said.split("draw at random")[0]
    assert "_orig_mod.embeddings" in said.split("draw at random")[1]


def test_parts_behind_all_attention_may_be_missing(tmp_path):
    model = random_model("BERT")
    model.pooler = None
    layers, _ = reported(tmp_path, model, input_ids=words_of(4, LENGTH))
    assert {head["check"] for heads in layers.values() for head in heads} == {"agrees"}


@pytest.mark.parametrize("name", ["encoder.block.1.layer.1.mlp.router.classifier.weight", "vision_model.cls"])
def test_a_part_that_attention_depends_on_is_none_of_them(name):
    assert not running.BEHIND.search(name)
    assert running.BEHIND.search("bert.pooler.dense.weight")
    assert running.BEHIND.search("cls.predictions.bias")


@pytest.mark.parametrize("style", ["GPT-2", "OPT", "Llama"])
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_on_either_side_of_a_causal_model(style, side, tmp_path):
    ids, mask = words_of(4, LENGTH), np.ones((4, LENGTH), int)
    mask[1, :2] = mask[2, :3] = 0
    mask = mask if side == "left" else mask[:, ::-1].copy()
    layers, _ = reported(tmp_path, random_model(style), input_ids=ids, attention_mask=mask)
    last = [int(np.flatnonzero(row).max()) for row in mask]
    for head in (head for heads in layers.values() for head in heads):
        assert head["check"] == ("recorded" if style == "Llama" else "agrees")
        assert [one["asks"] for one in head["inputs"]] == last
        assert all(mask[one["input"], one["selects"]] for one in head["inputs"])


def test_encoder_and_decoder_of_one_length_keep_their_masks_words_and_places(tmp_path):
    ids, other, mask = words_of(4, LENGTH), words_of(4, LENGTH, seed=1), np.ones((4, LENGTH), int)
    mask[1, 3:] = 0
    arrays = {"input_ids": ids, "decoder_input_ids": other, "attention_mask": mask}
    layers, _ = reported(tmp_path, random_model("BART, encoder"), **arrays)
    assert len(layers) == 9
    for name, (head, *_) in layers.items():
        assert head["check"] == "agrees"
        in_decoder, cross = name.startswith("decoder"), "encoder_attn" in name
        assert head["cross"] == cross
        assert {one["asks"] for one in head["inputs"]} == {LENGTH - 1 if in_decoder else 0}
        read = other if in_decoder and not cross else ids
        for one in head["inputs"]:
            assert one["selects_word"] == f"#{read[one['input'], one['selects']]}"
            assert read is other or mask[one["input"], one["selects"]]
        assert not cross or set(head["places"]) <= {"the first token"}


def test_two_models_in_one_keep_their_padding_and_numbers_for_words(tmp_path):
    settings = {**COMMON, "vocab_size": 50}
    decoder = transformers.BertConfig(**settings, is_decoder=True, add_cross_attention=True)
    both = transformers.EncoderDecoderConfig.from_encoder_decoder_configs(transformers.BertConfig(**settings), decoder)
    arrays = {"input_ids": words_of(4, LENGTH), "decoder_input_ids": words_of(4, LENGTH, seed=1)}
    arrays |= {name: np.ones((4, LENGTH), int) for name in ("attention_mask", "decoder_attention_mask")}
    arrays["attention_mask"][1, :2] = arrays["decoder_attention_mask"][2, 4:] = 0
    layers, _ = reported(tmp_path, transformers.EncoderDecoderModel(both), **arrays)
    assert sum("crossattention" in name for name in layers) == LAYERS
    for name, (head, *_) in layers.items():
        asks = [0, 2, 0, 0] if name.startswith("encoder") else [LENGTH - 1, LENGTH - 1, 3, LENGTH - 1]
        assert [one["asks"] for one in head["inputs"]] == asks
        ids = arrays["decoder_input_ids" if name.startswith("decoder") and not head["cross"] else "input_ids"]
        assert all(one["selects_word"] == f"#{ids[one['input'], one['selects']]}" for one in head["inputs"])


def test_patches_have_no_words_and_no_padding(tmp_path):
    mask = np.ones((4, 5), int)
    mask[:, 0] = 0
    arrays = {"input_ids": words_of(4, 5), "attention_mask": mask}
    arrays["pixel_values"] = np.random.default_rng(0).normal(size=(4, 3, 8, 8))
    layers, _ = reported(tmp_path, random_model("CLIP"), **arrays)
    for name, (head, *_) in layers.items():
        in_text = name.startswith("text_model")
        assert head["check"] == "agrees"
        assert {one["asks"] for one in head["inputs"]} == {4 if in_text else 0}
        assert ("selects_word" in head["inputs"][0]) == in_text


def test_cross_attention_under_names_that_are_not_known_is_recorded(tmp_path):
    settings = MODELS["GPT-2"][2] | {"add_cross_attention": True}
    model = transformers.GPT2Model(transformers.GPT2Config(**settings))
    read = np.random.default_rng(0).normal(size=(4, 3, WIDTH))
    layers, _ = reported(tmp_path, model, input_ids=words_of(4, LENGTH), encoder_hidden_states=read)
    assert {heads[0]["check"] for name, heads in layers.items() if "cross" not in name} == {"agrees"}
    assert {heads[0]["check"] for name, heads in layers.items() if "cross" in name} == {"recorded"}
    assert all(one["selects"] < 3 for one in layers["h.0.crossattention"][0]["inputs"])


def test_attention_over_a_window_is_left_out_and_listed(tmp_path, capsys):
    sizes = {"attention_window": 4, "encoder_layers": 1, "decoder_layers": 1, "max_encoder_position_embeddings": 32}
    model = transformers.LEDModel(transformers.LEDConfig(**TOWERS | SPECIAL | sizes))
    layers, told = reported(tmp_path, model, input_ids=words_of(4, 8), decoder_input_ids=words_of(4, 8, seed=1))
    assert {name.split(".")[0] for name in layers} == {"decoder"}
    assert any("encoder.layers.*.self_attn" in sentence for sentence in told["left_out"])
    assert "What is not shown" in (tmp_path / "report.html").read_text()
    plain = {**TEXT, "attention_window": 4, "max_position_embeddings": 40}
    model = transformers.LongformerModel(transformers.LongformerConfig(**plain))
    assert "no head can be reported: " in refused(tmp_path, model, capsys, input_ids=words_of(4, 8))


def test_attention_with_its_dimensions_in_another_order_is_not_shown(tmp_path, capsys):
    """XLNet's modules give (tokens, tokens, inputs, heads), here as many of the last two."""
    sizes = {"d_model": WIDTH, "n_layer": 1, "n_head": 4, "d_inner": 32, "vocab_size": 50}
    model = transformers.XLNetModel(transformers.XLNetConfig(**sizes))
    assert "it gives no attention" in refused(tmp_path, model, capsys, input_ids=words_of(4, LENGTH))


def test_a_layer_whose_weights_do_not_serve_is_recorded_with_the_reason(tmp_path):
    model = transformers.GPTBigCodeModel(transformers.GPTBigCodeConfig(**MODELS["GPT-2"][2]))
    layers, _ = reported(tmp_path, model, input_ids=words_of(4, LENGTH))
    for head in (head for heads in layers.values() for head in heads):
        assert head["check"] == "recorded"
        assert head["why"].startswith("its weights do not serve: h.")


def test_a_fault_of_ours_is_not_blamed_on_the_data(tmp_path, monkeypatch):
    facts = command.layer_facts

    def faulty(layer, bits):
        if layer.name == "encoder.layer.1":
            raise KeyError("ours")
        return facts(layer, bits)

    monkeypatch.setattr(command, "layer_facts", faulty)
    layers, told = reported(tmp_path, random_model("BERT"), input_ids=words_of(4, LENGTH))
    assert list(layers) == ["encoder.layer.0", "encoder.layer.2"]  # and not by another way into the report
    assert told["left_out"] == ["encoder.layer.*: a fault of this library, KeyError('ours')"]


def test_a_tokenizer_that_needs_another_package_is_asked_for_by_texts_alone(tmp_path, monkeypatch, capsys):
    def needs(*_, **__):
        raise ImportError("needs sacremoses: pip install sacremoses")

    monkeypatch.setattr(transformers.AutoTokenizer, "from_pretrained", needs)
    reported(tmp_path, random_model("BERT"), input_ids=words_of(4, LENGTH))
    (tmp_path / "x.txt").write_text("a text\n")
    called = ["report", str(tmp_path / "model"), str(tmp_path / "x.txt"), "--out", str(tmp_path / "x.html")]
    assert command.main(called) == 1
    assert "has no tokenizer (needs sacremoses: pip install sacremoses)" in capsys.readouterr().err


SPOILT = {  # what is done to a folder, arrays, and what is said
    "weights that are cut": (lambda f: os.truncate(f / "model.safetensors", 900), {}, "transformers cannot load"),
    "another width": (
        lambda f: (f / "config.json").write_text((f / "config.json").read_text().replace(": 16", ": 20")),
        {}, "transformers cannot load",
    ),
    "ids of one input": (lambda f: None, {"input_ids": np.arange(5)}, "has input_ids (5,): give arrays (inputs, ...)"),
    "inputs of another number": (lambda f: None, {"attention_mask": np.ones((3, 6), int)}, "of equally many inputs"),
    "padding alone": (lambda f: None, {"attention_mask": np.zeros((4, 6), int)}, "input 0 is padding from end to end"),
}  # fmt: skip


@pytest.mark.parametrize("case", SPOILT)
def test_what_transformers_or_we_cannot_read_is_refused_in_a_line(case, tmp_path, capsys):
    spoil, arrays, sentence = SPOILT[case]
    random_model("BERT").save_pretrained(tmp_path / "model")
    spoil(tmp_path / "model")
    assert sentence in refused(tmp_path, None, capsys, **{"input_ids": words_of(4, LENGTH)} | arrays)


def test_a_folder_of_images_is_given_as_the_model_is_used_to(tmp_path):
    name, config, settings, *_ = MODELS["ViT"]
    torch.manual_seed(0)
    model = getattr(transformers, name)(getattr(transformers, config)(**settings))
    reads = transformers.ViTImageProcessorPil(size={"height": 8, "width": 8})
    for one in (model, reads):
        one.save_pretrained(tmp_path / "model")
    pixels = np.random.default_rng(0).integers(0, 256, (3, 16, 16, 3), np.uint8)
    (tmp_path / "images").mkdir()
    for k, image in enumerate(pixels):
        Image.fromarray(image).save(tmp_path / f"images/{k}.png")
    np.savez(tmp_path / "data.npz", **reads(list(pixels), return_tensors="np"))
    entropies = []
    for data in ("images", "data.npz"):
        out = tmp_path / f"{data}.html"
        assert command.main(["report", str(tmp_path / "model"), str(tmp_path / data), "--out", str(out)]) == 0
        entropies.append([one["entropy"] for one in json.loads(out.with_suffix(".json").read_text())["heads"]])
    assert len(entropies[0]) == 12
    assert entropies[0] == pytest.approx(entropies[1], abs=1e-6)


def given(model, inputs):
    """What a model takes, by name."""
    words = torch.randint(1, 50, (inputs, LENGTH))
    kinds = {
        "input_ids": words,
        "pixel_values": torch.randn(inputs, 3, 8, 8),
        "input_features": torch.randn(inputs, 8, 2 * LENGTH),
        "decoder_input_ids": words.flip(0),
    }
    names = {model.main_input_name} | ({"decoder_input_ids"} if model.config.is_encoder_decoder else set())
    names |= {"pixel_values"} if hasattr(model.config, "vision_config") else set()
    return {name: kinds[name] for name in sorted(names)}


def model_of(style):
    name, config, settings, *places = MODELS[style]
    torch.manual_seed(0)
    model = getattr(transformers, name)(getattr(transformers, config)(**settings)).double().eval()
    model.set_attn_implementation("eager")  # the one that says what it attends
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return model, places


def run_of(model, style):
    torch.manual_seed(1)
    data = {name: one.double() if one.is_floating_point() else one for name, one in given(model, 4).items()}

    def run(**more):
        found = model(**data, **more)
        reads = found.encoder_last_hidden_state if "encoder" in style else found.last_hidden_state
        kind = "_".join((*style.partition(", ")[2:], "attentions")).removeprefix("_")
        return reads, found.get(kind)

    return run


@pytest.mark.parametrize("head", [0, HEADS - 1])
@pytest.mark.parametrize("style", MODELS)
def test_a_head_attends_as_the_model_says(style, head, tmp_path):
    model, (place, receives, answers) = model_of(style)
    run, causal = run_of(model, style), style in CAUSAL
    query = -1 if causal else 0
    layer = model.get_submodule(place)
    last = torch.randn(WIDTH, dtype=torch.float64)

    def answer():
        return run()[0][:, query] @ last

    tokens, _ = record(layer.get_submodule(receives), answer)
    _, slopes = record(layer.get_submodule(answers), answer)
    state = model.state_dict()
    (prefix,) = (one for one in layer_prefixes(state) if place.startswith(one.rstrip(".")))
    weights = state_weights(state, HEADS, prefix, scale=SCALES.get(style))
    labels = [1.0, -1.0, 1.0, 1.0]
    problem, theta, _ = head_problem(weights, tokens, labels, slopes[:, query], head, query, causal=causal)
    outputs = []
    layer.get_submodule(answers).register_forward_hook(lambda _, given, out: outputs.append(out.detach()))
    seen = run(output_attentions=True)[1][1][:, head, query].detach()
    torch.testing.assert_close(problem.attention(theta), seen)
    whole, theta, scores = head_problem(weights, tokens, [1.0] * 4, last, head, query, causal=causal)
    torch.testing.assert_close(whole.margins(whole.attention(theta))[0], outputs[0][:, query] @ last)
    assert scores == "exact"
    model.save_pretrained(tmp_path)
    data = {"tokens": tokens, "labels": labels, "readout": slopes[:, query], "query": query, "attention": seen}
    np.savez(tmp_path / "data.npz", **data)
    stack = {"prefix": re.sub(r"\d", "*", place)} if ", " in style else {}
    found = file_problem(tmp_path / "model.safetensors", tmp_path / "data.npz", 1, head, causal=causal, **stack)
    torch.testing.assert_close(found.theta, theta)


@pytest.mark.parametrize("style", ["GPT-2", "OPT", "BERT"])
@pytest.mark.parametrize("query", [None, 3])
def test_weights_alone_attend_as_the_model_where_its_family_hides_tokens(style, query, tmp_path):
    model, (place, receives, _) = model_of(style)
    run, (number,) = run_of(model, style), re.findall(r"\d", place)
    tokens, _ = record(model.get_submodule(place).get_submodule(receives), lambda: run()[0].sum(-1)[:, -1])
    attention = run(output_attentions=True)[1][int(number)].detach()
    model.save_pretrained(tmp_path)
    np.savez(tmp_path / "data.npz", tokens=tokens)
    called = ["report", str(tmp_path / "model.safetensors"), str(tmp_path / "data.npz"), "--prefix"]
    prefix = next(name for name in layer_prefixes(model.state_dict()) if place.startswith(name.rstrip(".")))
    more = [] if query is None else ["--query", str(query)]
    assert command.main([*called, prefix, "--out", str(tmp_path / "x.html"), *more]) == 0
    asks = query if query is not None else LENGTH - 1 if style in CAUSAL else 0
    for head in json.loads((tmp_path / "x.json").read_text())["heads"]:
        rows = attention[:, head["head"], asks]
        assert head["check"] == "assumed"
        assert [one["asks"] for one in head["inputs"]] == [asks] * len(rows)
        assert [one["selects"] for one in head["inputs"]] == rows.argmax(-1).tolist()
        assert [one["share"] for one in head["inputs"]] == pytest.approx(rows.amax(-1).tolist(), rel=1e-3)


@pytest.mark.parametrize("style", OTHERWISE)
def test_a_model_whose_logits_are_others_is_refused(style, tmp_path):
    name, config, settings, sentence = OTHERWISE[style]
    getattr(transformers, name)(getattr(transformers, config)(**settings)).save_pretrained(tmp_path)
    np.savez(tmp_path / "x.npz", tokens=np.ones((2, 64, WIDTH)), labels=[1, -1], readout=np.ones(WIDTH))
    refuses(lambda: file_problem(tmp_path / "model.safetensors", tmp_path / "x.npz", 1), sentence)
