"""What a model runs on in a report: texts, images or arrays, with what is wrong with them; or short film reviews."""

import inspect
import re
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from . import watch
from ._lib import checks
from .files import ARRAYS, read_arrays

IMAGES = (".png", ".jpg", ".jpeg")
MOST_UNKNOWN = 0.5  # share of unknown tokens above which a report would be about nothing else
# Where a report is given no data; written for it, in the public domain.
REVIEWS = [
    "A warm, funny and honest film that never talks down to its audience.",
    "The plot is thin, the jokes are old, and nobody on screen seems awake.",
    "I expected a thriller and got two hours of people looking out of windows.",
    "Her best performance in years, and the script finally deserves her.",
    "It is not a bad film, but it is not a good one either.",
    "What a waste of a brilliant cast!",
    "The first half is slow; the second half is worth the wait.",
    "Every frame looks like a painting, and almost every line sounds like one, too.",
    "My children loved it, and I did not fall asleep, which is rare.",
    "A sequel that nobody asked for, made by people who did not care.",
    "The director trusts silence, and the silence pays off.",
    "Loud, long and empty.",
    "You will laugh, you will cry, and you will check your watch twice.",
    "The music does all the work that the actors should have done.",
    "Small in scale, enormous in feeling.",
    "The twist is clever, but the film cheats to get there.",
    "I have never seen a chase scene so dull.",
    "It takes an old story and makes it feel new again.",
    "The dialogue is so wooden that one could build a ship from it.",
    "A gentle comedy about grief, if you can imagine such a thing.",
    "He plays the villain with so much joy that one forgets to hate him.",
    "The special effects are wonderful, and they are all there is.",
    "Not one scene rings true.",
    "A quiet masterpiece, beautifully shot and wonderfully acted.",
    "It could have been a great short film; it is a terrible long one.",
    "The book was better, the poster was better, the trailer was better.",
    "An old man, a dog and a broken radio: that is all this film needs.",
    "I admired it more than I enjoyed it.",
    "The ending ruins everything that came before.",
    "Sharp, angry and very funny about money.",
    "The camera never stops moving, and neither did my stomach.",
    "It is hard to dislike a film that tries so hard to please.",
    "A documentary that asks the right questions of the wrong people.",
    "The young lead carries the film on her shoulders without any visible effort.",
    "Three writers are credited, and not one of them had an idea.",
    "Tender without being sweet, clever without being cold.",
    "This is how horror should be done: slowly, and with the lights on.",
    "Even the popcorn was bored.",
    "I will see it again tomorrow.",
    "A film about music that understands why people need it.",
]


class Source(NamedTuple):
    """A model and what it runs on.

    model : Module, in evaluation mode.
    inputs : dict of Tensor, all with as many rows.
    words : list of list of str, the tokens of each input, or None.
    special : Tensor of bool, shape (n, T), tokens that are no words, or None.
    says : list of str, on data and model, the most important first.
    judged : dict, the same in numbers.
    recorded : whether the model gives its attention and not its queries and keys.
    calls : of arrays, whose attention is read and not run, or None.
    packed : dict, by the name of an array whose rows are patches, those of each input behind each other, how many each
        input has; such inputs run alone.
    """

    model: nn.Module
    inputs: dict[str, Tensor]
    words: list | None = None
    special: Tensor | None = None
    says: list = []  # noqa: RUF012  never changed
    judged: dict = {}  # noqa: RUF012
    recorded: bool = False
    calls: list | None = None
    packed: dict = {}  # noqa: RUF012

    @property
    def count(self):
        """How many inputs there are."""
        return len(next(x for name, x in self.inputs.items() if name not in self.packed))

    def rows(self, rows):
        """Inputs of some rows, without the padding that all of them have."""
        inputs = {name: x[rows] for name, x in self.inputs.items() if name not in self.packed}
        for name, sizes in self.packed.items():
            parts = self.inputs[name].split(sizes)
            inputs[name] = torch.cat([parts[row] for row in torch.as_tensor(rows).tolist()])
        for name in ("attention_mask", "decoder_attention_mask"):
            if name in inputs:
                length, shape = int(inputs[name].sum(-1).max()), inputs[name].shape
                cut = [other for other, x in inputs.items() if x.shape[:2] == shape and
                       other.startswith("decoder") == name.startswith("decoder")]  # fmt: skip
                inputs |= {other: inputs[other][:, :length] for other in cut}
        return inputs

    def run(self, inputs):
        """Run the model; ValueError with its own message where the data do not fit it."""
        takes = inspect.signature(self.model.forward).parameters
        more = {"use_cache": False} if "use_cache" in takes else {}
        more |= {"output_attentions": True} if self.recorded else {}
        try:
            return self.model(**inputs, **more)
        except watch.Refused:
            raise
        except Exception as error:  # of the model's own code
            raise ValueError(
                f"the model does not run on {', '.join(inputs)} ({type(error).__name__}: {str(error)[:200]}): it takes"
                f" {', '.join(list(takes)[:8])}"
            ) from error


