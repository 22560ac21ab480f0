"""The command ``attention-selects``: ``report`` on every head of a model, ``optimizer`` on one, ``check`` a claim."""

import argparse
import json
import os
import sys
import time
from pathlib import Path

from . import claim_command, optimiser_command
from ._lib import checks
from .bits import check_bits
from .conventions import FUSED
from .facts import layer_facts
from .files import ARRAYS, read_arrays
from .page import page
from .recorded import read_layers
from .running import RECORDED, run_model
from .weights import layer_pattern

MOST_INPUTS, MOST_TOKENS = 64, 64
HELP = """MODEL is a folder or file of weights (safetensors, or what torch.save wrote of a state dict), or a name that
transformers can load here. DATA is a text file, one input a line (a model of transformers, with its tokenizer); a
folder of images; an npz or safetensors of what the model takes, such as input_ids and attention_mask; or of recorded
tokens: tokens.0, tokens.1, ... (inputs, tokens, width), as the attention of each layer receives them, numbered as the
layers run, in a block of a decoder self-attention before cross-attention; and where known attention.0, ... (inputs,
heads, tokens), or of every token (inputs, heads, tokens, tokens); queries.0, ... (inputs, width), which cross-attention
needs, query (inputs), mask (inputs, tokens)."""


def main(arguments=None):
    """Run the command; 1 and one sentence where it cannot."""
    parser = argparse.ArgumentParser("attention-selects", description="What attention selects, in models of your own.")
    commands = parser.add_subparsers(required=True, metavar="report|optimizer|check")
    report = commands.add_parser("report", help="write a page on every head of a model", description=HELP)
    report.add_argument("model", metavar="MODEL")
    report.add_argument("data", metavar="DATA")
    report.add_argument("--out", default="report.html", help="the page; JSON goes beside it (report.html)")
    report.add_argument("--inputs", type=int, default=MOST_INPUTS, help=f"inputs at most ({MOST_INPUTS})")
    report.add_argument("--tokens", type=int, help=f"tokens of a text at most ({MOST_TOKENS})")
    report.add_argument("--query", type=int, help="token that asks, without padding (causal: the last, else the first)")
    report.add_argument("--bits", type=int, help="forecast which choices flip with keys and queries of so many bits")
    report.add_argument("--prefix", default="", help="only layers whose names begin so, such as encoder.")
    report.add_argument("--heads", type=int, default=0, help="heads of a layer, where no config.json says it")
    named = (
        "names of your own, * for the layer: query=blocks.*.wq.weight,key=...,value=...,out=...; or qkv=...,out=... and"
    )
    orders = ", ".join(f"fused={name} where {order.words}" for name, order in FUSED.items())
    named += f" the order of its rows, {orders}, which recorded attention tells as well"
    report.add_argument("--names", type=_parse_names, help=named)
    report.set_defaults(write=write)
    optimiser_command.add_parser(commands)
    claim_command.add_parser(commands)
    options = parser.parse_args(arguments)
    sys.path.append(str(Path.cwd()))  # for an optimizer in a file of this folder
    try:
        _check_places(options)
        vars(options).pop("write")(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads the output, such as head, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python does not complain at its end
        print("standard output was closed before all lines were written", file=sys.stderr)
        return 1
    except (ValueError, OSError, ImportError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


def _check_places(options):
    """Raise ValueError where page or figure, or the JSON beside it, cannot be written."""
    for place in map(Path, filter(None, (options.out, getattr(options, "json", None)))):
        if not place.parent.is_dir():
            raise ValueError(f"{place.parent} is no folder here: make it, or give another place")
        if place.is_dir():
            raise ValueError(f"{place} is a folder: give a file in it")
    out, beside = Path(options.out), Path(getattr(options, "json", None) or Path(options.out).with_suffix(".json"))
    if out == beside:
        raise ValueError(f"--out is {out}, where the JSON goes: give them two names")
    if beside.is_dir():
        raise ValueError(f"{beside} is a folder, and the JSON goes there: give another --out")


def _parse_names(text):
    """Parse --names: names by part."""
    names = dict(pair.partition("=")[::2] for pair in text.split(","))
    if not all(names.values()):
        raise argparse.ArgumentTypeError(f"{text!r}: write query=...,key=...,value=...,out=...")
    return names


def write(options):
    """Write page and JSON, when every layer has been read."""
    out, started, facts, alone = Path(options.out), time.perf_counter(), [], {}
    checks.integer("inputs", options.inputs)
    if options.bits is not None:
        check_bits(options.bits)

    def add_layer(layer):
        if f"{layer.name}.".startswith(options.prefix):
            layer = layer._replace(name=layer.name or "attention")  # of a file or model that is one layer
            heads = layer_facts(layer, options.bits)
            if without := (layer.mask.sum(-1) == 1).nonzero().flatten().tolist():
                alone[layer.name] = f"inputs that see one token alone, so choose none: {checks.join_names(without, 8)}"
            facts.extend(heads)
            kinds = [head["check"] for head in heads]
            said = ", ".join(f"{kinds.count(kind)} {kind}" for kind in dict.fromkeys(kinds))
            print(f"{layer.name}: heads {said}", file=sys.stderr, flush=True)

    arrays = _arrays(options)
    _check_used(options, arrays)
    if _is_recorded(arrays):
        note, left_out = read_layers(options, arrays, add_layer)
    else:
        note, left_out = run_model(options, arrays, add_layer)
    left_out = {name: why for name, why in (alone | left_out).items() if f"{name}.".startswith(options.prefix)}
    left_out = _grouped(left_out, {*left_out, *(head["layer"] for head in facts)})
    if not facts:
        none = "the model has no attention that it gives, or whose names are known"
        none = f"prefix is {options.prefix!r}, and no layer's name begins so: leave it out" if options.prefix else none
        raise ValueError(f"no head can be reported: {'; '.join(left_out) or none}")
    notes = [note, *_without_bits(options, facts), f"Made in {time.perf_counter() - started:.0f} s."]
    out.write_text(page(Path(options.model).name, facts, notes, left_out), "utf-8")
    beside = out.with_suffix(".json")
    report = {"model": str(options.model), "data": str(options.data), "left_out": left_out, "heads": facts}
    beside.write_text(json.dumps(report, allow_nan=False), "utf-8")
    print(f"{out} and {beside} are written: {len(facts)} heads of {len({head['layer'] for head in facts})} layers")


def _without_bits(options, facts):
    """A sentence on heads that --bits says nothing of, on stderr too; none where there are none."""
    without = sum("bits" not in head for head in facts)
    if options.bits is not None and without:
        said = f"--bits says nothing of {without} of {len(facts)} heads, which are shown as recorded."
        print(said, file=sys.stderr)
        yield said


def _grouped(left_out, every):
    """Layers that were left out and why, a sentence for each reason: with * for numbers where that names no other."""
    sentences = []
    for why in sorted(set(left_out.values())):
        names, shown = [name for name, reason in left_out.items() if reason == why], []
        for pattern in sorted({layer_pattern(name) for name in names}):
            alike = [name for name in names if layer_pattern(name) == pattern]
            whole = 1 < len(alike) == sum(layer_pattern(name) == pattern for name in every)
            shown.append(pattern if whole else checks.join_names(alike, 8))
        sentences.append(f"{', '.join(shown)}: {why}")
    return sentences


def _is_recorded(arrays):
    """Whether arrays are recorded tokens, not inputs of a model."""
    return any(name.partition(".")[0] == "tokens" for name in arrays)


def _check_used(options, arrays):
    """Raise ValueError where an option would be ignored; the number of tokens is settled."""
    if options.heads and not _is_recorded(arrays):
        raise ValueError(f"--heads is {options.heads}, but {options.model} runs and says itself how many: leave it out")
    if options.query is not None and _is_recorded(arrays) and "query" in arrays:
        raise ValueError(f"--query is {options.query}, but {options.data} has query: give one of them")
    if options.tokens is not None and (arrays or Path(options.data).is_dir()):
        raise ValueError(f"--tokens is {options.tokens}, but {options.data} is no text: leave it out")
    options.tokens = checks.integer("tokens", MOST_TOKENS if options.tokens is None else options.tokens, 2)


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


if __name__ == "__main__":
    sys.exit(main())
