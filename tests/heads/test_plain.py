"""Reports on queries and keys that were recorded elsewhere."""

import numpy as np
import small
import torch


def test_arrays_of_queries_and_keys(tmp_path):
    query, key = torch.randn(4, 4, 6, 8), torch.randn(4, 2, 6, 8)
    shares = (query @ key.repeat_interleave(2, 1).mT / 8**0.5).masked_fill(~torch.ones(6, 6).tril().bool(), -torch.inf)
    arrays = {"query.0": query, "key.0": key, "mask.0": torch.ones(1, 1, 6, 6).tril().bool()}
    np.savez(
        tmp_path / "x.npz", **{name: x.numpy() for name, x in arrays.items()}, **{"attention.0": shares.softmax(-1)}
    )
    told, _ = small.report("arrays", data=tmp_path / "x.npz", out=tmp_path / "r.html")
    assert told["heads"][3]["selects"][:5] == shares[0, 3, 1:].argmax(-1).tolist()
    assert told["heads"][0]["flip"]["query_matrix"] is None
    assert "run alone" not in " ".join(told["says"])  # nothing was run


def test_bits_that_cannot_be_forecast_are_said_to_be_missing(tmp_path):
    query = torch.randn(4, 2, 6, 8)
    np.savez(tmp_path / "x.npz", **{"query.0": query, "key.0": query.roll(1, 0)})
    for bits, missing in ((["--bits", "4"], True), ([], False)):
        told, _ = small.report("arrays", *bits, data=tmp_path / "x.npz", out=tmp_path / "r.html")
        assert ("No flips by bits are forecast in layer 0" in " ".join(told["says"])) is missing


def test_what_stands_at_padded_places_is_not_read(tmp_path):
    query, key = torch.randn(3, 2, 5, 4), torch.randn(3, 2, 5, 4)
    mask = torch.arange(5) < torch.tensor([5, 3, 4])[:, None]
    found = []
    for filler in (0.0, torch.nan):
        padded = [x.masked_fill(~mask[:, None, :, None], filler) for x in (query, key)]
        np.savez(tmp_path / "x.npz", **dict(zip(("query.0", "key.0", "mask.0"), (*padded, mask), strict=True)))
        found.append(small.report("arrays", data=tmp_path / "x.npz", out=tmp_path / "r.html")[0]["heads"])
    assert found[0] == found[1]
    assert found[0][0]["choices"] == 5 + 3 + 4


def test_attention_that_hides_tokens_which_no_mask_hides_is_refused(tmp_path, capsys):
    query, key = torch.randn(3, 2, 5, 4), torch.randn(3, 2, 5, 4)
    causal = (query @ key.mT / 2).masked_fill(~torch.ones(5, 5).tril().bool(), -torch.inf).softmax(-1)
    np.savez(tmp_path / "x.npz", **{"query.0": query, "key.0": key, "attention.0": causal})
    said = small.refused(capsys, "report", "arrays", tmp_path / "x.npz", "--out", tmp_path / "r.html")
    assert "2 of 2 heads, whose attention does not follow from queries and keys" in said


def test_layers_come_by_number(tmp_path):
    layers = {k: torch.randn(2, 1, 3, 4) for k in (10, 2, 0)}
    np.savez(tmp_path / "x.npz", **{f"{side}.{k}": x for k, x in layers.items() for side in ("query", "key")})
    told, _ = small.report("arrays", data=tmp_path / "x.npz", out=tmp_path / "r.html")
    assert [head["layer"] for head in told["heads"]] == ["layer 0", "layer 2", "layer 10"]
