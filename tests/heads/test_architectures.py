"""Every family of `transformers` with its interface: the report is as listed, and none ends in a traceback."""

import json

import architectures
import pytest

LISTED = json.loads(architectures.LIST.read_text())
SAMPLE = ("bert", "gemma3_text", "gpt2", "llama", "parakeet_ctc", "qwen3_vl_vision", "t5", "vit", "xlnet")


def told(result):
    """What a report says apart from reasons, which have numbers in them."""
    return result["result"], result.get("heads")


def test_no_family_ends_in_a_traceback():
    assert {*SAMPLE} <= LISTED.keys()
    for family, result in LISTED.items():
        assert result["result"] in ("reported", "refused", "not built", "does not run"), family


@pytest.mark.again  # another version of transformers has other families
def test_every_family_is_listed():
    assert {*architectures.families()} <= LISTED.keys()


@pytest.mark.parametrize(
    "family", [pytest.param(family, marks=[] if family in SAMPLE else pytest.mark.again) for family in LISTED]
)
def test_a_report_is_as_listed(family):
    assert told(architectures.timed(family)) == told(LISTED[family])
