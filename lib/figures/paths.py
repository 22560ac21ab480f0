"""Draw paths of a parameter in the plane, over the tokens that it chooses among."""

from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LogNorm
from matplotlib.patches import Wedge

from .. import checks
from .labels import label_ends, write_beside
from .style import BLUE, FAINT, INK, KINDS, MUTED, PAPER, TIME, WIDTH, colour_of, plain_ticks, shaped


def plane(
    paths, times, points, scores, chosen, rays=None, normal=None, window=None, clock="iteration", cone=None, names=(),
    heading="", ax=None,
):  # fmt: skip
    """Paths of a parameter in the plane over the tokens that it chooses among.

    Parameters
    ----------
    paths : array_like, shape (records, starts, 2)
    times : array_like, shape (records,)
        Their clock, as colour on a logarithmic scale from where a path moves to where the last one leaves the window.
    points : array_like, shape (..., 2)
        Keys of the tokens.
    scores : array_like, shape (...)
        Numbers, or names written as they are, beside the tokens; once where several of one score crowd together.
    chosen : array_like of bool, shape (...)
        Tokens drawn as stars; the others are squares.
    rays : dict of str to array_like of shape (2,)
        Directions to draw from the origin, by label.
    normal : array_like, shape (2,), optional
        Normal of the separating line, drawn midway between the chosen tokens and the others if it separates them.
    window : (float, float, float, float), optional
        x and y limits; by default around the points and starts.
    clock : str
        What ``times`` count; "" draws no colour bar.
    cone : (array_like of shape (2,), float, float), optional
        Axis, largest 1 - cos to it and radius: the vectors at least that long and that close to the axis are shaded.
    names : sequence of str
        Of the paths, each at the end of its own; "" names none.
    heading : str
        What the names are: stands once above them.
    ax : matplotlib.axes.Axes, optional
        Panel of a larger figure.

    Returns
    -------
    matplotlib.figure.Figure
    """
    paths, points = shaped("paths", paths, "records", "starts", 2), shaped("points", points, "...", 2).reshape(-1, 2)
    times = shaped("times", times, len(paths))
    scores = shaped("scores", np.ravel(scores), len(points), dtype=None)
    chosen = shaped("chosen", np.ravel(chosen), len(points), dtype=None)
    if chosen.dtype != bool:
        raise ValueError(f"chosen has type {chosen.dtype}: give True or False for each point")
    if not (times > 0).any():
        raise ValueError(f"times is {checks.shown(times.tolist())}: one of them must be above 0")
    left, right, bottom, top = window or _around(np.concatenate([points, paths[0]]))
    if ax is None:
        height = np.clip(WIDTH * (top - bottom) / (right - left), 2.3, 6.5)
        _, ax = plt.subplots(figsize=(WIDTH, height + 0.8))
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xlabel="coordinate 1", ylabel="coordinate 2")
    ax.axhline(0, color=FAINT, lw=0.8, zorder=0)
    ax.axvline(0, color=FAINT, lw=0.8, zorder=0)
    if normal is not None:
        _draw_line(ax, np.asarray(normal), points, chosen)
    drawn = _draw_paths(ax, paths, times)
    if clock:
        _draw_clock(ax, drawn, clock)
    tips = {label: _draw_ray(ax, np.asarray(ray, float), style)
            for (label, ray), style in zip((rays or {}).items(), cycle(("--", ":", "-.")), strict=False)}  # fmt: skip
    _draw_points(ax, points, chosen)
    wanted, marks = _names(ax, points, scores), np.concatenate([points, paths[0]])
    wanted += [(label, np.outer(np.linspace(0.97, 0.4, 12), end), colour_of(label)) for label, end in tips.items()]
    if cone is not None:
        wanted.append(("cone", _draw_cone(ax, *cone), BLUE))
    tracks = [*np.moveaxis(paths, 1, 0), *(np.outer(np.linspace(0, 1, 100), end) for end in tips.values())]
    named = [(name, *path.T, INK) for name, path in zip(names, np.moveaxis(paths, 1, 0), strict=False) if name]
    if named:
        label_ends(ax, named, heading)
    write_beside(ax, tracks, marks, wanted)
    return ax.figure


def _around(points, margin=0.35):
    low, high = points.min(0), points.max(0)
    centre, half = (low + high) / 2, (high - low).max() / 2 + margin
    return (centre[0] - half, centre[0] + half, centre[1] - half, centre[1] + half)


