"""The house style, one palette, and one function for each kind of figure.

A figure is as wide as it is on a phone: there one of its points is one pixel, so that its text of 11 points stays
readable, and what is wide goes into panels that stack. The ground is white and the ink nearly black; in the book
``workflow/vectors.py`` gives both, and every other colour, the shade that belongs to the page, light or dark.
"""

import re
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
import seaborn as sns
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap, ListedColormap, LogNorm
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patches import Patch, PathPatch, Rectangle, Wedge
from matplotlib.path import Path
from matplotlib.patheffects import withStroke
from matplotlib.text import OffsetFrom, Text
from matplotlib.ticker import LogLocator, MaxNLocator

from . import checks

WIDTH, SIZE = 4.75, 11  # inches, that is 342 points, what a phone of 390 pixels leaves for a figure; points
INDENT = 14  # points, of the further lines of a wrapped sentence
RECORDS = 150  # of a band: one every two points of its width
INK, MUTED, FAINT, PAPER = "#1c1c1c", "#595959", "#e0e0e0", "#ffffff"
EDGE = [withStroke(linewidth=2.5, foreground=PAPER)]  # of dashes, which else are lost on a curve that they agree with
LIGHT = "#fefefe"  # on images, whose colours stay the same in the dark
# Each stands out from white by 4.5 : 1, so that a curve's own colour can write its name, and so do their shades for the
# dark; neighbours here differ for eyes without one kind of cones, too.
BLUE, VERMILION, GREEN, VIOLET = "#215fd7", "#c64a18", "#00593f", "#43239b"
PINK, BROWN, TEAL = "#b93592", "#614000", "#04637d"
PALETTE = (BLUE, VERMILION, GREEN, VIOLET, PINK, BROWN, TEAL)
# The same method has the same colour in each chapter, by the name that a curve bears; the order of a mirror map, too.
METHODS = {
    "GD": BLUE, "SGD": BLUE, "normalised GD": VERMILION, "NGD": VERMILION, "normalised": VERMILION,
    "normalised SGD": VERMILION, "NSGD": VERMILION, "Polyak": GREEN, "flow": VIOLET, "path": VIOLET, "Adam": PINK,
    "own norms": VERMILION, "joint norm": GREEN,
}  # fmt: skip
ORDERS = {1.1: BROWN, 1.5: PINK, 1.75: VERMILION, 2.0: BLUE, 3.0: GREEN, 10.0: VIOLET}
# What a token is to the choice, or a choice to all choices.
KINDS = {"optimal": GREEN, "selected": VERMILION, "other": MUTED, "global": GREEN, "local": VERMILION}
TIME = ListedColormap(sns.color_palette("flare", 24).as_hex())
HEAT = sns.color_palette("cividis", as_cmap=True)
ATTENTION = LinearSegmentedColormap.from_list("attention", [f"{BLUE}00", BLUE])  # the page's ground shines through


def theme():
    """Set the house style for all figures of this process; without it they are drawn in whatever style is set."""
    sns.set_theme(
        context="notebook",
        style="ticks",
        palette=PALETTE,
        rc={
            "figure.figsize": (WIDTH, 3.0),
            "figure.dpi": 200,
            "figure.facecolor": PAPER,
            "figure.constrained_layout.use": True,
            "font.size": SIZE,
            "axes.labelsize": SIZE,
            "axes.titlesize": SIZE,
            "axes.titlelocation": "left",
            "axes.facecolor": "none",
            "axes.spines.top": False,
            "axes.spines.right": False,
            "xtick.labelsize": SIZE,
            "ytick.labelsize": SIZE,
            "legend.fontsize": SIZE,
            "legend.frameon": False,
            "lines.linewidth": 1.8,
            "path.simplify_threshold": 0.2,  # points by which a drawn curve may miss its records: a tenth of its width
            "svg.hashsalt": "figures",  # the same file for the same figure
        }
        | dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK),
    )


