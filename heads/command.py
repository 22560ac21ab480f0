"""The command ``attention-selects``: ``report`` writes every head of a model on one page, ``optimizer`` tries one."""

import argparse
import hashlib
import inspect
import json
import shutil
import sys
import time
from collections import ChainMap
from functools import partial
from pathlib import Path

import torch

from . import optimiser_command
from ._lib import checks
from .capture import Layer, attention_layers, capture_attention, logit_modifiers, query_positions
from .facts import layer_facts
from .files import ARRAYS, check_logits, config_modifiers, file_weights, read_arrays, read_state
from .page import page
from .weights import layer_layouts, possible_layouts

MOST_INPUTS, MOST_TOKENS = 64, 64
IMAGES = (".png", ".jpg", ".jpeg")
RECORDED = "recorded tokens, tokens.0, tokens.1, ..., see attention-selects report --help"
HELP = """MODEL is a folder or file of weights (safetensors, or what torch.save wrote of a state dict), or a name that
transformers can load here. DATA is a text file, one input a line (a model of transformers, with its tokenizer); a
folder of images; an npz or safetensors of what the model takes, such as input_ids and attention_mask; or of recorded
tokens: tokens.0, tokens.1, ... (inputs, tokens, width), as the attention of each layer receives them, and where known
attention.0, ... (inputs, heads, tokens), or of every token (inputs, heads, tokens, tokens); queries.0, ... (inputs,
width), query (inputs), mask (inputs, tokens)."""


def main(arguments=None):
    """Run the command; 1 and one sentence where it cannot."""
    parser = argparse.ArgumentParser("attention-selects", description="What attention selects, in models of your own.")
    commands = parser.add_subparsers(required=True, metavar="report|optimizer")
    report = commands.add_parser("report", help="write a page on every head of a model", description=HELP)
    report.add_argument("model", metavar="MODEL")
    report.add_argument("data", metavar="DATA")
    report.add_argument("--out", default="report.html", help="the page; JSON goes beside it (report.html)")
    report.add_argument("--inputs", type=int, default=MOST_INPUTS, help=f"inputs at most ({MOST_INPUTS})")
    report.add_argument("--tokens", type=int, default=MOST_TOKENS, help=f"tokens of a text at most ({MOST_TOKENS})")
    report.add_argument("--query", type=int, help="place of the query token (causal: the last, else the first)")
    report.add_argument("--prefix", default="", help="only layers whose names begin so, such as encoder.")
    report.add_argument("--heads", type=int, default=0, help="heads of a layer, where no config.json says it")
    named = (
        "names of your own, * for the layer: query=blocks.*.wq.weight,key=...,value=...,out=...; or qkv=...,out=... and"
    )
    named += " fused=blocks or fused=per head, the order of its rows, which recorded attention tells as well"
    report.add_argument("--names", type=_parse_names, help=named)
    report.set_defaults(write=write)
    optimiser_command.add_parser(commands)
    options = parser.parse_args(arguments)
    try:
        vars(options).pop("write")(options)
    except (ValueError, OSError, ImportError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


def _parse_names(text):
    """Parse --names: names by part."""
    names = dict(pair.partition("=")[::2] for pair in text.split(","))
    if not all(names.values()):
        raise argparse.ArgumentTypeError(f"{text!r}: write query=...,key=...,value=...,out=...")
    return names


def write(options):
    """Write page and JSON, layer by layer; an interrupted call is resumed at the layer where it stopped."""
    out, started, done = Path(options.out), time.perf_counter(), {}
    checks.integer("inputs", options.inputs)
    checks.integer("tokens", options.tokens)
    parts = _parts(out, options)

    def add_layer(layer, texts):
        if not layer.name.startswith(options.prefix):
            return
        file, start = parts / f"{len(done):03}.json", time.perf_counter()
        if not file.is_file():
            facts = json.dumps(layer_facts(layer, texts), allow_nan=False)
            file.with_suffix(".new").write_text(facts, "utf-8")
            file.with_suffix(".new").replace(file)
        done[layer.name] = json.loads(file.read_text("utf-8"))
        kinds = [head["check"] for head in done[layer.name]]
        said = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
        took = f"({time.perf_counter() - start:.1f} s)"
        print(f"layer {len(done)}, {layer.name}: heads {said} {took}", file=sys.stderr, flush=True)

    arrays = _arrays(options)
    about, texts = (_from_files if _is_recorded(arrays) else _from_model)(options, arrays, add_layer)
    facts = [head for heads in done.values() for head in heads]
    if not facts:
        raise ValueError(_no_layer(options))
    about += [f"Made in {time.perf_counter() - started:.0f} s."]
    out.write_text(page(Path(options.model).name, facts, about, texts), "utf-8")
    beside = out.with_suffix(".json")
    report_data = {"model": str(options.model), "data": str(options.data), "heads": facts}
    beside.write_text(json.dumps(report_data, allow_nan=False), "utf-8")
    shutil.rmtree(parts)
    print(f"{out} and {beside} are written: {len(facts)} heads of {len(done)} layers")


def _no_layer(options):
    return f"prefix is {options.prefix!r}, and no layer's name begins so: leave it out to see them all"


def _parts(out, options):
    """The folder of finished layers, emptied where they are of another model, other data or options."""
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent} is no folder here: make it, or give another --out")
    stamps = []
    for place in (Path(options.model), Path(options.data)):
        files = [place] if place.is_file() else sorted(place.glob("*")) if place.is_dir() else []
        stamps += [(str(file), file.stat().st_size, file.stat().st_mtime_ns) for file in files]
    key = hashlib.sha256(repr((sorted(vars(options).items()), stamps)).encode()).hexdigest()
    parts = out.with_suffix(".layers")
    if not (parts / key).is_file():
        shutil.rmtree(parts, ignore_errors=True)
        parts.mkdir()
        (parts / key).touch()
    return parts


