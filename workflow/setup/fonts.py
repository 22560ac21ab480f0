"""Make the fonts of the pages, which are kept in the repository, from the whole ones.

``python -m workflow.setup.fonts STIXTwoMath-Regular.ttf fa-solid-900.woff2``: the first comes with the package ziamath,
the second with pydata-sphinx-theme. Needs what tests need.
"""

import sys

from fontTools import subset
from fontTools.ttLib import TTFont

# Latin, Greek, the signs and letters that formulas of TeX use; no sans serif and no Fraktur.
FORMULAS = (
    "20-7E,A0,A8,AC,AF-B1,B4,B7,D7,F7,131,237,2C6,2C7,2D8-2DC,300-308,30A,30C,332,338,20D7,391-3C9,3D1,3D5,3D6,3F0,3F1,"
    "3F5,2002-200A,2013,2014,2016,2018-201D,2020-2022,2026,2032-2037,2061-2064,2102,210B,210E,2110,2112,2113,2115,2119-211D,2124,"
    "2130,2131,2133,2190-2199,21A6,21D0-21D4,27F5-27FA,27FC,2200-2209,220F-2213,2217-221E,2220,2223-222E,2234,2235,223C,"
    "2243,2245,2248,2254,2260-2265,226A,226B,227A,227B,2282-2287,2295-229A,22A2-22A5,22C0-22C6,22EE-22F1,2308-230B,"
    "23DC-23DF,27C2,27E6-27EB,2A7D,2A7E,2AAF,2AB0,1D400-1D467,1D49C-1D4B5,1D538-1D550,1D5CE,1D6E2-1D71B,1D7CE-1D7D7,FE00"
)
# What the menus, boxes and buttons of the theme show (tests/browser/test_site.py says which lack).
ICONS = (
    "F002,F00D,F010,F019,F03A,F042,F057,F058,F05A,F062,F064,F065,F06A,F071,F078,F09B,F0C9,F0EB,F0F3,F104,F105,F107,F15B,"
    "F185,F186,F1C1,F296,F303,F35D"
)


def main(formulas, icons):
    """Write both fonts into ``book/_static``."""
    for whole, codes, name in ((formulas, FORMULAS, "stix-two-math"), (icons, ICONS, "icons")):
        options = ["--flavor=woff2", "--no-hinting", "--layout-features=ssty,ccmp,dtls,flac", "--name-IDs=*"]
        subset.main([whole, f"--unicodes={codes}", f"--output-file=book/_static/{name}.woff2", *options])
    narrow_roots("book/_static/stix-two-math.woff2")


def narrow_roots(path):
    """Make signs of tall roots as wide as that of a small one: Chromium leaves room for the widest at every root."""
    font = TTFont(path)
    sign, variants = font.getBestCmap()[ord("√")], font["MATH"].table.MathVariants
    tall = variants.VertGlyphConstruction[variants.VertGlyphCoverage.glyphs.index(sign)]
    tall.GlyphAssembly = None  # for roots above three times the size of the text
    width = font["hmtx"][sign][0]
    for name in [variant.VariantGlyph for variant in tall.MathGlyphVariantRecord[1:]]:
        shape, (own, _) = font["glyf"][name], font["hmtx"][name]
        shape.coordinates.scale((width / own, 1))
        shape.coordinates.toInt()
        shape.recalcBounds(font["glyf"])
        font["hmtx"][name] = width, shape.xMin
    font.save(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