def colour_of(name, otherwise=INK):
    """The one colour of a method, of an order (``"p = 1.75"``) or of a kind of token; else ``otherwise``."""
    plain = " ".join(name.split())
    order = re.fullmatch(r"\$?(?:[pq] ?= ?|\\ell_\{?)([\d.]+)\}?\$?", plain)
    known = METHODS | KINDS
    return ORDERS.get(float(order[1]), otherwise) if order else known.get(plain, otherwise)


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
    paths, points = _shaped("paths", paths, "records", "starts", 2), _shaped("points", points, "...", 2).reshape(-1, 2)
    times = _shaped("times", times, len(paths))
    scores = _shaped("scores", np.ravel(scores), len(points), dtype=None)
    chosen = _shaped("chosen", np.ravel(chosen), len(points), dtype=None)
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
        _label_ends(ax, named, heading)
    _write(ax, tracks, marks, wanted, faint=[np.array([(left, 0), (right, 0)]), np.array([(0, bottom), (0, top)])])
    return ax.figure


def curves(x, series, xlabel, ylabel, xscale="log", yscale="log", references=None, ax=None, bands=None, heading=""):
    """Curves over x, each with its name at its end; a band from the 10th to the 90th percentile where there are many.

    Parameters
    ----------
    x : array_like, shape (records,)
    series : dict of str to array_like of shape (records,) or (records, trials)
        By name; the names of `METHODS`, `ORDERS` and `KINDS` have their own colours.
    references : dict of str to array_like of shape (records,)
        Predictions, dashed and grey.
    ax : matplotlib.axes.Axes, optional
        Panel of a larger figure.
    bands : dict of str to (array_like, array_like)
        Lower and upper ends of an interval around the curve of that name.
    heading : str
        What the names are: stands once above them.

    Returns
    -------
    matplotlib.figure.Figure
    """
    x = _shaped("x", x, "records")
    series = {label: _shaped(label, y, len(x), *["trials"] * (np.ndim(y) == 2)) for label, y in series.items()}
    references = {label: _shaped(label, y, len(x)) for label, y in (references or {}).items()}
    if ax is None:
        _, ax = plt.subplots()
    ax.set(xscale=xscale, yscale=yscale)
    ax.margins(x=0.01)
    ends = []
    for (label, y), colour in zip(series.items(), _colours(series, ax), strict=True):
        if label in (bands or {}):
            ax.fill_between(x, *map(np.asarray, bands[label]), color=colour, alpha=0.25, lw=0)
        if y.ndim == 2:
            _draw_many(ax, x, y, colour)
            y = np.median(y, axis=1)
        else:
            ax.plot(x, y, color=colour)
        ends.append((label, x, y, colour))
    for label, y in references.items():
        ax.plot(x, y, color=MUTED, ls="--", lw=1.3, path_effects=EDGE)
        ends.append((label, x, y, MUTED))
    ax.set(xlabel=xlabel, ylabel=ylabel)
    _plain_ticks(ax)
    _widen_covered(ax, ax.lines[-len(ends) :], len(series))
    _label_ends(ax, ends, heading)
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
    kinds = [label for label, values in samples.items() for _ in np.asarray(values)]
    values = np.concatenate([np.asarray(values, float) for values in samples.values()])
    look = {"multiple": "stack", "element": "step", "alpha": 0.8, "lw": 0, "legend": False, "ax": ax}
    names, colours = list(samples)[::-1], _colours(samples, ax)[::-1]  # seaborn stacks downwards
    if kinds:
        sns.histplot(x=values, hue=kinds, hue_order=names, palette=colours, bins=edges, **look)
    if len(samples) > 1:
        ax.legend(handles=[Patch(color=colour, label=name) for name, colour in zip(names, colours, strict=True)][::-1])
    top = np.histogram(values, edges)[0].max()
    ax.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.05 * max(top, 1)), xlabel=xlabel, ylabel=ylabel)
    return ax.figure


def agreement(predicted, measured, xlabel, ylabel, ax=None):
    """By how much measured numbers miss predicted ones, over the predicted ones; a diagonal would not show it."""
    predicted = _shaped("predicted", predicted, "points")
    measured = _shaped("measured", measured, len(predicted))
    if ax is None:
        _, ax = plt.subplots(figsize=(WIDTH, 2.6))
    ax.axhline(0, color=MUTED, ls="--", lw=1.3)
    sns.scatterplot(x=predicted, y=measured - predicted, s=28, color=BLUE, alpha=0.6, lw=0, ax=ax)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
    return ax.figure


