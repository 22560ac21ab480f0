"""The house style, and one function for each kind of figure.

Figures are about as wide as a phone is (in points), so that their text stays readable there; wide content goes
into stacked panels. White ground: the theme puts it on a light card in dark mode.
"""

from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from matplotlib import colormaps
from matplotlib.collections import LineCollection, PatchCollection
from matplotlib.colors import BoundaryNorm, LinearSegmentedColormap, ListedColormap, LogNorm, to_rgb
from matplotlib.patches import Rectangle, Wedge
from matplotlib.patheffects import withStroke

from . import checks

WIDTH = 5.2
# The palettes and the style "ticks" of seaborn, which takes as long to import as everything else here together.
COLORBLIND = [
    "#0173b2", "#de8f05", "#029e73", "#d55e00", "#cc78bc", "#ca9161", "#fbafe4", "#949494", "#ece133", "#56b4e9",
]  # fmt: skip
PALETTE = [to_rgb(code) for code in COLORBLIND]
TIME = colormaps["viridis_r"]
HEAT = colormaps["cividis"]
ATTENTION = LinearSegmentedColormap.from_list("attention", [(0.9388, 0.944, 0.952), PALETTE[0]])
INK = "0.15"
TICKS = {"color": INK, "labelsize": 10, "major.size": 6, "major.width": 1.25, "minor.size": 4, "minor.width": 1}
STYLE = {
    "figure.figsize": (WIDTH, 3.6),
    "figure.dpi": 200,
    "figure.constrained_layout.use": True,
    "font.sans-serif": ["Arial", "DejaVu Sans", "Liberation Sans", "Bitstream Vera Sans", "sans-serif"],
    "font.size": 11,
    "text.color": INK,
    "axes.prop_cycle": plt.cycler(color=PALETTE),
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 11,
    "axes.linewidth": 1.25,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": "0.8",
    "grid.linewidth": 1,
    "legend.fontsize": 11,
    "legend.title_fontsize": 12,
    "lines.linewidth": 1.8,
    "lines.solid_capstyle": "round",
    "patch.edgecolor": "w",
    "patch.force_edgecolor": True,
} | {f"{axis}tick.{name}": value for axis in "xy" for name, value in TICKS.items()}


def theme():
    """Set the house style for all figures of this process; without it they are drawn in whatever style is set."""
    plt.rcParams.update(STYLE)


def _shaped(name, value, *shape, dtype=float):
    """An array of this shape, in which words are sizes that are free, "..." any number of them; or ValueError."""
    try:
        array = np.asarray(value, dtype)
    except (TypeError, ValueError):
        raise ValueError(f"{name} is {checks.shown(value)}: give an array of real numbers") from None
    leading, wanted = shape[0] == "...", [size for size in shape if size != "..."]
    sizes = array.shape[-len(wanted) :] if leading else array.shape
    fits = len(sizes) == len(wanted) and all(
        size in (here, str(size)) for here, size in zip(sizes, wanted, strict=True)
    )
    if not fits:
        listed = ", ".join(map(str, shape)) + "," * (len(shape) == 1)
        raise ValueError(f"{name} has shape {array.shape}: give an array of shape ({listed})")
    return array


