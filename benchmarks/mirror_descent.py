"""Times of the l_p SVM and of l_p mirror descent at the published scale (arXiv:2410.14581), on one core.

    OMP_NUM_THREADS=1 .venv/bin/python benchmarks/mirror_descent.py

100 seeds of n = 6 inputs of T = 8 unit tokens in d = 10 with unit queries: SVMs of 42 rows x 100 columns, 1500, 2000
and 20000 normalised steps of size 0.1. ``--short`` takes a tenth of the steps.
"""

import sys
import time

import torch

from lib import losses
from lib.descent import normalised, run
from lib.problem import difference_rows, from_tokens
from lib.selection import optimal_tokens
from lib.separators import hard_margin, hard_margin_cvxpy

SEEDS = 100
ITERATIONS = {1.75: 1500, 2.0: 2000, 3.0: 20000}


def problems():
    """The published instances: everything on the unit sphere, labels by a fair coin."""
    generator = torch.Generator().manual_seed(0)

    def on_sphere(*shape):
        return torch.nn.functional.normalize(torch.randn(*shape, generator=generator, dtype=torch.float64), dim=-1)

    labels = 2.0 * torch.randint(0, 2, (SEEDS, 6), generator=generator) - 1
    return from_tokens(on_sphere(SEEDS, 6, 8, 10), labels, on_sphere(SEEDS, 10), queries=on_sphere(SEEDS, 6, 10))


def timed(what, function, *arguments, **options):
    """Result of a call; prints its time."""
    start = time.perf_counter()
    result = function(*arguments, **options)
    print(f"{what}: {time.perf_counter() - start:.2f} s", end="")
    return result


def main():
    """Time SVMs for many p, cvxpy beside them, and the runs."""
    problem = problems()
    rows = difference_rows(problem, optimal_tokens(problem))
    for order in (2.0, 1.0, 1.05, 1.1, 1.5, 1.75, 3.0, 10.0, 30.0, float("inf")):
        separator = timed(f"{SEEDS} SVMs with p = {order:g}, NNLS included", hard_margin, rows, order)
        print(f", largest gap {separator.gap.max():.1e}")
    for order in (1.75, 3.0):
        timed(f"one SVM with p = {order:g}", hard_margin, rows[0], order)
        print(f", gap {hard_margin(rows[0], order).gap:.1e}")
        separator = timed(f"the same in cvxpy with p = {order:g}", hard_margin_cvxpy, rows[0], order)
        print(f", gap {separator.gap:.1e}")
    part = 10 if "--short" in sys.argv else 1
    for order, iterations in ITERATIONS.items():
        steps, rule = iterations // part, normalised(0.1, order)
        timed(
            f"{SEEDS} runs of {steps} steps with p = {order:g}",
            run, problem, losses.logistic, torch.zeros(SEEDS, 100, dtype=torch.float64), rule, steps, [steps], order,
        )  # fmt: skip
        print()


if __name__ == "__main__":
    main()
