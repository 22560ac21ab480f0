"""Drawings of the pages around the chapters: matplotlib in the book's style, computed while the site is staged.

Each function returns a figure and the numbers that its caption states.
"""

import io
import math
from functools import cache
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import torch

from heads import read_tokens
from lib.datasets import figure_1, figure_3
from lib.descent import normalised, run
from lib.figures import BLUE, BROWN, FAINT, INK, KINDS, MUTED, PINK, VERMILION, VIOLET, WIDTH, sentences, theme
from lib.joint import JointProblem
from lib.joint_paths import joint_limit
from lib.losses import by_name, cubic
from lib.problem import Problem, from_tokens
from lib.selection import optimal_tokens, selected_tokens
from lib.separators import att_svm, hard_margin
from workflow.book.catalogue import yaml_of
from workflow.site import film_review

ARROW = {"arrowstyle": "-|>", "lw": 2, "shrinkA": 0, "shrinkB": 0}
BEST, LOCAL = KINDS["global"], KINDS["local"]


@cache
def drawn(name):
    """A drawing as the text of an SVG file, and the numbers that its caption states."""
    theme()
    figure, numbers = DRAWINGS[name]()
    file = io.StringIO()
    figure.savefig(file, format="svg", metadata={"Date": None})
    plt.close(figure)
    return file.getvalue(), numbers


def draw_selection():
    """Draw one input and the runs from six starts, and attention along one of them."""
    problem = from_tokens(*figure_1("b"))
    heights = torch.tensor([1.0, 0.5, 0.0, -0.5, -1.0, -1.5], dtype=problem.keys.dtype)
    starts = torch.stack([torch.zeros_like(heights), heights, torch.zeros_like(heights)], dim=-1)
    path = run(problem, by_name("logistic"), starts, normalised(0.1), 1000).theta
    ends, best = selected_tokens(problem, path[-1])[:, 0].tolist(), int(optimal_tokens(problem)[0])
    figure, axes = plt.subplot_mosaic("aaa;bcd", figsize=(WIDTH, 4.9), height_ratios=(4, 1))
    plane = axes["a"]
    plane.set(xlim=(-1.9, 5.1), ylim=(-1.8, 3.6), aspect="equal")
    plane.set_axis_off()
    for token in sorted(set(ends)):
        along = att_svm(problem, torch.tensor([token])).theta[:2].tolist()
        plane.plot(*([0, 9 * part] for part in along), "--", color=BEST if token == best else LOCAL, lw=1.4)
    for points in path[..., :2].unbind(1):
        plane.plot(*points.T, color=VIOLET)
        seen = points[((points > torch.tensor([-1.9, -1.8])) & (points < torch.tensor([5.1, 3.6]))).all(-1)]
        plane.annotate("", seen[-1].tolist(), seen[-2].tolist(), arrowprops=ARROW | {"lw": 1.2, "color": VIOLET})
    plane.scatter(*starts[:, :2].T, s=28, facecolor="none", edgecolor=INK, lw=1.2, zorder=3)
    for k, (key, score) in enumerate(zip(problem.keys[0, :, :2].tolist(), problem.scores[0].tolist(), strict=True)):
        colour = colour_of(k, best, ends)
        plane.scatter(*key, s=190 if k == best else 70, marker="*" if k == best else "s", color=colour, zorder=4)
        aside = {"xytext": (8, 8), "ha": "left"} if key[0] > 0 else {"xytext": (-11, -4), "ha": "right"}
        plane.annotate(f"score {score:.2g}", key, textcoords="offset points", color=colour, **aside)
    steps, middle = (0, 20, 100), int(heights.abs().argmin())
    shares = [problem.attention(path[step, middle])[0].tolist() for step in steps]
    for panel, step, share in zip("bcd", steps, shares, strict=True):
        axes[panel].bar(range(len(share)), share, color=[colour_of(k, best, ends) for k in range(len(share))])
        axes[panel].set(ylim=(0, 1), xlim=(-1.5, len(share) + 0.5), yticks=[], xlabel=f"score; step {step}")
        axes[panel].set_xticks(range(len(share)), [f"{score:.2g}" for score in problem.scores[0].tolist()])
        axes[panel].spines["left"].set_visible(False)
    axes["b"].set_ylabel("attention")
    numbers = {"starts": len(ends), "best": ends.count(best), "other": len(ends) - ends.count(best)}
    return figure, numbers | {"before": shares[0][best], "after": shares[-1][best], "steps": steps[-1]}


