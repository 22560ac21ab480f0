"""Time SVMs beside other solvers, and Figure 9's work beside the published style, on one core: ``make bench``.

``RECORD=1`` writes the times into ``book/recorded/benchmarks.json`` too, which the page *Library* shows. Solvers that
are not installed are left out: ``pip install daqp quadprog piqp``.
"""

import json
import os
import platform
import statistics
import time
import timeit
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec

import torch

from lib.datasets import on_sphere
from lib.descent import normalised, run
from lib.losses import logistic
from lib.problem import difference_rows, from_tokens
from lib.selection import optimal_tokens, selected_tokens
from lib.separators import hard_margin
from workflow.book import fresh_seeds
from workflow.commands import call
from workflow.run.chapter import cpu
from workflow.site.runs import TIMED

from . import published
from .solvers import SOLVERS

RUNS, FEW = 5, 10  # runs of which the median counts; trials of Figure 9 in the published style
PACKAGES = ("torch", "numpy", "numba", "cvxpy", "clarabel", *SOLVERS)


def cases():
    """Yield task, style, how many units the task is done, and the function that does them."""
    small = sphere_rows()
    tasks = {"SVM, 20 x 10, one at a time": small, f"SVM, 20 x 10, {len(small)} in a batch": small}
    tasks |= {"SVM, 200 x 50": gaussian_rows(200, 50, 20), "SVM, 2,000 x 200": gaussian_rows(2000, 200, 1)}
    for task, batch in tasks.items():
        ours = [batch] if task.endswith("batch") else batch
        yield task, "lib", len(batch), lambda ours=ours: [hard_margin(rows) for rows in ours]
        for name in filter(find_spec, SOLVERS):
            solvers = [SOLVERS[name](rows) for rows in batch.numpy()]
            yield task, name, len(batch), lambda solvers=solvers: [solve() for solve in solvers]
    yield from figure_9()


def sphere_rows():
    """Rows (N, 20, 10) for the optimal tokens of random problems as in Figure 9, those that can be separated."""
    problem = from_tokens(*spheres()[:3])
    rows = difference_rows(problem, optimal_tokens(problem))
    return rows[hard_margin(rows).feasible]


def spheres(trials=1000):
    """Problems of Figure 9 of arXiv:2306.13596, in width 10."""
    return on_sphere(4, 6, 10, trials, torch.Generator().manual_seed(0))


def gaussian_rows(m, d, times):
    """Gaussian rows (m, d) on one side of a plane, so many times: nearly as many support vectors as they can have."""
    rows = torch.randn(m, d, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return (rows * torch.where(rows[:, :1] < 0, -1.0, 1.0)).expand(times, -1, -1)


def figure_9(trials=1000, steps=1000):
    """Yield a trial of Figure 9 in both styles: normalised steps from zero, and the SVMs of two choices of tokens."""
    data = spheres(trials)
    problem, start = from_tokens(*data[:3]), torch.zeros_like(data.head)
    descend = partial(run, problem, logistic, start, normalised(1.0), steps, [steps])
    choices = torch.stack([selected_tokens(problem, descend().theta[-1]), optimal_tokens(problem)])
    rows = difference_rows(problem, choices)

    def as_published():
        for k in range(FEW):
            published.descend(data.tokens[k], data.head[k], data.labels[k], steps)
            for choice in rows[:, k]:
                published.svm(choice)

    yield "Figure 9, a trial", "lib", trials, lambda: (descend(), hard_margin(rows))
    yield "Figure 9, a trial", "published style", FEW, as_published


def milliseconds(function, units):
    """Median processor time of a unit, of runs after a first one, which pays for imports and compiled code."""
    function()
    return 1000 / units * statistics.median(timeit.repeat(function, timer=time.process_time, repeat=RUNS, number=1))


def main():
    """Measure everything, print it as it goes, and record it if asked."""
    record = bool(os.environ.get("RECORD"))
    about, found = {"commit": fresh_seeds.commit() if record else "", "cpu": cpu()}, {}
    torch.set_num_threads(1)
    for task, style, units, function in cases():
        found.setdefault(task, {})[style] = float(f"{milliseconds(function, units):.4g}")
        print(f"{task:30} {style:16} {found[task][style]:>8g} ms", flush=True)
    if record:
        about["versions"] = {"python": platform.python_version()}
        about["versions"] |= {name: version(name) for name in PACKAGES if find_spec(name)}
        TIMED.write_text(json.dumps([about | {"milliseconds": found}], indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    call(main)