def plane(paths, times, points, scores, chosen, rays=None, normal=None, window=None, clock="iteration", cone=None):
    """Paths of a parameter in the plane over the tokens that it chooses among.

    Parameters
    ----------
    paths : array_like, shape (records, starts, 2)
    times : array_like, shape (records,)
        Their clock, as colour on a logarithmic scale that ends where the last path leaves the window.
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
        What ``times`` count.
    cone : (array_like of shape (2,), float, float), optional
        Axis, largest 1 - cos to it and radius: the vectors at least that long and that close to the axis are shaded.

    Returns
    -------
    matplotlib.figure.Figure
    """
    paths, points = _shaped("paths", paths, "records", "starts", 2), _shaped("points", points, "...", 2).reshape(-1, 2)
    times = _shaped("times", times, len(paths))
    scores = _shaped("scores", np.ravel(scores), len(points), dtype=None)
    chosen = _shaped("chosen", np.ravel(chosen), len(points), dtype=None)
    if chosen.dtype != bool:
        raise ValueError(f"chosen has type {chosen.dtype}: give True or False for each point")
    if not (times > 0).any():
        raise ValueError(f"times is {checks.shown(times.tolist())}: one of them must be above 0")
    left, right, bottom, top = window or _around(np.concatenate([points, paths[0]]))
    height = np.clip(WIDTH * (top - bottom) / (right - left), 2.5, 7)
    fig, ax = plt.subplots(figsize=(WIDTH, height + 0.8))
    ax.set(xlim=(left, right), ylim=(bottom, top), aspect="equal", xlabel="coordinate 1", ylabel="coordinate 2")
    ax.axhline(0, color="0.9", lw=0.8, zorder=0)
    ax.axvline(0, color="0.9", lw=0.8, zorder=0)
    if normal is not None:
        _draw_line(ax, np.asarray(normal), points, chosen)
    if cone is not None:
        _draw_cone(ax, *cone)
    for (label, direction), style in zip((rays or {}).items(), cycle(("--", ":", "-.")), strict=False):
        _draw_ray(ax, label, np.asarray(direction), style, paths)
    drawn = _draw_paths(ax, paths, times)
    _draw_points(ax, points, scores, chosen)
    fig.colorbar(drawn, ax=ax, orientation="horizontal", label=clock, shrink=0.7, pad=0.02, aspect=35)
    return fig


def curves(x, series, xlabel, ylabel, xscale="log", yscale="log", references=None, ax=None, bands=None):
    """Curves over x with a direct label each; a band from the 10th to the 90th percentile where there are many.

    Parameters
    ----------
    x : array_like, shape (records,)
    series : dict of str to array_like of shape (records,) or (records, trials)
    references : dict of str to array_like of shape (records,)
        Predictions, dashed and grey.
    ax : matplotlib.axes.Axes, optional
        Panel of a larger figure.
    bands : dict of str to (array_like, array_like)
        Lower and upper ends of an interval around the curve of that name.

    Returns
    -------
    matplotlib.figure.Figure
    """
    x = _shaped("x", x, "records")
    series = {label: _shaped(label, y, len(x), *["trials"] * (np.ndim(y) == 2)) for label, y in series.items()}
    references = {label: _shaped(label, y, len(x)) for label, y in (references or {}).items()}
    if ax is None:
        _, ax = plt.subplots()
    ends = []
    for (label, y), colour in zip(series.items(), cycle(PALETTE), strict=False):
        if y.ndim == 2:
            low, high = np.quantile(y, [0.1, 0.9], axis=1)
            ax.fill_between(x, low, high, color=colour, alpha=0.2, lw=0)
            y = np.median(y, axis=1)
        if label in (bands or {}):
            ax.fill_between(x, *map(np.asarray, bands[label]), color=colour, alpha=0.25, lw=0)
        ax.plot(x, y, color=colour)
        ends.append((label, y, colour))
    for label, y in references.items():
        ax.plot(x, y, color="0.35", ls="--", lw=1.3)
        ends.append((label, y, "0.35"))
    ax.set(xscale=xscale, yscale=yscale, xlabel=xlabel, ylabel=ylabel)
    _label_ends(ax, x, ends)
    return ax.figure


def histogram(samples, edges, xlabel, ylabel, ax=None):
    """Numbers of samples in each bin, stacked over the kinds of samples, with a legend where there are several.

    Parameters
    ----------
    samples : dict of str to array_like of shape (samples,)
        Those outside the edges are not counted; a kind may be empty.
    edges : array_like, shape (bins + 1,)
    ax : matplotlib.axes.Axes, optional
        Panel of a larger figure.

    Returns
    -------
    matplotlib.figure.Figure
    """
    edges = _shaped("edges", edges, "edges")
    if len(edges) < 2 or (np.diff(edges) <= 0).any():
        raise ValueError(f"edges is {checks.shown(edges.tolist())}: give at least two increasing numbers")
    if ax is None:
        _, ax = plt.subplots()
    ground = np.zeros(len(edges) - 1)
    for (label, values), colour in zip(samples.items(), cycle(PALETTE), strict=False):
        height = ground + np.histogram(np.asarray(values), edges)[0]
        ax.stairs(height, edges, baseline=ground, fill=True, color=colour, label=label)
        ground = height
    if len(samples) > 1:
        ax.legend(frameon=False, fontsize=10)
    ax.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.05 * max(ground.max(), 1)), xlabel=xlabel, ylabel=ylabel)
    return ax.figure


