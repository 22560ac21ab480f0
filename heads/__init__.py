"""Your own model: read its heads, check their attention, and see which tokens they select and how firmly."""

from .examination import examine
from .examined import Examination
from .files import file_problem, layer_prefixes, read_state, read_tokens
from .fitting import FittedProblem, fit_problem
from .flips import Flips, flip_distances, least_change, nearest_flips
from .layers import Head, head_problem, layer_problem
from .slopes import record
from .weights import Weights, layer_weights, state_weights

__all__ = [
    "Examination",
    "FittedProblem",
    "Flips",
    "Head",
    "Weights",
    "examine",
    "file_problem",
    "fit_problem",
    "flip_distances",
    "head_problem",
    "layer_prefixes",
    "layer_problem",
    "layer_weights",
    "least_change",
    "nearest_flips",
    "read_state",
    "read_tokens",
    "record",
    "state_weights",
]  # fmt: skip
