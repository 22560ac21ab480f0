"""Layers and tokens from files: what was saved comes back, what is not numbers is refused and never executed."""

import io
import json
import os
import pickle
import zipfile

import numpy as np
import pytest
import torch
from problems import refuses, seeded
from safetensors.torch import save_file
from torch import nn

from heads import (
    file_problem,
    files,
    head_problem,
    layer_weights,
    read_state,
    read_tokens,
    state_weights,
)

N, T, D = 4, 5, 8


def encoder():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 12, batch_first=True), 2).eval()


def write_tokens(path, **changes):
    data = {
        "tokens": torch.randn(N, T, D, generator=seeded(0)).numpy(),
        "labels": np.array([1.0, -1, 1, -1]),
        "readout": torch.randn(D, generator=seeded(1)).numpy(),
    } | changes
    np.savez(path, **{name: one for name, one in data.items() if one is not None})
    return path


@pytest.fixture
def tokens(tmp_path):
    return write_tokens(tmp_path / "mine.npz")


def save(layer, path):
    """The state dict of a layer in the format that the file's ending says."""
    state = {name: one.detach() for name, one in layer.state_dict().items()}
    if path.suffix == ".safetensors":
        save_file(state, path)
    elif path.suffix == ".npz":
        np.savez(path, **{name: one.numpy() for name, one in state.items()})
    else:
        torch.save(state, path)
    return path


@pytest.mark.parametrize("name", ["mine.safetensors", "mine.npz.npz", "mine.pt"])
def test_a_layer_from_a_file_is_the_layer(tmp_path, tokens, name):
    layer = encoder()
    path = save(layer, tmp_path / name)
    problem, theta, scores = file_problem(path, tokens, layer=1, head=1, heads=2)
    data = read_tokens(tokens)
    own = head_problem(layer_weights(layer.layers[1]), data["tokens"], data["labels"], data["readout"], head=1)
    assert torch.equal(theta, own.theta)
    assert torch.equal(problem.scores, own.problem.scores)
    assert scores == "exact"


@pytest.mark.parametrize("inner", ["state_dict", "model_state_dict", "model"])
def test_a_checkpoint_has_the_state_dict_inside(tmp_path, inner):
    layer = nn.MultiheadAttention(D, 2)
    torch.save({inner: layer.state_dict(), "epoch": 3}, tmp_path / "x.pt")
    found = state_weights(read_state(tmp_path / "x.pt"), 2)
    assert torch.equal(found.query, layer_weights(layer).query)


def test_place_and_mask_come_with_the_tokens(tmp_path):
    mask = np.ones((N, T), dtype=bool)
    mask[1, 3:] = False
    tokens = write_tokens(tmp_path / "mine.npz", query=np.array([1, 2, 3, 4]), mask=mask)
    path = save(encoder(), tmp_path / "x.pt")
    problem = file_problem(path, tokens, heads=2).problem
    assert torch.equal(problem.mask, torch.from_numpy(mask))
    with_place = read_tokens(tokens)["tokens"][range(N), [1, 2, 3, 4]]
    np.testing.assert_array_equal(problem.queries.numpy(), with_place)


class Executed:
    """A pickle of it makes a folder when it is executed."""

    def __init__(self, folder):
        self.folder = folder

    def __reduce__(self):
        return os.mkdir, (self.folder,)


def test_a_pickle_is_not_executed(tmp_path):
    made = str(tmp_path / "executed")
    torch.save({"weight": Executed(made)}, tmp_path / "by-torch.pt")
    (tmp_path / "plain.pt").write_bytes(pickle.dumps(Executed(made)))
    np.savez(tmp_path / "objects.npz", tokens=np.array([Executed(made)], dtype=object))
    for name in ("by-torch.pt", "plain.pt", "objects.npz"):
        with pytest.raises(ValueError, match="not executed"):
            read_state(tmp_path / name)
    with pytest.raises(ValueError, match="has objects, not numbers, which are not executed"):
        read_tokens(tmp_path / "objects.npz")
    assert not os.path.exists(made)
    pickle.loads(pickle.dumps(Executed(made)))  # the trap does spring where it is executed
    assert os.path.exists(made)