def agreement(predicted, measured, xlabel, ylabel):
    """Measured against predicted numbers, one point each, on the line where they agree."""
    predicted = _shaped("predicted", predicted, "points")
    measured = _shaped("measured", measured, len(predicted))
    fig, ax = plt.subplots(figsize=(WIDTH, 0.8 * WIDTH))
    ax.axline((predicted.mean(), predicted.mean()), slope=1, color="0.35", ls="--", lw=1.3)
    ax.scatter(predicted, measured, s=30, color=PALETTE[0], alpha=0.6, edgecolor="none")
    ax.set(xlabel=xlabel, ylabel=ylabel)
    return fig


def heatmap(x, y, values, xlabel, ylabel, label, title="", limits=None, classes=None, level=None, lines=None, ax=None):
    """Image of ``values`` over two axes, or a map of classes, with a contour and named lines on it.

    Parameters
    ----------
    x : array_like, shape (columns,)
    y : array_like, shape (rows,)
        Centres of the cells, increasing.
    values : array_like, shape (rows, columns)
        Cells that are nan stay white.
    label : str
        Of the colour bar, which stands under all panels of the figure; "" draws none.
    limits : (float, float), optional
        Values at the ends of the colours; panels that share a bar need the same.
    classes : sequence of str, optional
        Then ``values`` are indices into these names, and the colour bar lists them.
    level : float, optional
        Value whose contour is drawn, solid.
    lines : dict of str to (array_like, array_like)
        Curves x and y, dashed, each with its name where it leaves the image.
    ax : matplotlib.axes.Axes, optional
        Panel of a larger figure.

    Returns
    -------
    matplotlib.figure.Figure
    """
    x, y = _shaped("x", x, "columns"), _shaped("y", y, "rows")
    values = _shaped("values", values, len(y), len(x))
    if ax is None:
        _, ax = plt.subplots(figsize=(WIDTH, WIDTH))
    if classes is None:
        low, high = limits or (np.nanmin(values), np.nanmax(values))
        colours = {"cmap": HEAT, "vmin": low, "vmax": high}
    else:
        edges = np.arange(len(classes) + 1) - 0.5
        colours = {"cmap": ListedColormap(PALETTE[: len(classes)]), "norm": BoundaryNorm(edges, len(classes))}
    image = ax.pcolormesh(x, y, np.ma.masked_invalid(values), shading="nearest", rasterized=True, **colours)
    ax.set(xlabel=xlabel, ylabel=ylabel, title=title)
    frame = *ax.get_xlim(), *ax.get_ylim()
    if level is not None and min(values.shape) > 1 and np.nanmin(values) < level < np.nanmax(values):
        contour = ax.contour(x, y, values, levels=[level], colors="white", linewidths=2)
        contour.set_path_effects([withStroke(linewidth=3.4, foreground="0.15")])
    for name, (along, up) in (lines or {}).items():
        _draw_named_line(ax, name, np.asarray(along, float), np.asarray(up, float), frame)
    ax.set(xlim=frame[:2], ylim=frame[2:])
    if label or classes:
        bar = ax.figure.colorbar(image, ax=ax.figure.axes, orientation="horizontal", label=label, shrink=0.8, aspect=35)
        if classes is not None:
            bar.set_ticks(range(len(classes)), labels=classes)
            bar.minorticks_off()
    return ax.figure