def _is_recorded(arrays):
    """Whether arrays are recorded tokens, not inputs of a model."""
    return any(name.partition(".")[0] == "tokens" for name in arrays)


def _arrays(options):
    """Arrays of DATA by name, none of a text; ValueError where it is not there, or MODEL cannot run on it."""
    data = Path(options.data)
    if not data.exists():
        raise ValueError(f"{data} is no file here: give a text file, a folder of images, an npz or safetensors")
    arrays = read_arrays(data) if data.suffix in ARRAYS else {}
    if Path(options.model).is_file() and not _is_recorded(arrays):
        has = f"has {checks.join_names(arrays)}" if arrays else "is none"
        raise ValueError(
            f"{options.model} is a file of weights, which nothing here can run: give a folder that transformers can"
            f" load; or as DATA an npz or safetensors with {RECORDED} ({data} {has})"
        )
    return arrays


def _from_files(options, data, add_layer):
    """Hand on every layer of a file of weights with the tokens that were recorded for it."""
    model, path = Path(options.model), Path(options.data)
    state = _state(model)
    layers = {
        name: layout for name, layout in layer_layouts(state, options.names).items() if name.startswith(options.prefix)
    }
    if not layers:
        raise ValueError(_no_layer(options))
    alone, texts = "tokens" in data, data.get("texts")
    if alone and len(layers) > 1:
        raise ValueError(
            f"{path} has tokens of one layer, {model} has {len(layers)}: give tokens.0, tokens.1, ... or --prefix"
        )
    for number, (before, layout) in enumerate(layers.items()):
        end = "" if alone else f".{number}"
        if f"tokens{end}" not in data:
            raise ValueError(f"{path} has no tokens{end} for {before}: record what it receives, or give --prefix")
        layer = _file_layer(before, data, end, options)
        heads, known = options.heads, [layout if options.names else None]
        if layer.attention is None:
            check_logits(state, before, model, layer.tokens.shape[1], layout.rotary)
        else:  # any other change of the logits would show in the attention
            heads, known = layer.attention.shape[1], possible_layouts(layout, checked=True)
        weights = partial(_file_weights, state, before, model, heads, known)
        add_layer(layer._replace(weights=weights, modifiers=config_modifiers(model, before)), texts)
    return [f"{len(layer.tokens)} inputs, recorded in {path.name}."], texts


