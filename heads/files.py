"""Read layers and tokens from safetensors, torch and npz files. Nothing in a file is executed.

A state dict that was pickled is read by torch's own list of harmless types; objects in an npz are refused.
"""

import json
import os
import pickle
import re
import warnings
import zipfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file

from ._lib import checks
from .layers import head_problem
from .weights import layer_prefixes, state_weights

NEEDED, OPTIONAL = ("tokens", "labels", "readout"), ("query", "mask", "queries", "attention", "texts")
ARRAYS = (".npz", ".safetensors")
SMALL, RATIO = 2**28, 100  # an npz may unpack to so many bytes, or to so many times its size if that is more


def read_arrays(path):
    """Arrays of an npz or safetensors by name, words as lists of text; ValueError if the file is of neither kind."""
    path = _there(path)
    return _safetensors(path) if path.suffix == ".safetensors" else _npz(path)


def _safetensors(path):
    try:
        return load_file(path)  # mapped: a tensor that nobody uses is not read
    except Exception as error:
        raise ValueError(
            f"{path} is cut, no safetensors, or of a type that torch does not have ({error}): save it again"
        ) from None


def _npz(path):
    try:
        with zipfile.ZipFile(path) as archive:
            _check_members(path.stat().st_size, archive.infolist())
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
    except Exception as error:  # of zipfile, zlib or numpy
        said = f"is cut, or no npz ({' '.join(str(error).split())[:200]}): save it again by numpy.savez"
        if "pickle" in str(error).lower():
            said = "has objects, not numbers, which are not executed: save arrays of numbers"
        raise ValueError(f"{path} {said}") from None
    return {name: _numbers(name, array) for name, array in arrays.items()}


def _check_members(size, members):
    """Raise ValueError if an archive of so many bytes unpacks to far more, or has a name twice."""
    total = sum(member.file_size for member in members)
    if total > min(memory(), max(SMALL, RATIO * size)):
        raise ValueError(f"{size} bytes that unpack to {total}")
    if len({member.filename.removesuffix(".npy") for member in members}) < len(members):
        raise ValueError("a name stands twice")


def memory():
    """Bytes of memory that the machine has."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _numbers(name, array):
    """An array of an npz as a tensor, but for texts."""
    if name == "texts" and array.dtype.kind == "U":
        return array.tolist()
    if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
        raise ValueError(f"{name} has the type {array.dtype}, not numbers of at most 64 bits: convert it")
    return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))


def read_state(path):
    """State dict of a file: safetensors, npz, or whatever else ``torch.save`` wrote of tensors alone.

    A checkpoint with the state dict under ``state_dict``, ``model_state_dict`` or ``model`` will do. ValueError if it
    is missing or cut, or holds other objects than tensors.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.NamedTemporaryFile(suffix=".npz") as file:
    ...     np.savez(file, weight=np.ones((2, 3)))
    ...     size = file.seek(0)
    ...     read_state(file.name)["weight"].shape
    torch.Size([2, 3])
    """
    path = _there(path)
    if path.suffix in ARRAYS:
        return read_arrays(path)
    try:
        with warnings.catch_warnings(action="ignore"):  # of the version of a pickle that is refused anyway
            state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, AttributeError, ImportError) as error:
        asked = re.search(r"GLOBAL\s+(\S+)", str(error))
        name = asked[1].rstrip(",.:") if asked else type(error).__name__
        raise ValueError(f"{path} has more than tensors, which is not executed ({name}): save a state_dict()") from None
    except Exception:
        raise ValueError(f"{path} is cut, or not by torch.save: copy or save it again") from None
    for inner in ("state_dict", "model_state_dict", "model"):
        state = state[inner] if isinstance(state, dict) and isinstance(state.get(inner), dict) else state
    tensors = isinstance(state, dict) and all(isinstance(part, torch.Tensor) for part in state.values())
    if not tensors or not all(isinstance(name, str) for name in state):
        what = f"the parts {checks.join_names(state)}" if isinstance(state, dict) else f"a {type(state).__name__}"
        raise ValueError(f"{path} has {what}, not tensors by name: save a state_dict()")
    return state


def read_tokens(path):
    """Read from an npz what a head is examined on: ``tokens``, ``labels`` and ``readout``, and optional arrays.

    As :func:`heads.head_problem` takes them: ``query`` and ``mask``, ``queries`` of cross-attention, and
    ``attention`` of the head (n, T), or of all heads (n, heads, T), with which it is compared; ``texts`` of the tokens.
    ValueError if there is no such file, it is cut or has objects, or a name is missing or unknown.
    """
    data = _npz(_there(path))
    if missing := [name for name in NEEDED if name not in data]:
        raise ValueError(f"{path} has no {missing[0]}, but {checks.join_names(data)}: give {', '.join(NEEDED)}")
    if unknown := [name for name in data if name not in NEEDED + OPTIONAL]:
        raise ValueError(f"{path} has {unknown[0]}, which is not known: give {', '.join(NEEDED + OPTIONAL)}")
    return data


def file_problem(path, tokens, layer=0, head=0, heads=0, causal=False, prefix=""):
    """One head of a layer in a file as a problem, on tokens in an npz: :func:`heads.head_problem` from files.

    The file has the names of torch.nn.MultiheadAttention; of a model under other names, see :func:`heads.watching`.

    Parameters
    ----------
    path, tokens : path
        Of :func:`read_state` and :func:`read_tokens`, best with the model's own ``attention``.
    layer, head : int
        From 0.
    heads : int
        That the layer has; when 0, ``num_attention_heads`` of ``config.json`` beside it.
    causal : bool
        No token after the one that asks may be seen.
    prefix : str
        With which the names of one of several stacks of layers begin, such as ``"decoder."``.

    Examples
    --------
    >>> import tempfile
    >>> layer = torch.nn.MultiheadAttention(8, 2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     torch.save(layer.state_dict(), f"{folder}/mine.pt")
    ...     np.savez(f"{folder}/mine.npz", tokens=torch.randn(4, 5, 8), labels=[1, -1, 1, -1], readout=torch.randn(8))
    ...     problem, theta, scores = file_problem(f"{folder}/mine.pt", f"{folder}/mine.npz", head=1, heads=2)
    >>> problem.scores.shape, theta.shape, scores
    (torch.Size([4, 5]), torch.Size([64]), 'exact')
    """
    state, data = read_state(path), read_tokens(tokens)
    prefixes = [name for name in layer_prefixes(state) if name.startswith(prefix)]
    if checks.integer("layer", layer, 0) >= len(prefixes):
        names = checks.join_names(map(repr, layer_prefixes(state)))
        raise ValueError(f"layer is {layer}, prefix {prefix!r}: {path} has the layers {names}")
    weights = state_weights(state, heads or _count_heads(path), prefixes[layer])
    data.pop("texts", None)
    if "attention" in data and data["attention"].ndim == 3 and head < data["attention"].shape[1]:
        data["attention"] = data["attention"][:, head]
    return head_problem(weights, head=head, causal=causal, **data)


def _count_heads(path):
    beside = Path(path).with_name("config.json")
    try:
        return int(json.loads(beside.read_text("utf-8"))["num_attention_heads"])
    except (OSError, ValueError, KeyError, TypeError):
        raise ValueError(f"heads is 0, and no config.json beside {path} says how many: give heads") from None


def _there(path):
    if not isinstance(path, str | os.PathLike) or not Path(path).is_file():
        raise ValueError(f"{path} is no file here: give its path from {Path.cwd().name}/")
    return Path(path)