def draw_by_hand():
    """Draw the example of *One example by hand*: keys, feasible queries, the shortest of them, and the path."""
    problem = Problem(keys=[[[2, 0], [0, 1], [0, -1]]], scores=[[1, 0.5, 0]])
    path = run(problem, by_name("correlation"), torch.zeros(2), normalised(0.02), 170).theta
    shortest = att_svm(problem, selected=[0]).theta.tolist()
    figure, ax = plt.subplots(figsize=(WIDTH, 3.6))
    ax.set(xlim=(-0.55, 3.3), ylim=(-1.35, 1.35), aspect="equal")
    ax.set_axis_off()
    ax.fill([shortest[0], 4, 4], [0, 7, -7], color=FAINT, zorder=0)
    ax.plot([0, 4], [0, 0], "--", color=INK, lw=1.4)
    ax.plot(*path.T, color=VIOLET, lw=2)
    ax.plot(*shortest, "o", color=INK, zorder=5)
    ax.scatter(*path[0].tolist(), s=60, facecolor="none", edgecolor=VIOLET, lw=1.4, zorder=3)
    for token, (key, score) in enumerate(zip(problem.keys[0].tolist(), problem.scores[0].tolist(), strict=True)):
        colour = MUTED if token else BEST
        ax.plot(*key, "s" if token else "*", ms=8 if token else 14, color=colour, zorder=4)
        aside, end = ((-4, 12), (9, -4), (9, -14))[token], "\n" if token else ", "
        ax.annotate(f"token {token + 1}{end}score {score:g}", key, aside, textcoords="offset points", color=colour)
    return figure, {}


def colour_of(token, best, ends):
    """What a token is, where runs end at these: the best one, locally optimal, or neither."""
    return BEST if token == best else LOCAL if token in ends else MUTED


def draw_tokens():
    """Draw keys and query, logits, attention, scores, and the token that attention selects."""
    keys, query = torch.tensor([(0.9, 1.3), (1.6, 0.3), (-0.6, 1.0), (-0.8, -0.5)]), torch.tensor((1.6, 2.0))
    logits, scores = keys @ query, torch.tensor((1.0, 0.4, 0.4, 0.2))
    chosen, names = int(logits.argmax()), [f"$k_{k + 1}$" for k in range(len(keys))]
    colours = [BEST if k == chosen else MUTED for k in range(len(keys))]
    figure, (plane, *columns) = plt.subplots(1, 4, figsize=(WIDTH, 2.5), width_ratios=(2.9, 1, 1, 1))
    plane.axhline(0, color=FAINT, lw=1, zorder=0)
    plane.axvline(0, color=FAINT, lw=1, zorder=0)
    plane.scatter(*keys.T, s=70, color=colours, zorder=3)
    for k, (key, foot) in enumerate(zip(keys, logits[:, None] * query / (query @ query), strict=True)):
        plane.plot(*torch.stack([key, foot]).T, color=MUTED, lw=0.8)
        plane.annotate(names[k], key.tolist(), (7, -11 if key[0] > 0 else 3), textcoords="offset points")
    plane.annotate("", query.tolist(), (0, 0), arrowprops=ARROW | {"color": BLUE})
    plane.annotate("$p$", query.tolist(), (4, 0), textcoords="offset points", color=BLUE)
    plane.set(xlim=(-1.3, 2.3), ylim=(-1.3, 2.5), aspect="equal", title="keys, query")
    plane.set_axis_off()
    shown = {"logits": logits, "attention": logits.softmax(0), "scores": scores}
    for ax, (name, values) in zip(columns, shown.items(), strict=True):
        for k, value in enumerate(values.tolist()):
            ax.barh(k, value, 0.35, color=colours[k])
            ax.annotate(f"{value:.2f}", (0, k + 0.2), (0, -3), textcoords="offset points", va="top")
        ax.set(ylim=(len(keys) - 0.2, -0.4), xticks=[], yticks=[], title=name)
        ax.spines[:].set_visible(False)
    columns[0].set_yticks(range(len(keys)), names)
    columns[0].tick_params(length=0)
    return figure, {"chosen": chosen + 1, "attention": logits.softmax(0)[chosen].item()}