def place(name):
    """Folder of a model, and how transformers is told of a file in it."""
    return (str(Path(name).parent), {"gguf_file": Path(name).name}) if name.endswith(".gguf") else (name, {})


def read_inputs(options, name, model):
    """Inputs of the model, its words, and sentences on them."""
    import transformers

    data = None if options.data is None else Path(options.data)
    if data is not None and not data.exists():
        raise ValueError(f"{data} is no file here: give a text file, a folder of images, an npz or safetensors")
    if data is not None and data.is_dir():
        source = Source(None, _images(options, name, transformers))
    else:
        tokenizer, failed = _tokenizer(name, transformers)
        if data is not None and data.suffix in ARRAYS:
            source = array_inputs(options, tokenizer)
            pads = [getattr(one, "pad_token_id", None) for one in (tokenizer, model.config)]
            _check_padding(source.inputs, next((pad for pad in pads if pad is not None), None))
        elif tokenizer is None:
            raise ValueError(f"{name} has no tokenizer{failed}: save it there, or give DATA as npz with input_ids")
        else:
            source = _texts(options, tokenizer, REVIEWS if data is None else _lines(data))
    takes = inspect.signature(model.forward).parameters
    if "decoder_input_ids" in takes and "decoder_input_ids" not in source.inputs:
        said = "DATA has no decoder_input_ids: the decoder gets the same tokens as the encoder."
        ids = {"decoder_input_ids": source.inputs.get("input_ids")}
        if ids["decoder_input_ids"] is None:
            raise ValueError("the model has a decoder: give decoder_input_ids")
        mask = source.inputs.get("attention_mask")
        ids |= {} if mask is None or "decoder_attention_mask" not in takes else {"decoder_attention_mask": mask}
        source = source._replace(inputs=source.inputs | ids, says=[*source.says, said])
    return source


def _tokenizer(name, transformers):
    """Tokenizer of the model, and ""; None, and in brackets what it would need."""
    files = [file.name for file in Path(name).glob("*")] if Path(name).is_dir() else []
    if files and not any(re.search(r"token|vocab|merges|spiece|sentencepiece|\.model$", file) for file in files):
        return None, ""  # one that transformers makes of special tokens alone
    try:
        folder, gguf = place(name)
        return transformers.AutoTokenizer.from_pretrained(folder, trust_remote_code=False, **gguf), ""
    except Exception as error:
        return None, f" ({' '.join(str(error).split())[:150]})" if isinstance(error, ImportError) else ""


def _texts(options, tokenizer, lines):
    """Texts as inputs, padded on the right, where no model's positions depend on padding."""
    lines = lines[: options.inputs]
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    tokenizer.padding_side = "right"
    whole = tokenizer(lines)["input_ids"]
    cut = {"padding": True, "truncation": True, "max_length": options.tokens, "return_tensors": "pt"}
    inputs = dict(tokenizer(lines, **cut))
    if (length := inputs["input_ids"].shape[1]) > options.tokens:
        raise ValueError(f"--tokens is {options.tokens}, the tokenizer gives {length}, its own included: give more")
    ids = inputs["input_ids"]
    mask = inputs.setdefault("attention_mask", torch.ones_like(ids)).bool()
    special = torch.isin(ids, torch.tensor(tokenizer.all_special_ids or [-1]))
    unknown = torch.zeros_like(mask) if tokenizer.unk_token_id is None else (ids == tokenizer.unk_token_id) & mask
    share = int(unknown.sum()) / max(int((mask & (~special | unknown)).sum()), 1)
    if share > MOST_UNKNOWN:
        raise ValueError(
            f"{share:.0%} of the words are {tokenizer.unk_token}, unknown to the tokenizer: write texts as it expects"
        )
    rows = [tuple(row) for row in ids.tolist()]
    judged = {
        "inputs": len(lines), "tokens": int(mask.sum()), "padded": (~mask).double().mean().item(),
        "cut": sum(len(row) > options.tokens for row in whole), "unknown": share,
        "equal": sum(rows.count(row) > 1 and lines.count(line) == 1 for row, line in zip(rows, lines, strict=True)),
    }  # fmt: skip
    return Source(None, inputs, _spelt(tokenizer, ids), special, _judgement(judged), judged)


def _spelt(tokenizer, ids):
    return [tokenizer.convert_ids_to_tokens(row) for row in ids.tolist()]


def _judgement(judged):
    """Sentences on texts: what is wrong with them comes first."""
    says = []
    if judged["equal"]:
        says.append(f"{judged['equal']} different texts have equal tokens: the model cannot tell them apart.")
    if judged["unknown"]:
        says.append(f"{judged['unknown']:.1%} of the words are unknown to the tokenizer.")
    if judged["cut"]:
        says.append(f"{judged['cut']} of {judged['inputs']} texts were cut.")
    padded = f"; {judged['padded']:.0%} of the places are padding, which no token sees" if judged["padded"] else ""
    return [*says, f"{judged['inputs']} texts of {judged['tokens']:,} tokens in all{padded}."]


