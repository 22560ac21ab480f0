"""Layers and tokens from files: what was saved comes back, what is not numbers is refused and never executed."""

import json
import os
import pickle

import numpy as np
import pytest
import torch
from problems import refuses, seeded
from torch import nn

from lib.files import file_problem, layer_prefixes, read_state, read_tokens
from lib.layers import layer_problem
from lib.weights import layer_weights, state_weights

N, T, D = 4, 5, 8


def encoder():
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return nn.TransformerEncoder(nn.TransformerEncoderLayer(D, 2, 12, batch_first=True), 2).eval()


def write_safetensors(path, tensors, **changes):
    """As the format says: length of the header, header in JSON, bytes; ``changes`` are of each entry."""
    names = {torch.float32: "F32", torch.float64: "F64", torch.bfloat16: "BF16", torch.float16: "F16"}
    entries, content = {"__metadata__": {"format": "pt"}}, b""
    for name, one in tensors.items():
        raw = one.contiguous().view(torch.uint8).numpy().tobytes()
        offsets = [len(content), len(content) + len(raw)]
        entries[name] = {"dtype": names[one.dtype], "shape": list(one.shape), "data_offsets": offsets} | changes
        content += raw
    header = json.dumps(entries).encode()
    path.write_bytes(len(header).to_bytes(8, "little") + header + content)


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
        write_safetensors(path, state)
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
    own = layer_problem(layer.layers[1].self_attn, data["tokens"], data["labels"], data["readout"], head=1)
    assert torch.equal(theta, own.theta)
    assert torch.equal(problem.scores, own.problem.scores)
    assert scores == "exact"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
def test_other_floats_of_safetensors(tmp_path, dtype):
    given = {"a": torch.randn(3, 2, generator=seeded(0)).to(dtype), "empty": torch.empty(0, 4, dtype=dtype)}
    write_safetensors(tmp_path / "x.safetensors", given)
    state = read_state(tmp_path / "x.safetensors")
    assert list(state) == list(given)
    assert all(torch.equal(state[name], one) and state[name].dtype == dtype for name, one in given.items())


def test_safetensors_is_read_as_its_own_library_writes_it(tmp_path):
    torch_files = pytest.importorskip("safetensors.torch")
    state = {name: one.detach() for name, one in encoder().state_dict().items()}
    torch_files.save_file(state, tmp_path / "x.safetensors", metadata={"format": "pt"})
    found = read_state(tmp_path / "x.safetensors")
    assert found.keys() == state.keys()
    assert all(torch.equal(found[name], one) for name, one in state.items())


@pytest.mark.parametrize("inner", ["state_dict", "model"])
def test_a_checkpoint_has_the_state_dict_inside(tmp_path, inner):
    layer = nn.MultiheadAttention(D, 2)
    torch.save({inner: layer.state_dict(), "epoch": 3}, tmp_path / "x.pt")
    found = state_weights(read_state(tmp_path / "x.pt"), 2)
    assert torch.equal(found.query, layer_weights(layer).query)


def test_heads_stand_in_the_settings_beside_the_file(tmp_path, tokens):
    path = save(encoder(), tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text('{"num_attention_heads": 4}')
    assert torch.equal(file_problem(path, tokens, head=3).theta, file_problem(path, tokens, head=3, heads=4).theta)


def test_groups_stand_there_too(tmp_path, tokens):
    shapes = {"q": (8, D), "k": (4, D), "v": (4, D), "o": (D, 8)}
    state = {f"l.0.self_attn.{name}_proj.weight": torch.ones(*shape) for name, shape in shapes.items()}
    write_safetensors(tmp_path / "model.safetensors", state)
    (tmp_path / "config.json").write_text('{"num_attention_heads": 4, "num_key_value_heads": 2}')
    assert file_problem(tmp_path / "model.safetensors", tokens).theta.shape == (D * D,)


def test_place_and_mask_come_with_the_tokens(tmp_path):
    mask = np.ones((N, T), dtype=bool)
    mask[1, 3:] = False
    tokens = write_tokens(tmp_path / "mine.npz", query=np.array([1, 2, 3, 4]), mask=mask)
    path = save(encoder(), tmp_path / "x.pt")
    problem = file_problem(path, tokens, heads=2).problem
    assert torch.equal(problem.mask, torch.from_numpy(mask))
    with_place = read_tokens(tokens)["tokens"][range(N), [1, 2, 3, 4]]
    np.testing.assert_array_equal(problem.queries.numpy(), with_place)


def test_layers_are_counted_by_their_numbers():
    state = {f"h.{k}.attn.c_{part}.weight": 0 for k in (10, 2, 0) for part in ("attn", "proj")}
    assert layer_prefixes(state) == ["h.0.", "h.2.", "h.10."]


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
    "a layer that is not there": (None, {}, {"layer": 2}, "layer is 2: "),
    "no heads": (None, {}, {"heads": 0}, "heads is 0, and no config.json beside"),
    "heads that do not divide": (None, {}, {"heads": 3}, "3 heads"),
    "a name that is missing": (None, {"readout": None}, {}, "has no readout, but tokens, labels: give tokens, labels"),
    "a name too many": (None, {"label": np.ones(N)}, {}, "has label, which is not known: give tokens, labels"),
    "tokens of another width": (None, {"tokens": np.ones((N, T, 3))}, {}, "tokens have 3 entries, the layer takes 8"),
    "tokens of another shape": (None, {"tokens": np.ones((T, D))}, {}, "tokens has shape (5, 8)"),
    "three classes": (None, {"labels": np.arange(4) % 3}, {}, "labels have 3 classes: take one against the rest"),
    "tokens that are not numbers": (None, {"tokens": np.full((N, T, D), np.nan)}, {}, "tokens has the entry nan"),
    "a mask that leaves one token": (
        None, {"mask": np.eye(N, T, dtype=bool)}, {}, "mask leaves an input 1 of 5 tokens",
    ),
    "a readout of another width": (None, {"readout": np.ones(3)}, {}, "readout has shape (3,): give 8 numbers"),
    "a place that is none": (None, {"query": np.array(1.5)}, {}, "query is"),
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
    write_safetensors(tmp_path / "x.safetensors", {"l.0.attention.self.querry.weight": torch.ones(2, 2)})
    with pytest.raises(ValueError, match=r"nearest names are l.0.attention.self.querry.weight"):
        file_problem(tmp_path / "x.safetensors", tokens, heads=2)


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"dtype": "C64"}, "a has the type C64: save it as one of"),
        ({"shape": [3, 3]}, r"a has shape \(3, 3\) and 48 bytes"),
        ({"data_offsets": [0]}, "has a header that is not that of safetensors"),
    ],
)
def test_a_header_that_lies_is_refused(tmp_path, changes, sentence):
    write_safetensors(tmp_path / "x.safetensors", {"a": torch.ones(2, 3)}, **changes)
    with pytest.raises(ValueError, match=sentence):
        read_state(tmp_path / "x.safetensors")["a"]


@pytest.mark.parametrize("saved", [[1, 2], {"epoch": 3}, torch.ones(2)])
def test_what_is_no_state_dict_is_refused(tmp_path, saved):
    torch.save(saved, tmp_path / "x.pt")
    with pytest.raises(ValueError, match=r"not tensors by name: save layer.state_dict\(\)"):
        read_state(tmp_path / "x.pt")
