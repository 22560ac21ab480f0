"""Bound the leads of random heads that see what the heads of the language model see: its null.

For each head of each run of `language_model` a head is drawn at random on the surface of the ball of the run's rule:
signs for sign descent and AdamW, orthonormal columns for both Muons, Gaussian entries with |K|^2 + |Q|^2 = 1 for
normalised descent. It receives what the trained head receives. Its leads, ceilings and sets of queries are those of
`head_ceilings`: the same two random sets as for the trained head, and its own eight sharpest queries. A share, least
lead over ceiling, does not depend on the radius of the ball.

What stood here before the first run. A reader with code of his own had found shares of 1 to 5 per cent for random
heads at random queries, 3 to 15 times those of trained heads; he had not looked at the sharpest queries, and neither
had we. Predicted, for each rule: the median share over heads and decays of the trained heads is at most that of the
random heads, at random queries (as he found, so this is no prediction) and at the sharpest ones. The bound is 1 for the
ratio of these medians: a trained head is no sharper than a random one.
"""

import hashlib
from pathlib import Path

import numpy as np
import torch

from studies import archives, head_ceilings, language_model
from studies.archives import Run
from studies.language_model import BALLS, COLUMNS, FIRST, HEADS, LAYERS, QUERIES, SEED, WIDTH

DRAW = 7000  # of the random heads


def plan():
    """A run for each run of the language model, with its name."""
    return {
        name: Run({"of": name, "rule": run.settings["rule"], "seed": SEED, "draw": DRAW + k})
        for k, (name, run) in enumerate(language_model.plan().items())
    }


STUDIES = {"random-heads": plan}


def make(study, run, record):
    """Draw the heads of a run and bound their leads; its settings and its results."""
    torch.set_num_threads(1)
    name, ball = run.settings["of"], BALLS[run.settings["rule"]]
    factors = surface(ball, (2, LAYERS, HEADS, WIDTH, COLUMNS), torch.Generator().manual_seed(run.settings["draw"]))
    factors = factors.numpy().astype(np.float32)
    with np.load(trained(name)) as kept:
        arrays = head_ceilings.bounded(factors, kept["tokens"], ball, QUERIES, FIRST, run.settings["seed"])
    return run.settings, {f"{name}.npz": {"factors": factors} | arrays}


def trained(name):
    """The file of a run of the language model, which has what its heads receive."""
    return Path(archives.RECORDED, "language-model", f"{name}.npz")


def data_of(run):
    """The file that a run reads, with its hash."""
    path = trained(run.settings["of"])
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest()}


def surface(ball, shape, draw):
    """Random K and Q (2, ..., d, r) of length 1 in the norm of a ball."""
    factors = torch.randn(shape, generator=draw, dtype=torch.float64)
    if ball == "sign":
        return factors.sign()
    if ball == "spectral":
        return torch.linalg.qr(factors).Q
    return factors / language_model.size_of(factors, ball)
