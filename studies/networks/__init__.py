"""Train small networks with their attention exposed, several at once: a transformer for images, and readers.

A reader is the papers' model of one layer with tokens that are trained too, of words or of patches; its steps are
compiled.

Members of an ensemble differ in their seed: initial weights, order of the examples and, if the caller wants, the
examples themselves. Their parameters are stacked, the member first: one step trains them all, and each is what it would
be alone. On the CPU all is float64, so that another machine can repeat small runs.

A training logs every epoch to ``studies.networks`` at level INFO; ``logging.basicConfig(level=logging.INFO)`` shows it.
"""

from .measures import accuracy, attend, cls_map, cross_entropy, key_query_norm, linear_answers, shares, soft_sparsity
from .one_layer import Readers, apply_readers, patch_places, reached, train_readers
from .step_rules import Adam, MirrorDescent, flat, optimiser
from .texts import Texts, as_texts, selected, train_texts
from .training import Training, train, train_best
from .transformer import Transformer, apply, apply_in_parts, ensemble, patches, precision
from .twins import train_twins

__all__ = [
    "Adam", "MirrorDescent", "Readers", "Texts", "Training", "Transformer", "accuracy", "apply", "apply_in_parts",
    "apply_readers", "as_texts", "attend", "cls_map", "cross_entropy", "ensemble", "flat", "key_query_norm",
    "linear_answers", "optimiser", "patch_places", "patches", "precision", "reached", "selected", "shares",
    "soft_sparsity", "train", "train_best", "train_readers", "train_texts", "train_twins",
]  # fmt: skip
