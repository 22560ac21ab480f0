"""Say which hypotheses of the book's statements hold for a problem of one's own, and what the statements then predict.

Hypotheses and statements have the names of the page *Which theorem applies to me?* and of the ledger; a test compares
them with the book's register, which this package does not have.
"""

from typing import NamedTuple

import torch

from ._lib import (
    checks,
    difference_rows,
    every_selection,
    hard_margin,
    in_span,
    locally_optimal,
    norm,
    one_minus_cosine,
    optimal_tokens,
    other_tokens,
    score_leads,
    selected_tokens,
    token_margins,
)

MOST_CHOICES = 5000  # selections up to which all are tried
TOO_MANY = f"there are more than {MOST_CHOICES} selections: too many to try"
ALIKE = 1e-9  # relative to the spread of the scores, below which two are equal; and cosines that are zero
TIE = 1e-9  # of a lag, from 1


class Fact(NamedTuple):
    """Whether a hypothesis holds (None: it cannot be told from the data), and why, in a clause."""

    holds: bool | None
    why: str


class Statement(NamedTuple):
    """What is predicted of training: the tokens ("best", "start" or any), the norm of the margin, the hypotheses."""

    chapter: str
    says: str
    tokens: str | None
    norm: str | None
    needs: tuple


# What is predicted of gradient flow; of the runs of an optimiser the shares of the margins tell.
ALWAYS = ("full-batch", "prompt", "linear-head", "slope")
W_ALWAYS = ("full-batch", "key-query", "linear-head")
STATEMENTS = {
    "Theorem 2": Statement("max-margin/theorem-2", "the best tokens, along their l_2 separator", "best", "l_2",
                           (*ALWAYS, "equal-scores", "one-input-direction", "feasible")),
    "Theorem 3": Statement("max-margin/theorem-3", "the tokens of the start, along their l_2 separator", "start",
                           "l_2", (*ALWAYS, "locally-optimal", "in-cone")),
    "Two inputs of two tokens": Statement(
        "rates/global-convergence", "the best tokens from any start", "best", None,
        (*W_ALWAYS, "slope", "two-by-two", "one-best", "feasible", "none-stable")),
    "Each optimiser its own margin": Statement(
        "beyond/optimiser-margins", "the direction of the l_2 separator of the selected tokens, whatever tokens these"
        " are", None, "l_2", (*W_ALWAYS, "one-best")),
}  # fmt: skip


def hypotheses(claim, stable=None):
    """Facts by hypothesis of data and start, those that the statements here need.

    ``stable`` are the selections of :func:`stable_selections`, None where there are too many to try.
    """
    problem = claim.problem
    inputs, tokens = problem.scores.shape
    one_query = problem.queries is None or bool((problem.queries == problem.queries[0]).all())
    trained = "p is trained, or W with one query of length 1" if problem.queries is None else "W is trained"
    facts = {
        "prompt": Fact(one_query, trained + ("" if one_query else ", and queries differ")),
        "key-query": Fact(True, trained),
        "linear-head": Fact(True, "each token has one score"),
        "full-batch": Fact(True, "every step here sees all inputs"),
        "slope": Fact(True, "that of each loss offered here is negative everywhere"),
        "one-input-direction": Fact(inputs == 1, f"n = {inputs}"),
        "two-by-two": Fact((inputs, tokens) == (2, 2), f"n = {inputs}, T = {tokens}"),
        "feasible": _feasible(problem),
        "orthogonal": _orthogonal(problem),
        "none-stable": Fact(None, TOO_MANY),
    }
    if stable is not None:
        wrong = int((stable != optimal_tokens(problem)).any(-1).sum())
        facts["none-stable"] = Fact(not wrong, f"{wrong} of {tokens**inputs} selections are stable wrong ones")
    return facts | _of_scores(problem) | _of_start(claim)


def _of_scores(problem):
    scores = problem.scores.sort(-1, descending=True).values
    gaps, spread = -scores.diff(dim=-1)[:, 0], (scores[:, :1] - scores[:, -1:]).amax().clamp(min=1e-300)
    best, second = bool((gaps > ALIKE * spread).all()), (scores[:, 1] - scores[:, -1]).amax()
    leads = f"the best token leads by {gaps.amin():.3g} or more" if best else "two best tokens tie"
    apart = f"scores of the other tokens of an input differ by up to {second:.3g}" if best else leads
    return {"one-best": Fact(best, leads), "equal-scores": Fact(best and bool(second <= ALIKE * spread), apart)}


