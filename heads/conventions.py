"""How other projects lay out attention layers, and what of their settings and tensors changes logits."""

import re
from typing import NamedTuple

QKV = ("query", "key", "value")
PARTS = (*QKV, "out")


class Order(NamedTuple):
    """Order of the rows of a fused matrix.

    axes : the axes of the rows, the slowest first: "head", "entry" of a head, and query, key and value by their letters
        in the order in which they stand. Of heads that share their keys, the queries stand one behind the other.
    words : where a matrix has this order, in a sentence behind "where".
    """

    axes: str
    words: str


# By the name that --names takes, which has no comma. Weights are cut by this table; the sentence of a refusal and the
# help of the command are made from it.
FUSED = {
    "blocks": Order("qkv head entry", "all queries come first"),
    "per head": Order("head qkv entry", "query, key and value of a head stand together"),
}


class Layout(NamedTuple):
    """Names and order of the weights of an attention layer, for one layer or for every layer of a convention.

    names : dict by part, "query", "key", "value" and "out", or "qkv" and "out"; "qkv_bias" and so on for biases.
    fused : order of the rows of "qkv", one of `FUSED`, "" where it is not known: then each order is tried where
        attention is checked.
    transposed : whether matrices are (in, out).
    config : whether families of other logits share these names, so that only a config.json tells.
    """

    names: dict
    fused: str = ""
    transposed: bool = False
    config: bool = True


def _layout(name, out, bias="", **about):
    """Layout of a convention; in ``name`` %s is query, key or value, %.1s its first letter."""
    names = {part: name % part for part in QKV} if "%" in name else {"qkv": name}
    return Layout(names | {"out": out} | ({"qkv_bias": bias} if bias else {}), **about)


LAYOUTS = (
    _layout("in_proj_weight", "out_proj.weight", fused="blocks", config=False),  # PyTorch
    _layout("%.1s_proj_weight", "out_proj.weight", "in_proj_bias", config=False),  # PyTorch, separate sizes
    _layout("attention.self.%s.weight", "attention.output.dense.weight"),  # BERT
    _layout("attention.%s.weight", "attention.dense.weight"),  # ALBERT
    _layout("attention.attention.%s.weight", "attention.output.dense.weight"),  # ViT
    _layout("attn.c_attn.weight", "attn.c_proj.weight", fused="blocks", transposed=True),  # GPT-2
    _layout("attn.qkv.weight", "attn.proj.weight", fused="blocks", config=False),  # timm
    _layout("qkv_proj.weight", "o_proj.weight", fused="blocks"),  # Phi-3
    _layout("%.1s_proj.weight", "out_proj.weight"),  # BART, CLIP, OPT
    _layout("%.1s_proj.weight", "o_proj.weight"),  # Llama
    _layout("%.1s_lin.weight", "out_lin.weight"),  # DistilBERT
    _layout("%.1s.weight", "o.weight"),  # T5
)
INNER = ("", "self_attn.", "attn.", "attention.", "self_attention.")  # modules that a prefix may leave out
CROSS = re.compile(r"encoder_attn|multihead_attn|cross_?att|EncDecAttention")
CROSS_KEYS = ("key_value_states", "encoder_hidden_states", "key", "context")  # arguments of cross-attention
UNSCALED = ("t5", "mt5", "umt5", "longt5", "pop2piano", "switch_transformers", "gpt_neo")
HEADS = ("num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads")
# Tensors that change logits wherever they occur: rotary and relative positions, norms of queries and keys.
OTHERWISE = re.compile(
    r"rotary|(?<![a-z])rope|inv_freq|rel_pos|relative_(pos|att)|distance_emb|bias_table|alibi"
    r"|(?<![a-z])(q|k|query|key)_?(layer)?_?norm|bias_[kv]$"
)
# Tensors of an attention layer that do not change logits: masks of GPT-2, layer norms after the residual sum, or before
# all of it, as Megatron has one, since tokens are recorded behind it.
HARMLESS = ("bias", "masked_bias", "output.LayerNorm.weight", "output.LayerNorm.bias", "LayerNorm.weight",
            "LayerNorm.bias", "ln.weight", "ln.bias")  # fmt: skip
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
]
# Families of transformers whose logits are plain products under their default settings, as far as tests have seen them.
PLAIN = (
    "albert", "bart", "bert", "bert-generation", "biogpt", "blenderbot", "blenderbot-small", "camembert", "clip",
    "clip_text_model", "clip_vision_model", "data2vec-text", "deit", "distilbert", "electra", "ernie", "gpt2",
    "gpt_neo", "layoutlm", "m2m_100", "marian", "mbart", "megatron-bert", "opt", "pegasus", "roberta", "vit", "whisper",
    "xlm-roberta",
)  # fmt: skip
CAUSAL = ("biogpt", "clip_text_model", "gpt2", "gpt_neo", "opt")  # those of them whose tokens see none behind them
# Families of other logits whose tokens see none behind them: a row of attention that is recorded is of the last token.
CAUSAL_OTHERWISE = (
    "bloom", "cohere", "deepseek_v3", "falcon", "gemma2", "gpt_neox", "gpt_oss", "granite", "llama", "llama4_text",
    "mistral", "mixtral", "mpt", "qwen3", "qwen3_next",
)  # fmt: skip
WINDOWS = ("sliding_window", "attention_window", "window_size")


def scale_of(model_type):
    """Scale of the logits in this type of model, None for 1 / sqrt(h)."""
    return 1.0 if model_type in UNSCALED else None


def changed_by(settings, length=0):
    """Yield the settings under which logits are not plain query-key products, as (name, value, description).

    A window counts where it is shorter than ``length``, the number of tokens of an input.
    """
    pairs = list(settings.items())
    for _, value in pairs:
        pairs += value.items() if isinstance(value, dict) else ()
    pairs = [(name, value) for name, value in pairs if isinstance(name, str)]
    values = dict(pairs)
    # With ALiBi, or positions that are added to the tokens, the settings of rotary ones are idle.
    idle = values.get("position_embedding_type") == "absolute" or bool(values.get("alibi"))
    for name, value in pairs:
        for words, pattern, plain in SETTINGS:
            if pattern.search(name) and value not in plain and not (idle and words == "rotary positions"):
                yield name, value, words
        window = value if isinstance(value, list) else [value]
        if name in WINDOWS and any(isinstance(size, int) and 0 < size < length for size in window):
            yield name, value, "a window"
