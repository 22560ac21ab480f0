"""Tiny random models of transformers, saved in folders, and reports on them."""

import json

import torch
import transformers

from heads import command

SIZES = {"vocab_size": 64, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
SHARED = SIZES | {"num_key_value_heads": 2}
CONFIGS = {
    "bert": lambda: transformers.BertConfig(**SIZES),
    "gpt2": lambda: transformers.GPT2Config(
        vocab_size=64, n_embd=32, n_layer=2, n_head=4, bos_token_id=1, eos_token_id=1
    ),
    "llama": lambda: transformers.LlamaConfig(**SHARED),
    "qwen3": lambda: transformers.Qwen3Config(**SHARED, head_dim=8),
    "gemma2": lambda: transformers.Gemma2Config(**SHARED, head_dim=8, attn_logit_softcapping=2.0),
    "gpt_oss": lambda: transformers.GptOssConfig(**SHARED, head_dim=8, num_local_experts=4),
    "gpt_neox": lambda: transformers.GPTNeoXConfig(**SIZES),
    "gptj": lambda: transformers.GPTJConfig(vocab_size=64, n_embd=32, n_layer=2, n_head=4, rotary_dim=4),
    "gpt_neo": lambda: transformers.GPTNeoConfig(
        vocab_size=64,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        intermediate_size=48,
        max_position_embeddings=64,
        window_size=4,
        attention_types=[[["global", "local"], 1]],
        bos_token_id=1,
        eos_token_id=1,
    ),
    "biogpt": lambda: transformers.BioGptConfig(**SIZES, max_position_embeddings=64),
    "opt": lambda: transformers.OPTConfig(
        vocab_size=64, hidden_size=32, ffn_dim=48, num_hidden_layers=2, num_attention_heads=4, word_embed_proj_dim=32
    ),
    "t5": lambda: transformers.T5Config(vocab_size=64, d_model=32, d_kv=8, d_ff=48, num_layers=2, num_heads=4),
    "xlnet": lambda: transformers.XLNetConfig(vocab_size=64, d_model=32, n_layer=2, n_head=4, d_inner=48),
}


def model(kind, seed=0, **settings):
    """A tiny random model whose heads are not even."""
    config = CONFIGS[kind]()
    for name, value in settings.items():
        setattr(config, name, value)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = transformers.AutoModel.from_config(config).float()
        for parameter in made.parameters():
            torch.nn.init.normal_(parameter, std=0.3)
    return made.eval()


def ids(inputs=4, length=7, seed=0):
    return torch.randint(5, 60, (inputs, length), generator=torch.Generator().manual_seed(seed))


def zero_head(model):
    """Ablate head 1 of layer 0 of a BERT."""
    layer = model.encoder.layer[0].attention.self
    for part in (layer.query.weight, layer.query.bias):
        part.data[8:16] = 0


def report(folder, *options, data=None, out=None):
    """JSON of a report on the model in a folder, and its page."""
    out = out or folder / "report.html"
    called = ["report", str(folder), *([str(data)] if data else []), "--out", str(out), *map(str, options)]
    assert command.main(called) == 0
    return json.loads(out.with_suffix(".json").read_text()), out.read_text("utf-8")


WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *(f"word{k}" for k in range(59))]


def add_tokenizer(folder, side="right"):
    """A tokenizer of 59 words beside a model."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    words = {word: k for k, word in enumerate(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.post_processor = processors.TemplateProcessing(
        "[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    named = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, padding_side=side, **named).save_pretrained(folder)


def saved(folder, kind, side="right", change=lambda model: None, **settings):
    """A tiny model, changed, and the folder that it is saved in with its tokenizer."""
    made = model(kind, **settings)
    change(made)
    made.save_pretrained(folder / "model")
    add_tokenizer(folder / "model", side)
    return made, folder / "model"


def refused(capsys, *arguments):
    """The one line of a command that cannot."""
    assert command.main(list(map(str, arguments))) == 1
    return capsys.readouterr().err.strip().splitlines()[-1]