def margins(margins, kinds, best=None, ax=None):
    """The margin of each input, the smallest on top, and the largest that the smallest can be.

    Parameters
    ----------
    margins : array_like, shape (n,)
    kinds : sequence of str
        What each input's choice is, told by colour in the legend.
    best : float, optional
        Drawn as a line.
    ax : matplotlib.axes.Axes, optional
        Panel of a larger figure.

    Returns
    -------
    matplotlib.figure.Figure
    """
    margins = _shaped("margins", margins, len(kinds))
    if ax is None:
        _, ax = plt.subplots()
    names = list(dict.fromkeys(kinds))
    order = np.argsort(margins)
    look = {"palette": dict(zip(names, _colours(names, ax), strict=True)), "hue": [kinds[k] for k in order]}
    sns.scatterplot(x=margins[order], y=np.arange(len(order)), s=28, lw=0, ax=ax, **look)
    ax.axvline(0, color=FAINT, lw=1)
    if best is not None:
        ax.axvline(best, color=MUTED, ls="--", lw=1.3, label="the best smallest one")
    ax.legend()
    ax.set(xlabel="margin of the selected token", ylabel="input, by margin", ylim=(len(order) - 0.5, -0.5))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    return ax.figure


def dots(names, series, xlabel, ax=None):
    """Numbers of several cases, each on a line of its own, the first on top, with one mark for each kind of number.

    Parameters
    ----------
    names : sequence of str
        The cases.
    series : dict of str to array_like of shape (cases,)
        The kinds; nan leaves a mark out.
    ax : matplotlib.axes.Axes, optional
        Panel of a larger figure.

    Returns
    -------
    matplotlib.figure.Figure
    """
    series = {kind: _shaped(kind, values, len(names)) for kind, values in series.items()}
    if ax is None:
        _, ax = plt.subplots(figsize=(WIDTH, 1.3 + 0.32 * len(names)))
    look = {"palette": dict(zip(series, _colours(series, ax), strict=True)), "style_order": list(series), "s": 60}
    kinds = [kind for kind in series for _ in names]
    heights = np.tile(np.arange(len(names)), len(series))
    ax.hlines(np.arange(len(names)), *np.nanpercentile(list(series.values()), [0, 100], axis=0), color=FAINT, zorder=0)
    sns.scatterplot(x=np.concatenate([*series.values()]), y=heights, hue=kinds, style=kinds, ax=ax, **look)
    ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2)
    ax.set(xlabel=xlabel, ylim=(len(names) - 0.5, -0.5))
    ax.set_yticks(range(len(names)), names)
    return ax.figure


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
    x, y = _shaped("x", x, "columns"), _shaped("y", y, "rows")
    values = _shaped("values", values, len(y), len(x))
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


