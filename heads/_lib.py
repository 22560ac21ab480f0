"""The library, by the name that it has here: ``attention_selects`` where a wheel is installed, else ``lib``."""

if __package__ == "attention_heads":
    from attention_selects import checks
    from attention_selects.descent import excess_near, gradient_near, log_spaced, normalised, run
    from attention_selects.geometry import dual, norm, one_minus_cosine
    from attention_selects.losses import logistic
    from attention_selects.problem import Problem, check_selected, difference_rows, other_tokens
    from attention_selects.selection import (
        locally_optimal,
        locally_optimal_selections,
        optimal_tokens,
        selected_tokens,
        svm_neighbours,
    )
    from attention_selects.separators import Separator, hard_margin
    from attention_selects.span import from_span, in_span, span_coordinates
else:
    from lib import checks
    from lib.descent import excess_near, gradient_near, log_spaced, normalised, run
    from lib.geometry import dual, norm, one_minus_cosine
    from lib.losses import logistic
    from lib.problem import Problem, check_selected, difference_rows, other_tokens
    from lib.selection import (
        locally_optimal,
        locally_optimal_selections,
        optimal_tokens,
        selected_tokens,
        svm_neighbours,
    )
    from lib.separators import Separator, hard_margin
    from lib.span import from_span, in_span, span_coordinates


def figures():
    """The module of figures, which is slow to import."""
    if __package__ == "attention_heads":
        from attention_selects import figures as module
    else:
        from lib import figures as module
    return module


__all__ = [
    "Problem", "Separator", "check_selected", "checks", "difference_rows", "dual", "excess_near", "figures",
    "from_span", "gradient_near", "hard_margin", "in_span", "locally_optimal", "locally_optimal_selections",
    "log_spaced", "logistic", "norm", "normalised", "one_minus_cosine", "optimal_tokens", "other_tokens", "run",
    "selected_tokens", "span_coordinates", "svm_neighbours",
]  # fmt: skip
