"""Whatever an interactive figure says is true at every setting, or it is silent."""

from pathlib import Path

import javascript
import pytest

PROGRAM = javascript.PROGRAM + Path(__file__).with_name("truth.js").read_text("utf-8")
NAMES = ("playground", "road", "dial", "ball", "cone", "story", "questions")

pytestmark = pytest.mark.skipif(not javascript.engines(), reason="no node and no chromium on this machine")


@pytest.mark.parametrize("name", NAMES)
def test_no_sentence_is_false_at_random_settings(name):
    assert javascript.call(PROGRAM, "truth", [name, 300]) == []


def test_every_run_of_the_papers_figures_is_decided():
    ask = """steps => Object.keys(playgroundModule.PRESETS).flatMap(name => steps.flatMap(step =>
      playgroundModule.solve({ ...playgroundModule.preset(name), step }).ends.map(({ place }) => place)))"""
    assert min(javascript.call(PROGRAM, ask, ["normalised", "constant", "flow"])) >= 0
