"""The works that are timed: a case is one part of a work in one style, and what it takes on few or many trials.

Everything is drawn from seeded generators. Slow styles do few trials, or a share of the steps: ``units`` says how many
whole units of the work a case does, so that times can be compared by the unit.
"""

from collections.abc import Callable
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

from . import floor, published, tensors, textbook

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


class Case(NamedTuple):
    """One part of a work in one style.

    work, part, style : str
    units : float
        How many units of the work ``function`` does.
    function : callable
        Without arguments; or, where the style is "floor", the arithmetic of one unit (lib has no say in it).
    grown : (str, float), optional
        The part that is like this one but smaller, and how many times as long this one may take: it is left out where
        that would be too long.
    """

    work: str
    part: str
    style: str
    units: float
    function: Callable | floor.Count
    grown: tuple[str, float] | None = None


def both(work, part, units, function, grown=None):
    """Return a case of the library on one core and one on all."""
    return [Case(work, part, style, units, function, grown) for style in (ONE, ALL)]


def cases(quick):
    """Yield all cases, work by work; what one has drawn is gone before the next is drawn."""
    for work in (figure_9, divergence, flow, joint_descent, separators, growth):
        yield from work(quick)


def warm_up():
    """Call, on almost nothing, all that compiles or imports itself at its first call."""
    data = on_sphere(2, 3, 2, 2, drawn())
    prompts, pairs = from_tokens(*data), JointProblem(data.tokens, data.labels)
    matrices = from_tokens(*data[:3], queries=data.tokens[..., 0, :])
    rule = normalised(0.1)
    run(prompts, logistic, zeros(prompts, 2), rule, 2)
    joint.run(pairs, logistic, data.head, data.head, rule, rule, 2)
    log_time_flow(prompts, logistic, data.head, [1.0])
    for p in PUBLISHED:
        run(matrices, logistic, zeros(matrices, 2), normalised(0.1, p), 2, norm=p)
        hard_margin(gaussian_rows(3, 4), p)
        published.svm(gaussian_rows(3, 4)[0], p)


def drawn(seed=0):
    """Return a generator."""
    return torch.Generator().manual_seed(seed)


def zeros(problem, trials):
    """Return starts at zero."""
    return torch.zeros(trials, problem.parameter_size, dtype=torch.float64)


def solved(all_rows, norm=2.0):
    """Solve SVMs by cvxpy, one after the other."""
    for rows in all_rows:
        published.svm(rows, norm)


def svm_count(rows, norm=2.0):
    """Arithmetic of the average SVM of a batch of rows (..., m, D), its support vectors known."""
    found = hard_margin(rows, norm)
    active = (found.duals > 1e-9 * found.duals.amax(-1, keepdim=True)).double().sum(-1)[found.feasible]
    counts = [floor.svm(rows.shape[-2], rows.shape[-1], number) for number in active.reshape(-1).tolist()]
    return floor.Count(sum(count.multiply_adds for count in counts) / len(counts), 0)


def figure_9(quick, n=4, T=6, d=10, iterations=1000):
    """Yield Figure 9 of arXiv:2306.13596 at one width: normalised steps from zero, and SVMs of two choices."""
    trials, few, share = (200, 2, 0.25) if quick else (1000, 10, 1)
    data, some = on_sphere(n, T, d, trials, drawn()), round(share * iterations)
    problem, rule = from_tokens(*data), normalised(1.0)
    start, tokens, labels, heads = zeros(problem, trials), *(part.float() for part in data[:3])

    def as_published():
        for k in range(few):
            published.descend(published.Attention(tokens[k], heads[k], start[k].float()), labels[k], 1.0, iterations)

    steps = {
        "published": (few, as_published),
        "textbook": (share * trials, lambda: textbook.descend(problem, start, 1.0, some)),
        "tensors": (share * trials, lambda: tensors.descend(problem, logistic, start, rule, some)),
    }
    yield from (Case("figure-9", "steps", style, *task) for style, task in steps.items())
    yield from both("figure-9", "steps", trials, lambda: run(problem, logistic, start, rule, iterations, [iterations]))
    yield Case("figure-9", "steps", "floor", 1, floor.step(n, T, d).times(iterations))

    end = run(problem, logistic, start, rule, iterations, [iterations]).theta[-1]
    choices = torch.stack([selected_tokens(problem, end), optimal_tokens(problem)])
    rows = difference_rows(problem, choices)
    yield from _svms("figure-9", "SVMs", rows, 2.0, few, trials)


