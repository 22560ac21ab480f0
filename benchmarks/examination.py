"""Time the examination of a head: ``python -m benchmarks.examination 100x32x64``, inputs x tokens x width."""

import sys
import timeit

import torch

from heads import examine
from lib.problem import Problem

from .measure import peak_memory

for size in sys.argv[1:] or ("40x16x64", "100x32x64"):
    inputs, tokens, width = map(int, size.split("x"))
    draw, shapes = torch.Generator().manual_seed(0), ((inputs, tokens, width), (inputs, tokens), (inputs, width))
    problem = Problem(*(torch.randn(*shape, generator=draw, dtype=torch.float32) for shape in shapes))
    theta = torch.randn(width**2, generator=draw, dtype=torch.float32)
    seconds = timeit.timeit(lambda problem=problem, theta=theta: examine(problem, theta), number=1)
    print(f"Examination of {size}: {seconds:.2g} s, at most {peak_memory() / 2**30:.2f} GiB", flush=True)
