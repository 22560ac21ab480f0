"""Layers and tokens from files: safetensors, what torch saved, and npz. Nothing in a file is executed.

A state dict that was pickled is read by torch's own list of harmless types; objects in an npz are refused.
"""

import difflib
import json
import math
import pickle
import re
import zipfile
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch

from . import checks
from .layers import head_problem
from .weights import LAYOUTS, state_weights

TYPES = {  # of safetensors
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip
NEEDED, OPTIONAL = ("tokens", "labels", "readout"), ("query", "mask")
HEADS = ("num_attention_heads", "n_head", "num_heads", "encoder_attention_heads")  # in the configs of Hugging Face


class Safetensors(Mapping):
    """Tensors of a safetensors file by name, each read when it is asked for.

    Raises
    ------
    ValueError
        If the file is cut, or its header is not that of such a file.
    """

    def __init__(self, path):
        self.path, size = Path(path), Path(path).stat().st_size
        with self.path.open("rb") as file:
            length = int.from_bytes(file.read(8), "little")
            if size < 8 or length > size - 8:
                raise ValueError(
                    f"{path} has {size} bytes, its header needs {8 + length}: it is cut, or no safetensors"
                )
            try:
                entries = json.loads(file.read(length))
                entries.pop("__metadata__", None)
                self.entries = {
                    name: (entry["dtype"], tuple(entry["shape"]), *map(int, entry["data_offsets"]))
                    for name, entry in entries.items()
                }
                self.start = 8 + length
                end = max((entry[3] for entry in self.entries.values()), default=0)
            except (ValueError, TypeError, KeyError, AttributeError, IndexError):
                raise ValueError(f"{path} has a header that is not that of safetensors: save it again") from None
        if self.start + end > size:
            raise ValueError(f"{path} has {size} bytes, its tensors need {self.start + end}: it is cut, copy it again")

    def __getitem__(self, name):
        kind, shape, begin, end = self.entries[name]
        if kind not in TYPES:
            raise ValueError(f"{name} has the type {kind}: save it as one of {', '.join(TYPES)}")
        dtype = TYPES[kind]
        if math.prod(shape) * dtype.itemsize != end - begin:
            raise ValueError(f"{name} has shape {shape} and {end - begin} bytes: save the file again")
        with self.path.open("rb") as file:
            file.seek(self.start + begin)
            content = bytearray(file.read(end - begin))
        return torch.frombuffer(content, dtype=dtype).view(shape) if content else torch.empty(shape, dtype=dtype)

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


def read_state(path):
    """State dict of a file: safetensors, npz, or whatever else ``torch.save`` wrote of tensors alone.

    Parameters
    ----------
    path : path
        Ending in ``.safetensors`` or ``.npz``; another ending is taken for torch's. A checkpoint with the state dict
        under ``state_dict`` or ``model`` will do.

    Returns
    -------
    Mapping of str to Tensor

    Raises
    ------
    ValueError
        If there is no such file, it is cut, or it holds other objects than tensors.

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
    if path.suffix == ".safetensors":
        return Safetensors(path)
    if path.suffix == ".npz":
        return {name: torch.from_numpy(one) for name, one in _arrays(path).items()}
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, AttributeError, ImportError) as error:
        raise ValueError(
            f"{path} has more than tensors, which is not executed ({_named(error)}): save layer.state_dict()"
        ) from None
    except (RuntimeError, EOFError, OSError, ValueError, KeyError, IndexError, TypeError, UnicodeError):
        raise ValueError(f"{path} is cut, or not by torch.save: copy or save it again") from None
    for inner in ("state_dict", "model"):
        state = state[inner] if isinstance(state, dict) and isinstance(state.get(inner), dict) else state
    if not isinstance(state, dict) or not all(isinstance(one, torch.Tensor) for one in state.values()):
        raise ValueError(f"{path} has a {type(state).__name__}, not tensors by name: save layer.state_dict()")
    return state


def read_tokens(path):
    """What a head is examined on, from an npz: ``tokens``, ``labels``, ``readout``, and ``query`` and ``mask``.

    As :func:`lib.layers.head_problem` takes them.

    Returns
    -------
    dict of ndarray

    Raises
    ------
    ValueError
        If there is no such file, it is cut or has objects, or a name is missing or unknown.
    """
    found = _arrays(_there(path))
    if missing := [name for name in NEEDED if name not in found]:
        raise ValueError(f"{path} has no {missing[0]}, but {_listed(found)}: give {', '.join(NEEDED)}")
    if unknown := [name for name in found if name not in NEEDED + OPTIONAL]:
        raise ValueError(f"{path} has {unknown[0]}, which is not known: give {', '.join(NEEDED + OPTIONAL)}")
    return found


def layer_prefixes(state):
    """What stands before the names of each attention layer in a state dict, in the order of their numbers.

    Raises
    ------
    ValueError
        If no layer of a known convention is there; the names that come nearest are listed.

    Examples
    --------
    >>> state = {f"h.{k}.attn.c_{part}.weight": torch.ones(1) for k in (10, 2) for part in ("attn", "proj")}
    >>> layer_prefixes(state)
    ['h.2.', 'h.10.']
    """
    found = {}
    for parts in LAYOUTS.values():
        first, *others = [name for part, name in parts.items() if not part.endswith("bias")]
        for name in state:
            if name.endswith(first):
                before = name.removesuffix(first)
                if (not before or before[-1] == ".") and all(before + other in state for other in others):
                    found[before] = [int(word) for word in re.findall(r"\d+", before)], before
    if not found:
        wanted = [parts.get("query", parts.get("qkv")) for parts in LAYOUTS.values()]
        near = {one: None for name in wanted for one in difflib.get_close_matches(name, list(state), 2, 0.3)}
        raise ValueError(
            f"no layer of a known convention is there, the nearest names are {_listed(near or state)}: see"
            " lib.weights.state_weights for names of your own"
        )
    return sorted(found, key=found.get)


def file_problem(path, tokens, layer=0, head=0, heads=0, causal=False):
    """One head of a layer in a file as a problem, on tokens in an npz: :func:`lib.layers.head_problem` from files.

    Parameters
    ----------
    path : path
        Of :func:`read_state`.
    tokens : path
        Of :func:`read_tokens`.
    layer, head : int
        From 0.
    heads : int
        That the layer has; when 0, as ``config.json`` beside the file says.
    causal : bool
        No token after the one that asks may be seen.

    Returns
    -------
    lib.layers.Head

    Raises
    ------
    ValueError
        As :func:`read_state`, :func:`read_tokens` and :func:`lib.layers.head_problem`, and if there is no such layer.
    """
    state, data = read_state(path), read_tokens(tokens)
    prefixes = layer_prefixes(state)
    if checks.whole("layer", layer, 0) >= len(prefixes):
        raise ValueError(f"layer is {layer}: {path} has {len(prefixes)}, {_listed(prefixes)}")
    heads, groups = (heads, None) if heads else _heads_beside(path)
    weights = state_weights(state, heads, prefixes[layer], groups=groups)
    query = data.pop("query", np.array(0))
    return head_problem(weights, head=head, query=torch.from_numpy(query), causal=causal, **data)


def _heads_beside(path):
    """Heads, and groups or None, as the file of settings beside a file of weights says."""
    try:
        settings = json.loads(Path(path).with_name("config.json").read_text("utf-8"))
        heads = next(settings[name] for name in HEADS if name in settings)
    except (OSError, ValueError, TypeError, StopIteration):
        raise ValueError(f"heads is 0, and no config.json beside {path} says how many: give heads") from None
    return heads, settings.get("num_key_value_heads")


def _there(path):
    path = Path(path)
    if not path.is_file():
        raise ValueError(f"{path} is no file here: give its path from {Path.cwd().name}/")
    return path


def _arrays(path):
    """Arrays of an npz by name; ValueError where it is none, is cut, or has objects."""
    try:
        with np.load(path, allow_pickle=False) as file:
            return {name: file[name] for name in file.files}
    except (zipfile.BadZipFile, EOFError, OSError, KeyError, AttributeError):
        raise ValueError(f"{path} is cut, or no npz: save it again by numpy.savez") from None
    except ValueError as error:
        if "pickle" not in str(error).lower():
            raise ValueError(f"{path} cannot be read ({error}): save it again by numpy.savez") from None
        raise ValueError(f"{path} has objects, not numbers, which are not executed: save arrays of numbers") from None


def _named(error):
    """What a pickle asked for, in few words."""
    asked = re.search(r"GLOBAL\s+(\S+)", str(error))
    return asked[1].rstrip(",.:") if asked else type(error).__name__


def _listed(names, most=6):
    names = list(names)
    return (", ".join(names[:most]) or "none") + (f" and {len(names) - most} more" if len(names) > most else "")