def _svms(work, part, rows, norm, few, units):
    """Yield the SVMs of rows (choices, problems, m, D) in the published style and in the library's."""
    some = rows[:, :few].flatten(0, 1)
    for style in ("published", "textbook"):  # no textbook has them in a batch
        yield Case(work, part, style, few, lambda: solved(some, norm))
    yield from both(work, part, units, lambda: hard_margin(rows, norm))
    yield Case(work, part, "floor", 1, svm_count(rows[:, : 10 * few], norm).times(len(rows)))


def divergence(quick, n=6, T=8, d=10):
    """Yield the divergence figure of arXiv:2410.14581: runs of three p for each seed, and nine SVMs."""
    seeds, few = 100, 1 if quick else 2
    data, generator = on_sphere(n, T, d, seeds, drawn()), drawn(1)
    queries = unit(torch.randn(seeds, n, d, generator=generator, dtype=torch.float64))
    problem = from_tokens(data.tokens, data.labels, data.head, queries=queries)
    start = torch.randn(seeds, d * d, generator=generator, dtype=torch.float64)
    tokens, labels, heads, asked = (part[:few].float() for part in (*data[:3], queries))
    models = [
        published.Attention(*one) for one in zip(tokens, heads, start[:few].float().view(-1, d, d), asked, strict=True)
    ]
    choices = []
    for p in PUBLISHED:
        yield from _divergence_steps(quick, problem, start, list(zip(models, labels, strict=True)), p)
        end = run(problem, logistic, start, normalised(0.1, p), 1000, [1000], p).theta[-1]
        choices.append(selected_tokens(problem, end))
    rows = difference_rows(problem, torch.stack(choices))
    for q in PUBLISHED:
        yield from _svms("divergence", f"SVMs, q = {q:g}", rows, q, few, seeds)


def _divergence_steps(quick, problem, start, trials, p):
    """Yield the runs of one p: a share of the steps for the slow styles, as each step costs the same."""
    work, part, iterations, rule = "divergence", f"p = {p:g}", PUBLISHED[p], normalised(0.1, p)
    share, ours = (0.01, 0.1) if quick else (0.1, 1)
    some, more = round(share * iterations), round(ours * iterations)

    def as_published():
        for model, labels in trials:
            published.descend(model, labels, 0.1, some, p)

    yield Case(work, part, "published", share * len(trials), as_published)
    units = share * len(start)
    yield Case(work, part, "textbook", units, lambda: textbook.descend(problem, start, 0.1, some, p))
    yield Case(work, part, "tensors", units, lambda: tensors.descend(problem, logistic, start, rule, some, p))
    yield from both(work, part, ours * len(start), lambda: run(problem, logistic, start, rule, more, [more], p))
    inputs, tokens, size = problem.keys.shape[-3:]
    count = floor.step(inputs, tokens, size, problem.queries.shape[-1], p)
    yield Case(work, part, "floor", 1, count.times(iterations))


def flow(quick, T=6, d=4, log_time=10000.0):
    """Yield flows in log time of problems with one input, as in the chapter on Theorem 2, from saturated starts."""
    count, generator = 4 if quick else 16, drawn()
    keys = torch.randn(count, 1, T, d, generator=generator, dtype=torch.float64)
    problem = Problem(keys, one_best(1, T, count, generator))
    start = 10 * torch.randn(count, d, generator=generator, dtype=torch.float64)
    calls = [tensors.flow(problem[k], logistic, start[k], log_time)[1] for k in range(count)]

    def by_hand():
        for k in range(count):
            tensors.flow(problem[k], logistic, start[k], log_time)

    yield Case("flow", "flow", "tensors", count, by_hand)
    yield from both("flow", "flow", count, lambda: log_time_flow(problem, logistic, start, [log_time]))
    yield Case("flow", "flow", "floor", 1, floor.step(1, T, d).times(sum(calls) / count))


def joint_descent(quick, iterations=1000):
    """Yield Figure 3 of arXiv:2306.13596: head and prompt trained together, both panels."""
    problem = stack([JointProblem(*figure_3(panel)) for panel in "ab"])
    head, theta = torch.tensor([[-1.0, 0.0], [0.0, -1.0]], dtype=torch.float64)[:, None].expand(2, 2, 2)
    share, rule = 0.1 if quick else 0.5, normalised(0.1)
    some, more = round(share * iterations), iterations

    def as_published():
        for tokens, labels in zip(problem.tokens.float(), problem.labels.float(), strict=True):
            model = published.Attention(tokens, head[0].float(), theta[0].float())
            published.descend(model, labels, 0.1, some, train_head=True)

    case = ("joint", "steps")
    yield Case(*case, "published", share, as_published)
    yield Case(*case, "textbook", share, lambda: textbook.descend_jointly(problem, head, theta, 0.1, some))
    yield Case(*case, "tensors", share, lambda: tensors.descend_jointly(problem, logistic, head, theta, rule, some))
    yield from both(*case, 1, lambda: joint.run(problem, logistic, head, theta, rule, rule, more, [more]))
    yield Case(*case, "floor", 1, floor.joint_step(3, 2, 2).times(2 * iterations))


