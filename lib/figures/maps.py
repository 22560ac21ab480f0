"""Draw values, and kinds, of the cells of a grid."""

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import PathPatch
from matplotlib.path import Path
from matplotlib.ticker import MaxNLocator

from .labels import write_beside
from .style import HEAT, INK, LIGHT, SIZE, WIDTH, colours_of, shaped


def heatmap(x, y, values, xlabel, ylabel, label, title="", limits=None, level=None, lines=None, ax=None):
    """Image of ``values`` over two axes, with a contour and named lines on it.

    Parameters
    ----------
    x : array_like, shape (columns,)
    y : array_like, shape (rows,)
        Centres of the cells, increasing. The axes count cells, and bear these numbers.
    values : array_like, shape (rows, columns)
        Cells that are nan stay empty.
    label : str
        Of the colour bar, which stands under all panels of the figure; "" draws none.
    limits : (float, float), optional
        Values at the ends of the colours; panels that share a bar need the same.
    level : float, optional
        Value whose contour is drawn, solid.
    lines : dict of str to (array_like, array_like)
        Curves x and y, dashed, each with its name above the image, where it leaves it.
    ax : matplotlib.axes.Axes, optional
        Panel of a larger figure.

    Returns
    -------
    matplotlib.figure.Figure
    """
    import seaborn as sns  # slow to import

    x, y = shaped("x", x, "columns"), shaped("y", y, "rows")
    values = shaped("values", values, len(y), len(x))
    if ax is None:
        _, ax = plt.subplots(figsize=(WIDTH, WIDTH))
    low, high = limits or (np.nanmin(values), np.nanmax(values))
    sns.heatmap(values, cmap=HEAT, vmin=low, vmax=high, cbar=False, rasterized=True, ax=ax)
    ax.invert_yaxis()
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    _count_cells(ax.xaxis, x)
    _count_cells(ax.yaxis, y)
    ax.spines[:].set(visible=True, lw=0.8)
    if level is not None and min(values.shape) > 1 and np.nanmin(values) < level < np.nanmax(values):
        ax.contour(np.arange(len(x)) + 0.5, np.arange(len(y)) + 0.5, values, levels=[level], colors=LIGHT, linewidths=2)
    for name, (along, up) in (lines or {}).items():
        _draw_named_line(ax, name, _cells(along, x), _cells(up, y))
    ax.set(xlim=(0, len(x)), ylim=(0, len(y)))
    if label:
        shown = ax.collections[0]
        ax.figure.colorbar(shown, ax=ax.figure.axes, orientation="horizontal", label=label, shrink=0.8, aspect=35)
    return ax.figure


def regions(x, y, kinds, names, xlabel, ylabel, lines=None):
    """Map of which of a few kinds each cell is, with the names of the kinds in their own region.

    Parameters
    ----------
    x : array_like, shape (columns,)
    y : array_like, shape (rows,)
        Centres of the cells, increasing and at equal distances.
    kinds : array_like, shape (rows, columns)
        Places in ``names``; cells that are nan stay empty.
    names : sequence of str
        The names of `KINDS` have their own colours.
    lines : dict of str to (array_like, array_like)
        Curves x and y, dashed, each with its name beside it.

    Returns
    -------
    matplotlib.figure.Figure
    """
    x, y = shaped("x", x, "columns"), shaped("y", y, "rows")
    kinds = shaped("kinds", kinds, len(y), len(x))
    _, ax = plt.subplots(figsize=(WIDTH, WIDTH))
    across, up = (np.diff(places).mean() if len(places) > 1 else 1.0 for places in (x, y))
    ax.set(xlim=(x[0] - across / 2, x[-1] + across / 2), ylim=(y[0] - up / 2, y[-1] + up / 2))
    ax.set(xlabel=xlabel, ylabel=ylabel)
    tracks = []
    for along, high in (lines or {}).values():
        ax.plot(along, high, color=INK, ls="--", lw=1.6)
        tracks.append(np.stack([np.asarray(along, float), np.asarray(high, float)], axis=1))
    wanted = [(name, track[len(track) // 2 :], INK) for name, track in zip(lines or {}, tracks, strict=True)]
    for kind, (name, colour) in enumerate(zip(names, colours_of(names, ax), strict=True)):
        rows, columns = np.nonzero(kinds == kind)
        if len(rows):
            ax.add_patch(PathPatch(_covered(kinds == kind, x, y, across, up), fc=colour, lw=0, alpha=0.3))
            middle = np.stack([x[columns], y[rows]], axis=1)
            nearest = np.argsort(np.linalg.norm(middle - np.median(middle, axis=0), axis=1), kind="stable")
            wanted.append((name, middle[nearest[: len(nearest) // 3 + 1 : len(nearest) // 24 + 1]], colour))
    write_beside(ax, tracks, np.empty((0, 2)), wanted)
    return ax.figure


def _cells(values, centres):
    """Places on an axis that counts cells, also beyond the outer centres."""
    values, steps = np.asarray(values, float), np.arange(len(centres)) + 0.5
    if len(centres) < 2:
        return values - centres[0] + 0.5
    inside = np.interp(values, centres, steps)
    before, after = values < centres[0], values > centres[-1]
    inside[before] += (values[before] - centres[0]) / (centres[1] - centres[0])
    inside[after] += (values[after] - centres[-1]) / (centres[-1] - centres[-2])
    return inside


def _count_cells(axis, centres):
    """Put round numbers on an axis that counts cells."""
    ticks = MaxNLocator(5, steps=[1, 2, 2.5, 5, 10]).tick_values(centres[0], centres[-1])
    ticks = ticks[(ticks >= centres[0]) & (ticks <= centres[-1])]
    axis.set_ticks(_cells(ticks, centres), [f"{tick:g}".replace("-", "\N{MINUS SIGN}") for tick in ticks], rotation=0)


def _draw_named_line(ax, name, x, y):
    """Draw a dashed line on an image, light on dark, its name above or beside the image where it leaves it."""
    columns, rows = ax.get_xlim()[1], ax.get_ylim()[1]
    ax.plot(x, y, color=LIGHT, ls="--", lw=1.8)
    inside = np.flatnonzero((x >= 0) & (x <= columns) & (y >= 0) & (y <= rows))
    if len(inside):
        last = inside[-1]
        above = y[last] / rows > x[last] / columns
        place, shift = ((x[last], rows), (0, 4)) if above else ((columns, y[last]), (4, 0))
        side = {"ha": "center", "va": "bottom"} if above else {"ha": "left", "va": "center"}
        ax.annotate(name, place, xytext=shift, textcoords="offset points", fontsize=SIZE, **side)


def _covered(mask, x, y, across, up):
    """Outline of the cells of a mask, those side by side in a row as one."""
    corners = []
    for row, line in zip(y, mask, strict=True):
        starts = np.flatnonzero(np.diff(np.r_[False, line, False].astype(int)))
        for first, last in starts.reshape(-1, 2):
            left, right = x[first] - across / 2, x[last - 1] + across / 2
            low, high = row - up / 2, row + up / 2
            corners += [(left, low), (right, low), (right, high), (left, high), (left, low)]
    codes = [Path.MOVETO, *[Path.LINETO] * 3, Path.CLOSEPOLY] * (len(corners) // 5)
    return Path(corners, codes)