def _file_weights(state, before, model, heads, layouts):
    return [file_weights(state, before, model, heads, layout) for layout in layouts]


def _file_layer(before, data, end, options):
    """A layer of a file, at the query token of each input."""
    given = partial(_given, data, options.inputs)
    tokens = given(f"tokens{end}", inputs=None, tokens=None, width=None)
    inputs, length = tokens.shape[:2]
    query, mask = given("query", inputs=inputs), given("mask", inputs=inputs, tokens=length)
    seen = torch.ones(inputs, length, dtype=torch.bool) if mask is None else mask.bool()
    attention, rows = data.get(f"attention{end}"), torch.arange(inputs)
    every = {"queries": length} if attention is not None and attention.ndim == 4 else {}
    attention = given(f"attention{end}", inputs=inputs, heads=None, **every, tokens=length)
    if query is None:
        positions = query_positions(attention if every else None, options.query, seen, False, inputs, length)
    else:
        positions = query.long() % length
    if attention is not None:
        attention = attention[rows, :, positions] if every else attention
        seen = (attention > 0).any(1)
    queries = given(f"queries{end}", inputs=inputs, width=None)
    return Layer(
        before.rstrip("."), positions, attention, seen, tokens, tokens[rows, positions] if queries is None else queries
    )


def _given(data, most, name, **sizes):
    """The first entries of an array in float64, None where there is none; ValueError unless it has known sizes."""
    if name not in data:
        return None
    array = data[name]
    array = checks.float64(name, array[:most] if array.ndim else array, *sizes)
    if any(size not in (None, length) for size, length in zip(sizes.values(), array.shape, strict=True)):
        wanted = ", ".join(word if size is None else f"{size} {word}" for word, size in sizes.items())
        raise ValueError(f"{name} has shape {tuple(array.shape)}: give {wanted}")
    return array


def _state(path):
    """Weights of a file, or of all files of a folder."""
    if not path.is_dir():
        return read_state(path)
    files = sorted(path.glob("*.safetensors"))
    if not files:
        raise ValueError(f"{path} has no safetensors: give the file of weights")
    return ChainMap(*map(read_state, files))


def _from_model(options, arrays, add_layer):
    """Run a model of transformers on the data, and hand on every layer when it has run."""
    model, transformers = _loaded(options)
    inputs, texts, note = _inputs(options, arrays, transformers)
    many, present = len(next(iter(inputs.values()))), inputs.get("attention_mask")

    def receive(layer):
        add_layer(layer, texts if texts is not None and len(texts[0]) == layer.mask.shape[1] else None)

    run = model
    if model.config.is_encoder_decoder and not any(name.startswith("decoder_") for name in inputs):
        run, note = model.get_encoder(), f"{note} Only the encoder was run: DATA has no decoder_input_ids."
    with torch.inference_mode(), capture_attention(model, receive, options.query, present, options.names):
        outputs = _run(run, inputs, options)
    if not attention_layers(model, options.names):
        _by_attention(model, outputs, options, add_layer, present, texts)
    return [f"{many} inputs. {note}"], texts


def _run(model, inputs, options):
    """Outputs of the model; ValueError with its own message where the data do not fit it."""
    try:
        return model(**inputs, output_attentions=True)
    except (TypeError, RuntimeError, LookupError, AttributeError, ValueError) as error:
        takes = [name for name in inspect.signature(model.forward).parameters if name.endswith(("ids", "mask", "s"))]
        raise ValueError(
            f"{options.model} does not run on {', '.join(inputs)} of {options.data} ({str(error)[:200]}): it takes"
            f" {', '.join(takes[:8])}"
        ) from None


def _by_attention(model, outputs, options, add_layer, present, texts):
    """Hand on the attention that a model of unknown names returns."""
    kinds = [name for name in ("attentions", "encoder_attentions", "decoder_attentions") if outputs.get(name)]
    if not kinds:
        raise ValueError(
            "no layer of a known convention is there, and the model gives no attention: if it has any, tell the names"
            " of its weights by --names; or record tokens and logits, and use fit_problem"
        )
    for kind in kinds:
        for number, attention in enumerate(outputs[kind]):
            positions = query_positions(attention, options.query, present, False, len(attention), attention.shape[2])
            seen = attention[torch.arange(len(attention)), :, positions].double()
            modifiers = (
                logit_modifiers(model, model, {})
                or "its weights are under names that are not known: --names tells them"
            )
            add_layer(Layer(f"{kind}.{number}", positions, seen, (seen > 0).any(1), modifiers=modifiers), texts)