@pytest.mark.parametrize("name", ["x.safetensors", "x.pt", "x.npz"])
@pytest.mark.parametrize("share", [0.0, 0.002, 0.3, 0.9, 0.999])
def test_a_cut_file_is_refused_in_a_sentence(tmp_path, name, share):
    path = save(encoder(), tmp_path / name)
    whole = path.read_bytes()
    path.write_bytes(whole[: int(share * len(whole))])
    with pytest.raises(ValueError, match="is cut") as refused:
        read_state(path)
    assert "\n" not in str(refused.value)


REFUSED = {
    "no file": (lambda f: f / "none.pt", {}, {}, "none.pt is no file here: give its path"),
    "a layer that is not there": (None, {}, {"layer": 2}, "layer is 2, prefix '': "),
    "no heads": (None, {}, {"heads": 0}, "heads is 0, and no config.json beside"),
    "heads that do not divide": (None, {}, {"heads": 3}, "3 heads"),
    "a name that is missing": (None, {"readout": None}, {}, "has no readout, but tokens, labels: give tokens, labels"),
    "a name too many": (None, {"label": np.ones(N)}, {}, "has label, which is not known: give tokens, labels"),
    "tokens of another shape": (None, {"tokens": np.ones((T, D))}, {}, "tokens has shape (5, 8)"),
    "no path": (lambda f: None, {}, {}, "None is no file here: give its path"),
    "a path of bytes": (lambda f: b"mine.safetensors", {}, {}, "b'mine.safetensors' is no file here: give its path"),
    "a stack that is not there": (None, {}, {"prefix": "encoder."}, "layer is 0, prefix 'encoder.': "),
    "another attention": (None, {"attention": np.eye(N, T)}, {}, "attention on input 1 differs from what is computed"),
    "attention of all heads": (None, {"attention": np.ones((N, 2, T, T))}, {}, "attention has shape (4, 2, 5, 5)"),
    "tokens of text": (None, {"tokens": np.full((N, T, D), "x")}, {}, "tokens has the type <U1, not numbers"),
    "structured tokens": (None, {"tokens": np.zeros(N, "f4,i4")}, {}, "not numbers of at most 64 bits"),
    "longdouble": (None, {"tokens": np.ones((N, T, D), np.longdouble)}, {}, "not numbers of at most 64 bits"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_bad_input_is_refused_in_a_sentence(tmp_path, case):
    other, data, options, sentence = REFUSED[case]
    path = other(tmp_path) if other else save(encoder(), tmp_path / "mine.safetensors")
    tokens = write_tokens(tmp_path / "mine.npz", **data)
    refuses(lambda: file_problem(path, tokens, **{"heads": 2} | options), sentence)


def test_weights_that_are_not_numbers_are_named(tmp_path, tokens):
    layer = encoder()
    layer.layers[0].self_attn.in_proj_weight.data[1, 2] = torch.nan
    with pytest.raises(ValueError, match=r"layers.0.self_attn.in_proj_weight has the entry nan at index \(1, 2\)"):
        file_problem(save(layer, tmp_path / "x.pt"), tokens, heads=2)


def test_names_of_no_convention_are_listed(tmp_path, tokens):
    save_file({"l.0.attention.self.querry.weight": torch.ones(2, 2)}, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match=r"as in_proj_weight, but l.0.attention.self.querry.weight"):
        file_problem(tmp_path / "x.safetensors", tokens, heads=2)


def test_numbers_of_another_machine_are_read(tmp_path, tokens):
    path, data = save(encoder(), tmp_path / "x.pt"), read_tokens(tokens)
    turned = write_tokens(tmp_path / "turned.npz", tokens=data["tokens"].numpy().astype(">f8"))
    assert torch.equal(file_problem(path, turned, heads=2).problem.keys, data["tokens"].double())


def header(text, content=24):
    """A file of safetensors with a header as it is given, and so many bytes."""
    text = text if isinstance(text, str) else json.dumps(text)
    return len(text).to_bytes(8, "little") + text.encode() + bytes(content)


def entry(**changes):
    return {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]} | changes


def archive(array, spoil=lambda whole: whole):
    """A compressed npz, of which something becomes."""
    np.savez_compressed(file := io.BytesIO(), a=array)
    return spoil(file.getvalue())


def twice():
    """An npz that has two arrays of one name."""
    np.savez(file := io.BytesIO(), a=np.ones(2))
    with zipfile.ZipFile(file, "a") as members:
        members.writestr("a", members.read("a.npy"))
    return file.getvalue()


def claims(whole):
    """The directory of a zip says that its member has 4 GB."""
    at = whole.index(b"PK\x01\x02") + 24
    return whole[:at] + b"\xf0\xff\xff\xff" + whole[at + 4 :]


def state(saved):
    torch.save(saved, file := io.BytesIO())
    return file.getvalue()


STATE = {"w": torch.ones(2)}
LIES, NO_STATE = "is cut, no safetensors, or of a type", "not tensors by name: save a state_dict()"
SPOILT = {  # ending, bytes, and what is said
    "another type": ("safetensors", header({"a": entry(dtype="C128")}), LIES),
    "a type that torch does not have": ("safetensors", header({"a": entry(dtype="F6_E2M3", shape=[32])}), LIES),
    "a list for a header": ("safetensors", header([entry()]), LIES),
    "a header longer than the file": ("safetensors", (2**62).to_bytes(8, "little"), LIES),
    "overlap": ("safetensors", header({"a": entry(), "b": entry(data_offsets=[12, 36])}, 36), LIES),
    "a broken stream": ("npz", archive(np.arange(1000.0), lambda x: x[:60] + b"\xff" * 40 + x[100:]), "is cut, or no"),
    "a bare array": ("npz", b"\x93NUMPY\x01\x00", "is cut, or no npz"),
    "a bomb": ("npz", archive(np.zeros(2**18)), "bytes that unpack to 209"),
    "a size that lies": ("npz", archive(np.ones(9), claims), "bytes that unpack to 4294967280"),
    "two arrays of one name": ("npz", twice(), "a name stands twice"),
    "a list": ("pt", state([1, 2]), f"has a list, {NO_STATE}"),
    "a number for a name": ("pt", state({0: torch.ones(2)}), f"has the parts 0, {NO_STATE}"),
    "two models": ("pt", state({"a": STATE, "b": STATE}), f"has the parts a, b, {NO_STATE}"),
}


@pytest.mark.parametrize("case", SPOILT)
def test_a_file_that_cannot_be_read_is_refused(tmp_path, monkeypatch, case):
    ending, content, sentence = SPOILT[case]
    monkeypatch.setattr(files, "SMALL", 2**20)
    path = tmp_path / f"x.{ending}"
    path.write_bytes(content)
    refuses(lambda: read_state(path), sentence)


def test_attention_of_all_heads_is_that_of_the_one(tmp_path):
    path, layer = save(encoder(), tmp_path / "x.pt"), encoder().layers[0].self_attn
    x = torch.from_numpy(np.load(write_tokens(tmp_path / "x.npz"))["tokens"])
    seen = layer(x, x, x, average_attn_weights=False)[1][:, :, 0].detach().numpy()
    both = write_tokens(tmp_path / "both.npz", attention=seen, texts=np.full((N, T), "a word"))
    assert file_problem(path, both, head=1, heads=2).scores == "exact"
    other = write_tokens(tmp_path / "other.npz", attention=seen[:, ::-1])
    refuses(lambda: file_problem(path, other, head=1, heads=2), "differs from what is computed")
