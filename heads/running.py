"""Run a model of transformers on a text, on images or on arrays, and hand on each of its attention layers."""

import inspect
import re
from pathlib import Path

import torch

from ._lib import checks
from .capture import capture_attention, query_positions
from .weights import precision_note

IMAGES = (".png", ".jpg", ".jpeg")
# Parts behind all attention, which a checkpoint often lacks.
BEHIND = re.compile(r"(^|\.)(\w*pooler|masked_spec_embed)(\.|$)|^(\w*classifier|lm_head|qa_outputs|score|cls)\.")
RECORDED = "recorded tokens, tokens.0, tokens.1, ..., see attention-selects report --help"


def run_model(options, arrays, add_layer):
    """Run a model and hand on every layer: a sentence on the data, and the layers that were left out, with reasons."""
    model, transformers = _loaded(options)
    inputs, spell, note = _inputs(options, arrays, transformers)
    count, left_out, takes = len(next(iter(inputs.values()))), {}, inspect.signature(model.forward).parameters
    if "decoder_input_ids" in takes and not any(name.startswith("decoder_") for name in inputs):
        model, note = model.get_encoder(), f"{note} Only the encoder was run: DATA has no decoder_input_ids."
    for name in ("attention_mask", "decoder_attention_mask"):
        if name in inputs and inputs[name].ndim == 2:
            query_positions(False, None, inputs[name].bool())  # refuses what is padding from end to end

    def leave_out(name, error):
        left_out[name] = _reason(error)

    def receive(layer):
        if len(layer.mask) != count:
            layer = layer._replace(name=f"{layer.name}, {len(layer.mask)} windows of {count} inputs")
        try:
            add_layer(layer)
        except Exception as error:  # of its weights: the model's own attention is there
            if layer.weights is None:
                raise
            add_layer(layer._replace(weights=None, why=f"its weights do not serve: {_reason(error)}"))

    own = {"query": options.query, "own_names": options.names, "spell": spell}
    with torch.inference_mode():
        if any(hasattr(module, "set_attention_type") for module in model.modules()):
            _run(model, inputs, options)  # BigBird exchanges its modules when it has seen how short its inputs are
        with capture_attention(model, receive, leave_out, **own):
            _run(model, inputs, options)
    return f"{count} inputs. {note}{precision_note(model.parameters(), 'float32')}", left_out


def _reason(error):
    return str(error) if isinstance(error, ValueError) else f"a fault of this library, {error!r}"


def _run(model, inputs, options):
    """Run the model; ValueError with its own message where the data do not fit it."""
    parameters = inspect.signature(model.forward).parameters
    asked = {"output_attentions": True}
    if "output_attentions" not in parameters and not any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        asked, model.config.output_attentions = {}, True
    try:
        model(**inputs, **asked)
    except Exception as error:  # of the model's own code: hooks keep theirs
        takes = [name for name in parameters if name.endswith(("ids", "mask", "s"))]
        asked = " with output_attentions=True" if asked else ""
        raise ValueError(
            f"{options.model} does not run on {', '.join(inputs)} of {options.data}{asked} ({type(error).__name__}:"
            f" {str(error)[:200]}): it takes {', '.join(takes[:8])}"
        ) from None


def _loaded(options):
    """The model in evaluation mode, and transformers."""
    try:
        import transformers
    except ImportError:
        raise ValueError(
            f"running {options.model} needs transformers: pip install transformers; or give DATA with {RECORDED}"
        ) from None
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()  # what it would warn of is refused below
    try:
        config = transformers.AutoConfig.from_pretrained(options.model, trust_remote_code=False)
        kind = (getattr(config, "architectures", None) or ["AutoModel"])[0]
        kind = getattr(transformers, kind, transformers.AutoModel)
        about = {"attn_implementation": "eager", "dtype": torch.float32, "output_loading_info": True}
        model, info = kind.from_pretrained(options.model, trust_remote_code=False, **about)
    except Exception as error:  # of any file in the folder
        said = "it has code of its own, which is not executed" if "trust_remote_code" in str(error) else str(error)
        raise ValueError(
            f"transformers cannot load {options.model} ({type(error).__name__}: {said[:300]}): give a folder or name"
            f" that it can load; or weights, and DATA with {RECORDED}"
        ) from None
    drawn = sorted(name for name in info["missing_keys"] if not BEHIND.search(name))
    if drawn:
        unused = checks.join_names(sorted(info["unexpected_keys"]), 4) or "none"
        raise ValueError(
            f"{options.model} has no {checks.join_names(drawn, 4)}, which transformers would draw at random; its names"
            f" that no part of the model has: {unused}: rename them, or save the model by save_pretrained"
        )
    return model.eval(), transformers


