"""Write names beside what they name: at the ends of curves, and next to points, where they cover nothing."""

import numpy as np
from matplotlib.path import Path
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from .style import MUTED, SIZE, text_size

EARLY = 0.9  # part of the frame's width before which a curve ends inside it
LINE = 1.3 * SIZE  # points from one line of text to the next
AWAY = (7, 16, 27, 40, 56, 76)  # points between a text and its place
SIDES = [(np.cos(turn), np.sin(turn)) for turn in np.pi / 8 * np.arange(16)]


def lay_out(ax):
    """Give the axes their place, so that lengths on the canvas are known."""
    if ax.figure.get_layout_engine() is None:
        ax.figure.set_layout_engine("constrained")
    ax.figure.draw_without_rendering()


def label_ends(ax, ends, heading=""):
    """Write names right of the frame at the heights of their curves' ends, spread apart where these are close.

    A curve that ends well inside the frame has its name there.

    Parameters
    ----------
    ends : list of (str, x, y, colour)
        Name, points and colour of each curve; an empty name is left out.
    heading : str
        What the names are: stands above them.
    """
    ends = [end for end in ends if end[0].strip()]
    lay_out(ax)
    top = ax.bbox.height * 72 / ax.figure.dpi
    to_data, tips = ax.transAxes + ax.transData.inverted(), [_tip(ax, x, y) for _, x, y, _ in ends]
    inside = [k for k, tip in enumerate(tips) if tip[0] < EARLY]
    early = [(ends[k][0], to_data.transform(tips[k][None]), ends[k][3]) for k in inside]
    tracks = [np.stack([x, y], axis=1) for _, x, y, _ in ends]
    ends, tips = ([item for k, item in enumerate(each) if k not in inside] for each in (ends, tips))
    heights = _spread(
        [top * tip[1] for tip in tips],
        [LINE * (1 + end[0].count("\n")) for end in ends],
        top + SIZE / 2 - LINE * bool(heading),
    )
    beside = {
        "fontsize": SIZE,
        "xycoords": "data",
        "textcoords": "offset points",
        "va": "center",
        "annotation_clip": False,
    }
    for k, (name, _, _, colour) in enumerate(ends):
        leader = {"arrowstyle": "-", "lw": 0.6, "color": colour, "shrinkA": 0, "shrinkB": 1, "relpos": (0, 0.5)}
        right, up = (1 - tips[k][0]) * ax.bbox.width * 72 / ax.figure.dpi + 10, heights[k] - top * tips[k][1]
        place = to_data.transform(tips[k]), (right, up)
        ax.annotate(name, *place, color=colour, arrowprops=leader if abs(up) > 4 else None, **beside)
        if heading and heights[k] == max(heights):
            above = (right, up + LINE * (1 + name.count("\n") / 2))
            ax.annotate(heading, place[0], above, color=MUTED, **beside)
    if early:
        write_beside(ax, tracks, np.empty((0, 2)), early)


def _tip(ax, x, y):
    """Where a curve ends, or leaves the frame for good, as parts of the frame's width and height."""
    with np.errstate(all="ignore"):  # what a logarithmic axis cannot show
        places = (ax.transData - ax.transAxes).transform(np.stack([x, y], axis=1).astype(float))
    inside = places[np.isfinite(places).all(1) & (np.abs(places - 0.5) <= 0.51).all(1)]
    return np.clip(inside[-1], 0, 1) if len(inside) else np.array([1.0, 0.0])


def _spread(wanted, sizes, ceiling):
    """Heights near the wanted ones, in their order, at which texts of these sizes do not overlap."""
    heights, order = np.array(wanted, float), np.argsort(wanted, kind="stable")
    floor = -np.inf
    for k in order:
        heights[k] = max(heights[k], floor + sizes[k] / 2)
        floor = heights[k] + sizes[k] / 2
    for k in order[::-1]:
        heights[k] = min(heights[k], ceiling - sizes[k] / 2)
        ceiling = heights[k] - sizes[k] / 2
    return heights


def write_beside(ax, tracks, points, wanted):
    """Write each text next to one of its places where it covers the least, with a leader if that is further off.

    Parameters
    ----------
    tracks : list of array, each of shape (records, 2)
        Lines that a text should not cover.
    points : array, shape (points, 2)
        Likewise.
    wanted : list of (str, array of shape (places, 2), colour)
    """
    lay_out(ax)
    point, frame = ax.figure.dpi / 72, ax.bbox
    with np.errstate(all="ignore"):  # what a logarithmic axis cannot show
        drawn = [Path(ax.transData.transform(track)) for track in tracks]
        drawn += [line.get_transform().transform_path(line.get_path()) for line in ax.lines if line.axes is ax]
    taken = [Text.get_window_extent(text) for text in ax.texts]  # without their leaders
    written = [*taken]
    taken += [Bbox.from_bounds(x, y, 0, 0).padded(4 * point) for x, y in ax.transData.transform(points)]
    for text, places, colour in wanted:
        half = text_size(ax, text) / 2
        options = [(place, side * (half + away), away) for away in AWAY for place in places for side in np.array(SIDES)]
        boxes, costs = [], []
        for place, shift, away in options:
            middle = ax.transData.transform(place) + shift * point
            boxes.append(box := Bbox([middle - half * point, middle + half * point]).padded(point))
            outside = (box.x0 < frame.x0) + (box.x1 > frame.x1) + (box.y0 < frame.y0) + (box.y1 > frame.y1)
            covered = sum(track.intersects_bbox(box, filled=False) for track in drawn)
            if away > AWAY[0]:  # its leader
                ends = Path([middle, ax.transData.transform(place)])
                covered += sum(ends.intersects_bbox(other, filled=False) for other in written) + 0.2
            costs.append(covered + 3 * sum(map(box.overlaps, taken)) + 5 * outside + away / 100)
        place, shift, away = options[best := int(np.argmin(costs))]
        leader = {"arrowstyle": "-", "lw": 0.6, "color": colour, "shrinkA": 1, "shrinkB": 6} if away > AWAY[0] else None
        middle = {"textcoords": "offset points", "ha": "center", "va": "center", "fontsize": SIZE, "zorder": 7}
        ax.annotate(text, place, shift, color=colour, arrowprops=leader, **middle)
        taken.append(boxes[best])
        written.append(boxes[best])
        if leader:
            drawn.append(Path([ax.transData.transform(place) + shift * point, ax.transData.transform(place)]))
