"""Draw attention on sentences and on pictures, and matrices."""

from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.collections import PatchCollection
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patches import Rectangle

from .style import ATTENTION, BLUE, MUTED, SIZE, VERMILION, WIDTH, shaped, text_size

INDENT = 14  # points, of the further lines of a wrapped sentence


def sentences(words, attention, rows, marked=None):
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

    Returns
    -------
    matplotlib.figure.Figure
    """
    if len(words) != len(attention):
        raise ValueError(
            f"there are {len(words)} sentences and {len(attention)} arrays of attention: give each sentence one"
        )
    attention = [
        shaped(f"attention of sentence {k}", shade, len(rows), len(sentence))
        for k, (sentence, shade) in enumerate(zip(words, attention, strict=True))
    ]
    marked = [None] * len(words) if marked is None else marked
    fig = plt.figure(layout="none")
    ax = fig.add_axes((0, 0, 1, 1))
    gutter = max(text_size(ax, name)[0] for name in rows) + 8
    boxes, shades, height = [], [], 4.0
    for sentence, shade, place in zip(words, attention, marked, strict=True):
        bold = ["bold" if k == place else "normal" for k in range(len(sentence))]
        widths = [text_size(ax, *pair)[0] + 5 for pair in zip(sentence, cycle([13]), bold, strict=False)]
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
    fig.colorbar(cells, cax=bar, orientation="horizontal", label="attention", ticks=[0, 0.5, 1])
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
    images = shaped("images", images, "rows", "channels", "height", "width")
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


def matrices(entries):
    """Matrices, three in a row, as squares: as large as the entry is, in blue where it is above 0, in red where below.

    Parameters
    ----------
    entries : dict of str to array_like of shape (rows, columns)
        By the name that stands above; each by its own largest entry.

    Returns
    -------
    matplotlib.figure.Figure
    """
    entries = {name: shaped(name, matrix, "rows", "columns") for name, matrix in entries.items()}
    lines = -(-len(entries) // 3)
    _, axes = plt.subplots(lines, 3, figsize=(WIDTH, lines * (WIDTH / 3 + 0.25)), squeeze=False)
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
