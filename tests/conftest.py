"""What all tests share: no window, and the same random examples in every run."""

import matplotlib
import pytest
from hypothesis import settings

matplotlib.use("Agg")
settings.register_profile("deterministic", derandomize=True, deadline=None, max_examples=40, database=None)
settings.load_profile("deterministic")


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")
