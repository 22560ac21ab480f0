"""Every family of `transformers` that can be built small: its report is as listed, and none ends in a traceback."""

import json

import architectures
import pytest

from heads.conventions import PLAIN

LISTED = json.loads(architectures.LIST.read_text())
SAMPLE = (
    "albert", "bart", "bert", "big_bird", "bigbird_pegasus", "bloom", "clip", "convbert", "ctrl", "deberta", "fsmt",
    "gemma3", "git", "gpt2", "gpt_bigcode", "gpt_neo", "gpt_oss", "led", "llama", "longformer", "longt5", "lxmert",
    "mamba", "megatron-bert", "mpt", "perceiver", "prophetnet", "reformer", "segformer", "swin", "t5", "vit",
    "wav2vec2", "wavlm", "xlnet",
)  # fmt: skip


def told(result):
    """What a report says apart from reasons, which have numbers in them."""
    return result["result"], result.get("heads"), len(result.get("left_out", []))


def test_no_family_ends_in_a_traceback_or_with_a_fault_of_ours():
    assert {*SAMPLE} <= LISTED.keys()
    for family, result in LISTED.items():
        assert result["result"] in ("reported", "refused"), family
        assert "a fault of this library" not in json.dumps(result), family
        assert set(result.get("heads", ())) <= {"agrees", "biased", "recorded"}, family


def test_families_that_count_as_plain_without_their_attention_are_those_whose_heads_agree():
    for family in PLAIN:
        assert set(LISTED[family].get("heads", {"agrees": 0})) == {"agrees"}, family


@pytest.mark.parametrize(
    "family", [pytest.param(family, marks=[] if family in SAMPLE else pytest.mark.again) for family in LISTED]
)
def test_a_report_is_as_listed(family):
    assert told(architectures.timed(family)) == told(LISTED[family])
