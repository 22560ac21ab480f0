"""Time the separator of a large problem: ``python -m benchmarks.factored 2000x128x768``, or smaller by default.

Inputs x tokens x width, Gaussian in float32, the choice that a random W makes; threads are torch's own, as
``OMP_NUM_THREADS`` says. A line a size: seconds, the gap that was asked for and met, and the largest memory so far.
"""

import sys
import time

import torch

from lib.factored import factored_separator
from lib.geometry import one_minus_cosine
from lib.problem import Problem
from lib.selection import selected_tokens

from .measure import peak_memory

SIZES = ("100x16x48", "200x32x96", "400x64x192")
GAP = 2e-2


def drawn(inputs, tokens, width):
    """Return a problem, the choice that a random W makes, and W."""
    draw = torch.Generator().manual_seed(0)
    sizes = (inputs, tokens, width), (inputs, width), (width**2,)
    keys, queries, theta = (torch.randn(*size, generator=draw, dtype=torch.float32) for size in sizes)
    problem = Problem(keys, torch.zeros(inputs, tokens, dtype=torch.float32), queries)
    return problem, selected_tokens(problem, theta), theta


def main():
    """Time each size that the command line names."""
    for size in sys.argv[1:] or SIZES:
        problem, selected, theta = drawn(*map(int, size.split("x")))
        start = time.perf_counter(), time.process_time()
        separator = factored_separator(problem, selected, GAP)
        taken, busy = time.perf_counter() - start[0], time.process_time() - start[1]
        away = one_minus_cosine(theta, separator.theta).item()
        print(
            f"{size}: {taken:.1f} s on {torch.get_num_threads()} threads, {busy:.1f} s of processor,"
            f" gap {separator.gap:.3f} of {GAP:g}, {peak_memory() / 2**30:.2f} GiB, 1 - cos of W {away:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
