"""Small random models of every family of `transformers` with its attention interface, and what a report says of each.

``python tests/heads/architectures.py [FAMILY ...]`` makes all that can be made small and runs a report on each; what
becomes of it goes into `architectures.json`, which is made again after a new version of transformers.
"""

import contextlib
import inspect
import io
import itertools
import json
import re
import resource
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

SECONDS, MEMORY, PARAMETERS, LENGTH, INPUTS = 60, 8 * 2**30, 60_000_000, 8, 6
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
    (".*experts_per_tok(en)?|top_k", 2),
    ("(mamba_)?n_groups?|topk_group|num_expert_group|n_shared_experts", 1),
    (".*(intermediate|ffn|mlp|inner|ff)_?(size|dim|hidden_size)|n_inner|d_ff|hidden_dim", 48),
    ("hidden_sizes?|d_model|n_embd|dim|d_embed|width|model_dim|.*encoder_hidden_size|out_hidden_size", 32),
    (".*(embed|embedding|hidden|projection|output|proj)_(dim|size|dims)|embed_dims?", 32),
    ("d_latents|qk_channels|v_channels|num_latents", 32),
    ("max_position_embeddings|n_positions|.*max_(source|target)_positions|n_ctx|max_seq_len", 64),
    ("image_size|img_size|input_size", 32),
    ("patch_sizes?", 8),
    ("num_mel_bins", 16),
    ("num_codebooks", 4),
    ("context_size", 8),
]
MODELS = Path(transformers.__file__).parent / "models"
FOLDERS = {path.parent.name for path in MODELS.glob("*/modeling_*.py") if "ALL_ATTENTION_FUNCTIONS" in path.read_text()}


def families():
    """Model types by the folder that has them: all of those that name the interface, and a few that do not."""
    chosen = {"big_bird", "ctrl", "deberta", "longformer", "mamba", "mpt", "reformer", "roformer", "xlnet"}
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
    "xmod": {"default_language": "en_XX"},
    "funnel": {"block_sizes": [1, 1], "block_repeats": [1, 1], "num_decoder_layers": 1},
}
LAYERS = "(.*_)?(num_hidden_layers|num_layers|n_layers?|layers|depth)"  # settings that say how many layers there are
COUNTS = SIZES[2:3] + SIZES[7:8] + SIZES[11:13]  # vocabularies, layers, ranks and experts
DEEP = [(pattern, 8 if size == 2 and "layers" in pattern else size) for pattern, size in SIZES]
ROPE = {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [2, 1, 1]}  # of heads of eight entries
DEFAULTS = {  # of settings that some families leave open
    "rope_parameters": ROPE, "rope_theta": 10_000.0, "num_key_value_heads": 4, "head_dim": 8,
}  # fmt: skip
WIDE = "|".join(pattern for pattern, size in SIZES if size in (32, 48))
STAYS = re.compile(
    ".*(_id|_index|_idx|heads|n_head|conv.*|kernel.*|stride.*|rate|theta|groups?|window.*|top_k|max_.*|channels)"
)
BY_LAYER = re.compile(
    "(transformers_version|architectures|(mlp_)?layer_types|layers_block_type|out_.*|stage_names|per_.*)"
)


def smallest(sizes):
    """A way to make settings small: each at most as large as in a table."""

    def small(name, value):
        size = next((size for pattern, size in sizes if re.fullmatch(pattern, name)), None)
        return value if size is None else each(value, lambda one: min(one, size))

    return small


