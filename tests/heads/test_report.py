"""Reports on tiny models: each number is the model's own, an input alone is the truth, bad data is said first."""

import numpy as np
import pytest
import small
import torch

from heads import report

TEXT = "word1 word2 word3 word4\nword5 word6\nword7 word8 word9 word10 word11 word12 word13\nword2 word2 word9\n"


@pytest.fixture
def text(tmp_path):
    (tmp_path / "texts.txt").write_text(TEXT)
    return tmp_path / "texts.txt"


def ids_of(line):
    return torch.tensor([[2, *(int(word.removeprefix("word")) + 5 for word in line.split()), 3]])


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("kind", ["bert", "gpt2", "gpt_neo", "biogpt", "llama", "opt", "gemma2", "gpt_oss", "qwen3"])
def test_choices_are_those_of_each_input_alone(tmp_path, text, kind, side):
    model, folder = small.saved(tmp_path, kind, side)
    told, _ = small.report(folder, data=text)
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        alone = [model(ids_of(line), output_attentions=True).attentions for line in TEXT.splitlines()]
    assert len(told["heads"]) == 8
    for head in told["heads"]:
        assert head["check"] == "recorded" or head["off"] < 1e-6  # GPT-Neo is outside the interface
        choices = zip(head["input"], head["place"], head["selects"], head["share"], strict=True)
        for i, place, selects, share in choices:
            own = alone[i][head["number"]][0, head["head"], place]
            assert own[selects] == pytest.approx(share, abs=1e-4)
            assert own[selects] >= own.max() - 1e-5
        # a first token of a causal model sees one token and does not choose
        count = sum(len(ids_of(line)[0]) - (kind != "bert") for line in TEXT.splitlines())
        assert head["choices"] == len(head["selects"]) == count


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama", "gpt_neox"])
def test_distances_have_matrices_and_bits(tmp_path, text, kind):
    _, folder = small.saved(tmp_path, kind)
    told, page = small.report(folder, "--bits", "2:5", data=text)
    for head in told["heads"]:
        assert all(value > 0 for value in head["flip"].values())
        bits = head["bits"]
        assert list(bits["forecast"]) == list(bits["counted"]) == ["2", "3", "4", "5"]
        assert all(0 <= share <= 1 for shares in (bits["forecast"], bits["counted"]) for share in shares.values())
        least, most = bits["fewest"] or 6, bits["most"] or 6
        assert least <= (bits["needed"] or 6) <= most
    told_counted = [
        sum(head["bits"][kind][b] for head in told["heads"] for b in "345") for kind in ("forecast", "counted")
    ]
    assert told_counted[0] == pytest.approx(told_counted[1], rel=0.3)
    assert "Bits" in page


def test_inputs_that_share_a_query_flip_together(tmp_path):
    """In layer 0 every input asks with the same [CLS] at the same place."""
    _, folder = small.saved(tmp_path, "bert")
    (tmp_path / "many.txt").write_text("\n".join(f"word{k} word{k + 1}" for k in range(20)))
    told, _ = small.report(folder, "--bits", "4", "--query", "first", data=tmp_path / "many.txt")
    assert told["heads"][0]["bits"]["queries"] == 1
    assert told["heads"][-1]["bits"]["queries"] == 20
    assert any("inputs share their queries (1 different ones of 20)" in line for line in told["findings"])


@pytest.mark.parametrize(("query", "places"), [("first", {0}), ("last", {5, 3, 8, 4}), ("2", {2}), ("word2", {1, 2})])
def test_the_query_can_be_chosen(tmp_path, text, query, places):
    _, folder = small.saved(tmp_path, "bert")
    told, _ = small.report(folder, "--query", query, data=text)
    assert set(told["heads"][0]["place"]) == places


def test_the_first_paragraph_judges_the_data(tmp_path):
    _, folder = small.saved(tmp_path, "bert")
    (tmp_path / "x.txt").write_text("word1 ouch word2 word3\nword1 aha word2 word3\n" + "word4 " * 30)
    told, page = small.report(folder, "--tokens", "12", data=tmp_path / "x.txt")
    says = " ".join(told["says"])
    assert "2 different texts have equal tokens" in says
    assert "12.5% of the words are unknown" in says or "11.1% of the words are unknown" in says
    assert "1 of 3 texts were cut" in says
    assert "padding" in says
    assert page.index("equal tokens") < page.index("Choices that are words")
    assert "cut" not in " ".join(small.report(folder, data=tmp_path / "x.txt")[0]["says"])


