"""Draw paths of a parameter in the plane, over the tokens that it chooses among."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Wedge

from .labels import label_ends, write_beside
from .style import BLUE, FAINT, INK, KINDS, MUTED, PAPER, VIOLET, WIDTH, colour_of, shaped


def plane(
    paths, points, scores, chosen, rays=None, normal=None, window=None, cone=None, names=(), heading="", ax=None,
    outcomes=None,
):  # fmt: skip
    """Paths of a parameter in the plane over the tokens that it chooses among.

    Parameters
    ----------
    paths : array_like, shape (records, starts, 2)
        Each from a ring to an arrowhead, where it ends or leaves the window for good.
    points : array_like, shape (..., 2)
        Keys of the tokens.
    scores : array_like, shape (...)
        Numbers, or names written as they are, beside the tokens; once where several of one score crowd together.
    chosen : array_like of bool or of str, shape (...)
        Tokens drawn as green stars; the others are grey squares. Or a name of `KINDS` for each: "optimal" ones are
        stars, all others squares of their colour.
    rays : dict of str to array_like of shape (2,)
        Directions that are predicted: dashed from the origin, by label.
    normal : array_like, shape (2,), optional
        Normal of the separating line, drawn midway between the chosen tokens and the others if it separates them.
    window : (float, float, float, float), optional
        x and y limits; by default around the points and starts.
    cone : (array_like of shape (2,), float, float), optional
        Axis, largest 1 - cos to it and radius: the vectors at least that long and that close to the axis are shaded.
    names : sequence of str
        Of the paths, each at the end of its own; "" names none.
    heading : str
        What the names are: stands once above them.
    ax : matplotlib.axes.Axes, optional
        Panel of a larger figure.
    outcomes : sequence of str, optional
        For each path a name of `KINDS`, what it ends at: its colour, which otherwise is that of all paths.

    Returns
    -------
    matplotlib.figure.Figure
    """
    paths, points = shaped("paths", paths, "records", "starts", 2), shaped("points", points, "...", 2).reshape(-1, 2)
    scores = shaped("scores", np.ravel(scores), len(points), dtype=None)
    kinds = shaped("chosen", np.ravel(chosen), len(points), dtype=None)
    if kinds.dtype == bool:
        kinds = np.where(kinds, "optimal", "other")
    if unknown := sorted({str(kind) for kind in kinds} - {*KINDS}):
        raise ValueError(f"chosen has {unknown[0]}: give True or False for each point, or one of {', '.join(KINDS)}")
    outcomes = shaped(
        "outcomes", ["path"] * paths.shape[1] if outcomes is None else outcomes, paths.shape[1], dtype=str
    )
    chosen = kinds == "optimal"
    left, right, bottom, top = window or _around(np.concatenate([points, paths[0]]))
    if ax is None:
        height = np.clip(WIDTH * (top - bottom) / (right - left), 2.3, 6.5)
        _, ax = plt.subplots(figsize=(WIDTH, height + 0.2))
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xlabel="coordinate 1", ylabel="coordinate 2")
    ax.axhline(0, color=FAINT, lw=0.8, zorder=0)
    ax.axvline(0, color=FAINT, lw=0.8, zorder=0)
    if normal is not None:
        _draw_line(ax, np.asarray(normal), points, chosen)
    _draw_paths(ax, paths, [colour_of(outcome) for outcome in outcomes])
    tips = {label: _draw_ray(ax, np.asarray(ray, float), colour_of(label)) for label, ray in (rays or {}).items()}
    for point, kind in zip(points, kinds, strict=True):
        look = {"s": 170, "marker": "*"} if kind == "optimal" else {"s": 45, "marker": "s"}
        ax.scatter(*point, color=KINDS[kind], edgecolor=PAPER, lw=0.8, zorder=5, **look)
    wanted, marks = _names(ax, points, scores), np.concatenate([points, paths[0]])
    wanted += [(label, np.outer(np.linspace(0.97, 0.4, 12), end), colour_of(label)) for label, end in tips.items()]
    if cone is not None:
        wanted.append(("cone", _draw_cone(ax, *cone), BLUE))
    tracks = [*np.moveaxis(paths, 1, 0), *(np.outer(np.linspace(0, 1, 100), end) for end in tips.values())]
    named = [(name, *path.T, VIOLET) for name, path in zip(names, np.moveaxis(paths, 1, 0), strict=False) if name]
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
    return np.outer(np.geomspace(1.2, 6, 12) * float(radius), [np.cos(side), np.sin(side)])


def _draw_ray(ax, direction, colour):
    """Draw a ray from the origin to the frame; return where it ends."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    edges = np.where(direction > 0, [right, top], [left, bottom])
    reach = np.min(np.divide(edges, direction, out=np.full(2, np.inf), where=direction != 0))
    end = direction * reach
    ax.plot([0, end[0]], [0, end[1]], color=colour, ls="--", lw=1.6, zorder=2)
    return end


def _draw_paths(ax, paths, colours):
    """Draw each path from a ring, with an arrowhead where it is last seen."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    for path, colour in zip(np.moveaxis(paths, 1, 0), colours, strict=True):
        ax.plot(*path.T, color=colour, lw=1.8, zorder=3, solid_capstyle="round")
        inside = np.flatnonzero(((path >= (left, bottom)) & (path <= (right, top))).all(1))
        if not len(inside):
            continue
        seen, (here, *beyond) = path[: inside[-1] + 1], path[inside[-1] : inside[-1] + 2]
        for end in beyond:  # where it leaves the window, between two records
            leaving = here + np.linspace(0, 1, 99)[:, None] * (end - here)
            seen = np.concatenate([seen, leaving[((leaving >= (left, bottom)) & (leaving <= (right, top))).all(1)]])
        before = seen[np.linalg.norm(seen - seen[-1:], axis=1) > 0.02 * (right - left)]
        if len(before):
            arrow = {"arrowstyle": "-|>", "color": colour, "lw": 1.2, "shrinkA": 0, "shrinkB": 0}
            ax.annotate("", seen[-1], before[-1], arrowprops=arrow, zorder=3)
    ax.scatter(*paths[0].T, s=24, facecolor="none", edgecolor=INK, lw=1.1, zorder=4)


def _names(ax, points, scores):
    """What to write at the tokens, and where: once where several of one score crowd together."""
    crowd, written = 0.1 * np.ptp(ax.get_xlim()), []
    for point, score in zip(points, scores, strict=True):
        if not any(score == other and np.linalg.norm(point - place) < crowd for other, place in written):
            written.append((score, point))
    return [(score if isinstance(score, str) else f"score {score:g}", place[None], INK) for score, place in written]