def divided(by):
    """A way to make settings small: widths by one factor, so that sums and products of them still fit."""
    counted = smallest(COUNTS)

    def small(name, value):
        if any(re.fullmatch(pattern, name) for pattern, _ in COUNTS):
            return counted(name, value)
        return value if STAYS.fullmatch(name) else each(value, lambda one: one // by if one % by == 0 else one)

    return small


def narrower(by):
    """A way to make settings small: fewer heads of the same size, all other widths by the same factor."""
    counted = smallest(COUNTS)

    def small(name, value):
        if any(re.fullmatch(pattern, name) for pattern, _ in COUNTS):
            return counted(name, value)
        if re.fullmatch(".*heads?", name) or re.fullmatch(WIDE, name):
            return each(value, lambda one: max(one // by, 1))
        return value

    return small


ALIKE = [(pattern, size) for pattern, size in SIZES if "kv" not in pattern or "heads" not in pattern]  # no groups
WAYS = (smallest(SIZES), smallest(ALIKE), divided(8), narrower(16), smallest(COUNTS))


def shrunk(settings, way):
    """Settings of a family made small in a way, those of its parts too; lists of a layer each are cut."""
    layers = {value for name, value in settings.items() if isinstance(value, int) and re.fullmatch(LAYERS, str(name))}
    fewer = {count: way("num_hidden_layers", count) for count in layers if count > 2}
    small = {}
    for name, value in settings.items():
        if name == "layer_types" and value is None:
            small[name] = ["full_attention"] * way("num_hidden_layers", 32)
        if BY_LAYER.fullmatch(name):
            continue
        if isinstance(value, list) and len(value) in fewer:
            value = value[: fewer[len(value)]]
        value = DEFAULTS.get(name) if value is None else value
        parts = isinstance(value, dict) and all(isinstance(key, str) for key in value)
        small[name] = shrunk(value, way) if parts else way(name, value)
        if parts and "rope_theta" in value and way is WAYS[0]:
            small[name] |= {"mrope_section": ROPE["mrope_section"]}
    return small


def each(value, change):
    """A number above zero changed, or each of a list; all else as it is."""
    if isinstance(value, list):
        return [each(entry, change) for entry in value]
    return change(value) if isinstance(value, int) and not isinstance(value, bool) and value > 0 else value


def small_model(family, way):
    """A random model of a family; ValueError if it stays large."""
    kind = transformers.CONFIG_MAPPING[family]
    more = BY_FAMILY.get(family, {})
    config = kind.from_dict(shrunk(kind(**more).to_dict(), way) | more)
    with torch.device("meta"):
        count = sum(x.numel() for x in transformers.AutoModel.from_config(config).parameters())
    if count > PARAMETERS:
        raise ValueError(f"{count / 1e6:.0f} million parameters when small")
    torch.manual_seed(0)
    model = transformers.AutoModel.from_config(config, attn_implementation="eager")  # as a report runs it
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


def made_up(config, takes):
    """Every array that a model may take, by name, in each of the shapes that are in use."""
    draw = np.random.default_rng(0)
    size = setting(config, "image_size", "img_size", "input_size", default=32)
    channels, frames = setting(config, "num_channels", default=3), setting(config, "num_frames", default=4)
    mels = setting(
        config, "num_mel_bins", "input_feat_per_channel", "num_mels", "mel_bins", "input_feat_size", default=16
    )
    width = setting(config, "hidden_size", "d_model", "encoder_hidden_size", default=32)
    image, wide = (channels, size, size), (LENGTH, width)
    time = setting(config, "max_length", "max_source_positions", default=64) * 2
    shapes = {
        "pixel_values": [image, (2, *image), (frames, *image)],
        "pixel_values_videos": [(frames, *image)],
        "input_features": [(mels, 128), (128, mels), (1, 128, mels), (mels, time), (1, time // 2, mels)]
        + [(64, stacked * mels) for stacked in (4, 7)],
        "audio_mel": [(128, mels)],
        "input_values": [(4800,), (1, 4800), (128, mels), (time // 2, mels)],
        "visual_feats": [(3, setting(config, "visual_feat_dim", default=32))],
        "visual_pos": [(3, 4)],
        "inputs": [(16, setting(config, "d_model", default=32))],
        "past_values": [(setting(config, "context_length", default=16), 1)],
    }
    shapes |= {name: [wide] for name in takes if re.search("embeds$|hidden_states$|^query_", name)}
    arrays = {name: [draw.standard_normal((INPUTS, *one), np.float32) for one in some] for name, some in shapes.items()}
    arrays |= {name: [draw.integers(5, 60, (INPUTS, LENGTH))] for name in takes if re.search("input_ids$", name)}
    masks = {name: name.removesuffix("_mask") for name in takes if re.search("(features|values|mel)_mask$", name)}
    for name, of in masks.items():
        lengths = {size for x in arrays.get(of, ()) for size in x.shape[1:]} or {128}
        arrays[name] = [np.ones((INPUTS, length), np.int64) for length in sorted(lengths, reverse=True)]
    arrays |= {name: [np.ones((INPUTS, LENGTH), np.int64)] for name in takes if name == "attention_mask"}
    if grids := [name for name in takes if name.endswith("grid_thw")]:  # patches of all images in a row
        patch, times = setting(config, "patch_size", default=8), setting(config, "temporal_patch_size", default=1)
        channels = setting(config, "in_channels", "in_chans", "num_channels", "channels", default=3)
        widths = [(channels * one * patch**2,) for one in {times, 1, 2}] + [(channels, patch, patch)]
        packed = [draw.standard_normal((INPUTS * 256, *one), np.float32) for one in widths]
        arrays |= {name: packed for name in ("pixel_values", "hidden_states")}
        arrays |= {name: [np.tile([1, 16, 16], (INPUTS, 1))] for name in grids}
    return arrays | {"bbox": [np.zeros((INPUTS, LENGTH, 4), np.int64)]}


def small_inputs(model):
    """Arrays on which a model runs, by name; the error of the first try where it runs on none."""
    parameters = inspect.signature(model.forward).parameters
    arrays = made_up(model.config, parameters)
    needed = {name for name, p in parameters.items() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD}
    needed |= {"decoder_input_ids"} if model.config.is_encoder_decoder else set()
    tries = [{"input_ids", "pixel_values"}, {"input_ids"}, {"pixel_values"}, {"input_ids", "bbox"}]
    tries += [{"input_ids", "visual_feats", "visual_pos"}, {"input_features"}, {"input_values"}, {"inputs_embeds"}]
    tries += [{name, f"{name}_mask"} for name in ("input_features", "input_values", "audio_mel")]
    tries += [{"input_ids", "input_features"}, {model.main_input_name}, set()]
    tries = [sorted((names | needed) & set(parameters) & set(arrays)) for names in tries if names <= set(parameters)]
    failed = None
    for names in filter(None, dict.fromkeys(map(tuple, tries))):
        for shapes in itertools.product(*(arrays[name] for name in names)):
            data = dict(zip(names, shapes, strict=True))
            try:
                with torch.inference_mode():
                    more = {"use_cache": False} if "use_cache" in parameters else {}
                    model.eval()(**{name: torch.from_numpy(array) for name, array in data.items()}, **more)
                return data
            except Exception as error:
                failed = failed or error
    raise failed or ValueError(f"none of the arrays that are made up is one of {', '.join(parameters)}")


def report(family, folder, every=None):
    """What becomes of a report on a family: ``result``, and ``why`` or how many heads are in each state."""
    failed = None
    for way in every or WAYS:
        try:
            result = "not built"
            model = small_model(family, way)
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
    """:func:`report` in a folder of its own, neither for ever nor with all memory."""

    def stop(*_):
        raise SystemExit  # which no model catches

    before, dtype = signal.signal(signal.SIGPROF, stop), torch.get_default_dtype()
    space = resource.getrlimit(resource.RLIMIT_AS)
    with contextlib.suppress(ValueError):  # of systems without it
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, space[1]))
    torch.set_default_dtype(torch.float32)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of the processor: others may use the machine
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = report(family, Path(folder))
            if "no attention was seen" in found.get("why", ""):  # hybrids attend in every fourth layer
                found = report(family, Path(folder), [smallest(DEEP)])
            return found
    except SystemExit:
        return {"result": "does not run", "why": f"longer than {SECONDS} s"}
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
        with contextlib.suppress(ValueError):
            resource.setrlimit(resource.RLIMIT_AS, space)
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
