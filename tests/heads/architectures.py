"""Small random models of every family of `transformers` with its attention interface, and what a report says of each.

``python tests/heads/architectures.py [FAMILY ...]`` makes all that can be made small and runs a report on each; what
becomes of it goes into `architectures.json`, which is made again after a new version of transformers.
"""

import contextlib
import inspect
import io
import json
import re
import signal
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
import torch
import transformers
from transformers.models.auto.modeling_auto import MODEL_MAPPING_NAMES

from heads import command

SECONDS, PARAMETERS, LENGTH, INPUTS = 60, 40_000_000, 8, 6
LIST = Path(__file__).with_suffix(".json")
SIZES = [  # pattern of the name of a setting, and its small value; None where it stays
    (".*feat_extract_layers|.*conv.*|.*kernel.*|.*buckets?", None),
    (".*window(_size)?", 4),
    ("vocab_size.*", 64),
    ("(pad|bos|eos|sep|cls|unk|mask)_token_id|decoder_start_token_id", 1),
    (".*_token_(id|index)", 3),
    ("(num_)?(key_value|kv)_heads.*|num_kv_heads|multi_query_group_num|n_kv_heads", 2),
    (".*heads?|n_head", 4),
    (".*(layers|blocks|depths?)|n_layer|layers", 2),
    ("head_dim|d_kv|attention_head_size|kv_channels|v_head_dim|qk_nope_head_dim", 8),
    ("qk_rope_head_dim", 8),
    ("rotary_dim", 4),
    ("(q|kv)_lora_rank", 16),
    ("(num|n)_(local_|routed_)?experts|n_routed_experts", 4),
    (".*experts_per_tok|top_k", 2),
    ("n_group|topk_group|n_shared_experts", 1),
    (".*(intermediate|ffn|mlp|inner|ff)_?(size|dim|hidden_size)|n_inner|d_ff|hidden_dim", 48),
    ("hidden_sizes?|d_model|n_embd|dim|d_embed|width|model_dim|.*encoder_hidden_size|out_hidden_size", 32),
    (".*(embed|embedding|hidden|projection|output|proj)_(dim|size|dims)|embed_dims?", 32),
    ("d_latents|qk_channels|v_channels|num_latents", 32),
    ("max_position_embeddings|n_positions|.*max_(source|target)_positions|n_ctx|max_seq_len", 64),
    ("image_size|img_size|input_size", 32),
    ("patch_sizes?", 8),
    ("num_mel_bins", 16),
    ("num_codebooks", 4),
]
MODELS = Path(transformers.__file__).parent / "models"
FOLDERS = {path.parent.name for path in MODELS.glob("*/modeling_*.py") if "ALL_ATTENTION_FUNCTIONS" in path.read_text()}


def families():
    """Model types by the folder that has them: all of those that name the interface, and a few that do not."""
    chosen = {"big_bird", "ctrl", "deberta", "longformer", "mamba", "mpt", "reformer", "xlnet"}
    for family in sorted(MODEL_MAPPING_NAMES):
        folder = transformers.CONFIG_MAPPING[family].__module__.split(".")[2]
        if folder in FOLDERS:
            chosen.add(family)
    return sorted(chosen)


BY_FAMILY = {
    "gpt_neo": {"window_size": 4, "num_layers": 2, "attention_types": [[["global", "local"], 1]]},
    "esm": {"vocab_size": 64, "pad_token_id": 1, "mask_token_id": 2},
    "autoformer": {"prediction_length": 4},
    "informer": {"prediction_length": 4},
    "time_series_transformer": {"prediction_length": 4},
    "reformer": {"axial_pos_shape": [4, 2], "axial_pos_embds_dim": [16, 16], "attn_layers": ["local", "lsh"]},
    "funnel": {"block_sizes": [1, 1], "block_repeats": [1, 1], "num_decoder_layers": 1},
}
DEEP = [(pattern, 8 if size == 2 and "layers" in pattern else size) for pattern, size in SIZES]
COUNTS = SIZES[2:3] + SIZES[7:8] + SIZES[11:12]  # vocabularies, layers and experts, where all sizes do not go together
BY_LAYER = re.compile(
    "(transformers_version|architectures|(mlp_)?layer_types|layers_block_type|out_.*|stage_names|per_.*)"
)


def shrunk(settings, sizes):
    """Settings of a family with small sizes, those of its parts too."""
    small = {}
    for name, value in settings.items():
        if BY_LAYER.fullmatch(name):
            continue
        if isinstance(value, dict) and "mrope_section" in value:
            value = value | {"mrope_section": [2, 1, 1]}
        if isinstance(value, dict) and value and (name.endswith("config") or "model_type" in value):
            small[name] = shrunk(value, sizes)
        else:
            size = next((size for pattern, size in sizes if re.fullmatch(pattern, name)), None)
            small[name] = value if size is None else smaller(value, size)
    return small


def smaller(value, size):
    """A number above zero, or each of a list, that is not above a size."""
    if isinstance(value, list):
        return [smaller(entry, size) for entry in value]
    return min(value, size) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else value


