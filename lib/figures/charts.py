"""Draw curves, histograms, distances and other numbers of several cases."""

from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.patches import Patch
from matplotlib.ticker import MaxNLocator

from .. import checks
from .labels import label_ends
from .style import BLUE, EDGE, FAINT, MUTED, ROUNDED, WIDTH, colours_of, plain_ticks, shaped

MARKS = ("o", "X", (4, 0, 45), "P", (4, 0, 0), (4, 1, 0), "^")  # one for each colour of the palette
RECORDS = 150  # of a band: one every two points of its width


def curves(
    x, series, xlabel, ylabel, xscale="log", yscale="log", references=None, ax=None, bands=None, heading="", each=False,
):  # fmt: skip
    """Curves over x, each with its name at its end; a band from the 10th to the 90th percentile where there are many.

    Parameters
    ----------
    x : array_like, shape (records,)
    series : dict of str to array_like of shape (records,) or (records, trials)
        By name; methods, orders (``$p = 3$``) and the names of `KINDS` have their own colours.
    references : dict of str to array_like of shape (records,)
        Predictions, dashed and grey.
    ax : matplotlib.axes.Axes, optional
        Panel of a larger figure.
    bands : dict of str to (array_like, array_like)
        Lower and upper ends of an interval around the curve of that name.
    heading : str
        What the names are: stands once above them.
    each : bool
        Whether each of many trials is drawn, and no band.

    Returns
    -------
    matplotlib.figure.Figure
    """
    x = shaped("x", x, "records")
    series = {label: shaped(label, y, len(x), *["trials"] * (np.ndim(y) == 2)) for label, y in series.items()}
    references = {label: shaped(label, y, len(x)) for label, y in (references or {}).items()}
    if ax is None:
        _, ax = plt.subplots()
    ax.set(xscale=xscale, yscale=yscale)
    ax.margins(x=0.01)
    ends = []
    for (label, y), colour in zip(series.items(), colours_of(series, ax), strict=True):
        if label in (bands or {}):
            ax.fill_between(x, *map(np.asarray, bands[label]), color=colour, alpha=0.25, lw=0)
        if y.ndim == 2 and not each:
            _draw_many(ax, x, y, colour, ROUNDED.get(label, "-"))
        else:
            ax.plot(x, y, color=colour, ls=ROUNDED.get(label, "-"))
        y = np.median(y, axis=1) if y.ndim == 2 else y
        ends.append((label, x, y, colour))
    for label, y in references.items():
        ax.plot(x, y, color=MUTED, ls="--", lw=1.3, path_effects=EDGE)
        ends.append((label, x, y, MUTED))
    ax.set(xlabel=xlabel, ylabel=ylabel)
    plain_ticks(ax)
    if not each:
        _widen_covered(ax, ax.lines[-len(ends) :], len(series))
    label_ends(ax, ends, heading)
    return ax.figure


def histogram(samples, edges, xlabel, ylabel):
    """Numbers of samples in each bin, stacked over the kinds of samples, with a legend where there are several.

    Parameters
    ----------
    samples : dict of str to array_like of shape (samples,)
        Those outside the edges are not counted; a kind may be empty.
    edges : array_like, shape (bins + 1,)

    Returns
    -------
    matplotlib.figure.Figure
    """
    edges = shaped("edges", edges, "edges")
    if len(edges) < 2 or (np.diff(edges) <= 0).any():
        raise ValueError(f"edges is {checks.shown(edges.tolist())}: give at least two increasing numbers")
    _, ax = plt.subplots()
    kinds = [label for label, values in samples.items() for _ in np.asarray(values)]
    values = np.concatenate([np.asarray(values, float) for values in samples.values()])
    look = {"multiple": "stack", "element": "step", "alpha": 0.8, "lw": 0, "legend": False, "ax": ax}
    names, colours = list(samples)[::-1], colours_of(samples, ax)[::-1]  # seaborn stacks downwards
    if kinds:
        import seaborn as sns  # slow to import

        sns.histplot(x=values, hue=kinds, hue_order=names, palette=colours, bins=edges, **look)
    if len(samples) > 1:
        ax.legend(handles=[Patch(color=colour, label=name) for name, colour in zip(names, colours, strict=True)][::-1])
    top = np.histogram(values, edges)[0].max()
    ax.set(xlim=(edges[0], edges[-1]), ylim=(0, 1.05 * max(top, 1)), xlabel=xlabel, ylabel=ylabel)
    return ax.figure