def _inputs(options, arrays, transformers):
    """Inputs of the model, by name; what turns a row of ids into words; a sentence on the data."""
    data = Path(options.data)
    if data.is_dir():
        return _images(options, transformers), None, f"Images of {data.name}/."
    tokenizer, failed = _part(options, transformers.AutoTokenizer)
    files = [file.name for file in Path(options.model).glob("*")]
    if files and not any(re.search(r"token|vocab|merges|spiece|sentencepiece|\.model$", name) for name in files):
        tokenizer = None  # one that transformers makes of special tokens alone
    if arrays:
        inputs = {name: array[: options.inputs] for name, array in arrays.items() if name != "texts"}
        inputs = {name: x.float() if x.is_floating_point() else x for name, x in inputs.items()}
        if min(x.ndim for x in inputs.values()) < 2 or len(set(map(len, inputs.values()))) > 1:
            shapes = checks.join_names(f"{name} {tuple(x.shape)}" for name, x in inputs.items())
            raise ValueError(f"{data} has {shapes}: give arrays (inputs, ...), of equally many inputs")
        note = f"Arrays of {data.name}."
    else:
        if tokenizer is None:
            raise ValueError(
                f"{options.model} has no tokenizer{failed}: save it there, or give DATA as npz with input_ids"
            )
        lines, numbers = _lines(data)
        tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
        cut = {"padding": True, "truncation": True, "max_length": options.tokens, "return_tensors": "pt"}
        inputs = dict(tokenizer(lines[: options.inputs], **cut))
        if (length := inputs["input_ids"].shape[1]) > options.tokens:
            raise ValueError(f"--tokens is {options.tokens}, the tokenizer gives {length}, its own included: give more")
        note = f"The first of {len(lines)} lines of {data.name}, cut to {options.tokens} tokens."
        numbers = numbers[: options.inputs]
        if numbers[-1] > len(numbers):
            note += (
                f" Empty lines are no inputs: inputs 0, 1, ... are lines {checks.join_names(numbers, 64)} of the file."
            )
    spell = tokenizer.convert_ids_to_tokens if tokenizer else lambda row: [f"#{token}" for token in row]
    return inputs, spell, note


def _lines(data):
    """The lines of a text without empty ones, and their numbers in the file, from 1."""
    try:
        every = data.read_text("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        every = []
    lines = {number: line.strip("\r") for number, line in enumerate(every, 1) if line.strip()}
    if not lines:
        raise ValueError(f"{data} has no line of text in UTF-8: give a text, a folder of images, an npz or safetensors")
    return [*lines.values()], [*lines]


def _images(options, transformers):
    from PIL import Image

    files = [file for file in sorted(Path(options.data).iterdir()) if file.suffix.lower() in IMAGES]
    if not files:
        raise ValueError(f"{options.data} has no images: give a folder with files of {', '.join(IMAGES)}")
    processor, failed = _part(options, transformers.AutoImageProcessor)
    if processor is None:
        raise ValueError(
            f"{options.model} has no preprocessor_config.json{failed}: save it, or give an npz with pixel_values"
        )
    images = [Image.open(file).convert("RGB") for file in files[: options.inputs]]
    return dict(processor(images, return_tensors="pt"))


def _part(options, kind):
    """Tokenizer or image processor of the model, and ""; None, and in brackets what it would need."""
    try:
        return kind.from_pretrained(options.model, trust_remote_code=False), ""
    except Exception as error:
        return None, f" ({' '.join(str(error).split())[:150]})" if isinstance(error, ImportError) else ""