def sentences(words, attention, rows, marked=None, label="attention"):
    """Sentences, wrapped, and under each word a cell for each row, as dark as the attention that the word gets.

    Parameters
    ----------
    words : sequence of sequences of str
        One sentence each; they may differ in length.
    attention : sequence of array_like, each of shape (rows, words of the sentence)
        Between 0 and 1.
    rows : sequence of str
        Names of the rows, written in front of each line of cells.
    marked : sequence of int, optional
        Place of one word in each sentence, set in bold.
    label : str
        Of the colour bar.

    Returns
    -------
    matplotlib.figure.Figure
    """
    if len(words) != len(attention):
        raise ValueError(
            f"there are {len(words)} sentences and {len(attention)} arrays of attention: give each sentence one"
        )
    attention = [
        _shaped(f"attention of sentence {k}", shade, len(rows), len(sentence))
        for k, (sentence, shade) in enumerate(zip(words, attention, strict=True))
    ]
    marked = [None] * len(words) if marked is None else marked
    fig = plt.figure(layout="none")
    ax = fig.add_axes((0, 0, 1, 1))
    gutter = max(_text_width(ax, name, 10) for name in rows) + 8
    boxes, shades, height = [], [], 4.0
    for sentence, shade, place in zip(words, attention, marked, strict=True):
        bold = ["bold" if k == place else "normal" for k in range(len(sentence))]
        widths = [_text_width(ax, *pair) + 5 for pair in zip(sentence, cycle([13]), bold, strict=False)]
        for line in _wrapped(widths, 72 * WIDTH - gutter):
            left = gutter + np.cumsum([0, *(widths[k] for k in line)])
            for k, start in zip(line, left, strict=False):
                ax.text(start + widths[k] / 2, height + 12, sentence[k], fontsize=13, weight=bold[k], ha="center")
            for row, name in enumerate(rows):
                top = height + 18 + 13 * row
                ax.text(gutter - 6, top + 6, name, fontsize=10, ha="right", va="center", color="0.35")
                boxes += [Rectangle((start, top), widths[k] - 1, 12) for k, start in zip(line, left, strict=False)]
                shades += [shade[row, k] for k in line]
            height += 25 + 13 * len(rows)
        height += 12
    cells = ax.add_collection(PatchCollection(boxes, cmap=ATTENTION, edgecolor="0.75", lw=0.4), autolim=False)
    cells.set(array=shades, clim=(0, 1))
    fig.set_size_inches(WIDTH, (height + 44) / 72)
    ax.set(xlim=(0, 72 * WIDTH), ylim=(height + 44, 0))
    ax.set_axis_off()
    bar = fig.add_axes((0.3, 36 / (height + 44), 0.4, 9 / (height + 44)))
    fig.colorbar(cells, cax=bar, orientation="horizontal", label=label, ticks=[0, 0.5, 1])
    return fig


