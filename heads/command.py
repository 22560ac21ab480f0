"""The command ``attention-selects``: ``report`` on every head of a model, ``compare`` two, ``optimizer``, ``check``."""

import argparse
import contextlib
import json
import os
import re
import sys
import time
from importlib import metadata
from pathlib import Path

from . import claim_command, comparison, optimiser_command, plain, sources
from ._lib import checks
from .bits import check_bits
from .findings import findings, judgement
from .page import page
from .report import head_facts

MOST_INPUTS, MOST_TOKENS = 64, 64
HELP = """MODEL is a folder or name that transformers can load, a file of GGUF, minilm (all-MiniLM-L6-v2, which pip
brings), or mine.py:build, a function of yours that returns a torch.nn.Module: mine.py is then executed. DATA is a text
file, one input a line; a folder of images; or an npz or safetensors of what the model takes, such as input_ids and
attention_mask; without it short film reviews. MODEL is arrays where DATA has what was recorded elsewhere, query.0,
key.0 and so on: python -c "help('PACKAGE.plain')" lists them.""".replace("PACKAGE", __package__)
COMPARE = """OTHER is MODEL after fine-tuning, pruning or quantising: both run on DATA, and the choices of each head are
compared with those of MODEL, and with the forecast that the change of its weights gives."""


def main(arguments=None):
    """Run the command; 1 and one sentence where it cannot."""
    parser = argparse.ArgumentParser("attention-selects", description="What attention selects, in models of your own.")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(required=True, metavar="report|compare|optimizer|check")
    report = commands.add_parser("report", help="write a page on every head of a model", description=HELP)
    compare = commands.add_parser("compare", help="say which choices a changed model turns", description=COMPARE)
    for command in (report, compare):
        command.add_argument("model", metavar="MODEL")
        if command is compare:
            command.add_argument("other", metavar="OTHER")
        command.add_argument("data", metavar="DATA", nargs="?")
        command.add_argument("--inputs", type=int, default=MOST_INPUTS, help=f"inputs at most ({MOST_INPUTS})")
        command.add_argument(
            "--tokens", type=int, default=MOST_TOKENS, help=f"tokens of a text at most ({MOST_TOKENS})"
        )
        command.add_argument("--query", type=_query, default="all", help="all, first, last, a number or a word (all)")
    report.add_argument("--out", default="report.html", help="the page; JSON goes beside it (report.html)")
    report.add_argument("--bits", default="", help="2:8 forecasts the flips at 2 to 8 bits, 4 those at 4")
    report.set_defaults(write=write)
    compare.add_argument("--out", default="compare.json", help="the table as JSON (compare.json)")
    compare.set_defaults(write=comparison.write)
    optimiser_command.add_parser(commands)
    claim_command.add_parser(commands)
    options = parser.parse_args(arguments)
    sys.path.append(str(Path.cwd()))  # for an optimizer in a file of this folder
    try:
        _check_places(options)
        options.write(options)
        sys.stdout.flush()
    except BrokenPipeError:  # whoever reads the output, such as head, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # so that Python does not complain at its end
        print("standard output was closed before all lines were written", file=sys.stderr)
        return 1
    except (ValueError, OSError, ImportError) as error:
        print(" ".join(str(error).split()), file=sys.stderr)
        return 1
    return 0


def _version():
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version("what-attention-selects")
    return "not installed as a package"


def _query(text):
    return int(text) if text.lstrip("-").isdigit() else text


def _bits(text):
    """Numbers of bits of 2:8 or 4; none of nothing."""
    ends = text.partition(":")[::2] if text else ("0", "-1")
    if text and not re.fullmatch(r"\d+(:\d+)?", text):
        raise ValueError(f"--bits is {text!r}: write 4, or 2:8 for 2 to 8")
    numbers = tuple(range(int(ends[0]), int(ends[1] or ends[0]) + 1))
    if text and not numbers:
        raise ValueError(f"--bits is {text}: write the fewer bits first, as in 2:8")
    return tuple(map(check_bits, numbers))


def _check_places(options):
    """Raise ValueError where what is written has no place, or would stand in that of another file."""
    out, end = Path(options.out), ".html" if options.write is write else ".json"
    if not out.parent.is_dir():
        raise ValueError(f"{out.parent} is no folder here: make it, or give another place")
    if out.is_dir():
        raise ValueError(f"{out} is a folder: give --out a file in it")
    if out.suffix != end:
        raise ValueError(f"--out is {out}: end it in {end}, so that no other file is written over")
    read = [getattr(options, name, None) for name in ("model", "other", "data", "file")]
    for place in (out, out.with_suffix(".json")):
        if place.is_dir():
            raise ValueError(f"{place} is a folder: give --out another name")
        if place.resolve() in [Path(name).resolve() for name in read if name]:
            raise ValueError(f"{place} is read: give --out another name")


def write(options):
    """Write page and JSON, when every layer has been measured."""
    out, started = Path(options.out), time.perf_counter()
    checks.integer("inputs", options.inputs)
    checks.integer("tokens", options.tokens, 2)
    bits = _bits(options.bits)
    with _source(options) as source:
        facts, left_out, compared = head_facts(source, options.query, bits, _tell)
    if not facts and isinstance(options.query, str) and options.query not in ("all", "first", "last"):
        raise ValueError(f"--query is {options.query!r}: no token of DATA is that and sees another; give one that does")
    if not facts:
        raise ValueError(f"no head can be reported: {'; '.join(left_out)}")
    name = "all-MiniLM-L6-v2" if options.model == "minilm" else Path(options.model).resolve().name
    name += "" if source.calls is not None else f" ({type(source.model).__name__})"
    judged, found = judgement(source, facts, left_out, compared), findings(facts)
    if options.model == "minilm":
        judged.append(
            "The model is all-MiniLM-L6-v2 of the sentence-transformers project, under the Apache License 2.0."
        )
    out.write_text(page(name, facts, [*judged, f"Made in {time.perf_counter() - started:.0f} s."], found), "utf-8")
    beside = out.with_suffix(".json")
    report = {"model": str(options.model), "data": str(options.data), "judged": source.judged, "says": judged,
              "findings": found, "left_out": left_out, "heads": facts}  # fmt: skip
    beside.write_text(json.dumps(report, allow_nan=False), "utf-8")
    print("\n".join(found))
    print(f"{out} and {beside} are written: {len(facts)} heads of {len({head['layer'] for head in facts})} layers")


def _tell(line):
    print(line, file=sys.stderr, flush=True)


def _source(options):
    """A context with the :class:`heads.inputs.Source` of MODEL and DATA."""
    model = options.model
    if model == "arrays":
        return contextlib.nullcontext(plain.plain_source(options))
    if model.endswith(".py"):
        raise ValueError(f"{model} needs a function that builds the model: give {model}:build")
    if Path(model).is_file() and not model.endswith(".gguf"):
        raise ValueError(
            f"{model} is a file of weights, which nothing here can run: give a folder that transformers can load, or"
            " mine.py:build, or arrays and the queries and keys in DATA"
        )
    return sources.opened(options)


if __name__ == "__main__":
    sys.exit(main())
