"""Drawings of the pages around the chapters: computed while the site is staged, as SVG in the colours of the page.

Each returns one ``<svg>`` that is 360 units wide, so that its text is as large on a phone as the page's own; classes
take their colours from ``book/_static/pages.css``, which has a light and a dark set.
"""

import html
import math
import sys
from pathlib import Path

WIDTH = 360


def svg(height, label, *parts, width=WIDTH):
    """Return a drawing with the words that stand for it where it cannot be seen."""
    return (
        f'<svg class="drawing" viewBox="0 0 {width} {height:g}" style="--width: {width}px" role="img" '
        f'aria-label="{html.escape(label)}">{"".join(parts)}</svg>'
    )


def line(points, kind):
    """Return a curve through points."""
    through = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    return f'<polyline class="{kind}" points="{through}"/>'


def dot(x, y, radius, kind):
    """Return a circle."""
    return f'<circle class="{kind}" cx="{x:.1f}" cy="{y:.1f}" r="{radius:g}"/>'


def box(x, y, width, height, kind):
    """Return a bar."""
    return (
        f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0.8):.1f}" height="{max(height, 0.8):.1f}"/>'
    )


def words(x, y, text, kind="", anchor="start"):
    """Return a label; ``a_b`` sets b as an index of a."""
    name, _, index = text.partition("_")
    low = f'<tspan dy="3" font-size="9">{html.escape(index)}</tspan>' if index else ""
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}">{html.escape(name)}{low}</text>'


def arrow(start, end, kind):
    """Return a line with a head."""
    angle = math.atan2(end[1] - start[1], end[0] - start[0])
    wings = [(end[0] - 8 * math.cos(angle + turn), end[1] - 8 * math.sin(angle + turn)) for turn in (0.4, -0.4)]
    return line([start, end], kind) + line([wings[0], end, wings[1]], kind)


def plane(left, right, bottom, top, x, y, width):
    """Return the map from a window of the plane to a place of the drawing, both with equal scales, and its height."""
    scale = width / (right - left)
    return (lambda a, b: (x + (a - left) * scale, y + (top - b) * scale)), (top - bottom) * scale


