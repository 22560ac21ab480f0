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
from .conventions import CAUSAL, CAUSAL_OTHERWISE, CROSS, HEADS, PLAIN, changed_by, scale_of
from .layers import head_problem
from .weights import layer_layouts, layer_pattern, state_weights

NEEDED, OPTIONAL = ("tokens", "labels", "readout"), ("query", "mask", "queries", "attention", "texts")
ARRAYS = (".npz", ".safetensors")
SMALL, RATIO = 2**28, 100  # an npz may unpack to so many bytes, or to so many times its size if that is more
RECORD = "give a report the model's attention too; or record logits, and use fit_problem"


def read_arrays(path):
    """Arrays of an npz or safetensors by name, words as lists of text; ValueError if the file is of neither kind."""
    path = _there(path)
    return _safetensors(path) if path.suffix == ".safetensors" else _npz(path)


def _safetensors(path):
    try:
        arrays = load_file(path)  # mapped: a tensor that nobody uses is not read
        with path.open("rb") as file:  # of two entries under one name the package takes the last
            json.loads(file.read(int.from_bytes(file.read(8), "little")), object_pairs_hook=_once)
        return arrays
    except Exception as error:
        raise ValueError(
            f"{path} is cut, no safetensors, or of a type that torch does not have ({error}): save it again"
        ) from None


def _once(pairs):
    """An object of JSON, in which no name stands twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError("a name stands twice")
    return dict(pairs)


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

    A checkpoint with the state dict under ``state_dict``, ``model_state_dict`` or ``model``, or with one alone, will
    do. ValueError if there is no such file, it is cut, or it holds other objects than tensors.

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
    inside = [part for part in (state.values() if isinstance(state, dict) else ()) if _is_state(part) and part]
    state = inside[0] if len(inside) == 1 else state
    if not _is_state(state):
        what = f"the parts {checks.join_names(state)}" if isinstance(state, dict) else f"a {type(state).__name__}"
        raise ValueError(f"{path} has {what}, not tensors by name: save a state_dict()")
    return state


def _is_state(value):
    """Whether it is a dict of tensors by name."""
    return isinstance(value, dict) and all(
        isinstance(name, str) and isinstance(tensor, torch.Tensor) for name, tensor in value.items()
    )


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


def layer_prefixes(state):
    """Prefix of the names of each attention layer in a state dict, in the order of their numbers.

    ValueError, with the names that come nearest, if no layer of a known convention is there.

    Examples
    --------
    >>> state = {f"h.{k}.attn.c_{part}.weight": torch.ones(1) for k in (10, 2) for part in ("attn", "proj")}
    >>> layer_prefixes(state)
    ['h.2.', 'h.10.']
    """
    return list(layer_layouts(state))


def file_problem(path, tokens, layer=0, head=0, heads=0, causal=False, prefix=""):
    """One head of a layer in a file as a problem, on tokens in an npz: :func:`heads.head_problem` from files.

    What ``config.json`` beside the file, and the names of its tensors, say of the logits is heeded or refused by
    ValueError: rotary and relative positions, norms of queries and keys, other scales, windows shorter than the inputs.

    Parameters
    ----------
    path, tokens : path
        Of :func:`read_state` and :func:`read_tokens`, best with the model's own ``attention``.
    layer, head : int
        From 0.
    heads : int
        That the layer has; when 0, as ``config.json`` says.
    causal : bool
        No token after the one that asks may be seen; so it is too where ``config.json`` names a family that hides them.
    prefix : str
        With which the names of one of several stacks of layers begin, such as ``"decoder.layers.*.self_attn."``.

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
    if checks.integer("layer", layer, 0) >= len(prefixes):
        raise ValueError(f"layer is {layer}: {path} has {len(prefixes)}, {checks.join_names(prefixes)}")
    start, length = prefixes[layer], data["tokens"].shape[1] if data["tokens"].ndim > 1 else 0
    if CROSS.search(start) and "queries" not in data:
        raise ValueError(f"{start} is cross-attention, whose queries are no tokens of {tokens}: give queries there")
    layout = layer_layouts(state)[start]
    if "attention" not in data:  # any other change of the logits would show in the attention
        check_logits(state, start, path, length, layout)
        causal = causal or hides_behind(path, start)
    weights = file_weights(state, start, path, heads)
    data.pop("texts", None)
    if "attention" in data and data["attention"].ndim == 3 and head < data["attention"].shape[1]:
        data["attention"] = data["attention"][:, head]
    return head_problem(weights, head=head, causal=causal, **data)


def check_logits(state, start, path, length, layout):
    """Raise ValueError unless names and settings say that the logits are plain products of queries and keys."""
    settings = _settings(path, start)
    for name, value, _ in changed_by(settings, length):
        raise ValueError(
            f"config.json has {name}: {checks.shown(value)}, which changes logits or what is seen: {RECORD}"
        )
    family = settings.get("model_type")
    if family is not None and family not in PLAIN:
        raise ValueError(f"config.json has model_type: {family!r}, whose logits are not known here: {RECORD}")
    if layout.config and family is None:
        raise ValueError(
            f"{path} has names that families with rotary or relative positions have too, and no config.json with"
            f" model_type beside it: give that; or {RECORD}"
        )


def hides_behind(path, start):
    """Whether the family that ``config.json`` names lets no token of a layer see one behind it."""
    settings = _settings(path, start)
    family = settings.get("model_type")
    decoder = bool(settings.get("is_decoder")) or "decoder" in start
    known = family in PLAIN or bool(settings.get("is_encoder_decoder"))
    return family in CAUSAL + CAUSAL_OTHERWISE or (known and decoder and not CROSS.search(start))


def count_heads(path, start):
    """Heads of a layer as ``config.json`` beside a file says, 0 where it does not."""
    settings = _settings(path, start)
    of_part = "decoder_attention_heads" if "decoder" in start else "encoder_attention_heads"
    return next((settings[name] for name in (*HEADS, of_part) if name in settings), 0)


def file_weights(state, start, path, heads=0, names=None):
    """Weights of a layer in a file, with heads and scale as ``config.json`` beside it says."""
    count = count_heads(path, start) or checks.integer("heads", heads, 0)
    if not count:
        raise ValueError(f"heads is 0, and no config.json beside {path} says how many: give heads, to a report --heads")
    if heads not in (0, count):
        raise ValueError(f"heads is {heads}, config.json beside {path} says {count}: leave heads out, or mend it")
    return state_weights(state, count, start, names, scale=scale_of(_settings(path, start).get("model_type")))


def config_modifiers(path, start):
    """What in the settings beside a file makes the logits others than those of one matrix; "" where nothing does."""
    return " and ".join({words: None for _, _, words in changed_by(_settings(path, start))})


def _stack(prefixes, wanted, path):
    """The prefixes of one stack, which begin as wanted, with * for numbers; ValueError unless only numbers differ."""
    layers = [name for name in prefixes if name.startswith(wanted) or layer_pattern(name).startswith(wanted)]
    if len(set(map(layer_pattern, layers))) != 1:
        stacks = checks.join_names(dict.fromkeys(map(layer_pattern, prefixes)))
        raise ValueError(f"prefix is {wanted!r}: {path} has the stacks of layers {stacks}, give one of them")
    return layers


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
    parts = {name.removesuffix("_config"): part for name, part in settings.items() if isinstance(part, dict)}
    return next((part for name, part in parts.items() if name in start), settings)


def _there(path):
    if not isinstance(path, str | os.PathLike) or not Path(path).is_file():
        raise ValueError(f"{path} is no file here: give its path from {Path.cwd().name}/")
    return Path(path)