def regions(x, y, kinds, names, xlabel, ylabel, lines=None, ax=None):
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
    ax : matplotlib.axes.Axes, optional
        Panel of a larger figure.

    Returns
    -------
    matplotlib.figure.Figure
    """
    x, y = _shaped("x", x, "columns"), _shaped("y", y, "rows")
    kinds = _shaped("kinds", kinds, len(y), len(x))
    if ax is None:
        _, ax = plt.subplots(figsize=(WIDTH, WIDTH))
    across, up = (np.diff(places).mean() if len(places) > 1 else 1.0 for places in (x, y))
    ax.set(xlim=(x[0] - across / 2, x[-1] + across / 2), ylim=(y[0] - up / 2, y[-1] + up / 2))
    ax.set(xlabel=xlabel, ylabel=ylabel)
    tracks = []
    for along, high in (lines or {}).values():
        ax.plot(along, high, color=INK, ls="--", lw=1.6)
        tracks.append(np.stack([np.asarray(along, float), np.asarray(high, float)], axis=1))
    wanted = [(name, track[len(track) // 2 :], INK) for name, track in zip(lines or {}, tracks, strict=True)]
    for kind, (name, colour) in enumerate(zip(names, _colours(names, ax), strict=True)):
        rows, columns = np.nonzero(kinds == kind)
        if len(rows):
            ax.add_patch(PathPatch(_covered(kinds == kind, x, y, across, up), fc=colour, lw=0, alpha=0.3))
            middle = np.stack([x[columns], y[rows]], axis=1)
            nearest = np.argsort(np.linalg.norm(middle - np.median(middle, axis=0), axis=1), kind="stable")
            wanted.append((name, middle[nearest[:1]], colour))
    _write(ax, tracks, np.empty((0, 2)), wanted)
    return ax.figure


def sentences(words, attention, rows, marked=None, label="attention"):
    """Sentences, wrapped, and under each word a cell for each row, as dark as the attention that the word gets.

    A rule stands between two sentences; the further lines of one are close below its first, and indented.

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
    gutter = max(_text_size(ax, name)[0] for name in rows) + 8
    boxes, shades, height = [], [], 4.0
    for sentence, shade, place in zip(words, attention, marked, strict=True):
        bold = ["bold" if k == place else "normal" for k in range(len(sentence))]
        widths = [_text_size(ax, *pair)[0] + 5 for pair in zip(sentence, cycle([13]), bold, strict=False)]
        if height > 4:
            ax.plot([0, 72 * WIDTH], [height - 12] * 2, color=MUTED, lw=0.8)
        for number, line in enumerate(_wrapped(widths, 72 * WIDTH - gutter - INDENT)):
            left = gutter + INDENT * (number > 0) + np.cumsum([0, *(widths[k] for k in line)])
            for k, start in zip(line, left, strict=False):
                ax.text(start + widths[k] / 2, height + 12, sentence[k], fontsize=13, weight=bold[k], ha="center")
            for row, name in enumerate(rows):
                top = height + 18 + 14 * row
                ax.text(gutter - 6, top + 6.5, name, fontsize=SIZE, ha="right", va="center", color=MUTED)
                boxes += [Rectangle((start, top), widths[k] - 1, 13) for k, start in zip(line, left, strict=False)]
                shades += [shade[row, k] for k in line]
            height += 22 + 14 * len(rows)
        height += 24
    cells = ax.add_collection(PatchCollection(boxes, cmap=ATTENTION, edgecolor=MUTED, lw=0.4), autolim=False)
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
    fig, axes = plt.subplots(rows, len(columns), figsize=(WIDTH, rows * tall + 1.0), squeeze=False)
    fig.get_layout_engine().set(rect=(0, 0, 1, 0.985))  # else the names above reach over the edge
    colours = LinearSegmentedColormap.from_list("attention", [f"{VERMILION}00", f"{VERMILION}e6"])
    for (k, column), ax in np.ndenumerate(axes):
        place = {"extent": (0, width, height, 0), "interpolation": "nearest"}
        ax.imshow(np.moveaxis(images[k], 0, -1), cmap="gray_r", vmin=0, vmax=1, alpha=0.5, **place)
        drawn = ax.imshow(maps[k, column], cmap=colours, vmin=0, vmax=maps.max(), **place)
        ax.set(xticks=[], yticks=[], xlabel=notes[k][column] if notes else "")
        ax.spines[:].set(visible=True, color=MUTED, lw=0.6)
        if k == 0:
            ax.set_title(columns[column], fontsize=SIZE, loc="center")
    fig.colorbar(drawn, ax=axes, orientation="horizontal", label=label, shrink=0.6, aspect=35)
    return fig