def draw_region():
    """Draw the queries that put one token ahead by a margin of 1 (feasible queries), and the shortest of them."""
    return draw_feasible("beside", {2.0: BEST}), {}


def draw_balls():
    """Draw the feasible queries and the balls of three norms, each as large as to touch them."""
    return draw_feasible("raised", {2.0: BLUE, math.inf: BROWN, 1.0: PINK}), {}


def draw_feasible(place, norms):
    """Draw the feasible queries of the tokens of *In ten minutes*, the first at a place of the scene, and balls."""
    scene = yaml_of("book/story.yml")["scene"]
    keys, (left, right, bottom, top) = [scene[place], *scene["keys"][1:]], scene["near"]
    figure, ax = plt.subplots(figsize=(WIDTH, WIDTH * (top - bottom) / (right - left)))
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal")
    ax.set_axis_off()
    rows, across = torch.tensor(keys[0]).double() - torch.tensor(keys[1:]).double(), torch.linspace(left, right, 201)
    edges = torch.stack([(1 - x * across) / y for x, y in rows.tolist()])
    ax.fill_between(across, edges.amax(0), top, color=FAINT, zorder=0)
    rim = torch.stack([turn(torch.linspace(0, 2 * math.pi, 241).double()) for turn in (torch.cos, torch.sin)], -1)
    for norm, colour in norms.items():
        theta = hard_margin(rows, norm).theta
        size = torch.linalg.vector_norm(theta, norm) / torch.linalg.vector_norm(rim, norm, dim=-1, keepdim=True)
        ax.plot(*(size * rim).T, color=colour)
        ax.plot(*torch.outer(torch.tensor([0.0, 9.0]).double(), theta).T, "--", color=colour, lw=1.4)
        ax.plot(*theta, "o", color=colour, zorder=5)
    looks = zip(keys, scene["words"], (BEST, LOCAL, MUTED), ((-10, -4), (9, 5), (9, -12)), strict=True)
    for key, word, colour, aside in looks:
        best = colour == BEST
        ax.plot(*key, "*" if best else "s", ms=14 if best else 8, color=colour, zorder=4)
        ha = "right" if best else "left"
        ax.annotate(word, key, aside, textcoords="offset points", color=colour, ha=ha)
    return figure


def draw_flat_loss():
    """Draw a loss that is strictly decreasing and flat at one point."""
    u, flat = torch.linspace(0, 1, 61, dtype=torch.float64), 0.5
    figure, ax = plt.subplots(figsize=(WIDTH, 2.3))
    ax.plot(u, cubic(flat).value(u), color=BLUE)
    ax.plot([flat - 0.2, flat, flat + 0.2], [0, 0, 0], "o-", markevery=[1], color=VERMILION)
    ax.annotate("slope 0: descent stops", (flat, 0), (0, 9), textcoords="offset points", color=VERMILION)
    ax.set(xlabel="score reached, $u$", ylabel="loss", yticks=[0])
    return figure, {}


def draw_opposite_inputs():
    """Draw two inputs whose constraints exclude each other: what helps one harms the other."""
    figure, ax = plt.subplots(figsize=(WIDTH, 0.8))
    ax.plot(0, 0, "o", color=MUTED, ms=8, zorder=4)
    for key, name, colour in ((1, "input 1", BLUE), (-1, "input 2", PINK)):
        ax.annotate("", (0.93 * key, 0), (0, 0), arrowprops=ARROW | {"color": colour})
        ax.plot(key, 0, "o", color=colour, ms=8)
        ax.annotate(f"{name}: best key", (key, 0), (0, 12), textcoords="offset points", color=colour, ha="center")
    ax.annotate("other tokens", (0, 0), (0, -20), textcoords="offset points", color=MUTED, ha="center")
    ax.set(xlim=(-1.6, 1.6), ylim=(-1, 1))
    ax.set_axis_off()
    return figure, {}