def array_file(options):
    """Arrays of DATA by name; ValueError where it is no file of arrays."""
    data = Path(options.data or "")
    if data.suffix not in ARRAYS or not data.is_file():
        lacks = "is no file here" if data.suffix in ARRAYS else "is no npz or safetensors"
        given = f"{data} {lacks}" if options.data else "DATA is missing"
        raise ValueError(f"{given}: give an npz or safetensors with the arrays that the model takes")
    return read_arrays(data)


def array_inputs(options, tokenizer):
    """Arrays as inputs, those of padded rows moved to the left."""
    arrays = {name: x for name, x in array_file(options).items() if name != "texts"}
    packed = _packed(arrays, options)
    counts = {len(x) if x.ndim else 0 for name, x in arrays.items() if name not in packed}
    if min((x.ndim for x in arrays.values()), default=0) < 2 or len(counts) > 1 or counts == {0}:
        has = checks.join_names(f"{name} {tuple(x.shape)}" for name, x in arrays.items())
        raise ValueError(f"{options.data} has {has}: give arrays (inputs, ...), of equally many inputs, one at least")
    inputs = {name: x[: sum(packed[name]) if name in packed else options.inputs] for name, x in arrays.items()}
    inputs = {name: x.float() if x.is_floating_point() else x.long() for name, x in inputs.items()}
    if spoilt := [name for name, x in inputs.items() if x.isnan().any()]:
        raise ValueError(f"{spoilt[0]} of {options.data} has entries that are no numbers: give numbers")
    for prefix in ("", "decoder_"):
        inputs = _to_the_left(inputs, prefix)
    ids = inputs.get("input_ids")
    if ids is None or ids.is_floating_point():
        return Source(None, inputs, says=[f"{min(options.inputs, *counts)} inputs."], packed=packed)
    words = [[f"#{token}" for token in row] for row in ids.tolist()] if tokenizer is None else _spelt(tokenizer, ids)
    special = None if tokenizer is None else torch.isin(ids, torch.tensor(tokenizer.all_special_ids or [-1]))
    return Source(None, inputs, words, special, [f"{len(ids)} inputs."], packed=packed)


def _packed(arrays, options):
    """Patches of each input by the name of the array, where another one has times, rows and columns of its image."""
    grids = [name for name, x in arrays.items() if name.endswith("grid_thw") and x.ndim == 2]
    sizes = {name: arrays[name].long().prod(-1).tolist() for name in grids}
    return {
        name: sizes[grid][: options.inputs]
        for grid in grids
        for name, x in arrays.items()
        if name not in grids and x.ndim and len(x) == sum(sizes[grid]) != len(arrays[grid]) and min(sizes[grid]) > 0
    }


def _to_the_left(inputs, prefix):
    """Inputs with each row's padding at its end: positions then follow the mask in every model."""
    mask = inputs.get(f"{prefix}attention_mask")
    if mask is None or mask.ndim != 2:
        return inputs
    if not mask.bool().any(-1).all():
        empty = mask.bool().any(-1).tolist().index(False)
        raise ValueError(f"input {empty} is padding from end to end: its mask must be 1 where it has tokens")
    order = mask.bool().long().argsort(dim=-1, descending=True, stable=True)
    own = [name for name, x in inputs.items() if x.shape == mask.shape and name.startswith("decoder_") == bool(prefix)]
    return inputs | {name: inputs[name].gather(1, order) for name in own}


def _check_padding(inputs, pad):
    """Raise ValueError where ids end or begin with padding and no mask says so."""
    for prefix in ("", "decoder_"):
        ids = inputs.get(f"{prefix}input_ids")
        if pad is None or ids is None or f"{prefix}attention_mask" in inputs or ids.ndim != 2:
            continue
        padded = (ids[:, -1] == pad) & (ids[:, -2:] == pad).all(-1) | (ids[:, :2] == pad).all(-1)
        if padded.any():
            raise ValueError(
                f"{prefix}input_ids has {int((ids == pad).sum())} padding tokens ({pad}) and no mask says so: give"
                f" {prefix}attention_mask, 1 where a token is"
            )


def _lines(data):
    """Lines of a text without empty ones."""
    try:
        every = data.read_text("utf-8-sig").split("\n")
    except UnicodeDecodeError:
        every = []
    if not (lines := [line.strip("\r") for line in every if line.strip()]):
        raise ValueError(f"{data} has no line of text in UTF-8: give a text, a folder of images, an npz or safetensors")
    return lines


def _images(options, name, transformers):
    from PIL import Image

    files = [file for file in sorted(Path(options.data).iterdir()) if file.suffix.lower() in IMAGES]
    if not files:
        raise ValueError(f"{options.data} has no images: give a folder with files of {', '.join(IMAGES)}")
    try:
        processor = transformers.AutoImageProcessor.from_pretrained(name, trust_remote_code=False)
    except Exception:
        raise ValueError(f"{name} has no preprocessor_config.json: save it, or give an npz with pixel_values") from None
    return dict(processor([Image.open(file).convert("RGB") for file in files[: options.inputs]], return_tensors="pt"))
