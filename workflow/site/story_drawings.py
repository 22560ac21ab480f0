"""A picture for each step of *In ten minutes*, where its scene is not: without scripts, and on paper."""

import math
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import torch

from lib import published
from lib.datasets import figure_1
from lib.descent import constant, normalised, polyak, run
from lib.figures import BLUE, FAINT, GREEN, INK, KINDS, MUTED, PAPER, VERMILION, VIOLET, WIDTH
from lib.losses import by_name
from lib.problem import Problem
from lib.separators import att_svm

KEYS, SCORES = [(-0.1, 1.0), (1.0, 0.0), (0.0, 0.0)], [1.0, 0.9, 0.0]
NEAR, MIDDLE = (-1.2, 2.3, -1.0, 1.9), (-2.2, 5.2, -1.9, 3.7)
LOSS, HEIGHTS = by_name("logistic"), (1.0, 0.5, 0.0, -0.5, -1.0, -1.5)
BEST, LOCAL = KINDS["global"], KINDS["local"]


def scene(scores=SCORES):
    """Return one input of three tokens with these scores."""
    return Problem(keys=torch.tensor([KEYS], dtype=torch.float64), scores=torch.tensor([scores], dtype=torch.float64))


@cache
def path(y=0.0, rule=normalised, size=0.1, scores=tuple(SCORES)):
    """Return the run of a step rule from a point above or below the origin, 1000 steps."""
    start = torch.tensor([0.0, y], dtype=torch.float64)
    made = polyak(scene(), LOSS, [0]) if rule is polyak else rule(size)
    return run(scene(list(scores)), LOSS, start, made, 1000).theta


def plane(window, best=0):
    """Return axes with the three tokens."""
    left, right, bottom, top = window
    figure, ax = plt.subplots(figsize=(WIDTH, WIDTH * (top - bottom) / (right - left)))
    ax.set(xlim=window[:2], ylim=window[2:], aspect="equal")
    ax.set_axis_off()
    for t, (name, key) in enumerate(zip("ABC", KEYS, strict=True)):
        colour = BEST if t == best else LOCAL if t == 1 else MUTED
        ax.scatter(*key, s=190 if t == best else 60, marker="*" if t == best else "s", color=colour, zorder=4)
        ax.annotate(name, key, (8, 5), textcoords="offset points", color=colour)
    return figure, ax


def draw(ax, points, colour, end=True):
    """Draw a path."""
    inside = points[points.norm(dim=-1) < 200]
    ax.plot(*inside.T, color=colour)
    if end:
        ax.plot(*points[-1], "o", color=colour)


def ray(ax, theta, colour=INK):
    """Draw a dashed ray from the origin."""
    ax.plot(*torch.outer(theta, torch.tensor([0.0, 300.0], dtype=theta.dtype)), "--", color=colour, lw=1.4)


def wedge(ax):
    """Shade what puts A ahead by a margin of 1; return the difference rows."""
    across = np.array([-3.0, 0.0, 3.0])
    rows = scene().keys[0, :1] - scene().keys[0, 1:]
    ax.fill_between(across, np.maximum(1 + 0.1 * across, 1 + 1.1 * across), 9, color=FAINT, zorder=0)
    return rows


def ball(ax, norm, colour):
    """Draw the ball of a norm that touches the wedge, and where it does; return that point."""
    theta = att_svm(scene(), norm=norm).theta
    angle = np.linspace(0, 2 * math.pi, 241)
    rim = np.stack([np.cos(angle), np.sin(angle)])
    sized = rim / np.linalg.norm(rim, norm, axis=0) * np.linalg.norm(theta, norm)
    ax.plot(*sized, color=colour)
    ax.plot(*theta, "o", color=colour, zorder=5)
    return theta


