"""The works that are timed: a case is one part of a work in one style, and what it takes on few or many trials.

Everything is drawn from seeded generators. Slow styles do few trials, or a share of the steps: ``units`` says how many
whole units of the work a case does, so that times can be compared by the unit.
"""

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import torch

from lib import joint
from lib.datasets import figure_3, on_sphere, one_best
from lib.descent import normalised, run
from lib.flow import log_time_flow
from lib.geometry import unit
from lib.joint import JointProblem
from lib.losses import logistic
from lib.problem import Problem, difference_rows, from_tokens, stack
from lib.selection import optimal_tokens, selected_tokens
from lib.separators import hard_margin

from . import floor, published, tensors

ONE, ALL = "one core", "all cores"
WORKS = {  # words of the page
    "figure-9": {"title": "Figure 9, a trial: 1,000 steps, two SVMs", "unit": "trial"},
    "divergence": {"title": "Divergence figure, a seed: runs of three p, nine SVMs", "unit": "seed"},
    "flow": {"title": "A flow in log time, to log t = 10,000", "unit": "flow"},
    "joint": {"title": "Figure 3, both panels: 1,000 joint steps", "unit": "run of both panels"},
    "separators": {"title": "SVM", "unit": "SVM"},
    "growth": {"title": "A step", "unit": "step of one trial"},
}
PUBLISHED = {1.75: 1500, 2.0: 2000, 3.0: 20000}  # steps of the divergence figure for each p
FEW = 32  # support vectors of large SVMs


class Case(NamedTuple):
    """Part of a work in one style; ``function`` does so many ``units``, or is, of a floor, the arithmetic of one."""

    work: str
    part: str
    style: str
    units: float
    function: Callable | floor.Count


def cases(quick):
    """Yield all cases, work by work; what one has drawn is gone before the next is drawn."""
    for work in (figure_9, divergence, flow, joint_descent, separators, growth):
        for case in work(quick):
            yield case
            if case.style == ONE and case.work != "growth":
                yield case._replace(style=ALL)


def drawn(seed=0):
    """Return a generator."""
    return torch.Generator().manual_seed(seed)


class Descent:
    """Normalised (mirror) descent of many trials in each style; of a matrix where there are queries (trials, n, d)."""

    def __init__(self, data, start, step_size, norm=2.0, queries=None):
        self.problem = from_tokens(*data[:3], queries=queries)
        self.start, self.step_size, self.norm = start, step_size, norm
        shape = start.shape[-1:] if queries is None else (data.tokens.shape[-1], queries.shape[-1])
        single = [part.float() for part in (data.tokens, data.head, start.unflatten(-1, shape), data.labels)]
        self.trials = list(zip(*single, *([] if queries is None else [queries.float()]), strict=True))

    def published(self, trials, iterations):
        """Descend one trial after the other."""
        ends = []
        for tokens, head, start, labels, *queries in self.trials[:trials]:
            model = published.Attention(tokens, head, start, *queries)
            ends.append(published.descend(model, labels, self.step_size, iterations, self.norm)[1].flatten())
        return ends

    def tensors(self, style, iterations):
        """Descend all at once, by ``tensors.textbook`` or ``tensors.exact``."""
        return tensors.descend(style, self.problem, self.start, self.step_size, iterations, self.norm)

    def library(self, iterations):
        """Descend as chapters do."""
        rule = normalised(self.step_size, self.norm)
        return run(self.problem, logistic, self.start, rule, iterations, [iterations], self.norm).theta[-1]

    def floor(self):
        """Return the arithmetic of a step."""
        queries = self.problem.queries
        return floor.step(*self.problem.keys.shape[-3:], 0 if queries is None else queries.shape[-1], self.norm)

    def cases(self, work, part, iterations, few, share):
        """Yield descents of ``few`` trials, or of all, to a share of the steps; the library's to ten times as many."""
        some, more, trials = round(share * iterations), round(min(1, 10 * share) * iterations), len(self.start)
        yield Case(work, part, "published", few * some / iterations, lambda: self.published(few, some))
        units = trials * some / iterations
        yield Case(work, part, "textbook", units, lambda: self.tensors(tensors.textbook, some))
        yield Case(work, part, "tensors", units, lambda: self.tensors(tensors.exact, some))
        yield Case(work, part, ONE, trials * more / iterations, lambda: self.library(more))
        yield Case(work, part, "floor", 1, self.floor().times(iterations))


