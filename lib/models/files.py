"""Read layers and tokens from safetensors, torch and npz files. Nothing in a file is executed.

A state dict that was pickled is read by torch's own list of harmless types; objects in an npz are refused.
"""

import json
import math
import os
import pickle
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import torch

from .. import checks
from .conventions import HEADS, UNSCALED, changed_by
from .layers import head_problem
from .weights import layer_names, listed, state_weights, stem

TYPES = {  # of safetensors
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16, "I64": torch.int64,
    "I32": torch.int32, "I16": torch.int16, "I8": torch.int8, "U8": torch.uint8, "BOOL": torch.bool,
    "F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip
NEEDED, OPTIONAL = ("tokens", "labels", "readout"), ("query", "mask", "queries", "attention", "texts")
SMALL, RATIO = 2**28, 100  # bytes that an npz may unpack to in any case, and beyond them how many times its size
RECORD = "which changes its logits, or what it sees: record logits, and use lib.models.recorded_problem"


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
                entries = json.loads(file.read(length), object_pairs_hook=_once)
                entries.pop("__metadata__", None)
                self.entries = {name: _entry(**entry) for name, entry in entries.items()}
            except (ValueError, TypeError, AttributeError, RecursionError):
                raise ValueError(f"{path} has a header that is not that of safetensors: save it again") from None
        self.start, places = 8 + length, sorted(entry[2:] for entry in self.entries.values())
        begins, ends = [begin for begin, _ in places], [0, *(end for _, end in places)]
        if self.start + ends[-1] > size:
            needed = self.start + ends[-1]
            raise ValueError(f"{path} has {size} bytes, its tensors need {needed}: it is cut, copy it again")
        if begins != ends[:-1] or self.start + ends[-1] < size:
            raise ValueError(f"{path} has tensors that overlap, or bytes that are no tensor's: save it again")

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

    def __contains__(self, name):
        return name in self.entries

    def __iter__(self):
        return iter(self.entries)

    def __len__(self):
        return len(self.entries)


class Arrays(Mapping):
    """Arrays of an npz by name, as tensors, each read when it is asked for; words as lists of text.

    Raises
    ------
    ValueError
        If it is none, is cut, or has objects.
    """

    def __init__(self, path):
        self.path = path
        with self._open() as file:
            self.names = file.files

    @contextmanager
    def _open(self):
        path = self.path
        try:
            with zipfile.ZipFile(path) as archive:
                _check_members(path, archive.infolist())
            with np.load(path, allow_pickle=False) as file:
                yield file
        except (
            zipfile.BadZipFile, zlib.error, EOFError, OSError, LookupError, AttributeError, TypeError, MemoryError,
            RuntimeError, struct.error,
        ):  # fmt: skip
            raise ValueError(f"{path} is cut, or no npz: save it again by numpy.savez") from None
        except ValueError as error:
            if "pickle" in str(error).lower():
                said = "has objects, not numbers, which are not executed: save arrays of numbers"
            else:
                said = f"cannot be read ({' '.join(str(error).split())[:200]}): save it again by numpy.savez"
            raise ValueError(f"{path} {said}") from None

    def __getitem__(self, name):
        if name not in self.names:
            raise KeyError(name)
        with self._open() as file:
            array = file[name]
            if name == "texts" and array.dtype.kind == "U":
                return array.tolist()
            if array.dtype.kind not in "biuf" or array.dtype.itemsize > 8:
                raise ValueError(f"{name} has the type {array.dtype}, not numbers of at most 64 bits")
            return torch.from_numpy(array.astype(array.dtype.newbyteorder("="), copy=False))

    def __contains__(self, name):
        return name in self.names

    def __iter__(self):
        return iter(self.names)

    def __len__(self):
        return len(self.names)


def read_state(path):
    """State dict of a file: safetensors, npz, or whatever else ``torch.save`` wrote of tensors alone.

    Parameters
    ----------
    path : path
        Ending in ``.safetensors`` or ``.npz``; another ending is taken for torch's. A checkpoint with the state dict
        under ``state_dict``, ``model_state_dict`` or ``model``, or with one alone, will do.

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
        return dict(Arrays(path))
    try:
        state = torch.load(path, map_location="cpu", weights_only=True)
    except (pickle.UnpicklingError, AttributeError, ImportError) as error:
        raise ValueError(
            f"{path} has more than tensors, which is not executed ({_named(error)}): save layer.state_dict()"
        ) from None
    except (RuntimeError, EOFError, OSError, ValueError, LookupError, TypeError, MemoryError, struct.error):
        raise ValueError(f"{path} is cut, or not by torch.save: copy or save it again") from None
    for inner in ("state_dict", "model_state_dict", "model"):
        state = state[inner] if isinstance(state, dict) and isinstance(state.get(inner), dict) else state
    inside = [one for one in (state.values() if isinstance(state, dict) else ()) if _is_state(one) and one]
    state = inside[0] if len(inside) == 1 else state
    if not _is_state(state):
        what = f"the parts {listed(map(str, state))}" if isinstance(state, dict) else f"a {type(state).__name__}"
        raise ValueError(f"{path} has {what}, not tensors by name: save layer.state_dict()")
    return state


def _is_state(value):
    """Whether it is a dict of tensors by name."""
    return isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(one, torch.Tensor) for name, one in value.items()
    )


def read_tokens(path):
    """What a head is examined on, from an npz: ``tokens``, ``labels`` and ``readout``, and what else there may be.

    As :func:`lib.models.head_problem` takes them: ``query`` and ``mask``, ``queries`` of cross-attention, and
    ``attention`` of the head (n, T), or of all heads (n, heads, T), with which it is compared; ``texts`` of the tokens.

    Returns
    -------
    dict of Tensor

    Raises
    ------
    ValueError
        If there is no such file, it is cut or has objects, or a name is missing or unknown.
    """
    found = dict(Arrays(_there(path)))
    if missing := [name for name in NEEDED if name not in found]:
        raise ValueError(f"{path} has no {missing[0]}, but {listed(found)}: give {', '.join(NEEDED)}")
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
    return list(layer_names(state))


def file_problem(path, tokens, layer=0, head=0, heads=0, causal=False, prefix=""):
    """One head of a layer in a file as a problem, on tokens in an npz: :func:`lib.models.head_problem` from files.

    What ``config.json`` beside the file, and the names of its tensors, say of the logits is heeded or refused: rotary
    and relative positions, norms of queries and keys, other scales, windows shorter than the inputs.

    Parameters
    ----------
    path : path
        Of :func:`read_state`.
    tokens : path
        Of :func:`read_tokens`, best with the model's own ``attention``, against which that of the head is checked.
    layer, head : int
        From 0.
    heads : int
        That the layer has; when 0, as ``config.json`` says.
    causal : bool
        No token after the one that asks may be seen.
    prefix : str
        With which the names of one of several stacks of layers begin, such as ``"decoder.layers.*.self_attn."``.

    Returns
    -------
    lib.models.Head

    Raises
    ------
    ValueError
        As :func:`read_state`, :func:`read_tokens` and :func:`lib.models.head_problem`, if there is no such layer or
        several stacks have one, and if its logits are others than those of products of queries and keys.

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
    prefixes = _stack(layer_prefixes(state), prefix, path)
    if checks.whole("layer", layer, 0) >= len(prefixes):
        raise ValueError(f"layer is {layer}: {path} has {len(prefixes)}, {listed(prefixes)}")
    start, length = prefixes[layer], data["tokens"].shape[1] if data["tokens"].ndim > 1 else 0
    if re.search(r"encoder_attn|multihead_attn|cross_?att", start) and "queries" not in data:
        raise ValueError(f"{start} is cross-attention, whose queries are no tokens of {tokens}: give queries there")
    check_logits(state, start, path, length, "attention" in data)
    weights = file_weights(state, start, path, heads)
    data.pop("texts", None)
    if "attention" in data and data["attention"].ndim == 3 and head < data["attention"].shape[1]:
        data["attention"] = data["attention"][:, head]
    return head_problem(weights, head=head, causal=causal, **data)


def check_logits(state, start, path, length, checked):
    """Raise ValueError if settings or names show that logits are others than those of products."""
    for name, value, _ in changed_by(_settings(path, start), length):
        raise ValueError(f"config.json has {name}: {checks.shown(value)}, {RECORD}")
    if start + "o_proj.weight" in state and not checked and not any("pos" in name for name in state):
        raise ValueError(
            f"{path} has layers named as those of Llama, and no positions, so that they are taken for rotary: record"
            " logits, and use lib.models.recorded_problem; or give attention, if they are not"
        )


def file_weights(state, start, path, heads=0, names=None):
    """Weights of a layer in a file, with heads, groups and scale as ``config.json`` beside it says."""
    settings = _settings(path, start)
    heads = _heads(settings, start, checks.whole("heads", heads, 0), path)
    scale = 1.0 if settings.get("model_type") in UNSCALED else None
    groups = settings.get("num_key_value_heads")
    return state_weights(state, heads, start, names, groups, scale)


def told_otherwise(path, start):
    """What settings beside a file say that makes logits others than those of products, "" where they say nothing."""
    return " and ".join({words: None for _, _, words in changed_by(_settings(path, start))})


def _stack(prefixes, wanted, path):
    """Those prefixes that begin as is wanted, with a number or * for one; ValueError unless they differ by it alone."""
    found = [one for one in prefixes if one.startswith(wanted) or stem(one).startswith(wanted)]
    if len(set(map(stem, found))) != 1:
        stacks = listed(dict.fromkeys(map(stem, prefixes)))
        raise ValueError(f"prefix is {wanted!r}: {path} has the stacks of layers {stacks}, give one of them")
    return found


def _settings(path, start):
    """Settings beside a file of weights, those of the named part if a model has several; {} where there are none."""
    beside = Path(path) / "config.json" if Path(path).is_dir() else Path(path).with_name("config.json")
    if not beside.is_file():
        return {}
    try:
        settings = json.loads(beside.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise ValueError(f"{beside} cannot be read as settings: mend it, or take it away and give heads")
    parts = {name.removesuffix("_config"): one for name, one in settings.items() if isinstance(one, dict)}
    return next((one for name, one in parts.items() if name in start), settings)


def _heads(settings, start, heads, path):
    """Heads as given, or as settings say; ValueError if neither does, or they differ."""
    of_part = "decoder_attention_heads" if "decoder" in start else "encoder_attention_heads"
    told = next((settings[name] for name in (*HEADS, of_part) if name in settings), heads)
    if not told:
        raise ValueError(f"heads is 0, and no config.json beside {path} says how many: give heads")
    if heads not in (0, told):
        raise ValueError(f"heads is {heads}, config.json beside {path} says {told}: leave heads out, or mend it")
    return told


def _once(pairs):
    """An object of JSON, in which no name stands twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)


def _entry(dtype, shape, data_offsets):
    """Type, shape, begin and end of a tensor of safetensors; ValueError or TypeError where they are none."""
    begin, end = data_offsets
    if not isinstance(dtype, str) or not isinstance(shape, list) or begin > end:
        raise ValueError("no tensor")
    if not all(type(one) is int and one >= 0 for one in (*shape, begin, end)):
        raise ValueError("no tensor")
    return dtype, tuple(shape), begin, end


def _there(path):
    if not isinstance(path, str | os.PathLike) or not Path(path).is_file():
        raise ValueError(f"{path} is no file here: give its path from {Path.cwd().name}/")
    return Path(path)


def _check_members(path, members):
    """Raise ValueError unless all may be unpacked."""
    size, total = path.stat().st_size, sum(member.file_size for member in members)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if total > min(memory, max(SMALL, RATIO * size)):
        raise ValueError(f"{size} bytes that unpack to {total}")
    if any(member.flag_bits & 1 or member.compress_type not in (0, 8) for member in members):
        raise ValueError("encrypted, or compressed in another way than numpy does")
    if len({member.filename.removesuffix(".npy") for member in members}) < len(members):
        raise ValueError("one name for several arrays")


def _named(error):
    """What a pickle asked for, in few words."""
    asked = re.search(r"GLOBAL\s+(\S+)", str(error))
    return asked[1].rstrip(",.:") if asked else type(error).__name__