def inside(points, window):
    """Return the first points of a path, as many as a curve needs, up to the one where it leaves the window."""
    left, right, bottom, top = window
    kept = []
    for a, b in points:
        kept.append((a, b))
        if not (left <= a <= right and bottom <= b <= top):
            break
    every = max(1, len(kept) // 120)
    return [*kept[:-1:every], kept[-1]]


def library():
    """Let this process import the library that stands beside the workflow."""
    root = str(Path(__file__).parents[1])
    if root not in sys.path:
        sys.path.insert(0, root)


def selection():
    """Return the picture of the first page with its numbers: one input, six starts, and what attention does."""
    library()
    import torch

    from lib.datasets import figure_1
    from lib.descent import normalised, run
    from lib.losses import by_name
    from lib.problem import from_tokens
    from lib.selection import optimal_tokens, selected_tokens
    from lib.separators import att_svm

    problem = from_tokens(*figure_1("b"))
    spots = torch.tensor([1.0, 0.5, 0.0, -0.5, -1.0, -1.5], dtype=problem.keys.dtype)
    starts = torch.stack([torch.zeros_like(spots), spots, torch.zeros_like(spots)], dim=-1)
    path = run(problem, by_name("logistic"), starts, normalised(0.1), 1000)
    ends, best = selected_tokens(problem, path.theta[-1])[:, 0].tolist(), int(optimal_tokens(problem)[0])
    rays = [att_svm(problem, torch.tensor([token])).theta[:2].tolist() for token in sorted(set(ends))]
    steps, middle = [0, 20, 100], int(spots.abs().argmin())
    shares = [problem.attention(path.theta[step, middle])[0].tolist() for step in steps]
    tokens = list(zip(problem.keys[0, :, :2].tolist(), problem.scores[0].tolist(), strict=True))
    above, height = _paths(tokens, path.theta[..., :2].transpose(0, 1).tolist(), ends, best, rays)
    label = (
        "The plane of keys with three tokens. Paths of a query from several starts bend onto one of two dashed rays. "
        "Below, the attention on the three tokens along one path: first equal, in the end all on the best one."
    )
    drawing = svg(height + 100, label, *above, *_shares(shares, steps, best, height + 78))
    numbers = {"starts": len(ends), "best": ends.count(best), "other": len(ends) - ends.count(best)}
    return drawing, numbers | {"before": shares[0][best], "after": shares[-1][best], "steps": steps}


def _paths(tokens, paths, ends, best, rays):
    """Return the parts of the plane above, and its height."""
    window = (-1.9, 5.1, -1.9, 4.2)
    at, height = plane(*window, 0, 0, WIDTH)
    parts = []
    for x, y in rays:
        end = inside([(0.06 * k * x, 0.06 * k * y) for k in range(101)], window)[-1]
        parts.append(line([at(0, 0), at(*end)], "ray"))
    for points, end in zip(paths, ends, strict=True):
        parts.append(
            line([at(*point) for point in inside(points, window)], "path best" if end == best else "path other")
        )
        parts.append(dot(*at(*points[0]), 3, "start"))
    for k, (key, score) in enumerate(tokens):
        x, y = at(*key)
        parts.append(dot(x, y, 6, "token best" if k == best else "token other" if k in ends else "token"))
        place = (x + 8, y + 17, "start") if key[1] == 0 < key[0] else (x - 10, y + 4, "end")
        parts.append(words(*place[:2], f"score {score:.2g}", anchor=place[2]))
    return parts, height


def _shares(shares, steps, best, foot):
    """Yield the bars of attention at each of three steps."""
    for k, (step, row) in enumerate(zip(steps, shares, strict=True)):
        yield words(60 + 120 * k, foot + 16, f"step {step}", anchor="middle")
        for token, share in enumerate(row):
            kind = "bar best" if token == best else "bar"
            yield box(28 + 120 * k + 22 * token, foot - 56 * share, 18, 56 * share, kind)


def tokens():
    """Return the drawing of the page on notation: keys and query, logits, attention, scores, and the token selected."""
    keys, query, scores = [(0.9, 1.3), (1.6, 0.3), (-0.6, 1.0), (-0.8, -0.5)], (1.6, 2.0), (1.0, 0.4, 0.4, 0.2)
    logits = [a * query[0] + b * query[1] for a, b in keys]
    weights = [math.exp(logit) for logit in logits]
    attention = [weight / sum(weights) for weight in weights]
    chosen = attention.index(max(attention))
    at, height = plane(-1.3, 2.2, -1.1, 2.2, 0, 24, 152)
    parts = [words(0, 14, "keys and query", "head")]
    parts += [line([at(-1.3, 0), at(2.2, 0)], "axis"), line([at(0, -1.1), at(0, 2.2)], "axis")]
    along = sum(part**2 for part in query)
    for k, (key, logit) in enumerate(zip(keys, logits, strict=True)):
        (x, y), kind = at(*key), "token best" if k == chosen else "token"
        parts += [line([(x, y), at(query[0] * logit / along, query[1] * logit / along)], "thin"), dot(x, y, 6, kind)]
        parts.append(words(x + 9, y + 12, f"k_{k + 1}"))
    parts += [arrow(at(0, 0), at(*query), "query"), words(*at(query[0] + 0.12, query[1] - 0.1), "p", "query")]
    for x, name, values, unit in (
        (180, "logits", logits, 7),
        (246, "attention", attention, 52),
        (322, "scores", scores, 26),
    ):
        parts.append(words(x, 14, name, "head"))
        parts += _bars(x + (16 if min(values) < 0 else 0), values, unit, chosen)
    parts += [words(172, 48 + 32 * k, str(k + 1), "small", "end") for k in range(len(keys))]
    below = max(24 + height, 38 + 32 * len(keys)) + 22
    parts += [words(0, below, "attention selects"), words(110, below, f"token {chosen + 1}", "query")]
    label = (
        "Left: the plane with four keys and the query p; a key's logit is how far it reaches along p, times its "
        "length. Right, a row for each token: logit, attention, score. The token with the largest logit has most "
        "of the attention."
    )
    return svg(below + 8, label, *parts)


def _bars(x, values, unit, chosen):
    """Yield a column of bars with their numbers under them."""
    for k, value in enumerate(values):
        length, y = unit * abs(value), 38 + 32 * k
        yield box(x - (length if value < 0 else 0), y, length, 11, "bar best" if k == chosen else "bar")
        yield words(x, y + 23, f"{value:.2f}", "small")


def chart(x, y, width, height, across, up):
    """Return the map from numbers to a place of the drawing, and its two axes."""
    (left, right), (bottom, top) = across, up

    def at(a, b):
        return x + width * (a - left) / (right - left), y + height * (top - b) / (top - bottom)

    return at, line([(x, y), (x, y + height), (x + width, y + height)], "axis")


def flat_loss():
    """Return a loss that is strictly decreasing and flat at one point: -(u - 1/2)^3."""
    at, axes = chart(40, 12, 300, 140, (0, 1), (-0.13, 0.13))
    curve = [(k / 60, -((k / 60 - 0.5) ** 3)) for k in range(61)]
    parts = [axes, line([at(*point) for point in curve], "path best"), line([at(0.3, 0), at(0.7, 0)], "path other")]
    parts += [dot(*at(0.5, 0), 5, "token other"), words(*at(0.46, 0.035), "slope 0: descent stops", "other")]
    parts += [words(190, 170, "score reached, u", anchor="middle"), words(34, 20, "loss", anchor="end")]
    return svg(178, "A curve that falls everywhere, and is level at its middle, where descent stops.", *parts)


def opposite_inputs():
    """Return two inputs whose constraints exclude each other: what helps one harms the other."""
    at, height = plane(-1.8, 1.8, -0.8, 0.8, 0, 8, WIDTH)
    parts = [line([at(0, -0.8), at(0, 0.8)], "ray"), dot(*at(0, 0), 5, "token")]
    for side, name, kind in ((1, "input 1", "best"), (-1, "input 2", "other")):
        parts += [arrow(at(0, 0), at(1.02 * side, 0), f"path {kind}"), dot(*at(1.1 * side, 0), 6, f"token {kind}")]
        parts.append(words(*at(1.1 * side, 0.25), f"{name}: best key", kind, "middle"))
    parts.append(words(180, height + 22, "no p is ahead on both: ATT-SVM has no solution", anchor="middle"))
    return svg(
        height + 32, "Two best keys on opposite sides of the origin, where the other token of each input lies.", *parts
    )


def finite_end():
    """Return two inputs whose pulls on p balance where attention is saturated, and the drawing of their sizes.

    Width one, exponential loss in the limit: input 1 pulls p upwards like 2 e^(-2p), input 2 downwards like g e^(-p).
    """
    gap = 1e-5
    balance = math.log(2 / gap)
    at, axes = chart(46, 12, 290, 150, (6, 18), (-16, -4))
    ends = (6, 18)
    up = [(p, (math.log(2) - 2 * p) / math.log(10)) for p in ends]
    down = [(p, (math.log(gap) - p) / math.log(10)) for p in ends]
    y = (math.log(gap) - balance) / math.log(10)
    parts = [axes, line([at(*point) for point in up], "path best"), line([at(*point) for point in down], "path other")]
    parts += [line([at(balance, y), at(balance, -16)], "thin"), dot(*at(balance, y), 5, "token")]
    parts += [words(*at(7.2, -5.6), "input 1 pulls up", "best"), words(*at(6.2, -10.2), "input 2 pulls down", "other")]
    parts += [words(*at(balance + 0.3, y + 0.4), f"p stays at {balance:.1f}"), words(42, 24, "1e-4", "small", "end")]
    parts += [words(42, 164, "1e-16", "small", "end"), words(190, 182, "p", anchor="middle")]
    parts += [words(46, 176, "6", "small"), words(336, 176, "18", "small", "end")]
    least = 1 / (1 + math.exp(-balance))
    drawing = svg(
        190,
        "Two falling lines that cross: the pull of input 1 is the larger to the left, that of input 2 to the right.",
        *parts,
    )
    return drawing, {"norm": balance, "attention": least}


def ratio_turns():
    """Return how the limit of the prompt turns with the ratio of the two radii, on the data of Figure 3(b)."""
    library()
    from lib.datasets import figure_3
    from lib.joint import JointProblem
    from lib.joint_paths import joint_limit

    problem, selected = JointProblem(*figure_3("b")), [1, 1, 1]
    ratios = [k / 20 for k in range(41)]
    prompts = [joint_limit(problem, selected, ratio).prompt.tolist() for ratio in [*ratios, math.inf]]
    *angles, last = [math.degrees(math.atan2(up, along)) for along, up in prompts]
    limits = [abs(angle - last) for angle in angles]
    threshold = float(joint_limit(problem, selected, 0.0).threshold)
    top = max(limits)
    at, axes = chart(46, 14, 290, 140, (0, 2), (0, 1.15 * top))
    parts = [axes, line([at(*point) for point in zip(ratios, limits, strict=True)], "path best")]
    parts += [
        dot(*at(threshold, 0), 5, "token other"),
        words(*at(threshold + 0.05, 0.07 * top), f"c = {threshold:g}", "other"),
    ]
    parts += [
        words(*at(0.1, top), "p_mm"),
        words(*at(1.7, 0.07 * top), "p_rel"),
        words(42, 24, f"{top:.0f}°", "small", "end"),
    ]
    parts += [
        words(42, 158, "0°", "small", "end"),
        words(190, 174, "ratio c of the radii, head to prompt", anchor="middle"),
    ]
    drawing = svg(182, "The angle of the limit falls as the ratio grows, and is zero from a threshold on.", *parts)
    return drawing, {"threshold": threshold, "angle": top}