def svms(work, part, rows, norm, few):
    """Yield the SVMs of rows (choices, problems, m, D); the published style does those of a few problems."""
    some = rows[:, :few].flatten(0, 1)
    for style in ("published", "textbook") if work != "separators" else ("published",):  # no textbook has them batched
        if few:
            yield Case(work, part, style, few, lambda: [published.svm(one, norm) for one in some])
    yield Case(work, part, ONE, rows.shape[1], lambda: hard_margin(rows, norm))
    yield Case(work, part, "floor", 1, svm_count(rows[:, : max(1, 10 * few)], norm).times(len(rows)))


def svm_count(rows, norm=2.0):
    """Arithmetic of the average SVM of a batch of rows (..., m, D), its support vectors known."""
    found = hard_margin(rows, norm)
    active = (found.duals > 1e-9 * found.duals.amax(-1, keepdim=True)).double().sum(-1)[found.feasible]
    counts = [floor.svm(*rows.shape[-2:], number).multiply_adds for number in active.flatten().tolist()]
    return floor.Count(sum(counts) / len(counts), 0)


def figure_9(quick, n=4, T=6, d=10):
    """Yield Figure 9 of arXiv:2306.13596 at one width: normalised steps from zero, and SVMs of two choices."""
    trials, few, share = (200, 2, 0.25) if quick else (1000, 10, 1)
    data = on_sphere(n, T, d, trials, drawn())
    descent = Descent(data, torch.zeros_like(data.head), 1.0)
    yield from descent.cases("figure-9", "steps", 1000, few, share)
    choices = [selected_tokens(descent.problem, descent.library(1000)), optimal_tokens(descent.problem)]
    yield from svms("figure-9", "SVMs", difference_rows(descent.problem, torch.stack(choices)), 2.0, few)


def divergence(quick, n=6, T=8, d=10, seeds=100):
    """Yield the divergence figure of arXiv:2410.14581: runs of three p for each seed, and nine SVMs."""
    few, share = (1, 0.01) if quick else (2, 0.1)
    data, generator = on_sphere(n, T, d, seeds, drawn()), drawn(1)
    queries = unit(torch.randn(seeds, n, d, generator=generator, dtype=torch.float64))
    start = torch.randn(seeds, d * d, generator=generator, dtype=torch.float64)
    choices = []
    for p, iterations in PUBLISHED.items():
        descent = Descent(data, start, 0.1, p, queries)
        yield from descent.cases("divergence", f"p = {p:g}", iterations, few, share)
        choices.append(selected_tokens(descent.problem, descent.library(1000)))
    rows = difference_rows(descent.problem, torch.stack(choices))
    for q in PUBLISHED:
        yield from svms("divergence", f"SVMs, q = {q:g}", rows, q, few)


def flow(quick, T=6, d=4, log_time=10000.0):
    """Yield flows in log time of problems with one input, as in the chapter on Theorem 2, from saturated starts."""
    count, generator = 4 if quick else 16, drawn()
    keys = torch.randn(count, 1, T, d, generator=generator, dtype=torch.float64)
    problem = Problem(keys, one_best(1, T, count, generator))
    start = 10 * torch.randn(count, d, generator=generator, dtype=torch.float64)

    def by_hand():
        return sum(tensors.flow(problem[k], start[k], log_time)[1] for k in range(count))

    yield Case("flow", "flow", "tensors", count, by_hand)
    yield Case("flow", "flow", ONE, count, lambda: log_time_flow(problem, logistic, start, [log_time]))
    yield Case("flow", "flow", "floor", 1, floor.step(1, T, d).times(by_hand() / count))