def matrices(entries, columns=3):
    """Matrices as squares, one for each entry: as large as it is, in blue where it is above 0, in red where below.

    Parameters
    ----------
    entries : dict of str to array_like of shape (rows, columns)
        By the name that stands above; each by its own largest entry.
    columns : int
        Matrices in a row of the figure.

    Returns
    -------
    matplotlib.figure.Figure
    """
    checks.whole("columns", columns)
    entries = {name: _shaped(name, matrix, "rows", "columns") for name, matrix in entries.items()}
    lines = -(-len(entries) // columns)
    _, axes = plt.subplots(lines, columns, figsize=(WIDTH, lines * (WIDTH / columns + 0.25)), squeeze=False)
    for ax in axes.flat[len(entries) :]:
        ax.set_axis_off()
    for ax, (name, matrix) in zip(axes.flat, entries.items(), strict=False):
        shares = np.abs(matrix) / (np.abs(matrix).max() or 1.0)
        for (row, column), share in np.ndenumerate(shares):
            side, colour = 0.94 * share**0.5, BLUE if matrix[row, column] > 0 else VERMILION
            ax.add_patch(Rectangle((column - side / 2, row - side / 2), side, side, color=colour, lw=0))
        rows, width = matrix.shape
        ax.set(xlim=(-0.6, width - 0.4), ylim=(rows - 0.4, -0.6), xticks=[], yticks=[], aspect="equal")
        ax.set_title(name, loc="center")
        ax.spines[:].set(visible=True, color=MUTED, lw=0.6)
    return ax.figure


def panels(count, height=2.3):
    """``count`` axes stacked in one figure of the house width, ``height`` inches each."""
    checks.whole("count", count)
    return plt.subplots(count, 1, figsize=(WIDTH, height * count), squeeze=False)[1][:, 0]


def _colours(names, ax):
    """A colour for each name: its own, that of another panel, or the first of the palette that no other name has."""
    elsewhere = {text.get_text(): text.get_color() for panel in ax.figure.axes for text in panel.texts}
    own = [colour_of(name, elsewhere.get(name)) for name in names]
    taken = [*own, *elsewhere.values()]
    free = [colour for colour in PALETTE if colour not in taken] or [each for each in PALETTE if each not in own]
    others = cycle(free or PALETTE)
    return [colour or next(others) for colour in own]


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
    _plain_ticks(bar.ax)


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


def _draw_many(ax, x, y, colour):
    """Median and band over the second dimension, at no more records than the width can show."""
    places = np.log(x) if ax.get_xscale() == "log" and (x > 0).all() else x
    kept = np.unique(np.searchsorted(places, np.linspace(places[0], places[-1], RECORDS)).clip(0, len(x) - 1))
    low, middle, high = np.percentile(y[kept], (10, 50, 90), axis=1)
    ax.fill_between(x[kept], low, high, color=colour, alpha=0.2, lw=0)
    ax.plot(x[kept], middle, color=colour)


def _widen_covered(ax, lines, count):
    """Make each of the first lines the wider the more later ones cover it: its colour shows on both sides of theirs."""
    with np.errstate(all="ignore"):  # what a logarithmic axis cannot show
        places = [ax.transData.transform(line.get_xydata()) for line in lines]
    for k, line in enumerate(lines[:count]):
        later = [other for other in places[k + 1 :] if other.shape == places[k].shape]
        covering = sum(np.isclose(other, places[k], atol=2).all(-1).mean() > 0.9 for other in later)
        line.set_linewidth(line.get_linewidth() + 2 * covering)


def _plain_ticks(ax):
    """Write 0.2 and not 2 x 10^-1 on a logarithmic axis on which fewer than two powers of ten stand."""
    for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        if axis.get_scale() == "log":
            axis.set_tick_params(which="minor", label1On=False)
            low, high = np.log10(sorted(limits))
            if np.floor(high) - np.ceil(low) < 1:
                axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axis.set_major_formatter("{x:g}")


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
    """Bear round numbers on an axis that counts cells."""
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


def _text_size(ax, text, fontsize=SIZE, weight="normal"):
    """Width and height of a text in points."""
    drawn = ax.text(0, 0, text, fontsize=fontsize, weight=weight)
    box = drawn.get_window_extent()
    drawn.remove()
    return np.array([box.width, box.height]) * 72 / ax.figure.dpi


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


def _write(ax, tracks, points, wanted, faint=()):
    """Write each text beside one of its places, where it covers no track, no point and no other text if it can.

    Parameters
    ----------
    tracks : list of array, each of shape (records, 2)
    points : array, shape (points, 2)
    wanted : list of (str, array of shape (places, 2), colour)
        A text that finds room only further off gets a leader.
    faint : list of array, each of shape (records, 2)
        Tracks that are covered rather than go far.
    """
    _lay_out(ax.figure)
    taken, boxes = np.concatenate([_ink(ax, tracks), _ink(ax, faint, 12.0), _discs(ax, points)]), []
    frame = ax.bbox.extents * 72 / ax.figure.dpi
    for text, places, colour in wanted:
        half = _text_size(ax, text) / 2
        tried = [(centre, centre + (half + away) * side, away)
                 for away in (7, 16, 27, 40) for centre in _on_canvas(ax, places) for side in SIDES]  # fmt: skip
        costs = [_cost(at, half, taken, boxes, frame) + away / 7 + 0.01 * k for k, (_, at, away) in enumerate(tried)]
        centre, middle, away = tried[int(np.argmin(costs))]
        boxes.append(np.concatenate([middle - half, middle + half]))
        leader = {"arrowstyle": "-", "lw": 0.6, "color": colour, "shrinkA": 1, "shrinkB": 6}
        ax.annotate(
            text, _from_canvas(ax, centre), xytext=_from_canvas(ax, middle), textcoords="data", color=colour,
            ha="center", va="center", fontsize=SIZE, zorder=7, arrowprops=leader if away > 7 else None,
        )  # fmt: skip


SIDES = np.array([(1, 0), (-1, 0), (0, 1), (0, -1), (0.6, 1), (-0.6, 1), (0.6, -1), (-0.6, -1), (0.8, 0.8), (-0.8, 0.8),
                  (0.8, -0.8), (-0.8, -0.8)])  # fmt: skip


def _cost(middle, half, taken, boxes, frame):
    """How much a text there covers: ink, other texts, and what is outside the frame."""
    low, high = middle - half - 1, middle + half + 1
    covered = np.sum(((taken > low) & (taken < high)).all(1))
    texts = sum(bool((low < box[2:]).all() and (high > box[:2]).all()) for box in boxes)
    outside = np.maximum(frame[:2] - low, 0).sum() + np.maximum(high - frame[2:], 0).sum()
    return covered + 100 * texts + 5 * outside


def _on_canvas(ax, places):
    """Places in points from the lower left corner of the figure."""
    with np.errstate(all="ignore"):
        return ax.transData.transform(np.asarray(places, float)) * 72 / ax.figure.dpi


def _ink(ax, tracks, step=2.0):
    """Places on the tracks at least every two points of the canvas, those that are in the frame."""
    found = [np.empty((0, 2))]
    low, high = np.split(ax.bbox.extents * 72 / ax.figure.dpi, 2)
    for track in tracks:
        places = _on_canvas(ax, track)
        places = np.clip(places[np.isfinite(places).all(1)], low - 50, high + 50)
        if len(places) > 1:
            way = np.r_[0, np.cumsum(np.linalg.norm(np.diff(places, axis=0), axis=1))]
            marks = np.linspace(0, way[-1], int(way[-1] / step) + 2)
            found.append(np.stack([np.interp(marks, way, side) for side in places.T], axis=1))
    ink = np.concatenate(found)
    return ink[((ink >= low) & (ink <= high)).all(1)]


def _discs(ax, points):
    """Places that the marks of the points take."""
    return (_on_canvas(ax, points.reshape(-1, 2))[:, None] + 4.5 * np.vstack([SIDES, (0, 0)])).reshape(-1, 2)


def _label_ends(ax, ends, heading=""):
    """Write each name beside the frame at the height of its curve's end, moved apart, with a leader where it needs one.

    A curve that ends far from the frame bears its name at its end, if there is room.
    """
    ends = [end for end in ends if end[0].strip()]
    _lay_out(ax.figure)
    frame = ax.bbox.extents * 72 / ax.figure.dpi
    right = frame[2]
    tips = [_tip(ax, x, y) for _, x, y, _ in ends]
    taken = _ink(ax, [np.stack([x, y], axis=1) for _, x, y, _ in ends])
    beside = []
    for k, (label, _, _, colour) in enumerate(ends):
        size = _text_size(ax, label)
        middle = tips[k] + (size[0] / 2 + 7, 0)
        if tips[k][0] + size[0] + 12 < right and _cost(middle, size / 2, taken, [], frame) == 0:
            place = {"xytext": (7, 0), "textcoords": "offset points", "ha": "left", "va": "center"}
            ax.annotate(label, _from_canvas(ax, tips[k]), color=colour, fontsize=SIZE, **place)
            taken = np.concatenate([taken, middle + np.array([-1, 0, 1])[:, None] * size / 2])
        else:
            beside.append(k)
    place = {"textcoords": OffsetFrom(ax.patch, (1, 1)), "xytext": (10, 0), "va": "center", "fontsize": SIZE}
    for k in beside:
        label, _, _, colour = ends[k]
        leader = {"arrowstyle": "-", "lw": 0.6, "color": colour, "shrinkA": 0, "shrinkB": 1, "relpos": (0, 0.5)}
        about = {"color": colour, "arrowprops": leader, "annotation_clip": False, "gid": "end"}
        ax.annotate(label, _from_canvas(ax, tips[k]), **place, **about)
    if heading and beside:
        ax.annotate(heading, (1, 1), xycoords="axes fraction", **place, color=MUTED, gid="heading")


class _Settled(ConstrainedLayoutEngine):
    """Constrained layout with the names beside each frame where its curves end, found once for what a figure holds."""

    laid_out = None

    def execute(self, figure):
        """Give all its place, before a figure is drawn, in any format."""
        if self.laid_out != _held(figure):
            for _ in range(2):  # names move the frame, too
                _lay_out(figure)
                for ax in figure.axes:
                    _settle(ax)
            self.laid_out = _held(figure)


def _lay_out(figure):
    """Give the frames of a figure their places by what it holds so far."""
    if not isinstance(figure.get_layout_engine(), _Settled):
        figure.set_layout_engine(_Settled())
    ConstrainedLayoutEngine.execute(figure.get_layout_engine(), figure)
    for ax in figure.axes:
        ax.apply_aspect()


def _held(figure):
    """What a layout depends on."""
    words = ("get_title", "get_xlabel", "get_ylabel", "get_xlim", "get_ylim", "get_children")
    parts = [[getattr(ax, word)() for word in words] for ax in figure.axes]
    return [*figure.get_size_inches()], [[*said, len(children)] for *said, children in parts]


def _settle(ax):
    """Put the names beside a frame where its curves end, now that it has its place."""
    names = [text for text in ax.texts if text.get_gid() == "end"]
    headings = [text for text in ax.texts if text.get_gid() == "heading"]
    right, top = ax.bbox.extents[2:] * 72 / ax.figure.dpi
    tips = np.reshape([_on_canvas(ax, name.xy) for name in names], (-1, 2))
    sizes = [Text.get_window_extent(name).height * 72 / ax.figure.dpi for name in names]
    heights = _apart(tips[:, 1], sizes, top, bool(headings))
    for name, tip, height in zip(names, tips, heights, strict=False):
        name.set_position((10, height - top))
        name.arrow_patch.set_visible(right - tip[0] > 12 or abs(height - tip[1]) > 4)
    for heading in headings:
        heading.set_position((10, heights[-1] - top))


def _from_canvas(ax, place):
    """The inverse of `_on_canvas`, for one place."""
    return ax.transData.inverted().transform(np.asarray(place) * ax.figure.dpi / 72)


def _tip(ax, x, y):
    """Where a curve ends, or leaves the frame for good, in points of the canvas."""
    places = _on_canvas(ax, np.stack([x, y], axis=1))
    low, high = np.split(ax.bbox.extents * 72 / ax.figure.dpi, 2)
    places = places[np.isfinite(places).all(1)]
    inside = places[((places >= low - 1) & (places <= high + 1)).all(1)]
    return inside[-1] if len(inside) else np.array([high[0], low[1]])


def _apart(tips, sizes, top, heading):
    """Heights of names of these sizes, near their tips, in their order and without overlap; the heading's is last."""
    half, line = np.array(sizes) / 2 + 0.5, 0.6 * SIZE
    order = sorted(range(len(tips)), key=lambda k: tips[k])
    centre, floor = np.zeros(len(tips)), -np.inf
    for k in order:
        centre[k] = max(tips[k], floor + half[k])
        floor = centre[k] + half[k]
    ceiling = top - line if heading else top + line  # names above the frame would make the layout shrink it
    for k in order[::-1]:
        centre[k] = min(centre[k], ceiling - half[k])
        ceiling = centre[k] - half[k]
    above = centre[order[-1]] + half[order[-1]] + line if order else top
    return [*centre, above]