def _draw_line(ax, normal, points, chosen):
    heights = points @ normal
    ahead, behind = heights[chosen].min(initial=np.inf), heights[~chosen].max(initial=-np.inf)
    if np.isfinite([ahead, behind]).all() and ahead > behind:
        foot, along = normal * (ahead + behind) / 2 / (normal @ normal), np.array([-normal[1], normal[0]])
        ax.axline(foot, foot + along, color=MUTED, ls=(0, (1, 2)), lw=1.4, zorder=1)


def _draw_cone(ax, axis, opening, radius):
    """Shade the cone from its radius to beyond the frame; return places for its name, within one edge."""
    middle, half = np.arctan2(float(axis[1]), float(axis[0])), np.arccos(1 - float(opening))
    beyond = 2 * np.abs([*ax.get_xlim(), *ax.get_ylim()]).max()
    if radius < beyond:
        edges = np.degrees([middle - half, middle + half])
        shade = {"facecolor": BLUE, "alpha": 0.18, "lw": 0, "zorder": 0.5}
        ax.add_patch(Wedge((0, 0), beyond, *edges, width=beyond - float(radius), **shade))
    side = middle + 0.8 * half
    return np.outer(np.linspace(1.2, 2, 9) * float(radius), [np.cos(side), np.sin(side)])


def _draw_ray(ax, direction, style):
    """Draw a ray from the origin to the frame; return where it ends."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    edges = np.where(direction > 0, [right, top], [left, bottom])
    reach = np.min(np.divide(edges, direction, out=np.full(2, np.inf), where=direction != 0))
    end = direction * reach
    ax.plot([0, end[0]], [0, end[1]], color=INK, ls=style, lw=1.6, zorder=2)
    return end


def _draw_paths(ax, paths, times):
    """Draw each path in the colours of its clock; return what a colour bar needs."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    x, y = paths[..., 0], paths[..., 1]
    seen = ((x >= left) & (x <= right) & (y >= bottom) & (y <= top)).any(1) & (times > 0)
    moved = np.linalg.norm(paths - paths[0], axis=-1).max(1) > 0.01 * (right - left)
    shown = next(times[which] for which in (seen & moved, seen, times > 0) if which.any())
    scale = LogNorm(shown.min(), max(shown.max(), 2 * shown.min()))
    shades = np.asarray(TIME(scale(np.maximum(times[1:], shown.min())), bytes=True))
    breaks = np.flatnonzero((np.diff(shades.astype(int), axis=0) != 0).any(1)) + 1
    for path in np.moveaxis(paths, 1, 0):
        for piece in np.split(np.arange(len(shades)), breaks):
            if len(piece):
                along = path[piece[0] : piece[-1] + 2]
                ax.plot(*along.T, color=shades[piece[0]] / 255, lw=2.2, zorder=3, solid_capstyle="round")
    ax.scatter(*paths[0].T, s=28, facecolor=PAPER, edgecolor=INK, lw=1.2, zorder=4)
    return plt.cm.ScalarMappable(scale, TIME)


def _draw_clock(ax, drawn, label):
    """Put the colours of the clock under the axes."""
    bar = ax.figure.colorbar(drawn, ax=ax, orientation="horizontal", label=label, shrink=0.7, pad=0.02, aspect=35)
    bar.outline.set_visible(False)
    bar.solids.set_edgecolor("face")  # else the ground shines through between two colours
    plain_ticks(bar.ax)


def _draw_points(ax, points, chosen):
    ax.scatter(*points[~chosen].T, s=45, color=KINDS["other"], edgecolor=PAPER, lw=0.8, zorder=5, marker="s")
    ax.scatter(*points[chosen].T, s=170, color=KINDS["optimal"], edgecolor=PAPER, lw=0.8, zorder=5, marker="*")


def _names(ax, points, scores):
    """What to write at the tokens, and where: once where several of one score crowd together."""
    crowd, written = 0.1 * np.ptp(ax.get_xlim()), []
    for point, score in zip(points, scores, strict=True):
        if not any(score == other and np.linalg.norm(point - place) < crowd for other, place in written):
            written.append((score, point))
    return [(score if isinstance(score, str) else f"score {score:g}", place[None], INK) for score, place in written]
