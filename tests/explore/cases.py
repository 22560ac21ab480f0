"""Problems for the engine of the interactive figures: random ones, and those that a reader makes by dragging."""

import torch

from lib.problem import Problem

HAND_MADE = {  # keys, scores
    "two tokens": ([[[1, 0], [0, 0]]], [[1, 0]]),
    "figure 1(a)": ([[[-0.1, 1], [1, 0], [0, 0]]], [[1, 0.9, 0.9]]),
    "figure 1(b)": ([[[-0.1, 1], [1, 0], [0, 0]]], [[1, 0.9, 0]]),
    "figure 5": ([[[1, 1], [0, 0]], [[1, -1], [0, 0]]], [[100, 0], [1, 0]]),
    "figure 8": ([[[1, 0], [0, 0]], [[-2, 1], [0, 0]]], [[1, 0], [1, 0]]),
    "two best tokens tie": ([[[1, 0], [0, 1], [0, 0]]], [[1, 1, 0]]),
    "all scores tie": ([[[1, 0], [0, 1], [0, 0]]], [[1, 1, 1]]),
    "all scores of one input tie": ([[[1, 0], [0, 1]], [[0, 0], [1, 1]]], [[1, 1], [2, 0]]),
    "two tokens on one spot": ([[[1, 0], [1, 0], [0, 0]]], [[1, 0.5, 0]]),
    "two equal tokens": ([[[1, 0], [1, 0], [0, 0]]], [[1, 1, 0]]),
    "all tokens on one spot": ([[[1, 2], [1, 2], [1, 2]]], [[1, 0.5, 0]]),
    "best token inside": ([[[0.1, 0.1], [1, 0], [-1, 1], [-1, -1]]], [[1, 0, 0, 0]]),
    "tokens on a line, best in the middle": ([[[0, 0], [1, 1], [-1, -1]]], [[1, 0, 0.5]]),
    "tokens on a line, best at the end": ([[[2, 2], [1, 1], [0, 0]]], [[1, 0, 0.5]]),
    "inputs that contradict each other": ([[[1, 0], [0, 0]], [[-1, 0], [0, 0]]], [[1, 0], [1, 0]]),
    "inputs that contradict each other by a hair": ([[[1, 0], [0, 0]], [[-1, 1e-4], [0, 0]]], [[1, 0], [1, 0]]),
    "many neighbours": ([[[0, 0], [-1, 1], [-1, 0], [-1, -1]]], [[1, 0.5, 0.2, 0]]),
    "neighbours that tie with the best": ([[[0, 1], [1, 0], [-1, 0]]], [[1, 1, 1]]),
    "far apart": ([[[300, 0], [0, 400], [-500, -300]]], [[1, 0.2, 0]]),
    "close together": ([[[1e-3, 0], [0, 1e-3], [0, 0]]], [[1, 0.5, 0]]),
    "scores far apart": ([[[1, 0], [0, 1], [0, 0]]], [[100, 1, -100]]),
    "negative scores": ([[[1, 0], [0, 1], [0, 0]]], [[-1, -2, -3]]),
}


def hand_made():
    """Problems by name."""
    return {
        name: Problem(*(torch.tensor(part, dtype=torch.float64) for part in parts)) for name, parts in HAND_MADE.items()
    }


def random(count, generator):
    """Problems of 1 to 3 inputs with 2 to 7 tokens each; of half of them the scores are equal in places."""
    made = []
    for k in range(count):
        n, T = (int(torch.randint(low, high, (), generator=generator)) for low, high in ((1, 4), (2, 8)))
        spread = torch.randn(n, T, 2, generator=generator, dtype=torch.float64)
        scores = torch.rand(n, T, generator=generator, dtype=torch.float64)
        if k % 2:
            spread[..., 0] += 3.0 * torch.nn.functional.one_hot(torch.zeros(n, dtype=torch.long), T)  # separable, often
            scores = (2 * scores).round() / 2
        if k % 8 == 3:
            spread = spread.round()  # tokens on one spot, on one line, at equal margins
        made.append(Problem(spread, scores))
    return made
