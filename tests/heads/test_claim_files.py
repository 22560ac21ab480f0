"""Files and words of a command line that are no problem of one's own: each gets one sentence."""

import math
import re

import numpy as np
import pytest
from problems import refuses
from test_claims import ONE, SHARED, written

from heads import command
from heads.claim_files import read_claim


@pytest.mark.parametrize(
    ("arrays", "words", "sentence"),
    [
        ({"keys": ONE["keys"]}, [], "has no scores, but keys: give keys .* and scores"),
        ({"scores": ONE["scores"]}, [], "has no keys, but scores"),
        ({"keys": ONE["keys"], "labels": [1]}, [], "has no head, but keys, labels"),
        (ONE | {"scores": [1.0, 0]}, [], r"scores of .* have shape \(2,\): give \(n, T\)"),
        (ONE | {"values": [1]}, [], "has values, which is not known"),
        (ONE | {"labels": [1], "head": [1.0, 0]}, [], "has both scores and head"),
        (ONE | {"scores": [[1.0, 0]]}, [], "one key and one score"),
        (ONE | {"keys": [[1.0, 0]]}, [], r"keys of .* have shape \(1, 2\)"),
        (ONE | {"keys": [[[1.0, math.nan], [0, 0], [0, 1]]]}, [], "finite"),
        (ONE | {"keys": [[[1.0, 0.5]] * 3]}, [], "are the same for all tokens of an input, so nothing is chosen"),
        (ONE | {"start": [1.0, 0, 0]}, [], r"start of .* has shape \(3,\): without queries give \(d,\) = \(2,\)"),
        (SHARED | {"start": [[1.0, 0]]}, [], r"start of .* has shape \(1, 2\): with queries give \(d, e\) = \(2, 1\)"),
        (ONE | {"start": [1.0, math.nan]}, [], "start has the entry nan"),
        ({"keys": ONE["keys"], "labels": [0], "head": [1.0, 0]}, [], r"must be \+1 or -1"),
        (ONE, ["--optimizer", "torch.optim.Nothing"], r"torch.optim has no Nothing: .* give mine\.Nothing"),
        (ONE, ["--optimizer", "nowhere.Nothing"], "cannot be imported"),
        (ONE, ["--optimizer", "torch.optim.SGD", "lr=abc"], "lr=abc is no number"),
        (ONE, ["--optimizer", "torch.optim.Adam", "betas=abc"], "betas=abc is no number"),
        (ONE, ["--optimizer", "sign", "lr=-1"], "lr=-1 is no step size of sign"),
        (ONE, ["--optimizer", "torch.optim.SGD", "lr"], "is no parameter"),
        (ONE, ["--optimizer", "torch.optim.SGD", "lr=1e300", "--steps", "16"], "diverges"),
        (ONE, ["--optimizer", "spectral"], "give queries"),
        (ONE, ["--optimizer", "sign", "beta=1"], "has no parameter 'beta'"),
        (ONE, ["--optimizer", "sign", "lr=fast"], "lr=fast is no step size of sign"),
        (ONE, ["--optimizer", "sign", "--steps", "2"], "steps"),
        (ONE, ["--json", "nowhere/it.json"], "nowhere is no folder"),
    ],
)
def test_bad_input_gets_one_sentence(tmp_path, arrays, words, sentence, capsys):
    out = tmp_path / "check.html"
    assert command.main(["check", str(written(tmp_path, arrays)), "--out", str(out), *words]) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert re.search(sentence, said), said
    assert not out.exists()


def test_a_text_is_no_problem(tmp_path, capsys):
    (tmp_path / "notes.txt").write_text("keys")
    assert command.main(["check", str(tmp_path / "notes.txt")]) == 1
    assert "is no npz or safetensors: save keys (n, T, d)" in capsys.readouterr().err


def test_sizes_are_bounded_before_anything_is_made(tmp_path):
    np.savez(tmp_path / "x.npz", keys=np.ones((2, 2, 4096)), scores=np.eye(2), queries=np.ones((2, 4096)))
    refuses(lambda: read_claim(tmp_path / "x.npz"), "has 16,777,216 entries: give keys")
    for shape in ((2, 1, 3), (0, 2, 3), (2, 2, 0)):
        np.savez(tmp_path / "x.npz", keys=np.ones(shape), scores=np.ones(shape[:2]))
        refuses(lambda: read_claim(tmp_path / "x.npz"), f"have shape {shape}: give two tokens an input or more")
    np.savez(tmp_path / "x.npz", keys=np.eye(2)[None], scores=np.ones((1, 2)))
    refuses(lambda: read_claim(tmp_path / "x.npz"), "scores of input 0 of")
    np.savez(tmp_path / "x.npz", keys=np.eye(2)[None], scores=np.array([[1e300, 0]]))
    refuses(lambda: read_claim(tmp_path / "x.npz"), "reach 1e+300: divide them")


@pytest.mark.parametrize("size", [1e200, 1e-200])
def test_scales_are_normalised(tmp_path, size):
    keys, start = np.array([[[1.0, 0], [0, 1]]]), np.array([1.0, 2.0])
    np.savez(tmp_path / "x.npz", keys=size * keys, scores=np.array([[1.0, 0]]), start=start / size)
    claim = read_claim(tmp_path / "x.npz")
    assert claim.problem.keys.tolist() == keys.tolist()
    assert claim.start.tolist() == pytest.approx(start.tolist())
