"""The conventions for Hugging Face against `transformers` itself, with random weights; skipped where it is absent.

A head's attention must be what the model says it attends, and its margins must move the answer as the model does.
"""

import numpy as np
import pytest
import torch

from lib.files import file_problem, layer_prefixes
from lib.layers import head_problem, record
from lib.weights import state_weights

transformers = pytest.importorskip("transformers", minversion="5.0")

WIDTH, HEADS, LAYERS, LENGTH = 16, 4, 3, 6
COMMON = {"hidden_size": WIDTH, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "intermediate_size": 32}
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
}  # fmt: skip


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
    if style == "ViT":
        pixels = torch.randn(4, 3, 8, 8, dtype=torch.float64)
        return lambda **more: model(pixel_values=pixels, **more)
    words = torch.randint(50, (4, LENGTH))
    return lambda **more: model(input_ids=words, **more)


@pytest.mark.parametrize("head", [0, HEADS - 1])
@pytest.mark.parametrize("style", MODELS)
def test_a_head_attends_as_the_model_says(style, head, tmp_path):
    model, (place, receives, answers) = model_of(style)
    run, causal = run_of(model, style), style in ("GPT-2", "OPT")
    query = -1 if causal else 0
    layer = model.get_submodule(place)
    last = torch.randn(WIDTH, dtype=torch.float64)

    def answer():
        return run().last_hidden_state[:, query] @ last

    tokens, _ = record(layer.get_submodule(receives), answer)
    _, slopes = record(layer.get_submodule(answers), answer)
    state = model.state_dict()
    (prefix,) = (one for one in layer_prefixes(state) if place.startswith(one.rstrip(".")))
    weights = state_weights(state, HEADS, prefix)
    labels = [1.0, -1.0, 1.0, 1.0]
    problem, theta, _ = head_problem(weights, tokens, labels, slopes[:, query], head, query, causal=causal)
    seen = run(output_attentions=True).attentions[1][:, head, query]
    torch.testing.assert_close(problem.attention(theta), seen.detach())
    model.save_pretrained(tmp_path)
    data = {"tokens": tokens, "labels": labels, "readout": slopes[:, query], "query": query}
    np.savez(tmp_path / "data.npz", **data)
    found = file_problem(tmp_path / "model.safetensors", tmp_path / "data.npz", 1, head, causal=causal)
    torch.testing.assert_close(found.theta, theta)


@pytest.mark.parametrize("style", MODELS)
def test_the_layer_answers_as_the_sum_of_what_its_heads_answer(style):
    model, (place, receives, answers) = model_of(style)
    run, causal = run_of(model, style), style in ("GPT-2", "OPT")
    query = -1 if causal else 0
    layer, kept = model.get_submodule(place), {}
    layer.get_submodule(receives).register_forward_hook(lambda _, given, out: kept.update(tokens=given[0]))
    layer.get_submodule(answers).register_forward_hook(lambda _, given, out: kept.update(out=out))
    run()
    readout = torch.randn(WIDTH, dtype=torch.float64)
    weights = state_weights(model.state_dict(), HEADS, next(
        one for one in layer_prefixes(model.state_dict()) if place.startswith(one.rstrip("."))
    ))  # fmt: skip
    problem, theta, scores = head_problem(weights, kept["tokens"].detach(), [1.0] * 4, readout, 2, query, causal=causal)
    margins = problem.margins(problem.attention(theta))[0]
    torch.testing.assert_close(margins, (kept["out"][:, query] @ readout).detach())
    assert scores == "exact"
