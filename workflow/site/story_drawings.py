"""A picture for each step of *In ten minutes*, where its scene is not: without scripts, and on paper."""

import math
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import torch

from lib import published
from lib.datasets import figure_1
from lib.descent import constant, normalised, polyak, run
from lib.figures import BLUE, BROWN, FAINT, INK, KINDS, MUTED, PAPER, PINK, TEAL, VIOLET, WIDTH
from lib.figures.style import EDGE
from lib.losses import by_name
from lib.problem import Problem
from lib.separators import att_svm
from workflow.book.catalogue import yaml_of
from workflow.book.dependencies import PROJECT
from workflow.book.ledger import ledger
from workflow.site import story
from workflow.site.beliefs import used

SCENE, LOSS = yaml_of(PROJECT / story.REGISTER)["scene"], by_name("logistic")
KEYS, STARTS = ([tuple(point) for point in SCENE[name]] for name in ("keys", "starts"))
SCORES, NEAR, MIDDLE = SCENE["scores"], SCENE["near"], SCENE["middle"]
RAISED, BESIDE = ([tuple(SCENE[name]), *KEYS[1:]] for name in ("raised", "beside"))
BEST, LOCAL = KINDS["global"], KINDS["local"]
SHARES = {
    "optimal": ("end as theory\nallows", BEST),
    "foretold": ("foretold by\nsimulation", VIOLET),
    "naive": ("foretold by the\nbest score alone", PINK),
    "freed": ("foretold where\neverything trains", BROWN),
}


def scene(scores=SCORES, keys=KEYS):
    """Return one input of three tokens with these scores."""
    return Problem(keys=torch.tensor([keys], dtype=torch.float64), scores=torch.tensor([scores], dtype=torch.float64))


def signs(size):
    """Return the rule that moves each entry by the sign of its gradient."""
    return lambda grad, theta, k: -size * grad.direction.sign()


@cache
def path(start=(0.0, 0.0), rule=normalised, size=SCENE["step_size"], scores=tuple(SCORES), keys=tuple(KEYS), norm=2.0):
    """Return the run of a step rule from a point."""
    made = polyak(scene(), LOSS, [0]) if rule is polyak else rule(size, norm) if rule is normalised else rule(size)
    first = torch.tensor(start, dtype=torch.float64)
    return run(scene(list(scores), list(keys)), LOSS, first, made, SCENE["steps"], norm=norm).theta


def plane(window, keys=KEYS, scores=SCORES):
    """Return axes with the three tokens, named where they are not too near to each other."""
    left, right, bottom, top = window
    figure, ax = plt.subplots(figsize=(WIDTH, WIDTH * (top - bottom) / (right - left)))
    ax.set(xlim=window[:2], ylim=window[2:], aspect="equal")
    ax.set_axis_off()
    near = right - left < 10
    for t, (name, key) in enumerate(zip("ABC", keys, strict=True)):
        colour, mark = (BEST, "*") if t == 0 else (LOCAL if t == 1 else MUTED, "s")
        ax.scatter(*key, s=6 if not near else 190 if t == 0 else 60, marker=mark, color=colour, zorder=4)
        if near:
            left = t == 0 and window is not MIDDLE
            aside = {"ha": "right", "xytext": (-9, -3)} if left else {"xytext": (9, 5 if t == 1 else -12)}
            said = f"{name}, score {scores[t]:g}" if scores else name
            ax.annotate(said, key, textcoords="offset points", color=colour, path_effects=EDGE, **aside)
    return figure, ax


def draw(ax, points, colour):
    """Draw a path and its end."""
    inside = points[points.norm(dim=-1) < 200]
    ax.plot(*inside.T, color=colour)
    ax.plot(*points[-1], "o", color=colour)


def ray(ax, theta, colour=INK):
    """Draw a dashed ray from the origin."""
    ax.plot(*torch.outer(theta, torch.tensor([0.0, 300.0], dtype=theta.dtype)), "--", color=colour, lw=1.4)


