"""Examples in docstrings come out as shown, whatever the default type of numbers is; those of the pages in float32."""

import doctest
import importlib
import re
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).parents[1]
FOLDERS = (ROOT / "lib", ROOT / "heads", ROOT / "studies")
FILES = [path.relative_to(ROOT) for folder in FOLDERS for path in folder.rglob("*.py") if path.stem != "__init__"]
MODULES = sorted(".".join(path.with_suffix("").parts) for path in FILES)


@pytest.fixture(params=[torch.float64, torch.float32], ids=str)
def dtype(request):
    torch.set_default_dtype(request.param)


@pytest.mark.parametrize("name", MODULES)
def test_examples_come_out_as_shown(name, dtype):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert failed == 0
    assert tried or name.count(".") > 1 or name in ("lib.checks", "lib.rules") or not re.match("lib[.][a-z]", name)


@pytest.mark.parametrize("dtype", [torch.float32], indirect=True)
@pytest.mark.parametrize(
    "path", [*sorted((ROOT / "book/library").glob("*.md")), ROOT / "book/by-hand.md"], ids=lambda path: path.stem
)
def test_examples_of_pages_come_out_as_shown(path, dtype):
    text = path.read_text("utf-8").replace("```", "")  # the end of a block is not a part of what is printed
    example = doctest.DocTestParser().get_doctest(text, {}, path.stem, str(path), 0)
    assert doctest.DocTestRunner().run(example).failed == 0
