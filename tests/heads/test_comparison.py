"""A model beside its changed version: which choices turned, and what the change of a head's matrices forecast."""

import json

import small
import torch

from heads import command


def written(folder):
    (folder / "texts.txt").write_text("word1 word2 word3 word4\nword5 word6\nword2 word2 word9\n")
    return folder / "texts.txt"


def test_comparing_says_which_choices_turned(tmp_path):
    text = written(tmp_path)
    _, folder = small.saved(tmp_path, "bert")

    def rounded(model):
        for parameter in model.encoder.parameters():
            parameter.data.mul_(8).round_().div_(8)

    def trained(model):
        model.train()(small.ids()).last_hidden_state[..., 0].sum().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()

    calls = {"same": lambda model: None, "rounded": rounded, "pruned": small.zero_head, "trained": trained}
    turned = {}
    for name, change in calls.items():
        (tmp_path / name).mkdir()
        _, other = small.saved(tmp_path / name, "bert", change=change)
        out = tmp_path / f"{name}.json"
        assert command.main(["compare", str(folder), str(other), str(text), "--out", str(out)]) == 0
        turned[name] = json.loads(out.read_text())
    assert all(row["turned"] == 0 and row["forecast"] < 1e-9 for row in turned["same"])
    assert turned["rounded"][0]["turned"] > 0
    assert 0 < sum(row["turned"] for row in turned["trained"]) < len(turned["trained"])
    assert turned["rounded"][0]["forecast"] > 0
    assert [row["turned"] > 0 for row in turned["pruned"]][:4] == [False, True, False, False]
    first = turned["rounded"][0]["first"][0]
    assert first["selects"] != first["then"]


def test_other_heads_are_not_compared(tmp_path, capsys):
    text = written(tmp_path)
    for kind in ("bert", "llama"):
        (tmp_path / kind).mkdir()
        small.saved(tmp_path / kind, kind)
    said = small.refused(capsys, "compare", tmp_path / "bert/model", tmp_path / "llama/model", text)
    assert "has other heads than" in said