def wedge(ax, keys=RAISED):
    """Shade what puts A ahead by a margin of 1."""
    across = np.linspace(-3, 3, 601)
    rows = (scene(keys=keys).keys[0, :1] - scene(keys=keys).keys[0, 1:]).tolist()
    ax.fill_between(across, np.max([(1 - x * across) / y for x, y in rows], axis=0), 9, color=FAINT, zorder=0)


def afar(ax, theta, points, keys=RAISED):
    """Draw the ray of a limit and the run that joins it once more, in a corner, as far as the eye tells them apart."""
    inset = ax.inset_axes((0.68, 0.62, 0.31, 0.37))
    cosines = points[1:] @ theta / (points[1:].norm(dim=-1) * theta.norm())
    x, y = points[1:][cosines > math.cos(math.radians(1.0))][0].tolist()
    half = (1.1 * y + 1) / 2
    inset.set(xlim=(x / 2 - half, x / 2 + half), ylim=(-1, 1.1 * y), xticks=[], yticks=[], facecolor=PAPER)
    inset.spines[:].set_visible(True)
    ray(inset, theta, BEST)
    inset.plot(*points.T, color=VIOLET)
    inset.scatter(*zip(*keys, strict=True), s=3, color=MUTED, zorder=4)
    inset.annotate("seen from afar", (0.97, 0.9), xycoords="axes fraction", ha="right", fontsize=7)


def ball(ax, norm, colour):
    """Draw the ball of a norm that touches the wedge, and where it does; return that point."""
    theta = att_svm(scene(keys=RAISED), norm=norm).theta
    angle = np.linspace(0, 2 * math.pi, 241)
    rim = np.stack([np.cos(angle), np.sin(angle)])
    sized = rim / np.linalg.norm(rim, norm, axis=0) * np.linalg.norm(theta, norm)
    ax.plot(*sized, color=colour)
    ax.plot(*theta, "o", color=colour, zorder=5)
    return theta


def averages():
    """Draw a short query, and the average that attention reads."""
    figure, ax = plane(NEAR)
    query = torch.tensor(SCENE["query"], dtype=torch.float64)
    shares = scene().attention(query)[0]
    ax.fill(*zip(*KEYS, strict=True), color=FAINT, zorder=0)
    ax.plot([0, query[0]], [0, query[1]], color=VIOLET)
    ax.plot(*query, "o", color=INK, mfc=PAPER)
    ax.plot(*(shares @ scene().keys[0]), "x", color=INK, mew=2)
    return figure, {"largest": shares.max().item()}


def sharpens():
    """Draw one run."""
    figure, ax = plane(MIDDLE)
    draw(ax, path(), VIOLET)
    steps = 100
    shares = scene().attention(path()[[0, steps]])[:, 0, 0].tolist()
    return figure, {"before": shares[0], "after": shares[1], "steps": steps}


def picks():
    """Draw a run for each best token."""
    figure, ax = plane((-3, 4, -3, 3), scores=None)
    for best, colour in enumerate((BEST, LOCAL, BLUE)):
        draw(ax, path(scores=tuple(1.0 if t == best else 0.5 for t in range(3))), colour)
    return figure, {}


def direction():
    """Draw the wedge, its shortest point, and the run that turns there."""
    figure, ax = plane(NEAR, BESIDE)
    wedge(ax, BESIDE)
    theta, points = att_svm(scene(keys=BESIDE)).theta, path(keys=tuple(BESIDE))
    ray(ax, theta, BEST)
    draw(ax, points, VIOLET)
    ax.plot(*theta, "o", color=BEST, zorder=5)
    afar(ax, theta, points, BESIDE)
    return figure, {}


