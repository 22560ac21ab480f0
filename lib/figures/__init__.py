"""Draw the figures: the house style, one palette, and one function for each kind of figure.

A figure is as wide as on a phone: there one of its points is one pixel, so its text of 11 points stays readable, and a
wide figure is split into panels that stack. The ground is white and the ink nearly black; the site gives both, and
every other colour, the shade that belongs to the page, light or dark.
"""

import matplotlib.pyplot as plt  # noqa: F401  chapters draw with it, too

from .attention import matrices, pictures, sentences
from .charts import agreement, curves, dots, flips, histogram
from .maps import heatmap, regions
from .paths import plane
from .style import (
    BLUE,
    BROWN,
    FAINT,
    GREEN,
    INK,
    KINDS,
    LIGHT,
    MUTED,
    PALETTE,
    PAPER,
    PINK,
    SIZE,
    TEAL,
    VERMILION,
    VIOLET,
    WIDTH,
    colour_of,
    panels,
    theme,
)  # fmt: skip

__all__ = [
    "BLUE", "BROWN", "FAINT", "GREEN", "INK", "KINDS", "LIGHT", "MUTED", "PALETTE", "PAPER", "PINK", "SIZE", "TEAL",
    "VERMILION", "VIOLET", "WIDTH", "agreement", "colour_of", "curves", "dots", "flips", "heatmap",
    "histogram", "matrices", "panels", "pictures", "plane", "regions", "sentences", "theme",
]  # fmt: skip
