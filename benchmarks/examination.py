"""Time what it takes to examine a head: ``python -m benchmarks.examination 2000x128x768``, or smaller by default.

Inputs x tokens x width, Gaussian in float32; the first size is examined exactly, the others, as one of their sizes
grows, without forming a row. Threads are torch's own, as ``OMP_NUM_THREADS`` says. ``QUICK=1`` takes two sizes.
"""

import os
import sys
import time

import torch

from lib.examination import examine
from lib.problem import Problem

from .measure import peak_memory

SIZES = ("40x16x64", "200x32x192", "800x32x192", "200x128x192", "200x32x768")


def drawn(inputs, tokens, width):
    """Return a problem and a matrix."""
    draw = torch.Generator().manual_seed(0)
    sizes = (inputs, tokens, width), (inputs, tokens), (inputs, width), (width**2,)
    keys, scores, queries, theta = (torch.randn(*size, generator=draw, dtype=torch.float32) for size in sizes)
    return Problem(keys, scores, queries), theta


def main():
    """Time each size that the command line names: a line each, with the largest memory so far."""
    print("Examination of a head: inputs x tokens x width")
    for size in sys.argv[1:] or SIZES[: 2 if os.environ.get("QUICK") == "1" else None]:
        problem, theta = drawn(*map(int, size.split("x")))
        start = time.perf_counter(), time.process_time()
        found = examine(problem, theta)
        taken, busy = time.perf_counter() - start[0], time.process_time() - start[1]
        print(
            f"  {size:14} {taken:.2g} s on {torch.get_num_threads()} threads, {busy:.2g} s of processor, gap"
            f" {found.separator.gap.item():.1g}, {peak_memory() / 2**30:.2f} GiB; 1 - cos {found.away:.3f}, locally"
            f" optimal: {found.locally_optimal}",
            flush=True,
        )


if __name__ == "__main__":
    main()