def test_an_ablated_head_is_dead_and_spoils_nothing(tmp_path, text):
    _, folder = small.saved(tmp_path, "bert", change=small.zero_head)
    told, page = small.report(folder, "--bits", "2:4", data=text)
    assert [head["head"] for head in told["heads"] if head["state"] == "dead"] == [1]
    assert "1 of 8 heads are dead: their logits are the same for all tokens (0.1)" in " ".join(told["says"])
    assert told["heads"][1]["flip"]["query"] is None
    assert "nan" not in page


def test_padding_with_a_mask_is_not_chosen(tmp_path):
    _, folder = small.saved(tmp_path, "bert")
    padded = small.ids()
    padded[1, 3:] = 0
    np.savez(tmp_path / "x.npz", input_ids=padded.numpy(), attention_mask=(padded > 0).long().numpy())
    assert small.report(folder, data=tmp_path / "x.npz")[0]["heads"][0]["choices"] == 7 * 3 + 3


def test_rows_that_are_padded_on_the_left_are_the_inputs_alone(tmp_path):
    model, folder = small.saved(tmp_path, "gpt2")
    padded = small.ids()
    padded[1, :3] = 0
    np.savez(tmp_path / "x.npz", input_ids=padded.numpy(), attention_mask=(padded > 0).long().numpy())
    head = small.report(folder, data=tmp_path / "x.npz")[0]["heads"][5]
    model.set_attn_implementation("eager")
    with torch.inference_mode():
        own = model(padded[1:2, 3:], output_attentions=True).attentions[1][0, 1].argmax(-1)
    found = [one for i, one in zip(head["input"], head["selects"], strict=True) if i == 1]
    assert found == own[1:].tolist()


MINE = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, x):
        q, k, v = (y.unflatten(-1, (2, 4)).transpose(1, 2) for y in (self.q(x), self.k(x), MIXED))
        return torch.nn.functional.scaled_dot_product_attention(q, k, v)

def build():
    return Model().float()
"""


def test_a_module_of_ones_own(tmp_path):
    (tmp_path / "mine.py").write_text(MINE.replace("MIXED", "x"))
    x = torch.randn(5, 6, 8, dtype=torch.float32)
    np.savez(tmp_path / "x.npz", x=x.numpy())
    told, _ = small.report(f"{tmp_path}/mine.py:build", "--bits", "3", data=tmp_path / "x.npz", out=tmp_path / "r.html")
    assert [head["choices"] for head in told["heads"]] == [30, 30]
    assert told["heads"][0]["flip"]["key_matrix"] > 0
    assert "mine.py was executed to build the model." in told["says"]


PACKED = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k = torch.nn.Linear(8, 8), torch.nn.Linear(8, 8)

    def forward(self, patches, grid_thw):
        q, k = (y.unflatten(-1, (2, 4)).transpose(0, 1)[None] for y in (self.q(patches), self.k(patches)))
        sizes = grid_thw.prod(-1).tolist()
        parts = zip(q.split(sizes, 2), k.split(sizes, 2))
        return [torch.nn.functional.scaled_dot_product_attention(q, k, k) for q, k in parts]
"""


def test_patches_of_images_in_a_row_are_images(tmp_path):
    (tmp_path / "mine.py").write_text(PACKED)
    patches, sizes = torch.randn(14, 8), [4, 6, 4]
    np.savez(tmp_path / "x.npz", patches=patches, grid_thw=[[1, 2, 2], [1, 2, 3], [1, 2, 2]])
    told, _ = small.report(f"{tmp_path}/mine.py:Model", "--bits", "4", data=tmp_path / "x.npz", out=tmp_path / "r.html")
    assert "3 inputs." in told["says"]
    torch.manual_seed(0)
    query, key = (torch.nn.Linear(8, 8)(patches).unflatten(-1, (2, 4)).detach() for _ in "qk")
    for head in told["heads"]:
        pairs = zip(query[:, head["head"]].split(sizes), key[:, head["head"]].split(sizes), strict=True)
        assert head["selects"] == torch.cat([(q @ k.mT).argmax(-1) for q, k in pairs]).tolist()
        assert head["input"] == [0] * 4 + [1] * 6 + [2] * 4
        assert head["bits"]["choices"] == 14
    assert len(small.report(f"{tmp_path}/mine.py:Model", "--inputs", "2", data=tmp_path / "x.npz",
                            out=tmp_path / "r.html")[0]["heads"][0]["selects"]) == 10  # fmt: skip


def test_a_model_outside_the_interface_is_recorded(tmp_path, text):
    _, folder = small.saved(tmp_path, "xlnet")
    told, page = small.report(folder, data=text)
    assert {head["check"] for head in told["heads"]} == {"recorded"}
    assert told["heads"][0]["flip"]["query"] is None
    assert "its attention is recorded" in page