def small_model(family, sizes):
    """A random model of a family; ValueError if it stays large."""
    kind = transformers.CONFIG_MAPPING[family]
    more = BY_FAMILY.get(family, {})
    config = kind.from_dict(shrunk(kind(**more).to_dict(), sizes) | more)
    with torch.device("meta"):
        count = sum(x.numel() for x in transformers.AutoModel.from_config(config).parameters())
    if count > PARAMETERS:
        raise ValueError(f"{count / 1e6:.0f} million parameters when small")
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config)
    for parameter in model.parameters():
        if parameter.is_floating_point():
            torch.nn.init.normal_(parameter, std=0.3)
    return model


def setting(config, *names, default):
    """The first setting of these names, in the configuration or one of its parts."""
    parts = [
        getattr(config, name, None) for name in ("vision_config", "audio_config", "text_config", "backbone_config")
    ]
    for part in [config, *parts]:
        for name in names:
            value = getattr(part, name, None)
            value = value[0] if isinstance(value, list | tuple) and value else value
            if isinstance(value, int) and value > 0:
                return value
    return default


def made_up(config):
    """Every array that a model may take, by name."""
    draw = np.random.default_rng(0)
    size = setting(config, "image_size", "img_size", "input_size", default=32)
    channels, frames = setting(config, "num_channels", default=3), setting(config, "num_frames", default=4)
    mels = setting(config, "num_mel_bins", "input_feat_per_channel", default=16)
    shapes = {
        "pixel_values": (channels, size, size),
        "pixel_values_videos": (frames, channels, size, size),
        "input_features": (mels, 128),
        "input_values": (4000,),
        "visual_feats": (3, setting(config, "visual_feat_dim", default=32)),
        "visual_pos": (3, 4),
        "inputs": (16, setting(config, "d_model", default=32)),
        "past_values": (setting(config, "context_length", default=16), 1),
    }
    arrays = {name: draw.standard_normal((INPUTS, *shape), np.float32) for name, shape in shapes.items()}
    words = {name: draw.integers(5, 60, (INPUTS, LENGTH)) for name in ("input_ids", "decoder_input_ids")}
    return arrays | words | {"bbox": np.zeros((INPUTS, LENGTH, 4), np.int64)}


def small_inputs(model):
    """Arrays on which a model runs, by name; the error of the last try where it runs on none."""
    arrays, parameters = made_up(model.config), inspect.signature(model.forward).parameters
    needed = {name for name, p in parameters.items() if p.default is p.empty}
    needed |= {"decoder_input_ids"} if model.config.is_encoder_decoder else set()
    tries = [{"input_ids", "pixel_values"}, {"input_ids"}, {"pixel_values"}, {"input_ids", "bbox"}]
    tries += [{"input_ids", "visual_feats", "visual_pos"}, {model.main_input_name}]
    failed = ValueError(f"none of the arrays that are made up is one of {', '.join(parameters)}")
    for names in [names | needed for names in tries if names <= set(parameters)]:
        data = {name: arrays[name] for name in sorted(names) if name in arrays and name in parameters}
        try:
            with torch.inference_mode():
                more = {"use_cache": False} if "use_cache" in parameters else {}
                model.eval()(**{name: torch.from_numpy(array) for name, array in data.items()}, **more)
            return data
        except Exception as error:
            failed = error
    raise failed


def report(family, folder, every=None):
    """What becomes of a report on a family: ``result``, and ``why`` or how many heads are in each state."""
    failed = None
    for sizes in every or (SIZES, COUNTS):
        try:
            result = "not built"
            model = small_model(family, sizes)
            result = "does not run"
            data = small_inputs(model)
            model.save_pretrained(folder / "model")
            break
        except Exception as error:
            said = " ".join(str(error).partition(" from '")[0].split())  # not where the package lies
            why = f"{type(error).__name__}: {said[:120]}"
            failed = failed or {"result": result, "why": why}
    else:
        return failed
    np.savez(folder / "data.npz", **data)
    said, out = io.StringIO(), folder / "report.html"
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(said):
            status = command.main(["report", str(folder / "model"), str(folder / "data.npz"), "--out", str(out)])
    except Exception as error:
        return {"result": "traceback", "why": repr(error)[:200]}
    if status:
        return {"result": "refused", "why": said.getvalue().splitlines()[-1].replace(str(folder), "")[:300]}
    told = json.loads(out.with_suffix(".json").read_text())
    checks = [head["check"] for head in told["heads"]]
    return {
        "result": "reported",
        "heads": {check: checks.count(check) for check in sorted(set(checks))},
        **({"left_out": [sentence[:120] for sentence in told["left_out"]]} if told["left_out"] else {}),
    }


def timed(family):
    """:func:`report` in a folder of its own, and not for ever."""

    def stop(*_):
        raise SystemExit  # which no model catches

    before, dtype = signal.signal(signal.SIGALRM, stop), torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    signal.alarm(SECONDS)
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = report(family, Path(folder))
            if "no attention was seen" in found.get("why", ""):  # hybrids attend in every fourth layer
                found = report(family, Path(folder), [DEEP])
            return found
    except SystemExit:
        return {"result": "does not run", "why": f"longer than {SECONDS} s"}
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        torch.set_default_dtype(dtype)


def main(names):
    """Make the list, or some families of it again."""
    warnings.simplefilter("ignore")
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(1)
    results = json.loads(LIST.read_text()) if LIST.exists() else {}
    for family in names or families():
        results[family] = timed(family)
        print(family, json.dumps(results[family]), flush=True)
        lines = (f"{json.dumps(name)}: {json.dumps(result)}" for name, result in sorted(results.items()))
        LIST.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main(sys.argv[1:])
