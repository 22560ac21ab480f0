"""The command ``attention-selects report MODEL DATA --out report.html``: every head of a model on one page."""

import argparse
import hashlib
import inspect
import json
import shutil
import sys
import time
from collections import ChainMap
from pathlib import Path

import torch

from .. import checks
from .capture import Layer, asking_places, attention_layers, reasons, watched
from .files import Arrays, Safetensors, check_logits, file_weights, read_state, told_otherwise
from .page import page
from .report import layer_facts
from .weights import layer_names

MOST_INPUTS, MOST_TOKENS = 64, 64
ARRAYS = {".npz": Arrays, ".safetensors": Safetensors}
HELP = """MODEL is a folder or file of weights (safetensors, or what torch.save wrote of a state dict), or a name that
transformers can load here. DATA is a text file, one input a line (a model of transformers, with its tokenizer); a
folder of images; an npz or safetensors of what the model takes, such as input_ids and attention_mask; or of recorded
tokens: tokens.0, tokens.1, ... (inputs, tokens, width), as the attention of each layer receives them, and where known
attention.0, ... (inputs, heads, tokens), queries.0, ... (inputs, width), query (inputs), mask (inputs, tokens)."""


def main(arguments=None):
    """Run the command; 1 and one sentence where it cannot."""
    parser = argparse.ArgumentParser("attention-selects", description=__doc__.split(":")[1].strip())
    report = parser.add_subparsers(required=True, metavar="report").add_parser(
        "report", help="write a page on every head of a model", description=HELP
    )
    report.add_argument("model", metavar="MODEL")
    report.add_argument("data", metavar="DATA")
    report.add_argument("--out", default="report.html", help="the page; JSON goes beside it (report.html)")
    report.add_argument("--inputs", type=int, default=MOST_INPUTS, help=f"inputs at most ({MOST_INPUTS})")
    report.add_argument("--tokens", type=int, default=MOST_TOKENS, help=f"tokens of a text at most ({MOST_TOKENS})")
    report.add_argument("--query", type=int, help="place of the query token (causal: the last, else the first)")
    report.add_argument("--prefix", default="", help="only layers whose names begin so, such as encoder.")
    report.add_argument("--heads", type=int, default=0, help="heads of a layer, where no config.json says it")
    report.add_argument(
        "--names",
        type=_own,
        help="names of your own, * for the layer: query=blocks.*.wq.weight,key=...,value=...,out=...",
    )
    try:
        write(parser.parse_args(arguments))
    except (ValueError, OSError, ImportError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


def _own(text):
    """Names by part, as --names has them."""
    found = dict(one.partition("=")[::2] for one in text.split(","))
    if not all(found.values()):
        raise argparse.ArgumentTypeError(f"{text!r}: write query=...,key=...,value=...,out=...")
    return found


def write(options):
    """Write page and JSON, layer by layer; what an interrupted call has left is taken up."""
    out, started = Path(options.out), time.perf_counter()
    checks.whole("inputs", options.inputs)
    checks.whole("tokens", options.tokens)
    parts = _parts(out, options)
    done = {}

    def keep(layer, texts):
        if not layer.name.startswith(options.prefix):
            return
        file = parts / f"{len(done):03}.json"
        start = time.perf_counter()
        if file.is_file():
            done[layer.name] = json.loads(file.read_text("utf-8"))
        else:
            done[layer.name] = layer_facts(layer, texts)
            file.with_suffix(".new").write_text(json.dumps(done[layer.name], allow_nan=False), "utf-8")
            file.with_suffix(".new").replace(file)
        print(_line(len(done), layer.name, done[layer.name], time.perf_counter() - start), file=sys.stderr, flush=True)

    about, texts = (_from_files if _is_recorded(options) else _from_model)(options, keep)
    facts = [one for layer in done.values() for one in layer]
    if not facts:
        raise ValueError(_no_layer(options))
    about += [f"Made in {time.perf_counter() - started:.0f} s."]
    name = Path(options.model).name
    out.write_text(page(name, facts, about, texts), "utf-8")
    beside = out.with_suffix(".json")
    told = {"model": str(options.model), "data": str(options.data), "heads": facts}
    beside.write_text(json.dumps(told, allow_nan=False), "utf-8")
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


def _line(count, name, facts, seconds):
    kinds = [one["check"] for one in facts]
    said = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
    return f"layer {count}, {name}: heads {said} ({seconds:.1f} s)"


def _is_recorded(options):
    """Whether DATA has recorded tokens, not inputs of a model."""
    data = Path(options.data)
    if not data.exists():
        raise ValueError(f"{data} is no file here: give a text file, a folder of images, an npz or safetensors")
    return data.suffix in ARRAYS and any(name.partition(".")[0] == "tokens" for name in ARRAYS[data.suffix](data))


def _from_files(options, keep):
    """Hand on every layer of a file of weights with the tokens that were recorded for it."""
    model, path = Path(options.model), Path(options.data)
    state, data = _state(model), ARRAYS[path.suffix](path)
    layers = {
        name: parts for name, parts in layer_names(state, options.names).items() if name.startswith(options.prefix)
    }
    if not layers:
        raise ValueError(_no_layer(options))
    alone = "tokens" in data
    if alone and len(layers) > 1:
        raise ValueError(
            f"{path} has tokens of one layer, {model} has {len(layers)}: name those of each layer tokens.0, tokens.1"
            " and so on, or give --prefix"
        )
    texts = data.get("texts")
    for number, (before, parts) in enumerate(layers.items()):
        end = "" if alone else f".{number}"
        tokens, attention = data.get(f"tokens{end}"), data.get(f"attention{end}")
        if tokens is None:
            raise ValueError(
                f"{path} has no tokens{end} for {before}: record what each layer receives, or give --prefix"
            )
        if tokens.ndim != 3:
            raise ValueError(f"tokens{end} has shape {tuple(tokens.shape)}: give (inputs, tokens, width)")
        heads, known = options.heads, parts if options.names or attention is not None else None
        if attention is None:
            check_logits(state, before, model, tokens.shape[1], False)
        else:  # whatever else there is would show in attention
            heads = attention.shape[1]

        def weights(before=before, heads=heads, known=known):
            return file_weights(state, before, model, heads, known)

        layer = _file_layer(before, tokens[: options.inputs], attention, data.get(f"queries{end}"), data, options)
        keep(layer._replace(weights=weights, otherwise=told_otherwise(model, before)), texts)
    return [f"{min(len(tokens), options.inputs)} inputs, recorded in {path.name}."], texts


def _file_layer(before, tokens, attention, queries, data, options):
    """A layer of a file as it is seen at the tokens that ask."""
    inputs, length = tokens.shape[:2]
    query, mask = data.get("query"), data.get("mask")
    seen = torch.ones(inputs, length, dtype=torch.bool) if mask is None else mask[:inputs].bool()
    if query is not None:
        places = query[:inputs].long() % length
    else:
        places = asking_places(None, options.query, seen, False, inputs, length)
    if attention is not None:
        attention = attention[:inputs].double()
        seen = (attention > 0).any(1)
    queries = tokens[torch.arange(inputs), places] if queries is None else queries[:inputs]
    return Layer(before.rstrip("."), places, attention, seen, tokens, queries)


def _state(path):
    """Weights of a file, or of all files of a folder."""
    if path.is_dir():
        files = sorted(path.glob("*.safetensors"))
        if not files:
            raise ValueError(f"{path} has no safetensors: give the file of weights")
        return ChainMap(*map(Safetensors, files))
    return read_state(path)


def _from_model(options, keep):
    """Run a model of transformers on the data, and hand on every layer when it has run."""
    model, transformers = _loaded(options)
    inputs, texts, note = _inputs(options, model, transformers)
    many = len(next(iter(inputs.values())))
    present = inputs.get("attention_mask")

    def receive(layer):
        keep(layer, texts if texts is not None and len(texts[0]) == layer.mask.shape[1] else None)

    run = model
    if model.config.is_encoder_decoder and not any(name.startswith("decoder_") for name in inputs):
        run, note = model.get_encoder(), f"{note} Only the encoder was run: DATA has no decoder_input_ids."
    with torch.inference_mode(), watched(model, receive, options.query, present, options.names):
        found = _run(run, inputs, options)
    if not attention_layers(model, options.names):
        _by_attention(model, found, options, keep, present, texts)
    return [f"{many} inputs. {note}"], texts


def _run(model, inputs, options):
    """What the model returns; ValueError with its own words where the data do not fit it."""
    try:
        return model(**inputs, output_attentions=True)
    except (TypeError, RuntimeError, LookupError, AttributeError, ValueError) as error:
        takes = [name for name in inspect.signature(model.forward).parameters if name.endswith(("ids", "mask", "s"))]
        raise ValueError(
            f"{options.model} does not run on {', '.join(inputs)} of {options.data} ({str(error)[:200]}): it takes"
            f" {', '.join(takes[:8])}"
        ) from None


def _by_attention(model, found, options, keep, present, texts):
    """Hand on what a model of unknown names says of its attention."""
    kinds = [name for name in ("attentions", "encoder_attentions", "decoder_attentions") if found.get(name)]
    if not kinds:
        raise ValueError(
            "no layer of a known convention is there, and the model gives no attention: if it has any, record tokens"
            " and logits, and use lib.models.recorded_problem; or --names tells the names of its weights"
        )
    for kind in kinds:
        for number, one in enumerate(found[kind]):
            places = asking_places(one, options.query, present, False, len(one), one.shape[2])
            seen = one[torch.arange(len(one)), :, places].double()
            why = reasons(model, model, {}) or "its weights are under names that are not known: --names tells them"
            keep(Layer(f"{kind}.{number}", places, seen, (seen > 0).any(1), otherwise=why), texts)


def _loaded(options):
    """The model in evaluation mode, and transformers."""
    try:
        import transformers
    except ImportError:
        raise ValueError(
            f"running {options.model} needs transformers: pip install transformers; or give DATA with recorded tokens,"
            " tokens.0, tokens.1, ..., see attention-selects report --help"
        ) from None
    transformers.utils.logging.disable_progress_bar()
    try:
        config = transformers.AutoConfig.from_pretrained(options.model, trust_remote_code=False)
    except (ValueError, OSError) as error:
        said = "it has code of its own, which is not executed" if "trust_remote_code" in str(error) else str(error)
        raise ValueError(
            f"transformers cannot load {options.model} ({said[:300]}): give a folder or name that it can load; or"
            " weights, and DATA with recorded tokens, tokens.0, tokens.1, ..., see attention-selects report --help"
        ) from None
    kind = getattr(transformers, (getattr(config, "architectures", None) or ["AutoModel"])[0], transformers.AutoModel)
    model = kind.from_pretrained(
        options.model, attn_implementation="eager", dtype=torch.float32, trust_remote_code=False
    )
    return model.eval(), transformers


def _inputs(options, model, transformers):
    """What the model is given, by name; the tokens of each input as texts, or None; a sentence on the data."""
    data = Path(options.data)
    if data.suffix in ARRAYS:
        found = {name: one[: options.inputs] for name, one in ARRAYS[data.suffix](data).items()}
        found = {name: one.float() if one.is_floating_point() else one for name, one in found.items()}
        ids = found.get("input_ids")
        texts = None if ids is None else _texts(options, transformers, ids)
        return found, texts, f"Arrays of {data.name}."
    if data.is_dir():
        from PIL import Image

        files = [file for file in sorted(data.iterdir()) if file.suffix.lower() in (".png", ".jpg", ".jpeg")]
        processor = transformers.AutoImageProcessor.from_pretrained(options.model, trust_remote_code=False)
        images = [Image.open(file).convert("RGB") for file in files[: options.inputs]]
        return dict(processor(images, return_tensors="pt")), None, f"Images of {data.name}/."
    lines = [line for line in data.read_text("utf-8").splitlines() if line.strip()]
    tokenizer = _tokenizer(options, transformers)
    if tokenizer is None:
        raise ValueError(f"{options.model} has no tokenizer: save it there, or give DATA as npz with input_ids")
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    given = tokenizer(
        lines[: options.inputs], padding=True, truncation=True, max_length=options.tokens, return_tensors="pt"
    )
    texts = [tokenizer.convert_ids_to_tokens(row) for row in given["input_ids"]]
    return dict(given), texts, f"The first of {len(lines)} lines of {data.name}, cut to {options.tokens} tokens."


def _texts(options, transformers, ids):
    """Tokens by the model's tokenizer where it is there, else their numbers."""
    tokenizer = _tokenizer(options, transformers)
    if tokenizer is None:
        return [[f"#{one}" for one in row] for row in ids.tolist()]
    return [tokenizer.convert_ids_to_tokens(row) for row in ids]


def _tokenizer(options, transformers):
    """The model's tokenizer; None where it has none, for which transformers may make one of special tokens alone."""
    try:
        found = transformers.AutoTokenizer.from_pretrained(options.model, trust_remote_code=False)
    except (OSError, ValueError, KeyError):
        return None
    return found if len(found) > len(set(found.all_special_ids)) else None


if __name__ == "__main__":
    sys.exit(main())
