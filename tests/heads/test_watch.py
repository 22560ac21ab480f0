"""Queries and keys come from the running model: its own attention follows from them, head by head."""

import math

import pytest
import small
import torch
from problems import refuses
from torch import nn
from torch.nn import functional

from heads import attention, watch, watching
from heads.turns import find_turns


def called(kind, inputs, **settings):
    model = small.model(kind, **settings)
    model.set_attn_implementation(watch.register())
    with torch.inference_mode(), watching(model) as calls:
        output = model(**inputs)
    return model, calls, output


@pytest.mark.parametrize("kind", [kind for kind in small.CONFIGS if kind not in ("t5", "xlnet", "gpt_neo")])
def test_attention_that_follows_is_that_of_the_model(kind):
    mask = torch.ones(4, 7, dtype=torch.long)
    mask[1, 4:] = 0
    inputs = {"input_ids": small.ids(), "attention_mask": mask}
    model, calls, output = called(kind, inputs)
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        own = model(**inputs, output_attentions=True)
    assert len(calls) == len(own.attentions) == 2
    for call, seen in zip(calls, own.attentions, strict=True):
        apart = (call.shares() - seen).abs().amax(-1)[mask[:, None].expand(4, 4, 7) > 0]
        assert apart.max() < 1e-6
        assert call.off.max() < 1e-6
    torch.testing.assert_close(output[0], own[0])


def test_what_is_not_watched_shows():
    """A cap, sinks or a mask that is left out is a difference from the model's attention."""
    inputs = {"input_ids": small.ids()}
    for kind, part in (("gemma2", "cap"), ("gpt_oss", "sinks"), ("llama", "mask")):
        _, calls, _ = called(kind, inputs)
        setattr(calls[0], part, None)
        calls[0].__dict__.pop("logits", None)
        assert calls[0].compared().off.max() > 1e-3, kind


def test_an_encoder_and_its_decoder():
    inputs = {"input_ids": small.ids(), "decoder_input_ids": small.ids(length=5, seed=1)}
    _, calls, _ = called("t5", inputs)
    assert [call.key.shape[2] for call in calls] == [7, 7, 5, 7, 5, 7]
    assert all(call.off.max() < 1e-6 for call in calls)
    assert calls[0].bias is not None


def test_a_causal_layer_without_a_mask_is_refused(monkeypatch):
    from transformers.masking_utils import AttentionMaskInterface

    model = small.model("llama")
    model.set_attn_implementation(watch.register())
    monkeypatch.delitem(AttentionMaskInterface._global_mapping, watch.NAME)  # as if it had not been registered
    with torch.inference_mode(), watching(model):
        refuses(lambda: model(input_ids=small.ids()), "is causal and got no mask: ")


class Plain(nn.Module):
    """Attention as a project writes it whose names nobody knows."""

    def __init__(self):
        super().__init__()
        self.fused, self.mix = nn.Linear(16, 48), nn.Linear(16, 16)

    def forward(self, x):
        query, key, value = (one.unflatten(-1, (4, 4)).transpose(1, 2) for one in self.fused(x).chunk(3, -1))
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True, scale=0.3)
        return self.mix(mixed.transpose(1, 2).flatten(2))


def test_any_module_that_calls_torchs_attention():
    torch.manual_seed(0)
    model, x = nn.Sequential(Plain(), Plain()).eval(), torch.randn(3, 5, 16)
    with torch.inference_mode(), watching(model) as calls:
        output = model(x)
    assert [call.name for call in calls] == ["0", "1"]
    assert all(call.off.max() < 1e-6 and call.scale == 0.3 for call in calls)
    assert calls[0].logits[0, 0, 0].isfinite().sum() == 1
    torch.testing.assert_close(output, model(x))
    rows = [[side.rows[1].tolist() for side in pair] for pair in find_turns(model, lambda: model(x[:1])).values()]
    assert rows == [[[4, 5, 6, 7], [20, 21, 22, 23]]] * 2


def test_torchs_encoder_is_seen():
    layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True).eval()
    x = torch.randn(3, 5, 16)
    with torch.inference_mode(), watching(layer) as calls:
        layer(x)
    _, own = layer.self_attn(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(calls[0].shares(), own)


def test_attention_by_hand():
    query, key = torch.randn(2, 4, 3, 8), torch.randn(2, 2, 5, 8)
    bias, mask = torch.randn(3, 5), torch.rand(2, 1, 3, 5) > 0.2
    with watching() as calls:
        shares = attention(query, key, mask, 0.5, bias)
    expected = (0.5 * query @ key.repeat_interleave(2, 1).mT + bias).masked_fill(~mask, -math.inf).softmax(-1)
    torch.testing.assert_close(shares, expected.nan_to_num(0.0))
    assert len(calls) == 1
    refuses(lambda: attention(query[0], key), "query has shape (4, 3, 8), key")
    refuses(lambda: attention(query, key[:, :, :, :4]), "give heads of one size")
    refuses(lambda: attention(query, key, mask.long()), "mask has dtype torch.int64: give bool")


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "gpt_neox", "gptj", "opt", "gemma2"])
def test_queries_and_keys_are_made_again_from_rows_that_the_model_tells(kind):
    from heads.choices import sides

    model = small.model(kind)
    model.set_attn_implementation(watch.register())
    turns = find_turns(model, lambda: model(input_ids=small.ids(1)))
    with torch.inference_mode(), watching(model) as calls:
        model(input_ids=small.ids())
    real = torch.ones(4, 7, dtype=torch.bool)
    assert all(None not in sides(call, turns[call.name], (real, real)) for call in calls)


def test_a_norm_between_is_not_taken_for_a_matrix():
    model = small.model("qwen3")
    model.set_attn_implementation(watch.register())
    assert all(pair == (None, None) for pair in find_turns(model, lambda: model(input_ids=small.ids(1))).values())