def starts():
    """Draw six runs and the two limits."""
    figure, ax = plane(MIDDLE)
    ends = [int(scene().attention(path(start)[-1]).argmax()) for start in STARTS]
    for token in (0, 1):
        ray(ax, att_svm(scene(), [token]).theta)
    for start, end in zip(STARTS, ends, strict=True):
        draw(ax, path(start), BEST if end == 0 else LOCAL)
        ax.plot(*start, "o", color=INK, mfc=PAPER, zorder=5)
    return figure, {"best": ends.count(0), "other": len(ends) - ends.count(0)}


def speed():
    """Draw three step rules on one road."""
    figure, ax = plane((-14, 18, -3, 21))
    ray(ax, att_svm(scene()).theta)
    found = {"gd": path(rule=constant, size=1.0), "ngd": path(), "polyak": path(rule=polyak)}
    for name, colour, width in (("polyak", TEAL, 6), ("ngd", VIOLET, 4), ("gd", BLUE, 2)):
        reached = found[name][found[name].norm(dim=-1) < 60]
        ax.plot(*reached.T, color=colour, lw=width)
        ax.plot(*found[name][-1], "o", color=colour)
    ax.annotate("gradient descent", found["gd"][-1], (8, -3), textcoords="offset points", color=BLUE)
    return figure, {"steps": SCENE["steps"]} | {name: points[-1].norm().item() for name, points in found.items()}


def norm():
    """Draw the ball of one norm beside the Euclidean one."""
    figure, ax = plane(NEAR, RAISED)
    wedge(ax)
    ball(ax, 2.0, MUTED)
    theta, points = ball(ax, 3.0, BROWN), path(keys=tuple(RAISED), norm=3.0)
    ray(ax, theta, BEST)
    draw(ax, points, VIOLET)
    afar(ax, theta, points)
    return figure, {"p": 3.0}


def optimiser():
    """Draw the balls of three optimisers."""
    figure, ax = plane(NEAR, RAISED)
    wedge(ax)
    for order, colour in ((2.0, BLUE), (math.inf, BROWN), (1.0, PINK)):
        theta = ball(ax, order, colour)
        if order == math.inf:
            afar(ax, theta, path(rule=signs, keys=tuple(RAISED)))
    return figure, {}


def rounding():
    """Draw one start, exactly and as published in 32 bits."""
    figure, ax = plane((-13, 27, -4, 23))
    start = torch.tensor([[*SCENE["published"], 0.0]])
    rough = published.descend(figure_1("b"), LOSS, start, SCENE["step_size"], SCENE["steps"], 1e-9)[:, 0, :2]
    for token in (0, 1):
        ray(ax, att_svm(scene(), [token]).theta)
    ax.plot(*path(tuple(SCENE["published"])).T, color=VIOLET, lw=5)
    draw(ax, rough, PINK)
    ax.plot(*SCENE["published"], "o", color=INK, mfc=PAPER, zorder=5)
    ax.annotate("exact", (22, -0.8), (0, -16), textcoords="offset points", color=VIOLET)
    ax.annotate("32 bits", rough[-1], (0, 8), textcoords="offset points", color=PINK)
    return figure, {}


def networks():
    """Draw what the last step tells of networks: each share as so many filled squares of a hundred."""
    found = used(story.REGISTER, {"rows": story.SHOWN}, ledger())
    figure, axes = plt.subplots(1, 4, figsize=(WIDTH, 0.37 * WIDTH))
    for ax, (name, (said, colour)) in zip(axes, SHARES.items(), strict=True):
        share = found[name]["measured"]
        filled = np.arange(100) < round(100 * share)
        x, y = np.arange(100) % 10, -(np.arange(100) // 10)
        ax.scatter(x, y, s=14, marker="s", color=np.where(filled, colour, PAPER), edgecolor=MUTED, lw=0.4)
        ax.set_title(f"{share:.0%}\n{said}", color=colour, fontsize=8)
        ax.set_aspect("equal")
        ax.set_axis_off()
    return figure, {}


STEPS = {f"story_{draw.__name__}": draw for draw in
         (averages, sharpens, picks, direction, starts, speed, norm, optimiser, rounding, networks)}  # fmt: skip