def test_batches_are_small_enough_and_change_nothing(tmp_path, text, monkeypatch):
    """Bits are those of all batches, too, each choice with the same weight."""
    _, folder = small.saved(tmp_path, "llama")
    whole, _ = small.report(folder, "--bits", "3:4", data=text)
    sizes = []
    run_rows = report.run_rows
    monkeypatch.setattr(report, "ENTRIES", 4 * 10**2 * 2)  # two inputs of the longest length
    monkeypatch.setattr(
        report, "run_rows", lambda source, rows, r: sizes.append(len(rows)) or run_rows(source, rows, r)
    )
    parts, _ = small.report(folder, "--bits", "3:4", data=text)
    assert max(sizes) <= 3 < 4
    for one, other in zip(whole["heads"], parts["heads"], strict=True):
        assert (one["selects"], one["input"]) == (other["selects"], other["input"])
        assert one["flip"]["query"] == pytest.approx(other["flip"]["query"], rel=1e-3)
        assert one["bits"]["choices"] == other["bits"]["choices"] == 5 + 3 + 8 + 4
        assert one["bits"]["counted"] == pytest.approx(other["bits"]["counted"])
        assert one["bits"]["forecast"] == pytest.approx(other["bits"]["forecast"], rel=1e-3)


def test_one_fact_is_told_once_and_padding_is_no_word_of_a_page(tmp_path):
    _, folder = small.saved(tmp_path, "bert")
    (tmp_path / "x.txt").write_text("word1 word2\n" + "word3 " * 40 + "\n" + "word4 word5\n" * 6)
    told, page = small.report(folder, "--query", "first", "--bits", "2:4", data=tmp_path / "x.txt")
    assert {*told["heads"][0]["places"]} == {"first", "special"}
    assert page.count("[PAD]") <= len(told["heads"]) * 2
    assert page.count("<b>Bits</b>") == 1
    assert "What the heads of model (BertModel) select" in page


def test_weights_of_sixteen_bits_are_computed_with_in_float32(tmp_path):
    (tmp_path / "mine.py").write_text(MINE.replace("MIXED", "x").replace(".float()", ".bfloat16()"))
    np.savez(tmp_path / "x.npz", x=torch.randn(5, 6, 8).float().numpy())
    told, _ = small.report(f"{tmp_path}/mine.py:build", data=tmp_path / "x.npz", out=tmp_path / "r.html")
    assert "in float32" in " ".join(told["says"])