def pictures(images, attention, columns, notes=None, label="attention"):
    """Images in rows, once for each column, coloured where the attention of that column is.

    Parameters
    ----------
    images : array_like, shape (rows, channels, height, width)
        Between 0 and 1; one channel is ink on white paper, three are red, green and blue.
    attention : array_like, shape (rows, columns, ...)
        On square patches of the image in reading order, in one or two dimensions; not below 0.
    columns : sequence of str
        Names, written above.
    notes : sequence of sequences of str, optional
        What stands under each picture.
    label : str
        Of the colour bar, which all pictures share; it ends at the largest attention.

    Returns
    -------
    matplotlib.figure.Figure
    """
    images = _shaped("images", images, "rows", "channels", "height", "width")
    rows, _, height, width = images.shape
    attention = np.asarray(attention, float)
    patch = round((height * width / max(attention[0, 0].size, 1)) ** 0.5) or 1
    if attention.size != rows * len(columns) * (height // patch) * (width // patch):
        raise ValueError(
            f"attention has shape {attention.shape}: it must be on square patches that fill images of {height} x"
            f" {width}, for {rows} rows and {len(columns)} columns"
        )
    maps = attention.reshape(rows, len(columns), height // patch, width // patch)
    tall = WIDTH / len(columns) * height / width + (0.25 if notes else 0.05)
    fig, axes = plt.subplots(rows, len(columns), figsize=(WIDTH, rows * tall + 0.8), squeeze=False)
    colours = LinearSegmentedColormap.from_list("attention", [(*PALETTE[3], 0.0), (*PALETTE[3], 0.9)])
    for (k, column), ax in np.ndenumerate(axes):
        place = {"extent": (0, width, height, 0), "interpolation": "nearest"}
        ax.imshow(np.moveaxis(images[k], 0, -1), cmap="gray_r", vmin=0, vmax=1, alpha=0.5, **place)
        drawn = ax.imshow(maps[k, column], cmap=colours, vmin=0, vmax=maps.max(), **place)
        ax.set(xticks=[], yticks=[], xlabel=notes[k][column] if notes else "")
        ax.spines[:].set(visible=True, color="0.6", lw=0.6)
        if k == 0:
            ax.set_title(columns[column], fontsize=10, loc="center")
    fig.colorbar(drawn, ax=axes, orientation="horizontal", label=label, shrink=0.6, aspect=35)
    return fig


def panels(count, height=2.6):
    """``count`` axes stacked in one figure of the house width, ``height`` inches each."""
    checks.whole("count", count)
    return plt.subplots(count, 1, figsize=(WIDTH, height * count), squeeze=False)[1][:, 0]


def _around(points, margin=0.35):
    low, high = points.min(0), points.max(0)
    centre, half = (low + high) / 2, (high - low).max() / 2 + margin
    return (centre[0] - half, centre[0] + half, centre[1] - half, centre[1] + half)


def _draw_line(ax, normal, points, chosen):
    heights = points @ normal
    ahead, behind = heights[chosen].min(initial=np.inf), heights[~chosen].max(initial=-np.inf)
    if np.isfinite([ahead, behind]).all() and ahead > behind:
        foot, along = normal * (ahead + behind) / 2 / (normal @ normal), np.array([-normal[1], normal[0]])
        ax.axline(foot, foot + along, color="0.55", ls=(0, (1, 2)), lw=1.6, zorder=1)


def _draw_cone(ax, axis, opening, radius):
    """Shade the cone from its radius to beyond the frame, with its name near one edge."""
    middle, half = np.arctan2(float(axis[1]), float(axis[0])), np.arccos(1 - float(opening))
    beyond = 2 * np.abs([*ax.get_xlim(), *ax.get_ylim()]).max()
    if radius < beyond:
        edges = np.degrees([middle - half, middle + half])
        shade = {"facecolor": PALETTE[0], "alpha": 0.18, "lw": 0, "zorder": 0.5}
        ax.add_patch(Wedge((0, 0), beyond, *edges, width=beyond - float(radius), **shade))
        side = middle + 0.8 * half
        place = 1.6 * float(radius) * np.array([np.cos(side), np.sin(side)])
        ax.text(*place, "cone", color=PALETTE[0], ha="center", va="center", zorder=6, clip_on=True)


def _draw_ray(ax, label, direction, style, paths):
    """Ray from the origin to the frame, its label beside the end, on the side with less of the paths."""
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    edges = np.where(direction > 0, [right, top], [left, bottom])
    reach = np.min(np.divide(edges, direction, out=np.full(2, np.inf), where=direction != 0))
    end = direction * reach
    ax.plot([0, end[0]], [0, end[1]], color=PALETTE[3], ls=style, lw=2, zorder=2)
    room = np.array([0.3 * (right - left), 0.1 * (top - bottom)])
    near = np.abs(paths.reshape(-1, 2) - end) < room
    covered = [np.sum(near.all(1) & (side * (paths.reshape(-1, 2) - end)[:, 0] > 0)) for side in (-1, 1)]
    sideways = end[0] > right - room[0] / 2 or (end[0] > left + room[0] / 2 and covered[0] < covered[1])
    ax.annotate(
        label, end, xytext=(-8 if sideways else 8, -6 if end[1] > 0 else 6), textcoords="offset points",
        color=PALETTE[3], ha="right" if sideways else "left", va="top" if end[1] > 0 else "bottom", zorder=6,
        bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none", "alpha": 0.8},
    )  # fmt: skip


def _draw_paths(ax, paths, times):
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    x, y = paths[..., 0], paths[..., 1]
    seen = ((x >= left) & (x <= right) & (y >= bottom) & (y <= top)).any(1) & (times > 0)
    shown = times[seen] if seen.any() else times[times > 0]
    scale = LogNorm(shown.min(), max(shown.max(), 2 * shown.min()))
    for path in np.moveaxis(paths, 1, 0):
        pieces = LineCollection(np.stack([path[:-1], path[1:]], axis=1), cmap=TIME, norm=scale, lw=2.2, zorder=3)
        pieces.set_array(times[1:])
        drawn = ax.add_collection(pieces, autolim=False)
    ax.scatter(*paths[0].T, s=32, facecolor="white", edgecolor="0.2", lw=1.3, zorder=4)
    return drawn


def _draw_points(ax, points, scores, chosen):
    ax.scatter(*points[~chosen].T, s=55, color=PALETTE[1], edgecolor="0.1", zorder=5, marker="s")
    ax.scatter(*points[chosen].T, s=170, color=PALETTE[2], edgecolor="0.1", zorder=5, marker="*")
    crowd, written = 0.16 * np.ptp(ax.get_xlim()), []
    above = points[:, 1] >= points[:, 1].mean()
    outermost_first = np.argsort(-np.abs(points[:, 1] - points[:, 1].mean()), kind="stable")
    for k in outermost_first:
        point, score = points[k], scores[k]
        if any(score == other and np.linalg.norm(point - place) < crowd for other, place in written):
            continue
        written.append((score, point))
        name = score if isinstance(score, str) else f"score {score:g}"
        ax.annotate(
            name, point, xytext=(6, 8 if above[k] else -8), textcoords="offset points", fontsize=10,
            va="bottom" if above[k] else "top", zorder=7,
            bbox={"boxstyle": "round,pad=0.1", "fc": "white", "ec": "none", "alpha": 0.75},
        )  # fmt: skip


def _draw_named_line(ax, name, x, y, frame):
    """Draw a dashed line on an image, its name beside the last of its points inside the frame."""
    left, right, bottom, top = frame
    ax.plot(x, y, color="white", ls="--", lw=1.8, path_effects=[withStroke(linewidth=3.2, foreground="0.15")])
    inside = np.flatnonzero((x >= left) & (x <= right) & (y >= bottom) & (y <= top))
    if len(inside):
        end = x[inside[-1]], y[inside[-1]]
        rightwards = end[0] < (left + right) / 2
        ax.annotate(
            name, end, xytext=(6 if rightwards else -2, -14), textcoords="offset points", fontsize=10, va="top",
            ha="left" if rightwards else "right", bbox={"boxstyle": "round,pad=0.15", "fc": "white", "ec": "none"},
        )  # fmt: skip


def _text_width(ax, text, fontsize, weight="normal"):
    """Width of a text in points."""
    drawn = ax.text(0, 0, text, fontsize=fontsize, weight=weight)
    width = drawn.get_window_extent().width * 72 / ax.figure.dpi
    drawn.remove()
    return width


def _wrapped(widths, room):
    """Break words of these widths into the fewest lines that fit the room, of about equal length: lists of indices."""

    def lines(limit):
        broken, used = [[]], 0
        for k, width in enumerate(widths):
            if broken[-1] and used + width > limit:
                broken, used = [*broken, []], 0
            broken[-1].append(k)
            used += width
        return broken

    fewest = len(lines(room))
    return next(lines(limit) for limit in np.linspace(room / 4, room, 40) if len(lines(limit)) == fewest)


def _label_ends(ax, x, ends):
    """Write each label at the right end of its curve, moved apart where two would overlap."""
    ax.figure.canvas.draw()
    low, high = ax.get_ylim()
    to_height = ax.transData
    last = [y[np.isfinite(y)][-1] if np.isfinite(y).any() else low for _, y, _ in ends]
    heights = [to_height.transform((x[-1], np.clip(y, low, high)))[1] for y in last]
    line = 13 * ax.figure.dpi / 72
    order = np.argsort(heights, kind="stable")
    half = [line * (label.count("\n") + 1) / 2 for label, _, _ in ends]
    centre, top = {}, -np.inf
    for k in order:
        centre[k] = max(heights[k], top + half[k])
        top = centre[k] + half[k]
    top = ax.bbox.y1 + line / 2  # labels above the frame would make the layout shrink it
    for k in order[::-1]:
        centre[k] = min(centre[k], top - half[k])
        top = centre[k] - half[k]
    for k, (label, _, colour) in enumerate(ends):
        fraction = ax.transAxes.inverted().transform((0, centre[k]))[1]
        ax.annotate(label, (1.01, fraction), xycoords="axes fraction", color=colour, va="center", fontsize=10)