def averages():
    """Draw a short query, and the average that attention reads."""
    figure, ax = plane(NEAR)
    query = torch.tensor([-0.4, -0.3], dtype=torch.float64)
    shares = scene().attention(query)[0]
    ax.fill(*zip(*KEYS, strict=True), color=FAINT, zorder=0)
    ax.plot([0, query[0]], [0, query[1]], color=VIOLET)
    ax.plot(*query, "o", color=INK, mfc=PAPER)
    ax.plot(*(shares @ scene().keys[0]), "x", color=INK, mew=2)
    return figure, {"largest": shares.max().item()}


def sharpens():
    """Draw one run."""
    figure, ax = plane(MIDDLE)
    draw(ax, path(), BEST)
    steps = 100
    shares = scene().attention(path()[[0, steps]])[:, 0, 0].tolist()
    return figure, {"before": shares[0], "after": shares[1], "steps": steps}


def picks():
    """Draw a run for each best token."""
    figure, ax = plane((-3, 4, -3, 3))
    for best, colour in enumerate((BEST, LOCAL, BLUE)):
        draw(ax, path(scores=tuple(1.0 if t == best else 0.5 for t in range(3))), colour)
    return figure, {}


def direction():
    """Draw the wedge, its shortest point, and the run that turns there."""
    figure, ax = plane(NEAR)
    wedge(ax)
    theta = att_svm(scene()).theta
    ray(ax, theta, BEST)
    draw(ax, path(), VIOLET)
    ax.plot(*theta, "o", color=BEST, zorder=5)
    return figure, {}


def starts():
    """Draw six runs and the two limits."""
    figure, ax = plane(MIDDLE)
    ends = [int(scene().attention(path(y)[-1]).argmax()) for y in HEIGHTS]
    for token in (0, 1):
        ray(ax, att_svm(scene(), [token]).theta)
    for y, end in zip(HEIGHTS, ends, strict=True):
        draw(ax, path(y), BEST if end == 0 else LOCAL)
        ax.plot(0, y, "o", color=INK, mfc=PAPER, zorder=5)
    return figure, {"best": ends.count(0), "other": len(ends) - ends.count(0)}


def speed():
    """Draw three step rules on one road."""
    figure, ax = plane((-14, 18, -5, 19))
    ray(ax, att_svm(scene()).theta)
    found = {"gd": path(rule=constant, size=1.0), "ngd": path(), "polyak": path(rule=polyak)}
    for name, colour, width in (("polyak", GREEN, 5), ("ngd", VERMILION, 3), ("gd", BLUE, 2)):
        reached = found[name][found[name].norm(dim=-1) < 60]
        ax.plot(*reached.T, color=colour, lw=width)
        ax.plot(*found[name][-1], "o", color=colour)
    return figure, {"steps": 1000} | {name: points[-1].norm().item() for name, points in found.items()}


def norm():
    """Draw the ball of one norm beside the Euclidean one."""
    figure, ax = plane(NEAR)
    wedge(ax)
    ball(ax, 2.0, MUTED)
    ray(ax, ball(ax, 3.0, BEST), BEST)
    return figure, {"p": 3.0}


def optimiser():
    """Draw the balls of three optimisers."""
    figure, ax = plane(NEAR)
    wedge(ax)
    for order, colour in ((2.0, BLUE), (math.inf, VERMILION), (1.0, GREEN)):
        ball(ax, order, colour)
    return figure, {}


def rounding():
    """Draw one start, exactly and as published in 32 bits."""
    figure, ax = plane((-13, 27, -4, 23))
    start = torch.tensor([[0.0, -1.5, 0.0]])
    rough = published.descend(figure_1("b"), LOSS, start, 0.1, 1000, 1e-9)[:, 0, :2]
    for token in (0, 1):
        ray(ax, att_svm(scene(), [token]).theta)
    draw(ax, path(-1.5), GREEN)
    draw(ax, rough, VERMILION)
    return figure, {}


STEPS = {f"story_{draw.__name__}": draw for draw in
         (averages, sharpens, picks, direction, starts, speed, norm, optimiser, rounding)}  # fmt: skip
STEPS["story_networks"] = starts
