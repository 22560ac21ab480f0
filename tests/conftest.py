"""What all tests share: no window, the same random examples in every run, and the surroundings of a chapter.

Those hide a tensor whose dtype nobody said; ``test_surroundings`` runs the library without them.
"""

import os
import signal
import subprocess
from pathlib import Path

import matplotlib
import pytest
import torch
from hypothesis import settings

import lib
from tests.small_book import Book

ROOT = Path(__file__).parents[1]

matplotlib.use("Agg")
# What a shell runs in the background ignores an interruption, and so does all that it starts: some tests interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)
lib.notebook()
settings.register_profile("deterministic", derandomize=True, deadline=None, max_examples=40, database=None)
settings.load_profile("deterministic")


@pytest.fixture(autouse=True)
def _as_it_was():
    """Close figures behind each test, and give torch back its default dtype and number of threads."""
    dtype, threads = torch.get_default_dtype(), torch.get_num_threads()
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
    torch.set_default_dtype(dtype)
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def built():
    """Project after ``make book``: its site and ledger are those of the sources as they are now."""
    if os.environ.get("BOOK_IS_BUILT") == "no":
        pytest.skip("the book is not built here")
    if "BOOK_IS_BUILT" not in os.environ:  # which make test says, having seen to it
        done = subprocess.run(["make", "book"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
    return ROOT


@pytest.fixture
def book(tmp_path):
    """Small book without chapters, in a folder of its own."""
    return Book(tmp_path)


@pytest.fixture
def inside(tmp_path, monkeypatch):
    """Stand in a small book of one chapter, for calls of the workflow's functions."""
    monkeypatch.chdir(tmp_path)
    return Book(tmp_path).add("good")