REFUSED = {
    "a file of weights": (["{f}/w.pt", "{f}/x.npz"], "is a file of weights, which nothing here can run"),
    "no data": (["{f}/model", "{f}/none.txt"], "is no file here: give a text file"),
    "no such model": (["{f}/nothing", "{f}/texts.txt"], "transformers cannot load"),
    "a query too far": (["{f}/model", "{f}/texts.txt", "--query", "9"], "query is 9: an input has 4 tokens"),
    "a word that is not there": (["{f}/model", "{f}/texts.txt", "--query", "ouch"], "'ouch': no token of DATA is that"),
    "too few tokens": (["{f}/model", "{f}/texts.txt", "--tokens", "1"], "tokens is 1"),
    "no inputs": (["{f}/model", "{f}/texts.txt", "--inputs", "0"], "inputs is 0"),
    "a function that is not there": (["{f}/mine.py:make", "{f}/x.npz"], "has no function make: write one"),
    "arrays that do not fit": (["{f}/model", "{f}/x.npz"], "does not run on x"),
    "a page over a module": (["{f}/mine.py:build", "{f}/x.npz", "--out", "{f}/mine.py"], "mine.py: end it in .html"),
    "a page over its data": (["{f}/model", "{f}/texts.html", "--out", "{f}/texts.html"], "texts.html is read: give"),
    "a folder beside the page": (["{f}/model", "{f}/texts.txt", "--out", "{f}/as.html"], "as.json is a folder"),
    "a page in no folder": (["{f}/model", "{f}/texts.txt", "--out", "{f}/no/r.html"], "is no folder here"),
    "a module without data": (["{f}/mine.py:build"], "DATA is missing: give an npz"),
    "a file without its function": (["{f}/mine.py", "{f}/x.npz"], "needs a function that builds the model: give"),
    "no rows": (["{f}/model", "{f}/rows.npz"], "of equally many inputs, one at least"),
    "a single number": (["{f}/mine.py:build", "{f}/scalar.npz"], "has x (): give arrays (inputs, ...)"),
    "nan": (["{f}/mine.py:build", "{f}/nan.npz"], "has entries that are no numbers"),
    "another number of patches": (["{f}/mine.py:build", "{f}/grid.npz"], "has x (9, 8), grid_thw (2, 3): give arrays"),
    "a mask of other tokens": (["arrays", "{f}/mask.npz"], "has shape (2, 1, 1, 7): give shape (2, 2, 3, 3)"),
    "attention of no heads": (["arrays", "{f}/seen.npz"], "has shape (2, 3): give shape (2, 2, 3, 3)"),
    "three scales": (["arrays", "{f}/scale.npz"], "has shape (3,): give one number"),
    "words for bits": (["{f}/model", "{f}/texts.txt", "--bits", "x"], "--bits is 'x': write 4, or 2:8"),
    "bits the wrong way round": (["{f}/model", "{f}/texts.txt", "--bits", "8:2"], "write the fewer bits first"),
    "one bit": (["{f}/model", "{f}/texts.txt", "--bits", "1"], "bits is 1: give 2 to 16"),
    "a query before the first": (["{f}/model", "{f}/texts.txt", "--query", "-9"], "query is -9: an input has 4 tokens"),
    "padding that no model names": (["{f}/llama/model", "{f}/padded.npz"], "and no mask says so"),
    "unknown words": (["{f}/model", "{f}/unknown.txt"], "100% of the words are [UNK]"),
    "an empty text": (["{f}/model", "{f}/empty.txt"], "has no line of text in UTF-8"),
    "a text in no UTF-8": (["{f}/model", "{f}/latin.txt"], "has no line of text in UTF-8"),
    "an empty npz": (["{f}/model", "{f}/empty.npz"], "is cut, or no npz"),
    "keys without queries": (["arrays", "{f}/key.npz"], "has key.0: give query.0 and key.0"),
    "a batch that is mixed": (["{f}/mixed.py:build", "{f}/wide.npz"], "alone has other attention than in its batch"),
    "padding without a mask": (["{f}/model", "{f}/padded.npz"], "and no mask says so"),
    "a file that fails": (["{f}/fails.py:build", "{f}/wide.npz"], "fails.py fails (ZeroDivisionError"),
    "a file that ends": (["{f}/ends.py:build", "{f}/wide.npz"], "ends.py fails (SystemExit"),
}  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    folder = tmp_path_factory.mktemp("refused")
    small.saved(folder, "bert")
    (folder / "llama").mkdir()
    small.saved(folder / "llama", "llama")
    for name in ("texts.txt", "texts.html"):
        (folder / name).write_text(TEXT)
    (folder / "as.json").mkdir()
    torch.save({"w": torch.ones(2)}, folder / "w.pt")
    (folder / "mine.py").write_text(MINE)
    (folder / "mixed.py").write_text(MINE.replace("MIXED", "x").replace("(self.q(x)", "(self.q(x + x.mean(0))"))
    (folder / "fails.py").write_text("1 / 0")
    (folder / "ends.py").write_text("def build():\n    raise SystemExit(0)\n")
    (folder / "unknown.txt").write_text("EVQLVESGG\nQVQLQQSGA\n")
    (folder / "latin.txt").write_bytes("caf\xe9\n".encode("latin-1"))
    for name in ("empty.txt", "empty.npz"):
        (folder / name).write_bytes(b"")
    np.savez(folder / "x.npz", x=np.ones((2, 3)))
    np.savez(folder / "rows.npz", input_ids=np.zeros((0, 4), int))
    np.savez(folder / "scalar.npz", x=1.0)
    np.savez(folder / "nan.npz", x=np.full((5, 6, 8), np.nan, np.float32))
    np.savez(folder / "grid.npz", x=np.ones((9, 8), np.float32), grid_thw=[[1, 2, 2], [1, 2, 3.0]])
    layer = {"query.0": np.ones((2, 2, 3, 4)), "key.0": np.ones((2, 2, 3, 4))}
    np.savez(folder / "mask.npz", **layer, **{"mask.0": np.ones((2, 7), bool)})
    np.savez(folder / "seen.npz", **layer, **{"attention.0": np.ones((2, 3))})
    np.savez(folder / "scale.npz", **layer, **{"scale.0": np.ones(3)})
    np.savez(folder / "wide.npz", x=torch.randn(5, 6, 8).float().numpy())
    np.savez(folder / "key.npz", **{"key.0": np.ones((1, 1, 2, 2))})
    np.savez(folder / "padded.npz", input_ids=torch.where(torch.arange(7) < 5, small.ids(), 0).numpy())
    return folder


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_reported_is_refused_in_a_sentence(place, capsys, case):
    arguments, words = REFUSED[case]
    filled = [argument.replace("{f}", str(place)) for argument in arguments]
    out = [] if "--out" in filled else ["--out", str(place / "r.html")]
    said = small.refused(capsys, "report", *filled, *out)
    assert words in said
    assert words == "does not run on x" or not said.startswith("the model does not run")