def _loaded(options):
    """The model in evaluation mode, and transformers."""
    try:
        import transformers
    except ImportError:
        raise ValueError(
            f"running {options.model} needs transformers: pip install transformers; or give DATA with {RECORDED}"
        ) from None
    transformers.utils.logging.disable_progress_bar()
    try:
        config = transformers.AutoConfig.from_pretrained(options.model, trust_remote_code=False)
    except (ValueError, OSError) as error:
        said = "it has code of its own, which is not executed" if "trust_remote_code" in str(error) else str(error)
        raise ValueError(
            f"transformers cannot load {options.model} ({said[:300]}): give a folder or name that it can load; or"
            f" weights, and DATA with {RECORDED}"
        ) from None
    kind = getattr(transformers, (getattr(config, "architectures", None) or ["AutoModel"])[0], transformers.AutoModel)
    model = kind.from_pretrained(
        options.model, attn_implementation="eager", dtype=torch.float32, trust_remote_code=False
    )
    return model.eval(), transformers


def _inputs(options, arrays, transformers):
    """Inputs of the model, by name; the tokens of each input as texts, or None; a sentence on the data."""
    data = Path(options.data)
    if data.is_dir():
        return _images(options, transformers), None, f"Images of {data.name}/."
    tokenizer = _part(options, transformers.AutoTokenizer)
    if tokenizer is not None and len(tokenizer) <= len(set(tokenizer.all_special_ids)):
        tokenizer = None  # made by transformers, of special tokens alone, where the model has none
    if arrays:
        model_inputs = {name: array[: options.inputs] for name, array in arrays.items()}
        model_inputs = {name: x.float() if x.is_floating_point() else x for name, x in model_inputs.items()}
        note = f"Arrays of {data.name}."
    else:
        if tokenizer is None:
            raise ValueError(f"{options.model} has no tokenizer: save it there, or give DATA as npz with input_ids")
        lines = _lines(data)
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        cut = {"padding": True, "truncation": True, "max_length": options.tokens, "return_tensors": "pt"}
        model_inputs = dict(tokenizer(lines[: options.inputs], **cut))
        note = f"The first of {len(lines)} lines of {data.name}, cut to {options.tokens} tokens."
    named = tokenizer.convert_ids_to_tokens if tokenizer else lambda row: [f"#{token}" for token in row]
    texts = [named(row) for row in model_inputs["input_ids"].tolist()] if "input_ids" in model_inputs else None
    return model_inputs, texts, note


def _lines(data):
    """The lines of a text, without empty ones."""
    try:
        lines = [line for line in data.read_text("utf-8").splitlines() if line.strip()]
    except UnicodeDecodeError:
        lines = []
    if not lines:
        raise ValueError(f"{data} has no line of text in UTF-8: give a text, a folder of images, an npz or safetensors")
    return lines


def _images(options, transformers):
    from PIL import Image

    files = [file for file in sorted(Path(options.data).iterdir()) if file.suffix.lower() in IMAGES]
    if not files:
        raise ValueError(f"{options.data} has no images: give a folder with files of {', '.join(IMAGES)}")
    processor = _part(options, transformers.AutoImageProcessor)
    if processor is None:
        raise ValueError(f"{options.model} has no preprocessor_config.json: save it, or give an npz with pixel_values")
    images = [Image.open(file).convert("RGB") for file in files[: options.inputs]]
    return dict(processor(images, return_tensors="pt"))


def _part(options, kind):
    """Tokenizer or image processor of the model; None where it has none."""
    try:
        return kind.from_pretrained(options.model, trust_remote_code=False)
    except (OSError, ValueError, KeyError):
        return None


if __name__ == "__main__":
    sys.exit(main())
