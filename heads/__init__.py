"""Your own model: watch its attention, and see which tokens its heads select, how firmly, and what turns them."""

from .examination import Examination, examine
from .files import file_problem, read_state, read_tokens
from .flips import Flips, flip_distances, least_change, nearest_flips
from .layers import Head, head_problem
from .slopes import record
from .watch import Attention, attention, watching
from .weights import Weights, layer_prefixes, layer_weights, state_weights

__all__ = [
    "Attention",
    "Examination",
    "Flips",
    "Head",
    "Weights",
    "attention",
    "examine",
    "file_problem",
    "flip_distances",
    "head_problem",
    "layer_prefixes",
    "layer_weights",
    "least_change",
    "nearest_flips",
    "read_state",
    "read_tokens",
    "record",
    "state_weights",
    "watching",
]  # fmt: skip
