"""The library, by the name that it has here: ``attention_selects`` where a wheel is installed, else ``lib``."""

# ruff: noqa: F401

if __package__ == "attention_heads":
    from attention_selects import checks
    from attention_selects.descent import excess_near, gradient_near, log_spaced, normalised, run
    from attention_selects.flow import log_time_flow
    from attention_selects.geometry import dual, norm, one_minus_cosine
    from attention_selects.intervals import median
    from attention_selects.losses import LOSSES, logistic
    from attention_selects.problem import Problem, check_selected, difference_rows, other_tokens
    from attention_selects.selection import (
        every_selection,
        locally_optimal,
        optimal_tokens,
        score_leads,
        selected_tokens,
        svm_neighbours,
        token_margins,
    )
    from attention_selects.separators import Separator, hard_margin
    from attention_selects.span import from_span, in_span, span_coordinates
    from attention_selects.steepest import steepest
else:
    from lib import checks
    from lib.descent import excess_near, gradient_near, log_spaced, normalised, run
    from lib.flow import log_time_flow
    from lib.geometry import dual, norm, one_minus_cosine
    from lib.intervals import median
    from lib.losses import LOSSES, logistic
    from lib.problem import Problem, check_selected, difference_rows, other_tokens
    from lib.selection import (
        every_selection,
        locally_optimal,
        optimal_tokens,
        score_leads,
        selected_tokens,
        svm_neighbours,
        token_margins,
    )
    from lib.separators import Separator, hard_margin
    from lib.span import from_span, in_span, span_coordinates
    from lib.steepest import steepest


def figures():
    """The module of figures, which is slow to import."""
    if __package__ == "attention_heads":
        from attention_selects import figures as module
    else:
        from lib import figures as module
    return module
