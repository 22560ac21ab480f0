"""Logits agree with a model's attention only where its leads are theirs, however sharp the attention is."""

import pytest
import torch
import transformers
from problems import refuses, seeded
from test_transformers import reported, words_of

from heads import agreement, head_problem, layer_weights
from heads.capture import Layer
from heads.facts import layer_facts
from heads.flips import nearest_flips

N, T, D = 12, 6, 8
SHARPNESS = [1, 10, 40, 200, 1000]
TERMS = {  # what may be added to logits (n, T) and not be known, at most 3
    "of each token": lambda draw: 3 * torch.rand(T, generator=draw).expand(N, T),
    "of each token of each input": lambda draw: 3 * torch.rand(N, T, generator=draw),
    "of one token in one input": lambda draw: 3.0 * (torch.arange(N * T) == 8).view(N, T),
}


def layer_with(sharpness, term=0.0, dtype=torch.float32):
    """A layer whose logits are as large as one likes, the attention that it gives with a term added, and the leads."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = torch.nn.MultiheadAttention(D, 2, bias=False, batch_first=True)
        module.in_proj_weight.data[:D] *= sharpness
    weights, tokens = layer_weights(module), torch.randn(N, T, D, generator=seeded(0), dtype=torch.float64)
    asked = torch.einsum("hke,ne->nhk", weights.query, tokens[:, 0])
    logits = weights.scale * torch.einsum("nhk,hkd,ntd->nht", asked, weights.key, tokens)
    logits = logits + torch.as_tensor(term).double().expand(N, T)[:, None]
    layer = Layer(
        "one", torch.zeros(N, dtype=torch.int64), logits.softmax(-1).to(dtype).double(),
        torch.ones(N, T, dtype=torch.bool), tokens, tokens[:, 0], lambda: [weights],
    )  # fmt: skip
    return layer, logits


@pytest.mark.parametrize("sharpness", SHARPNESS)
@pytest.mark.parametrize("kind", TERMS)
def test_no_term_that_is_not_known_is_overlooked(kind, sharpness):
    layer, logits = layer_with(sharpness, TERMS[kind](seeded(1)))
    for head, facts in enumerate(layer_facts(layer)):
        true = logits[:, head]
        if facts["check"] == "recorded":
            continue
        assert kind == "of each token" or sharpness >= 40  # a bias of each distance here, which may be found
        for entry in facts["inputs"]:
            if entry["lead"] is not None:  # nothing is said that the term has changed
                row = true[entry["input"]]
                assert entry["lead"] == pytest.approx((row.max() - row[entry["taker"]]).item(), rel=0.011, abs=0.011)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
@pytest.mark.parametrize("sharpness", SHARPNESS)
def test_leads_and_distances_that_are_told_are_the_models(sharpness, dtype):
    layer, logits = layer_with(sharpness, dtype=dtype)
    for head, facts in enumerate(layer_facts(layer)):
        if facts["check"] == "recorded":
            assert sharpness >= 200
            assert facts["why"] == agreement.SHARP
            continue
        flips = nearest_flips(layer.tokens, logits[:, head], logits[:, head].argmax(-1), layer.queries.norm(dim=-1))
        told = [entry for entry in facts["inputs"] if entry["lead"] is not None]
        assert len(told) == facts["told"] > 0
        assert len(told) == N or sharpness > 1
        for entry in told:
            assert entry["taker"] == flips.taker[entry["input"]]
            wanted = flips.distance[entry["input"]].item() / facts["norms"][0]
            assert entry["flip"] == pytest.approx(wanted, rel=1e-3)


def test_attention_shows_a_lead_that_is_wrong_though_shares_are_the_same():
    attention = torch.tensor([[30.0, 0.0, 12.0], [12.0, 14.0, 0.0]], dtype=torch.float64).softmax(-1)
    shares, leads = agreement.disagreement(torch.tensor([[30.0, 0.0, 15.0], [12.0, 14.0, -7.0]]).double(), attention)
    assert shares.max() < agreement.ATTENTION_TOLERANCE
    assert leads.tolist() == pytest.approx([3 / 18, 7 / 14])


def test_what_lies_below_the_number_format_has_to_lag_by_more():
    attention = torch.tensor([[1.0, 0.0]], dtype=torch.float64)  # so float16 may have it
    for lag, apart in ((3.0, True), (9.0, True), (11.0, False), (1000.0, False)):
        _, leads = agreement.disagreement(torch.tensor([[lag, 0.0]]).double(), attention)
        assert (leads.item() > agreement.LEAD_TOLERANCE) == apart
    largest = agreement.largest_logits(torch.tensor([[1000.0, 0.0]]).double(), attention)
    assert largest[0, 1] == pytest.approx(1000 - 9.7, abs=0.01)


def test_a_problem_is_compared_with_its_leads_too():
    layer, logits = layer_with(20)
    given = {"weights": layer.weights()[0], "tokens": layer.tokens, "labels": torch.ones(N), "readout": torch.ones(D)}
    assert head_problem(**given, attention=logits[:, 0].softmax(-1)).scores == "exact"
    _, other = layer_with(20, TERMS["of one token in one input"](seeded(1)))
    other = other[:, 0].softmax(-1)
    refuses(lambda: head_problem(**given, attention=other), "attention on input 1 differs from what is computed by")


def sharp_t5(kind):
    """A small T5 whose heads are sharp, with biases of the first layer, for all, that count."""
    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_heads": 4, "vocab_size": 50, "num_layers": 2}
    torch.manual_seed(0)
    model = getattr(transformers, f"{kind}Model")(
        getattr(transformers, f"{kind}Config")(**sizes, num_decoder_layers=2, attn_implementation="eager")
    )
    for name, parameter in model.named_parameters():
        sharper = 20 if name.endswith((".q.weight", ".k.weight")) else 1
        torch.nn.init.normal_(parameter, std=3 if "relative" in name else 0.3 * sharper)
    return model.eval()


@pytest.mark.parametrize("kind", ["T5", "MT5", "UMT5", "SwitchTransformers"])
def test_a_later_layer_that_has_the_biases_of_the_first_never_goes_without(kind, tmp_path):
    model = sharp_t5(kind)
    words = {"input_ids": words_of(3, 6), "decoder_input_ids": words_of(3, 6, seed=1)}
    layers, _ = reported(tmp_path, model, **words)
    with torch.inference_mode():  # in 64 bits attention tells all leads
        given = {name: torch.from_numpy(array) for name, array in words.items()}
        answer = model.double()(**given, output_attentions=True)
    told = 0
    for head in (head for heads in layers.values() for head in heads):
        stack, _, block, _, _, part = head["layer"].split(".")
        name = "cross_attentions" if part == "EncDecAttention" else f"{stack}_attentions"
        shares = answer[name][int(block)][:, head["head"]]
        for entry in head["inputs"] if head["check"] != "recorded" else ():
            leads = shares[entry["input"], entry["asks"]].log()
            if entry["lead"] is not None:
                wanted = (leads.max() - leads[entry["taker"]]).item()
                assert entry["lead"] == pytest.approx(wanted, rel=0.011, abs=0.011), head["layer"]
                told += 1
    assert told > 10
