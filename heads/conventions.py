"""Parameter names of attention layers in other projects, and settings and tensors that change their logits."""

import re

PARTS = ("query", "key", "value", "out")
_NAMED = {  # by who writes them so: %s is query, key or value, %.1s its first letter; one name where they are fused
    "PyTorch": ("in_proj_weight", "out_proj.weight"),
    "PyTorch, separate sizes": ("%.1s_proj_weight", "out_proj.weight", "in_proj_bias"),
    "BERT": ("attention.self.%s.weight", "attention.output.dense.weight"),
    "ALBERT": ("attention.%s.weight", "attention.dense.weight"),
    "ViT": ("attention.attention.%s.weight", "attention.output.dense.weight"),
    "GPT-2": ("attn.c_attn.weight", "attn.c_proj.weight"),
    "timm": ("attn.qkv.weight", "attn.proj.weight"),
    "Phi-3": ("qkv_proj.weight", "o_proj.weight"),
    "projections": ("%.1s_proj.weight", "out_proj.weight"),
    "Llama": ("%.1s_proj.weight", "o_proj.weight"),
    "DistilBERT": ("%.1s_lin.weight", "out_lin.weight"),
    "T5": ("%.1s.weight", "o.weight"),
}
LAYOUTS = [
    ({part: name % part for part in PARTS[:3]} if "%" in name else {"qkv": name})
    | {"out": out}
    | ({"qkv_bias": bias[0]} if bias else {})
    for name, out, *bias in _NAMED.values()
]
UNSCALED = ("t5", "mt5", "umt5", "longt5", "pop2piano", "switch_transformers", "gpt_neo")  # no 1 / sqrt(h)
HEADS = ("num_attention_heads", "n_head", "num_heads", "attention_heads")
# Tensors that change logits wherever they occur: rotary and relative positions, norms of queries and keys.
OTHERWISE = re.compile(
    r"rotary|(?<![a-z])rope|inv_freq|rel_pos|relative_(pos|att)|distance_emb|bias_table|alibi"
    r"|(?<![a-z])(q|k|query|key)_?(layer)?_?norm|bias_[kv]$"
)
# Tensors of an attention layer that do not change logits: masks of GPT-2, layer norms after the residual sum.
HARMLESS = ("bias", "masked_bias", "output.LayerNorm.weight", "output.LayerNorm.bias", "LayerNorm.weight",
            "LayerNorm.bias")  # fmt: skip
# Settings of Hugging Face that change logits: description, pattern of the name, values that change nothing.
SETTINGS = [
    ("ALiBi, a bias for each distance", re.compile("alibi$"), (False, None)),
    ("rotary positions", re.compile(r"(?<![a-z])(rope|rotary)(?![a-z])"), (False,)),
    ("rotary or relative positions", re.compile("positions?_embeddings?_type"), ("absolute", None)),
    ("relative positions", re.compile("relative_(att|pos)|rel_pos"), (False, None, 0, -1)),
    ("norms of queries and keys", re.compile("qk_?(layer)?_?norm"), (False, None)),
    ("a cap on the logits", re.compile(r"(attn|attention)_\w*soft_?cap|clip_qkv"), (False, None, 0)),
    ("another scale", re.compile("query_pre_attn|scale_attn_by|attention_multiplier"), (False, None)),
    ("another scale", re.compile("scale_attn_weights"), (True,)),
    ("a pattern of tokens that are seen", re.compile("attention_type$"), ("original_full", None)),
    ("other logits than BERT's, under its names", re.compile("model_type$"), ()),
]
MODEL_TYPES = ("roformer", "nystromformer", "yoso", "mra", "canine")  # for the last row
WINDOWS = ("sliding_window", "attention_window", "window_size")


def changed_by(settings, length=0):
    """Yield the settings under which logits are not plain query-key products, as (name, value, description).

    A window counts where it is shorter than ``length``, the number of tokens of an input.
    """
    left = list(settings.items())
    for _, value in left:
        left += value.items() if isinstance(value, dict) else ()
    left = [(name, value) for name, value in left if isinstance(name, str)]
    told = dict(left)
    # With ALiBi, or positions that are added to the tokens, the settings of rotary ones are idle.
    idle = told.get("position_embedding_type") == "absolute" or bool(told.get("alibi"))
    for name, value in left:
        for words, pattern, plain in SETTINGS:
            changes = (
                value in MODEL_TYPES if name == "model_type" else not any(value is one or value == one for one in plain)
            )
            if pattern.search(name) and changes and not (idle and words == "rotary positions"):
                yield name, value, words
        window = value if isinstance(value, list) else [value]
        if name in WINDOWS and any(isinstance(one, int) and 0 < one < length for one in window):
            yield name, value, "a window"