def draw_finite_end():
    """Draw the pulls of two inputs on p, which balance where attention is saturated.

    Width one, exponential loss in the limit: input 1 pulls p upwards like 2 e^(-2p), input 2 downwards like g e^(-p).
    """
    gap = 1e-5
    balance = math.log(2 / gap)
    p = torch.linspace(6, 18, 2, dtype=torch.float64)
    figure, ax = plt.subplots(figsize=(WIDTH, 2.6))
    for pull, name, colour, aside in (
        (2 * (-2 * p).exp(), "input 1 pulls up", BLUE, (14, 0)),
        (gap * (-p).exp(), "input 2 pulls down", PINK, (6, -44)),
    ):
        ax.semilogy(p, pull, color=colour)
        ax.annotate(name, (p[0].item(), pull[0].item()), aside, textcoords="offset points", color=colour)
    both = gap * math.exp(-balance)
    ax.vlines(balance, 0, both, color=MUTED, lw=1)
    ax.plot(balance, both, "o", color=INK)
    ax.annotate(f"$p$ stays at {balance:.1f}", (balance, both), (6, 4), textcoords="offset points")
    ax.set(xlabel="$p$", ylabel="pull")
    return figure, {"norm": balance, "attention": 1 / (1 + math.exp(-balance))}


def draw_ratio_turns():
    """Draw how the limit of the prompt turns with the ratio of the two radii, on the data of Figure 3(b)."""
    problem, selected = JointProblem(*figure_3("b")), [1, 1, 1]
    ratios = [k / 20 for k in range(41)]
    prompts = [joint_limit(problem, selected, ratio).prompt.tolist() for ratio in [*ratios, math.inf]]
    *angles, last = [math.degrees(math.atan2(up, along)) for along, up in prompts]
    limits = [abs(angle - last) for angle in angles]
    threshold = float(joint_limit(problem, selected, 0.0).threshold)
    figure, ax = plt.subplots(figsize=(WIDTH, 2.6))
    ax.plot(ratios, limits, color=BLUE)
    ax.plot(threshold, 0, "o", color=VERMILION)
    ax.annotate(f"$c = {threshold:g}$", (threshold, 0), (4, 8), textcoords="offset points", color=VERMILION)
    ax.annotate(r"$p_{\mathrm{mm}}$", (ratios[0], limits[0]), (10, 0), textcoords="offset points")
    ax.annotate(r"$p_{\mathrm{rel}}$", (ratios[-1], limits[-1]), (-14, 8), textcoords="offset points")
    ax.set(xlabel="ratio $c$ of the radii, head to prompt", ylabel="angle to $p_{\\mathrm{rel}}$, degrees")
    return figure, {"threshold": threshold, "angle": max(limits)}


def draw_film_reader():
    """Draw what the heads of the network that is kept whole attend to, in reviews of few words and no rare one."""
    data = read_tokens(Path("book/recorded/film-reader/reviews.npz"))
    both = zip(data["texts"], data["mask"], strict=True)
    words = [[word for word, seen in zip(*row, strict=True) if seen] for row in both]
    shown = [k for k, row in enumerate(words) if 3 < len(row) < 12 and "?" not in row][:3]
    maps = [data["attention"][k, :, : len(words[k])] for k in shown]
    most = [int(weights[0].argmax()) for weights in maps]
    rows = [f"head {k}" for k in range(data["attention"].shape[1])]
    chosen = [words[k][place] for k, place in zip(shown, most, strict=True)]
    numbers = {"shown": len(shown), "inputs": len(words), "chosen": f"{', '.join(chosen[:-1])} and {chosen[-1]}"}
    return sentences([words[k] for k in shown], maps, rows, most), numbers


def draw_film_review():
    """Draw what a head of that network attends to in one review, before its training, after it, and trained alone."""
    review, numbers = film_review.attention(), film_review.numbers()
    maps, rows = zip(*((review[time], name) for time, name in film_review.TIMES.items()), strict=True)
    return sentences([review["words"]], [maps], rows, [int(np.argmax(review["alone"]))]), numbers


DRAWINGS = {  # by the names that pages use
    "selection": draw_selection,
    "by_hand": draw_by_hand,
    "tokens": draw_tokens,
    "region": draw_region,
    "balls": draw_balls,
    "flat_loss": draw_flat_loss,
    "opposite_inputs": draw_opposite_inputs,
    "finite_end": draw_finite_end,
    "ratio_turns": draw_ratio_turns,
    "film_reader": draw_film_reader,
    "film_review": draw_film_review,
}
