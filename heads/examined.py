"""What an examination finds: in numbers, in words, in JSON and as a figure."""

import json
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from ._lib import Separator, checks, figures

LISTED = 8  # entries of a list that a report shows


@dataclass(frozen=True, eq=False)
class Examination:
    """What :func:`heads.examine` finds; ``str`` of it is a short report.

    Attributes
    ----------
    today, selected : Tensor of int, shape (n,)
        The token with the most attention, and the choice that is examined.
    attention : Tensor, shape (n,)
        What the selected tokens have.
    distances, takers : Tensor, shape (n,)
        Of :func:`heads.flip_distances`, over the length of theta: below 0 where another token has a larger logit.
    feasible : bool
        Whether a direction separates the selected tokens.
    cosine_distance : float
        1 - cos from theta to the separator; nan without one.
    outscored : Tensor of bool, shape (n, T)
        SVM-neighbours whose score is not below the selected token's.
    locally_optimal : bool
        Whether the choice is separated, and no neighbour outscores it (Definition 2, arXiv:2306.13596).
    separator : Separator
        With its theta in the coordinates of the problem, and its gap.
    conflict : list of (int, int)
        Without a separator: inputs and tokens over which the selected ones cannot lead together, while they can over
        all of them but any one.
    choices, choices_cosine_distance : Tensor of shape (choices, n), and of shape (choices,), or None
        All locally optimal selections, if asked for, the nearest to theta first, and 1 - cos from theta to each.
    settled : Tensor of int, shape (n,), or None
        Where swaps lead from today's choice, if asked for; see :func:`heads.swaps.swap_until_stable`.
    after_descent : dict, or None
        Where descent from theta ends, if asked for: ``iterations``, ``selected``, and ``cosine_distance``, 1 - cos to
        the separator of what it selects there, nan if that has none.
    """

    today: Tensor
    selected: Tensor
    attention: Tensor
    distances: Tensor
    takers: Tensor
    feasible: bool
    cosine_distance: float
    outscored: Tensor
    locally_optimal: bool
    separator: Separator
    conflict: list
    choices: Tensor | None = None
    choices_cosine_distance: Tensor | None = None
    settled: Tensor | None = None
    after_descent: dict | None = None

    @property
    def forecast(self):
        """Tokens (n,) that this head selects if it alone goes on to train: by descent where it was run, else by a rule.

        The rule of thumb, which is no theorem: today's choice where that is examined and locally optimal, else that to
        which swaps lead, else the locally optimal one whose separator is nearest; None where none of them was asked
        for. When everything trains no forecast is worth as much as :attr:`today` (*A head that trains on* measures it).
        """
        return self._rule_of_thumb() if self.after_descent is None else self.after_descent["selected"]

    def _rule_of_thumb(self):
        if self.locally_optimal and torch.equal(self.today, self.selected):
            return self.selected
        if self.settled is not None:
            return self.settled
        return None if self.choices is None or not len(self.choices) else self.choices[0]

    def as_dict(self):
        """The examination in numbers and lists for JSON, None where there is no number, without the separator."""
        values = {field.name: getattr(self, field.name) for field in fields(self) if field.name != "separator"}
        values |= {"gap": self.separator.gap, "forecast": self.forecast, "outscored": torch.nonzero(self.outscored)}
        return _plain(values)

    def to_json(self):
        """:meth:`as_dict` as JSON."""
        return json.dumps(self.as_dict(), allow_nan=False)

    def figure(self):
        """Draw how far each input is from another token, and which choices a neighbour outscores or a conflict bars."""
        kinds = ["outscored" if any(row) else "lasting" for row in self.outscored.tolist()]
        kinds = kinds if self.feasible else ["free"] * len(kinds)
        for i, _ in self.conflict:
            kinds[i] = "in conflict"
        return figures().flips(self.distances.tolist(), kinds)

    def __str__(self):
        inputs, tokens = self.outscored.shape
        nearest, below = self.distances.argmin(), int((self.distances < 0).sum())
        distance = (
            f"A change of W by {self.distances[nearest]:.2%} turns input {nearest} to token {self.takers[nearest]};"
            f" half of the inputs need {self.distances.median():.2%} or more."
        )
        return "\n".join([
            f"{inputs} inputs of up to {tokens} tokens.",
            f"Most attention: {checks.join_names(self.today.tolist(), LISTED)}.",
            f"Examined: {checks.join_names(self.selected.tolist(), LISTED)}, with attention from"
            f" {self.attention.min():.3g} to {self.attention.max():.3g}.",
            f"In {below} of {inputs} inputs another token has the largest logit." if below else distance,
            *self._separator_lines(),
            *self._forecast_lines(),
        ])  # fmt: skip

    def _separator_lines(self):
        """Lines on the separator, and on what bars the choice."""
        if not self.feasible:
            yield (
                f"No direction separates this choice: the selected tokens cannot lead these {len(self.conflict)}"
                f" together, {_join_tokens(self.conflict)}."
            )
            return
        outscored = _join_tokens(torch.nonzero(self.outscored).tolist())
        yield f"1 - cos to the separator {self.cosine_distance:.3g}."
        if self.locally_optimal:
            yield "Locally optimal: no neighbour scores as high."
        else:
            yield f"Not locally optimal, outscored by {outscored}."

    def _forecast_lines(self):
        """Lines on all choices, swaps and descent, where they were asked for."""
        if self.choices is not None:
            line = f"Of all choices {len(self.choices)} are locally optimal"
            if len(self.choices):
                nearest = checks.join_names(self.choices[0].tolist(), LISTED)
                line += f"; the nearest is {nearest}, 1 - cos {self.choices_cosine_distance[0]:.3g}"
            yield f"{line}."
        if self.settled is not None:
            yield f"Swaps lead from today's choice to {checks.join_names(self.settled.tolist(), LISTED)}."
        if self.after_descent is not None:
            selected, distance = self.after_descent["selected"], self.after_descent["cosine_distance"]
            line = f"Descent of {self.after_descent['iterations']} steps ends on "
            line += checks.join_names(selected.tolist(), LISTED) + ", "
            line += (
                f"1 - cos to its separator {distance:.3g}" if distance == distance else "which no direction separates"
            )
            rule, right = self._rule_of_thumb(), "nothing was predicted"
            if rule is not None:
                right = f"predicted for {(rule == selected).sum()} of {len(selected)} inputs"
            yield f"{line}; {right}."


def _plain(value):
    """A value in plain dicts and lists, with None for nan."""
    value = value.tolist() if isinstance(value, torch.Tensor) else value
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(entry) for entry in value]
    return None if value != value else value


def _join_tokens(pairs):
    return checks.join_names((f"token {token} of input {i}" for i, token in pairs), LISTED)