def agreement(predicted, measured, xlabel, ylabel):
    """Measured minus predicted numbers, over the predicted ones; next to a diagonal they would not show."""
    predicted = shaped("predicted", predicted, "points")
    measured = shaped("measured", measured, len(predicted))
    _, ax = plt.subplots(figsize=(WIDTH, 2.6))
    ax.axhline(0, color=MUTED, ls="--", lw=1.3)
    ax.scatter(predicted, measured - predicted, s=28, color=BLUE, alpha=0.6, lw=0)
    ax.set(xlabel=xlabel, ylabel=ylabel)
    ax.ticklabel_format(axis="y", scilimits=(-2, 3), useMathText=True)
    return ax.figure


def flips(distances, kinds):
    """How far each input is from selecting another token, the nearest on top.

    Parameters
    ----------
    distances : array_like, shape (n,)
    kinds : sequence of str
        What each input's choice is, told by colour in the legend.

    Returns
    -------
    matplotlib.figure.Figure
    """
    distances = shaped("distances", distances, len(kinds))
    _, ax = plt.subplots()
    names = list(dict.fromkeys(kinds))
    order = np.argsort(distances)
    ranks, here = np.arange(len(order)), np.array(kinds)[order]
    for name, colour in zip(names, colours_of(names, ax), strict=True):
        ax.scatter(distances[order][here == name], ranks[here == name], s=28, color=colour, lw=0, label=name)
    ax.axvline(0, color=FAINT, lw=1)
    ax.legend(scatteryoffsets=[0.5])
    ax.set(xlabel="change of W to another token", ylabel="input, nearest first", ylim=(len(order) - 0.5, -0.5))
    ax.yaxis.set_major_locator(MaxNLocator(integer=True))
    return ax.figure


def dots(names, series, xlabel):
    """Numbers of several cases, each on a line of its own, the first on top, with one mark for each kind of number.

    Parameters
    ----------
    names : sequence of str
        The cases.
    series : dict of str to array_like of shape (cases,)
        The kinds; nan leaves a mark out.

    Returns
    -------
    matplotlib.figure.Figure
    """
    series = {kind: shaped(kind, values, len(names)) for kind, values in series.items()}
    _, ax = plt.subplots(figsize=(WIDTH, 1.3 + 0.32 * len(names)))
    ax.hlines(np.arange(len(names)), *np.nanpercentile(list(series.values()), [0, 100], axis=0), color=FAINT, zorder=0)
    for (kind, values), colour, mark in zip(series.items(), colours_of(series, ax), cycle(MARKS), strict=False):
        look = {"s": 60, "color": colour, "marker": mark, "edgecolor": "w", "lw": 0.62}
        ax.scatter(values, range(len(names)), label=kind, **look)
    ax.legend(loc="lower center", bbox_to_anchor=(0.4, 1.0), ncols=2, scatteryoffsets=[0.5])
    ax.set(xlabel=xlabel, ylim=(len(names) - 0.5, -0.5))
    ax.set_yticks(range(len(names)), names)
    ax.xaxis.set_major_locator(MaxNLocator(6))
    return ax.figure


def _draw_many(ax, x, y, colour, style):
    """Median and band over the second dimension, at no more records than the width can show."""
    shown = np.flatnonzero(x > 0) if ax.get_xscale() == "log" else np.arange(len(x))  # a logarithmic axis has no 0
    places = ax.xaxis.get_transform().transform(x[shown])
    nearest = np.searchsorted(places, np.linspace(places[0], places[-1], RECORDS)).clip(0, len(shown) - 1)
    recorded = shown[np.unique(nearest)]
    low, middle, high = np.percentile(y[recorded], (10, 50, 90), axis=1)
    ax.fill_between(x[recorded], low, high, color=colour, alpha=0.2, lw=0)
    ax.plot(x[recorded], middle, color=colour, ls=style)


def _widen_covered(ax, lines, count):
    """Make each of the first lines the wider the more later ones cover it: its colour shows on both sides of theirs."""
    with np.errstate(all="ignore"):  # what a logarithmic axis cannot show
        places = [ax.transData.transform(line.get_xydata()) for line in lines]
    for k, line in enumerate(lines[:count]):
        later = [other for other in places[k + 1 :] if other.shape == places[k].shape]
        covering = sum(np.isclose(other, places[k], atol=2).all(-1).mean() > 0.9 for other in later)
        line.set_linewidth(line.get_linewidth() + 2 * covering)