def joint_descent(quick, iterations=1000):
    """Yield Figure 3 of arXiv:2306.13596: head and prompt trained together, both panels."""
    problem = stack([JointProblem(*figure_3(panel)) for panel in "ab"])
    start = torch.tensor([[-1.0, 0.0], [0.0, -1.0]], dtype=torch.float64)[:, None].expand(2, 2, 2)
    share, rule = 0.1 if quick else 0.5, normalised(0.1)
    some = round(share * iterations)

    def as_published():
        for tokens, labels in zip(problem.tokens.float(), problem.labels.float(), strict=True):
            model = published.Attention(tokens, *start[:, 0].float())
            published.descend(model, labels, 0.1, some, train_head=True)

    yield Case("joint", "steps", "published", share, as_published)
    for name, style in {"textbook": tensors.textbook_jointly, "tensors": tensors.exact_jointly}.items():
        by_tensors = partial(tensors.descend_jointly, style, problem, *start, 0.1, some)
        yield Case("joint", "steps", name, share, by_tensors)
    by_library = partial(joint.run, problem, logistic, *start, rule, rule, iterations, [iterations])
    yield Case("joint", "steps", ONE, 1, by_library)
    count = floor.Count(4 * 3 * 2 * 2, 3 * 2 + 3)  # of a step: logits, scores, features, and the way back
    yield Case("joint", "steps", "floor", 1, count.times(2 * iterations))


def separators(quick):
    """Yield SVMs alone: many small ones, and large ones of an l_2 norm."""
    few, many, more = (3, 100, 20) if quick else (20, 1000, 100)
    yield from svms("separators", "l2, 20 x 10", sphere_rows(4, 6, 10, many), 2.0, few)
    for p in (1.75, 3.0):
        yield from svms("separators", f"l{p:g}, 42 x 100", sphere_rows(6, 8, 10, more, queries=True), p, few)
    if not quick:
        yield from svms("separators", "l2, 1,900 x 1,024", gaussian_rows(1900, 1024)[None], 2.0, 1)
    for m in (1000,) if quick else (1000, 10_000, 100_000):
        part, rows = f"l2, {m:,} x 512, few support vectors", rows_with_few_support_vectors(m, 512)[None]
        yield from svms("separators", part, rows, 2.0, 0 if quick or m > 1000 else 1)


def sphere_rows(n, T, d, trials, queries=False):
    """Rows (1, problems, m, D) for the optimal tokens of random problems on the sphere that can be separated."""
    data, generator = on_sphere(n, T, d, trials, drawn()), drawn(1)
    asked = unit(torch.randn(trials, n, d, generator=generator, dtype=torch.float64)) if queries else None
    problem = from_tokens(*data[:3], queries=asked)
    rows = difference_rows(problem, optimal_tokens(problem))
    return rows[hard_margin(rows).feasible][None]


def gaussian_rows(m, d):
    """One set of Gaussian rows (1, m, d) on one side of a plane: nearly as many support vectors as it can have."""
    rows = torch.randn(m, d, generator=drawn(), dtype=torch.float64)
    return (rows * torch.where(rows[:, :1] < 0, -1.0, 1.0))[None]


def rows_with_few_support_vectors(m, d):
    """One set of rows (1, m, d): FEW with margin 1 to a direction, the others at 1.5 and far beyond."""
    generator = drawn()
    rows = torch.randn(m, d, generator=generator, dtype=torch.float64)
    rows[:, 0] = 10 * (1.5 + torch.rand(m, generator=generator, dtype=torch.float64) * 3)
    rows[:FEW, 0] = 10.0
    return rows[None]


def growth(quick):
    """Yield a step of one trial as one of its sizes grows, the others being those of Figure 9."""
    usual = {"trials": 100, "n": 4, "T": 6, "d": 10}
    grown = {"trials": (1, 10, 1000, 10_000), "T": (24, 96, 384), "n": (16, 64, 256), "d": (40, 160, 640)}
    yield from _grown("trials = 100, n = 4, T = 6, d = 10", **usual)
    for name, sizes in grown.items():
        for size in sizes[:1] if quick else sizes:
            yield from _grown(f"{name} = {size:,}", **(usual | {name: size}))


def _grown(part, trials, n, T, d):
    steps = max(10, min(1000, round(2e7 / (trials * n * T * d))))
    data = on_sphere(n, T, d, trials, drawn())
    descent = Descent(data, torch.zeros_like(data.head), 0.1)
    yield Case("growth", part, "published", 50, lambda: descent.published(1, 50))
    yield Case("growth", part, "textbook", steps * trials, lambda: descent.tensors(tensors.textbook, steps))
    yield Case("growth", part, ONE, steps * trials, lambda: descent.library(steps))
    yield Case("growth", part, "floor", 1, descent.floor())