def separators(quick):
    """Yield SVMs alone: many small ones, and large ones of an l_2 norm."""
    few, many = (3, 100) if quick else (20, 1000)
    small = sphere_rows(4, 6, 10, many)
    yield from _alone("l2, 20 x 10", small, 2.0, few)
    for p in (1.75, 3.0):
        yield from _alone(f"l{p:g}, 42 x 100", sphere_rows(6, 8, 10, 20 if quick else 100, queries=True), p, few)
    if not quick:
        yield from _alone("l2, 1,900 x 1,024", gaussian_rows(1900, 1024), 2.0, 1)
    smaller = None
    for m in (1000,) if quick else (1000, 10_000, 100_000):
        part = f"l2, {m:,} x 512, few support vectors"
        rows = rows_with_few_support_vectors(m, 512)
        if m == 1000 and not quick:
            yield Case("separators", part, "published", 1, lambda rows=rows: published.svm(rows[0]))
        yield from both("separators", part, 1, lambda rows=rows: hard_margin(rows), smaller)
        yield Case("separators", part, "floor", 1, floor.svm(m, 512, FEW))
        smaller = part, 10.0


def _alone(part, rows, norm, few):
    """Yield the SVMs of rows (problems, m, D), in which the published style does a few."""
    yield Case("separators", part, "published", few, lambda: [published.svm(one, norm) for one in rows[:few]])
    yield from both("separators", part, len(rows), lambda: hard_margin(rows, norm))
    yield Case("separators", part, "floor", 1, svm_count(rows[: 10 * few], norm))


def sphere_rows(n, T, d, trials, queries=False):
    """Difference rows of random problems on the sphere, for the optimal tokens, those that can be separated."""
    data, generator = on_sphere(n, T, d, trials, drawn()), drawn(1)
    asked = unit(torch.randn(trials, n, d, generator=generator, dtype=torch.float64)) if queries else None
    problem = from_tokens(data.tokens, data.labels, data.head, queries=asked)
    rows = difference_rows(problem, optimal_tokens(problem))
    return rows[hard_margin(rows).feasible]


def gaussian_rows(m, d):
    """One set of Gaussian rows (1, m, d) on one side of a plane: nearly as many support vectors as it can have."""
    rows = torch.randn(m, d, generator=drawn(), dtype=torch.float64)
    return (rows * torch.where(rows[:, :1] < 0, -1.0, 1.0))[None]


FEW = 32


def rows_with_few_support_vectors(m, d):
    """One set of rows (1, m, d): FEW with margin 1 to a direction, the others at 1.5 and far beyond."""
    generator = drawn()
    rows = torch.randn(m, d, generator=generator, dtype=torch.float64)
    rows[:, 0] = 10 * (1.5 + torch.rand(m, generator=generator, dtype=torch.float64) * 3)
    rows[:FEW, 0] = 10.0
    return rows[None]


def growth(quick):
    """Yield a step of one trial as one of its sizes grows, the others being those of Figure 9."""
    usual = {"trials": 100, "T": 6, "n": 4, "d": 10}
    grown = {"trials": (1, 10, 1000, 10_000), "T": (24, 96, 384), "n": (16, 64, 256), "d": (40, 160, 640)}
    yield from _grown("trials = 100, n = 4, T = 6, d = 10", **usual)
    for name, sizes in grown.items():
        for size in sizes[:1] if quick else sizes:
            yield from _grown(f"{name} = {size:,}", **(usual | {name: size}))


def _grown(part, trials, n, T, d):
    data = on_sphere(n, T, d, trials, drawn())
    problem, start, rule = from_tokens(*data), zeros(from_tokens(*data), trials), normalised(0.1)
    steps = max(10, min(1000, round(2e7 / (trials * n * T * d))))
    tokens, labels, head = (part[0].float() for part in data[:3])
    model = published.Attention(tokens, head, start[0].float())
    yield Case("growth", part, "published", 50, lambda: published.descend(model, labels, 0.1, 50))
    units = steps * trials
    yield Case("growth", part, "textbook", units, lambda: textbook.descend(problem, start, 0.1, steps))
    yield Case("growth", part, ONE, units, lambda: run(problem, logistic, start, rule, steps, [steps]))
    yield Case("growth", part, "floor", 1, floor.step(n, T, d))