def _feasible(problem):
    best = optimal_tokens(problem)
    separator = hard_margin(difference_rows(problem, best))
    if separator.feasible:
        size = norm(separator.theta)
        return Fact(True, f"the shortest separator has length {size:.4g}, relative gap {separator.gap:.0e}")
    others = other_tokens(best, problem.scores.shape[-1])
    weighed = (separator.certificate.view_as(others) > 0).nonzero().tolist()
    tokens = checks.join_names(f"{others[place, k]} of input {place}" for place, k in weighed)
    return Fact(False, f"no direction separates the best tokens: behind them cannot all be tokens {tokens}, whose"
                       f" differences with weights of sum 1 add up to"
                       f" {norm(separator.certificate @ difference_rows(problem, best)):.0e}")  # fmt: skip


def _orthogonal(problem):
    """Tokens of the whole data set: orthogonal, nearly so (each is nearer to itself than to all others), or neither."""
    keys = problem.keys.flatten(0, 1)
    keys = keys[norm(keys) > 0]
    cosines = (keys @ keys.mT) / (norm(keys)[:, None] * norm(keys)).clamp(min=1e-300)
    others = cosines.abs().fill_diagonal_(0.0)
    largest = others.amax().item()
    if largest <= ALIKE:
        return Fact(True, "all tokens are orthogonal")
    near = others.sum(-1).amax() < 1
    said = "how near is near enough we do not know" if near else "too much for nearly orthogonal"
    return Fact(None if near else False, f"the largest |cosine| of two tokens is {largest:.2g}; {said}")


def _of_start(claim):
    problem, start = claim
    if not start.any():
        why = "the start is zero, and favours no tokens"
        return {"in-cone": Fact(False, why), "locally-optimal": Fact(False, why)}
    selected = selected_tokens(problem, start)
    separator = hard_margin(difference_rows(problem, selected))
    if not separator.feasible:
        no = Fact(False, f"nothing separates the tokens {selected.tolist()} that the start favours")
        return {"in-cone": no, "locally-optimal": no}
    away, length = one_minus_cosine(start, separator.theta), norm(start) / norm(separator.theta)
    cone = Fact(None, f"1 - cos to the separator of its tokens is {away:.2g}, its length {length:.3g} of theirs")
    local = bool(locally_optimal(problem, selected, separator))
    return {"in-cone": cone, "locally-optimal": Fact(local, f"the start favours the tokens {selected.tolist()}")}


def stable_selections(problem):
    """Selections that can hold descent for good, best scores first, and their lags; None if there are too many.

    As the chapter *From any start* has it: with q the separator of the selected tokens from those that score lower, a
    better token's lag is (row of the selected - its own row) q, and all lags have to exceed 1.

    Returns
    -------
    (Tensor of int, Tensor) or None
        Shapes (m, n) and (m,): the smallest lag of a better token, inf where there is none.
    """
    inputs, tokens = problem.scores.shape
    if tokens**inputs > MOST_CHOICES:
        return None
    problem = problem if problem.queries is None else in_span(problem)
    every = every_selection(inputs, tokens)
    rows, lower = difference_rows(problem, every), score_leads(problem, every) > 0
    every, rows, lower = (part[lower.any(-1)] for part in (every, rows, lower))
    first = lower.long().argmax(-1)[:, None, None].expand(-1, 1, rows.shape[-1])
    separator = hard_margin(rows.where(lower[..., None], rows.gather(-2, first)))
    margins = token_margins(problem, every, separator.theta)
    own = problem.scores.expand(margins.shape).gather(-1, every[..., None])
    lags = margins.where(problem.scores > own, torch.inf).amin((-2, -1))
    tied = (margins.where(problem.scores == own, 0.0) >= 0).all(-1).all(-1)
    stable = separator.feasible & tied & (lags > 1 + TIE)
    order = problem.scores.expand(margins.shape).gather(-1, every[..., None]).sum((-2, -1)).argsort(descending=True)
    order = order[stable[order]]
    return every[order], lags[order]


def predictions(facts):
    """What each statement on gradient flow needs and has not: by name lacking hypotheses, and those that are open."""
    return {
        name: {
            "lacks": [need for need in statement.needs if facts[need].holds is False],
            "open": [need for need in statement.needs if facts[need].holds is None],
        }
        for name, statement in STATEMENTS.items()
    }
