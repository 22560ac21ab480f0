"""Set the house style: sizes, palette, and a colour for each method, order and kind of token."""

import re
from itertools import cycle

import matplotlib.pyplot as plt
import numpy as np
from cycler import cycler
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.patheffects import withStroke
from matplotlib.ticker import LogLocator

from .. import checks

WIDTH, SIZE = 4.75, 11  # inches (342 points, the room on a phone of 390 pixels); points
INK, MUTED, FAINT, PAPER = "#1c1c1c", "#595959", "#e0e0e0", "#ffffff"
EDGE = [withStroke(linewidth=2.5, foreground=PAPER)]  # white halo: a dashed line stays visible on top of a curve
LIGHT = "#fefefe"  # on images, whose colours stay the same in the dark
# Their contrast with white is at least 4.5 : 1, so that a name can have its curve's colour, and so is that of their
# shades for the dark; neighbours differ for colour-blind readers, too.
BLUE, VERMILION, GREEN, VIOLET = "#215fd7", "#c64a18", "#00593f", "#43239b"
PINK, BROWN, TEAL = "#b93592", "#614000", "#04637d"
PALETTE = (BLUE, BROWN, PINK, VIOLET, TEAL, VERMILION, GREEN)
# One code for all figures, still and moving (workflow/sphinx_ext/explore.py): what a token is to the choice, or a
# choice to all choices; paths; methods, which have no colour of a token; rounding has a line style instead.
KINDS = {"optimal": GREEN, "global": GREEN, "local": VERMILION, "selected": VERMILION, "other": MUTED, "null": MUTED}
METHODS = {
    "GD": BLUE, "SGD": BLUE, "normalised GD": BROWN, "NGD": BROWN, "normalised": BROWN, "normalised SGD": BROWN,
    "NSGD": BROWN, "Polyak": TEAL, "Adam": PINK, "flow": VIOLET, "path": VIOLET, "separate norms": BROWN,
    "joint norm": TEAL,
} | dict.fromkeys(("32 bits", "float32", "64 bits", "float64", "log space", "exact"), VIOLET)  # fmt: skip
ROUNDED = {"32 bits": ":", "float32": ":", "64 bits": "-.", "float64": "-."}
ORDERS = {1.1: BROWN, 1.5: VIOLET, 1.75: PINK, 2.0: BLUE, 3.0: TEAL, 10.0: INK}
# The theme "ticks" of seaborn, written out: importing seaborn takes longer than most figures.
TICKS = {
    "axes.axisbelow": True, "axes.linewidth": 1.25, "grid.color": ".8", "grid.linewidth": 1.0,
    "legend.title_fontsize": 12.0, "lines.solid_capstyle": "round", "patch.edgecolor": "w",
    "patch.force_edgecolor": True,
    "font.sans-serif": ["Arial", "DejaVu Sans", "Liberation Sans", "Bitstream Vera Sans", "sans-serif"],
} | {f"{axis}tick.{kind}.{what}": size for axis in "xy" for kind, what, size in (
    ("major", "size", 6.0), ("major", "width", 1.25), ("minor", "size", 4.0), ("minor", "width", 1.0),
)}  # fmt: skip
HEAT = "cividis"
ATTENTION = LinearSegmentedColormap.from_list("attention", [f"{BLUE}00", BLUE])  # 0: the page's ground


def theme():
    """Set the house style for all figures of this process; without it they are drawn in whatever style is set."""
    plt.rcParams.update(
        TICKS
        | {
            "axes.prop_cycle": cycler(color=PALETTE),
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
            "svg.fonttype": "none",  # text, which can be selected and found
            "svg.hashsalt": "figures",  # the same file for the same figure
        }
        | dict.fromkeys(("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), INK)
    )


def colour_of(name, otherwise=INK):
    """The one colour of a method, of an order (``"p = 1.75"``) or of a kind of token; else ``otherwise``."""
    plain = " ".join(name.split())
    order = re.fullmatch(r"\$?(?:[pq] ?= ?|\\ell_\{?)([\d.]+)\}?\$?", plain)
    known = METHODS | KINDS
    return ORDERS.get(float(order[1]), otherwise) if order else known.get(plain, otherwise)


def colours_of(names, ax):
    """A colour for each name: its own, that of another panel, or the first of the palette that no other name has."""
    elsewhere = {text.get_text(): text.get_color() for panel in ax.figure.axes for text in panel.texts}
    colours = [colour_of(name, elsewhere.get(name)) for name in names]
    taken = [*colours, *elsewhere.values()]
    free = [colour for colour in PALETTE if colour not in taken] or [each for each in PALETTE if each not in colours]
    others = cycle(free or PALETTE)
    return [colour or next(others) for colour in colours]


def panels(count, height=2.3):
    """``count`` axes stacked in one figure of the house width, ``height`` inches each."""
    checks.integer("count", count)
    axes = plt.subplots(count, 1, figsize=(WIDTH, height * count), squeeze=False)[1][:, 0]
    for k, ax in enumerate(axes):
        ax.set_gid(f"panel-{k}")  # a page puts panels side by side where it is wide (workflow/sphinx_ext/inline_svg.py)
        ax.set(xlabel=" ", ylabel=" ")  # space for labels: constrained layout would move those of earlier panels
    return axes


def shaped(name, value, *shape, dtype=float):
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


def plain_ticks(ax):
    """Write 0.2 and not 2 x 10^-1 on a logarithmic axis on which fewer than two powers of ten stand."""
    for axis, limits in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
        if axis.get_scale() == "log":
            axis.set_tick_params(which="minor", label1On=False)
            low, high = np.log10(sorted(limits))
            if np.floor(high) - np.ceil(low) < 1:
                axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
                axis.set_major_formatter("{x:g}")


def text_size(ax, text, fontsize=SIZE, weight="normal"):
    """Width and height of a text in points."""
    drawn = ax.text(0, 0, text, fontsize=fontsize, weight=weight)
    box = drawn.get_window_extent()
    drawn.remove()
    return np.array([box.width, box.height]) * 72 / ax.figure.dpi
